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
