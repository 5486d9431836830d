// SPDX-License-Identifier: BSD-2-Clause
//! vmod_purge(3).

use vrt::Method;
use vrt::vmod::{CallResult, INT, VmodCall, give};

use vmod_support::args::fail;

vrt::vmod! {
    /// Purges the objects of the current hash, hard or soft
    pub(crate) static VMOD = purge;

    functions {
        /// Removes all variants and returns their number
        fn hard() -> INT, restrict(Method::Miss.set().with(Method::Hit.set()))
            = |call: &mut VmodCall<'_>| purge(call, 0.0, Some(0.0), Some(0.0));

        /// Shortens ttl, grace and keep of all variants and returns their number. A negative value leaves that one
        /// unchanged
        fn soft(
            ttl: DURATION = 0.0, grace: DURATION = (-1.0), keep: DURATION = (-1.0)
        ) -> INT, restrict(Method::Miss.set().with(Method::Hit.set())) = soft;
    }
}

fn soft(call: &mut VmodCall<'_>, ttl: f64, grace: f64, keep: f64) -> CallResult<INT> {
    // Negative: that life stays as it is.
    let life = |seconds| Some(seconds).filter(|seconds| *seconds >= 0.0);
    purge(call, ttl, life(grace), life(keep))
}

fn purge(call: &mut VmodCall<'_>, ttl: f64, grace: Option<f64>, keep: Option<f64>) -> CallResult<INT> {
    if !matches!(call.method, Method::Hit | Method::Miss) {
        return fail("purge can only happen in vcl_hit{} or vcl_miss{}");
    }
    give(call.ctx.purge(ttl, grace, keep)?)
}
