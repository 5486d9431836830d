// SPDX-License-Identifier: BSD-2-Clause
//! Compiled VCL over a transaction of its own: what it returns, does and logs.

mod optimised;
mod profile;
mod programs;
mod speed;
pub(crate) mod world;

use tables::vclsubs::{Method, Return};
use tables::vclvars::HeadId;
use vcl::program::Op;

use crate::machine::RunOutcome;
use crate::value::Value;
use world::VrtWorld;

/// Runs `body` as vcl_recv; gives the action (or failure), and the log without VCL_call.
fn recv(body: &str) -> (String, Vec<String>) {
    let mut world = VrtWorld::new(&format!("vcl 4.1; backend b none; import probe_me; sub vcl_recv {{ {body} }}"));
    let action = world.run(Method::Recv);
    (action, world.log_texts())
}

fn text(expr: &str) -> String {
    let mut world = VrtWorld::new(&format!(
        "vcl 4.1; backend b none; backend c {{ .host = \"127.0.0.1\"; }} acl lo {{ \"127.0.0.0\"/8; }} \
         sub vcl_recv {{ set req.http.out = {expr}; if (req.backend_hint == c) {{ set req.backend_hint = c; }} \
         if (client.ip ~ lo) {{ return (hash); }} return (pass); }}"
    ));
    match world.run(Method::Recv).as_str() {
        "Hash" => String::from_utf8_lossy(world.ctx.req.get("out").unwrap_or(b"<unset>")).into_owned(),
        other => other.to_owned(),
    }
}

fn truth(expr: &str) -> bool {
    let mut world = VrtWorld::new(&format!(
        "vcl 4.1; backend b none; acl lo {{ \"127.0.0.0\"/8; ! \"127.0.0.9\"; }} acl unused_ok {{ \"::1\"; }} \
         sub vcl_recv {{ if (client.ip ~ unused_ok || client.ip !~ lo) {{ }} \
         if ({expr}) {{ return (pass); }} return (hash); }}"
    ));
    match world.run(Method::Recv).as_str() {
        "Pass" => true,
        "Hash" => false,
        other => panic!("{expr}: {other}"),
    }
}

#[test]
fn a_status_compares_with_numbers_of_any_size() {
    let holds = |status: u16, test: &str| {
        let body = format!("if (resp.status {test}) {{ return (restart); }} return (deliver);");
        let mut world = VrtWorld::new(&format!("vcl 4.1; backend b none; sub vcl_deliver {{ {body} }}"));
        world.ctx.resp.start_response(b"HTTP/1.1", status).unwrap();
        world.run(Method::Deliver) == "Restart"
    };
    for (status, tests) in [
        (404, ["== 404", "!= 405", "< 405", "<= 404", "> 403", ">= 404"]),
        (200, ["== 200", "!= 70000", "< 70000", "<= 65535", "> -1", ">= 0"]),
        (599, ["== 500 + 99", "!= 600", "< 599 + 1", "<= 599", "> 65535 - 65000", ">= -599"]),
    ] {
        for test in tests {
            assert!(holds(status, test), "{status} {test}");
        }
    }
    for (status, tests) in [(404, ["== 200", "!= 404", "< 404", "<= 403", "> 404", ">= 405"]), (200, ["== 65736"; 6])] {
        for test in tests {
            assert!(!holds(status, test), "{status} {test}");
        }
    }
}

#[test]
fn the_built_in_vcl_passes_what_it_must() {
    let run = |method: &str, field: Option<(&str, &str)>| {
        let mut world = VrtWorld::new("vcl 4.1; backend b none;");
        world.ctx.req.set_method(method).unwrap();
        if let Some((name, value)) = field {
            world.ctx.req.set(name, value).unwrap();
        }
        world.run(Method::Recv)
    };
    assert_eq!(run("GET", None), "Hash");
    assert_eq!(run("POST", None), "Pass");
    assert_eq!(run("BREW", None), "Synth(VclStatus { status: 501, reason: None })");
    assert_eq!(run("PRI", None), "Synth(VclStatus { status: 405, reason: None })");
    assert_eq!(run("GET", Some(("Cookie", "a=b"))), "Pass");
    assert_eq!(run("HEAD", Some(("Authorization", "x"))), "Pass");
}

