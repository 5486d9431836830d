// SPDX-License-Identifier: BSD-2-Clause
//! Bans that spread: each matching object becomes stale at a moment of its own, so that the origin isn't asked for all of
//! them at once.
//!
//! An object's moment follows from its digest. It is as far into `over` as the digest is into all digests, or at once if
//! that has passed, and later while `rate` objects have been given the same slot. The object then has the ttl that ends at
//! its moment. So nothing has to be done when the moment comes, and what was given survives the worker with the object.

mod slots;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use base::Mono;
use base::critical::Lock;
use base::text::parse_duration;

use self::slots::{Progress, Slots};
use super::{Ban, BanError, BanSpec, Bans};
use crate::cache::{Cache, CacheShared};
use crate::objcore::{Objcore, ObjcoreStage};

/// Spread bans that haven't ended.
pub(super) const MOST_SPREADS: usize = 64;
const LONGEST_SECONDS: f64 = 7.0 * 86_400.0;
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e6;
/// Objects that a cancelled ban can give their ttl back.
const MOST_GIVEN: usize = 1 << 20;

/// The settings of a spread ban: a time in seconds, and a number of objects per second, each of them 0 if not given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpreadPlan {
    pub over: f64,
    pub rate: f64,
}

/// The moments that a ban has given to objects.
pub(crate) struct Spread {
    start: Mono,
    plan: SpreadPlan,
    state: Lock<SpreadState>,
}

struct SpreadState {
    slots: Slots,
    /// Objects that have a moment, by their addresses, which stay in use meanwhile. `None` once the ban was cancelled or has
    /// ended.
    given: Option<HashMap<usize, Given>>,
}

struct Given {
    oc: Weak<Objcore>,
    former_ttl: f64,
    due: Mono,
}

/// A row of `ban.spreads`. The time when the ban was made is in seconds since 1970.
#[derive(Clone, PartialEq, Debug)]
pub struct SpreadRow {
    pub id: u64,
    pub made: f64,
    /// Objects that matched so far.
    pub matched: u64,
    /// Objects among them that are stale by now.
    pub turned: u64,
    /// Seconds until the last of them is stale.
    pub left_seconds: f64,
    /// Every object has been tested against the ban.
    pub is_complete: bool,
    pub spec: String,
}

impl SpreadPlan {
    /// Objects become stale at once.
    pub const AT_ONCE: SpreadPlan = SpreadPlan { over: 0.0, rate: 0.0 };

    pub fn is_word(word: &str) -> bool {
        word.starts_with("over=") || word.starts_with("rate=")
    }

    pub fn parse(words: &[&str]) -> Result<Option<SpreadPlan>, BanError> {
        let mut plan = SpreadPlan::AT_ONCE;
        for word in words {
            let bad = |expected| BanError::BadSpread { word: (*word).to_owned(), expected };
            match word.split_once('=') {
                Some(("over", time)) => {
                    let seconds = parse_duration(time).filter(|seconds| (1.0..=LONGEST_SECONDS).contains(seconds));
                    plan.over = seconds.ok_or_else(|| bad("over=<duration>, from 1s to 7d,"))?;
                }
                Some((_, rate)) => plan.rate = parse_rate(rate).ok_or_else(|| bad("rate=<objects>/s, /m or /h"))?,
                None => {}
            }
        }
        Ok((plan != SpreadPlan::AT_ONCE).then_some(plan))
    }

    pub fn stored(over: f64, rate: f64) -> Option<SpreadPlan> {
        let is_valid = (0.0..=LONGEST_SECONDS).contains(&over) && (rate == 0.0 || RATES.contains(&rate));
        is_valid.then_some(SpreadPlan { over, rate })
    }

    /// The words from which [`SpreadPlan::parse`] makes the same plan.
    pub fn words(&self) -> Vec<String> {
        let over = (self.over > 0.0).then(|| format!("over={}s", self.over));
        over.into_iter().chain(self.rate_word()).collect()
    }

    fn rate_word(&self) -> Option<String> {
        (self.rate > 0.0).then(|| format!("rate={}/s", self.rate))
    }
}

fn parse_rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    number.parse().ok().map(|number: f64| number / seconds).filter(|rate| RATES.contains(rate))
}

impl fmt::Display for SpreadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_over = self.over > 0.0 || self.rate == 0.0;
        let over = has_over.then(|| format!("over={}", super::show::duration(self.over)));
        let words: Vec<String> = over.into_iter().chain(self.rate_word()).collect();
        f.write_str(&words.join(" "))
    }
}

impl Spread {
    pub fn new(start: Mono, plan: SpreadPlan) -> Spread {
        let state = SpreadState { slots: Slots::new(&plan), given: Some(HashMap::new()) };
        Spread { start, plan, state: Lock::new(state) }
    }

    /// True if each object that matched is stale.
    pub fn is_over(&self, now: Mono) -> bool {
        now.since(self.start) >= self.state.lock().slots.end().max(self.plan.over)
    }

    /// Ends what could be cancelled, and returns it.
    fn take_given(&self) -> Vec<Given> {
        let given = self.state.lock().given.take();
        given.into_iter().flat_map(HashMap::into_values).collect()
    }

    fn progress(&self, now: Mono) -> Progress {
        self.state.lock().slots.progress(now.since(self.start))
    }

