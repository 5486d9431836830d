// SPDX-License-Identifier: BSD-2-Clause
//! Tests of automatic corrections.

use crate::{CompileOptions, Diagnostics, Fix, NoSources, compile};

fn mended(text: &str) -> Option<String> {
    let options = CompileOptions { modules: super::modules::MODULES, ..CompileOptions::default() };
    let Diagnostics(said) = match compile("f", text.as_bytes(), &NoSources, &options) {
        Ok(good) => good.warnings,
        Err(reason) => reason,
    };
    let Fix { mut edits, .. } = said.into_iter().next().expect("something is wrong").fix?;
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.at.start));
    let mut text = text.to_owned();
    edits.into_iter().for_each(|(place, new)| text.replace_range(place.at, &new));
    Some(text)
}

#[track_caller]
fn bad(wrong: &str, right: &str) {
    let whole = |text: &str| format!("vcl 4.1;\nbackend b none;\n{text}\n");
    assert_eq!(mended(&whole(wrong)).as_deref(), Some(&*whole(right)), "{wrong}");
}

#[track_caller]
fn recv(wrong: &str, right: &str) {
    let whole = |text: &str| format!("sub vcl_recv {{\n{text}\n}}");
    bad(&whole(wrong), &whole(right));
}

#[test]
fn marks() {
    recv("set req.url == \"/\";", "set req.url = \"/\";");
    recv("if (req.url = \"/\") { }", "if (req.url == \"/\") { }");
    recv("if (req.url and req.method) { }", "if (req.url && req.method) { }");
    recv("if (req.url | req.method) { }", "if (req.url || req.method) { }");
    recv("set req.url = \"a\" req.url;", "set req.url = \"a\" + req.url;");
    recv("set req.url = \"a\");", "set req.url = \"a\";");
    recv("set req.url = \"a\"\nset req.url = \"b\";", "set req.url = \"a\";\nset req.url = \"b\";");
    recv("if (req.url == \"a\" { }", "if (req.url == \"a\") { }");
    recv("set req.url = regsub(req.url, \"a\", \"b\";", "set req.url = regsub(req.url, \"a\", \"b\");");
    recv("return pass;", "return (pass);");
    recv("unset \"req.http.a\";", "unset req.http.a;");
    recv("set\u{a0}req.url = \"\";", "set req.url = \"\";");
    recv("set req.url = \u{201e}a\u{201c};", "set req.url = \"a\";");
    bad("sub f { };", "sub f { }");
    bad("backend c { host = \"192.0.2.1\"; }", "backend c { .host = \"192.0.2.1\"; }");
    bad("backend c { .host = \"192.0.2.1\"; .port = 80; }", "backend c { .host = \"192.0.2.1\"; .port = \"80\"; }");
    let response = |ttl: &str| format!("sub vcl_backend_response {{ set beresp.ttl = {ttl}; }}");
    bad(&response("120"), &response("120s"));
}

#[test]
fn names() {
    recv("if (req.request == \"GET\") { }", "if (req.method == \"GET\") { }");
    recv("remove req.http.a;", "unset req.http.a;");
    recv("set req.htp.X = \"1\";", "set req.http.X = \"1\";");
    recv("return (lookup);", "return (hash);");
    recv("return (psas);", "return (pass);");
    bad("sub vcl_deliver { deliver; }", "sub vcl_deliver { return (deliver); }");
    bad("probe p { .uri = \"/\"; }", "probe p { .url = \"/\"; }");
    bad("bakend c { }", "backend c { }");
    bad("sub vcl_fetch { }", "sub vcl_backend_response { }");
    let log = "sub vcl_recv { std.log(\"a\"); }";
    let text = |import: &str| format!("vcl 4.1;\n{import}backend b none; {log}\n");
    assert_eq!(mended(&text("")).as_deref(), Some(&*text("import std;\n")));
    let cookie = |import: &str| {
        format!("vcl 4.1;\nimport std;\n{import}backend b none; sub vcl_recv {{ cookie.parse(\"\"); }}\n")
    };
    assert_eq!(mended(&cookie("")).as_deref(), Some(&*cookie("import cookie;\n")));
}

#[test]
fn an_import_is_inserted_before_its_use() {
    let check = |wrong: &str, right: &str| assert_eq!(mended(wrong).as_deref(), Some(right), "{wrong}");
    let log = "sub vcl_recv { std.log(\"a\"); }";
    // An import behind the use is no place for it.
    let text = |import: &str| format!("vcl 4.1;\n{import}backend b none;\n{log}\nimport cookie;\n");
    check(&text(""), &text("import std;\n"));
    let text = |import: &str| format!("vcl 4.1;\nimport cookie;\n{import}backend b none;\n{log}\nimport blob;\n");
    check(&text(""), &text("import std;\n"));
    // The use is in the same line.
    let text = |import: &str| format!("vcl 4.1;{import} backend b none; {log}\n");
    check(&text(""), &text(" import std;"));
    let text = |import: &str| format!("vcl 4.1; import cookie;{import} backend b none; {log}");
    check(&text(""), &text(" import std;"));
    // A comment belongs to its line, or to the next one.
    let text = |import: &str| format!("vcl 4.1; # since 4.1\n{import}backend b none;\n{log}\n");
    check(&text(""), &text("import std;\n"));
    let text = |import: &str| format!("vcl 4.1;{import} /* since\n4.1 */\nbackend b none;\n{log}\n");
    check(&text(""), &text(" import std;"));
    let text = |import: &str| format!("vcl\n4.1;\n{import}backend b none;\n{log}\n");
    check(&text(""), &text("import std;\n"));
}

#[test]
fn warnings() {
    recv("if (req.url == \"^/x\") { }", "if (req.url ~ \"^/x\") { }");
    recv("if (req.url != \"^/x\") { }", "if (req.url !~ \"^/x\") { }");
    let pipe = |head: &str| format!("sub vcl_pipe {{ set {head}.http.Connection = \"close\"; }}");
    bad(&pipe("req"), &pipe("bereq"));
}

#[test]
fn what_has_no_one_mend() {
    for text in
        ["acl a { 127.0.0.1; }", "sub vcl_recv { error 404; }", "sub vcl_recv { return (pass) }", "sub f { call g; }"]
    {
        let text = format!("vcl 4.1;\nbackend b none;\n{text}\n");
        assert!(mended(&text).is_none_or(|new| new.contains("(pass);")), "{text} {:?}", mended(&text));
    }
}
