// SPDX-License-Identifier: BSD-2-Clause
//! What lookup and VCL have made of a request: a hit, or something else for one reason. Every step that decides so says it
//! here; the last word is logged and counted once, when the transaction ends.
//!
//! ```text
//! undecided --lookup--> Hit --vcl_hit--> Refetch                    (return (miss))
//!     |         |         \--VCL--> NoHit { found: Hit, .. }        (return (pass), synth, restart, a failure)
//!     |         \--> NoHit { found: Nothing | HitForMiss | HitForPass, .. } --VCL--> the same, for VCL's reason
//!     \--VCL, refused--> NoHit { found: Nothing, .. }
//! ```

use cache::{Found, Search};
use message::Head;
use tables::no_hit::NOTICE;
use tables::tags::Tag;
use tables::vclsubs::{Action, Method};
use vrt::VclLocation;

use super::Req;
use super::delivery::Delivery;
use super::reason::NoHitReason;

#[derive(Debug)]
pub(crate) enum ReqVerdict {
    /// The object found is the response.
    Hit { in_grace: bool },
    /// `vcl_hit` wants a fresh object in the place of what was found. No reason is declared for that: it counts as a hit.
    Refetch,
    /// The cache doesn't have the response, or VCL decided otherwise.
    NoHit { found: FoundKind, reason: NoHitReason },
}

/// Result of the lookup of a request that is no hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundKind {
    /// No lookup, or nothing that decides anything.
    Nothing,
    /// An object, but VCL decided otherwise.
    Hit,
    HitForMiss,
    HitForPass,
}

impl FoundKind {
    fn of(found: &Found) -> Self {
        match found {
            Found::Hit(_) | Found::Grace { .. } => FoundKind::Hit,
            Found::HitForMiss { .. } => FoundKind::HitForMiss,
            Found::HitForPass { .. } => FoundKind::HitForPass,
            Found::Miss(_) | Found::MissStale { .. } | Found::Refused => FoundKind::Nothing,
        }
    }
}

impl ReqVerdict {
    pub fn undecided() -> Self {
        Self::no_hit(NoHitReason::undecided())
    }

    /// Notes that the request isn't looked up, or that the lookup failed.
    pub fn no_hit(reason: NoHitReason) -> Self {
        ReqVerdict::NoHit { found: FoundKind::Nothing, reason }
    }

    /// A search ended with `found`.
    #[inline]
    pub fn of_search(found: &Found, search: &Search, head: &Head) -> Self {
        if let Found::Hit(_) = found {
            return ReqVerdict::Hit { in_grace: false };
        }
        match NoHitReason::of_search(found, search, head) {
            Some(reason) => ReqVerdict::NoHit { found: FoundKind::of(found), reason },
            None => ReqVerdict::Hit { in_grace: matches!(found, Found::Grace { .. }) },
        }
    }

    pub fn decide(&mut self, method: Method, action: &Action, spot: Option<VclLocation<'_>>) {
        if let Some(reason) = NoHitReason::of_vcl(method, action, spot, self.reason()) {
            *self = ReqVerdict::NoHit { found: self.found(), reason };
        }
    }

    /// The client takes what is stale.
    pub fn take_stale(&mut self) {
        *self = ReqVerdict::Hit { in_grace: true };
    }

    /// `vcl_hit` wants a fresh object.
    pub fn refetch(&mut self) {
        *self = ReqVerdict::Refetch;
    }

    pub fn in_grace(&self) -> bool {
        matches!(self, ReqVerdict::Hit { in_grace: true })
    }

    pub fn found(&self) -> FoundKind {
        match self {
            ReqVerdict::Hit { .. } => FoundKind::Hit,
            ReqVerdict::Refetch => FoundKind::Nothing,
            ReqVerdict::NoHit { found, .. } => *found,
        }
    }

    /// The reason why the request is no hit; `None` for a hit.
    pub fn reason(&self) -> Option<&NoHitReason> {
        match self {
            ReqVerdict::Hit { .. } | ReqVerdict::Refetch => None,
            ReqVerdict::NoHit { reason, .. } => Some(reason),
        }
    }
}

