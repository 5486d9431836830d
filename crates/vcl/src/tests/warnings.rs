// SPDX-License-Identifier: BSD-2-Clause
//! Tests of programs with and without warnings.

use tables::Compat;

use super::{Few, check, try_compile};
use crate::{CompileOptions, Compiled, compile};

/// Checks that a program loads with exactly one warning, which begins with `says`.
#[track_caller]
fn warned(text: &str, says: &str) {
    let said = check(text).warnings.to_string();
    assert!(said.starts_with(says) && said.ends_with("(That was just a warning)\n"), "{text}\nsays:\n{said}");
    assert_eq!(said.matches("just a warning").count(), 1, "{said}");
}

#[track_caller]
fn silent(text: &str) {
    assert_eq!(check(text).warnings.to_string(), "", "{text}");
}

#[test]
fn statements_that_are_never_reached() {
    let says = "This is never reached:";
    warned("sub vcl_recv { return (pass); set req.http.a = \"1\"; unset req.http.b; }", says);
    warned("sub vcl_recv { if (req.url) { return (pass); } else { return (pipe); } call f; } sub f { }", says);
    warned("sub vcl_recv { { return (pass); } { unset req.http.b; } }", says);
    warned("sub f { return; unset req.http.a; } sub vcl_recv { call f; }", says);
    silent("sub vcl_recv { if (req.url) { return (pass); } unset req.http.a; }");
    silent("sub vcl_recv { if (req.url) { return (pass); } elsif (req.method) { return (hash); } unset req.http.a; }");
    silent("sub vcl_recv { if (req.url) { unset req.http.b; } else { return (pipe); } unset req.http.a; }");
    // A harmless safeguard.
    silent("sub vcl_recv { return (pass); return (hash); }");
}

#[test]
fn parts_that_are_never_reached() {
    let says = "This part of vcl_recv is never reached: an earlier part always returns.\n";
    warned("sub vcl_recv { return (pass); } sub vcl_recv { unset req.http.a; }", says);
    silent("sub vcl_recv { if (req.url) { return (hash); } } sub vcl_recv { unset req.http.a; }");
    silent("sub vcl_recv { return (pipe); } sub vcl_recv { return (pass); } sub vcl_recv { }");
}

#[test]
fn the_warnings_place_is_shown() {
    let said = try_compile("vcl 4.1;\nbackend b none;\nsub vcl_recv {\n    return (pass);\n    unset req.http.a;\n}\n");
    let shown = "('<vcl.inline>' Line 5 Pos 5) -- (Pos 9)\n    unset req.http.a;\n----#####------------\n";
    assert!(said.as_ref().is_ok_and(|vcl| vcl.warnings.to_string().contains(shown)), "{said:?}");
}

#[test]
fn lookups_are_over() {
    warned(
        "sub vcl_deliver { set req.grace = 1h; }",
        "req.grace does nothing when set in vcl_deliver: it is for the lookup",
    );
    warned(
        "sub vcl_miss { call f; } sub f { set req.hash_always_miss = true; }",
        "req.hash_always_miss does nothing when set in vcl_miss",
    );
    warned(
        "sub vcl_synth { set req.backend_hint = b; }",
        "req.backend_hint does nothing when set in vcl_synth: no fetch",
    );
    silent("sub vcl_recv { call f; } sub vcl_miss { call f; } sub f { set req.hash_always_miss = true; }");
    silent("sub vcl_hit { set req.hash_always_miss = true; return (restart); }");
    silent("sub vcl_deliver { if (resp.status == 500) { set req.backend_hint = b; return (restart); } }");
    silent("sub vcl_hash { set req.grace = 1h; } sub vcl_hit { set req.backend_hint = b; }");
}

#[test]
fn the_piped_request_is_a_copy() {
    warned("sub vcl_pipe { set req.http.connection = \"close\"; }", "The request that is piped was copied");
    silent("sub vcl_pipe { set bereq.http.connection = \"close\"; set req.http.X-Cache = \"pipe\"; }");
    silent("sub vcl_recv { set req.http.connection = \"close\"; }");
}

