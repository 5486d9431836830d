// SPDX-License-Identifier: BSD-2-Clause
//! The malformed-request cases, as far as parser, framing and hop-by-hop rules decide them: what an engine with a VCL that
//! does nothing would put on the wire to the origin.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

mod json;

use http1::{BodyStep, Expect, Framing, FramingDecoder, HeadProgress, Http1Limits, expect, parse_request};
use json::Json;
use message::hop::{HopDirection, connection, filter_request};
use message::{Head, names};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

/// Cases that the built-in VCL refuses, not the parser.
const BUILTIN_VCL: &[&str] = &["ho-missing"];

#[derive(Debug, Default)]
struct Outcome {
    /// The bytes that the origin would get, one entry per request whose head went there.
    sent: Vec<Vec<u8>>,
    urls: Vec<Vec<u8>>,
    bodies: Vec<Vec<u8>>,
    complete: usize,
    refused: Option<String>,
}

/// `{{X*N}}` in the case file: N times X. Characters are octets.
fn octets(raw: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), raw);
    while let Some(at) = rest.find("{{") {
        let end = at + rest[at..].find("}}").expect("an end");
        let (text, times) = rest[at + 2..end].rsplit_once('*').expect("text*times");
        out.extend(rest[..at].chars().map(|c| c as u8));
        let text: Vec<u8> = text.chars().map(|c| c as u8).collect();
        out.extend(text.repeat(times.parse().expect("a number")));
        rest = &rest[end + 2..];
    }
    out.extend(rest.chars().map(|c| c as u8));
    out
}

fn run(mut input: &[u8], limits: &Http1Limits) -> Outcome {
    let mut out = Outcome::default();
    while !input.is_empty() {
        let mut head = Head::new();
        let parsed = match parse_request(input, limits, &mut head) {
            Ok(HeadProgress::Complete(parsed)) => parsed,
            Ok(HeadProgress::Idle | HeadProgress::Incomplete) => return out,
            Ok(HeadProgress::Http2Preface) => panic!("no case has one"),
            Err(error) => {
                out.refused = Some(error.to_string());
                assert!(error.reaction().status.is_none_or(|s| s >= 400));
                return out;
            }
        };
        input = &input[parsed.consumed..];
        if expect(&head) == Expect::Unknown {
            out.refused = Some("expectation".into());
            return out;
        }
        let Ok(persistence) = connection(&mut head) else {
            out.refused = Some("Connection".into());
            return out;
        };
        let mut decoder = FramingDecoder::request(parsed.framing);
        let mut body = Vec::new();
        loop {
            match decoder.decode(input) {
                Ok(BodyStep::Data(range)) => {
                    body.extend_from_slice(&input[range.clone()]);
                    input = &input[range.end..];
                }
                Ok(BodyStep::End { consumed }) => {
                    input = &input[consumed..];
                    break;
                }
                Ok(BodyStep::More { .. }) => return out,
                Err(error) => {
                    out.refused = Some(error.to_string());
                    return out;
                }
            }
        }
        out.sent.push(origin_sees(&head, parsed.framing, &body));
        out.urls.push(head.url().to_vec());
        out.bodies.push(body);
        out.complete += 1;
        if persistence != message::hop::Persistence::Keep {
            return out;
        }
    }
    out
}

