// SPDX-License-Identifier: BSD-2-Clause
//! A request as spans: its own, whose events are the steps that the log has times of, those of what it caused, and those of what it waited
//! for: a connection, the head of an answer, its body, another's fetch.

use transactions::attributes::{self, AttributeValue};
use transactions::ids::{self, SpanId};
use transactions::{Transaction, TransactionType, UnixNs};

use crate::otlp::{OtlpSpan, STATUS_ERROR, SpanEvent, SpanKind, SpanStatus, attribute};

/// Nested deeper, fragments hang at the last level.
const MAX_DEPTH: u32 = 32;
/// Texts of `std.log()` that a span has at the most.
const MAX_NOTES: usize = 20;

/// The things that are waited for: the span's name, and the records Timestamp that it begins and ends with.
const WAITS: [(&str, &str, &str); 3] =
    [("connect", "Fetch", "Connected"), ("wait", "Bereq", "Beresp"), ("body", "Beresp", "BerespBody")];
/// Spans of waits have numbers from there on among those that a span has caused: above those of transactions.
const FIRST_WAIT: u64 = 1 << 40;

pub fn of_request(spans: &mut Vec<OtlpSpan>, request: &Transaction) {
    add(spans, request, ids::of_request(request), 0);
}

fn add(spans: &mut Vec<OtlpSpan>, t: &Transaction, id: SpanId, depth: u32) {
    let Some((begin, end)) = t.begin().zip(end_of(t)) else { return };
    let failure = t.errors.first().cloned().or_else(|| (t.response.status >= 500).then(String::new));
    spans.push(OtlpSpan {
        trace_id: id.own.trace.to_be_bytes().to_vec(),
        span_id: id.own.span.to_be_bytes().to_vec(),
        parent_span_id: if id.parent == 0 { Vec::new() } else { id.parent.to_be_bytes().to_vec() },
        name: name(t),
        kind: kind(t) as i32,
        start_time_unix_nano: begin.0,
        end_time_unix_nano: end.0,
        attributes: attributes::of(t).into_iter().map(|(key, value)| attribute(key, value)).collect(),
        events: events(t),
        status: failure.map(|message| SpanStatus { message, code: STATUS_ERROR }),
        flags: u32::from(id.own.flags),
    });
    waits(spans, t, id);
    for child in &t.children {
        add(spans, child, ids::of_child(child, id), (depth + 1).min(MAX_DEPTH));
    }
}

/// Appends what a transaction waited for. Of a connection that was there before nothing was waited for.
fn waits(spans: &mut Vec<OtlpSpan>, t: &Transaction, id: SpanId) {
    let is_reused = t.peer.as_ref().is_some_and(|peer| peer.is_reused);
    let fetch =
        WAITS.iter().filter(|(name, ..)| t.kind == TransactionType::Fetch && !(is_reused && *name == "connect"));
    let fetch = fetch.filter_map(|(name, from, to)| Some((*name, t.stamp(from)?, t.stamp(to)?)));
    let others = t.stamps.windows(2).filter(|pair| pair[1].label == "Waitinglist");
    let others = others.map(|pair| ("waitinglist", pair[0].at, pair[1].at));
    for (number, (name, begin, end)) in (FIRST_WAIT..).zip(fetch.chain(others)) {
        spans.push(OtlpSpan {
            trace_id: id.own.trace.to_be_bytes().to_vec(),
            span_id: id.own.child(number).span.to_be_bytes().to_vec(),
            parent_span_id: id.own.span.to_be_bytes().to_vec(),
            name: name.to_owned(),
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: begin.0,
            end_time_unix_nano: end.0.max(begin.0),
            attributes: Vec::new(),
            events: Vec::new(),
            status: None,
            flags: u32::from(id.own.flags),
        });
    }
}

/// The end of a transaction. The fragments of a request that waits for them are a part; a fetch may go on when its
/// client has all.
fn end_of(t: &Transaction) -> Option<UnixNs> {
    let within = t.children.iter().filter(|child| child.kind == TransactionType::Request).filter_map(end_of).max();
    t.end().max(within)
}

/// Low in number, as a span's name has to be: the path is an attribute.
fn name(t: &Transaction) -> String {
    match t.kind {
        TransactionType::Request => t.request.method.clone(),
        TransactionType::Fetch => {
            format!("{} {}", t.reason, t.peer.as_ref().map_or("", |peer| &peer.name)).trim().to_owned()
        }
    }
}

fn kind(t: &Transaction) -> SpanKind {
    match (t.kind, t.reason) {
        (TransactionType::Request, "rxreq") => SpanKind::Server,
        (TransactionType::Request, _) => SpanKind::Internal,
        (TransactionType::Fetch, _) => SpanKind::Client,
    }
}

