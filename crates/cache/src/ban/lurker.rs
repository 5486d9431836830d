// SPDX-License-Identifier: BSD-2-Clause
//! The ban lurker: tests objects against bans that look at objects alone, so that bans can leave the list.
//!
//! A pass plans once which bans it can finish (those old enough that need no request), then walks the index in small
//! steps. A ban that needs a request is a barrier: an object below it can't be moved past it, though the finishable
//! bans above are tested on it. Beyond `ban_cutoff` objects are killed untested.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::task::Waker;

use base::Mono;

use super::{Ban, Bans};
use crate::cache::{Cache, CacheParams, CacheShared};
use crate::events::CacheEvent;
use crate::objcore::{Objcore, ObjcoreStage};
use crate::tombstones::TombstoneCause;

/// Sleep of the lurker when no ban has to get older, in seconds.
const IDLE: f64 = 49.62;

/// Objcores looked at in one step, tested or not.
const WALK: usize = 20_000;

#[derive(Default)]
pub(super) struct Lurker {
    pass: Option<Pass>,
    /// Newest ban when the last pass was planned.
    planned: u64,
    idle: f64,
}

#[derive(Default)]
struct Pass {
    /// Bans to be tested, newest first.
    bans: Vec<Arc<Ban>>,
    /// The action for objects that stand at a ban: one row for each ban below the first that is tested, newest first.
    rows: Vec<Row>,
    has_objects: bool,
    /// The oldest ban at which a fetch began that was running when the pass was planned. Its object still has the newer
    /// bans before it: they can't be marked as done.
    oldest_pin: Option<u64>,
    /// No objects of a former worker come into the index meanwhile.
    sees_all: bool,
    shard: usize,
    pending: Vec<Weak<Objcore>>,
}

#[derive(Clone, Copy)]
struct Row {
    seq: u64,
    /// Number of the ban to which the objects move.
    to: u64,
    /// Number of the pass's bans that are newer than this one.
    newer: usize,
    kill: bool,
}

impl Cache {
    /// Makes one step of the lurker: tests up to `ban_lurker_batch` objects and calls `tell` for those it killed.
    /// Returns the seconds to wait before the next step. A new ban cuts that short: see [`Cache::wake_lurker_by`].
    pub fn lurk(&self, now: Mono, tell: &mut dyn FnMut(CacheEvent)) -> f64 {
        let shared = self.shared();
        let (bans, params) = (&shared.bans, shared.params.load());
        if !self.journal_needs_thread() {
            shared.tend_journal();
        }
        shared.end_spreads(now);
        let mut lurker = bans.lurker.lock();
        if params.ban_lurker_sleep <= 0.0 {
            lurker.pass = None;
            bans.clean_tail(shared.trim_to_stored());
            return IDLE;
        }
        if lurker.pass.is_none() {
            let least_stored = shared.trim_to_stored();
            lurker.planned = bans.newest.load(Relaxed);
            let (mut pass, idle) = bans.plan(now, &params, least_stored);
            pass.sees_all = !shared.adoption.is_on();
            lurker.idle = idle;
            if pass.bans.is_empty() {
                bans.clean_tail(least_stored);
                return idle;
            }
            lurker.pass = Some(pass);
        }
        let pass = lurker.pass.as_mut().expect("planned above");
        match pass.step(shared, params.ban_lurker_batch.max(1), tell) {
            Step::Batch => return params.ban_lurker_sleep,
            Step::Walked => return 0.0,
            Step::Over => {}
        }
        if let Some(over) = lurker.pass.take() {
            bans.clean_tail(shared.least_stored());
            bans.finish(&over);
        }
        if bans.newest.load(Relaxed) == lurker.planned { lurker.idle } else { 0.0 }
    }

    pub fn wake_lurker_by(&self, waker: Waker) {
        *self.shared().bans.kick.lock() = Some(waker);
    }
}

enum Step {
    Batch,
    Walked,
    Over,
}

