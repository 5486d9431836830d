// SPDX-License-Identifier: BSD-2-Clause
//! State common to all requests: slots, classes, and the counts of reasons why they are no hits.

use std::sync::atomic::AtomicI64;

use base::Real;
use params::Params;
use tables::counters::NoHitCounts;

use crate::admission::Admission;
use crate::bots::Bots;
use crate::classes::Classes;
use crate::req::digest::KnownDigests;

pub struct Requests {
    pub admission: Admission,
    pub classes: Classes,
    pub bots: Bots,
    pub(crate) pipes: AtomicI64,
    pub(crate) no_hit: &'static NoHitCounts,
    pub(crate) digests: KnownDigests,
    /// This server's element of Via.
    pub(crate) via: String,
}

impl Requests {
    /// `class_key` signs the tokens of waiting rooms.
    pub(crate) fn new(
        params: &Params,
        via: String,
        class_key: [u8; 32],
        no_hit: &'static NoHitCounts,
        now: Real,
    ) -> Self {
        Requests {
            admission: Admission::new(params),
            classes: Classes::new(class_key, now),
            bots: Bots::new(u64::from_le_bytes(*class_key.first_chunk().expect("a key has more bytes"))),
            pipes: AtomicI64::new(0),
            no_hit,
            digests: KnownDigests::default(),
            via,
        }
    }
}
