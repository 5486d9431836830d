// SPDX-License-Identifier: BSD-2-Clause
//! Tests of hints for typical mistakes.

use tables::vclsubs::Method;

use super::{Few, try_compile};
use crate::program::Program;
use crate::{CompileOptions, compile};

#[track_caller]
fn whole(text: &str, hint: &str) {
    match try_compile(text) {
        Ok(_) => panic!("compiles: {text}"),
        Err(reason) => assert!(reason.ends_with(&format!("\nHint: {hint}\n")), "{text}\nsays:\n{reason}\nnot:\n{hint}"),
    }
}

#[track_caller]
fn bad(text: &str, hint: &str) {
    whole(&format!("vcl 4.1;\nbackend b none;\n{text}"), hint);
}

#[track_caller]
fn recv(text: &str, hint: &str) {
    bad(&format!("sub vcl_recv {{\n{text}\n}}"), hint);
}

#[test]
fn marks_that_are_missing_or_wrong() {
    recv("set req.http.a = \"a\"\nset req.http.b = \"b\";", "A ';' is missing at the end of line 4.");
    recv("set req.http.a = \"a\" }", "A ';' is missing before the '}'.");
    recv("if (req.http.host == \"a\" { }", "The '(' of line 4, position 4 is still open: a ')' is missing.");
    bad(
        "import std; sub vcl_recv {\nset req.url = std.tolower(req.url;\n}",
        "The '(' of line 4, position 26 is still open: a ')' is missing.",
    );
    recv("if ((req.url) && (req.method) { }", "The '(' of line 4, position 4 is still open: a ')' is missing.");
    recv("set req.http.a = \"a\");", "There is one ')' too many.");
    recv("if (req.url = \"/\") { }", "== compares; = is for `set`.");
    recv("set req.url == \"/\";", "`set` has one =; == compares.");
    recv("if (req.url and req.method) { }", "\"and\" is written &&.");
    recv("if (req.url | req.method) { }", "\"or\" is written ||.");
    recv("if (req.url not ~ \"x\") { }", "\"not\" is written !, and \"doesn't match\" !~.");
    recv("if (req.url ~! \"x\") { }", "\"doesn't match\" is written !~.");
    recv("set req.http.a = \"a\" req.url;", "Texts are joined by +.");
    recv("return pass;", "What is returned stands in brackets: return (pass);");
    recv("if (req.url) return (pass);", "What a condition is for stands in braces: if (...) { ... }");
    recv("unset \"req.http.a\";", "Names have no quotes.");
    bad("sub vcl_synth { synthetic \"x\"; }", "What synthetic is given stands in brackets: synthetic(...);");
    bad("sub f() { }", "Subroutines take no arguments: sub name { ... }");
    bad("backend c { host = \"x\"; }", "Fields begin with a dot: .host = ...;");
    bad("backend c { .host = \"192.0.2.1\"; .port = 80; }", "It is written in quotes.");
    bad("backend c { .host = \"192.0.2.1\"; .connect_timeout = \"5s\"; }", "Numbers and durations have no quotes: 5s");
    bad("acl a { 127.0.0.1; }", "It is written in quotes.");
}

/// The message for a text that ends too early: its first line, its place, the hint.
fn cut(text: &str) -> String {
    let text = format!("vcl 4.1;\nbackend default none;\n{text}");
    let reason = try_compile(&text).map(|_| ()).unwrap_err();
    let place = reason.lines().find(|line| line.contains("' Line ")).unwrap_or_default();
    let hint = reason.lines().find(|line| line.starts_with("Hint: ")).unwrap_or_default();
    assert!(!reason.contains("<builtin>"), "{text}\n{reason}");
    format!("{} {place} {hint}", reason.lines().next().unwrap_or_default())
}

