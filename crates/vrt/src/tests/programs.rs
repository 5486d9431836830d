// SPDX-License-Identifier: BSD-2-Clause
//! Random programs: what compiles also runs to an end.

use proptest::prelude::*;
use tables::vclsubs::Method;

use super::world::VrtWorld;

fn operand() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("req.url".to_owned()),
        Just("req.http.a".to_owned()),
        Just("req.http.host".to_owned()),
        Just("\"x\"".to_owned()),
        Just("now".to_owned()),
        Just("client.ip".to_owned()),
        (0u32..1000).prop_map(|n| n.to_string()),
        (0u32..100).prop_map(|n| format!("{n}s")),
        (0u32..100).prop_map(|n| format!("{n}.5")),
        Just("true".to_owned()),
    ]
}

fn expr() -> impl Strategy<Value = String> {
    operand().prop_recursive(4, 16, 3, |inner| {
        let op = prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", "&&", "||", "~"]);
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("!{a}")),
            inner.prop_map(|a| format!("regsuball({a}, \"[a-f]\", \"\\0!\")")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        expr().prop_map(|e| format!("set req.http.a = {e};")),
        expr().prop_map(|e| format!("set req.http.b += {e};")),
        Just("unset req.http.a;".to_owned()),
        Just("return (pass);".to_owned()),
    ];
    simple.prop_recursive(3, 12, 3, |inner| {
        (expr(), prop::collection::vec(inner.clone(), 0..3), prop::collection::vec(inner, 0..3))
            .prop_map(|(cond, a, b)| format!("if ({cond}) {{ {} }} else {{ {} }}", a.concat(), b.concat()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_compiles_runs_to_an_end(body in prop::collection::vec(statement(), 1..5)) {
        let text = format!("vcl 4.1; backend b none; sub vcl_recv {{ {} }}", body.concat());
        if let Ok(mut world) = VrtWorld::try_new(&text) {
            let end = world.run(Method::Recv);
            prop_assert!(end == "Pass" || end == "Hash" || end.starts_with("Failed("), "{}", end);
        }
    }
}
