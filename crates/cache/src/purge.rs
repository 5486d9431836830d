// SPDX-License-Identifier: BSD-2-Clause
//! Purge: shortening the lives of all variants of one objhead.

use base::Mono;

use crate::attrs::Times;
use crate::cache::Cache;
use crate::digest::Digest;
use crate::gone::Cause;
use crate::objcore::{Objcore, State};
use crate::objref::ObjRef;

/// New lives, in seconds from the moment of the purge (ttl) or as they are (grace, keep); `None` leaves one alone.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Purge {
    /// TTL left.
    pub ttl: Option<f64>,
    /// Grace.
    pub grace: Option<f64>,
    /// Keep.
    pub keep: Option<f64>,
}

impl Purge {
    /// Nothing stays: `return(purge)`, `purge.hard()`.
    pub const HARD: Purge = Purge { ttl: Some(0.0), grace: Some(0.0), keep: Some(0.0) };

    /// `times` after this purge.
    pub fn apply(&self, times: Times, now: Mono) -> Times {
        Times {
            t_origin: times.t_origin,
            ttl: self.ttl.map_or(times.ttl, |ttl| now.plus(ttl).since(times.t_origin)),
            grace: self.grace.unwrap_or(times.grace),
            keep: self.keep.unwrap_or(times.keep),
        }
    }
}

impl Cache {
    /// Purges all variants under `digest` and answers how many there were. A fetch in progress is overtaken: what it
    /// brings answers the requests that already wait for it, and later ones as the purge allows.
    pub fn purge(&self, digest: &Digest, now: Mono, purge: Purge) -> usize {
        let shared = self.shared();
        let seq = shared.bans.next_seq();
        let mut dead = Vec::new();
        let count = {
            let mut shard = shared.shard(digest).lock();
            let objcs = shard.heads.objcs(digest).to_vec();
            let mut count = 0;
            for oc in objcs {
                match oc.state() {
                    State::Busy => overtake(&oc, seq, now, purge),
                    State::Stored => {
                        count += 1;
                        oc.set_times(purge.apply(oc.times(), now));
                        if oc.times().dead_at().0 <= now.0 {
                            shared.main.n_expired.inc();
                            dead.push(shared.unlink(&mut shard, &oc, Cause::Purged));
                        } else {
                            shared.arm(&mut shard, &oc, oc.times().dead_at());
                        }
                    }
                    State::Dying => {}
                }
            }
            count
        };
        drop(dead);
        shared.main.n_purges.inc();
        shared.main.n_obj_purged.add(count as u64);
        count
    }

    /// Changes the lives of one object (`obj.ttl` and the like set from outside).
    pub fn rearm(&self, obj: &ObjRef, now: Mono, purge: Purge) {
        let (shared, oc) = (self.shared(), obj.objcore());
        let mut shard = shared.shard(&oc.digest).lock();
        if oc.state() == State::Stored {
            oc.set_times(purge.apply(oc.times(), now));
            shared.arm(&mut shard, oc, oc.times().dead_at());
        }
    }

    /// Takes one object out of the cache: it was replaced, or found broken. Who reads it reads on.
    pub fn kill(&self, obj: &ObjRef) {
        self.shared().kill(obj.objcore(), Cause::Replaced);
    }
}

/// Notes on a busy objcore that a purge came while it was fetched.
fn overtake(oc: &Objcore, seq: u64, now: Mono, purge: Purge) {
    let is_soft = purge.ttl.is_none_or(|ttl| ttl > 0.0) || purge.grace.is_none_or(|grace| grace > 0.0);
    match oc.boc().filter(|_| is_soft) {
        Some(boc) => boc.set_soft_purge(now, purge),
        None => {
            oc.overtake(seq);
        }
    }
}
