// SPDX-License-Identifier: BSD-2-Clause
//! Tests of backends that are listeners of the server itself.

use std::net::IpAddr;

use super::Few;
use crate::program::BackendAddress;
use crate::{CompileOptions, Recorder, Sources, TlsFileKind, compile};

/// A server that listens on port 80.
struct Serving(Few);

impl Sources for Serving {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        self.0.read(path)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.0.glob(pattern)
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        self.0.resolve(host)
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        self.0.is_socket(path)
    }

    fn tls_file(&self, path: &str, kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        self.0.tls_file(path, kind)
    }

    fn own_listener(&self, address: &BackendAddress) -> Option<String> {
        match address {
            BackendAddress::Inet { v4, .. } => v4.filter(|v4| v4.port() == 80).map(|_| "a0 (:80)".to_owned()),
            BackendAddress::Unix(path) => path.ends_with("sock").then(|| "a1 (/sock)".to_owned()),
            BackendAddress::None => None,
        }
    }
}

const OWN: &str = "backend own { .host = \"192.0.2.1\"; }";
const OTHER: &str = "backend other { .host = \"192.0.2.1:81\"; }";

fn load(body: &str, lazy_hosts: bool) -> Result<String, String> {
    let options =
        CompileOptions { labels: vec!["lbl".into()], err_unref: false, lazy_hosts, ..CompileOptions::default() };
    let serving = Serving(Few(&[]));
    let text = format!("vcl 4.1; import std; {body}");
    let compiled = compile("<vcl.inline>", text.as_bytes(), &Recorder::new(&serving), &options);
    compiled.map(|compiled| compiled.warnings.to_string()).map_err(|failed| failed.to_string())
}

#[track_caller]
fn refused(body: &str, reason: &str) {
    let text = load(body, false).expect_err(body);
    assert!(text.contains(reason) && text.contains("Hint: Name the address and port"), "{body}\n{text}");
}

/// Checks that the VCL loads, with a warning for each of `names` that it is the server itself.
#[track_caller]
fn loads(body: &str, names: &[&str]) {
    let said = load(body, false).expect(body);
    for name in names {
        assert!(said.contains(&format!("Backend {name} is this server's own listener a")), "{body}\n{said}");
    }
    assert_eq!(said.matches("own listener").count(), names.len(), "{body}\n{said}");
}

#[test]
fn a_program_whose_every_fetch_comes_back_is_refused() {
    let reason = "Backend own is this server's own listener a0 (:80): every request would come back to this server.\n\
                  ('<vcl.inline>' Line 1 Pos 30)";
    refused(OWN, reason);
    refused(&format!("{OWN} {OTHER}"), reason);
    refused(&format!("{OWN} sub vcl_recv {{ if (req.method == \"PURGE\") {{ return (synth(405)); }} }}"), reason);
    refused(&format!("{OWN} sub vcl_recv {{ return (pass); }}"), reason);
    refused(
        &format!("{OTHER} backend default {{ .path = \"/sock\"; }}"),
        "Backend default is this server's own listener a1 (/sock)",
    );
    refused("backend default { .host = \"both\"; }", "Backend default is this server's own listener a0");
}

#[test]
fn a_program_that_may_fetch_from_elsewhere_loads() {
    loads(OTHER, &[]);
    loads("backend default none;", &[]);
    let choice = "sub vcl_recv { if (req.url == \"/\") { set req.backend_hint = other; } }";
    loads(&format!("{OWN} {OTHER} {choice}"), &["own"]);
    loads(&format!("{OTHER} {OWN}"), &["own"]);
    loads(&format!("{OWN} {OTHER} sub vcl_backend_fetch {{ set bereq.backend = other; }}"), &["own"]);
    loads(&format!("{OWN} sub vcl_recv {{ return (vcl(lbl)); }}"), &["own"]);
    loads(&format!("{OWN} sub vcl_recv {{ if (local.socket == \"a1\") {{ return (synth(200)); }} }}"), &["own"]);
    for ip in ["server.ip", "client.ip", "remote.ip"] {
        loads(&format!("{OWN} sub vcl_recv {{ if (std.port({ip}) == 80) {{ return (synth(200)); }} }}"), &["own"]);
    }
    loads(&format!("{OWN} sub vcl_recv {{ return (synth(301)); }}"), &["own"]);
    let by_host = "if (req.http.host == \"a\") { return (synth(301)); } return (synth(404));";
    loads(&format!("{OWN} sub vcl_recv {{ {by_host} }}"), &["own"]);
    let both = "backend one { .path = \"/sock\"; }";
    loads(&format!("{OTHER} {OWN} {both} sub vcl_recv {{ set req.backend_hint = one; }}"), &["own", "one"]);
}

#[test]
fn a_program_that_answers_everything_itself_loads() {
    let answers = "sub answer { if (req.url == \"/\") { return (synth(200)); } else { return (synth(404)); } }";
    let recv = |body: &str| format!("sub vcl_recv {{ {body} }}");
    loads(&format!("{OWN} {answers} {}", recv("call answer;")), &["own"]);
    loads(&format!("{OWN} {} {answers}", recv("call answer; return (pass);")), &["own"]);
    loads(&format!("{OWN} {answers} sub deeper {{ call answer; }} {}", recv("call deeper;")), &["own"]);
    loads(&format!("{OWN} sub vcl_builtin_recv {{ return (synth(404)); }}"), &["own"]);
    // A fetch that is never sent.
    loads(&format!("{OWN} {} sub vcl_pass {{ return (synth(301)); }}", recv("return (pass);")), &["own"]);
    loads(&format!("{OWN} sub vcl_backend_fetch {{ return (error(200)); }} {}", recv("return (hash);")), &["own"]);
    let every = "every request would come back";
    let some = "sub some { if (req.url == \"/\") { return (synth(200)); } }";
    refused(&format!("{OWN} {some} {}", recv("call some;")), every);
    refused(&format!("{OWN} sub go {{ return (pass); }} {}", recv("call go; return (synth(404));")), every);
    refused(&format!("{OWN} sub vcl_backend_fetch {{ return (error(200)); }} {}", recv("return (pipe);")), every);
    refused(&format!("{OWN} sub vcl_miss {{ return (synth(404)); }}"), every);
}

#[test]
fn a_name_that_is_looked_up_later_is_left_to_the_fetch() {
    let said = load("backend default { .host = \"both\"; }", true).unwrap();
    assert_eq!(said, "");
    assert!(load(OWN, true).is_err(), "an address stays what it is");
}

#[test]
fn the_worker_compiles_what_was_loaded() {
    let serving = Serving(Few(&[]));
    let recorder = Recorder::new(&serving);
    let text = format!("vcl 4.1; {OWN} {OTHER} sub vcl_recv {{ set req.backend_hint = other; }}");
    assert!(compile("x", text.as_bytes(), &recorder, &CompileOptions::default()).is_ok());
    let again = compile("x", text.as_bytes(), &recorder.into_bundle(), &CompileOptions::default());
    assert_eq!(
        again.map(|compiled| compiled.warnings.to_string()).map_err(|failed| failed.to_string()),
        Ok(String::new())
    );
}
