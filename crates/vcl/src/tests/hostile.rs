// SPDX-License-Identifier: BSD-2-Clause
//! Tests of malicious input: an error with a place (or a program), in bounded time and space.

use proptest::prelude::*;

use super::{Few, try_compile};
use crate::{CompileOptions, compile};

fn refused(text: &str) -> String {
    try_compile(&format!("vcl 4.1; backend b none; {text}")).expect_err("it should be refused")
}

#[test]
fn deep_nesting_is_refused() {
    let blocks = format!("sub vcl_recv {}{}", "{".repeat(100_000), "}".repeat(100_000));
    assert!(refused(&blocks).starts_with("Too deeply nested.\n('<vcl.inline>' Line 1"));
    for (open, close) in [("(", ")"), ("!(", ")"), ("- ", ""), ("regsub(", ", \"\", \"\")"), ("!", "")] {
        let expr = format!("{}req.http.a{}", open.repeat(50_000), close.repeat(50_000));
        let reason = refused(&format!("sub vcl_recv {{ set req.http.a = {expr}; }}"));
        assert!(reason.contains("('<vcl.inline>' Line 1"), "{open}");
    }
    assert!(
        refused(&format!("sub vcl_recv {{ set req.http.a = req.url{}; }}", ".lower()".repeat(10_000)))
            .contains("Too many")
    );
}

#[test]
fn long_programs_compile_or_are_refused() {
    let ifs = format!("sub vcl_recv {{ {} }}", "if (req.http.a) { set req.http.b = \"1\"; }\n".repeat(100_000));
    assert!(try_compile(&format!("vcl 4.1; backend b none; {ifs}")).is_ok());
    let elses = format!("sub vcl_recv {{ if (true) {{ }} {} }}", "elseif (req.http.a) { }".repeat(100_000));
    assert!(try_compile(&format!("vcl 4.1; backend b none; {elses}")).is_ok());
    let sum = format!("sub vcl_recv {{ set req.http.a = 1{}; }}", " + 1".repeat(300_000));
    assert!(try_compile(&format!("vcl 4.1; backend b none; {sum}")).is_ok());
    let ors = format!("sub vcl_recv {{ if (true{}) {{ }} }}", " || req.http.a".repeat(300_000));
    assert!(try_compile(&format!("vcl 4.1; backend b none; {ors}")).is_ok());
    let big = format!("vcl 4.1; backend b none; # {}", "x".repeat(10 << 20));
    assert!(try_compile(&big).err().unwrap().starts_with("VCL is too large"));
}

#[test]
fn webs_of_calls_are_checked_in_bounded_time() {
    let subs: String = (0..60).map(|n| format!("sub s{n} {{ {} }} ", format!("call s{};", n + 1).repeat(4))).collect();
    assert!(try_compile(&format!("vcl 4.1; backend b none; {subs} sub s60 {{ }} sub vcl_recv {{ call s0; }}")).is_ok());
    let chain: String = (0..5_000).map(|n| format!("sub s{n} {{ call s{}; }} ", n + 1)).collect();
    assert!(refused(&format!("{chain} sub s5000 {{ }} sub vcl_recv {{ call s0; }}")).contains("nested too deeply"));
    assert!(
        refused("sub a { call c; } sub c { call a; } sub vcl_recv { call a; }").starts_with("Subroutine recurses on")
    );
}

#[test]
fn many_names_are_cheap() {
    let fields: String = (0..20_000).map(|n| format!("set req.http.f{n} = \"{n}\";")).collect();
    assert!(try_compile(&format!("vcl 4.1; backend b none; sub vcl_recv {{ {fields} }}")).is_ok());
    let too_many: String = (0..70_000).map(|n| format!("unset req.http.f{n};")).collect();
    assert!(refused(&format!("sub vcl_recv {{ {too_many} }}")).starts_with("Too many different header names"));
}

const WORDS: &[&str] = &[
    "vcl",
    "4.1",
    ";",
    "{",
    "}",
    "(",
    ")",
    "sub",
    "backend",
    "probe",
    "acl",
    "import",
    "std",
    "directors",
    "new",
    "x",
    "=",
    "vcl_recv",
    "vcl_init",
    "vcl_deliver",
    "set",
    "unset",
    "req.url",
    "req.http.a",
    "req",
    ".",
    "http",
    "\"s\"",
    "{\"l\"}",
    "1",
    "1.5",
    "s",
    "+",
    "-",
    "*",
    "~",
    "==",
    "!",
    "&&",
    "||",
    "if",
    "else",
    "elseif",
    "return",
    "pass",
    "synth",
    ",",
    "call",
    "include",
    "none",
    ".host",
    "client.ip",
    "now",
    "regsub",
    "true",
    "default",
    ":QUI=:",
    "C{",
    "}C",
    "/*",
    "*/",
    "#",
    "\n",
    "beresp.ttl",
    "resp.body",
    "hash_data",
    "ban",
    "synthetic",
    "std.log",
    "fetch",
    "%",
    "storage.s0",
    "lower",
    "resolve",
    "+=",
    "obj.hits",
    "\"unterminated",
    "directors.round_robin",
    "x.add_backend",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_words_end_in_a_verdict(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        let soup = words.join(" ");
        let _ = try_compile(&soup);
        let _ = try_compile(&format!("vcl 4.1; backend b none; import std; sub vcl_recv {{ {soup}"));
        let _ = try_compile(&format!("vcl 4.0; import directors; sub vcl_init {{ new x = directors.hash(); }} {soup}"));
    }

    #[test]
    fn any_bytes_end_in_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut text = b"vcl 4.1; backend b none; sub vcl_recv { ".to_vec();
        text.extend_from_slice(&bytes);
        let verdict = compile("<vcl.inline>", &text, &Few(&[]), &CompileOptions::default());
        prop_assert!(verdict.err().is_none_or(|d| !d.to_string().is_empty()));
    }
}
