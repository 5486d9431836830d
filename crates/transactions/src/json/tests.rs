// SPDX-License-Identifier: BSD-2-Clause
//! The lines as other programs read them.

use serde_json::Value;

use super::*;
use crate::{ByteCounts, Handling, TransactionMessage, TransactionPeer, TransactionStamp, TransactionType, UnixNs};

fn sample() -> Transaction {
    let stamps = [("Start", 0u64), ("Resp", 250_000_000)];
    let at = |ns| UnixNs(1_700_000_000_000_100_000 + ns);
    let fetch = Transaction {
        vxid: 3,
        kind: TransactionType::Fetch,
        reason: "fetch",
        peer: Some(TransactionPeer {
            address: "127.0.0.1".into(),
            port: 8080,
            name: "boot.default".into(),
            is_reused: true,
        }),
        errors: vec!["first byte timeout".into()],
        ..Transaction::default()
    };
    Transaction {
        vxid: 2,
        reason: "rxreq",
        parent: 1,
        stamps: stamps.map(|(label, ns)| TransactionStamp { label: label.into(), at: at(ns) }).to_vec(),
        peer: Some(TransactionPeer { address: "192.0.2.1".into(), port: 4711, name: "a0".into(), is_reused: false }),
        request: TransactionMessage {
            method: "GET".into(),
            url: "/a?b=\"<script>".into(),
            protocol: "HTTP/1.1".into(),
            fields: [("Host", "x"), ("Cookie", "secret=1"), ("User-Agent", "a\u{1}b")]
                .map(|(name, value)| (name.into(), value.into()))
                .to_vec(),
            ..TransactionMessage::default()
        },
        response: TransactionMessage {
            status: 503,
            reason: "Backend fetch failed".into(),
            ..TransactionMessage::default()
        },
        handling: Some(Handling::Miss),
        bytes: Some(ByteCounts { req_head: 80, req_body: 0, resp_head: 220, resp_body: 128 }),
        children: vec![fetch],
        ..Transaction::default()
    }
}

fn parsed(names: FieldNaming) -> (Value, String) {
    let mut out = String::new();
    line(&mut out, &sample(), names);
    assert!(out.ends_with("}\n") && out.matches('\n').count() == 1);
    (serde_json::from_str(&out).expect("JSON"), out)
}

fn check(names: FieldNaming, pointer: &str, expected: &str) {
    let (value, text) = parsed(names);
    assert_eq!(value.pointer(pointer).unwrap_or(&Value::Null).to_string(), expected, "{pointer} of {text}");
}

#[test]
fn own_names() {
    for (pointer, expected) in [
        ("/version", "1"),
        ("/type", "\"request\""),
        ("/time", "\"2023-11-14T22:13:20.000100Z\""),
        ("/duration", "0.25"),
        ("/handling", "\"miss\""),
        ("/client/tls", "false"),
        ("/request/url", "\"/a?b=\\\"<script>\""),
        ("/response/status", "503"),
        ("/bytes/response_body", "128"),
        ("/steps/1/name", "\"Resp\""),
        ("/caused/0/type", "\"fetch\""),
        ("/caused/0/backend/name", "\"boot.default\""),
        ("/caused/0/errors/0", "\"first byte timeout\""),
        ("/caused/0/handling", "null"),
    ] {
        check(FieldNaming::Own, pointer, expected);
    }
}

#[test]
fn names_of_the_elastic_common_schema() {
    for (pointer, expected) in [
        ("/@timestamp", "\"2023-11-14T22:13:20.000100Z\""),
        ("/event/duration", "250000000"),
        ("/event/outcome", "\"failure\""),
        ("/http/request/method", "\"GET\""),
        ("/http/version", "\"1.1\""),
        ("/http/response/status_code", "503"),
        ("/http/response/body/bytes", "128"),
        ("/url/path", "\"/a\""),
        ("/source/ip", "\"192.0.2.1\""),
        ("/lacquer/caused/0/backend", "\"boot.default\""),
    ] {
        check(FieldNaming::Ecs, pointer, expected);
    }
}

#[test]
fn names_of_opentelemetry() {
    for (pointer, expected) in [
        ("/Attributes/http.request.method", "\"GET\""),
        ("/Attributes/url.path", "\"/a\""),
        ("/Attributes/http.response.status_code", "503"),
        ("/Attributes/client.address", "\"192.0.2.1\""),
        ("/SeverityText", "\"ERROR\""),
    ] {
        check(FieldNaming::Otel, pointer, expected);
    }
}

#[test]
fn a_gap_is_a_line_of_its_own() {
    let mut out = String::new();
    gap(&mut out, 7, "the receiver was away");
    assert_eq!(out, "{\"version\":1,\"type\":\"gap\",\"lost\":7,\"why\":\"the receiver was away\"}\n");
}
