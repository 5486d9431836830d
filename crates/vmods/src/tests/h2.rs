// SPDX-License-Identifier: BSD-2-Clause
//! The limit of rapid resets as VCL sees it.

use vrt::Method;
use vrt::ctx::RapidResets;

use super::VmodsWorld;

fn after(expr: &str, resets: Option<RapidResets>) -> (String, Option<RapidResets>) {
    let mut world = VmodsWorld::new(&format!(
        "vcl 4.1; import h2; backend none none; sub vcl_recv {{ set req.http.out = {expr}; return (hash); }}"
    ));
    world.ctx.resets = resets;
    let ended = world.run(Method::Recv);
    let said = match ended.starts_with("Failed") {
        true => ended,
        false => String::from_utf8_lossy(world.ctx.req.get("out").unwrap_or_default()).into_owned(),
    };
    (said, world.ctx.resets)
}

#[test]
fn a_limit_is_read_and_changed() {
    let limit = RapidResets { within: 1.0, most: 100, period: 60.0, left: 99.0 };
    let all = "h2.is() + \" \" + h2.rapid_reset() + \" \" + h2.rapid_reset_limit() + \" \" + h2.rapid_reset_period() + \
               \" \" + h2.rapid_reset_budget()";
    assert_eq!(after(all, Some(limit)), ("true 1.000 100 60.000 99.000".to_owned(), Some(limit)));
    let changed = "h2.rapid_reset(10ms) + \" \" + h2.rapid_reset_limit(7) + \" \" + h2.rapid_reset_period(10s)";
    let now = RapidResets { within: 0.01, most: 7, period: 10.0, left: 99.0 };
    assert_eq!(after(changed, Some(limit)), ("1.000 100 60.000".to_owned(), Some(now)));
}

#[test]
fn other_connections_have_none() {
    let all = "h2.is() + \" \" + h2.rapid_reset(1s) + \" \" + h2.rapid_reset_limit(1) + \" \" + \
               h2.rapid_reset_period(1s) + \" \" + h2.rapid_reset_budget()";
    assert_eq!(after(all, None), ("false -1.000 -1 -1.000 -1.000".to_owned(), None));
}

#[test]
fn a_limit_that_makes_no_sense_fails() {
    let limit = Some(RapidResets { within: 1.0, most: 100, period: 60.0, left: 99.0 });
    for (call, reason) in [
        ("h2.rapid_reset(-1s)", "h2.rapid_reset: the threshold can't be negative"),
        ("h2.rapid_reset_limit(-1)", "h2.rapid_reset_limit: the number must be from 0 to 4294967295"),
        ("h2.rapid_reset_period(0s)", "h2.rapid_reset_period: the duration must be positive"),
    ] {
        assert_eq!(after(call, limit), (format!("Failed({reason})"), limit));
    }
}
