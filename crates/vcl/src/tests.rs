// SPDX-License-Identifier: BSD-2-Clause
//! Tests of programs that compile, programs that don't, and their messages.

mod fixes;
mod hints;
mod hostile;
mod later;
mod messages;
pub(crate) mod modules;
mod own_listeners;
mod warnings;

use std::net::IpAddr;

use tables::Compat;
use tables::origin_proto::OriginProto;

use crate::program::{BackendAddress, Op, TlsDecl, TlsFile};
use crate::{CompileOptions, Compiled, Recorder, SourceBundle, Sources, TlsFileKind, compile};

struct Few(&'static [(&'static str, &'static str)]);

impl Sources for Few {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        let found = self.0.iter().find(|(name, _)| *name == path || name.rsplit('/').next() == Some(path));
        found
            .map(|(name, text)| (name.to_string(), text.as_bytes().to_vec()))
            .ok_or_else(|| format!("Cannot read file '{path}' (No such file or directory)"))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
        let fits = |name: &&str| name.starts_with(before) && name.ends_with(after);
        Ok(self.0.iter().map(|(name, _)| *name).filter(fits).map(str::to_owned).collect())
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        match host {
            "" => Ok(vec!["0.0.0.0".parse().unwrap(), "::".parse().unwrap()]),
            "both" => Ok(vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]),
            "many" => Ok(vec!["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()]),
            _ => Err("Name or service not known".to_owned()),
        }
    }

    fn tls_file(&self, path: &str, _: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        match path {
            "ca.pem" => Ok(("/etc/ca.pem".to_owned(), b"roots".to_vec())),
            _ => Err(format!("Cannot read file '{path}' (No such file or directory)")),
        }
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        match path {
            "/sock" => Ok(true),
            "/file" => Ok(false),
            _ => Err("No such file or directory".to_owned()),
        }
    }
}

fn try_compile(text: &str) -> Result<Compiled, String> {
    try_compile_as(Compat::V7_1, text)
}

fn try_compile_as(compat: Compat, text: &str) -> Result<Compiled, String> {
    let (labels, stores) = (vec!["lbl".into()], vec!["s0".into()]);
    let options = CompileOptions { labels, stores, compat, ..CompileOptions::default() };
    compile("<vcl.inline>", text.as_bytes(), &Few(&[]), &options).map_err(|d| d.to_string())
}

fn check(text: &str) -> Compiled {
    try_compile(&format!("vcl 4.1; backend b none; {text}")).unwrap_or_else(|reason| panic!("{text}\n{reason}"))
}

/// The TLS declaration and the port of a backend `c` with these attributes.
fn tls_of(attributes: &str) -> (Option<TlsDecl>, u16) {
    let compiled = check(&format!(
        "backend c {{ .host = \"192.0.2.1\"; {attributes} }} sub vcl_recv {{ set req.backend_hint = c; }}"
    ));
    let decl = compiled.program.backends.into_iter().find(|decl| decl.name == "c").expect("c is declared");
    match decl.address {
        BackendAddress::Inet { v4: Some(v4), .. } => (decl.tls, v4.port()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backend_is_spoken_to_by_tls_as_it_says() {
    let plain =
        TlsDecl { sni: true, verify_peer: true, verify_host: false, ca_file: None, crl_file: None, certificate: None };
    assert_eq!(tls_of(""), (None, 80));
    assert_eq!(tls_of(".ssl = 0;"), (None, 80));
    assert_eq!(tls_of(".ssl = 0; .ssl_sni = 1; .ssl_verify_peer = 1;"), (None, 80));
    assert_eq!(tls_of(".ssl = 1;"), (Some(plain.clone()), 443));
    assert_eq!(tls_of(".ssl = 2; .port = \"8443\";"), (Some(plain.clone()), 8443));
    let loose = TlsDecl { sni: false, verify_peer: false, verify_host: true, ..plain.clone() };
    assert_eq!(tls_of(".ssl_nosni = 1; .ssl_noverify = 1; .ssl_verify_host = 1; .ssl = 1;").0, Some(loose.clone()));
    assert_eq!(
        tls_of(".ssl = 1; .ssl_sni = 0; .ssl_nosni = 1; .ssl_verify_peer = 0; .ssl_verify_host = 3;").0,
        Some(loose)
    );
    assert_eq!(tls_of(".ssl = 1; .ssl_nosni = 0; .ssl_noverify = 0;").0, Some(plain.clone()));
    let file = |path: &str, text: &[u8]| Some(TlsFile { path: path.to_owned(), text: text.into() });
    let files = TlsDecl { ca_file: file("/etc/ca.pem", b"roots"), ..plain };
    assert_eq!(tls_of(".ssl = 1; .ssl_ca_file = \"ca.pem\";").0, Some(files));
}

#[test]
fn everyday_vcl_compiles() {
    check(
        r#"
        import std; import directors;
        probe p { .url = "/"; .interval = 5s; .window = 5; .threshold = 3; }
        backend a { .host = "192.0.2.1"; .port = "8080"; .probe = p; .connect_timeout = 1.5s; }
        backend c { .path = "/sock"; .probe = { .request = "GET / HTTP/1.1" "Connection: close"; } }
        backend d { .host = ":80"; }
        acl local { "127.0.0.1"; "192.168"/16; ! "192.168.7"; ("nowhere"); "2001:db8::"/32; }
        sub vcl_init { new rr = directors.round_robin(); rr.add_backend(a); rr.add_backend(c); rr.add_backend(d); }
        sub vcl_recv {
            set req.backend_hint = rr.backend();
            if (req.method == "PURGE") { if (client.ip !~ local) { return (synth(405, "no")); } return (purge); }
            elsif (req.url ~ "^/x" || req.http.a && !req.http.b) { std.log("x" + req.url); }
            else if (req.restarts > 0) { set req.http.n = std.integer(req.http.x, 3) * 2; } else { }
            set req.url = regsub(req.url, "\?.*", "");
            set req.grace = 1h; set req.http.t = now + 5m; ban("req.url == " + req.url);
            set req.storage = storage.s0; if (storage.s0.free_space > 1MB) { return (vcl(lbl)); }
        }
        sub vcl_backend_response { set beresp.ttl = std.duration("3s", 1s); set beresp.ttl += 5s; set beresp.grace *= 1.5;
            if (beresp.status >= 500 && bereq.retries == 0) { return (retry); } return (pass(10s)); }
        sub vcl_backend_error { set beresp.body = {"x"} + beresp.status; set beresp.body += "y"; }
        "#,
    );
}

#[test]
fn declarations_become_data() {
    let vcl = check(
        r#"probe default { .url = "/p"; .threshold = 4; } backend a { .host = "both:81"; .max_connections = 7;
           .preamble = :QUI=:; .proxy_header = 2; } sub vcl_recv { set req.backend_hint = a; }"#,
    );
    let a = &vcl.program.backends[1];
    let BackendAddress::Inet { v4, v6, .. } = &a.address else { panic!() };
    assert_eq!((v4.unwrap().to_string().as_str(), v6.unwrap().port()), ("192.0.2.1:81", 81));
    assert_eq!((a.max_connections, a.proxy_header, a.preamble.as_deref(), a.probe), (7, 2, Some(&b"AB"[..]), Some(0)));
    assert_eq!(a.proto, OriginProto::Http1);
    let probe = &vcl.program.probes[0];
    assert_eq!((probe.threshold, probe.window, vcl.program.default_backend), (Some(4), Some(5), Some(0)));
}

#[test]
fn names_of_actions_name_acls_too() {
    // Legal up to 6.x and common, declared both before and after its use.
    check("acl ban { \"127.0.0.1\"; } sub vcl_recv { if (client.ip ~ ban) { ban(\"req.url ~ x\"); } }");
    check("sub vcl_recv { if (client.ip !~ ban) { return (pass); } } acl ban { \"127.0.0.1\"; }");
    let reason = |text: &str| try_compile(&format!("vcl 4.1; backend b none; {text}")).unwrap_err();
    assert!(reason("sub vcl_recv { if (client.ip ~ ban) { } }").starts_with("Undefined acl ban, first reference"));
    assert!(reason("acl ban { } acl ban { }").starts_with("Acl 'ban' redefined."));
}

#[test]
fn a_backend_compared_with_a_text_is_its_name() {
    check("backend b2 none; sub vcl_backend_response { if (beresp.backend.name != b2) { return (retry); } }");
    let reason =
        try_compile("vcl 4.1; backend b none; sub vcl_recv { if (req.backend_hint == \"b\") { } }").unwrap_err();
    assert!(reason.starts_with("Comparison of different types: BACKEND '==' STRING"));
}

#[test]
fn numbers_with_units_have_any_digits() {
    let vcl = check("sub vcl_backend_response { set beresp.ttl = 0.000001s; set beresp.keep = 123456789123456789s; }");
    assert!([0.000_001, 123_456_789_123_456_789.0].iter().all(|n| vcl.program.constants.reals.contains(n)));
}

#[test]
fn parts_of_later_builtin_vcl_can_be_replaced() {
    check("sub vcl_req_url { return; } sub vcl_beresp_range { unset beresp.http.Content-Range; }");
}

#[test]
fn words_of_later_releases_about_backends() {
    let vcl = check(
        "probe p { .expect_close = false; } backend a { .host = \"both\"; .wait_limit = 3; .wait_timeout = 1500ms; .probe = p; }
         sub vcl_recv { set req.backend_hint = a; }",
    );
    let a = &vcl.program.backends[1];
    assert_eq!((a.wait_limit, a.wait_timeout, vcl.program.probes[0].expect_close), (Some(3), Some(1.5), Some(false)));
    let reason = try_compile("vcl 4.1; probe default { .expect_close = 1; } backend a none;").unwrap_err();
    assert!(reason.contains("Expected \"true\" or \"false\""), "{reason}");
}

#[test]
fn names_without_addresses_or_with_many() {
    let compile = |host: &str, lazy_hosts: bool| {
        let text = format!("vcl 4.1; backend a {{ .host = \"{host}\"; }}");
        let options = CompileOptions { lazy_hosts, ..CompileOptions::default() };
        compile("<vcl.inline>", text.as_bytes(), &Few(&[]), &options).map_err(|d| d.to_string())
    };
    for host in ["many", "nobody"] {
        assert!(compile(host, false).is_err(), "{host}");
    }
    for (host, found) in [("many:81", 2), ("nobody:81", 0)] {
        let vcl = compile(host, true).unwrap();
        let BackendAddress::Inet { name: Some(name), .. } = &vcl.program.backends[0].address else { panic!("{host}") };
        assert_eq!((name.port, name.found.len()), (81, found));
        assert_eq!(vcl.warnings.to_string().contains("has no address now"), found == 0, "{}", vcl.warnings);
    }
    let vcl = compile("192.0.2.1", true).unwrap();
    assert!(matches!(&vcl.program.backends[0].address, BackendAddress::Inet { name: None, v4: Some(_), .. }));
    assert!(compile("many:none", true).is_err(), "no port");
}

#[test]
fn the_backend_called_default_is_the_default() {
    let vcl = try_compile("vcl 4.1; backend a none; backend default none; sub vcl_recv { set req.backend_hint = a; }");
    assert_eq!(vcl.unwrap().program.default_backend, Some(1));
}

#[test]
fn tests_are_fused_to_branches() {
    let vcl = check("sub vcl_recv { if (req.http.a == \"x\" && server.hostname ~ \"y\") { return (pass); } }");
    let entry = vcl.program.subs[vcl.program.methods[0] as usize].entry as usize;
    let ops = &vcl.program.code[entry..entry + 6];
    assert!(matches!(
        ops,
        [
            Op::Step { .. },
            Op::TestFieldStr { .. },
            Op::JumpUnless { .. },
            Op::TestVarRegex { .. },
            Op::JumpUnless { .. },
            Op::Step { .. }
        ]
    ));
    assert!(crate::listing::listing(&vcl.program).contains("test   req.http.a == \"x\""));
}

#[test]
fn includes_nest_and_are_relative_to_their_file() {
    let files = Few(&[
        ("/etc/v/a.vcl", "include \"./sub/b.vcl\"; sub a { call bb; }"),
        ("/etc/v/sub/b.vcl", "sub bb { set req.http.b = \"1\"; }"),
        ("/etc/v/g1.vcl", "sub g1 { }"),
        ("/etc/v/g2.vcl", "sub g2 { }"),
    ]);
    let text = "vcl 4.1; backend b none; include \"a.vcl\"; include +glob \"/etc/v/g*.vcl\"; \
                sub vcl_recv { call a; call g1; call g2; }";
    let recorder = Recorder::new(&files);
    let first = compile("<vcl.inline>", text.as_bytes(), &recorder, &CompileOptions::default()).unwrap();
    assert_eq!(first.program.map.sources.len(), 6);
    let bundle = SourceBundle::from_bytes(&recorder.into_bundle().to_bytes()).unwrap();
    let again = compile("<vcl.inline>", text.as_bytes(), &bundle, &CompileOptions::default()).unwrap();
    assert_eq!(again.program.code, first.program.code);
}

#[test]
fn a_file_that_includes_itself_is_refused() {
    let files = Few(&[("/a.vcl", "include \"/b.vcl\";"), ("/b.vcl", "include \"/a.vcl\";")]);
    let text = b"vcl 4.1; backend b none; include \"/a.vcl\";";
    let reason = compile("<vcl.inline>", text, &files, &CompileOptions::default()).unwrap_err().to_string();
    assert!(reason.starts_with("Recursive use of file \"/a.vcl\""), "{reason}");
}

#[test]
fn unused_names_are_warnings_when_asked() {
    let options = CompileOptions { err_unref: false, ..CompileOptions::default() };
    let text = b"vcl 4.1; backend b none; sub foo { }";
    let compiled = compile("<vcl.inline>", text, &Few(&[]), &options).unwrap();
    assert!(compiled.warnings.to_string().starts_with("Unused sub foo, defined:\n"), "{}", compiled.warnings);
    assert!(compiled.warnings.to_string().ends_with("(That was just a warning)\n"));
}

#[test]
fn versions_have_their_own_words() {
    assert!(
        try_compile("vcl 4.0; backend b none; sub vcl_recv { set req.proto = \"x\"; set req.esi = false; }").is_ok()
    );
    assert!(
        try_compile("vcl 4.1; backend b none; sub vcl_recv { if (local.socket) { } set req.http.\"a.b\" = \"1\"; }")
            .is_ok()
    );
}

#[test]
fn our_builtin_vcl_has_all_the_subs() {
    let names: Vec<String> = check("").program.subs.iter().map(|s| s.name.clone()).collect();
    for name in [
        "vcl_builtin_recv",
        "vcl_req_host",
        "vcl_req_method",
        "vcl_req_authorization",
        "vcl_req_cookie",
        "vcl_beresp_stale",
        "vcl_beresp_cookie",
        "vcl_beresp_control",
        "vcl_beresp_vary",
        "vcl_beresp_hitmiss",
        "vcl_builtin_synth",
        "vcl_builtin_backend_error",
        "vcl_fini",
    ] {
        assert!(names.iter().any(|n| n == name), "{name}");
    }
}
