// SPDX-License-Identifier: BSD-2-Clause
//! Tests of rare words, and of words in rare places.

use super::*;

#[test]
fn c_that_says_nothing_is_left_out() {
    let vcl = format!(
        "C{{\n  // a template's hole\n\n}}C\n{BACKEND}sub vcl_recv {{ C{{ /* here, too */ }}C return (lookup); }}\n"
    );
    assert_eq!(body(&made(&vcl, None).unwrap()), "sub vcl_recv { return (hash); }");
    compiles(&vcl, None);
    refused("3.0", "vcl_recv", "C{ ; }C", "Inline C isn't supported");
    refused("3.0", "vcl_recv", "C{ generate_uuid(uuid_buf); }C", "vmod uuid");
    refused(
        "3.0",
        "vcl_recv",
        "C{ #include <x.h> \n }C C{ inet_pton(AF_INET, xff_ip, ip); }C",
        "std.ip(req.http.X-Real-IP, client.ip)",
    );
    let instead = "import std;\nbackend b { .host = \"127.0.0.1\"; }\nacl a { \"127.0.0.1\"; }\n\
                   sub vcl_recv { if (std.ip(req.http.X-Real-IP, client.ip) ~ a) { return (pass); } }\n";
    compiles(instead, Some(Dialect::V30));
}

#[test]
fn an_acl_that_is_only_looked_at_in_vcl_miss_is_used() {
    for sub in ["vcl_miss", "vcl_pass"] {
        let vcl = format!("{BACKEND}acl a {{ \"127.0.0.1\"; }}\nsub {sub} {{ if (client.ip ~ a) {{ }} }}\n");
        compiles(&vcl, Some(Dialect::V30));
        let vcl = format!(
            "{BACKEND}acl a {{ \"127.0.0.1\"; }}\nsub {sub} {{ if (client.ip ~ a) {{ set bereq.http.x = \"y\"; }} }}\n"
        );
        compiles(&vcl, Some(Dialect::V21));
    }
}

#[test]
fn a_clients_identity_set_in_a_fetch_changes_nothing() {
    becomes("3.0", "vcl_fetch", "set client.identity = \"x\";", "sub vcl_backend_response { }");
    let vcl = format!("{BACKEND}sub vcl_fetch {{\n  set client.identity = \"x\";\n}}\n");
    let notes = made(&vcl, Some(Dialect::V30)).unwrap().notes;
    assert!(notes.iter().any(|n| n.warning && n.line == 3), "{notes:?}");
}

#[test]
fn what_the_client_decided_is_known_to_its_fetch() {
    for (dialect, read) in [
        ("2.0", "if (req.grace > 10s) { set obj.grace = req.grace; }"),
        ("2.1", "if (req.grace > 10s) { set beresp.grace = req.grace; }"),
        ("3.0", "if (req.ttl > 10s) { set beresp.ttl = req.ttl; }"),
        ("3.0", "if (req.can_gzip) { set beresp.do_gzip = true; }"),
        ("3.0", "if (!req.can_gzip && req.esi) { set beresp.do_esi = true; }"),
        ("2.0", "if (req.esi) { esi; }"),
    ] {
        compiles(&format!("{BACKEND}sub vcl_fetch {{ {read} }}\n"), Dialect::from_name(dialect));
    }
}

#[test]
fn std_author() {
    let new = "sub vcl_deliver { set resp.http.who = \"Poul-Henning\"; }";
    for spaces in ["std.author(phk)", "std . author ( phk )"] {
        becomes("3.0", "vcl_deliver", &format!("set resp.http.who = {spaces};"), new);
    }
    refused(
        "3.0",
        "vcl_deliver",
        "set resp.http.who = std.author(me);",
        "std.author() knows phk, des, kristian and mithrandir.",
    );
    let vcl = format!(
        "import std;\n{BACKEND}sub vcl_deliver {{ set resp.http.who = std.author(des) + std.tolower(\"X\"); }}\n"
    );
    compiles(&vcl, None);
}

#[test]
fn networks_may_have_host_bits() {
    for entry in ["\"127.0.1\"/19", "\"10.1.2.3\"/8", "! \"fe80::1\"/10", "\"127.0.0.1\"/24"] {
        let vcl = format!(
            "{BACKEND}acl a {{ \"192.0.2.0\"/24; {entry}; }}\nsub vcl_recv {{ if (client.ip ~ a) {{ return (pass); }} }}\n"
        );
        let text = String::from_utf8(made(&vcl, Some(Dialect::V30)).unwrap().text).unwrap();
        assert!(text.contains("acl a -pedantic {"), "{text}");
        for dialect in Dialect::ALL {
            compiles(&vcl, Some(dialect));
        }
    }
    let vcl = format!(
        "{BACKEND}acl a {{ \"192.0.2.0\"/24; \"10.0.0.1\"/32; \"::1\"; \"127.0\"/16; }}\nsub vcl_recv {{ if (client.ip ~ a) {{ return (pass); }} }}\n"
    );
    let text = String::from_utf8(made(&vcl, Some(Dialect::V30)).unwrap().text).unwrap();
    assert!(text.contains("acl a {"), "{text}");
}

#[test]
fn sizes_have_units() {
    let sub = "sub vcl_recv { if (storage.s0.free_space > 4 MB) { set req.http.x = storage.s0.used_space + 1 B + 1 KB + 1GB + 1 TB; } }";
    let vcl = format!("{BACKEND}{sub}\n");
    assert_eq!(body(&made(&vcl, Some(Dialect::V30)).unwrap()), sub);
    let options =
        CompileOptions { dialect: Some(Dialect::V30), stores: vec!["s0".to_owned()], ..CompileOptions::default() };
    assert!(crate::compile("old.vcl", vcl.as_bytes(), &Files(&[]), &options).is_ok());
}

