// SPDX-License-Identifier: BSD-2-Clause
//! VCL of each release up to 9.0: one small file for each word, attribute, variable and function that it brought, in the subroutine that it is for.

use std::net::IpAddr;

/// Files and names of a machine that has none but addresses.
struct Nothing;

impl vcl::Sources for Nothing {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        Err(format!("Cannot read file '{path}' (No such file or directory)"))
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        host.parse().map(|ip| vec![ip]).map_err(|_| "Name or service not known".to_owned())
    }

    fn is_socket(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }
}

/// The release, the subroutine (empty: the file itself), the text.
#[rustfmt::skip]
const SNIPPETS: &[(&str, &str, &str)] = &[
    // Words and declarations.
    ("9.0", "", "sub spare { } unused spare;"),
    ("9.0", "", "acl spare { \"192.0.2.1\"; } unused spare;"),
    ("9.0", "", "backend spare { .host = \"192.0.2.1\"; } unused spare;"),
    ("9.0", "", "probe spare { .url = \"/\"; } unused spare;"),
    ("7.5", "", "acl a +fold { \"192.0.2.0\"/25; \"192.0.2.128\"/25; } sub vcl_recv { if (client.ip ~ a) { return (pass); } }"),
    ("7.5", "", "acl a -fold { \"192.0.2.1\"; } sub vcl_recv { if (client.ip ~ a) { return (pass); } }"),
    ("7.0", "", "acl a +log +table { \"192.0.2.1\"; } sub vcl_recv { if (client.ip !~ a) { return (pass); } }"),
    ("7.0", "", "acl a -pedantic { \"192.0.2.1\"/24; } sub vcl_recv { if (client.ip ~ a) { return (pass); } }"),
    ("7.3", "", "backend p { .host = \"192.0.2.1\"; } backend b { .host = \"192.0.2.2\"; .via = p; .authority = \"a.example\"; } sub vcl_recv { set req.backend_hint = b; }"),
    ("7.3", "", "backend p { .host = \"192.0.2.1\"; } backend b { .host = \"192.0.2.2\"; .host_header = \"b.example\"; .via = p; } sub vcl_recv { set req.backend_hint = b; }"),
    ("7.3", "", "backend p { .host = \"192.0.2.1\"; } backend b { .host = \"192.0.2.2\"; .authority = \"\"; .via = p; } sub vcl_recv { set req.backend_hint = b; }"),
    ("7.3", "", "backend b { .path = \"@abstract\"; } sub vcl_recv { set req.backend_hint = b; }"),
    ("7.3", "", "probe p { .url = \"/\"; .expect_close = false; } backend b { .host = \"192.0.2.1\"; .probe = p; } sub vcl_recv { set req.backend_hint = b; }"),
    ("7.6", "", "backend b { .host = \"192.0.2.1\"; .max_connections = 9; .wait_limit = 5; .wait_timeout = 2s; } sub vcl_recv { set req.backend_hint = b; }"),
    ("9.0", "", "backend b { .host = \"192.0.2.1\"; .ssl = 1; .ssl_sni = 1; .ssl_verify_peer = 1; .ssl_verify_host = 0; } sub vcl_recv { set req.backend_hint = b; }"),
    ("9.0", "", "backend b { .host = \"192.0.2.1\"; .ssl = 1; .ssl_nosni = 1; .ssl_noverify = 1; } sub vcl_recv { set req.backend_hint = b; }"),
    ("7.1", "", "backend b { .host = \"192.0.2.1\"; .preamble = :YWJj:; .proxy_header = 2; } sub vcl_recv { set req.backend_hint = b; }"),
    ("6.5", "", "backend b none; sub vcl_recv { set req.backend_hint = b; }"),
    ("6.4", "", "probe default { .request = \"GET / HTTP/1.1\" \"Host: a\"; .initial = 2; .window = 8; .threshold = 3; }"),
    ("6.2", "", "acl a { ! \"192.0.2.1\"; \"192.0.2.0\"/24; } sub vcl_recv { if (client.ip ~ a) { return (pass); } }"),
    // Variables of requests.
    ("9.0", "vcl_recv", "set req.max_age = 10s;"),
    ("9.0", "vcl_recv", "unset req.max_age;"),
    ("9.0", "vcl_recv", "if (req.max_age > 1s) { return (pass); }"),
    ("7.7", "vcl_recv", "unset req.ttl;"),
    ("7.7", "vcl_recv", "unset req.grace;"),
    ("7.7", "vcl_recv", "set req.filters = \"\";"),
    ("7.4", "vcl_recv", "set req.trace = true;"),
    ("7.4", "vcl_deliver", "set req.trace = false;"),
    ("7.3", "vcl_recv", "if (req.xid > 5) { return (pass); }"),
    ("7.3", "vcl_recv", "if (req.xid % 2 == 0) { return (pass); }"),
    ("7.3", "vcl_deliver", "set resp.http.X-Id = req.xid;"),
    ("7.3", "vcl_deliver", "set resp.http.X-Session = sess.xid;"),
    ("7.7", "vcl_synth", "set resp.http.X-Hash = req.hash;"),
    ("7.7", "vcl_pipe", "set bereq.http.X-Hash = req.hash;"),
    ("6.1", "vcl_deliver", "if (req.is_hitmiss || req.is_hitpass) { set resp.http.X = 1; }"),
    ("6.2", "vcl_recv", "set req.hash_ignore_vary = true;"),
    ("7.0", "vcl_recv", "if (req.time < now) { return (pass); }"),
    ("6.6", "vcl_recv", "set req.http.X = req_top.url + req_top.method + req_top.proto;"),
    ("7.5", "vcl_recv", "unset sess.timeout_idle;"),
    ("7.5", "vcl_recv", "unset sess.timeout_linger;"),
    ("7.5", "vcl_recv", "unset sess.idle_send_timeout;"),
    ("7.5", "vcl_recv", "unset sess.send_timeout;"),
    ("6.4", "vcl_recv", "set sess.timeout_idle = 10s; set sess.send_timeout = 20s; set sess.idle_send_timeout = 5s; set sess.timeout_linger = 1s;"),
    ("6.0", "vcl_recv", "set req.http.X = local.endpoint + local.socket;"),
    ("6.1", "vcl_recv", "if (client.identity == \"a\") { return (hash); }"),
    // Variables of fetches.
    ("9.0", "vcl_backend_fetch", "set bereq.retry_connect = false;"),
    ("9.0", "vcl_backend_response", "if (bereq.retry_connect) { set beresp.ttl = 1s; }"),
    ("7.7", "vcl_backend_fetch", "set bereq.filters = \"\";"),
    ("7.4", "vcl_backend_fetch", "set bereq.trace = true;"),
    ("7.4", "vcl_backend_response", "set bereq.trace = false;"),
    ("7.5", "vcl_backend_fetch", "unset bereq.connect_timeout;"),
    ("7.5", "vcl_backend_fetch", "unset bereq.first_byte_timeout;"),
    ("7.5", "vcl_backend_fetch", "unset bereq.between_bytes_timeout;"),
    ("7.5", "vcl_pipe", "set bereq.task_deadline = 60s;"),
    ("7.5", "vcl_pipe", "unset bereq.task_deadline;"),
    ("7.3", "vcl_backend_response", "set beresp.transit_buffer = 100KB;"),
    ("7.3", "vcl_backend_response", "if (beresp.transit_buffer > 1MB) { set beresp.transit_buffer = 1MB; }"),
    ("7.3", "vcl_backend_fetch", "if (bereq.xid > 5) { return (abandon); }"),
    ("6.0", "vcl_backend_response", "set beresp.filters = \"gunzip\";"),
    ("6.2", "vcl_backend_response", "set beresp.http.X = beresp.proto + beresp.age + beresp.time;"),
    ("6.0", "vcl_backend_response", "if (bereq.is_bgfetch || bereq.uncacheable) { return (abandon); }"),
    ("7.1", "vcl_backend_error", "return (fail(\"a reason\"));"),
    ("7.1", "vcl_recv", "return (fail(\"a reason\"));"),
    ("6.0", "vcl_backend_response", "return (pass(10s));"),
    ("6.0", "vcl_backend_response", "return (error(503, \"Service Unavailable\"));"),
    ("6.3", "vcl_backend_fetch", "return (error(503));"),
    // vcl_backend_refresh and what belongs to it.
    ("8.0", "vcl_backend_refresh", "return (merge);"),
    ("8.0", "vcl_backend_refresh", "return (obj_stale);"),
    ("8.0", "vcl_backend_refresh", "return (beresp);"),
    ("8.0", "vcl_backend_refresh", "if (obj_stale.is_valid && obj_stale.ttl > 0s) { return (merge); }"),
    ("8.0", "vcl_backend_refresh", "if (obj_stale.http.ETag && obj_stale.status == 200) { return (merge); }"),
    ("8.0", "vcl_backend_refresh", "if (obj_stale.age > 1h || obj_stale.grace > 1h || obj_stale.keep > 1h) { return (beresp); }"),
    ("8.0", "vcl_backend_refresh", "if (obj_stale.hits > 10 || obj_stale.can_esi || obj_stale.uncacheable) { return (merge); }"),
    // Parameters as variables.
    ("8.0", "vcl_backend_response", "set beresp.ttl = param.default_ttl;"),
    ("8.0", "vcl_backend_response", "set beresp.grace = param.default_grace; set beresp.keep = param.default_keep;"),
    ("8.0", "vcl_backend_response", "set beresp.ttl = param.uncacheable_ttl;"),
    ("8.0", "vcl_backend_response", "set beresp.transit_buffer = param.transit_buffer;"),
    ("8.0", "vcl_backend_fetch", "set bereq.first_byte_timeout = param.first_byte_timeout + 1s;"),
    ("8.0", "vcl_backend_fetch", "set bereq.connect_timeout = param.connect_timeout; set bereq.between_bytes_timeout = param.between_bytes_timeout;"),
    ("8.0", "vcl_recv", "set sess.timeout_idle = param.timeout_idle; set sess.send_timeout = param.send_timeout; set sess.idle_send_timeout = param.idle_send_timeout;"),
    ("8.0", "vcl_recv", "if (req.restarts < param.max_restarts && req.esi_level < param.max_esi_depth) { return (hash); }"),
    ("8.0", "vcl_backend_error", "if (bereq.retries < param.max_retries) { return (retry); }"),
    ("8.0", "vcl_pipe", "set bereq.task_deadline = param.pipe_task_deadline;"),
    ("8.0", "vcl_backend_response", "if (beresp.ttl < param.shortlived) { set beresp.uncacheable = true; }"),
    // Comparisons of what has a name.
    ("9.0", "", "backend b { .host = \"192.0.2.1\"; } sub vcl_recv { if (req.backend_hint == b) { return (pass); } set req.backend_hint = b; }"),
    ("9.0", "", "probe p { .url = \"/\"; } backend b { .host = \"192.0.2.1\"; .probe = p; } sub vcl_recv { set req.backend_hint = b; }"),
    // Responses.
    ("6.0", "vcl_deliver", "set resp.filters = \"range\";"),
    ("7.2", "vcl_deliver", "set resp.http.Via = \"1.1 b\";"),
    ("6.1", "vcl_deliver", "set resp.http.X = obj.storage + obj.hits + obj.ttl + obj.age;"),
    ("6.0", "vcl_synth", "set resp.body = \"text\";"),
    ("6.0", "vcl_synth", "synthetic(\"text\");"),
    ("7.0", "vcl_hit", "if (obj.ttl <= 0s && obj.grace > 10s) { return (restart); }"),
    // The module std.
    ("7.2", "", "import std; sub slow { set req.http.X = 1; } sub vcl_recv { if (std.timed_call(slow) > 1s) { return (pass); } }"),
    ("7.2", "vcl_deliver", "import std; set resp.http.X = std.now();"),
    ("7.6", "vcl_backend_response", "import std; std.rfc_ttl();"),
    ("6.2", "vcl_recv", "import std; set req.http.X = std.integer(\"a\", 0) + std.real(\"a\", 1.0);"),
    ("6.2", "vcl_recv", "import std; set req.http.X = std.integer(s = \"12\", fallback = 3);"),
    ("6.2", "vcl_recv", "import std; set req.http.X = std.integer(real = 1.5) + std.integer(duration = 2s) + std.integer(time = now);"),
    ("6.5", "vcl_recv", "import std; set req.http.X = std.fnmatch(\"*.example\", req.http.host, pathname = false);"),
    ("6.5", "vcl_recv", "import std; set req.http.X = std.tolower(req.url) + std.toupper(req.method) + std.querysort(req.url);"),
    ("6.6", "vcl_recv", "import std; set req.http.X = std.ip(req.http.X, \"192.0.2.1\", resolve = false, p = \"80\");"),
    ("6.0", "vcl_recv", "import std; if (std.file_exists(\"/nonexistent\") || std.cache_req_body(10KB)) { return (pass); }"),
    ("7.0", "vcl_recv", "import std; std.late_100_continue(false); std.rollback(req); std.timestamp(\"here\"); std.log(\"x\");"),
    // Other modules.
    ("7.5", "vcl_recv", "import h2; if (h2.is()) { h2.rapid_reset(1s); h2.rapid_reset_limit(20); h2.rapid_reset_period(60s); }"),
    ("7.5", "vcl_recv", "import h2; set req.http.X = h2.rapid_reset_budget();"),
    ("9.0", "vcl_recv", "import math; set req.http.X = math.sqrt(2.0) + math.floor(1.5) + math.pow(2.0, 3.0);"),
    ("9.0", "vcl_recv", "import tls; set req.http.X = tls.version() + tls.cipher(); if (tls.is_tls()) { return (pass); }"),
    ("6.0", "vcl_recv", "import proxy; set req.http.X = proxy.is_ssl() + proxy.authority() + proxy.alpn();"),
    ("6.0", "vcl_recv", "import unix; if (unix.user() == \"www\") { return (pass); }"),
    ("6.0", "vcl_hit", "import purge; purge.soft(0s, -1s, -1s); return (restart);"),
    ("6.0", "vcl_miss", "import purge; set req.http.X = purge.hard();"),
    ("6.4", "vcl_recv", "import cookie; cookie.parse(req.http.Cookie); cookie.keep_re(\"^a\"); set req.http.Cookie = cookie.get_string();"),
    ("6.4", "vcl_recv", "import cookie; cookie.filter_re(\"^b\"); cookie.set(\"a\", \"1\"); if (cookie.isset(\"a\")) { cookie.delete(\"a\"); }"),
    ("6.0", "vcl_recv", "import blob; set req.http.X = blob.transcode(decoding = HEX, encoding = BASE64, encoded = \"00ff\");"),
    ("6.0", "", "import directors; sub vcl_init { new d = directors.round_robin(); d.add_backend(default); } sub vcl_recv { set req.backend_hint = d.backend(); }"),
    ("6.0", "", "import directors; sub vcl_init { new d = directors.shard(); d.add_backend(default); d.reconfigure(); } sub vcl_recv { set req.backend_hint = d.backend(by = URL); }"),
    ("6.5", "", "import directors; sub vcl_init { new d = directors.fallback(sticky = true); d.add_backend(default); } sub vcl_recv { set req.backend_hint = d.backend(); }"),
    ("7.5", "", "import directors; sub vcl_init { new d = directors.random(); d.add_backend(default, 1.5); } sub vcl_recv { set req.backend_hint = d.backend(); }"),
    ("6.0", "", "import vtc; sub vcl_recv { if (vtc.typesize(\"p\") > 0) { return (hash); } }"),
];