#[test]
fn what_is_stored_is_the_same_for_all_hits() {
    // The verdict of one request is stored for all: a mistake seen in real programs.
    warned(
        "sub vcl_hit { set req.http.hit = \"1\"; } sub vcl_miss { set req.http.hit = \"0\"; }
         sub vcl_backend_response { set beresp.http.X-Hit = bereq.http.Hit; }",
        "beresp.http.X-Hit is stored: what vcl_hit sets never gets into it, and all hits show the miss's.\n\
         Set resp.http.X-Hit from req.http.Hit in vcl_deliver.\n",
    );
    warned(
        "sub vcl_backend_response { set beresp.http.X-Cache = \"MISS\"; }",
        "beresp.http.X-Cache is stored: hits and misses",
    );
    silent(
        "sub vcl_backend_response { set beresp.http.X-Cache = \"MISS\"; }
         sub vcl_deliver { if (obj.hits > 0) { set resp.http.x-cache = \"HIT\"; } }",
    );
    silent(
        "sub vcl_hit { set req.http.hit = \"1\"; } sub vcl_backend_response { set beresp.http.X-Url = bereq.http.url; }
         sub vcl_deliver { set resp.http.X-Hit = req.http.hit; }",
    );
}

#[test]
fn functions_have_their_places() {
    warned(
        "import std; sub vcl_deliver { std.cache_req_body(1KB); }",
        "cache_req_body() works in vcl_recv only, and fails in vcl_deliver.\n",
    );
    warned("import purge; sub vcl_recv { call f; } sub f { purge.hard(); }", "hard() works in ");
    silent("import std; sub vcl_recv { std.cache_req_body(1KB); }");
    silent("import purge; sub vcl_miss { purge.hard(); }");
}

#[test]
fn texts_compared_that_are_patterns() {
    warned("sub vcl_recv { if (req.url == \"^/xmlrpc\") { } }", "== and != compare whole texts");
    warned("sub vcl_recv { if (req.http.host != \".*\\.example\\.com\") { } }", "== and != compare whole texts");
    silent("sub vcl_recv { if (req.url == \"/a.b*c\" || req.http.vary == \"*\" || req.http.accept == \"*/*\") { } }");
}

fn odd(pattern: &[u8]) -> Result<Option<&'static str>, String> {
    Ok((pattern == b"odd").then_some("Odd.\n"))
}

#[test]
fn patterns_that_never_match() {
    let options = CompileOptions { check_regex: Some(odd), ..CompileOptions::default() };
    let text = b"vcl 4.1; backend b none; sub vcl_recv { if (req.url ~ \"odd\" || req.url ~ \"even\") { } }";
    let vcl: Compiled = compile("<vcl.inline>", text, &Few(&[]), &options).unwrap();
    assert!(
        vcl.warnings.to_string().starts_with("Odd.\n('<vcl.inline>' Line 1 Pos 55) -- (Pos 59)\n"),
        "{}",
        vcl.warnings
    );
}

#[test]
fn many_warnings_are_cut() {
    let tests = "if (req.url == \"^/x\") { } ".repeat(200);
    let said = check(&format!("sub vcl_recv {{ {tests} }}")).warnings.to_string();
    assert_eq!(said.matches("just a warning").count(), 50);
}

#[test]
fn std_is_imported_unasked() {
    let says = "`import std;` is missing: it is imported from here on. Write it at the top of the file.\n";
    warned("sub vcl_recv { std.log(\"a\"); std.log(\"b\"); }", says);
    warned("sub vcl_recv { if (std.port(client.ip) == 80) { } }", says);
    warned("sub vcl_recv { set req.url = std.tolower(req.url); } import std; sub vcl_recv { std.log(\"b\"); }", says);
    for vcl in [
        "import std as s; sub vcl_recv { std.log(\"a\"); }",
        "sub vcl_recv { std.nope(); }",
        "sub vcl_recv { blob.blob(); }",
    ] {
        let said = try_compile(&format!("vcl 4.1; backend b none; {vcl}")).err().unwrap_or_default();
        assert!(said.contains("Symbol not found"), "{said}");
    }
}

#[test]
fn host_bits_of_an_acl() {
    let says = "Non-zero bits in masked part, (maybe use 1.2.3.0/24 ?)\n";
    let text = b"vcl 4.0; backend b { .host = \"127.0.0.1\"; } acl a { \"1.2.3.4\"/24; \"10.0.0.1/8\"; } sub vcl_recv { if (client.ip ~ a) { } }";
    let vcl: Compiled = compile("<vcl.inline>", text, &Few(&[]), &CompileOptions::default()).unwrap();
    assert!(vcl.warnings.to_string().starts_with(says), "{}", vcl.warnings);
    assert_eq!(vcl.warnings.to_string().matches("just a warning").count(), 2, "{}", vcl.warnings);
    assert!(!vcl.program.acls[0].pedantic);
    assert!(
        try_compile("vcl 4.1; backend b none; acl a { \"1.2.3.4\"/24; } sub vcl_recv { if (client.ip ~ a) { } }")
            .is_err_and(|reason| reason.contains(says))
    );
}

/// Warnings of a program, by release.
fn by_release(text: &str) -> [String; 2] {
    Compat::ALL.map(|compat| {
        let options = CompileOptions { compat, ..CompileOptions::default() };
        let text = format!("vcl 4.1; backend b none; {text}");
        compile("<vcl.inline>", text.as_bytes(), &Few(&[]), &options).unwrap().warnings.to_string()
    })
}

#[test]
fn headers_that_release_9_protects() {
    for change in ["set req.http.content-length = \"3\";", "unset req.http.Transfer-Encoding;"] {
        let [old, new] = by_release(&format!("sub vcl_recv {{ {change} }}"));
        assert_eq!(old, "");
        assert!(new.starts_with("Varnish refuses this from 7.4 on:") && new.contains("just a warning"), "{new}");
    }
    assert_eq!(by_release("sub vcl_recv { set req.http.X-Content-Length = \"3\"; }")[1], "");
}

#[test]
fn timeouts_of_zero() {
    for change in ["set bereq.first_byte_timeout = 0s;", "set bereq.between_bytes_timeout = 0.0s;"] {
        let [old, new] = by_release(&format!("sub vcl_backend_fetch {{ {change} }}"));
        assert!(old.starts_with("With --compat 7.1, 0s is no timeout of its own"), "{old}");
        assert!(new.starts_with("With --compat 9, a timeout of 0s fails the fetch"), "{new}");
    }
    let [old, new] = by_release("backend c { .host = \"192.0.2.1\"; .between_bytes_timeout = 0s; } unused c;");
    assert!(old.contains("no timeout of its own") && new.contains("With --compat 9, a timeout of 0s"), "{old}{new}");
    for other in
        ["set bereq.first_byte_timeout = 1s;", "set bereq.first_byte_timeout += 0s;", "unset bereq.connect_timeout;"]
    {
        assert_eq!(by_release(&format!("sub vcl_backend_fetch {{ {other} }}")), [String::new(), String::new()]);
    }
}

#[test]
fn folded_networks_of_an_acl() {
    let acl = |flags: &str, entries: &str| {
        by_release(&format!("acl a {flags} {{ {entries} }} sub vcl_recv {{ if (client.ip ~ a) {{ }} }}"))
    };
    let halves = "\"10.0.0.128\"/25; \"10.0.0.0/25\";";
    let [old, new] = acl("", halves);
    assert_eq!(old, "");
    assert!(new.starts_with("ACL entry:\n") && new.contains("left of:\n"), "{new}");
    assert!(new.contains("removing the latter and expanding mask of the former by one to /24\n"), "{new}");
    let [_, contained] = acl("", "\"10.0.0.0\"/8; \"10.1.2.3\"; \"10.1.2.4\";");
    assert_eq!(contained.matches("supersedes / removes:\n").count(), 2, "{contained}");
    let [old, new] = acl("+fold", halves);
    assert_eq!(old, new);
    assert!(old.contains("left of:\n"), "{old}");
    for flags in ["-fold", "+fold(-report)"] {
        assert_eq!(acl(flags, halves), [String::new(), String::new()], "{flags}");
    }
    assert_eq!(acl("", "\"127.0.0.1\"; \"127.0.0.1\";"), [String::new(), String::new()]);
}

#[test]
fn what_may_be_personal_is_looked_up() {
    let says = |what: &str| format!("This looks everything up in the cache, also requests {what}: ");
    let all = &says("with a Cookie, or with Authorization, or with POST");
    let (cookie, auth, post) = (&says("with a Cookie"), &says("with Authorization"), &says("with POST"));
    let read = "if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); } ";
    let user = "if (req.http.Authorization || req.http.Cookie) { return (pass); } ";
    warned("sub vcl_recv { return (hash); }", all);
    warned("sub vcl_recv { if (req.url ~ \"^/admin\") { return (pass); } return (hash); }", all);
    warned("sub vcl_recv { if (req.http.host ~ \"a\") { set req.backend_hint = b; return (hash); } }", all);
    warned("sub vcl_recv { call f; } sub f { return (hash); }", all);
    warned(
        "sub vcl_recv { if (req.method == \"GET\") { return (hash); } }",
        &says("with a Cookie, or with Authorization"),
    );
    warned("sub vcl_recv { if (req.http.Cookie) { return (hash); } }", cookie);
    warned("sub vcl_recv { if (req.http.authorization) { return (hash); } }", auth);
    warned("sub vcl_recv { if (req.method == \"POST\") { return (hash); } }", post);
    warned(&format!("sub vcl_recv {{ {user} return (hash); }}"), post);
    warned(
        &format!("sub vcl_recv {{ {read} if (req.http.Cookie) {{ unset req.http.Authorization; return (hash); }} }}"),
        cookie,
    );
    warned(&format!("sub vcl_recv {{ {read} unset req.http.cookie; return (hash); }}"), auth);
    // Every path considers Cookie, Authorization and the method.
    silent(&format!("sub vcl_recv {{ {read} {user} return (hash); }}"));
    silent(&format!("sub vcl_recv {{ call f; return (hash); }} sub f {{ {read} {user} }}"));
    silent(&format!("sub vcl_recv {{ {read} unset req.http.Authorization; unset req.http.Cookie; return (hash); }}"));
    silent(&format!(
        "sub vcl_recv {{ {read} if (req.http.Authorization || req.http.Cookie ~ \"user\") {{ return (pass); }} return (hash); }}"
    ));
    silent(&format!(
        "sub vcl_recv {{ {read} if (req.http.Authorization) {{ return (pass); }} return (hash); }} \
         sub vcl_hash {{ hash_data(req.http.Cookie); }}"
    ));
    silent(&format!(
        "sub vcl_recv {{ {read} if (req.http.Authorization || req.http.Cookie) {{ set req.http.x = \"1\"; }} \
         if (req.http.x) {{ return (pass); }} return (hash); }}"
    ));
    // The author's choice for some requests.
    silent("sub vcl_recv { if (req.url ~ \"[.]png$\") { unset req.http.Cookie; return (hash); } }");
    silent("sub vcl_recv { if (req.method == \"PURGE\") { return (hash); } }");
    silent("sub vcl_recv { }");
}

#[test]
fn the_cure_of_a_lookup_is_one() {
    let said = check("sub vcl_recv { return (hash); }").warnings.to_string();
    let cure = said.split("write before it: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    silent(&format!("sub vcl_recv {{ {cure} return (hash); }}"));
}

#[test]
fn a_restart_that_changes_nothing_comes_back() {
    let says = "Nothing is changed before this restart: the request comes back here as it was,";
    let loops = |text: &str| warned(text, says);
    loops("sub vcl_hit { return (restart); }");
    loops(
        "sub vcl_hit { if (obj.ttl >= 0s) { return (deliver); } if (req.url) { set req.http.x = \"a\"; } else { return (restart); } }",
    );
    loops("import std; sub vcl_hit { if (std.port(client.ip) == 80) { std.log(\"x\"); return (restart); } }");
    loops("sub vcl_miss { if (req.url ~ \"a\") { return (restart); } }");
    loops("sub vcl_pass { call f; } sub f { call g; } sub g { return (restart); }");
    loops("sub vcl_purge { return (restart); }");
    loops("sub vcl_recv { if (req.http.a) { return (restart); } unset req.http.b; }");
    loops(
        "sub vcl_deliver { if (resp.status == 404) { set resp.http.a = req.restarts; } if (resp.http.b) { return (restart); } }",
    );
    loops("sub vcl_deliver { if (obj.hits > 0) { return (restart); } }");
    loops("sub vcl_synth { if (resp.status == 750) { set resp.http.a = \"b\"; return (restart); } }");
    // Only the note of the client's address differs the second time.
    loops(
        "sub vcl_recv { if (req.restarts == 0) { if (req.http.X-Forwarded-For) { set req.http.X-Forwarded-For = \
         req.http.X-Forwarded-For + client.ip; } else { set req.http.X-Forwarded-For = client.ip; } } } \
         sub vcl_hit { return (restart); }",
    );
    loops("sub vcl_recv { set req.http.X-Device = \"pc\"; unset req.http.Cookie; } sub vcl_hit { return (restart); }");
    // Each restart has its own warning.
    let all = check("sub vcl_hit { return (restart); } sub vcl_miss { return (restart); }").warnings.to_string();
    assert_eq!(all.matches(says).count(), 2, "{all}");
}

#[test]
fn restarts_that_lead_on_are_no_mistake() {
    silent("sub vcl_hit { if (req.restarts == 0) { return (restart); } }");
    silent("sub vcl_hit { if (req.restarts > 2) { return (deliver); } return (restart); }");
    silent("sub vcl_hit { unset req.http.a; return (restart); }");
    silent("sub vcl_hit { call f; return (restart); } sub f { set req.url = \"/a\"; }");
    silent("import purge; sub vcl_hit { if (obj.ttl <= 0s) { purge.hard(); return (restart); } }");
    silent("sub vcl_miss { set req.backend_hint = b; return (restart); }");
    silent("sub vcl_miss { ban(\"obj.age > 1d\"); return (restart); }");
    silent("sub vcl_purge { set req.method = \"GET\"; return (restart); }");
    silent("sub vcl_recv { if (req.restarts > 0) { return (pass); } } sub vcl_hit { return (restart); }");
    silent("sub vcl_recv { call f; } sub f { set req.http.n = req.restarts; } sub vcl_hit { return (restart); }");
    silent("sub vcl_hash { hash_data(req.restarts); } sub vcl_hit { return (restart); }");
    // A header set before the restart is tested after it.
    silent(
        "sub vcl_recv { if (req.http.X-Again) { return (pass); } set req.http.X-Again = \"1\"; } \
         sub vcl_hit { return (restart); }",
    );
    silent(
        "sub vcl_recv { if (req.http.stale) { return (pass); } } sub vcl_hit { set req.http.stale = \"1\"; } \
         sub vcl_deliver { return (restart); }",
    );
    silent("sub vcl_hit { set req.http.stale = \"1\"; } sub vcl_deliver { if (req.http.stale) { return (restart); } }");
    // Another fetch may succeed, from another backend of a director.
    silent("sub vcl_deliver { if (resp.status == 503) { return (restart); } }");
    silent("sub vcl_deliver { if (resp.status >= 500 && req.method == \"GET\") { return (restart); } }");
    silent("sub vcl_deliver { if (obj.hits == 0) { return (restart); } }");
}
