// SPDX-License-Identifier: BSD-2-Clause
//! The backend side by RFC 9111 (`bereq.rfc9111`): lives of a response, what isn't stored, the stale object in the place of an
//! error, what a successful unsafe request invalidates. What is decided is in `message::rfc9111`; VCL comes after it and may
//! change all of it.

use ::fleet::Invalidation;
use cache::{ObjRef, ObjectTimes, Purge};
use message::freshness::Freshness;
use message::rfc9111::{self, QueryVariance, ResponseDirectives, StaleCause, Storing, StoringRefusal, StoringRules};
use message::{Head, names};
use tables::no_hit::Uncacheable;
use tables::tags::Tag;

use super::kind::{FetchKind, RefreshFetch};
use super::{Bereq, FetchMode, FetchStep};

/// The ttl of what is to be validated each time: nothing without any is found at all.
const MOMENT: f64 = 1e-6;
/// Seconds for which requests that already wait share an object that later requests don't get, such as the stale object
/// after a failed fetch.
const SHARED: f64 = 1.0;

impl Bereq {
    /// Sets the lifetime (RFC 9111 3, 4.2). A response that isn't to be stored has no ttl; VCL may give it one.
    pub(super) fn take_rfc9111_lives(&mut self) {
        let params = &self.params;
        let times = self.ask.times;
        let storing = match self.is_answer_to_head() {
            true => Storing::Refuse(StoringRefusal::Status),
            false => self.judge_storing(&self.beresp),
        };
        let (age, ttl, grace, keep) = match storing {
            Storing::Store(lives) => (lives.age, lives.ttl.max(MOMENT), lives.grace, params.rfc9111_keep.as_secs_f64()),
            Storing::Refuse(_) => (rfc9111::initial_age(&self.beresp, times), -1.0, 0.0, 0.0),
        };
        let directives = ResponseDirectives::from_head(&self.beresp, &params.rfc9111_targeted);
        let date = |name| self.beresp.get(name).and_then(rfc9111::lenient_date).map_or(0.0, |time| time.0);
        let mut fresh = Freshness {
            t_origin: self.ask.times.received.plus(-age),
            ttl,
            grace,
            keep,
            date: date(names::DATE),
            expires: date(names::EXPIRES),
            max_age: directives.s_maxage.or(directives.max_age).unwrap_or(0),
        };
        self.fill.refusal = match storing {
            Storing::Store(_) => None,
            Storing::Refuse(refusal) => Some(refusal),
        };
        self.log_freshness(&fresh);
        self.fill.object.t_origin = fresh.t_origin;
        let may_be_negative =
            matches!(self.fill.refusal, None | Some(StoringRefusal::Useless | StoringRefusal::Status));
        if may_be_negative && !directives.is_targeted && !self.is_answer_to_head() {
            // What the operator has said for this status.
            self.shorten_negative(&mut fresh);
        }
        let t_origin = self.engine.mono_of(fresh.t_origin);
        self.fill.object.times = ObjectTimes { t_origin, ttl: fresh.ttl, grace: fresh.grace, keep: fresh.keep };
    }

    /// True if the response is no answer to a GET, because VCL kept HEAD in a miss, so that a GET mustn't find it (RFC
    /// 9111 4). A 304 together with the stored object is one.
    fn is_answer_to_head(&self) -> bool {
        self.ask.head.method() == b"HEAD" && !self.beresp.is_status(304) && !self.kind.is_refresh()
    }

    /// Decides if a response with that head may be stored, and for how long (RFC 9111 3, 4.2).
    fn judge_storing(&self, response: &Head) -> Storing {
        let params = &self.params;
        // Who says nothing about caching may not have thought of it: what may be one user's is nobody's guess.
        let may_guess = !self.ask.original.has(names::COOKIE) && !response.has(names::SET_COOKIE);
        let rules = StoringRules {
            targeted: &params.rfc9111_targeted,
            heuristic_part: f64::from(params.rfc9111_heuristic) / 100.0,
            heuristic_most: params.rfc9111_heuristic_max.as_secs_f64(),
            may_guess,
            takes_parts: self.kind.is_part(),
        };
        // The client's, if VCL sends it on; a backend's signer may have one of its own.
        let is_authorized = self.ask.original.has(names::AUTHORIZATION) && self.ask.head.has(names::AUTHORIZATION);
        rfc9111::judge(response, is_authorized, self.ask.times, &rules)
    }

    /// The lives of a stored response that has that head from now on; with a ttl below 0 where it isn't to be stored any more.
    pub(super) fn lives_of(&self, response: &Head) -> ObjectTimes {
        let (age, ttl, grace, keep) = match self.judge_storing(response) {
            Storing::Store(lives) => {
                (lives.age, lives.ttl.max(MOMENT), lives.grace, self.params.rfc9111_keep.as_secs_f64())
            }
            Storing::Refuse(_) => (0.0, -1.0, 0.0, 0.0),
        };
        ObjectTimes { t_origin: self.engine.mono_of(self.ask.times.received.plus(-age)), ttl, grace, keep }
    }

