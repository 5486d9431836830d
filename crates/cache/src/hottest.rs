// SPDX-License-Identifier: BSD-2-Clause
//! The objects with the most hits per second, each with the request that finds it: a peer with an empty cache asks for them.
//!
//! An object knows its URL only by its tag (`tag_urls`), so objects without one aren't found. The walk holds the lock of
//! the tags for a few of them at a time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use message::vary::VaryEntries;

use crate::cache::Cache;
use crate::objcore::{Objcore, ObjcoreStage};

type HeaderPair = (Box<[u8]>, Box<[u8]>);

pub struct HotObject {
    pub host: Box<[u8]>,
    pub url: Box<[u8]>,
    /// Headers of the request that select this variant, with their values.
    pub selecting: Vec<HeaderPair>,
    /// Hits per second of its age.
    pub rate: f64,
    pub body_bytes: u64,
}

struct Candidate {
    rate: f64,
    oc: Arc<Objcore>,
    tag: Box<[u8]>,
}

/// The candidate with the lowest rate is the greatest, so that a heap gives it away first.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rate.total_cmp(&self.rate)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

impl Cache {
    /// The `most` objects with the highest rate of hits, the hottest first. It walks over all tags: don't call it on a
    /// serving thread.
    pub fn hottest(&self, most: usize) -> Vec<HotObject> {
        let (shared, mut hottest, mut end) = (self.shared(), BinaryHeap::new(), usize::MAX);
        while end > 0 {
            let is_full = hottest.len() >= most;
            let least = hottest.peek().filter(|_| is_full).map_or(0.0, |least: &Candidate| least.rate);
            let (mut found, mut passed) = (Vec::new(), Vec::new());
            end = shared.tags.visit_urls(end, |tag, oc| match self.rate(&oc).filter(|rate| *rate > least) {
                Some(rate) => found.push(Candidate { rate, oc, tag: tag.into() }),
                // Dropped after the unlock: it may be the last handle, and an object takes time to free.
                None => passed.push(oc),
            });
            hottest.extend(found);
            while hottest.len() > most {
                hottest.pop();
            }
        }
        hottest.into_sorted_vec().iter().filter_map(|candidate| self.described(candidate)).collect()
    }

    /// Hits per second of a complete object that lookups find and that may be passed on; `None`: it has none, or isn't one.
    fn rate(&self, oc: &Objcore) -> Option<f64> {
        let is_found = oc.bytes().is_some() && oc.state() == ObjcoreStage::Stored && !oc.is_overtaken();
        if !is_found || oc.flags().is_uncacheable() {
            return None;
        }
        let (now, times, hits) = (self.shared().now(), oc.times(), oc.hits());
        let is_hot = hits > 0 && times.fresh_until(None).0 > now.0;
        is_hot.then(|| f64::from(hits) / now.since(times.t_origin).max(1.0))
    }

    fn described(&self, candidate: &Candidate) -> Option<HotObject> {
        let Candidate { rate, oc, tag } = candidate;
        let (host, url) = message::tags::url(tag)?;
        // A member of a family is found by a body, too.
        if self.shared().tags.keys_of(oc).iter().any(|key| message::tags::is_of_family(key)) {
            return None;
        }
        let entries = oc.with_head_block(|block| {
            let values = block.vary().map(|vary| vary.values).unwrap_or_default();
            let pair = |name: &[u8], value: Option<&[u8]>| value.map(|value| (name.into(), value.into()));
            VaryEntries(values).filter_map(|entry| pair(entry.name, entry.value)).collect()
        });
        let body_bytes = oc.bytes().map_or(0, |bytes| bytes.body_len());
        Some(HotObject { host: host.into(), url: url.into(), selecting: entries?, rate: *rate, body_bytes })
    }
}
