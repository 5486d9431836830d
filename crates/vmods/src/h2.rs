// SPDX-License-Identifier: BSD-2-Clause
//! vmod_h2(3) of releases 6.0.12 and 7.5: the limit of rapid resets for one HTTP/2 connection.

use vmod_support::args::fail;
use vrt::ctx::RapidResets;
use vrt::vmod::{CallResult, DURATION, INT, Methods, VmodCall, give};

vrt::vmod! {
    /// The limit of rapid resets of the client's HTTP/2 connection
    pub(crate) static VMOD = h2;

    functions {
        /// Returns whether the request came by HTTP/2
        fn is() -> BOOL, local, restrict(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(call.ctx.rapid_resets(None).is_some());

        /// Returns the value of h2_rapid_reset for this connection, and sets it if given. Returns -1 if it isn't HTTP/2. A
        /// change resets the budget
        fn rapid_reset(threshold: [DURATION]) -> DURATION, restrict(Methods::CLIENT) = rapid_reset;

        /// Returns the value of h2_rapid_reset_limit for this connection, and sets it if given. Returns -1 if it isn't
        /// HTTP/2. A change resets the budget
        fn rapid_reset_limit(number: [INT]) -> INT, restrict(Methods::CLIENT) = rapid_reset_limit;

        /// Returns the value of h2_rapid_reset_period for this connection, and sets it if given. Returns -1 if it isn't
        /// HTTP/2. A change resets the budget
        fn rapid_reset_period(duration: [DURATION]) -> DURATION, restrict(Methods::CLIENT) = rapid_reset_period;

        /// Returns how many streams the client may still reset soon after they began, or -1 if it isn't HTTP/2
        fn rapid_reset_budget() -> REAL, local, restrict(Methods::CLIENT)
            = |call: &mut VmodCall<'_>| give(call.ctx.rapid_resets(None).map_or(-1.0, |resets| resets.left));
    }
}

fn changed(call: &mut VmodCall<'_>, change: impl FnOnce(&mut RapidResets)) -> Option<RapidResets> {
    let before = call.ctx.rapid_resets(None)?;
    let mut after = before;
    change(&mut after);
    if after != before {
        call.ctx.rapid_resets(Some(after));
    }
    Some(before)
}

fn rapid_reset(call: &mut VmodCall<'_>, threshold: Option<f64>) -> CallResult<DURATION> {
    if threshold.is_some_and(|seconds| seconds < 0.0) {
        return fail("h2.rapid_reset: the threshold can't be negative");
    }
    let before = changed(call, |resets| resets.within = threshold.unwrap_or(resets.within));
    give(before.map_or(-1.0, |resets| resets.within))
}

fn rapid_reset_limit(call: &mut VmodCall<'_>, number: Option<i64>) -> CallResult<INT> {
    let most = match number.map(u32::try_from).transpose() {
        Ok(most) => most,
        Err(_) => return fail("h2.rapid_reset_limit: the number must be from 0 to 4294967295"),
    };
    let before = changed(call, |resets| resets.most = most.unwrap_or(resets.most));
    give(before.map_or(-1, |resets| resets.most.into()))
}

fn rapid_reset_period(call: &mut VmodCall<'_>, duration: Option<f64>) -> CallResult<DURATION> {
    if duration.is_some_and(|seconds| seconds <= 0.0) {
        return fail("h2.rapid_reset_period: the duration must be positive");
    }
    let before = changed(call, |resets| resets.period = duration.unwrap_or(resets.period));
    give(before.map_or(-1.0, |resets| resets.period))
}
