// SPDX-License-Identifier: BSD-2-Clause
//! Explains why a lookup found nothing to deliver, and lists the objects under a hash. Touches nothing.

use std::sync::Arc;

use base::{Mono, Vxid};
use storage::ObjectTimes;

use crate::attrs::{ObjectFlags, VaryKey};
use crate::cache::Cache;
use crate::digest::Digest;
use crate::objcore::{Objcore, ObjcoreStage};
use crate::request::CacheRequest;
use crate::tombstones::TombstoneCause;

/// Most variants that [`Cache::peek`] returns.
const PEEKED: usize = 50;

/// Findings of a lookup that was no hit. Empty after a hit.
#[derive(Debug, Default)]
pub struct LookupTrace {
    pub banned: Option<String>,
    /// The times of the newest object that matches and isn't fresh.
    pub stale: Option<ObjectTimes>,
    /// One that is fresh, but older than the request allows.
    pub is_over_max_age: bool,
    /// One was purged, or banned, while older requests still wait for it.
    pub is_overtaken: bool,
    /// One is being fetched, and the request won't wait for it.
    pub ignored_busy: bool,
    /// A variant of another request: that request's values for the headers of its Vary.
    pub other: Option<Box<[u8]>>,
    /// The fate of the last object, and its age in seconds.
    pub tombstone: Option<(TombstoneCause, f64)>,
    /// The auxiliary attributes of the object that says "don't cache".
    pub marker: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct VariantSummary {
    /// The fetch that made it; [`Vxid::NONE`] while that has no head.
    pub xid: Vxid,
    pub is_busy: bool,
    pub times: ObjectTimes,
    pub flags: ObjectFlags,
    pub hits: u32,
    /// Names and values of its Vary.
    pub vary: Option<(Vec<u8>, Vec<u8>)>,
    pub is_selected: bool,
    pub ban: Option<String>,
    /// A purge or ban came while it was fetched; only requests that waited for it may have it.
    pub is_overtaken: bool,
    pub aux_attrs: Vec<u8>,
    pub body_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct HashVariants {
    pub variants: Vec<VariantSummary>,
    pub count: usize,
    pub tombstone: Option<(TombstoneCause, f64)>,
}

impl Cache {
    /// Looks at the objects under `digest` as `req` would find them. Counts, moves and starts nothing.
    pub fn peek(&self, digest: &Digest, req: &dyn CacheRequest, now: Mono) -> HashVariants {
        let shared = self.shared();
        if shared.adoption.is_on() {
            shared.adopt(digest, &mut |_| {});
        }
        let objcs: Vec<Arc<Objcore>> = shared.shard(digest).lock().heads.objcs(digest).to_vec();
        let count = objcs.len();
        let variants = objcs.iter().rev().take(PEEKED).map(|oc| self.peek_at(oc, req)).collect();
        HashVariants { variants, count, tombstone: shared.tombstones.cause(digest, now) }
    }

    fn peek_at(&self, oc: &Arc<Objcore>, req: &dyn CacheRequest) -> VariantSummary {
        let shared = self.shared();
        let is_busy = oc.state() == ObjcoreStage::Busy;
        let vary =
            oc.with_head_block(|block| block.vary().map(|vary| (vary.spec.to_vec(), vary.values.to_vec()))).flatten();
        let ban = if is_busy { None } else { shared.bans.would_hit(shared, oc, req, shared.bans.seq()) };
        VariantSummary {
            xid: oc.xid(),
            is_busy,
            times: oc.times(),
            flags: oc.flags(),
            hits: oc.hits(),
            is_selected: oc.vary_matches(|key: VaryKey<'_>| req.vary_matches(key.spec, key.values)),
            vary,
            ban: ban.map(|ban| ban.spec.to_string()),
            is_overtaken: oc.is_overtaken(),
            aux_attrs: oc.with_head_block(|block| block.aux_attrs().to_vec()).unwrap_or_default(),
            body_bytes: oc.bytes().map(crate::objcore::ObjBytes::body_len),
        }
    }
}