#[test]
fn the_builtin_vcl_is_not_to_blame_for_what_a_text_lacks() {
    let semicolon = "Expected ';' got end of input ('<vcl.inline>' Line";
    let missing = "Hint: A ';' is missing at the end of line";
    for end in ["", "\n", "\n\n# the end\n"] {
        assert_eq!(cut(&format!("backend b none{end}")), format!("{semicolon} 3 Pos 11) {missing} 3."));
        assert_eq!(cut(&format!("sub vcl_recv {{\nreturn (pass){end}")), format!("{semicolon} 4 Pos 13) {missing} 4."));
        assert_eq!(
            cut(&format!("sub vcl_recv {{\nset req.url = \"a\"{end}")),
            format!("{semicolon} 4 Pos 15) {missing} 4.")
        );
        assert_eq!(
            cut(&format!("backend b {{ .host = \"192.0.2.1\"{end}")),
            format!("{semicolon} 3 Pos 21) {missing} 3.")
        );
    }
    for text in [
        "import std",
        "acl a {",
        "acl a { \"127.0.0.1\"",
        "sub",
        "sub vcl_recv",
        "sub vcl_recv {",
        "sub vcl_recv { set",
        "sub vcl_recv { set req.url",
        "sub vcl_recv { set req.url =",
        "sub vcl_recv { call",
        "sub vcl_recv { if",
        "sub vcl_recv { if (req.url",
        "sub vcl_recv { if (req.url ~",
        "sub vcl_recv { if (req.url) { } else",
        "probe p",
        "probe p { .url =",
        "backend",
        "backend b",
        "backend b {",
        "import",
        "vcl",
        "vcl 4.1",
        "new",
        "sub vcl_init { new x",
        "sub vcl_init { new x = ",
        "sub vcl_recv { return",
        "sub vcl_recv { return (",
        "sub vcl_recv { return (synth(",
        "sub vcl_recv { set req.url = regsub(",
        "sub vcl_recv { unset",
        "sub vcl_recv { ban(",
    ] {
        cut(text);
    }
    assert!(cut("acl a { \"127.0.0.1\";").contains("A '}' is missing. Still open is the '{' of line 3."));
    assert!(cut("sub vcl_recv { if (req.url").contains("The '(' of line 3, position 19 is still open"));
}

#[test]
fn a_file_that_lacks_its_last_semicolon() {
    let text = b"vcl 4.1;\nbackend b none;\ninclude \"i\";\nsub vcl_recv { }\n";
    let files = super::Few(&[("i", "import std;\nacl a { \"127.0.0.1\"; }\nbackend c none\n")]);
    let reason = compile("main", text, &files, &CompileOptions::default()).unwrap_err().to_string();
    assert!(reason.ends_with("Hint: A ';' is missing at the end of line 3 of 'i'.\n"), "{reason}");
}

#[test]
fn misspelt_else_and_missing_values() {
    let form = "It is written else { ... }, or else if (...) { ... }.";
    recv("if (req.url) { } esle { }", &format!("Is else meant? {form}"));
    recv("if (req.url) { } els if (req.method) { }", &format!("Is else meant? {form}"));
    recv("if (req.url) { } elsefi (req.method) { }", "Is elseif meant? It is written else if (...) { ... }.");
    recv("if (req.url) { } elseif req.method { }", "The condition stands in brackets: else if (...) { ... }");
    recv("if (req.url) { } else (req.method) { }", "A condition needs an `if`: else if (...) { ... }");
    for word in ["elseif", "elsif", "elif", "else if"] {
        try_compile(&format!(
            "vcl 4.1; backend b none; sub vcl_recv {{ if (req.url) {{ }} {word} (req.method) {{ }} }}"
        ))
        .expect(word);
    }
    recv("set req.url = ;", "A value is missing after '=': for example \"text\", an empty one \"\".");
    recv("set req.http.a = \"a\" + ;", "A value is missing after '+': for example \"text\", an empty one \"\".");
    recv("set req.ttl = ;", "A value is missing after '=': for example 120s.");
    recv("return (synth());", "A value is missing after '(': for example 404.");
}