    /// Learns from No-Vary-Search. A response that contradicts the rules known when it was requested is delivered, also
    /// to requests that wait for the same URL, and isn't stored: requests for other queries would find it.
    fn learn_of_query(&mut self) {
        let is_of_url = self.fill.family.is_none();
        if self.requester.mode == FetchMode::Pass || self.fill.cacheability.is_uncacheable() || !is_of_url {
            return;
        }
        let said = QueryVariance::from_head(&self.beresp);
        if said.as_ref() == self.fill.alias.as_ref().map(|alias| &alias.learned.variance) {
            return;
        }
        if StaleCause::of_status(self.beresp.status()).is_some() {
            // The stale object is better.
            self.fill.stale = None;
        }
        if self.beresp.status() % 1000 < 400 {
            let host = self.ask.original.get(names::HOST).unwrap_or_default();
            self.engine.fetches.queries.learn(host, self.ask.original.url(), said);
        }
        if self.fill.alias.is_none() {
            // Who waits for this very URL has it, too.
            let age = self.engine.clock.mono().since(self.fill.object.times.t_origin).max(0.0);
            let ttl = self.fill.object.times.ttl.min(age + SHARED);
            self.fill.object.times = ObjectTimes { ttl, grace: 0.0, keep: 0.0, ..self.fill.object.times };
            return;
        }
        self.fill.cacheability.refuse();
        self.fill.cacheability.set_reason(Uncacheable::Vary.word().as_bytes());
        // Nobody looks here for it again.
        self.fill.object.times = ObjectTimes { ttl: 0.0, grace: 0.0, keep: 0.0, ..self.fill.object.times };
    }

    /// Applies RFC 9111 where VCL didn't decide: a stale object replaces a server's error, and a response that isn't
    /// stored becomes hit-for-miss.
    pub(super) fn keep_to_rfc9111(&mut self) -> Option<FetchStep> {
        if let Some(cause) = StaleCause::of_status(self.beresp.status()) {
            if self.requester.mode == FetchMode::Background {
                // The stale object is served in its grace; this would take its place.
                self.end_unread();
                return Some(FetchStep::Fail("an error from the backend, and the stale object stays"));
            }
            if let Some(step) = self.stale_instead(cause) {
                return Some(step);
            }
            if self.fill.refusal.is_some() && self.fill.stale.take().is_some() {
                // What is stale may be of use when the origin is out of reach.
                return None;
            }
        }
        if self.is_of_part_alone() {
            // Whoever asks next may want another part.
            self.fill.refusal.get_or_insert(StoringRefusal::Status);
            self.fill.object.times.ttl = -1.0;
        }
        let Some(refusal) = self.fill.refusal.filter(|_| self.fill.object.times.ttl <= 0.0) else {
            self.learn_of_query();
            return None;
        };
        if self.fill.cacheability.is_uncacheable() {
            return None;
        }
        if self.is_answer_to_head() {
            // It takes no stored response's place: that was updated by it, or is validated before it is used again.
            self.fill.stale = None;
        }
        self.refuse_for(match refusal {
            StoringRefusal::NoStore | StoringRefusal::Private => Uncacheable::CacheControl,
            StoringRefusal::Authorization => Uncacheable::Authorization,
            StoringRefusal::Vary => Uncacheable::Vary,
            StoringRefusal::Status => Uncacheable::Status,
            StoringRefusal::Useless => Uncacheable::Stale,
        });
        None
    }

    /// Nobody waits for it for a while.
    pub(super) fn refuse_for(&mut self, reason: Uncacheable) {
        self.fill.cacheability.refuse();
        let age = self.engine.clock.mono().since(self.fill.object.times.t_origin).max(0.0);
        let ttl = age + self.params.uncacheable_ttl.as_secs_f64();
        self.fill.object.times = ObjectTimes { ttl, grace: 0.0, keep: 0.0, ..self.fill.object.times };
        self.fill.cacheability.set_reason(reason.word().as_bytes());
    }

    /// The stale object that may be served since the backend failed (RFC 9111 4.2.4, RFC 5861 4): the step to it.
    pub(super) fn stale_instead(&mut self, cause: StaleCause) -> Option<FetchStep> {
        let stale = self.fill.stale.clone().filter(|stale| !stale.is_dying() && !stale.flags().is_passed())?;
        if !self.stale_has_what_is_wanted(&stale) {
            return None;
        }
        if self.fill.cacheability.is_uncacheable() {
            return None;
        }
        let mut old = Head::with_limits(self.beresp.limits());
        old.load_from(stale.head()).ok()?;
        let (now, times) = (self.engine.clock.mono(), stale.times());
        let directives = ResponseDirectives::from_head(&old, &self.params.rfc9111_targeted);
        let staleness = now.since(times.fresh_until(None));
        if now.0 >= times.dead_at().0 || !rfc9111::may_serve_stale(&directives, cause, staleness) {
            return None;
        }
        self.end_unread();
        self.engine.main.rfc9111_stale.inc();
        if self.requester.mode == FetchMode::Background {
            return Some(FetchStep::Fail("the backend failed, and the stale object stays"));
        }
        self.log.put(Tag::Notice, b"lacquer: the backend failed: serving the stale object");
        // Without a validation these mustn't be sent (RFC 9111 5.2.2.4).
        for name in directives.unshared_fields().iter().filter_map(|name| std::str::from_utf8(name).ok()) {
            old.unset(name);
        }
        self.adopt_stale(&stale, &old, directives.stale_if_error.is_none());
        Some(FetchStep::Conditional(stale))
    }

