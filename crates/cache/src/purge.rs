// SPDX-License-Identifier: BSD-2-Clause
//! Purge: shortening the times of all variants of one objhead.

use base::Mono;
use storage::ObjectTimes;
use tables::Compat;

use crate::attrs::VaryKey;
use crate::boc::SoftPurge;
use crate::busy::Busy;
use crate::cache::Cache;
use crate::digest::Digest;
use crate::events::CacheEvent;
use crate::journal;
use crate::objcore::{Objcore, ObjcoreStage};
use crate::objref::ObjRef;
use crate::request::CacheRequest;
use crate::tombstones::TombstoneCause;

/// New times, in seconds from the moment of the purge (ttl) or as durations (grace, keep); `None` leaves one unchanged.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Purge {
    pub ttl: Option<f64>,
    pub grace: Option<f64>,
    pub keep: Option<f64>,
}

/// The shortest ttl of an object that may be found while it is stale, in seconds.
const MOMENT: f64 = 1e-6;

impl Purge {
    /// Nothing stays: `return(purge)`, `purge.hard()`.
    pub const HARD: Purge = Purge { ttl: Some(0.0), grace: Some(0.0), keep: Some(0.0) };

    /// Like [`Purge::apply`], but never lengthens a ttl: a purge brings no expired object back. Since 7.6 it lengthens
    /// neither grace nor keep.
    pub(crate) fn shorten(&self, times: ObjectTimes, now: Mono, compat: Compat) -> ObjectTimes {
        let new = self.apply(times, now);
        let ttl = new.ttl.min(times.ttl);
        match compat {
            Compat::V7_1 => ObjectTimes { ttl, ..new },
            Compat::V9 => ObjectTimes { ttl, grace: new.grace.min(times.grace), keep: new.keep.min(times.keep), ..new },
        }
    }

    /// True if it leaves neither ttl nor grace.
    pub(crate) fn is_hard(&self) -> bool {
        self.ttl.is_some_and(|ttl| ttl <= 0.0) && self.grace.is_some_and(|grace| grace <= 0.0)
    }

    /// True if it leaves nothing of an object. Varnish 9 counts only such a purge as one, and its objects as purged, not expired.
    fn removes(&self) -> bool {
        self.is_hard() && self.keep.is_some_and(|keep| keep <= 0.0)
    }

    /// Joins this purge and a later one: the shorter ttl counts, and the later grace and keep if they may be longer.
    pub(crate) fn then(&self, other: &Purge, compat: Compat) -> Purge {
        let shorter = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let later = |a: Option<f64>, b: Option<f64>| match compat {
            Compat::V7_1 => b.or(a),
            Compat::V9 => shorter(a, b),
        };
        Purge {
            ttl: shorter(self.ttl, other.ttl),
            grace: later(self.grace, other.grace),
            keep: later(self.keep, other.keep),
        }
    }

    pub fn apply(&self, times: ObjectTimes, now: Mono) -> ObjectTimes {
        let (grace, keep) = (self.grace.unwrap_or(times.grace), self.keep.unwrap_or(times.keep));
        let left = |ttl| now.plus(ttl).since(times.t_origin);
        // An answer that is younger than the purge of its fetch has no ttl left; but nothing without ttl is found at all.
        let least = if times.ttl > 0.0 && grace + keep > 0.0 { MOMENT } else { f64::NEG_INFINITY };
        ObjectTimes {
            t_origin: times.t_origin,
            ttl: self.ttl.map_or(times.ttl, |ttl| left(ttl).max(least)),
            grace,
            keep,
        }
    }
}

impl Cache {
    /// Purges all variants under `digest`, and its family, and returns their number. A fetch in progress is overtaken: requests that
    /// already wait for it may have its object, and later ones only as the purge allows.
    pub fn purge(&self, digest: &Digest, now: Mono, purge: Purge) -> usize {
        self.purge_for(None, digest, now, purge, &mut |_| {})
    }

