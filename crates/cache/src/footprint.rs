// SPDX-License-Identifier: BSD-2-Clause
//! What the index costs: memory beside the bytes that stores account for. Counted when somebody asks.

use crate::cache::Cache;
use crate::objcore::{Objcore, Tail};

/// The counts of an `Arc`.
const COUNTS: usize = 2 * size_of::<usize>();

/// The memory that the index takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Objcores, also those in progress, with the parts that some have beside their block.
    pub objcores: u64,
    /// Tables from digests to objheads, and objheads of several variants.
    pub tables: u64,
    /// Heaps of expiry times.
    pub expiry: u64,
    pub eviction: u64,
    pub tombstones: u64,
}

impl Cache {
    /// Measures the memory of the index. Locks one shard after the other.
    pub fn footprint(&self) -> Footprint {
        let shared = self.shared();
        let mut sum = Footprint {
            objcores: shared.main.n_objectcore.get() * (size_of::<Objcore>() + COUNTS) as u64,
            eviction: shared.evictors.iter().map(|evictor| evictor.bytes()).sum(),
            tombstones: shared.tombstones.bytes(),
            ..Footprint::default()
        };
        for shard in &shared.shards {
            let shard = shard.lock();
            sum.tables += shard.heads.bytes();
            sum.expiry += shard.heap.bytes();
            sum.objcores += shard.tails * size_of::<Tail>() as u64;
        }
        sum
    }
}

impl Footprint {
    pub fn bytes(&self) -> u64 {
        let Footprint { objcores, tables, expiry, eviction, tombstones } = *self;
        objcores + tables + expiry + eviction + tombstones
    }
}