#[test]
fn braces() {
    let open = "a '}' is missing. Still open is the '{' of line";
    bad("sub vcl_recv {\nif (req.url) {\n}", &format!("The text ends inside a subroutine: {open} 3."));
    let reason =
        try_compile("vcl 4.1;\nbackend b none;\nsub vcl_recv {\nif (req.url) {\n}").expect_err("a brace is missing");
    assert!(reason.starts_with("Symbol cannot be used here: the text ends inside a subroutine.\n('<vcl.inline>' Line 3 Pos 14)\nsub vcl_recv {\n"), "{reason}");
    bad("sub vcl_recv {\nif (req.url) {\n}\nsub f { }", &format!("No 'sub' inside a subroutine: {open} 3."));
    bad("sub vcl_recv {\nif (req.url) {\nacl a { }", &format!("No 'acl' inside a subroutine: {open} 4 and 3."));
    bad("sub vcl_recv { } }", "There is one '}' too many, or a '{' is missing before it. vcl_recv ended in line 3.");
    bad(
        "sub vcl_recv {\nif (req.url) {\n}\n}\n}\nset req.url = \"/\";\n}",
        "There is one '}' too many, or a '{' is missing before it. vcl_recv ended in line 6.",
    );
    bad(
        "sub vcl_recv {\nif (req.url) {\n}}\nset req.url = \"/\";\n}",
        "'set' stands inside a subroutine: sub vcl_recv { ... }. Is there one '}' too many before it? vcl_recv ended in line 5.",
    );
    let still = "A '}' is missing. Still open is the '{' of line";
    bad("backend c {\n.host = \"192.0.2.1\";\nsub vcl_recv { }", &format!("{still} 3."));
    bad("backend c {\n.host = \"192.0.2.1\";\n.probe = {\n.url = \"/\";\n}\nsub vcl_recv { }", &format!("{still} 3."));
    bad("backend c {\n.probe = {\n.url = \"/\";\nacl a { }", &format!("{still} 4 and 3."));
    bad("acl a {\n\"192.0.2.1\";\nsub vcl_recv { }", &format!("{still} 3."));
    let alone = "It stands right behind the '}' of its `if`. Still open is the '{' of line";
    bad("sub vcl_recv {\nif (req.url) {\nset req.url = \"/\";\nelse {\n}\n}", &format!("{alone} 4."));
    bad("sub vcl_recv {\nif (req.url) {\n}\nset req.url = \"/\";\nelsif (req.url) {\n}\n}", &format!("{alone} 3."));
    recv("if (req.url) { } else set req.url = \"/\";", "What it is for stands in braces: else { ... }");
    bad(
        "set req.url = \"/\";",
        "'set' stands inside a subroutine: sub vcl_recv { ... }. Is there one '}' too many before it?",
    );
    bad("bakend c { }", "Is 'backend' meant?");
    bad("sub f { };", "No ';' follows a '}'.");
}

#[test]
fn braces_of_included_files() {
    let text = b"vcl 4.1;\nbackend b none;\ninclude \"i\";\nsub vcl_recv { }\n";
    let files = super::Few(&[("i", "sub f {\nif (req.url) {\n}\n")]);
    let reason = crate::compile("main", text, &files, &crate::CompileOptions::default()).unwrap_err().to_string();
    let hint = "Hint: No 'sub' inside a subroutine: a '}' is missing. Still open is the '{' of line 1 of 'i'.\n";
    assert!(reason.ends_with(hint), "{reason}");
}

#[test]
fn names() {
    recv("set req.htp.X = \"1\";", "Is req.http.X meant?");
    recv("if (client.adress) { }", "There are client.identity, client.ip.");
    recv("if (client.idenity) { }", "Is client.identity meant?");
    recv(
        "set X-Foo = \"1\";",
        "A request's field is req.http.X-Foo; VCL has no other variables of one's own but those of the module var.",
    );
    recv("set req.http.a = req.cookie;", "A field is req.http.cookie.");
    recv("cookie.parse(\"\");", "`import cookie;` is missing.");
    recv("call cleen;\n} sub clean {", "cleen is used and never declared: is one name meant?");
    recv("call cleen;\n} sub clean { call zap; } sub vcl_hit { call clean;", "Is clean meant?");
    recv("call clean;", "Declare it, outside of subroutines: sub clean { ... }");
    recv("set req.backend_hint = web;", "Declare it, outside of subroutines: backend web { .host = \"127.0.0.1\"; }");
    recv("return (vcl(other));", "Labels are made by the CLI command vcl.label.");
    bad("import std; sub vcl_recv { std.lgo(\"\"); }", "Is std.log meant?");
    bad("import std as s; sub vcl_recv { std.log(\"\"); }", "That module is imported as s.");
    bad("import directrs;", "Is directors meant?");
    bad("probe p { .uri = \"/\"; }", "Is .url meant?");
    bad("sub vcl_backend_respnse { }", "Is vcl_backend_response meant?");
    bad("backend c none;", "Use it or delete it; with the parameter vcc_err_unref=off this is a warning.");
    whole("vcl 7.4;", "That is the version of the language, not of a release: write `vcl 4.1;`.");
    let backend =
        "Declare one: backend default { .host = \"127.0.0.1\"; .port = \"8080\"; }, or `backend default none;`.";
    whole("vcl 4.1;", backend);
}

