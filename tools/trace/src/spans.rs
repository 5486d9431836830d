// SPDX-License-Identifier: BSD-2-Clause
//! A request as spans: its own, whose events are the steps that the log has times of, and those of what it caused.

use transactions::attributes::{self, Value};
use transactions::ids::{self, SpanId};
use transactions::{Kind, Transaction, UnixNs};

use crate::otlp::{Event, STATUS_ERROR, Span, SpanKind, Status, attribute};

/// Nested deeper, fragments hang at the last level.
const MAX_DEPTH: u32 = 32;
/// What a span tells of `std.log()`, at the most.
const MAX_NOTES: usize = 20;

/// Appends the spans of a client's request.
pub fn of_request(spans: &mut Vec<Span>, request: &Transaction) {
    add(spans, request, ids::of_request(request), 0);
}

fn add(spans: &mut Vec<Span>, t: &Transaction, id: SpanId, depth: u32) {
    let Some((begin, end)) = t.begin().zip(end_of(t)) else { return };
    let failure = t.errors.first().cloned().or_else(|| (t.response.status >= 500).then(String::new));
    spans.push(Span {
        trace_id: id.own.trace.to_be_bytes().to_vec(),
        span_id: id.own.span.to_be_bytes().to_vec(),
        parent_span_id: if id.parent == 0 { Vec::new() } else { id.parent.to_be_bytes().to_vec() },
        name: name(t),
        kind: kind(t) as i32,
        start_time_unix_nano: begin.0,
        end_time_unix_nano: end.0,
        attributes: attributes::of(t).into_iter().map(|(key, value)| attribute(key, value)).collect(),
        events: events(t),
        status: failure.map(|message| Status { message, code: STATUS_ERROR }),
        flags: u32::from(id.own.flags),
    });
    for child in &t.children {
        add(spans, child, ids::of_child(child, id), (depth + 1).min(MAX_DEPTH));
    }
}

/// Of a request that waits for its fragments they are a part; a fetch may go on when its client has all.
fn end_of(t: &Transaction) -> Option<UnixNs> {
    let within = t.children.iter().filter(|child| child.kind == Kind::Request).filter_map(end_of).max();
    t.end().max(within)
}

/// Low in number, as a span's name has to be: the path is an attribute.
fn name(t: &Transaction) -> String {
    match t.kind {
        Kind::Request => t.request.method.clone(),
        Kind::Fetch => format!("{} {}", t.reason, t.peer.as_ref().map_or("", |peer| &peer.name)).trim().to_owned(),
    }
}

fn kind(t: &Transaction) -> SpanKind {
    match (t.kind, t.reason) {
        (Kind::Request, "rxreq") => SpanKind::Server,
        (Kind::Request, _) => SpanKind::Internal,
        (Kind::Fetch, _) => SpanKind::Client,
    }
}

/// The steps of a transaction, and what VCL has logged and decided.
fn events(t: &Transaction) -> Vec<Event> {
    let at = |time: UnixNs, name: String, attributes| Event { time_unix_nano: time.0, name, attributes };
    let mut events: Vec<Event> = t.stamps.iter().map(|stamp| at(stamp.at, stamp.label.clone(), Vec::new())).collect();
    let begin = t.begin().unwrap_or_default();
    let calls: Vec<String> = t.calls.iter().map(|call| format!("{} {}", call.sub, call.action)).collect();
    if !calls.is_empty() {
        // When each was called the log doesn't say.
        events.push(at(begin, "vcl".into(), vec![attribute("lacquer.vcl.calls", Value::Text(calls.join(", ")))]));
    }
    for note in t.notes.iter().take(MAX_NOTES) {
        events.push(at(begin, "log".into(), vec![attribute("message", Value::Text(note.clone()))]));
    }
    for error in &t.errors {
        let end = t.end().unwrap_or(begin);
        events.push(at(end, "exception".into(), vec![attribute("exception.message", Value::Text(error.clone()))]));
    }
    events
}

#[cfg(test)]
mod tests {
    use transactions::{Message, Peer, Stamp};

    use super::*;

    fn stamps(from: u64, to: u64) -> Vec<Stamp> {
        [("Start", from), ("Resp", to)].map(|(label, at)| Stamp { label: label.into(), at: UnixNs(at) }).to_vec()
    }

    #[test]
    fn spans_nest_as_transactions_do() {
        let fetch = Transaction {
            vxid: 3,
            kind: Kind::Fetch,
            reason: "fetch",
            stamps: stamps(110, 400),
            peer: Some(Peer { name: "boot.default".into(), ..Peer::default() }),
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
            request: Message { method: "GET".into(), ..Message::default() },
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
}
