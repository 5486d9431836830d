// SPDX-License-Identifier: BSD-2-Clause
//! Words of releases 7.3 to 9.0.

use super::try_compile;

fn good(text: &str) {
    let compiled = try_compile(&format!("vcl 4.1;\nbackend b none;\n{text}"));
    assert!(compiled.is_ok(), "{text}: {:?}", compiled.err());
}

fn bad(text: &str, message: &str) {
    let compiled = try_compile(&format!("vcl 4.1;\nbackend b none;\n{text}"));
    let error = compiled.err().unwrap_or_default();
    assert!(error.contains(message), "{text}: {error}");
}

#[test]
fn limits_can_be_unset() {
    for variable in [
        "req.grace",
        "req.ttl",
        "req.max_age",
        "sess.timeout_idle",
        "sess.timeout_linger",
        "sess.send_timeout",
        "sess.idle_send_timeout",
    ] {
        good(&format!("sub vcl_recv {{ set {variable} = 1s; unset {variable}; }}"));
    }
    for variable in ["bereq.connect_timeout", "bereq.first_byte_timeout", "bereq.between_bytes_timeout"] {
        good(&format!("sub vcl_backend_fetch {{ set {variable} = 1s; unset {variable}; }}"));
        good(&format!("sub vcl_pipe {{ unset {variable}; }}"));
    }
    bad("sub vcl_recv { unset req.xid; }", "Variable cannot be unset.");
}

#[test]
fn newer_variables() {
    good("sub vcl_recv { set req.trace = true; set req.filters = \"\"; set req.http.x = param.transit_buffer; }");
    good("sub vcl_backend_fetch { set bereq.trace = false; set bereq.filters = \"\"; }");
    good("sub vcl_backend_fetch { set bereq.retry_connect = !bereq.retry_connect; }");
    good("sub vcl_synth { set resp.http.x = req.hash; } sub vcl_pipe { set bereq.http.x = req.hash; }");
    bad("sub vcl_deliver { set req.filters = \"\"; }", "It can be set in vcl_recv.");
}

#[test]
fn a_transaction_id_is_a_number_and_a_text() {
    for test in [
        "req.xid > 5",
        "5 < req.xid",
        "req.xid == 5",
        "req.xid % 100 == 7",
        "req.xid - 1 > sess.xid",
        "req.xid > sess.xid",
        "req.xid != \"5\"",
        "req.xid ~ \"1$\"",
        "req.xid",
        "req.xid + \"a\" == \"5a\"",
    ] {
        good(&format!("sub vcl_recv {{ if ({test}) {{ return (pass); }} }}"));
    }
    good("sub vcl_backend_fetch { set bereq.http.x = \"a-\" + bereq.xid; set bereq.http.y = bereq.xid * 2; }");
    good("sub vcl_synth { set resp.status = req.xid; }");
    bad("sub vcl_recv { if (req.xid > 1.5) { } }", "Comparison of different types: STRING '>' REAL");
}

#[test]
fn a_call_can_be_timed() {
    let imports = "import std; ";
    let slow = "sub slow { set req.http.x = 1; } ";
    let call = "sub vcl_recv { if (std.timed_call(slow) > 1s) { return (pass); } }";
    good(&format!("{imports}{slow}{call}"));
    bad(&format!("{imports}{call}"), "Undefined sub slow");
    bad(&format!("{imports}sub slow {{ set beresp.ttl = 1s; }} {call}"), "from subroutine 'vcl_recv'");
    bad(&format!("{imports}sub slow {{ set req.http.x = std.timed_call(slow); }} {call}"), "Subroutine recurses on");
}

#[test]
fn a_backend_goes_through_another_one() {
    let compiled = |text: &str| {
        let text = format!(
            "vcl 4.1;\nbackend proxy {{ .host = \"127.0.0.1\"; .port = \"8443\"; }}\nbackend b {{ {text} }}\nsub vcl_recv {{ set req.backend_hint = b; }}"
        );
        try_compile(&text).map(|compiled| compiled.program.backends[1].via.clone())
    };
    for (text, authority) in [
        (".host = \"192.0.2.1\"; .via = proxy; .authority = \"a.example:443\";", "a.example"),
        (".via = proxy; .host = \"192.0.2.1\"; .host_header = \"b.example\";", "b.example"),
        (".host = \"both\"; .via = proxy;", "both"),
        (".host = \"192.0.2.1\"; .authority = \"\"; .via = proxy;", ""),
    ] {
        let via = compiled(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(via.map(|via| (via.backend, via.authority)), Some((0, authority.to_owned())), "{text}");
    }
    assert_eq!(compiled(".host = \"192.0.2.1\"; .authority = \"a\";"), Ok(None));
    for (text, message) in [
        (".host = \"192.0.2.1\"; .via = proxy;", ".host used as authority can not be an ip address with .via."),
        (
            ".host = \"192.0.2.1\"; .host_header = \"[::1]:80\"; .via = proxy;",
            ".host_header used as authority can not be an ip address",
        ),
        (
            ".host = \"192.0.2.1\"; .authority = \"127.1\"; .via = proxy;",
            ".authority can not be an ip address with .via.",
        ),
        (".path = \"/run/s\"; .via = proxy;", "Cannot set both .via and .path."),
        (".host = \"a\"; .via = b;", "Backend is not yet defined"),
        (".host = \"192.0.2.1\"; .via = nobody;", "Symbol not found: 'nobody'"),
        (".host = \"192.0.2.1\"; .authority = \"a\"; .ssl = 1; .via = proxy;", ".ssl can not be used with .via"),
        (
            ".host = \"192.0.2.1\"; .authority = \"a\"; .preamble = :AAA=:; .via = proxy;",
            ".preamble can not be used with .via",
        ),
    ] {
        let error = compiled(text).err().unwrap_or_default();
        assert!(error.contains(message), "{text}: {error}");
    }
    let proxy = "backend proxy { .host = \"127.0.0.1\"; } backend a { .host = \"192.0.2.1\"; .authority = \"a\"; .via = proxy; }";
    bad(
        &format!("{proxy} backend c {{ .host = \"192.0.2.1\"; .authority = \"a\"; .via = a; }}"),
        "Cannot stack .via backends",
    );
    bad("backend c { .host = \"192.0.2.1\"; .authority = \"a\"; .via = b; }", ".via needs a backend with an address");
}
