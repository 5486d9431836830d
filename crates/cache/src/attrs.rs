// SPDX-License-Identifier: BSD-2-Clause
//! What is known of an object beside its bytes.

use base::{Mono, Vxid};

/// The three lives of an object and when they began. Seconds on the monotonic clock.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Times {
    /// When the object was fresh at the origin (its age runs from here).
    pub t_origin: Mono,
    /// Seconds it is fresh.
    pub ttl: f64,
    /// Seconds it may then be served stale while a new one is fetched.
    pub grace: f64,
    /// Seconds it is then kept for conditional fetches.
    pub keep: f64,
}

impl Times {
    /// When it stops being fresh; `max_ttl` is `req.ttl`.
    pub fn fresh_until(&self, max_ttl: Option<f64>) -> Mono {
        let ttl = max_ttl.filter(|&limit| limit > 0.0 && limit < self.ttl).unwrap_or(self.ttl);
        self.t_origin.plus(ttl)
    }

    /// When its grace ends; the limits are `req.ttl` and `req.grace`.
    pub fn grace_until(&self, max_ttl: Option<f64>, max_grace: Option<f64>) -> Mono {
        let grace = max_grace.filter(|&limit| limit >= 0.0 && limit < self.grace).unwrap_or(self.grace);
        self.fresh_until(max_ttl).plus(grace)
    }

    /// When it goes.
    pub fn dead_at(&self) -> Mono {
        self.t_origin.plus(self.ttl + self.grace + self.keep)
    }
}

/// Facts about an object; the ones the cache doesn't act on are carried for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Uncacheable for its TTL: every request fetches for itself.
    pub const HIT_FOR_MISS: Flags = Flags(1);
    /// Uncacheable for its TTL: every request passes.
    pub const HIT_FOR_PASS: Flags = Flags(2);
    /// Never in the index (set by the cache).
    pub const PRIVATE: Flags = Flags(4);
    /// May be revalidated with a conditional fetch.
    pub const IMSCAND: Flags = Flags(8);
    /// The body is gzip.
    pub const GZIPPED: Flags = Flags(16);
    /// Gzip of several members or with ESI inside (engine's own use).
    pub const CHGCE: Flags = Flags(32);
    /// The body holds ESI instructions (engine's own use).
    pub const ESI: Flags = Flags(64);
    /// Made here, not by a backend (engine's own use).
    pub const SYNTHETIC: Flags = Flags(128);

    /// Whether all of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the object only says "don't cache".
    pub fn is_uncacheable(self) -> bool {
        self.0 & (Self::HIT_FOR_MISS.0 | Self::HIT_FOR_PASS.0) != 0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

/// What a fetch knows of its object when the head is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attrs {
    /// Times; an object whose ttl is not above 0 is never found by a lookup.
    pub times: Times,
    /// The fetch.
    pub xid: Vxid,
    /// Facts.
    pub flags: Flags,
}

/// The variant an object is: the field names of its Vary, and the values the fetch had for them. Both are opaque here.
#[derive(Clone, Copy, Debug)]
pub struct Vary<'a> {
    /// Which fields (given to [`crate::Request::vary_values`]).
    pub spec: &'a [u8],
    /// What they were.
    pub values: &'a [u8],
}