    /// The stale object once more, as a 304 would leave it, with the lives that it has.
    fn adopt_stale(&mut self, stale: &ObjRef, old: &Head, is_shared: bool) {
        let mut times = stale.times();
        if is_shared && self.busy().has_waiters() {
            // Who waits would find it stale and go to the same backend, one after the other. Its end stays where it is.
            let more = self.engine.clock.mono().plus(SHARED).since(times.fresh_until(None));
            let more = more.clamp(0.0, times.grace + times.keep);
            let of_grace = more.min(times.grace);
            times = ObjectTimes {
                ttl: times.ttl + more,
                grace: times.grace - of_grace,
                keep: times.keep - (more - of_grace),
                ..times
            };
        }
        self.beresp.copy_from(old);
        self.fill.object.keys = self.engine.cache.tags_of(stale);
        self.fill.object.has_own_tags = true;
        self.fill.object.t_origin = self.engine.real_of(times.t_origin);
        self.fill.object.times = times;
        self.fill.settings.do_esi = false;
        self.fill.settings.storage = Some(self.engine.cache.stores().get(stale.store()).clone());
        self.kind = FetchKind::Refresh(RefreshFetch { stale: stale.clone(), old_head: None, keeps_head: true });
    }

    /// A successful answer to an unsafe request invalidates its target (RFC 9111 4.4) and the groups that it names (RFC 9875 3).
    /// The URLs that it names are `Req`'s, who can hash them.
    pub(super) async fn invalidate(&mut self) {
        let is_success = matches!(self.beresp.status() % 1000, 200..400);
        // VCL has said of a request that is looked up by its body that it changes nothing.
        let is_safe = self.fill.family.is_some() || rfc9111::is_safe(self.ask.head.method());
        if self.requester.mode != FetchMode::Pass || !is_success || is_safe {
            return;
        }
        if let Err(refusal) = self.engine.may_invalidate_here() {
            self.log.put(Tag::VclError, refusal.0.as_bytes());
            return;
        }
        let now = self.engine.clock.mono();
        let purged =
            self.fill.alias.as_ref().map_or(0, |alias| self.engine.purge(None, &alias.exact, now, Purge::HARD));
        let count = purged + self.engine.purge(None, &self.fill.digest, now, Purge::HARD);
        self.engine.main.rfc9111_invalidated.add(count as u64);
        let exact = self.fill.alias.as_ref().map(|alias| alias.exact);
        for digest in exact.into_iter().chain([self.fill.digest]) {
            self.engine.announce_to_peers(|| crate::cluster::purge(&digest, Purge::HARD), now);
        }
        self.vcl.invalidations.note();
        let host = self.ask.original.get(names::HOST).unwrap_or_default();
        let groups = rfc9111::invalidated_group_tags(&self.beresp, host);
        if groups.is_empty() || !self.engine.cache.keeps_tags() {
            return;
        }
        let groups: Vec<&[u8]> = groups.iter().map(|group| &group[..]).collect();
        match self.engine.purge_tags(None, &groups, false) {
            Ok(purge) => {
                let tagged = purge.await;
                let tags = groups.iter().map(|group| group.to_vec()).collect();
                self.engine.announce_to_peers(|| Invalidation::Tags { tags, is_soft: false }, now);
                self.engine.main.rfc9111_invalidated.add(tagged.unsigned_abs());
            }
            Err(refusal) => self.log.put(Tag::VclError, refusal.0.as_bytes()),
        }
    }

    /// The groups that the response names (RFC 9875 2).
    pub(super) fn gather_groups(&self, tags: &mut Vec<Box<[u8]>>) {
        let host = self.ask.original.get(names::HOST).unwrap_or_default();
        tags.extend(rfc9111::group_tags(&self.beresp, host));
    }

    /// Does what [`Bereq::variant`] does, with normalised values where that is allowed.
    pub(super) fn normalised_variant(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        match rfc9111::key(&self.beresp, &self.ask.head) {
            Ok(None) => None,
            Ok(Some(spec)) => {
                let mut values = Vec::new();
                rfc9111::values(&spec, &self.ask.head, self.params.supported_codings(), &mut values);
                Some((spec, values))
            }
            Err(error) => {
                self.refuse_vary(error);
                None
            }
        }
    }
}
