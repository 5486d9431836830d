// SPDX-License-Identifier: BSD-2-Clause
//! Trees of what servers recorded, of what a grouper gives out, and of nonsense.

use std::time::Duration;

use logq::Grouping;
use logq::group::{Grouper, TxnFilter};
use logq::record::make;
use proptest::prelude::*;
use shm::vsl::Marker;

use super::*;
use crate::Handling;

fn bytes(vxid: u64, lines: &str) -> Vec<u8> {
    let record = |line: &str| {
        let (tag, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let tag = Tag::ALL.iter().find(|known| known.name() == tag).copied().expect("a tag");
        make(tag, vxid, Marker::Client, text.trim().as_bytes())
    };
    lines.lines().filter(|line| !line.trim().is_empty()).flat_map(record).collect()
}

fn txn(vxid: u64, level: u32, kind: TxnType, reason: BeginReason, records: &[u8]) -> Txn<'_> {
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
        let mut by_vxid: std::collections::BTreeMap<u64, Vec<u8>> = std::collections::BTreeMap::new();
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
fn grouped(transactions: &[(u64, &str)]) -> Vec<String> {
    fn shape(t: &Transaction) -> String {
        let below: Vec<String> = t.children.iter().map(shape).collect();
        if below.is_empty() { t.vxid.to_string() } else { format!("{}({})", t.vxid, below.join(" ")) }
    }
    let wanted = TxnFilter { backend: true, client: true, esi: true, limit: 1000, timeout: Duration::from_secs(60) };
    let mut grouper = Grouper::new(Grouping::Request, wanted);
    for (vxid, lines) in transactions {
        grouper.feed(&bytes(*vxid, lines), base::clock::now());
    }
    let made = grouper.take(trees).expect("a whole group").shown().expect("a request's");
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
    let group: Vec<Txn<'_>> = (1..=200u32)
        .map(|n| Txn { parent: u64::from(n) - 1, ..txn(n.into(), n, TxnType::Req, BeginReason::Esi, &empty) })
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
    let group =
        [txn(1, 1, TxnType::Sess, BeginReason::Http1, &session), txn(2, 2, TxnType::Req, BeginReason::Rxreq, &request)];
    assert_eq!(trees(&group).iter().map(|t| (t.vxid, t.parent)).collect::<Vec<_>>(), [(2, 1)]);
}

fn vxids(tree: &Transaction) -> Vec<u64> {
    tree.children.iter().flat_map(vxids).chain([tree.vxid]).collect()
}

fn depth(tree: &Transaction) -> usize {
    1 + tree.children.iter().map(depth).max().unwrap_or(0)
}

/// Transactions with their parents. Most parents are one of the last two, so that chains become deep. Some are any other: the transaction
/// itself, a later one, which makes cycles, or one that isn't in the group.
fn parents() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    let back = prop_oneof![60 => (1u64..=2).prop_map(Some), 1 => Just(None)];
    let one = (back, 0u64..250, proptest::bool::weighted(0.05));
    proptest::collection::vec(one, 0..200).prop_map(|all| {
        let one = |(vxid, (back, any, is_restart)): (u64, (Option<u64>, u64, bool))| {
            (vxid, back.map_or(any, |back| vxid.saturating_sub(back)), is_restart)
        };
        (1..).zip(all).map(one).collect()
    })
}

proptest! {
    #[test]
    fn each_transaction_is_in_one_tree(parents in parents(), is_turned: bool) {
        let empty = bytes(1, "Begin req 1 esi");
        let one = |(vxid, parent, is_restart): &(u64, u64, bool)| {
            let reason = if *is_restart { BeginReason::Restart } else { BeginReason::Esi };
            Txn { parent: *parent, ..txn(*vxid, 1, TxnType::Req, reason, &empty) }
        };
        let mut group: Vec<Txn<'_>> = parents.iter().map(one).collect();
        if is_turned {
            group.reverse();
        }
        let made = trees(&group);
        let mut found: Vec<u64> = made.iter().flat_map(vxids).collect();
        found.sort_unstable();
        prop_assert_eq!(found, (1..).take(group.len()).collect::<Vec<u64>>());
        prop_assert!(made.iter().all(|tree| depth(tree) <= MAX_DEPTH));
    }

    #[test]
    fn no_records_can_hurt(records in proptest::collection::vec((0u8..110, "[ -~]{0,40}"), 0..40), parent in 6u64..10) {
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