#[test]
fn words_of_old_releases() {
    recv("if (req.request == \"GET\") { }", "Since 4.0 that is said by req.method.");
    recv("error 404;", "Since 4.0 that is said by return (synth(404, \"Not Found\")).");
    recv("remove req.http.a;", "Since 4.0 that is said by unset.");
    recv("set req.backend = b;", "Since 4.0 that is said by req.backend_hint.");
    recv("return (lookup);", "It is called hash since 4.0.");
    bad("sub vcl_hash { set req.hash += req.url; }", "Since 4.0 that is said by hash_data(...).");
    bad("sub vcl_fetch { }", "It is called vcl_backend_response since 4.0.");
    bad(
        "sub vcl_backend_response { return (hit_for_pass); }",
        "Since 4.0: set beresp.uncacheable = true; return (deliver);",
    );
    recv("return (lokup);", "Legal here: fail, synth, restart, pass, pipe, hash, purge, vcl.");
    recv("return (psas);", "Is pass meant?");
}

#[test]
fn types_and_arguments() {
    let response = |text: &str, hint: &str| bad(&format!("sub vcl_backend_response {{ {text} }}"), hint);
    response("set beresp.ttl = 120;", "A duration has a unit: 120s");
    response("set beresp.ttl = \"120s\";", "A duration has no quotes: 120s");
    response("set beresp.ttl = beresp.http.x;", "std.duration(TEXT, 0s) makes a duration of a text.");
    response("if (beresp.status == \"404\") { }", "A number has no quotes.");
    response("set beresp.status = beresp.http.x;", "std.integer(TEXT, 0) makes a number of a text.");
    recv("if (req.http.a == 1) { }", "A text stands in quotes: \"1\"");
    recv("if (client.ip ~ \"10.0.0.0/8\") { }", "A network is declared: acl name { \"10.0.0.0\"/8; }");
    recv(
        "if (client.ip == \"10.0.0.0/8\") { }",
        "One address has no mask; a network is declared: acl name { \"10.0.0.0\"/8; }",
    );
    recv(
        "if (req.url ~ req.http.a) { }",
        "A pattern is a text in quotes; re2.match() takes one that is made while running.",
    );
    bad("acl a { } sub vcl_recv { if (req.http.x ~ a) { } }", "Addresses are matched: std.ip(TEXT, client.ip) ~ ACL");
    let new = "import directors; sub vcl_init { new rr = directors.round_robin(); } sub vcl_recv";
    bad(&format!("{new} {{ set req.backend_hint = rr; }}"), "Its method gives one: rr.backend()");
    bad(&format!("{new} {{ rr.add_backend(); }}"), "It takes add_backend(BACKEND).");
    bad("import std; sub vcl_recv { std.log(\"a\", \"b\"); }", "It takes log(STRANDS s).");
    bad("import std; sub vcl_recv { std.collect(\"Cookie\"); }", "A field is named without quotes: req.http.Cookie");
    recv("set req.url = regsub(req.url, \"x\");", "It takes (TEXT, PATTERN, REPLACEMENT).");
}

#[test]
fn places() {
    recv("set beresp.ttl = 1h;", "It can be set in vcl_backend_response, vcl_backend_error.");
    recv("if (obj.hits) { }", "It can be read in vcl_hit, vcl_deliver.");
    recv("hash_data(req.url);", "It is for vcl_hash.");
    recv("call f; } sub f { unset resp.http.a;", "It can be unset in vcl_deliver, vcl_synth.");
}

