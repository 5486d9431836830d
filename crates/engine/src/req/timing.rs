// SPDX-License-Identifier: BSD-2-Clause
//! `Server-Timing` (W3C): what the time of a request went into, for browsers' developer tools.

use std::fmt::Write;

use super::Req;
use super::verdict::{FoundKind, ReqVerdict};

const SERVER_TIMING: &str = "Server-Timing";

/// Seconds that a request has waited for others, all its rounds together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    /// Seconds waited for another request's fetch of the same object.
    pub busy: f32,
    /// Seconds waited for its own fetch, until the head was there.
    pub origin: f32,
    /// Seconds waited for a worker of its class.
    pub class: f32,
}

impl Req {
    /// Adds the field, as far as it is asked for.
    pub(super) fn tell_timing(&mut self) {
        if !self.params.server_timing || self.esi.is_fragment() {
            return;
        }
        let total = self.engine().clock.real().0 - self.ask.t_req.0;
        let text = format_timing(&self.verdict, total, self.client.waited);
        self.set_resp(SERVER_TIMING, &[text.as_bytes()]);
    }
}

fn format_timing(verdict: &ReqVerdict, total: f64, waited: Waited) -> String {
    let what = match verdict {
        ReqVerdict::Hit { in_grace: false } => "hit",
        ReqVerdict::Hit { in_grace: true } => "stale",
        ReqVerdict::NoHit { reason, .. } if reason.word.forward() == "bypass" => "pass",
        ReqVerdict::NoHit { found: FoundKind::HitForPass, .. } => "pass",
        ReqVerdict::NoHit { .. } | ReqVerdict::Refetch => "miss",
    };
    let mut text = format!("cache;desc={what};dur={:.1}", total.max(0.0) * 1e3);
    for (name, seconds) in [("origin", waited.origin), ("busy", waited.busy), ("class", waited.class)] {
        if seconds > 0.0 {
            let _ = write!(text, ", {name};dur={:.1}", seconds * 1e3);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use tables::no_hit::NoHit;

    use super::super::reason::NoHitReason;
    use super::*;

    #[test]
    fn what_it_says() {
        let no_hit = |word| ReqVerdict::no_hit(NoHitReason::new(word, ""));
        let text = |verdict, waited| format_timing(&verdict, 0.012_34, waited);
        assert_eq!(text(ReqVerdict::Hit { in_grace: false }, Waited::default()), "cache;desc=hit;dur=12.3");
        assert_eq!(text(ReqVerdict::Hit { in_grace: true }, Waited::default()), "cache;desc=stale;dur=12.3");
        let waited = Waited { origin: 0.01, busy: 0.002, class: 0.0 };
        assert_eq!(text(no_hit(NoHit::FirstFetch), waited), "cache;desc=miss;dur=12.3, origin;dur=10.0, busy;dur=2.0");
        assert_eq!(text(no_hit(NoHit::Pass), Waited::default()), "cache;desc=pass;dur=12.3");
    }
}
