// SPDX-License-Identifier: BSD-2-Clause
//! udo, activedns and cookieplus as VCL calls them.

use std::sync::Arc;

use vrt::Method;

use super::VmodsWorld;

#[test]
fn groups_are_backends_of_who_subscribes() {
    let mut world = VmodsWorld::new(
        "vcl 4.1; import activedns; import udo; import std; backend none none; \
         sub vcl_init { \
             activedns.set_default_ttl(1h); \
             new g = activedns.dns_group(\"127.0.0.1:81\"); g.set_port(82); \
             new six = activedns.dns_group(\"127.0.0.1\"); six.set_ipv_rule(ipv6); \
             new d = udo.director(); d.subscribe(g.get_tag()); d.subscribe(six.get_tag()); \
             new nobody = udo.director(); nobody.subscribe(six.get_tag()); \
         } \
         sub vcl_recv { set req.http.out = d.backend() + \" \" + std.healthy(d.backend()) + std.healthy(nobody.backend()) + \
             (d.backend() == d.backend()) + d.self_identify(\"other\") + d.self_identify(d.get_identifier()) + d.self_is_next(); }",
    );
    world.run(Method::Recv);
    assert_eq!(world.field("out"), "d truefalsetruefalsetruefalse");
    let names: Vec<String> = world.vcl.directors().iter().map(|director| director.name().to_owned()).collect();
    for name in ["d", "nobody", "g(127.0.0.1:82)", "g.127.0.0.1(127.0.0.1:82)", "six(127.0.0.1:80)"] {
        assert!(names.contains(&name.into()), "{name} in {names:?}");
    }
    assert_eq!(names.len(), 5, "{names:?}");
}

#[test]
fn names_that_nobody_asks_for_go_and_leave_others_what_they_share() {
    let mut world = VmodsWorld::with(
        "import dynamic; backend none none; acl v4 { \"127.0.0.0\"/8; } \
         sub vcl_init { new d = dynamic.director(port = \"81\", whitelist = v4, domain_usage_timeout = 10s); }",
        "set req.http.out = d.backend(req.http.host);",
    );
    let mut ask = |host: &str, after: u64| {
        world.ctx.clock_mut().advance(std::time::Duration::from_secs(after));
        world.ctx.req.set("host", host).expect("room");
        assert_eq!(world.recv("out"), format!("d({host}:81)"));
        let known = world.vcl.directors();
        let mut names: Vec<_> = known.iter().map(|director| director.name().to_owned()).collect();
        names.retain(|name| name != "d");
        names.sort();
        let shared = known.iter().find(|director| director.name() == "d(127.0.0.1:81)" && director.kind() != "dynamic");
        (names, shared.map(|backend| Arc::as_ptr(backend).cast::<()>() as usize))
    };
    let (names, first) = ask("localhost", 0);
    assert_eq!(names, ["d(127.0.0.1:81)", "d(localhost:81)"]);
    assert!(first.is_some());
    // Unused for too long: it is kept once more, for what it shares with whoever comes now.
    assert_eq!(ask("127.0.0.1", 11).0, ["d(127.0.0.1:81)", "d(127.0.0.1:81)", "d(localhost:81)"]);
    assert_eq!(ask("127.0.0.1", 6), (vec!["d(127.0.0.1:81)".to_owned(); 2], first));
    // Asked for again meanwhile: it stays.
    ask("localhost", 1);
    ask("127.0.0.1", 11);
    let (names, same) = ask("localhost", 1);
    assert_eq!((names.len(), same), (3, first));
    assert_eq!((ask("localhost", 6).0.len(), ask("localhost", 3).0.len()), (3, 3));
    let log = world.log_texts();
    let told: Vec<_> = log.iter().filter_map(|line| line.strip_prefix("VCL_Log vmod-dynamic: test d ")).collect();
    assert_eq!(told, ["localhost:81 timeout", "localhost:81 deleted", "localhost:81 timeout"]);
}

/// Number of lookups of 127.0.0.1 logged after some seconds more in which only housekeeping ran.
fn lookups_after(world: &mut VmodsWorld, seconds: f64, record: &str) -> usize {
    world.ctx.clock_mut().advance(std::time::Duration::from_secs_f64(seconds));
    let ran = rt::run(async {
        world.vcl.directors().iter().for_each(|director| director.look_again());
        while crate::dynamic::LOOKING.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            rt::yield_now().await;
        }
    });
    ran.expect("a runtime");
    world.log_texts().iter().filter(|line| line.contains(record)).count()
}

#[test]
fn names_are_looked_up_while_nobody_asks() {
    let mut world = VmodsWorld::with(
        "import dynamic; backend none none; \
         sub vcl_init { new d = dynamic.director(port = \"81\", ttl = 3s, domain_usage_timeout = 60s); d.debug(true); }",
        "set req.http.out = d.backend(\"127.0.0.1\");",
    );
    let after =
        |world: &mut VmodsWorld, seconds: f64| lookups_after(world, seconds, "127.0.0.1:81 address 127.0.0.1:81");
    assert_eq!(after(&mut world, 5.0), 0, "nobody has asked yet");
    world.recv("out");
    assert_eq!(after(&mut world, 0.5), 1, "the first was the request's");
    let seen = [2.4, 0.1, 2.9, 0.1, 3.0].map(|seconds| after(&mut world, seconds));
    assert_eq!(seen, [1, 2, 2, 3, 4], "each ttl");
    assert_eq!(after(&mut world, 60.0), 4, "a name that nobody used for domain_usage_timeout rests");
    // The request begins a lookup, in a runtime that may end before it does.
    world.recv("out");
    assert_eq!(after(&mut world, 0.0), 5, "a request wakes it");
}