#[test]
fn dns_directors_are_objects_of_vmod_dynamic() {
    let vcl = "director d dns {\n  .list = {\n    .host_header = \"www.example.com\";\n    .port = \"8080\";\n    .connect_timeout = 0.4 s;\n    \
               \"192.0.2.0\"/24;\n    \"198.51.100.7\";\n  }\n  .ttl = 5m;\n  .suffix = \".internal.example\";\n}\n\
               sub vcl_recv { set req.backend = d; return (pass); }\n";
    let text = String::from_utf8(made(vcl, None).unwrap().text).unwrap();
    let new = "backend d_none none;\n\nacl d_list -pedantic { \"192.0.2.0\"/24; \"198.51.100.7\"; }\n\nsub vcl_init {\n    new d = \
               dynamic.director(port = \"8080\", ttl = 5m, host_header = \"www.example.com\", connect_timeout = 0.4s, whitelist = d_list);\n}\n";
    assert!(text.contains(new), "{text}");
    let set = "set req.backend_hint = d.backend(regsub(req.http.host, \":.*$\", \"\") + \".internal.example\");";
    assert!(text.contains(set), "{text}");
    assert!(text.contains("import dynamic;") && !text.contains("import directors;"), "{text}");
    compiles(vcl, None);
    // The first director gets requests for which VCL selects none.
    for (ttl, now) in [("0s", "1ms"), ("0.0 m", "1ms"), ("10s", "10s")] {
        let vcl = format!(
            "director d dns {{ .list = {{ \"192.0.2.1\"; }} .ttl = {ttl}; }}\nsub vcl_fetch {{ return (hit_for_pass); }}\n"
        );
        let text = String::from_utf8(made(&vcl, Some(Dialect::V30)).unwrap().text).unwrap();
        assert!(text.contains(&format!("ttl = {now},")), "{text}");
    }
    let vcl = "director d dns { .list = { \"192.0.2.1\"; } }\nsub vcl_fetch { return (hit_for_pass); }\n";
    let text = String::from_utf8(made(vcl, None).unwrap().text).unwrap();
    assert!(text.contains("    set req.backend_hint = d.backend(regsub(req.http.host, \":.*$\", \"\"));"), "{text}");
    assert!(text.contains("dynamic.director(port = \"80\", ttl = 60s, whitelist = d_list)"), "{text}");
    compiles(vcl, None);
    for (list, reason) in [
        ("{ .backend = nobody; }", "Reference to an unknown backend"),
        (".list = { \"192.0.2\"/24; }", "Expected an IPv4 address"),
        (".list = { .probe = \"x\"; \"192.0.2.1\"; }", "Unknown field of a dns director's list"),
        (".weight = 1;", "Unknown field of a dns director"),
        (".ttl = ;", "Expected a value"),
    ] {
        let vcl = format!(
            "{BACKEND}backend b {{ .host = \"127.0.0.1\"; }}\ndirector d dns {{ {list} }}\nsub vcl_recv {{ set req.backend = d; }}\n"
        );
        let said = made(&vcl, Some(Dialect::V30)).unwrap_err();
        assert!(said.contains(reason) && said.contains("('old.vcl' Line 3 Pos "), "{said}");
    }
}

#[test]
fn directors_are_told_apart_by_name() {
    let vcl = format!(
        "{BACKEND}director d round-robin {{ {{ .backend = default; }} }}\nsub vcl_recv {{ set req.backend = d; if (req.backend == d) {{ return (pass); }} }}\n\
         sub vcl_fetch {{ if (req.backend != default) {{ set beresp.ttl = 1h; }} }}\n"
    );
    let text = body(&made(&vcl, Some(Dialect::V30)).unwrap());
    let recv = "set req.backend_hint = d.backend(); set req.http.X-VCL-Backend = \"d\"; if (req.http.X-VCL-Backend == \"d\") { return (pass); }";
    assert!(text.contains(recv), "{text}");
    assert!(text.contains("if (bereq.http.X-VCL-Backend != \"default\") {"), "{text}");
    let whole = String::from_utf8(made(&vcl, Some(Dialect::V30)).unwrap().text).unwrap();
    assert!(whole.contains("    set req.http.X-VCL-Backend = \"default\";\n"), "{whole}");
    compiles(&vcl, Some(Dialect::V30));
}

#[test]
fn a_text_that_begins_with_nothing_unsets_in_2_x() {
    let old = "set req.http.a = req.http.b \"c\";";
    let new = "sub vcl_recv { if (req.http.b) { set req.http.a = req.http.b + \"c\"; } else { unset req.http.a; } }";
    becomes("2.1", "vcl_recv", old, new);
    becomes("2.0", "vcl_recv", old, new);
    becomes("3.0", "vcl_recv", "set req.http.a = req.http.b;", "sub vcl_recv { set req.http.a = req.http.b; }");
    becomes(
        "2.1",
        "vcl_recv",
        "set req.http.a = \"c\" req.http.b;",
        "sub vcl_recv { set req.http.a = \"c\" + req.http.b; }",
    );
    becomes("2.1", "vcl_recv", "error;", "sub vcl_recv { return (synth(503)); }");
    becomes("2.1", "vcl_recv", "return (error);", "sub vcl_recv { return (synth(501)); }");
}

#[test]
fn the_method_is_the_clients_in_what_moves_to_the_fetch() {
    let old = "if (req.request == \"HEAD\") { set bereq.http.X = req.request; }";
    let new = "if (bereq.http.X-VCL-Method == \"HEAD\") { set bereq.http.X = bereq.http.X-VCL-Method; }";
    becomes("3.0", "vcl_miss", old, &format!("sub vcl_backend_fetch {{ if (!bereq.uncacheable) {{ {new} }} }}"));
}