/// Calls in a subroutine that they fail in: release 7.1 loads them, release 9 doesn't.
#[rustfmt::skip]
const RESTRICTED: &[(&str, &str)] = &[
    ("vcl_deliver", "import std; std.cache_req_body(1KB);"),
    ("vcl_pass", "import std; std.late_100_continue(true);"),
    ("vcl_backend_fetch", "import std; std.set_ip_tos(1);"),
    ("vcl_pipe", "import std; std.rollback(req);"),
    ("vcl_init", "import unix; import std; std.log(unix.user());"),
    ("vcl_backend_error", "import std; std.rfc_ttl();"),
    ("vcl_recv", "import purge; purge.hard();"),
    ("vcl_backend_response", "import purge; purge.soft();"),
    ("vcl_backend_fetch", "import proxy; set bereq.http.X = proxy.authority();"),
    ("vcl_backend_fetch", "import tls; set bereq.http.X = tls.version();"),
    ("vcl_backend_fetch", "import h2; if (h2.is()) { return (abandon); }"),
    ("vcl_recv", "import directors; set req.backend_hint = directors.lookup(\"default\");"),
    ("", "import directors; sub vcl_init { new p = directors.shard_param(); } sub vcl_recv { p.set(by = URL); }"),
    ("", "import purge; sub helper { purge.hard(); } sub vcl_deliver { call helper; }"),
];