#[test]
fn the_built_in_vcl_wants_a_host_and_makes_it_lower_case() {
    let mut world = VrtWorld::new("vcl 4.1; backend b none;");
    world.ctx.req.set("Host", "Example.COM").unwrap();
    assert_eq!(world.run(Method::Recv), "Hash");
    assert_eq!(world.ctx.req.get("host"), Some(&b"example.com"[..]));
    world.ctx.req.unset("Host");
    assert_eq!(world.run(Method::Recv), "Synth(VclStatus { status: 400, reason: None })");
}

#[test]
fn the_built_in_hash_is_url_and_host() {
    let mut world = VrtWorld::new("vcl 4.1; backend b none;");
    assert_eq!(world.run(Method::Hash), "Lookup");
    assert_eq!(world.ctx.hash, b"/foo?a=1\0example.com\0");
}

#[test]
fn texts_are_joined_and_converted() {
    assert_eq!(text("\"a\" + req.url + 1 + true"), "a/foo?a=11true");
    assert_eq!(text("1 + 2 + \"x\""), "3x");
    assert_eq!(text("\"x\" + 1 + 2"), "x12");
    assert_eq!(text("1.5"), "1.500");
    assert_eq!(text("1m + 500ms"), "60.500");
    assert_eq!(text("req.http.nope"), "");
    assert_eq!(text("\"<\" + req.http.nope + \">\""), "<>");
    assert_eq!(text("{\"a\"b\"} + \"\"\"c\"d\"\"\""), "a\"bc\"d");
    assert_eq!(text("client.ip"), "127.0.0.1");
    assert_eq!(text("req.url.upper() + req.method.lower()"), "/FOO?A=1get");
    assert_eq!(text("now - 5s - now"), "-5.000");
    assert_eq!(text(":SGVsbG8=:"), ":SGVsbG8=:");
}

#[test]
fn numbers_are_computed_from_left_to_right() {
    assert_eq!(text("\"\" + (1 + 2 * 3)"), "7");
    assert_eq!(text("\"\" + (10 - 2 - 3)"), "5");
    assert_eq!(text("\"\" + (7 / 2 * 2)"), "6");
    assert_eq!(text("\"\" + (17 % 5)"), "2");
    assert_eq!(text("\"\" + -3"), "-3");
    assert_eq!(text("\"\" + (1s * 2.5)"), "2.500");
    assert_eq!(text("\"\" + (2 * (3 + 4))"), "14");
    assert_eq!(text("\"\" + (1 / 0)"), "Failed(Division by zero)");
}

#[test]
fn conditions() {
    assert!(truth("req.url ~ \"^/f\" && req.method == \"GET\""));
    assert!(truth("!req.http.nope && req.http.host"));
    assert!(truth("req.http.nope != \"x\"") && !truth("req.http.nope == \"\""));
    assert!(truth("req.http.nope !~ \"x\"") && truth("req.http.nope ~ \"^$\""));
    assert!(truth("1 < 2 && 2 <= 2 && 3 > 2 && 2 != 3"));
    assert!(truth("(1 == 2 || 2 == 2) && !(1 == 2)"));
    assert!(truth("client.ip ~ lo") && truth("client.ip == \"127.0.0.1\""));
    assert!(truth("true") && !truth("false") && truth("true != false"));
    assert!(truth("req.restarts == 0 && !req.restarts"));
    assert!(truth("\"b\" > \"a\" && req.url < \"z\""));
    assert!(truth("1s > 500ms && now > now - 1s"));
    assert!(truth("req.http.host + \"x\" == \"example.comx\""));
    assert!(truth("req.http.host ~ \"(?i)EXAMPLE\""));
    assert!(truth("1 == 2 || 1 == 3 || req.url ~ \"a=1\""));
    assert!(!truth("req.url && (false || (true && false))"));
}

