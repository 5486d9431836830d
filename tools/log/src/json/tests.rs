// SPDX-License-Identifier: BSD-2-Clause
//! Transactions as varnishlog-json of 9.0.2 prints them.

use logq::record::make;
use logq::{BeginReason, TxnType};
use proptest::prelude::*;
use shm::vsl::Marker;
use tables::Tag;

use super::*;

/// Records, one per line: a tag, a space, the text.
fn records_of(marker: Marker, vxid: u64, text: &str) -> Vec<u8> {
    let record = |line: &str| {
        let (tag, text) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        make(Tag::from_name(tag).expect("a tag"), vxid, marker, text.as_bytes())
    };
    text.lines().filter(|line| !line.trim().is_empty()).flat_map(record).collect()
}

fn written(kind: TxnType, records: &[u8], options: &[(char, &str)]) -> String {
    let mut select = Select::default();
    for (letter, value) in options {
        assert!(select.option(*letter, value).expect("an option"));
    }
    let txn = Txn { vxid: 3, level: 1, parent: 2, kind, reason: BeginReason::Rxreq, records };
    let mut out = String::new();
    if let Some(object) = transaction::object(&select, &txn) {
        JsonValue::Object(object).write(&mut out, JsonLayout::Line);
    }
    out
}

fn check(kind: TxnType, text: &str, options: &[(char, &str)], expected: &str) {
    let marker = if kind == TxnType::Bereq { Marker::Backend } else { Marker::Client };
    let expected: String = expected.lines().map(str::trim_start).collect();
    assert_eq!(written(kind, &records_of(marker, 3, text), options), expected);
}

const REQUEST: &str = "
    Begin req 2 rxreq
    Timestamp Start: 1700000000.250000 0.000000 0.000000
    ReqStart 127.0.0.1 50000 a0
    ReqMethod GET
    ReqURL /a?b
    ReqProtocol HTTP/1.1
    ReqHeader Host: example.com
    ReqHeader Cookie: a=1
    ReqHeader cookie: b=2
    ReqHeader Accept: text/html
    ReqHeader Accept:  text/plain
    ReqHeader X-Gone: 1
    ReqUnset x-gone: 1
    VCL_use boot
    VCL_call RECV
    ReqURL /changed
    ReqHeader X-By-VCL: 1
    ReqUnset Host: example.com
    VCL_Log one
    VCL_Log two
    VCL_return hash
    Hit 32770 119.5 10.0 0.0
    VCL_call HIT
    VCL_return deliver
    Link bereq 4 bgfetch
    RespProtocol HTTP/1.1
    RespStatus 200
    RespReason OK
    RespHeader Set-Cookie: a=1; path=/
    RespHeader Content-Length: 4
    RespHeader Set-Cookie: b=\"2\"
    RespStatus 201
    Timestamp Resp: 1700000000.260000 0.010000 0.010000
    ReqAcct 70 0 70 250 4 254
    End
";

#[test]
fn a_request_is_as_the_client_sees_it() {
    check(
        TxnType::Req,
        REQUEST,
        &[],
        r#"{"side":"client","req":{"headers":{"host":"example.com","cookie":"a=1;b=2","accept":"text/html,text/plain"},
        "method":"GET","url":"/a?b","proto":"HTTP/1.1","hdrBytes":70,"bodyBytes":0},
        "resp":{"headers":{"content-length":"4"},"proto":"HTTP/1.1","status":201,"reason":"OK","hdrBytes":250,"bodyBytes":4,
        "set-cookie":["a=1; path=/","b=\"2\""]},
        "timeline":[{"name":"Start","timestamp":1700000000.250000},{"name":"Resp","timestamp":1700000000.260000}],
        "id":"3","client":{"rAddr":"127.0.0.1","rPort":50000,"sock":"a0"},"vcl":"boot","logs":["one","two"],
        "links":[{"type":"bereq","id":"4","reason":"bgfetch"}],"handling":"hit"}"#,
    );
}

#[test]
fn options_choose_the_records_that_members_are_made_of() {
    check(
        TxnType::Req,
        REQUEST,
        &[('i', "ReqURL,RespStatus,VCL_call")],
        r#"{"side":"client","req":{"headers":{},"url":"/a?b"},"resp":{"headers":{},"status":201},"timeline":[],"handling":"incomplete"}"#,
    );
}