fn compile(compat: tables::Compat, file: &str) -> Result<(), String> {
    let options = vcl::CompileOptions { modules: crate::MODULES, compat, ..vcl::CompileOptions::default() };
    vcl::compile("release.vcl", file.as_bytes(), &Nothing, &options).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn vcl_of_each_release_loads() {
    assert!(SNIPPETS.len() >= 100, "{}", SNIPPETS.len());
    for (release, sub, text) in SNIPPETS {
        let file = file(sub, text);
        for compat in tables::Compat::ALL {
            let compiled = compile(compat, &file);
            assert!(compiled.is_ok(), "{release} as {compat}: {file}\n{}", compiled.unwrap_err());
        }
    }
}

#[test]
fn release_9_loads_no_call_of_a_module_that_must_fail() {
    for (sub, text) in RESTRICTED {
        let file = file(sub, text);
        assert_eq!(compile(tables::Compat::V7_1, &file), Ok(()), "{file}");
        let error = compile(tables::Compat::V9, &file).expect_err(&file);
        assert!(error.contains("Not available"), "{file}\n{error}");
    }
    let error = compile(tables::Compat::V9, &file("vcl_deliver", "import purge; purge.hard();")).unwrap_err();
    assert!(
        error.contains("Not available in subroutine 'vcl_deliver'.") && error.contains("vcl_miss, vcl_hit"),
        "{error}"
    );
}

fn file(sub: &str, text: &str) -> String {
    let head = "vcl 4.1;\n\nbackend default { .host = \"127.0.0.1\"; .port = \"8080\"; }\n\n";
    let (mut imports, mut body) = (String::new(), text);
    while let Some((import, rest)) = body.split_once("; ").filter(|(first, _)| first.starts_with("import ")) {
        imports += &format!("{import};\n");
        body = rest;
    }
    match sub {
        "" => format!("{head}{imports}{body}\n"),
        sub => format!("{head}{imports}sub {sub} {{ {body} }}\n"),
    }
}