impl Req {
    /// True if somebody will read more than the reason.
    pub(super) fn tells_reason(&self) -> bool {
        self.params.log_no_hit || self.client.trial.is_some()
    }

    pub(super) fn tell_verdict(&mut self) {
        let Some(reason) = self.verdict.reason().filter(|_| self.client.trial.is_none()) else { return };
        self.client.sess.engine.requests.no_hit.of(reason.word).tally();
        if self.params.log_no_hit {
            self.log.putf(Tag::Notice, format_args!("{NOTICE}{}", reason.text()));
        }
    }

    /// `Cache-Status` (RFC 9211), as far as it is asked for and known.
    pub(super) fn cache_status(&self, delivery: &Delivery) -> Option<String> {
        if !self.params.cache_status {
            return None;
        }
        let times = delivery.obj.times();
        let ttl = times.fresh_until(None).since(self.engine().mono_of(self.ask.t_req)).floor();
        let Some(reason) = self.verdict.reason() else {
            let word = if delivery.is_partly_fetched() { "fwd=partial; stored" } else { "hit" };
            return Some(format!("Lacquer; {word}; ttl={ttl:.0}"));
        };
        let flags = delivery.obj.flags();
        let is_stored = !flags.is_passed() && times.ttl > 0.0;
        let stored = if is_stored { format!("; stored; ttl={ttl:.0}") } else { String::new() };
        let forward = match reason.word.forward() {
            "" => "bypass",
            word => word,
        };
        Some(format!("Lacquer; fwd={forward}{stored}; detail={}", reason.word.word()))
    }
}

#[cfg(test)]
mod tests {
    use tables::no_hit::NoHit;

    use super::*;

    fn check(mut verdict: ReqVerdict, method: Method, action: &Action, found: FoundKind, reason: Option<NoHit>) {
        verdict.decide(method, action, None);
        assert_eq!((verdict.found(), verdict.reason().map(|reason| reason.word)), (found, reason));
    }

    const HIT: ReqVerdict = ReqVerdict::Hit { in_grace: false };

    #[test]
    fn vcl_may_overrule_a_hit_and_what_was_found_stays_known() {
        check(HIT, Method::Hit, &Action::Deliver, FoundKind::Hit, None);
        check(HIT, Method::Hit, &Action::Pass, FoundKind::Hit, Some(NoHit::Pass));
        check(HIT, Method::Deliver, &Action::Restart, FoundKind::Hit, Some(NoHit::Restart));
        check(HIT, Method::Deliver, &Action::Fail, FoundKind::Hit, Some(NoHit::VclFailed));
    }

    #[test]
    fn the_reason_of_the_lookup_stays_where_vcl_has_none() {
        let miss = |found| ReqVerdict::NoHit { found, reason: NoHitReason::new(NoHit::FirstFetch, "") };
        check(miss(FoundKind::Nothing), Method::Miss, &Action::Fetch, FoundKind::Nothing, Some(NoHit::FirstFetch));
        check(miss(FoundKind::HitForMiss), Method::Miss, &Action::Pass, FoundKind::HitForMiss, Some(NoHit::Pass));
        check(
            miss(FoundKind::HitForPass),
            Method::Deliver,
            &Action::Restart,
            FoundKind::HitForPass,
            Some(NoHit::FirstFetch),
        );
    }

    #[test]
    fn a_fresh_object_in_the_place_of_a_hit_was_not_found() {
        let mut verdict = ReqVerdict::Hit { in_grace: true };
        assert!(verdict.in_grace());
        verdict.refetch();
        assert!(!verdict.in_grace());
        check(verdict, Method::Deliver, &Action::Deliver, FoundKind::Nothing, None);
    }

    #[test]
    fn before_a_lookup_a_restart_is_the_reason() {
        check(ReqVerdict::undecided(), Method::Recv, &Action::Restart, FoundKind::Nothing, Some(NoHit::Restart));
        check(ReqVerdict::undecided(), Method::Recv, &Action::Hash, FoundKind::Nothing, Some(NoHit::Refused));
    }
}