#[test]
fn characters_that_are_not_vcl() {
    let says = |text: &str, says: &str| {
        let reason = try_compile(&format!("vcl 4.1;\nbackend b none;\n{text}")).unwrap_err();
        assert!(reason.starts_with(&format!("Syntax error at\n{says}\n(")), "{reason}");
    };
    says("sub vcl_recv { set req.http.a = 'a'; }", "Texts stand in double quotes: \"...\".");
    says(
        "sub vcl_recv { set req.http.a = \"a\\\"b\\\"\"; }",
        "Texts have no escapes: one with quotes in it stands in {\"...\"} or \"\"\"...\"\"\".",
    );
    says("sub\u{a0}vcl_recv { }", "This is a no-break space; outside of texts and comments VCL is ASCII.");
    says("sub vcl_r\u{e9}cv { }", "This is U+00E9; outside of texts and comments VCL is ASCII.");
    for quote in "\u{201e}\u{201f}\u{ab}\u{203a}\u{2019}\u{2033}\u{b4}\u{ff02}".chars() {
        let text = "This quote is a typographic one; VCL's is the plain \".";
        says(&format!("sub vcl_recv {{ if (req.url ~ {quote}x\") {{ }} }}"), text);
    }
    let outside = "outside of texts and comments VCL is ASCII.";
    says("sub\u{200b} a { }", &format!("This is U+200B, a character without width; {outside}"));
    says("sub\u{2009}a { }", &format!("This is a space of another kind (U+2009); {outside}"));
    says("sub a { } \u{feff}", &format!("This is a byte order mark (U+FEFF), which only begins a file; {outside}"));
    says("sub a { set req.ttl = 1s \u{2013} 1s; }", &format!("This is a dash (U+2013); VCL's is -; {outside}"));
    let reason = try_compile("vcl 4.1;\nsub a { set req.url = {\"x\n }").unwrap_err();
    assert!(
        reason.starts_with("Unterminated long-string, starting at\nA text that begins with {\" ends with \"}.\n("),
        "{reason}"
    );
    says("sub \0", "This is a NUL byte.");
    says("sub _x { }", "Names begin with a letter.");
    says(
        "sub vcl_recv { if (req.url ~ \u{201c}x\u{201d}) { } }",
        "This quote is a typographic one; VCL's is the plain \".",
    );
    let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain("vcl 4.1;".bytes().flat_map(|b| [b, 0])).collect();
    let reason =
        crate::compile("f", &utf16, &super::Few(&[]), &crate::CompileOptions::default()).unwrap_err().to_string();
    assert!(reason.contains("This file is in UTF-16"), "{reason}");
    super::try_compile("\u{feff}vcl 4.1;\r\nbackend b none;\r\n").expect("a byte order mark and CR LF are no mistake");
}

#[test]
fn what_is_quoted_is_short_and_harmless() {
    let text = format!("sub vcl_recv {{ if (req.url == \"{}\" &&& req.http.a) {{ }} }}", "y".repeat(5000));
    let reason = try_compile(&format!("vcl 4.1; backend b none;\n{text}")).unwrap_err();
    let marked = reason.lines().skip_while(|line| !line.starts_with("[...]yyy")).nth(1).unwrap();
    assert!(marked.len() < 500 && marked.ends_with("-#------------------"), "{reason}");
    let reason = try_compile("vcl 4.1; backend b none;\nsub \x1b[31m\x07").unwrap_err();
    let name = try_compile("vcl 4.1; include \"a\x1b[2Jb\"; backend b none;").unwrap_err();
    assert!(name.starts_with("Cannot read file 'a?[2Jb'") && !name.contains('\x1b'), "{name:?}");
    assert!(reason.contains("\nsub ?[31m?\n") && !reason.contains('\x1b'), "{reason:?}");
}

#[test]
fn words_of_later_releases() {
    let good = |text: &str| {
        let compiled = try_compile(&format!("vcl 4.1;\nbackend b none;\n{text}"));
        assert!(compiled.is_ok(), "{text}: {:?}", compiled.err());
    };
    good("acl a { \"192.0.2.1\"; } unused a; backend c none; unused c; sub s { } unused s; probe p { } unused p;");
    bad("import std; unused std;", "It may be a backend, a probe, an acl or a sub.");
    let wrong = try_compile("vcl 4.1; backend b none; acl a -fold(-report) { \"192.0.2.1\"; }");
    assert!(wrong.is_err_and(|reason| reason.starts_with("-fold(...) is invalid, use -fold:\n")));
    for flags in ["+fold", "-fold", "+fold(-report)", "+log +fold(+report) -pedantic"] {
        good(&format!("acl a {flags} {{ \"192.0.2.1\"; }} sub vcl_recv {{ if (client.ip ~ a) {{ return (pass); }} }}"));
    }
}

