// SPDX-License-Identifier: BSD-2-Clause
//! From a group's records to [`Transaction`]s.

use std::collections::HashMap;

use logq::{BeginReason, Rec, Txn, TxnType, records};
use tables::{Tag, no_hit};

use crate::{
    ByteCounts, Handling, Transaction, TransactionMessage, TransactionPeer, TransactionStamp, TransactionType, UnixNs,
    VclCall,
};

/// Levels of a tree at most: whoever walks it calls itself. A deeper transaction becomes a sibling of its parent.
const MAX_DEPTH: usize = 64;

/// The trees of a group, in which a parent stands before its children (level by level, as [`logq::group`] gives it out):
/// each transaction below the one that caused it, a restart beside the request that it continues. A transaction whose
/// parent is not in the group is a root. Sessions and records alone are left out.
pub fn trees(group: &[Txn<'_>]) -> Vec<Transaction> {
    struct Node {
        made: Transaction,
        /// The index of the node above.
        above: Option<usize>,
        depth: usize,
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(group.len());
    let mut by_vxid: HashMap<u32, usize> = HashMap::with_capacity(group.len());
    for txn in group {
        let Some(made) = transaction(txn) else { continue };
        let parent = by_vxid.get(&txn.parent).and_then(|at| Some((*at, nodes.get(*at)?)));
        let above = match parent {
            Some((_, parent)) if txn.reason == BeginReason::Restart || parent.depth == MAX_DEPTH => parent.above,
            parent => parent.map(|(at, _)| at),
        };
        let depth = above.and_then(|at| nodes.get(at)).map_or(1, |node| node.depth + 1);
        by_vxid.insert(txn.vxid, nodes.len());
        nodes.push(Node { made, above, depth });
    }
    let mut roots = Vec::new();
    // From the last to the first, so that a node is whole when it moves below another.
    while let Some(Node { mut made, above, .. }) = nodes.pop() {
        made.children.reverse();
        match above.and_then(|at| nodes.get_mut(at)) {
            Some(node) => node.made.children.push(made),
            None => roots.push(made),
        }
    }
    roots.reverse();
    roots
}

/// The transaction that records tell. `None`: it is neither a request nor a fetch.
fn transaction(txn: &Txn<'_>) -> Option<Transaction> {
    let kind = match txn.kind {
        TxnType::Req => TransactionType::Request,
        TxnType::Bereq => TransactionType::Fetch,
        TxnType::Unknown | TxnType::Sess | TxnType::Raw => return None,
    };
    let made =
        Transaction { vxid: txn.vxid, kind, reason: txn.reason.name(), parent: txn.parent, ..Default::default() };
    let mut builder = Builder { made, is_settled: false };
    records(txn.records).for_each(|rec| builder.record(&rec));
    Some(builder.made)
}

struct Builder {
    made: Transaction,
    /// VCL has its say: of what changes now the client's request shows nothing.
    is_settled: bool,
}

fn text(rec: &Rec<'_>) -> String {
    String::from_utf8_lossy(rec.text()).into_owned()
}

impl Builder {
    fn record(&mut self, rec: &Rec<'_>) {
        let text = text(rec);
        match rec.tag {
            Tag::Begin => self.begin(&text),
            Tag::Timestamp => self.stamp(&text),
            Tag::ReqStart => self.client(&text),
            Tag::BackendOpen => self.backend(&text),
            Tag::ReqAcct | Tag::BereqAcct => self.made.bytes = account(&text),
            Tag::PipeAcct => self.made.bytes = pipe_account(&text),
            Tag::VclUse => self.made.vcl = first_word(&text).to_owned(),
            Tag::VclCall => self.call(&text),
            Tag::VclReturn => self.returned(&text),
            Tag::Hit => self.made.handling = Some(Handling::Hit),
            Tag::VclLog => self.made.notes.push(text),
            Tag::FetchError | Tag::Error | Tag::VclError => self.made.errors.push(text),
            Tag::Notice => {
                if let Some(why) = text.strip_prefix(no_hit::NOTICE) {
                    self.made.no_hit = Some(why.to_owned());
                }
            }
            _ => self.message(rec.tag, text),
        }
    }

    fn begin(&mut self, text: &str) {
        if let Some(parent) = text.split_ascii_whitespace().nth(1).and_then(|vxid| vxid.parse().ok()) {
            self.made.parent = parent;
        }
    }

    /// `Start: 1700000000.123456 0.000000 0.000000`
    fn stamp(&mut self, text: &str) {
        let Some((label, rest)) = text.split_once(": ") else { return };
        if let Some(at) = UnixNs::parse(first_word(rest)) {
            self.made.stamps.push(TransactionStamp { label: label.to_owned(), at });
        }
    }

    /// `127.0.0.1 53522 a0 https`
    fn client(&mut self, text: &str) {
        let mut words = text.split_ascii_whitespace();
        let mut word = || words.next().unwrap_or_default();
        let (address, port, name) = (word().to_owned(), word().parse().unwrap_or_default(), word().to_owned());
        self.made.is_tls = word() == "https";
        self.made.peer = Some(TransactionPeer { address, port, name, is_reused: false });
    }

    /// `28 default 127.0.0.1 8080 127.0.0.1 40000 connect`
    fn backend(&mut self, text: &str) {
        let is_reused = text.ends_with(" reuse");
        let mut words = text.split_ascii_whitespace().skip(1);
        let mut word = || words.next().unwrap_or_default();
        let (name, address, port) = (word().to_owned(), word().to_owned(), word().parse().unwrap_or_default());
        self.made.peer = Some(TransactionPeer { address, port, name, is_reused });
    }

    fn call(&mut self, sub: &str) {
        self.is_settled = true;
        self.made.handling = Handling::of_vcl_call(sub.as_bytes()).or(self.made.handling);
        self.made.calls.push(VclCall { sub: sub.to_ascii_lowercase(), action: String::new() });
    }

    fn returned(&mut self, action: &str) {
        if let Some(call) = self.made.calls.last_mut() {
            call.action = action.to_ascii_lowercase();
        }
    }

    /// Records of heads. The client's request is kept as it came, all others as VCL has left them.
    fn message(&mut self, tag: Tag, text: String) {
        let request = &mut self.made.request;
        match tag {
            Tag::ReqMethod | Tag::ReqUrl | Tag::ReqProtocol | Tag::ReqHeader | Tag::ReqUnset if self.is_settled => {}
            Tag::ReqMethod | Tag::BereqMethod => request.method = text,
            Tag::ReqUrl | Tag::BereqUrl => request.url = text,
            Tag::ReqProtocol | Tag::BereqProtocol => request.protocol = text,
            Tag::ReqHeader | Tag::BereqHeader => {
                if let Some(value) = text.strip_prefix("traceparent: ") {
                    self.made.trace_parents.push(value.to_owned());
                }
                add(request, &text);
            }
            Tag::ReqUnset | Tag::BereqUnset => remove(request, &text),
            _ => self.answer(tag, text),
        }
    }

    fn answer(&mut self, tag: Tag, text: String) {
        let response = &mut self.made.response;
        match tag {
            // The next answer begins, be it the final one behind an interim one.
            Tag::RespProtocol | Tag::BerespProtocol => {
                *response = TransactionMessage { protocol: text, ..TransactionMessage::default() }
            }
            Tag::RespStatus | Tag::BerespStatus => response.status = text.parse().unwrap_or_default(),
            Tag::RespReason | Tag::BerespReason => response.reason = text,
            Tag::RespHeader | Tag::BerespHeader => add(response, &text),
            Tag::RespUnset | Tag::BerespUnset => remove(response, &text),
            _ => {}
        }
    }
}

fn first_word(text: &str) -> &str {
    text.split_ascii_whitespace().next().unwrap_or_default()
}

/// Adds a field, `Name: value`.
fn add(message: &mut TransactionMessage, text: &str) {
    if let Some((name, value)) = text.split_once(':') {
        message.fields.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn remove(message: &mut TransactionMessage, text: &str) {
    if let Some((name, value)) = text.split_once(':') {
        let value = value.trim();
        let at = message.fields.iter().position(|(n, v)| n.eq_ignore_ascii_case(name) && v == value);
        at.into_iter().for_each(|at| drop(message.fields.remove(at)));
    }
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
}

/// `head body both head body both`
fn account(text: &str) -> Option<ByteCounts> {
    match numbers(text)?.as_slice() {
        &[req_head, req_body, _, resp_head, resp_body, ..] => {
            Some(ByteCounts { req_head, req_body, resp_head, resp_body })
        }
        _ => None,
    }
}

/// Heads of the client's request and the backend's, bytes piped from the client and to it.
fn pipe_account(text: &str) -> Option<ByteCounts> {
    match numbers(text)?.as_slice() {
        &[req_head, _, req_body, resp_body, ..] => Some(ByteCounts { req_head, req_body, resp_head: 0, resp_body }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use logq::Grouping;
    use logq::group::{Grouper, TxnFilter};
    use logq::record::make;
    use proptest::prelude::*;
    use shm::vsl::Marker;

    use super::*;

    fn bytes(vxid: u32, lines: &str) -> Vec<u8> {
        let record = |line: &str| {
            let (tag, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            let tag = Tag::ALL.iter().find(|known| known.name() == tag).copied().expect("a tag");
            make(tag, vxid, Marker::Client, text.trim().as_bytes())
        };
        lines.lines().filter(|line| !line.trim().is_empty()).flat_map(record).collect()
    }

    fn txn(vxid: u32, level: u32, kind: TxnType, reason: BeginReason, records: &[u8]) -> Txn<'_> {
        Txn { vxid, level, parent: 0, kind, reason, records }
    }

    const CLIENT: &str = "
        Begin req 1 rxreq
        Timestamp Start: 1700000000.000100 0.000000 0.000000
        VCL_use boot
        ReqStart 192.0.2.1 4711 a0 https
        ReqMethod GET
        ReqURL /a?b
        ReqProtocol HTTP/1.1
        ReqHeader Host: x
        ReqHeader Cookie: a=b
        VCL_call RECV
        ReqUnset Cookie: a=b
        ReqURL /a
        VCL_return hash
        VCL_call MISS
        VCL_return fetch
        RespProtocol HTTP/1.1
        RespStatus 103
        RespReason Early Hints
        RespProtocol HTTP/1.1
        RespStatus 200
        RespReason OK
        RespHeader Age: 0
        RespHeader X: y
        RespUnset X: y
        Notice lacquer: no hit: first-fetch
        Timestamp Resp: 1700000000.250100 0.250000 0.010000
        ReqAcct 80 0 80 220 128 348
        End";

    const FETCH: &str = "
        Begin bereq 2 fetch
        Timestamp Start: 1700000000.000200 0.000000 0.000000
        BereqMethod GET
        BereqURL /a
        BackendOpen 28 boot.default 127.0.0.1 8080 127.0.0.1 40000 reuse
        BerespStatus 503
        FetchError no backend connection
        End";

    #[test]
    fn a_request_has_its_fetch() {
        let (client, fetch) = (bytes(2, CLIENT), bytes(3, FETCH));
        let below = Txn { parent: 2, ..txn(3, 2, TxnType::Bereq, BeginReason::Fetch, &fetch) };
        let group = [txn(2, 1, TxnType::Req, BeginReason::Rxreq, &client), below];
        let trees = trees(&group);
        assert_eq!(trees.len(), 1);
        let request = &trees[0];
        assert_eq!((request.request.url.as_str(), request.request.field("cookie")), ("/a?b", Some("a=b")));
        assert_eq!((request.response.status, request.response.fields.len()), (200, 1));
        assert_eq!((request.handling, request.no_hit.as_deref()), (Some(Handling::Miss), Some("first-fetch")));
        assert_eq!((request.duration_ns(), request.parent, request.is_tls), (Some(250_000_000), 1, true));
        assert_eq!(request.bytes.map(|b| (b.req_head, b.resp_body)), Some((80, 128)));
        assert_eq!(request.calls[0], VclCall { sub: "recv".into(), action: "hash".into() });
        let fetch = &request.children[0];
        let peer = fetch.peer.as_ref().expect("a backend");
        assert_eq!((peer.name.as_str(), peer.port, peer.is_reused), ("boot.default", 8080, true));
        assert!(request.has_failed() && fetch.reason == "fetch");
    }

    #[test]
    fn both_servers_records_are_the_requests_that_were_sent() {
        let shapes = |records: Vec<testkit::recorded::TestRecord>| {
            let log = testkit::recorded::log(&records, |name| Tag::from_name(name).expect("a tag").number());
            let mut by_vxid: std::collections::BTreeMap<u32, Vec<u8>> = std::collections::BTreeMap::new();
            for rec in logq::records(&log) {
                by_vxid.entry(rec.vxid).or_default().extend(rec.bytes);
            }
            let requests = records.iter().filter(|rec| rec.tag == "Begin" && rec.text.starts_with("req "));
            let mut shapes: Vec<_> = requests
                .flat_map(|begin| trees(&[txn(begin.vxid, 1, TxnType::Req, BeginReason::Rxreq, &by_vxid[&begin.vxid])]))
                .map(|t| (t.request.url.clone(), t.response.status, t.handling, t.duration_ns().is_some()))
                .collect();
            shapes.sort_by_key(|shape| format!("{shape:?}"));
            shapes
        };
        let (ours, theirs) = (shapes(testkit::recorded::lacquer()), shapes(testkit::recorded::varnish()));
        assert!(ours.len() > 20, "{ours:?}");
        assert_eq!(ours, theirs);
        assert!(ours.contains(&("/synth".to_owned(), 403, Some(Handling::Synth), true)), "{ours:?}");
    }

    #[test]
    fn which_of_several_records_counts() {
        let records = testkit::recorded::repeated();
        let of = |vxid| {
            let own: Vec<_> = records.iter().filter(|rec| rec.vxid == vxid).copied().collect();
            testkit::recorded::log(&own, |name| Tag::from_name(name).expect("a tag").number())
        };
        let (request, fetch) = (of(3), of(4));
        let below = Txn { parent: 3, ..txn(4, 2, TxnType::Bereq, BeginReason::Pass, &fetch) };
        let trees = trees(&[txn(3, 1, TxnType::Req, BeginReason::Rxreq, &request), below]);
        let ([request], [fetch]) = (trees.as_slice(), trees[0].children.as_slice()) else { panic!("{trees:?}") };
        let fields = |message: &TransactionMessage| {
            let all: Vec<String> = message.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let (method, url, protocol) = (&message.method, &message.url, &message.protocol);
            format!("{method} {url} {protocol} {} {} [{}]", message.status, message.reason, all.join(", "))
        };
        assert_eq!(
            [fields(&request.request), fields(&request.response), fields(&fetch.request), fields(&fetch.response)],
            [
                "GET /asked?q=1 HTTP/1.0 0  [Host: asked.test, Cookie: _ga=1, Cookie: b=2, User-Agent: kept]",
                "  HTTP/1.1 200 OK [X: y]",
                "POST /sent HTTP/1.1 0  [X: 1, Host: sent.test]",
                "  HTTP/1.1 200 OK [Vary: X, Cache-Control: max-age=3]",
            ]
        );
        assert_eq!((request.parent, request.vcl.as_str(), request.handling), (2, "reload_2", Some(Handling::Pass)));
        assert_eq!(
            (request.begin().map(|at| at.0), request.duration_ns()),
            (Some(1_700_000_000_100_000_000), Some(800_000_000))
        );
        assert_eq!((request.no_hit.as_deref(), request.errors.join(", ").as_str()), (Some("pass"), "first, second"));
        assert_eq!(request.stamps.len(), 9);
        let backend = fetch.peer.as_ref().expect("a backend");
        assert_eq!((backend.name.as_str(), backend.address.as_str(), backend.port), ("second", "192.0.2.11", 8080));
        assert_eq!((backend.is_reused, fetch.bytes.map(|bytes| bytes.resp_body)), (true, Some(1000)));
    }

    /// The children of each transaction, by vxid, of what the grouper makes of these records.
    fn grouped(transactions: &[(u32, &str)]) -> Vec<String> {
        fn shape(t: &Transaction) -> String {
            let below: Vec<String> = t.children.iter().map(shape).collect();
            if below.is_empty() { t.vxid.to_string() } else { format!("{}({})", t.vxid, below.join(" ")) }
        }
        let wanted =
            TxnFilter { backend: true, client: true, esi: true, limit: 1000, timeout: Duration::from_secs(60) };
        let mut grouper = Grouper::new(Grouping::Request, wanted);
        for (vxid, lines) in transactions {
            grouper.feed(&bytes(*vxid, lines), base::clock::now());
        }
        let made = grouper.take(trees).expect("a whole group").expect("a request's");
        made.iter().map(shape).collect()
    }

    #[test]
    fn each_fragment_has_its_own_fetch() {
        let shapes = grouped(&[
            (4, "Begin req 2 esi \n Link bereq 5 fetch \n End"),
            (5, "Begin bereq 4 fetch \n End"),
            (6, "Begin req 2 esi \n Link bereq 7 fetch \n Link req 8 esi \n End"),
            (7, "Begin bereq 6 fetch \n End"),
            (8, "Begin req 6 esi \n End"),
            (3, "Begin bereq 2 fetch \n End"),
            (2, "Begin req 1 rxreq \n Link req 4 esi \n Link req 6 esi \n Link bereq 3 fetch \n End"),
        ]);
        assert_eq!(shapes, ["2(4(5) 6(7 8) 3)"]);
    }

    #[test]
    fn a_restart_stands_beside_what_it_continues() {
        let shapes = grouped(&[
            (2, "Begin req 1 rxreq \n Link bereq 3 fetch \n Link req 4 restart \n End"),
            (3, "Begin bereq 2 fetch \n End"),
            (4, "Begin req 2 restart \n Link req 5 esi \n End"),
            (5, "Begin req 4 esi \n Link req 6 restart \n End"),
            (6, "Begin req 5 restart \n Link bereq 7 fetch \n End"),
            (7, "Begin bereq 6 fetch \n End"),
        ]);
        assert_eq!(shapes, ["2(3)", "4(5 6(7))"]);
    }

    #[test]
    fn fetches_without_their_requests_are_roots() {
        let empty = bytes(3, "Begin bereq 2 fetch");
        let at = |vxid, level, parent| Txn { parent, ..txn(vxid, level, TxnType::Bereq, BeginReason::Fetch, &empty) };
        let made = trees(&[at(3, 2, 2), at(5, 3, 4)]);
        assert_eq!(made.iter().map(|t| (t.vxid, t.children.len())).collect::<Vec<_>>(), [(3, 0), (5, 0)]);
    }

    #[test]
    fn a_tree_is_not_deeper_than_its_bound() {
        let empty = bytes(1, "Begin req 1 esi");
        let group: Vec<Txn<'_>> = (1..=200)
            .map(|vxid| Txn { parent: vxid - 1, ..txn(vxid, vxid, TxnType::Req, BeginReason::Esi, &empty) })
            .collect();
        let made = trees(&group);
        let (mut at, mut depth, mut count) = (&made[0], 1, 1);
        while let Some(first) = at.children.first() {
            (depth, count) = (depth + 1, count + at.children.len());
            at = first;
        }
        assert_eq!((made.len(), depth, count), (1, MAX_DEPTH, 200));
    }

    #[test]
    fn a_session_is_no_request() {
        let session = bytes(1, "Begin sess 0 HTTP/1");
        let request = bytes(2, "Begin req 1 rxreq");
        let group = [
            txn(1, 1, TxnType::Sess, BeginReason::Http1, &session),
            txn(2, 2, TxnType::Req, BeginReason::Rxreq, &request),
        ];
        assert_eq!(trees(&group).iter().map(|t| (t.vxid, t.parent)).collect::<Vec<_>>(), [(2, 1)]);
    }

    fn vxids(tree: &Transaction) -> Vec<u32> {
        tree.children.iter().flat_map(vxids).chain([tree.vxid]).collect()
    }

    fn depth(tree: &Transaction) -> usize {
        1 + tree.children.iter().map(depth).max().unwrap_or(0)
    }

    /// Transactions with their parents. Most parents are one of the last two, so that chains become deep. Some are any other: the transaction
    /// itself, a later one, which makes cycles, or one that isn't in the group.
    fn parents() -> impl Strategy<Value = Vec<(u32, u32, bool)>> {
        let back = prop_oneof![60 => (1u32..=2).prop_map(Some), 1 => Just(None)];
        let one = (back, 0u32..250, proptest::bool::weighted(0.05));
        proptest::collection::vec(one, 0..200).prop_map(|all| {
            let one = |(vxid, (back, any, is_restart)): (u32, (Option<u32>, u32, bool))| {
                (vxid, back.map_or(any, |back| vxid.saturating_sub(back)), is_restart)
            };
            (1..).zip(all).map(one).collect()
        })
    }

    proptest! {
        #[test]
        fn each_transaction_is_in_one_tree(parents in parents(), is_turned: bool) {
            let empty = bytes(1, "Begin req 1 esi");
            let one = |(vxid, parent, is_restart): &(u32, u32, bool)| {
                let reason = if *is_restart { BeginReason::Restart } else { BeginReason::Esi };
                Txn { parent: *parent, ..txn(*vxid, 1, TxnType::Req, reason, &empty) }
            };
            let mut group: Vec<Txn<'_>> = parents.iter().map(one).collect();
            if is_turned {
                group.reverse();
            }
            let made = trees(&group);
            let mut found: Vec<u32> = made.iter().flat_map(vxids).collect();
            found.sort_unstable();
            prop_assert_eq!(found, (1..).take(group.len()).collect::<Vec<u32>>());
            prop_assert!(made.iter().all(|tree| depth(tree) <= MAX_DEPTH));
        }

        #[test]
        fn no_records_can_hurt(records in proptest::collection::vec((0u8..110, "[ -~]{0,40}"), 0..40), parent in 6u32..10) {
            let bytes: Vec<u8> = records
                .iter()
                .filter_map(|(tag, text)| Some(make(Tag::from_number(*tag)?, 7, Marker::Client, text.as_bytes())))
                .flatten()
                .collect();
            let fetch = Txn { parent, ..txn(8, 2, TxnType::Bereq, BeginReason::Pass, &bytes) };
            let group = [txn(7, 1, TxnType::Req, BeginReason::Rxreq, &bytes), fetch];
            let mut out = String::new();
            for tree in trees(&group) {
                for names in crate::json::FieldNaming::ALL {
                    crate::json::line(&mut out, &tree, *names);
                }
            }
            for line in out.lines() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
            }
        }
    }
}
