// SPDX-License-Identifier: BSD-2-Clause
//! vmod_purge(3).

use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Method, Value};

use crate::args::{Args, fail, give};

/// vmod_purge(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "purge",
    classes: &[],
    functions: &[
        ("hard", |call, _| purge(call, 0.0, Some(0.0), Some(0.0))),
        ("soft", |call, args| {
            let args = Args(args);
            // Negative: that life stays as it is.
            let life = |at| Some(args.real(at)).filter(|seconds| *seconds >= 0.0);
            purge(call, args.real(0), life(1), life(2))
        }),
    ],
};

fn purge(call: &mut Call<'_>, ttl: f64, grace: Option<f64>, keep: Option<f64>) -> CallResult {
    if !matches!(call.method, Method::Hit | Method::Miss) {
        return fail("purge can only happen in vcl_hit{} or vcl_miss{}");
    }
    give(Value::Int(call.ctx.purge(ttl, grace, keep)?))
}