/// The steps of a transaction, and what VCL has logged and decided.
fn events(t: &Transaction) -> Vec<SpanEvent> {
    let at = |time: UnixNs, name: String, attributes| SpanEvent { time_unix_nano: time.0, name, attributes };
    let mut events: Vec<SpanEvent> =
        t.stamps.iter().map(|stamp| at(stamp.at, stamp.label.clone(), Vec::new())).collect();
    let begin = t.begin().unwrap_or_default();
    let calls: Vec<String> = t.calls.iter().map(|call| format!("{} {}", call.sub, call.action)).collect();
    if !calls.is_empty() {
        // When each was called the log doesn't say.
        events.push(at(
            begin,
            "vcl".into(),
            vec![attribute("lacquer.vcl.calls", AttributeValue::Text(calls.join(", ")))],
        ));
    }
    for note in t.notes.iter().take(MAX_NOTES) {
        events.push(at(begin, "log".into(), vec![attribute("message", AttributeValue::Text(note.clone()))]));
    }
    for error in &t.errors {
        let end = t.end().unwrap_or(begin);
        events.push(at(
            end,
            "exception".into(),
            vec![attribute("exception.message", AttributeValue::Text(error.clone()))],
        ));
    }
    events
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use logq::Grouping;
    use logq::group::{Grouper, TxnFilter};
    use tables::Tag;
    use transactions::{TransactionMessage, TransactionPeer, TransactionStamp};

    use super::*;

    fn stamps(from: u64, to: u64) -> Vec<TransactionStamp> {
        [("Start", from), ("Resp", to)]
            .map(|(label, at)| TransactionStamp { label: label.into(), at: UnixNs(at) })
            .to_vec()
    }

    #[test]
    fn spans_nest_as_transactions_do() {
        let fetch = Transaction {
            vxid: 3,
            kind: TransactionType::Fetch,
            reason: "fetch",
            stamps: stamps(110, 400),
            peer: Some(TransactionPeer { name: "boot.default".into(), ..TransactionPeer::default() }),
            errors: vec!["timeout".into()],
            ..Transaction::default()
        };
        let fragment = Transaction {
            vxid: 4,
            reason: "esi",
            stamps: stamps(120, 500),
            children: vec![fetch],
            ..Transaction::default()
        };
        let request = Transaction {
            vxid: 2,
            reason: "rxreq",
            stamps: stamps(100, 300),
            request: TransactionMessage { method: "GET".into(), ..TransactionMessage::default() },
            children: vec![fragment],
            ..Transaction::default()
        };
        let mut spans = Vec::new();
        of_request(&mut spans, &request);
        let shape: Vec<_> = spans
            .iter()
            .map(|span| (span.name.as_str(), span.kind, span.start_time_unix_nano, span.end_time_unix_nano))
            .collect();
        let (server, internal, client) = (SpanKind::Server as i32, SpanKind::Internal as i32, SpanKind::Client as i32);
        assert_eq!(
            shape,
            [("GET", server, 100, 500), ("", internal, 120, 500), ("fetch boot.default", client, 110, 400)]
        );
        assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id));
        assert_eq!((&spans[1].parent_span_id, &spans[2].parent_span_id), (&spans[0].span_id, &spans[1].span_id));
        assert!(spans[0].parent_span_id.is_empty() && spans[0].status.is_none());
        assert_eq!(spans[2].status.as_ref().map(|status| status.message.as_str()), Some("timeout"));
    }

    /// The spans of the requests for `url` that a server wrote of: name, and the name of the one above.
    fn recorded(records: &[testkit::recorded::TestRecord], url: &str) -> Vec<(String, String)> {
        let wanted =
            TxnFilter { backend: true, client: true, esi: true, limit: 1000, timeout: Duration::from_secs(120) };
        let mut grouper = Grouper::new(Grouping::Request, wanted);
        let log = testkit::recorded::log(records, |name| Tag::from_name(name).expect("a tag").number());
        logq::records(&log).for_each(|rec| grouper.feed(rec.bytes, Instant::now()));
        let mut told = Vec::new();
        while let Some(taken) = grouper.take(transactions::trees) {
            let requests = taken.shown();
            for request in requests.iter().flatten().filter(|request| request.request.url == url) {
                let mut spans = Vec::new();
                of_request(&mut spans, request);
                let above = |span: &OtlpSpan| spans.iter().find(|other| other.span_id == span.parent_span_id);
                for span in &spans {
                    assert!(span.start_time_unix_nano > 1_700_000_000_000_000_000, "{span:?}");
                    assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:?}");
                    told.push((span.name.clone(), above(span).map_or_else(String::new, |other| other.name.clone())));
                }
            }
        }
        told
    }

    #[test]
    fn what_was_waited_for_is_below_who_waited() {
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, above)| ((*name).to_owned(), (*above).to_owned())).collect()
        };
        for records in [testkit::recorded::lacquer(), testkit::recorded::varnish()] {
            let (get, fetch) = (("GET", ""), "fetch default");
            // The connection was there; the second of two waited for the first's fetch, and ended before it in the log or after it.
            let mut slow = recorded(&records, "/slow");
            slow.sort();
            let mut want = pairs(&[get, get, ("waitinglist", "GET"), (fetch, "GET"), ("wait", fetch), ("body", fetch)]);
            want.sort();
            assert_eq!(slow, want);
            let first = pairs(&[get, (fetch, "GET"), ("connect", fetch), ("wait", fetch), ("body", fetch)]);
            assert!(recorded(&records, "/a").starts_with(&first), "{:?}", recorded(&records, "/a"));
            assert_eq!(recorded(&records, "/dead"), pairs(&[get, ("fetch", "GET")]));
        }
    }
}