#[test]
fn regsub_replaces_once_or_always() {
    assert_eq!(text("regsub(req.url, \"o\", \"0\")"), "/f0o?a=1");
    assert_eq!(text("regsuball(req.url, \"o\", \"0\")"), "/f00?a=1");
    assert_eq!(text("regsub(req.url, \"(f)(o)\", \"\\2\\1\")"), "/ofo?a=1");
    assert_eq!(text("regsub(req.url, \"nope\", \"\")"), "/foo?a=1");
    assert_eq!(text("regsub(req.http.nope, \"^$\", \"x\")"), "x");
}

#[test]
fn changes_of_heads_are_logged_as_varnish_does() {
    let (action, log) = recv(
        "set req.http.Foo = \"a\"; set req.http.foo = \"b\"; unset req.http.FOO; set req.url = \"/x\"; return (hash);",
    );
    assert_eq!(action, "Hash");
    assert_eq!(
        log,
        [
            "VCL_call RECV",
            "ReqHeader Foo: a",
            "ReqUnset Foo: a",
            "ReqHeader Foo: b",
            "ReqUnset Foo: b",
            "ReqURL /x",
            "VCL_return hash"
        ]
    );
}

#[test]
fn failures_end_the_subroutine() {
    let failed = |body: &str, reason: &str| {
        let (action, log) = recv(body);
        assert_eq!(action, format!("Failed({reason})"));
        assert_eq!(log[log.len() - 2..], [format!("VCL_Error {reason}"), "VCL_return fail".to_owned()]);
    };
    failed("return (fail);", "Failed from VCL");
    failed("return (fail(\"be\" + \"cause\"));", "because");
    failed("set req.url = \"\";", "Setting req.url to empty string");
    failed("return (synth(99));", "illegal return(synth()) status code (99) (..0##)");
    failed("return (synth(66000, \"x\"));", "return(synth()) status code (66000) > 65535");
    failed("set req.http.x = {\"a\nb\"};", "Bad header x: a\\nb");
}

#[test]
fn a_return_of_another_subroutine_is_a_failure() {
    let mut program = VrtWorld::compile("vcl 4.1; backend b none;", true).unwrap();
    for op in program.code.iter_mut().chain(&mut program.lean.ops) {
        if let Op::Return { action: action @ Return::Lookup } = op {
            *action = Return::Deliver;
        }
    }
    let mut world = VrtWorld::of(program).unwrap();
    assert_eq!(world.run(Method::Hash), "Failed(VCL subroutine ended with another's return)");
    assert_eq!(world.log_texts().last().unwrap(), "VCL_return fail");
}

#[test]
fn subs_call_and_return() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; \
         sub a { if (req.url ~ \"foo\") { set req.http.a = \"1\"; return; } set req.http.a = \"2\"; } \
         sub vcl_recv { call a; call c; set req.http.never = \"x\"; } \
         sub c { return (synth(12404, req.http.a)); }",
    );
    assert_eq!(world.run(Method::Recv), "Synth(VclStatus { status: 12404, reason: Some([49]) })");
    assert!(!world.ctx.req.has("never"));
}

#[test]
fn several_definitions_follow_each_other() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; sub vcl_recv { set req.http.o = \"1\"; } \
         sub vcl_recv { set req.http.o = req.http.o + \"2\"; } sub vcl_req_cookie { set req.http.o += \"3\"; }",
    );
    assert_eq!(world.run(Method::Recv), "Hash");
    assert_eq!(world.ctx.req.get("o"), Some(&b"123"[..]));
}