#[test]
fn refreshes_are_of_those_that_speak_of_them() {
    recv("set req.http.x = obj_stale.ttl;", "It can be read in vcl_backend_refresh.");
    bad("sub vcl_recv { set beresp.ttl = 1s; }", "It can be set in vcl_backend_response, vcl_backend_error.");
    bad(
        "sub vcl_recv { set beresp.ttl = 1s; } sub vcl_refresh_valid { }",
        "It can be set in vcl_backend_response, vcl_backend_error, vcl_backend_refresh.",
    );
    let plain = compiled("vcl 4.1; backend b none;");
    assert_eq!(plain.sub_of(Method::BackendRefresh), None);
    for sub in tables::vclsubs::REFRESH_SUBS {
        let program =
            compiled(&format!("vcl 4.1; backend b none; sub {sub} {{ set beresp.http.Status = obj_stale.status; }}"));
        assert!(program.sub_of(Method::BackendRefresh).is_some(), "{sub}");
    }
}

fn compiled(text: &str) -> Program {
    try_compile(text).expect("it compiles").program
}

#[test]
fn patterns() {
    let check = |text: &str| {
        let options =
            CompileOptions { check_regex: Some(|_| Err("it is wrong".to_owned())), ..CompileOptions::default() };
        let text = format!("vcl 4.1; backend b none; sub vcl_recv {{ if (req.url ~ \"{text}\") {{ }} }}");
        compile("<vcl.inline>", text.as_bytes(), &Few(&[]), &options).expect_err("the pattern is wrong").to_string()
    };
    assert!(check("*.jpg").contains("Hint: A pattern isn't a wildcard: any characters are .*"));
    assert!(check("(a").contains("Hint: Characters that mean themselves are escaped"));
}

#[test]
fn a_version_that_is_not_the_files() {
    let or = "Or the file is of 3.0 or 2.x, and its first line isn't: without `vcl 4.0;` it is compiled as what it is.";
    let old = |text: &str| format!("vcl 4.0;\nbackend b none;\n{text}");
    whole(
        &old("sub vcl_recv { remove req.http.a; } sub vcl_fetch { }"),
        &format!("Since 4.0 that is said by unset. {or}"),
    );
    whole(&old("sub vcl_fetch { }"), &format!("It is called vcl_backend_response since 4.0. {or}"));
    whole(
        &old("sub vcl_recv { remove req.http.a; } sub vcl_synth { } sub vcl_fetch { }"),
        "Since 4.0 that is said by unset.",
    );
    recv("remove req.http.a;", "Since 4.0 that is said by unset.");
}

#[test]
fn names_that_are_taken() {
    let again = "There is a backend of that name already: give one of them another, and set req.backend_hint to it where it is for.";
    whole("vcl 4.1; backend default none; backend default none;", again);
}

#[test]
fn what_strangers_write() {
    let join = "Texts are joined by +, conditions by && and ||.";
    recv("return (synth(301, \"https://\" req.http.host));", join);
    recv("if (req.url ~ \"a\" req.method) { }", join);
    recv("set req.http.a = \"a\" . req.url;", "Texts are joined by +.");
    let order = "Texts have no order: std.integer(TEXT, 0) makes a number of one.";
    recv("if (req.http.Content-Length > 1000) { }", order);
    recv("if (req.http.Content-Length == 1000) { }", "A text stands in quotes: \"1000\"");
    recv(
        "var x = 1;",
        "Variables of one's own are those of the module var: `import var;`, var.set(\"x\", \"1\"), var.get(\"x\").",
    );
    recv("set req.backend_hint = defualt;", "Is default meant?");
    recv("return (syncth(410));", "Is synth meant?");
    bad(
        "include \"a.vcl\";",
        "A relative name is looked for in the directories of vcl_path, /etc/varnish unless set (`lacquer vcl check`: -I DIR).",
    );
    bad("acl a { \"127.0.0.1\", \"127.0.0.2\"; }", "Entries end in ';'.");
    bad("probe p { .interval = 5; }", "A duration has a unit: 5s");
    bad(
        "sub vcl_deliver { set obj.http.X-A = \"a\"; }",
        "In vcl_deliver the object's fields are the response's: resp.http.X-A",
    );
    bad(
        "backend c { .host = \"http://a.example:80/\"; }",
        "Only a name or an address stands here, no URL: .host = \"a.example\"; and .port beside it.",
    );
    bad("backend c { .host = \"192.0.2.1\"; .ssl_verify_pear = 1; }", "Is .ssl_verify_peer meant?");
    bad(
        "acl a { \"10.0.0.1\"/8; }",
        "`acl NAME -pedantic { ... }` takes it as that network, as `vcl 4.0;` and releases before 7.0 do.",
    );
}