    /// Draws the moment at which an object becomes stale that has a share of `share` of all digests and is fresh until
    /// then. `None` if it is stale by itself in the slot of its moment, has got one, or if the ban was cancelled.
    fn draw(&self, oc: &Arc<Objcore>, now: Mono) -> Option<Mono> {
        let mut state = self.state.lock();
        let address = Arc::as_ptr(oc) as usize;
        if state.given.as_ref()?.contains_key(&address) {
            return None;
        }
        let (times, elapsed) = (oc.times(), now.since(self.start));
        let wanted = (oc.digest().share() * self.plan.over).max(elapsed).max(0.0);
        let left = times.fresh_until(None).since(self.start);
        if left <= state.slots.end_of_slot_at(wanted) {
            return None;
        }
        let due = self.start.plus(state.slots.take(wanted));
        let given = state.given.as_mut().filter(|given| given.len() < MOST_GIVEN);
        given.into_iter().for_each(|given| {
            given.insert(address, Given { oc: Arc::downgrade(oc), former_ttl: times.ttl, due });
        });
        Some(due)
    }
}

impl Bans {
    /// Lists a spread ban as running.
    pub(super) fn note_spread(&self, ban: &Arc<Ban>, now: Mono) {
        if ban.spread.is_some() {
            self.spreads.lock().push(ban.clone());
            self.end_spreads(now);
        }
    }

    /// Forgets the spread bans of which each object has been tested and is stale.
    pub(super) fn end_spreads(&self, now: Mono) {
        let oldest = self.oldest();
        let mut spreads = self.spreads.lock();
        if spreads.is_empty() {
            return;
        }
        let runs = |ban: &Arc<Ban>| {
            let is_tested = ban.is_completed() || ban.seq < oldest;
            !is_tested || ban.spread.as_ref().is_some_and(|spread| !spread.is_over(now))
        };
        let ended: Vec<Arc<Ban>> = spreads.extract_if(.., |ban| !runs(ban)).collect();
        let count = spreads.len() as u64;
        drop(spreads);
        self.main.bans_spread.set(count);
        ended.iter().filter_map(|ban| ban.spread.as_ref()).for_each(|spread| drop(spread.take_given()));
    }

    pub(super) fn spreads_running(&self) -> usize {
        self.spreads.lock().len()
    }
}

impl CacheShared {
    /// Has an object that a spread ban matches become stale at its moment.
    pub(super) fn turn_later(&self, oc: &Arc<Objcore>, spread: &Spread) {
        let now = self.now();
        let dead = {
            let mut shard = self.shard(&oc.digest()).lock();
            if oc.state() != ObjcoreStage::Stored || oc.is_overtaken() {
                return;
            }
            let Some(due) = spread.draw(oc, now) else { return };
            self.main.bans_spread_objects.inc();
            self.shorten(&mut shard, oc, due)
        };
        drop(dead);
    }
}

impl Cache {
    /// Checks that a ban can be made here.
    ///
    /// # Errors
    /// It needs tags and none are kept, or too many bans are being spread.
    pub fn may_ban(&self, spec: &BanSpec) -> Result<(), BanError> {
        let shared = self.shared();
        if spec.has_key() && !self.keeps_tags() {
            return Err(BanError::NoTags);
        }
        match spec.is_spread() && shared.bans.spreads_running() >= MOST_SPREADS {
            true => Err(BanError::TooManySpreads(MOST_SPREADS)),
            false => Ok(()),
        }
    }

    /// The bans that are being spread, oldest first.
    pub fn spreads(&self) -> Vec<SpreadRow> {
        let (bans, now) = (&self.shared().bans, self.shared().now());
        bans.end_spreads(now);
        let oldest = bans.oldest();
        let running = bans.spreads.lock().clone();
        let row = |ban: &Arc<Ban>| {
            let spread = ban.spread.as_ref()?;
            let Progress { matched, turned, end } = spread.progress(now);
            Some(SpreadRow {
                id: ban.seq,
                made: ban.real.0,
                matched,
                turned,
                left_seconds: (end - now.since(spread.start)).max(0.0),
                is_complete: ban.is_completed() || ban.seq < oldest,
                spec: ban.spec.to_string(),
            })
        };
        running.iter().filter_map(row).collect()
    }

    /// Cancels a spread ban: objects that aren't stale yet keep the ttl that they had. Returns their number, or `None` if no
    /// such ban is running. Objects whose moment was given by an earlier worker, or that came after the first 1,048,576, still
    /// become stale.
    pub fn cancel_spread(&self, id: u64) -> Option<usize> {
        let shared = self.shared();
        let bans = &shared.bans;
        let ban = bans.spreads.lock().extract_if(.., |ban| ban.seq == id).next()?;
        let given = ban.spread.as_ref().map(|spread| spread.take_given()).unwrap_or_default();
        bans.log.commit(bans.complete(&ban));
        bans.end_spreads(shared.now());
        Some(given.iter().filter(|given| shared.give_back(given)).count())
    }
}

impl CacheShared {
    fn give_back(&self, given: &Given) -> bool {
        let Some(oc) = given.oc.upgrade() else { return false };
        let mut shard = self.shard(&oc.digest()).lock();
        let times = oc.times();
        let is_untouched = times.fresh_until(None) == given.due && given.due.0 > self.now().0;
        if !is_untouched || oc.state() != ObjcoreStage::Stored || oc.is_overtaken() {
            return false;
        }
        let is_done = self.set_times(&oc, storage::ObjectTimes { ttl: given.former_ttl, ..times });
        self.arm(&mut shard, &oc, oc.times().dead_at());
        is_done
    }
}
