// SPDX-License-Identifier: BSD-2-Clause
//! Optimised and plain bytecode of the same program do the same: random programs made of the tests that the optimiser
//! rearranges, over random requests; the end, all heads and the whole log are compared.

use proptest::prelude::*;
use tables::vclsubs::Method;

use super::world::VrtWorld;
use crate::machine::RunOutcome;

const FIELDS: [&str; 5] = ["host", "Host", "user-agent", "cookie", "X-a"];
const VALUES: [&str; 12] = [
    "www.example.com",
    "shop.example.com",
    "example.com",
    "a=1; b=2",
    "Mozilla/5.0 (Nokia)",
    "x",
    "",
    "abc",
    "ABC",
    "/news/1",
    "iPhone",
    "b=2",
];
const PATTERNS: [&str; 18] = [
    "example",
    "^www\\\\.",
    "\\\\.com$",
    "^shop.example.com$",
    ".*(Nokia|iPhone|HTC)",
    "(?i)nokia",
    "a=\\\\d",
    "^$",
    "x|y",
    "abc",
    "(?i)ABC",
    "^/news",
    "b=2$",
    "(news|shop|login)",
    "[?&]utm_",
    "(?!abc)x",
    ".*(a1|a2|a3|a4|a5|a6|a7|a8|a9|a10|a11|a12|Nokia|iPhone|shop|b=2|abc)",
    "c1|c2|c3|c4|c5|c6|c7|c8|c9|c10|c11|c12|iPh.*e|ample|x|news$|ABC",
];

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&FIELDS[..])
}

fn pattern() -> impl Strategy<Value = String> {
    prop::sample::select(&PATTERNS[..]).prop_map(|p| p.replace("\\\\", "\\"))
}

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&VALUES[..])
}

fn test() -> impl Strategy<Value = String> {
    let op = prop::sample::select(vec!["~", "!~"]);
    let eq = prop::sample::select(vec!["==", "!="]);
    prop_oneof![
        4 => (field(), eq.clone(), value()).prop_map(|(f, op, v)| format!("req.http.{f} {op} \"{v}\"")),
        4 => (field(), op.clone(), pattern()).prop_map(|(f, op, p)| format!("req.http.{f} {op} \"{p}\"")),
        2 => field().prop_map(|f| format!("req.http.{f}")),
        1 => field().prop_map(|f| format!("!req.http.{f}")),
        3 => (op, pattern()).prop_map(|(op, p)| format!("req.url {op} \"{p}\"")),
        1 => (eq, value()).prop_map(|(op, v)| format!("req.url {op} \"{v}\"")),
        1 => Just("req.method == \"GET\"".to_owned()),
        1 => Just("req_top.http.host ~ \"shop\"".to_owned()),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    test().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|all| all.join(" && ")),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|any| format!("({})", any.join(" || "))),
            inner.prop_map(|one| format!("!({one})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let mark = (0u32..1000).prop_map(|n| format!("set req.http.mark = req.http.mark + \" {n}\";"));
    let simple = prop_oneof![
        6 => mark,
        2 => (field(), value()).prop_map(|(f, v)| format!("set req.http.{f} = \"{v}\";")),
        1 => field().prop_map(|f| format!("unset req.http.{f};")),
        1 => Just("set req.url = regsub(req.url, \"o\", \"0\");".to_owned()),
        1 => Just("set req.url = \"/news\" + req.url;".to_owned()),
        1 => Just("call helper;".to_owned()),
        1 => Just("vtc.typesize(\"p\");".to_owned()),
        1 => Just("return (pass);".to_owned()),
    ];
    simple.prop_recursive(3, 24, 4, |inner| {
        let body = || prop::collection::vec(inner.clone(), 0..3).prop_map(|list| list.concat());
        let elses = prop::collection::vec((condition(), body()), 0..4);
        (condition(), body(), elses, prop::option::of(body())).prop_map(|(cond, then, elses, last)| {
            let elses: String = elses.into_iter().map(|(c, b)| format!(" elsif ({c}) {{ {b} }}")).collect();
            let last = last.map_or(String::new(), |b| format!(" else {{ {b} }}"));
            format!("if ({cond}) {{ {then} }}{elses}{last}")
        })
    })
}

fn request() -> impl Strategy<Value = (String, Vec<(&'static str, &'static str)>)> {
    let url = prop::sample::select(vec!["/", "/news/1?utm_x=1", "/shop/login", "/foo", "/x"]).prop_map(str::to_owned);
    (url, prop::collection::vec((field(), value()), 0..5))
}