impl Bans {
    /// Plans a pass; also returns the seconds until the next ban will be old enough.
    fn plan(&self, now: Mono, params: &CacheParams, least_stored: u64) -> (Pass, f64) {
        let list = self.inner.lock();
        let cutoff = if params.ban_cutoff > 0 { params.ban_cutoff } else { usize::MAX };
        // Stored copies are tested when they come into the index: they stand where they did, and so do the bans.
        let mut pass = Pass { oldest_pin: Some(least_stored).filter(|&least| least != u64::MAX), ..Pass::default() };
        let (mut to, mut idle) = (None, IDLE);
        let young = |ban: &Ban| match &ban.spread {
            // Objects get their moments early, before these have passed.
            Some(_) => f64::NEG_INFINITY,
            None => ban.mono.0 - (now.0 - params.ban_lurker_age),
        };
        // One that was made elsewhere may be older than those that were on the list before: it waits with them, as no object is to
        // be moved past what it wasn't tested against.
        let is_waiting = |ban: &&Arc<Ban>| !ban.is_completed() && young(ban) >= 0.0;
        let first_waiting =
            list.entries.iter().map(|entry| &entry.ban).find(is_waiting).map_or(u64::MAX, |ban| ban.seq);
        let newest_first: Vec<_> = list.entries.iter().rev().collect();
        for (count, entry) in newest_first.iter().enumerate() {
            let ban = &entry.ban;
            if let Some(to) = to {
                pass.rows.push(Row { seq: ban.seq, to, newer: pass.bans.len(), kill: count > cutoff });
                pass.has_objects |= entry.refs > 0;
            }
            if entry.pins > 0 {
                pass.oldest_pin = Some(pass.oldest_pin.map_or(ban.seq, |pin| pin.min(ban.seq)));
            }
            if ban.is_completed() {
                continue;
            }
            if ban.spec.has_req() && count <= cutoff {
                if to.is_some() {
                    to = newest_first.get(count + 1).map(|next| next.ban.seq);
                }
                continue;
            }
            if ban.seq < first_waiting {
                pass.bans.push(ban.clone());
                to.get_or_insert(ban.seq);
            } else if young(ban) >= 0.0 {
                idle = young(ban).min(idle);
            }
        }
        (pass, idle)
    }

    /// Ends a pass: all objects have been tested against its bans.
    fn finish(&self, pass: &Pass) {
        let spreads = pass.bans.iter().filter_map(|ban| ban.spread.as_ref());
        spreads.filter(|_| pass.sees_all).for_each(|spread| spread.note_walked());
        let last = {
            let list = self.inner.lock();
            let oldest = list.entries[0].ban.seq;
            let is_done = |ban: &&Arc<Ban>| ban.seq >= oldest && pass.oldest_pin.is_none_or(|pin| ban.seq <= pin);
            pass.bans.iter().filter(is_done).filter_map(|ban| self.complete(ban)).last()
        };
        self.log.commit(last);
    }
}

impl Pass {
    fn step(&mut self, shared: &CacheShared, batch: usize, tell: &mut dyn FnMut(CacheEvent)) -> Step {
        let (mut tested, mut walked) = (0, 0);
        if !self.has_objects {
            return Step::Over;
        }
        loop {
            while let Some(oc) = self.pending.pop() {
                let Some(oc) = oc.upgrade() else { continue };
                self.test(shared, &oc, tell);
                tested += 1;
                if tested == batch {
                    return Step::Batch;
                }
            }
            if self.shard == shared.shards.len() {
                return Step::Over;
            }
            if walked >= WALK {
                return Step::Walked;
            }
            let shard = shared.shards[self.shard].lock();
            // Of one that was overtaken already, an older ban may say that it was so earlier.
            let stands_below = |oc: &&Arc<Objcore>| {
                walked += 1;
                oc.state() == ObjcoreStage::Stored && self.row(oc.ban_seq.get()).is_some()
            };
            self.pending = shard.heads.all().filter(stands_below).map(Arc::downgrade).collect();
            self.shard += 1;
        }
    }

    /// The action for an object that was tested up to `seq`.
    fn row(&self, seq: u64) -> Option<Row> {
        // The first row is the one right below the newest ban of the pass; whatever stands there or above is done.
        let is_below = self.rows.first().is_some_and(|first| seq < first.to);
        let at = self.rows.partition_point(|row| row.seq > seq);
        self.rows.get(at).copied().filter(|_| is_below)
    }

    fn test(&self, shared: &CacheShared, oc: &Arc<Objcore>, tell: &mut dyn FnMut(CacheEvent)) {
        let main = shared.main;
        let seq = oc.ban_seq.get();
        let Some(row) = self.row(seq) else { return };
        let mut tests = 0;
        for ban in self.bans[..row.newer].iter().rev().filter(|ban| !ban.is_completed()) {
            if oc.ban_seq.get() != seq {
                // A lookup was faster.
                return;
            }
            let hits = row.kill || {
                main.bans_lurker_tested.inc();
                ban.spec.matches(shared, ban.mono, &**oc, None, &mut tests)
            };
            if let Some(spread) = ban.spread.as_ref().filter(|_| hits && !row.kill) {
                shared.turn_later(oc, spread);
                continue;
            }
            if hits {
                main.bans_lurker_tests_tested.add(tests);
                if shared.invalidate(oc, ban.seq, TombstoneCause::Banned) {
                    let (counter, event) = match row.kill {
                        true => (&main.bans_lurker_obj_killed_cutoff, CacheEvent::KilledByCutoff(oc.xid())),
                        false => (&main.bans_lurker_obj_killed, CacheEvent::BannedByLurker(oc.xid())),
                    };
                    counter.inc();
                    tell(event);
                }
                return;
            }
        }
        main.bans_lurker_tests_tested.add(tests);
        if row.to > seq {
            shared.bans.advance(oc, seq, row.to);
        }
    }
}