#[test]
fn a_fetch_is_as_the_backend_sees_it() {
    let text = "
        Begin bereq 2 fetch
        BereqMethod GET
        BereqURL /a
        BereqProtocol HTTP/1.1
        BereqHeader Host: a
        VCL_call BACKEND_FETCH
        BereqHeader X-By-VCL: 1
        VCL_return fetch
        BereqUnset X-By-VCL: 1
        BackendOpen 24 boot.default 127.0.0.1 8080 127.0.0.1 40000 reuse 1.5 3
        BerespProtocol HTTP/1.1
        BerespStatus 200
        BerespReason OK
        BerespHeader Age: 1
        VCL_call BACKEND_RESPONSE
        BerespHeader X-By-VCL: 1
        BerespStatus 203
        VCL_return deliver
        Storage malloc s0
        FetchError first byte timeout
        BereqAcct 100 1 101 90 5 95
        End synth
    ";
    check(
        TxnType::Bereq,
        text,
        &[],
        r#"{"side":"backend","req":{"headers":{"host":"a","x-by-vcl":"1"},"method":"GET","url":"/a","proto":"HTTP/1.1","hdrBytes":100,"bodyBytes":1},
        "resp":{"headers":{"age":"1"},"proto":"HTTP/1.1","status":200,"reason":"OK","hdrBytes":90,"bodyBytes":5},"timeline":[],"id":"3",
        "backend":{"name":"default","rAddr":"127.0.0.1","rPort":8080,"connReused":true},"storage":"malloc s0","errors":["first byte timeout"],
        "error":"truncated log","handling":"fetch"}"#,
    );
}

#[test]
fn the_handling_is_that_of_the_last_step_that_tells() {
    let handling = |kind, text: &str, expected: &str| {
        check(
            kind,
            text,
            &[],
            &format!(
                r#"{{"side":"{}","req":{{"headers":{{}}}},"resp":{{"headers":{{}}}},"timeline":[],"handling":"{expected}"}}"#,
                if kind == TxnType::Req { "client" } else { "backend" }
            ),
        );
    };
    handling(TxnType::Req, "Hit 5 1.0 1.0 1.0 12 100", "streaming-hit");
    handling(TxnType::Req, "Hit 5 1.0 1.0 1.0 12", "hit");
    handling(TxnType::Req, "Hit 5 1.0 1.0 1.0\nVCL_call HIT\nVCL_call PASS", "pass");
    handling(TxnType::Req, "VCL_call MISS\nVCL_return fail\nVCL_call SYNTH", "fail");
    handling(TxnType::Req, "VCL_call PIPE", "pipe");
    handling(TxnType::Bereq, "VCL_call BACKEND_ERROR", "error");
    handling(TxnType::Bereq, "VCL_return abandon\nVCL_call BACKEND_ERROR", "abandon");
}

#[test]
fn directors_name_their_backends() {
    for (full, name) in [
        ("boot.default", "default"),
        ("default", "default"),
        ("boot.goto.0001.(1.2.3.4).(x)", "goto"),
        ("boot.udo.dir.{a.b}", "dir"),
        ("a.s3.bucket.x", "bucket"),
    ] {
        let text = format!("BackendOpen 24 {full} 127.0.0.1 - x y connect");
        let expected = format!(
            r#"{{"side":"backend","req":{{"headers":{{}}}},"resp":{{"headers":{{}}}},"timeline":[],
            "backend":{{"name":"{name}","rAddr":"127.0.0.1","rPort":"-","connReused":false}},"handling":"incomplete"}}"#
        );
        check(TxnType::Bereq, &text, &[], &expected);
    }
}

#[test]
fn sessions_have_no_object() {
    assert_eq!(written(TxnType::Sess, &records_of(Marker::Client, 3, "Begin sess 0 HTTP/1"), &[]), "");
}

proptest! {
    #[test]
    fn any_records_make_json(
        records in proptest::collection::vec((1u8..100, "[ -~\\x00-\\x1f:.é]{0,30}"), 0..20), is_client in any::<bool>()
    ) {
        let (kind, marker) = if is_client { (TxnType::Req, Marker::Client) } else { (TxnType::Bereq, Marker::Backend) };
        let tag = |number| Tag::from_number(number).expect("a tag");
        let bytes: Vec<u8> = records.iter().flat_map(|(number, text)| make(tag(*number), 3, marker, text.as_bytes())).collect();
        let line = written(kind, &bytes, &[]);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
    }
}
