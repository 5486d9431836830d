// SPDX-License-Identifier: BSD-2-Clause
//! Tests of translated statements, of dialect detection, and of the lines in messages.

use std::net::IpAddr;

use super::*;

mod hints;
mod late;
mod tables;
mod words;

pub(super) struct Files(pub &'static [(&'static str, &'static str)]);

impl Sources for Files {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        let file = self.0.iter().find(|(name, _)| *name == path);
        file.map(|(n, t)| ((*n).to_owned(), t.as_bytes().to_vec())).ok_or_else(|| format!("Cannot read file '{path}'"))
    }
    fn glob(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
    fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, String> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
    fn is_socket(&self, _: &str) -> Result<bool, String> {
        Ok(false)
    }
}

const BACKEND: &str = "backend default { .host = \"127.0.0.1\"; }\n";

fn made(vcl: &str, dialect: Option<Dialect>) -> Result<Migration, String> {
    let options = CompileOptions { dialect, ..CompileOptions::default() };
    migrate("old.vcl", vcl.as_bytes(), &Files(&[]), &options).map_err(|d| d.to_string())
}

/// The user's part of a translated program, with single blanks.
fn body(migrated: &Migration) -> String {
    let text = String::from_utf8(migrated.text.clone()).unwrap();
    let begin = text.find("# --- What VCL").unwrap_or(0);
    let end = text.find("# --- The built-in VCL of").unwrap_or(text.len());
    let ours = &text[begin..end];
    let from =
        ours.find("sub deliver_as_before").and_then(|at| ours[at..].find("\n}\n").map(|n| at + n + 3)).unwrap_or(0);
    ours[from..].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks that `old` in `sub NAME {}` of a dialect becomes `new`, and that the result compiles.
#[track_caller]
fn becomes(dialect: &str, sub: &str, old: &str, new: &str) {
    let vcl = format!("{BACKEND}sub {sub} {{ {old} }}\n");
    let dialect = Dialect::from_name(dialect);
    let migrated = made(&vcl, dialect).unwrap_or_else(|reason| panic!("{reason}"));
    assert_eq!(body(&migrated), new);
    compiles(&vcl, dialect);
}

#[track_caller]
fn compiles(vcl: &str, dialect: Option<Dialect>) {
    let options = CompileOptions { dialect, ..CompileOptions::default() };
    if let Err(d) = crate::compile("old.vcl", vcl.as_bytes(), &Files(&[]), &options) {
        panic!("{}\n{}", d, String::from_utf8_lossy(&made(vcl, dialect).unwrap().text));
    }
}

#[track_caller]
fn refused(dialect: &str, sub: &str, old: &str, reason: &str) {
    let vcl = format!("{BACKEND}sub {sub} {{\n  {old}\n}}\n");
    let said = made(&vcl, Dialect::from_name(dialect)).map(|m| String::from_utf8(m.text)).expect_err("refused");
    assert!(said.contains(reason), "{said}");
    assert!(said.contains("('old.vcl' Line 3 Pos "), "{said}");
}

#[track_caller]
fn is(vcl: &str, dialect: Option<&str>) {
    let found = made(vcl, None).unwrap_or_else(|reason| panic!("{reason}")).dialect;
    assert_eq!(found.map(Dialect::name), dialect, "{vcl}");
}

#[test]
fn words_tell_the_dialect() {
    is("vcl 4.1;\nbackend b none;\nsub vcl_recv { return (pass); }\n", None);
    is("/* x */ # y\nvcl 4.0;\nsub vcl_fetch { }\n", None);
    is("bad vcl", None);
    is("backend default { .host = \"127.0.0.1\"; }\n", Some("3.0"));
    is("sub vcl_recv { set req.method = \"GET\"; }", None);
    is("sub vcl_recv { lookup; }", Some("2.0"));
    is("sub vcl_fetch { set obj.ttl = 1h; }", Some("2.0"));
    is("sub vcl_fetch { set obj.prefetch = -30s; deliver; }", Some("2.0"));
    is("sub vcl_fetch { if (!beresp.cacheable) { return (pass); } }", Some("2.1"));
    is("sub vcl_recv { log \"x\"; }", Some("2.1"));
    is("sub vcl_fetch { esi; set beresp.ttl = 1h; }", Some("2.1"));
    is("sub vcl_fetch { set beresp.ttl = 1h; return (deliver); }", Some("3.0"));
    is("sub vcl_fetch { return (hit_for_pass); }", Some("3.0"));
    is("sub vcl_recv { if (req.request == \"GET\") { return (lookup); } }", Some("3.0"));
    is("sub vcl_recv { set req.http.a = req.url \" \" client.ip; }", Some("2.1"));
}

#[test]
fn names_of_the_client_side() {
    becomes(
        "3.0",
        "vcl_recv",
        "if (req.request != \"GET\") { return (pass); }",
        "sub vcl_recv { if (req.method != \"GET\") { return (pass); } }",
    );
    becomes("3.0", "vcl_recv", "return (lookup);", "sub vcl_recv { return (hash); }");
    becomes("2.0", "vcl_recv", "lookup;", "sub vcl_recv { return (hash); }");
    becomes("2.1", "vcl_recv", "remove req.http.Cookie;", "sub vcl_recv { unset req.http.Cookie; }");
    becomes("3.0", "vcl_recv", "error 750 \"x\" + req.url;", "sub vcl_recv { return (synth(750, \"x\" + req.url)); }");
    becomes("2.1", "vcl_recv", "error 404;", "sub vcl_recv { return (synth(404)); }");
    becomes("3.0", "vcl_recv", "error (404, \"x\");", "sub vcl_recv { return (synth(404, \"x\")); }");
    becomes("2.1", "vcl_recv", "if (server.port == 80) { }", "sub vcl_recv { if (std.port(server.ip) == 80) { } }");
    becomes(
        "2.1",
        "vcl_hash",
        "set req.hash += req.http.X; return (hash);",
        "sub vcl_hash { hash_data(req.http.X); return (lookup); }",
    );
    becomes(
        "2.1",
        "vcl_recv",
        "panic \"a\" req.url;",
        "sub vcl_recv { std.log(\"Panic: \" + \"a\" + req.url); return (fail); }",
    );
    becomes("2.1", "vcl_pass", "return (pass);", "sub vcl_pass { return (fetch); }");
    becomes(
        "2.1",
        "vcl_deliver",
        "set resp.http.X = obj.hits \" \" req.xid;",
        "sub vcl_deliver { set resp.http.X = obj.hits + \" \" + req.xid; }",
    );
}

#[test]
fn names_of_the_fetch() {
    becomes("2.0", "vcl_fetch", "set obj.ttl = 24 h;", "sub vcl_backend_response { set beresp.ttl = 24 h; }");
    becomes(
        "2.0",
        "vcl_fetch",
        "if (req.request != \"POST\") { unset obj.http.set-cookie; }",
        "sub vcl_backend_response { if (bereq.http.X-VCL-Method != \"POST\") { unset beresp.http.set-cookie; } }",
    );
    becomes("2.0", "vcl_fetch", "set obj.prefetch = -30s;", "sub vcl_backend_response { }");
    becomes("2.1", "vcl_fetch", "esi;", "sub vcl_backend_response { set beresp.do_esi = true; }");
    becomes(
        "3.0",
        "vcl_fetch",
        "return (hit_for_pass);",
        "sub vcl_backend_response { return (pass(beresp.ttl + beresp.age)); }",
    );
    becomes(
        "2.1",
        "vcl_fetch",
        "return (pass);",
        "sub vcl_backend_response { if (beresp.ttl < 120s) { set beresp.ttl = 120s; } return (pass(beresp.ttl + beresp.age)); }",
    );
    becomes("3.0", "vcl_fetch", "error 503 \"x\";", "sub vcl_backend_response { return (error(503, \"x\")); }");
}

#[test]
fn bans() {
    becomes("2.0", "vcl_recv", "purge(\"req.url == \" req.url);", "sub vcl_recv { ban(\"req.url == \" + req.url); }");
    becomes(
        "2.1",
        "vcl_recv",
        "purge(req.url ~ req.url && req.http.host == \"a\");",
        "sub vcl_recv { ban(\"req.url ~ \" + req.url + \" && \" + \"req.http.host == \" + \"a\"); }",
    );
    becomes("2.1", "vcl_recv", "purge_url(req.url);", "sub vcl_recv { ban(\"req.url ~ \" + req.url); }");
    becomes("3.0", "vcl_recv", "ban_url(\"^/a\");", "sub vcl_recv { ban(\"req.url ~ \" + \"^/a\"); }");
    becomes(
        "3.0",
        "vcl_hit",
        "purge; error 200 \"Purged.\";",
        "sub vcl_hit { purge.hard(); return (synth(200, \"Purged.\")); }",
    );
    becomes("2.1", "vcl_hit", "set obj.ttl = 0s;", "sub vcl_hit { purge.hard(); }");
}

#[test]
fn what_is_said_of_bereq_moves() {
    becomes(
        "3.0",
        "vcl_miss",
        "set bereq.http.X = req.url;",
        "sub vcl_backend_fetch { if (!bereq.uncacheable) { set bereq.http.X = bereq.url; } }",
    );
    becomes(
        "3.0",
        "vcl_pass",
        "if (req.http.a) { set bereq.http.X = \"1\"; error 400; } return (pass);",
        "sub vcl_pass { if (req.http.a) { return (synth(400)); } return (fetch); } \
         sub vcl_backend_fetch { if (bereq.uncacheable) { if (bereq.http.a) { set bereq.http.X = \"1\"; } } }",
    );
    becomes(
        "3.0",
        "vcl_pipe",
        "set bereq.http.connection = \"close\";",
        "sub vcl_pipe { set bereq.http.connection = \"close\"; }",
    );
}

#[test]
fn a_subroutine_of_both_sides_is_written_for_each() {
    let vcl = format!(
        "{BACKEND}sub tidy {{ unset req.http.X; }}\nsub vcl_recv {{ call tidy; }}\nsub vcl_fetch {{ call tidy; set beresp.ttl = 1h; }}\n"
    );
    let text = body(&made(&vcl, None).unwrap());
    assert!(text.contains("sub tidy { unset req.http.X; } sub tidy_fetch { unset bereq.http.X; }"), "{text}");
    assert!(text.contains("sub vcl_backend_response { call tidy_fetch;"), "{text}");
    compiles(&vcl, None);
}

#[test]
fn directors_are_objects() {
    let vcl = "backend a { .host = \"127.0.0.1\"; }\n\
               director d random { .retries = 5; { .backend = a; .weight = 2; } { .backend = { .host = \"127.0.0.2\"; } .weight = 1; } }\n\
               sub vcl_recv { set req.backend = d; }\n";
    let text = String::from_utf8(made(vcl, None).unwrap().text).unwrap();
    let new = "backend d_1 { .host = \"127.0.0.2\"; }\n\nsub vcl_init {\n    new d = directors.random();\n    d.add_backend(a, 2);\n    d.add_backend(d_1, 1);\n}\n";
    assert!(text.contains(new), "{text}");
    assert!(text.contains("set req.backend_hint = d.backend();"), "{text}");
    compiles(vcl, None);
    for kind in ["round-robin", "fallback", "hash", "client"] {
        let weight = if kind == "hash" || kind == "client" { ".weight = 1;" } else { "" };
        let vcl = format!(
            "director d {kind} {{ {{ .backend = {{ .host = \"127.0.0.1\"; }} {weight} }} }}\nsub vcl_recv {{ set req.backend = d; return (lookup); }}\n"
        );
        compiles(&vcl, None);
    }
}

#[test]
fn names_that_were_apart_are_told_apart() {
    let vcl = format!(
        "{BACKEND}acl purge {{ \"127.0.0.1\"; }}\nsub vcl_foo {{ }}\nsub purge {{ call vcl_foo; }}\n\
         sub vcl_recv {{ if (client.ip ~ purge) {{ call purge; return (lookup); }} }}\nsub vcl_hit {{ purge; }}\n"
    );
    let text = String::from_utf8(made(&vcl, None).unwrap().text).unwrap();
    assert!(text.contains("acl purge_acl {") && text.contains("client.ip ~ purge_acl"), "{text}");
    assert!(text.contains("sub old_vcl_foo {") && text.contains("call old_vcl_foo;"), "{text}");
    compiles(&vcl, None);
}

#[test]
fn strings_of_2_x_have_percent_escapes() {
    becomes("2.1", "vcl_recv", "set req.http.a = \"%22x%22\";", "sub vcl_recv { set req.http.a = {\"\"x\"\"}; }");
    becomes("3.0", "vcl_recv", "set req.http.a = \"%22x%22\";", "sub vcl_recv { set req.http.a = \"%22x%22\"; }");
}

#[test]
fn places_are_checked_per_dialect() {
    refused("3.0", "vcl_recv", "set beresp.ttl = 1h;", "beresp.ttl can't be set in vcl_recv; it can in vcl_fetch.");
    refused("3.0", "vcl_fetch", "set obj.ttl = 1h;", "The response in vcl_fetch is beresp since 2.1.");
    refused("3.0", "vcl_hit", "set resp.http.a = \"1\";", "resp.http can't be set in vcl_hit; it can in vcl_deliver.");
    refused("3.0", "vcl_recv", "return (deliver);", "what it may return is: error, pass, pipe, lookup.");
    refused("3.0", "vcl_fetch", "return (fetch);", "what it may return is: error, restart, hit_for_pass, deliver.");
    refused("3.0", "vcl_recv", "return (frob);", "Expected return action name.");
    refused("2.1", "vcl_recv", "lookup;", "please change \"lookup;\" to \"return (lookup);\"");
    refused("3.0", "vcl_recv", "set req.method = \"GET\";", "req.method is a word of VCL 4");
    refused("2.0", "vcl_recv", "set client.identity = \"x\";", "VCL 2.0 has no client.identity; 2.1, 3.0 has.");
}

#[test]
fn c_is_refused_by_name() {
    refused("3.0", "vcl_recv", "C{ syslog(LOG_INFO, \"x\"); }C", "Inline C isn't supported: Write std.syslog(");
    refused("2.1", "vcl_recv", "C{ vcl_rewrite_accept_language(sp); }C", "picks a language from Accept-Language");
}

#[test]
fn a_bracket_left_open_is_shown() {
    refused(
        "3.0",
        "vcl_recv",
        "if  ( req.http.host == \"a\" { return (pass); }",
        "This bracket isn't closed before the block begins:",
    );
    let vcl = format!("{BACKEND}sub vcl_recv {{\n  if (req.url ~ \u{201c}x\u{201d}) {{ }}\n}}\n");
    let said = made(&vcl, None).unwrap_err();
    assert!(said.contains("typographic") && said.contains("Line 3 Pos 17"), "{said}");
}

#[test]
fn messages_of_the_compiler_name_the_old_place() {
    let vcl = format!("{BACKEND}sub vcl_recv {{\n  set req.http.a = frob;\n  return (lookup);\n}}\n");
    let said =
        crate::compile("old.vcl", vcl.as_bytes(), &Files(&[]), &CompileOptions::default()).unwrap_err().to_string();
    assert!(said.contains("frob") && said.contains("('old.vcl' Line 3 Pos 20)"), "{said}");
    let vcl = format!("{BACKEND}sub vcl_recv {{\n  set req.backend = frob;\n}}\n");
    let said =
        crate::compile("old.vcl", vcl.as_bytes(), &Files(&[]), &CompileOptions::default()).unwrap_err().to_string();
    assert!(said.contains("('old.vcl' Line 3 Pos "), "{said}");
}

#[test]
fn includes_stand_in_their_places_and_keep_their_names() {
    let files = Files(&[
        ("in.vcl", "# in\nif (req.request == \"X\") { error 405 \"no\"; }\n"),
        ("bad.vcl", "\nset req.foo = 1;\n"),
    ]);
    let vcl = format!("{BACKEND}sub vcl_recv {{\n  include \"in.vcl\";\n  return (lookup);\n}}\n");
    let migrated = migrate("old.vcl", vcl.as_bytes(), &files, &CompileOptions::default()).unwrap();
    let text = String::from_utf8(migrated.text).unwrap();
    assert!(text.contains("# in\nif (req.method == \"X\") { return (synth(405, \"no\")); }"), "{text}");
    assert!(migrated.notes.iter().any(|n| n.source == "in.vcl" && n.line == 2 && n.old == "req.request"));
    let vcl = format!("{BACKEND}sub vcl_recv {{\n  include \"bad.vcl\";\n  return (lookup);\n}}\n");
    let said = migrate("old.vcl", vcl.as_bytes(), &files, &CompileOptions::default()).unwrap_err().to_string();
    assert!(said.contains("('bad.vcl' Line 2 Pos 5)"), "{said}");
}

#[test]
fn notes_have_line_old_and_new() {
    let vcl = format!("{BACKEND}sub vcl_recv {{\n  if (req.request == \"X\") {{ }}\n}}\n");
    let notes = made(&vcl, None).unwrap().notes;
    let note = notes.iter().find(|n| n.line == 3).unwrap();
    assert_eq!((note.old.as_str(), note.new.as_str(), note.warning), ("req.request", "req.method", false));
}

#[test]
fn what_is_left_out_is_told_at_load() {
    let old = "backend b { .host = \"127.0.0.1\"; }\nsub vcl_recv {\n  lookup;\n}\nsub vcl_fetch {\n  set obj.prefetch = -30s;\n  deliver;\n}\n";
    let said = crate::compile("old.vcl", old.as_bytes(), &Files(&[]), &CompileOptions::default())
        .unwrap()
        .warnings
        .to_string();
    assert!(
        said.contains("('old.vcl' Line 6) set obj.prefetch = -30s; -> left out: 2.0 never fetched ahead"),
        "{said}"
    );
    // The message shows the line as written.
    assert!(
        said.contains("This looks everything up in the cache") && said.contains("('old.vcl' Line 3 Pos 3)"),
        "{said}"
    );
    let cure =
        "(req.request != \"GET\" && req.request != \"HEAD\") || req.http.Authorization || req.http.Cookie) { pass; }";
    assert!(said.contains(cure), "{said}");
}

#[test]
fn a_field_set_in_the_wrong_place_is_warned_of() {
    let vcl = |sub: &str, head: &str| {
        format!(
            "{BACKEND}sub vcl_hit {{ set req.http.tempheader = \"1\"; }}\nsub {sub} {{\n  set {head}.http.X-Hit = \"0\";\n  \
             if (req.http.tempheader) {{\n    set {head}.http.X-Hit = req.http.tempheader;\n  }}\n}}\n"
        )
    };
    let wrong = made(&vcl("vcl_fetch", "beresp"), None).unwrap().notes;
    let warnings: Vec<_> = wrong.iter().filter(|n| n.warning && n.line > 0).collect();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].line == 6 && warnings[0].reason.contains("set the field of resp in vcl_deliver"),
        "{warnings:?}"
    );
    assert!(made(&vcl("vcl_deliver", "resp"), None).unwrap().notes.iter().all(|n| !n.warning || n.line == 0));
    let said =
        crate::compile("old.vcl", vcl("vcl_fetch", "beresp").as_bytes(), &Files(&[]), &CompileOptions::default())
            .unwrap();
    assert!(said.warnings.to_string().contains("('old.vcl' Line 6) set beresp.http.X-Hit"), "{}", said.warnings);
    let grace = "('old.vcl' Line 1) VCL 3.0 -> (grace): an object in grace is delivered to the first who asks too";
    assert!(said.warnings.to_string().starts_with(grace), "{}", said.warnings);
}