#[test]
fn the_backend_side() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; sub vcl_backend_response { set beresp.status = 404; set beresp.http.x = beresp.status; \
         if (beresp.http.y) { return (pass(10s)); } if (beresp.http.z) { return (error(503, \"no\")); } }",
    );
    assert_eq!(world.run(Method::BackendResponse), "Deliver");
    assert_eq!(world.ctx.beresp.reason(), b"Not Found");
    assert_eq!(
        world.log_texts()[..4],
        ["VCL_call BACKEND_RESPONSE", "BerespStatus 404", "BerespReason Not Found", "BerespHeader x: 404"]
    );
    world.ctx.beresp.set("y", "1").unwrap();
    assert_eq!(world.run(Method::BackendResponse), "Pass");
    assert!(world.log_texts().ends_with(&["TTL HFP 10".to_owned(), "VCL_return pass".to_owned()]));
    world.ctx.beresp.unset("y");
    world.ctx.beresp.set("z", "1").unwrap();
    assert_eq!(world.run(Method::BackendResponse), "Error(VclStatus { status: 503, reason: Some([110, 111]) })");
}

#[test]
fn synthetic_bodies() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; sub vcl_synth { set resp.body = \"a\" + resp.status; set resp.body += \"b\"; \
         synthetic(\"c\"); set resp.body += :ZA==:; return (deliver); }",
    );
    assert_eq!(world.run(Method::Synth), "Deliver");
    assert_eq!(world.ctx.body, b"a200bcd");
}

#[test]
fn modules_wait_and_fail() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; import vtc; sub vcl_recv { vtc.sleep(1s); set req.http.a = vtc.typesize(\"p\"); }",
    );
    let mut machine = world.start(Method::Recv);
    let RunOutcome::Wait(_) = machine.run(&mut world.ctx) else { panic!("it should wait") };
    machine.resume(Ok(Value::Void));
    let RunOutcome::Done(action) = machine.run(&mut world.ctx) else { panic!("it should end") };
    assert_eq!(format!("{action:?}"), "Hash");
    assert_eq!(world.ctx.req.get("a"), Some(&b"8"[..]));
    let mut machine = world.start(Method::Recv);
    let RunOutcome::Wait(_) = machine.run(&mut world.ctx) else { panic!("it should wait") };
    machine.resume(Err("no sleep".into()));
    assert!(matches!(machine.run(&mut world.ctx), RunOutcome::Failed(f) if f.0 == "no sleep"));
}

#[test]
fn objects_are_made_in_init_and_called() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; import blob; \
         sub vcl_init { new x = blob.blob(encoded=\"abc\"); } \
         sub vcl_recv { set req.http.a = x.encode(); }",
    );
    assert_eq!(world.run(Method::Recv), "Hash");
    assert_eq!(world.ctx.req.get("a"), Some(&b"abc"[..]));
}

#[test]
fn init_may_refuse() {
    let reason = |vcl: &str| VrtWorld::try_new(vcl).err().unwrap_or_default();
    assert_eq!(
        reason("vcl 4.1; backend b none; sub vcl_init { return (fail(\"Do Not Press\")); }"),
        "VCL \"test\" Failed initialization\nMessage:\n\tDo Not Press"
    );
    assert_eq!(
        reason(
            "vcl 4.1; backend b none; import blob; sub vcl_init { if (false) { new x = blob.blob(encoded=\"a\"); } }"
        ),
        "VCL \"test\" Failed initialization\nMessage:\n\tObject x not initialized"
    );
}

#[test]
fn long_programs_yield() {
    let subs: String = (0..8).map(|n| format!("sub s{n} {{ {} }} ", format!("call s{};", n + 1).repeat(8))).collect();
    let mut world = VrtWorld::new(&format!(
        "vcl 4.1; backend b none; {subs} sub s8 {{ if (req.url ~ \"x\") {{ }} }} sub vcl_recv {{ call s0; }}"
    ));
    let mut machine = world.start(Method::Recv);
    assert!(matches!(machine.run(&mut world.ctx), RunOutcome::OutOfBudget));
    assert_eq!(machine.place().map(|p| p.0), Some("<vcl.inline>"));
}

#[test]
fn a_trace_shows_the_places() {
    let mut world = VrtWorld::new("vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  if (true) {\n  return (hash); } }");
    world.unmask("+VCL_trace");
    world.run(Method::Recv);
    let log = world.log_texts();
    assert_eq!(log[1..3], ["VCL_trace test 1 0.4.3", "VCL_trace test 2 0.5.3"]);
}

#[test]
fn head_ids_have_heads() {
    let mut world = VrtWorld::new("vcl 4.1; backend b none;");
    assert!(HeadId::ALL.into_iter().all(|id| crate::Ctx::head(&mut world.ctx, id).is_some() || id == HeadId::Obj));
}