fn origin_sees(head: &Head, framing: Framing, body: &[u8]) -> Vec<u8> {
    let mut to_origin = Head::new();
    filter_request(head, &mut to_origin, HopDirection::Pass).unwrap();
    to_origin.set_proto("HTTP/1.1").unwrap();
    let mut wire = Vec::new();
    if framing == Framing::Chunked {
        to_origin.append(names::TRANSFER_ENCODING, "chunked").unwrap();
        to_origin.write_to(&mut wire);
        if !body.is_empty() {
            wire.extend_from_slice(http1::ChunkHeader::new(body.len()).as_bytes());
            wire.extend_from_slice(body);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(http1::LAST_CHUNK);
    } else {
        to_origin.write_to(&mut wire);
        wire.extend_from_slice(body);
    }
    wire
}

fn is_match(pattern: &str, text: &[u8]) -> bool {
    let config = syntax::Config::new().utf8(false).unicode(false);
    let regex = Regex::builder()
        .configure(Regex::config().utf8_empty(false))
        .syntax(config)
        .build(pattern)
        .unwrap_or_else(|e| panic!("{pattern}: {e}"));
    regex.is_match(text)
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Good,
    Lax(String),
    Forbidden(String),
}

fn judge(case: &Json, out: &Outcome) -> Verdict {
    let flag = |key| case.get(key).is_some_and(|v| *v == Json::Bool(true));
    let number = |key| if let Some(Json::Number(n)) = case.get(key) { Some(*n as usize) } else { None };
    let wire = out.sent.concat();
    for pattern in case.get("forbid").map(Json::list).unwrap_or_default() {
        if is_match(pattern.text(), &wire) {
            return Verdict::Forbidden(format!("origin got {}", pattern.text()));
        }
    }
    if flag("smuggle") && out.urls.iter().any(|u| u == b"/smuggled") {
        return Verdict::Forbidden("smuggled".into());
    }
    if flag("musthost") && wire.split(|&c| c == b'\n').all(|l| !l.starts_with(b"Host:")) && !wire.is_empty() {
        return Verdict::Forbidden("no Host".into());
    }
    if number("maxn").is_some_and(|max| out.complete > max) {
        return Verdict::Forbidden("too many requests".into());
    }
    let served = out.refused.is_none() && number("n").is_none_or(|n| n == out.complete) && out.complete > 0;
    let body = case.get("body").is_none_or(|b| out.bodies.first().is_some_and(|got| got == b.text().as_bytes()));
    let ok = match case.get("expect").expect("a verdict").text() {
        "reject" => out.refused.is_some(),
        "reject-or-clean" => out.refused.is_some() || (served && body) || flag("mayhang"),
        "accept" | "forward" => served && body,
        "no-complete" => out.complete == 0,
        other => panic!("{other}: unknown verdict"),
    };
    if ok { Verdict::Good } else { Verdict::Lax(format!("{:?} after {}", out.refused, out.complete)) }
}

fn cases() -> Vec<Json> {
    let file = Json::parse(include_str!("../data/h1-cases.json"));
    file.get("cases").expect("cases").list().to_vec()
}

#[test]
fn no_case_is_forbidden_and_none_is_lax() {
    let cases = cases();
    assert_eq!(cases.len(), 80);
    let mut bad = Vec::new();
    for case in &cases {
        let id = case.get("id").expect("an id").text();
        let out = run(&octets(case.get("raw").expect("octets").text()), &Http1Limits::default());
        match judge(case, &out) {
            Verdict::Good => {}
            Verdict::Lax(_) if BUILTIN_VCL.contains(&id) => {}
            verdict => bad.push(format!("{id}: {verdict:?}")),
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn lenient_takes_more_but_never_a_second_opinion_on_framing() {
    let limits = Http1Limits { lenient: true, ..Http1Limits::default() };
    let framing = ["content-length", "transfer-encoding", "chunks"];
    for case in cases() {
        let id = case.get("id").expect("an id").text();
        if framing.contains(&case.get("group").expect("a group").text()) && id != "te-lf-hide" {
            let verdict = judge(&case, &run(&octets(case.get("raw").expect("octets").text()), &limits));
            assert_eq!(verdict, Verdict::Good, "{id}");
        }
    }
}

#[test]
fn the_judge_can_say_no() {
    let limits = Http1Limits { lenient: true, ..Http1Limits::default() };
    let verdict_of = |id: &str| {
        let case = cases().into_iter().find(|c| c.get("id").expect("an id").text() == id).expect("the case");
        judge(&case, &run(&octets(case.get("raw").expect("octets").text()), &limits))
    };
    assert!(matches!(verdict_of("rl-uri-noslash"), Verdict::Forbidden(_)));
    assert!(matches!(verdict_of("ho-path"), Verdict::Forbidden(_)));
    assert!(matches!(verdict_of("ho-missing"), Verdict::Lax(_)));
    assert_eq!(verdict_of("rl-good"), Verdict::Good);
}