#[test]
fn all_kinds_of_rubbish_come_to_an_end() {
    let whole = "backend b { .host = \"1\"; }\ndirector d random { { .backend = b; .weight = 1; } }\nacl a { \"x\"; }\n\
                 sub f { if (req.request ~ \"x\") { error 404 \"a\" req.url; } }\nsub vcl_miss { call f; set bereq.http.a = \"b\" \"c\"; }\n\
                 sub vcl_fetch { purge(req.url == \"x\"); esi; restart; }\n";
    for n in (0..whole.len()).step_by(3) {
        let _ = made(&whole[..n], None);
        let mut cut = whole.to_owned();
        cut.remove(n);
        for dialect in Dialect::ALL {
            let _ = made(&cut, Some(dialect));
        }
    }
    let deep = format!("sub vcl_recv {{ {} lookup;", "if (".repeat(5000));
    assert!(made(&deep, None).is_err());
    let minus = format!("sub vcl_recv {{ set req.grace = {}1s; lookup; }}", "-".repeat(5000));
    assert!(made(&minus, None).is_err());
}

#[test]
fn each_row_names_tests_that_exist() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = std::fs::read_to_string(top.join("tests/vtc/dialects/README.md")).unwrap();
    let mut cases = Vec::new();
    for folder in std::fs::read_dir(top.join("tests/vtc")).unwrap() {
        for case in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            cases.push(case.unwrap().file_name().into_string().unwrap());
        }
    }
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).map(|line| {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        (cells[0], *cells.last().unwrap(), line.contains("| no VCL ("))
    });
    let rows: Vec<_> = rows.filter(|(row, ..)| !matches!(*row, "row" | "snippet" | "word")).collect();
    for (row, tests, no_vcl) in &rows {
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(*no_vcl || !named.is_empty(), "{row} has no test");
        for test in named {
            let exists = match test.split_once("::") {
                Some((file, name)) => std::fs::read_to_string(top.join("crates").join(file))
                    .is_ok_and(|text| text.contains(&format!("#[test]\nfn {name}() {{"))),
                None => cases.iter().any(|case| case == test),
            };
            assert!(exists, "{row}: there is no test {test}");
        }
    }
    for (letter, count) in [('A', 8), ('D', 30), ('E', 19)] {
        for n in 1..=count {
            let name = format!("{letter}{n}");
            assert_eq!(rows.iter().filter(|(row, ..)| *row == name).count(), 1, "row {name}");
        }
    }
    for report in ["S0 ", "S1 ", "S2 ", "S3 ", "S4 "] {
        assert!(rows.iter().any(|(row, ..)| row.starts_with(report)), "snippets of {report}");
    }
}

