// SPDX-License-Identifier: BSD-2-Clause
//! Tests of hints for typical mistakes in an old program.

use super::{BACKEND, made};

/// The last line of the message for a program of 3.0.
#[track_caller]
fn bad(text: &str, hint: &str) {
    let whole = format!("{BACKEND}{text}\nsub vcl_fetch {{ }}\n");
    match made(&whole, Some(super::Dialect::V30)) {
        Ok(_) => panic!("translates: {whole}"),
        Err(reason) => {
            assert!(reason.ends_with(&format!("\nHint: {hint}\n")), "{whole}\nsays:\n{reason}\nnot:\n{hint}")
        }
    }
}

#[track_caller]
fn recv(text: &str, hint: &str) {
    bad(&format!("sub vcl_recv {{\n{text}\n}}"), hint);
}

#[test]
fn marks_that_are_missing_or_wrong() {
    let open = |line: u32, pos: u32| format!("The '(' of line {line}, position {pos} is still open: a ')' is missing.");
    recv("if (req.http.host == \"a\" { }", &open(3, 4));
    recv("if (req.url ~ \"a\") {\nif (req.url && (req.request == \"b\" {\n}\n}", &open(4, 16));
    recv("set req.url = regsub(req.url, \"a\", \"b\";", &open(3, 21));
    recv("set req.url = \"a\"\nset req.url = \"b\";", "A ';' is missing at the end of line 3.");
    recv("set req.url = req.url\nremove req.http.a;", "A ';' is missing at the end of line 3.");
    recv("set req.url = \"a\" }", "A ';' is missing before the '}'.");
    recv("set req.url == \"/\";", "`set` has one =; == compares.");
    recv("if (req.url = \"/\") { }", "== compares; = is for `set`.");
    recv("if (req.url and req.request) { }", "\"and\" is written &&.");
    recv("set req.url = \"a\");", "There is one ')' too many.");
    recv("if (req.url) { } else set req.url = \"/\";", "What it is for stands in braces: else { ... }");
    recv("if (req.url) return (pass);", "What a condition is for stands in braces: if (...) { ... }");
    bad("backend c { host = \"x\"; }", "Fields begin with a dot: .host = ...;");
}

#[test]
fn braces() {
    let still = "Still open is the '{' of line";
    recv("if (req.url) {", &format!("No 'sub' inside a subroutine: a '}}' is missing. {still} 2."));
    bad("sub f {\nif (req.url) {", &format!("No 'sub' inside a subroutine: a '}}' is missing. {still} 3 and 2."));
    recv(
        "if (req.url) {\nset req.url = \"/\";\nelse {\n}\n}",
        &format!("It stands right behind the '}}' of its `if`. {still} 3."),
    );
    bad("backend c {\n.host = \"127.0.0.1\";", &format!("A '}}' is missing. {still} 2."));
    recv("}", "There is one '}' too many, or a '{' is missing before it. vcl_recv ended in line 3.");
    recv(
        "}\nset req.url = \"/\";",
        "'set' stands inside a subroutine: sub vcl_recv { ... }. Is there one '}' too many before it? vcl_recv ended in line 3.",
    );
    bad("sub f { };", "No ';' follows a '}'.");
    bad("bakend c { }", "Is 'backend' meant?");
    let reason = made(&format!("{BACKEND}sub vcl_fetch {{\nif (req.url) {{\n}}\n"), None).unwrap_err();
    let hint = format!("Hint: The text ends inside a subroutine: a '}}' is missing. {still} 2.\n");
    assert!(reason.contains("('old.vcl' Line 2 Pos 15)") && reason.ends_with(&hint), "{reason}");
}

#[test]
fn names() {
    recv("set req.htp.X = \"1\";", "Is req.http.X meant?");
    recv("set req.backnd = default;", "Is req.backend meant?");
    bad("sub vcl_hit {\nif (obj.hists > 0) { }\n}", "Is obj.hits meant?");
}