fn outcome(world: &mut VrtWorld, url: &str, fields: &[(&str, &str)]) -> (String, Vec<String>, Vec<String>) {
    world.ctx.req.start_request(b"GET", url.as_bytes(), b"HTTP/1.1").unwrap();
    for (name, value) in fields {
        world.ctx.req.set(*name, *value).unwrap();
    }
    let end = world.run(Method::Recv);
    let lines = world.ctx.req.iter().map(|field| String::from_utf8_lossy(field.line()).into_owned());
    let head: Vec<String> =
        std::iter::once(String::from_utf8_lossy(world.ctx.req.url()).into_owned()).chain(lines).collect();
    (end, head, world.log_texts())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn optimised_does_what_plain_does(
        body in prop::collection::vec(statement(), 1..8),
        helper in statement(),
        requests in prop::collection::vec(request(), 1..6),
        traces in any::<bool>(),
    ) {
        let helper = helper.replace("call helper;", "");
        let text = format!(
            "vcl 4.1; backend b none; import vtc; sub helper {{ {helper} }} sub vcl_recv {{ {} call helper; }}", body.concat()
        );
        let mut plain = VrtWorld::with(&text, false).map_err(TestCaseError::fail)?;
        let mut optimised = VrtWorld::with(&text, true).map_err(TestCaseError::fail)?;
        if traces {
            plain.unmask("+VCL_trace");
            optimised.unmask("+VCL_trace");
        }
        // Three times: values that come again are known from before.
        for (url, fields) in requests.iter().cycle().take(3 * requests.len()) {
            prop_assert_eq!(outcome(&mut plain, url, fields), outcome(&mut optimised, url, fields), "{}", text);
        }
    }
}

#[test]
fn what_changes_is_tested_again() {
    let mut world = VrtWorld::new(
        "vcl 4.1; backend b none; sub vcl_recv { \
         if (req.http.host == \"example.com\") { set req.http.HOST = \"b\"; } \
         if (req.http.host == \"example.com\") { return (pass); } \
         if (req.http.Host == \"b\" && req.url ~ \"^/foo\") { set req.url = \"/bar\"; } \
         if (req.url ~ \"^/foo\") { return (pipe); } return (hash); }",
    );
    assert_eq!(world.run(Method::Recv), "Hash");
    assert_eq!(world.ctx.req.url(), b"/bar");
}

#[test]
fn what_only_returns_does_so_at_once() {
    let text = "vcl 4.1; backend b none; sub vcl_hit { return (pass); } sub vcl_deliver { return (fail); } sub vcl_miss { set req.url = \"/x\"; }";
    let end = |method: Method, at_once: bool| {
        let mut world = VrtWorld::new(text);
        let action = if at_once { world.end_at_once(method) } else { Some(world.run(method)) };
        action.map(|action| (action, world.ended_at(), world.log_texts()))
    };
    for method in [Method::Hit, Method::Pass] {
        let ended = end(method, true);
        assert!(ended.is_some());
        assert_eq!(ended, end(method, false));
    }
    for method in [Method::Deliver, Method::Miss, Method::Recv, Method::Init] {
        assert_eq!(end(method, true), None, "{method:?}");
    }
    let mut world = VrtWorld::new(text);
    world.vcl.profile.switch(true);
    assert_eq!(world.end_at_once(Method::Hit), None);
}

#[test]
fn long_chains_give_way() {
    let ifs: String = (0..30_000).map(|n| format!("if (req.http.host == \"h{n}\") {{ return (pass); }} ")).collect();
    let mut world = VrtWorld::new(&format!("vcl 4.1; backend b none; sub vcl_recv {{ {ifs} return (hash); }}"));
    assert_eq!(world.run(Method::Recv), "Hash");
    world.ctx.req.set("Host", "h29999").unwrap();
    assert_eq!(world.run(Method::Recv), "Pass");
    world.ctx.req.set("Host", "h7").unwrap();
    assert_eq!(world.run(Method::Recv), "Pass");
}

fn budgets(world: &mut VrtWorld) -> usize {
    let mut machine = world.start(Method::Recv);
    let mut budgets = 0;
    loop {
        match machine.run(&mut world.ctx) {
            RunOutcome::OutOfBudget => budgets += 1,
            RunOutcome::Done(_) => return budgets,
            RunOutcome::Wait(_) | RunOutcome::Failed(_) => panic!("it neither waits nor fails"),
        }
    }
}

#[test]
fn replacing_in_a_long_text_gives_way_between_matches() {
    let text = "abcdefghijklmnopqrstuvwxyz-".repeat(200);
    let all = r#"set req.http.y = regsuball(req.http.x, "([a-y]+)z", "\1Z");"#.repeat(5);
    let mut world = VrtWorld::new(&format!(
        r#"vcl 4.1; backend b none; sub vcl_recv {{
            {all}
            set req.http.z = regsub(req.http.x, "z", "Z");
            set req.http.none = regsuball(req.http.x, "[0-9]", "");
            return (hash); }}"#
    ));
    world.ctx.req.set("X", &text).unwrap();
    // A thousand matches with groups count as twenty thousand ops, the rest as some three thousand.
    let budgets = budgets(&mut world);
    assert!((9..13).contains(&budgets), "{budgets}");
    assert_eq!(world.ctx.req.get("Y").unwrap(), text.replace('z', "Z").as_bytes());
    assert_eq!(world.ctx.req.get("Z").unwrap(), text.replacen('z', "Z", 1).as_bytes());
    assert_eq!(world.ctx.req.get("None").unwrap(), text.as_bytes());
}

#[test]
fn a_chain_of_patterns_gives_way() {
    let ifs: String =
        (0..600).map(|n| format!("if (req.http.x + \"b\" ~ \"a[0-9]+b{n}\") {{ return (pass); }} ")).collect();
    let mut world = VrtWorld::new(&format!("vcl 4.1; backend b none; sub vcl_recv {{ {ifs} return (hash); }}"));
    world.ctx.req.set("X", "a").unwrap();
    let budgets = budgets(&mut world);
    assert!(budgets >= 600 * 8 / 2000, "{budgets}");
}