    /// Like [`Cache::purge`], by a request that is about to fetch: the fetched object is newer than the purge and
    /// stays. Calls `gone` for each object that the purge ended.
    pub fn purge_for(
        &self,
        own: Option<&Busy>,
        digest: &Digest,
        now: Mono,
        purge: Purge,
        gone: &mut dyn FnMut(CacheEvent),
    ) -> usize {
        let shared = self.shared();
        shared.former.tell(|| journal::purge(0, digest, now.0, &purge));
        let (compat, is_removal) = (shared.params.load().compat, purge.removes());
        let (seq, log) = (shared.bans.next_seq(), &shared.bans.log);
        log.begin(seq, || journal::purge(seq, digest, now.0, &purge));
        if shared.adoption.is_on() {
            shared.adopt(digest, gone);
        }
        let removed = shared.purge_copies(digest, seq);
        let mut dead = Vec::new();
        let count = {
            let mut shard = shared.shard(digest).lock();
            let objcs = shard.heads.objcs(digest).to_vec();
            let mut count = 0;
            for oc in objcs {
                match oc.state() {
                    ObjcoreStage::Busy if own.is_some_and(|own| own.is_of(&oc)) => {}
                    ObjcoreStage::Busy if base::failpoint::fault("a purge that forgets a running fetch") => {}
                    ObjcoreStage::Busy => overtake(&oc, SoftPurge { seq, at: now, purge }, compat),
                    // Gone for all but earlier requests.
                    ObjcoreStage::Stored if oc.is_overtaken() => {}
                    ObjcoreStage::Stored if shard.recent_rushes.has(&oc, shared.now()) => {
                        count += 1;
                        let mut when = shared.overtaken_until();
                        if purge.is_hard() {
                            oc.overtake(seq);
                            shared.forget_record(&oc);
                            shared.end_copy(&oc);
                        } else {
                            oc.overtake_softly(seq);
                            shared.set_times(&oc, purge.shorten(oc.times(), now, compat));
                            when = Mono(when.0.max(oc.times().dead_at().0));
                        }
                        shared.arm(&mut shard, &oc, when);
                    }
                    ObjcoreStage::Stored => {
                        count += 1;
                        let before = oc.times();
                        let can_live = shared.set_times(&oc, purge.shorten(before, now, compat));
                        if !can_live || oc.times().dead_at().0 <= now.0 {
                            shared.count_expired(is_removal);
                            let told = if is_removal && compat.is_9() { before } else { oc.times() };
                            dead.push((shared.unlink(&mut shard, &oc, TombstoneCause::Purged), told));
                        } else {
                            shared.arm(&mut shard, &oc, oc.times().dead_at());
                        }
                    }
                    ObjcoreStage::Dying => {}
                }
            }
            count.max(removed)
        };
        shared.dictionaries.purge(digest);
        let count = count + self.purge_family(digest, now, &purge);
        log.commit(log.done(seq));
        for (oc, times) in dead {
            let ttl_left = times.t_origin.plus(times.ttl).since(shared.now());
            gone(CacheEvent::Expired { xid: oc.xid(), ttl_left, hits: oc.hits(), is_purged: is_removal });
        }
        if is_removal || compat == Compat::V7_1 {
            shared.main.n_purges.inc();
            shared.main.n_obj_purged.add(count as u64);
        }
        count
    }

    /// Changes the times of one object (`obj.ttl` and the like set from outside).
    pub fn rearm(&self, obj: &ObjRef, now: Mono, purge: Purge) {
        let (shared, oc) = (self.shared(), obj.objcore());
        let mut shard = shared.shard(&oc.digest()).lock();
        if oc.state() == ObjcoreStage::Stored {
            shared.set_times(oc, purge.apply(oc.times(), now));
            shared.arm(&mut shard, oc, oc.times().dead_at());
        }
    }

    /// Extends the times of objects in memory under `digest` to `times` where those are longer, and returns how many
    /// were extended. Purged and banned objects don't come back. An object with a copy in a home stays as it is, since
    /// the copy has the old times.
    pub fn extend_stored(&self, digest: &Digest, times: ObjectTimes) -> usize {
        let shared = self.shared();
        let mut shard = shared.shard(digest).lock();
        let objcs = shard.heads.objcs(digest).to_vec();
        let ends_sooner = |oc: &Objcore| oc.times().dead_at().0 < times.dead_at().0;
        let mut count = 0;
        let is_ours = |oc: &Objcore| oc.state() == ObjcoreStage::Stored && !oc.is_overtaken() && oc.home().is_none();
        for oc in objcs.iter().filter(|oc| is_ours(oc) && ends_sooner(oc)) {
            if shared.set_times(oc, times) {
                shared.arm(&mut shard, oc, times.dead_at());
                count += 1;
            }
        }
        count
    }

    /// The objects in memory under `digest` that `req` selects, without markers. Doesn't count as a lookup.
    pub fn stored_for(&self, digest: &Digest, req: &dyn CacheRequest) -> Vec<ObjRef> {
        let objcs = self.shared().shard(digest).lock().heads.objcs(digest).to_vec();
        let is_for = |oc: &Objcore| oc.vary_matches(|vary: VaryKey<'_>| req.vary_matches(vary.spec, vary.values));
        let is_found = |oc: &Objcore| {
            oc.state() == ObjcoreStage::Stored && !oc.is_overtaken() && !oc.flags().is_uncacheable() && is_for(oc)
        };
        objcs.into_iter().filter(|oc| is_found(oc)).map(ObjRef::new).collect()
    }

    /// Removes the objects stored under `digest` from memory, because nobody looks for them any more. Unlike a purge it
    /// doesn't touch fetches in progress and objects that are only in a home, and no later worker hears of it.
    pub fn drop_stored(&self, digest: &Digest) -> usize {
        let shared = self.shared();
        let objcs = shared.shard(digest).lock().heads.objcs(digest).to_vec();
        objcs.iter().filter(|oc| shared.kill(oc, TombstoneCause::Purged)).count()
    }

    /// The auxiliary attributes of all objects stored under `digest` that have any.
    pub fn aux_attrs_under(&self, digest: &Digest) -> Vec<Vec<u8>> {
        let shared = self.shared();
        let objcs = shared.shard(digest).lock().heads.objcs(digest).to_vec();
        let stored = objcs.iter().filter(|oc| oc.state() == ObjcoreStage::Stored);
        let attrs = stored.filter_map(|oc| oc.with_head_block(|block| block.aux_attrs().to_vec()));
        attrs.filter(|attrs| !attrs.is_empty()).collect()
    }

    /// Removes one object from the cache because it was replaced or found damaged. Its readers continue.
    pub fn kill(&self, obj: &ObjRef) {
        if self.shared().kill(obj.objcore(), TombstoneCause::Replaced) {
            self.shared().main.n_superseded.inc();
        }
    }
}

/// Notes on a busy objcore a purge that came during its fetch.
fn overtake(oc: &Objcore, new: SoftPurge, compat: Compat) {
    match oc.boc().filter(|_| !new.purge.is_hard()) {
        Some(boc) => boc.purge_softly(new, compat),
        None => {
            oc.overtake(new.seq);
        }
    }
}
