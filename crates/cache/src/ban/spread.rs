// SPDX-License-Identifier: BSD-2-Clause
//! Bans that spread: each matching object becomes stale at a moment of its own, so that the origin isn't asked for all of
//! them at once.
//!
//! An object's moment follows from its digest. It is as far into `over` as the digest is into all digests, or at once if
//! that has passed, and later while `rate` objects have been given the same slot. The object then has the ttl that ends at
//! its moment. So nothing has to be done when the moment comes, and what was given survives the worker with the object.

mod slots;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base::Mono;
use base::critical::Lock;
use base::text::parse_duration;

use self::slots::{Progress, Slots};
use super::{Ban, BanError, BanSpec, Bans};
use crate::cache::{Cache, CacheShared};
use crate::objcore::{Objcore, ObjcoreStage};

/// Spread bans that haven't ended.
const MOST_SPREADS: usize = 64;
const LONGEST_SECONDS: f64 = 7.0 * 86_400.0;
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e6;
/// Seconds by which a ttl may differ from the moment that it was calculated from.
const ROUNDING: f64 = 1e-3;

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
    /// The lurker has tested every object in the index.
    is_walked: AtomicBool,
    slots: Lock<Slots>,
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
        Spread { start, plan, is_walked: AtomicBool::new(false), slots: Lock::new(Slots::new(&plan)) }
    }

    pub fn note_walked(&self) {
        self.is_walked.store(true, Relaxed);
    }

    /// True if the time is over, and each object that got a moment is stale.
    fn is_over(&self, now: Mono) -> bool {
        now.since(self.start) >= self.slots.lock().end().max(self.plan.over)
    }

    fn progress(&self, now: Mono) -> Progress {
        self.slots.lock().progress(now.since(self.start))
    }

    /// Draws the moment at which an object becomes stale. `None` if the object is stale by then anyway, like every object
    /// that has got its moment.
    fn draw(&self, oc: &Objcore, now: Mono) -> Option<Mono> {
        let mut slots = self.slots.lock();
        let elapsed = now.since(self.start).max(0.0);
        let offer = slots.offer(oc.digest().share() * self.plan.over, elapsed);
        if oc.times().fresh_until(None).since(self.start) <= offer.at + ROUNDING {
            return None;
        }
        slots.take(&offer);
        Some(Mono(self.start.plus(offer.at).0.max(now.0)))
    }
}

impl Ban {
    /// True if the ban is to be listed by `ban.spreads`.
    pub(super) fn is_spread(&self) -> bool {
        self.spread.as_ref().is_some_and(|spread| spread.plan != SpreadPlan::AT_ONCE)
    }

    fn is_tested(&self, oldest: u64) -> bool {
        let is_walked = self.spread.as_ref().is_some_and(|spread| spread.is_walked.load(Relaxed));
        is_walked || self.is_completed() || self.seq < oldest
    }
}

impl Bans {
    /// Lists a spread ban as running.
    pub(super) fn note_spread(&self, ban: &Arc<Ban>) {
        if ban.is_spread() {
            let mut spreads = self.spreads.lock();
            spreads.push(ban.clone());
            self.main.bans_spread.set(spreads.len() as u64);
        }
    }

    fn take_spreads(&self, is_meant: impl Fn(&Ban) -> bool) -> Vec<Arc<Ban>> {
        let mut spreads = self.spreads.lock();
        let taken: Vec<Arc<Ban>> = spreads.extract_if(.., |ban| is_meant(ban)).collect();
        self.main.bans_spread.set(spreads.len() as u64);
        taken
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

    /// Ends the spread bans whose time is over, and of which each object has been tested unless only requests test them.
    /// Copies on disks that are older than a ban don't keep it from ending: they get their moments when they are read.
    pub(super) fn end_spreads(&self, now: Mono) {
        if self.bans.spreads.lock().is_empty() {
            return;
        }
        let (oldest, has_lurker) = (self.bans.oldest(), self.params.load().ban_lurker_sleep > 0.0);
        let has_ended = |ban: &Ban| {
            let is_tested = ban.is_tested(oldest) || ban.spec.has_req() || !has_lurker;
            is_tested && ban.spread.as_ref().is_none_or(|spread| spread.is_over(now))
        };
        let ended = self.bans.take_spreads(has_ended);
        ended.iter().filter_map(|ban| ban.spread.as_ref()).for_each(|spread| spread.slots.lock().forget());
    }

    /// Spread bans that haven't ended are as many as may be.
    pub(super) fn has_most_spreads(&self) -> bool {
        self.end_spreads(self.now());
        self.bans.spreads.lock().len() >= MOST_SPREADS
    }
}

impl Cache {
    /// Checks that a ban can be made here.
    ///
    /// # Errors
    /// The ban tests tags and none are kept, or too many bans are being spread.
    pub fn may_ban(&self, spec: &BanSpec) -> Result<(), BanError> {
        if spec.has_key() && !self.keeps_tags() {
            return Err(BanError::NoTags);
        }
        match spec.is_spread() && self.shared().has_most_spreads() {
            true => Err(BanError::TooManySpreads(MOST_SPREADS)),
            false => Ok(()),
        }
    }

    /// The bans that are being spread, oldest first.
    pub fn spreads(&self) -> Vec<SpreadRow> {
        let (bans, now) = (&self.shared().bans, self.shared().now());
        self.shared().end_spreads(now);
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
                is_complete: ban.is_tested(oldest),
                spec: ban.spec.to_string(),
            })
        };
        running.iter().filter_map(row).collect()
    }

    /// Ends a spread ban: no further object gets a moment. Returns the number of objects that have one which is still to
    /// come, or `None` if no such ban is running.
    pub fn cancel_spread(&self, id: u64) -> Option<u64> {
        let shared = self.shared();
        let ban = shared.bans.take_spreads(|ban| ban.seq == id).pop()?;
        shared.bans.log.commit(shared.bans.complete(&ban));
        let spread = ban.spread.as_ref()?;
        let Progress { matched, turned, .. } = spread.progress(shared.now());
        spread.slots.lock().forget();
        Some(matched - turned)
    }
}
