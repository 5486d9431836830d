// SPDX-License-Identifier: BSD-2-Clause
//! Queries, what they match and how they are refused.

use proptest::prelude::*;
use shm::vsl::{LogFormat, Marker};
use tables::Tag;

use super::*;
use crate::group::{BeginReason, TxnType};
use crate::record::{make, make_as};

fn log() -> (Vec<u8>, Vec<u8>) {
    let mut req = make(Tag::Begin, 1000, Marker::Client, b"req 999 rxreq");
    req.extend(make(Tag::ReqUrl, 1000, Marker::Client, b"/foo"));
    req.extend(make(Tag::ReqHeader, 1000, Marker::Client, b"User-Agent: Some \"quoted words\" end"));
    req.extend(make(Tag::RespStatus, 1000, Marker::Client, b"503"));
    req.extend(make(Tag::Timestamp, 1000, Marker::Client, b"Resp: 1234567890.123456 1.500000 0.25"));
    let mut bereq = make(Tag::Begin, 1001, Marker::Backend, b"bereq 1000 fetch");
    bereq.extend(make(Tag::BereqUrl, 1001, Marker::Backend, b"/FOO"));
    bereq.extend(make(Tag::End, 1001, Marker::Backend, b""));
    (req, bereq)
}

fn run(query: &str, caseless: bool) -> Result<bool, String> {
    let (req, bereq) = log();
    let txn = |vxid, level, kind, records| Txn { vxid, level, parent: 0, kind, reason: BeginReason::Unknown, records };
    let group = [txn(1000, 1, TxnType::Req, &req[..]), txn(1001, 2, TxnType::Bereq, &bereq[..])];
    Query::new(query, caseless).map(|q| q.matches(&group))
}

fn check(query: &str, expected: bool) {
    assert_eq!(run(query, false), Ok(expected), "{query}");
}

fn refused(query: &str, expected: &str) {
    let error = run(query, false).unwrap_err();
    assert!(error.starts_with(expected), "{query}: {error}");
}

#[test]
fn what_matches() {
    check("", true);
    check("\n # nothing\n", true);
    check("ReqURL", true);
    check("ReqMethod", false);
    check("ReqURL eq '/foo'", true);
    check("ReqURL eq foo", false);
    check("ReqURL ne \"/foo\"", false);
    check("*URL ~ FOO", true);
    check("ReqURL ~ FOO", false);
    check("ReqURL !~ FOO", true);
    check("RespStatus >= 500 and RespStatus < 504", true);
    check("RespStatus == 503.0", true);
    check("RespStatus != 503 or not ReqURL", false);
    check("not (ReqURL ~ x)", true);
    check("ReqHeader:user-agent ~ 'quoted'", true);
    check("ReqHeader:user-agent[2] eq 'quoted words'", true);
    check("ReqHeader:user-agent[3] eq end", true);
    check("ReqHeader:user-agent[4]", false);
    check("ReqHeader:agent", false);
    check("Timestamp:Resp[2] > 1.4", true);
    check("Timestamp:Resp[2] > 1.5", false);
    check("Timestamp:Resp[1] == 1234567890.123", true);
    check("{1}BereqURL", false);
    check("{2}BereqURL", true);
    check("{2-}ReqURL", true);
    check("{2+}ReqURL", false);
    check("vxid == 1001", true);
    check("vxid > 1001", false);
    check("End eq ''", true);
    check("End == 0", false);
    check("ReqMethod eq GET\nRespStatus == 503", true);
    check("ReqMethod,ReqURL ~ foo", true);
    check("ReqURL eq \\\n'/foo'", true);
    assert_eq!(run("ReqURL eq '/FOO' and ReqURL ~ FOO", true), Ok(true));
}

/// The same as Varnish's varnishlog of 7.1 and of 8.0 and 9.0.2 on their own logs.
#[test]
fn numbers_are_read_as_the_log_s_release_does() {
    let passes = |format, query: &str| {
        let records = [
            make_as(format, Tag::Timestamp, 1000, Marker::Client, b"Process: 1234567890.123456 0.000721 0.25"),
            make_as(format, Tag::RespHeader, 1000, Marker::Client, b"X: 12s"),
        ]
        .concat();
        let (kind, reason) = (TxnType::Req, BeginReason::Unknown);
        let group = [Txn { vxid: 1000, level: 1, parent: 0, kind, reason, records: &records }];
        Query::new(query, false).expect(query).matches(&group)
    };
    for (query, seven, later) in [
        ("Timestamp:Process[2] > 0.0", false, true),
        ("Timestamp:Process[2] == 0.000721", true, true),
        ("Timestamp:Process[2] > 0.0007", false, true),
        ("Timestamp:Process[2] > 0.00073", false, false),
        ("Timestamp:Process[1] == 1234567890.123", true, false),
        ("Timestamp:Process[2] == 0", true, true),
        ("RespHeader:x == 12", true, false),
        ("RespHeader:x > 11.5", true, false),
    ] {
        assert_eq!(passes(LogFormat::Seven, query), seven, "{query}");
        for format in [LogFormat::Eight, LogFormat::Nine] {
            assert_eq!(passes(format, query), later, "{query}");
        }
    }
}

#[test]
fn what_is_refused() {
    refused("nope", "Tag name matches zero tags (Pos 1)\nnope\n####\n");
    refused("Req ~ x", "Tag name is ambiguous (Pos 1)");
    refused("ReqURL ~ 'x", "Unterminated string (Pos 12)\nReqURL ~ 'x\n---------##\n");
    refused("ReqURL ~ '('", "Regular expression error: missing closing parenthesis (Pos ");
    refused("ReqURL x", "Expected operator got 'x' (Pos 8)");
    refused("ReqURL ==", "Expected number got '' (Pos 10)");
    refused("(ReqURL", "Expected ')' got end of input (Pos 8)");
    refused("ReqURL and", "Expected VSL tag name got '' (Pos 11)");
    refused("vxid ~ 1", "Expected vxid operator got '~' (Pos 6)");
    refused("vxid == 1.1", "Expected integer got '1.1' (Pos 9)");
    refused("ReqURL[0]", "Expected positive integer (Pos 8)");
    refused("{x}ReqURL ?", "Syntax error (Pos 11)");
    refused(&"(".repeat(10_000), "Too many groups in groups");
}

#[test]
fn long_chains_are_no_problem() {
    check(&vec!["ReqMethod"; 50_000].join(" or "), false);
    check(&vec!["ReqURL"; 50_000].join("\n"), true);
}

proptest! {
    #[test]
    fn any_text(query in ".{0,60}") {
        let _ = run(&query, false);
    }

    #[test]
    fn any_words(words in proptest::collection::vec(prop_oneof![
        Just("ReqURL"), Just("and"), Just("or"), Just("not"), Just("("), Just(")"), Just("["), Just("]"), Just("{"), Just("}"),
        Just("1"), Just("-"), Just("eq"), Just("~"), Just("=="), Just("vxid"), Just(":"), Just(","), Just("'x'"), Just("\n")
    ], 0..20)) {
        let _ = run(&words.join(" "), false);
        let _ = run(&words.concat(), true);
    }

    #[test]
    fn any_record(bytes in proptest::collection::vec(any::<u8>(), 0..40), n in 1usize..5) {
        let _ = word(&bytes, n);
    }
}

use super::eval::word;
