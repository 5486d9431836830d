// SPDX-License-Identifier: BSD-2-Clause
//! Counts and times of a profile.

use tables::vclsubs::Method;

use super::world::VrtWorld;

const SITE: &str = "vcl 4.1; backend b none;
sub vcl_recv {
    if (req.url ~ \"^/a\") {
        set req.http.a = \"1\";
    } elsif (req.url ~ \"^/b\" || req.url ~ \"^/c\") {
        set req.http.b = \"1\";
    }
    if (!req.http.x &&
        req.http.y) {
        return (pass);
    }
    if (req.url ~ \"[0-9]+$\" ||
        req.url ~ \"never\") {
        return (pipe);
    }
    return (hash);
}
";

/// Line: how often it ran and its condition held, after requests for these URLs.
fn profile(urls: &[&str], y: bool) -> impl Fn(u32) -> (u64, Option<u64>) {
    let mut world = VrtWorld::new(SITE);
    world.vcl.profile.switch(true);
    for url in urls {
        world.ctx.req.set_url(url).unwrap();
        if y {
            world.ctx.req.set("y", "1").unwrap();
        }
        world.run(Method::Recv);
    }
    let lines = world.vcl.profile.counted(&world.vcl.program).lines;
    move |number| {
        let line = lines.iter().find(|line| (line.source, line.line) == (0, number)).expect("the line has ops");
        (line.runs, line.held)
    }
}

#[test]
fn lines_are_counted_with_how_often_they_held() {
    let line = profile(&["/a", "/a/1", "/b", "/c", "/d", "/9"], false);
    assert_eq!(line(3), (6, Some(2)));
    assert_eq!(line(4), (2, None));
    assert_eq!(line(5), (4, Some(2)));
    assert_eq!(line(6), (2, None));
    // A condition over several lines counts where it begins.
    assert_eq!(line(8), (6, Some(0)));
    assert_eq!(line(12), (6, Some(2)));
    assert_eq!(line(16), (4, None));
    let line = profile(&["/a", "/b"], true);
    assert_eq!(line(8), (2, Some(2)));
    assert_eq!(line(12), (0, Some(0)));
}

#[test]
fn off_nothing_is_counted_and_on_again_begins_anew() {
    let mut world = VrtWorld::new(SITE);
    let runs =
        |world: &VrtWorld| world.vcl.profile.counted(&world.vcl.program).lines.iter().map(|line| line.runs).max();
    world.run(Method::Recv);
    assert_eq!(runs(&world), Some(0));
    world.vcl.profile.switch(true);
    world.run(Method::Recv);
    world.vcl.profile.switch(false);
    world.run(Method::Recv);
    assert_eq!(runs(&world), Some(1));
    world.vcl.profile.switch(true);
    assert_eq!(runs(&world), Some(0));
}

/// Line: how often it ran, how often its condition held, whether it acts; after one run of each of `urls`.
fn lines(vcl: &str, urls: &[&str]) -> Vec<(u32, u64, Option<u64>, bool)> {
    let mut world = VrtWorld::new(&format!("vcl 4.1; import vtc; backend b none;\n{vcl}"));
    world.vcl.profile.switch(true);
    for url in urls {
        world.ctx.req.set_url(url).unwrap();
        world.run(Method::Recv);
    }
    let all = world.vcl.profile.counted(&world.vcl.program).lines;
    all.iter().filter(|l| l.source == 0).map(|l| (l.line, l.runs, l.held, l.acts)).collect()
}

#[test]
fn the_end_of_a_subroutine_is_no_run_of_its_last_line() {
    let vcl = "sub vcl_recv { call f; return (hash); }\nsub f {\nif (req.url ~ \"a\") {\nset req.http.a = \"1\";\n} else {\nset req.http.b = \"1\";\n}\n}";
    assert_eq!(
        lines(vcl, &["/a", "/a"]),
        [(2, 2, None, false), (4, 2, Some(2), false), (5, 2, None, false), (7, 0, None, false)]
    );
}

#[test]
fn several_conditions_of_a_line_have_no_one_number() {
    let one = "if (req.url ~ \"a\") { unset req.http.a; }";
    assert_eq!(lines(&format!("sub vcl_recv {{\n{one}\n}}"), &["/a", "/b"]), [(3, 2, Some(1), false)]);
    let two = format!("{one} elsif (req.url ~ \"b\") {{ unset req.http.b; }}");
    assert_eq!(lines(&format!("sub vcl_recv {{\n{two}\n}}"), &["/a", "/b"]), [(3, 2, None, false)]);
}

#[test]
fn what_may_act_is_known() {
    let vcl = "sub vcl_recv {\nif (req.url == \"/a\") {\n}\nif (req.url == \"/b\") { vtc.sleep(1s); }\nif (vtc.typesize(\"i\") == 4) {\n}\n}";
    assert_eq!(lines(vcl, &["/a"]), [(3, 1, Some(1), false), (5, 1, Some(0), true), (6, 1, Some(0), false)]);
}

/// Lines as a site with many hosts has, of which each takes less than a look at the clock.
fn cheap_lines() -> String {
    let fields: String = (0..40).map(|n| format!("if (req.http.a{n}) {{\nset req.http.b = \"1\";\n}}\n")).collect();
    let host = |n| format!("if (req.http.host == \"h{n}.test\") {{\nset req.http.c = \"1\";\n}}");
    let hosts: Vec<String> = (0..40).map(host).collect();
    let recv = format!("{fields}{}\nreturn (hash);", hosts.join(" els"));
    format!("vcl 4.1; backend b none;\nsub vcl_recv {{\n{recv}\n}}\nsub vcl_deliver {{ return (deliver); }}")
}

#[test]
fn every_run_is_counted_and_lookups_are_known() {
    let mut world = VrtWorld::new(&cheap_lines());
    world.ctx.req.set("host", "h39.test").unwrap();
    world.vcl.profile.switch(true);
    (0..20_000).for_each(|_| drop(world.run(Method::Recv)));
    (0..5).for_each(|_| drop(world.run(Method::Deliver)));
    world.vcl.profile.switch(false);
    let counted = world.vcl.profile.counted(&world.vcl.program);
    let [recv, deliver] = counted.subroutines[..] else { panic!("{:?}", counted.subroutines) };
    assert_eq!((recv.method, recv.runs, deliver.method, deliver.runs), (Method::Recv, 20_000, Method::Deliver, 5));
    assert!(recv.nanos > 0 && counted.process_nanos > 0);
    let grouped = counted.lines.iter().filter(|line| line.is_grouped).count();
    assert!(grouped >= 39, "{grouped} lines are answered by a look-up");
}
