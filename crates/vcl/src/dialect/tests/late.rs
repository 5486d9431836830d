// SPDX-License-Identifier: BSD-2-Clause
//! Tests of late selection: saint mode and dns directors.

use super::*;

/// The last `sub NAME` of a translated program, with single blanks.
fn last(vcl: &str, name: &str) -> String {
    let text = String::from_utf8(made(vcl, Some(Dialect::V30)).unwrap().text).unwrap();
    let from = text.rfind(&format!("sub {name} {{")).unwrap_or_else(|| panic!("no {name} in {text}"));
    let end = text[from..].find("\n}\n").unwrap();
    text[from..from + end + 2].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn saint_mode_has_an_object_for_each_backend_and_director() {
    let vcl = "backend a { .host = \"127.0.0.1\"; .saintmode_threshold = 0; }\n\
               director d random { { .backend = a; .weight = 2; } { .backend = { .host = \"127.0.0.2\"; } } }\n\
               sub vcl_recv { if (req.url == \"/a\") { set req.backend = a; } else { set req.backend = d; } }\n\
               sub vcl_fetch { set beresp.saintmode = 20s; if (req.backend == a) { return (restart); } }\n";
    assert_eq!(
        last(vcl, "vcl_init"),
        "sub vcl_init { new a_saint = saintmode.saintmode(a, 0); new d_1_saint = saintmode.saintmode(d_1, 10); new d_saint = \
         directors.random(); d_saint.add_backend(a_saint.backend(), 2); d_saint.add_backend(d_1_saint.backend(), 1); }"
    );
    assert_eq!(
        last(vcl, "vcl_backend_fetch"),
        "sub vcl_backend_fetch { if (!bereq.uncacheable) { if (bereq.http.X-VCL-Backend == \"a\") { set bereq.backend = \
         a_saint.backend(); } else if (bereq.http.X-VCL-Backend == \"d\") { set bereq.backend = d_saint.backend(); } } }"
    );
    compiles(vcl, Some(Dialect::V30));
}

#[test]
fn one_backend_needs_no_mark() {
    let vcl = format!("{BACKEND}sub vcl_fetch {{ set beresp.saintmode = 1m; }}\n");
    assert_eq!(
        last(&vcl, "vcl_backend_fetch"),
        "sub vcl_backend_fetch { if (!bereq.uncacheable) { set bereq.backend = default_saint.backend(); } }"
    );
    becomes(
        "3.0",
        "vcl_fetch",
        "set beresp.saintmode = 1m;",
        "sub vcl_backend_response { if (!bereq.uncacheable) { saintmode.blacklist(1m); } }",
    );
    compiles(&vcl, Some(Dialect::V21));
}

#[test]
fn without_a_backend_that_is_what_is_wrong() {
    let made = made("sub vcl_fetch { set beresp.saintmode = 1m; }\n", Some(Dialect::V30)).unwrap();
    let text = String::from_utf8(made.text).unwrap();
    assert!(text.contains("saintmode.blacklist(1m)") && !text.contains("_saint"), "{text}");
}

#[test]
fn directors_that_take_a_key_get_it_of_the_fetch() {
    for (kind, call) in [("hash", "blob.encode(HEX, blob=bereq.hash)"), ("client", "client.identity")] {
        let vcl = format!(
            "{BACKEND}director d {kind} {{ {{ .backend = default; .weight = 1; }} }}\nsub vcl_recv {{ set req.backend = d; }}\n\
             sub vcl_fetch {{ set beresp.saintmode = 1m; }}\n"
        );
        let fetch = last(&vcl, "vcl_backend_fetch");
        assert!(fetch.contains(&format!("set bereq.backend = d_saint.backend({call});")), "{fetch}");
        compiles(&vcl, Some(Dialect::V30));
    }
}

#[test]
fn a_threshold_alone_is_nothing() {
    let vcl = "backend default { .host = \"127.0.0.1\"; .saintmode_threshold = 3; }\n";
    let migrated = made(vcl, Some(Dialect::V30)).unwrap();
    assert!(!String::from_utf8_lossy(&migrated.text).contains("saintmode"));
    assert!(migrated.notes.iter().any(|n| n.reason == "nothing sets beresp.saintmode"), "{:?}", migrated.notes);
    compiles(vcl, Some(Dialect::V30));
    let wrong = "backend default { .host = \"127.0.0.1\"; .saintmode_threshold = many; }\n";
    assert!(made(wrong, Some(Dialect::V30)).is_err());
}

#[test]
fn a_vcl_init_that_returns_comes_after_saint_mode() {
    let vcl = format!(
        "{BACKEND}sub vcl_init {{ return (ok); }}\nsub vcl_fetch {{ set beresp.saintmode = 1m; }}\n\
         backend later {{ .host = \"127.0.0.1\"; }}\ndirector d random {{ {{ .backend = later; .weight = 1; }} }}\n"
    );
    let text = String::from_utf8(made(&vcl, Some(Dialect::V30)).unwrap().text).unwrap();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(at("new later_saint") < at("new d_saint") && at("new d_saint") < at("return (ok)"), "{text}");
    compiles(&vcl, Some(Dialect::V30));
}

#[test]
fn names_of_saint_mode_that_are_taken() {
    let vcl = format!(
        "{BACKEND}backend saintmode {{ .host = \"127.0.0.1\"; }}\nbackend default_saint {{ .host = \"127.0.0.1\"; }}\n\
         sub fetch_as_before {{ set bereq.http.a = \"b\"; }}\n\
         sub vcl_recv {{ if (req.url == \"/\") {{ set req.backend = saintmode; }} else {{ set req.backend = default_saint; }} }}\n\
         sub vcl_miss {{ call fetch_as_before; return (fetch); }}\nsub vcl_fetch {{ set beresp.saintmode = 1m; }}\n"
    );
    compiles(&vcl, Some(Dialect::V30));
}

#[test]
fn members_of_a_dns_director_are_its_list() {
    let member = |port: &str| format!("{{ .backend = {{ .host = \"127.0.0.2\"; .port = \"{port}\"; }} }}");
    let program = |port: &str, more: &str| {
        format!(
            "{BACKEND}# Kept.\nbackend b {{ .host = \"127.0.0.1\"; .port = \"81\"; .probe = {{ .url = \"/\"; }} }}\n\
             director d dns {{ {{ .backend = b; }} {} .suffix = \".x\"; }}\nsub vcl_recv {{ set req.backend = d; {more} }}\n",
            member(port)
        )
    };
    let text = String::from_utf8(made(&program("81", ""), Some(Dialect::V30)).unwrap().text).unwrap();
    assert!(text.contains("{ \"127.0.0.1\"; \"127.0.0.2\"; }") && text.contains("port = \"81\""), "{text}");
    assert!(text.contains("# Kept.") && !text.contains("backend b "), "{text}");
    compiles(&program("81", ""), Some(Dialect::V30));
    // The backend is also used outside of the director.
    compiles(&program("81", "if (req.url == \"/b\") { set req.backend = b; }"), Some(Dialect::V21));
    let reason = made(&program("82", ""), Some(Dialect::V30)).map(|m| m.text).expect_err("refused");
    assert!(reason.contains("this one differs"), "{reason}");
    for wrong in
        ["{ .host = \"127.0.0.1\"; }", "{ .backend = nobody; }", "{ .backend = { .port = \"81\"; } }", "{ .backend"]
    {
        let vcl = format!("{BACKEND}director d dns {{ {wrong} }}\nsub vcl_recv {{ set req.backend = d; }}\n");
        assert!(made(&vcl, Some(Dialect::V30)).is_err(), "{wrong}");
    }
}