#[test]
fn a_name_without_an_address_is_looked_up_by_requests_alone() {
    // A service that nobody knows: each lookup fails at once and is logged.
    let mut world = VmodsWorld::with(
        "import dynamic; backend none none; sub vcl_init { new d = dynamic.director(port = \"no-such-service\"); }",
        "set req.http.out = d.backend(\"127.0.0.1\");",
    );
    let after =
        |world: &mut VmodsWorld, seconds: f64| lookups_after(world, seconds, "127.0.0.1:no-such-service getaddrinfo");
    world.recv("out");
    assert_eq!([0.5, 5.0, 100.0].map(|seconds| after(&mut world, seconds)), [1; 3], "nobody asks");
    // Requests look again, and wait for that, after 1, 2, 4 seconds, and so on up to 32.
    let mut asked = |seconds: f64| {
        let before = after(&mut world, seconds);
        world.recv("out");
        after(&mut world, 0.0) - before
    };
    assert_eq!([0.0, 1.9, 0.1, 3.9, 0.1].map(&mut asked), [1, 0, 1, 0, 1]);
    assert_eq!([8.0, 16.0, 32.0, 31.9, 0.1].map(&mut asked), [1, 1, 1, 0, 1]);
}

#[test]
fn what_dynamic_refuses() {
    for (args, reason) in [
        ("port = \"\"", "port may not be empty"),
        ("ttl = 0s", "ttl may not be 0s"),
        ("domain_usage_timeout = 0s", "domain_usage_timeout may not be 0s"),
        ("first_lookup_timeout = 0s", "first_lookup_timeout may not be 0s"),
    ] {
        let vcl =
            format!("vcl 4.1; import dynamic; backend none none; sub vcl_init {{ new d = dynamic.director({args}); }}");
        assert!(VmodsWorld::try_new(&vcl).err().is_some_and(|error| error.contains(reason)), "{args}");
    }
}

#[test]
fn what_udo_refuses_outside_of_vcl_init() {
    for (call, reason) in [
        ("d.add_backend(b)", "udo: d.add_backend(): only in vcl_init"),
        ("d.subscribe(\"x\")", "udo: d.subscribe(): only in vcl_init"),
    ] {
        let udo = "import udo; backend b { .host = \"127.0.0.1\"; } sub vcl_init { new d = udo.director(); }";
        assert_eq!(VmodsWorld::with(udo, &format!("{call};")).recv("out"), format!("Failed({reason})"));
    }
}

#[track_caller]
fn cookies(field: &str, statements: &str, wanted: &str) {
    let mut world =
        VmodsWorld::with("import cookieplus; backend b none;", &format!("{statements} cookieplus.write();"));
    world.ctx.req.append("Cookie", field).expect("room");
    assert_eq!(world.recv("cookie"), wanted, "{field}: {statements}");
}

#[test]
fn cookies_that_are_left() {
    cookies("a=1;b=2 ; ;c", "", "a=1;b=2 ; ;c");
    cookies("a=1;b=2 ; ;c", "cookieplus.delete(\"a\");", "b=2; c");
    cookies("a=1; a=2; b=3", "cookieplus.keep(\"a\");", "a=1; a=2");
    cookies("a=1; b=2", "cookieplus.keep(\"a\"); cookieplus.delete(\"a\");", "a=1");
    cookies("a=1; b=2", "cookieplus.keep(\"\");", "<unset>");
    cookies("a=1; b=2", "cookieplus.keep(\"\"); cookieplus.add(\"c\", \"3\");", "c=3");
    cookies("a=1; a=2; b=2", "cookieplus.add(\"a\", \"\");", "b=2; a=");
    cookies("a=1", "cookieplus.add(\"c\", \"3\"); cookieplus.delete(\"c\");", "a=1");
    cookies("a=1", "cookieplus.add(\"\", \"3\");", "Failed(cookieplus: a cookie has a name)");
    cookies("a=1", "cookieplus.keep(cookieplus.get(\"none\")); ", "<unset>");
    cookies("a=b=c", "set req.http.cookie = cookieplus.get(\"a\");", "b=c");
}

#[test]
fn set_cookies_only_where_there_is_a_response() {
    cookies("a=1", "cookieplus.setcookie_delete(\"a\");", "Failed(cookieplus: there is no Set-Cookie field here)");
    let mut world = VmodsWorld::new(
        "vcl 4.1; import cookieplus; backend b none; sub vcl_deliver { \
             cookieplus.setcookie_delete(\"a\"); cookieplus.setcookie_add(\"c\", \"3\", -1s); \
             set req.http.out = cookieplus.setcookie_get(\"a\", \"-\") + cookieplus.setcookie_get(\"b\"); cookieplus.setcookie_write(); }",
    );
    for line in ["a=1; Path=/", "b=2; HttpOnly", "a=3"] {
        world.ctx.resp.append("Set-Cookie", line).expect("room");
    }
    world.run(Method::Deliver);
    let lines: Vec<_> =
        world.ctx.resp.iter().map(|field| String::from_utf8_lossy(field.value()).into_owned()).collect();
    assert_eq!(lines, ["b=2; HttpOnly", "c=3; Expires=Sun, 09 Sep 2001 01:46:39 GMT; Max-Age=-1"]);
    assert_eq!(world.field("out"), "-2");
}