#[test]
fn when_an_object_was_used_last() {
    for dialect in ["2.1", "3.0"] {
        let vcl = format!("{BACKEND}sub vcl_deliver {{ if (obj.lastuse > 1s) {{ unset resp.http.a; }} }}\n");
        compiles(&vcl, Dialect::from_name(dialect));
        refused(dialect, "vcl_hit", "set req.http.a = obj.lastuse;", "obj.age in VCL 4");
        let since_1970 = "sub vcl_synth { set resp.http.a = (now - std.time(integer=0)); }";
        becomes(dialect, "vcl_error", "set obj.http.a = obj.lastuse;", since_1970);
    }
}

#[test]
fn the_first_accept_language_file_is_replaced_where_it_stands() {
    let c = "C{\n#define DEFAULT_LANGUAGE \"en\"\n#define SUPPORTED_LANGUAGES \":en:ja:\"\n/* syslog(LOG_INFO, lang); */\n\
             VRT_SetHdr(sp, HDR_REQ, \"\\032X-Varnish-Accept-Language:\", lang);\n}C";
    let vcl = format!(
        "C{{\n#include <string.h>\n#include <stdio.h>\n}}C\nbackend b {{ .host = \"127.0.0.1\"; }}\nsub vcl_recv {{\n{c}\n  pass;\n}}\n"
    );
    let text = String::from_utf8(made(&vcl, None).unwrap_or_else(|reason| panic!("{reason}")).text).unwrap();
    let set = "set req.http.X-Varnish-Accept-Language = accept_language.lookup(req.http.Accept-Language, \"en ja\");";
    assert!(text.contains(set) && text.contains("import accept_language;") && !text.contains("C{"), "{text}");
}
