// SPDX-License-Identifier: BSD-2-Clause
//! What is known of an object beside its bytes.

use base::{Mono, Vxid};
use message::Coding;
use storage::ObjectLives;

/// TTL, grace and keep of an object and the moment at which they began, in seconds on the monotonic clock. Grace and
/// keep have the precision of an `f32`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ObjectTimes {
    /// Moment at which the object was fresh at the origin; its age counts from here.
    pub t_origin: Mono,
    /// Seconds it is fresh.
    pub ttl: f64,
    /// Seconds it may then be served stale while a new one is fetched.
    pub grace: f64,
    /// Seconds it is then kept for conditional fetches.
    pub keep: f64,
}

impl From<ObjectLives> for ObjectTimes {
    fn from(lives: ObjectLives) -> ObjectTimes {
        let ObjectLives { t_origin, ttl, grace, keep } = lives;
        ObjectTimes { t_origin: Mono(t_origin), ttl, grace, keep }
    }
}

impl From<ObjectTimes> for ObjectLives {
    fn from(times: ObjectTimes) -> ObjectLives {
        let ObjectTimes { t_origin, ttl, grace, keep } = times;
        ObjectLives { t_origin: t_origin.0, ttl, grace, keep }
    }
}

impl ObjectTimes {
    /// The end of the ttl; `max_ttl` is `req.ttl`.
    pub fn fresh_until(&self, max_ttl: Option<f64>) -> Mono {
        let ttl = max_ttl.filter(|&limit| limit > 0.0 && limit < self.ttl).unwrap_or(self.ttl);
        self.t_origin.plus(ttl)
    }

    /// The end of grace; the limits are `req.ttl` and `req.grace`.
    pub fn grace_until(&self, max_ttl: Option<f64>, max_grace: Option<f64>) -> Mono {
        let grace = max_grace.filter(|&limit| limit >= 0.0 && limit < self.grace).unwrap_or(self.grace);
        self.fresh_until(max_ttl).plus(grace)
    }

    /// The end of keep, when the object is removed.
    pub fn dead_at(&self) -> Mono {
        self.t_origin.plus(self.ttl + self.grace + self.keep)
    }
}

/// The use that later requests may make of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Reuse {
    /// Lookups may hit the object until its times are over.
    #[default]
    Hit,
    /// Like `Hit`, and the object may be revalidated with a conditional fetch.
    HitOrRevalidate,
    /// Uncacheable for its TTL: every request fetches for itself.
    HitForMiss,
    /// Uncacheable for its TTL: every request passes.
    HitForPass,
}

/// Facts about an object; the ones the cache doesn't act on are carried for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectFlags {
    pub reuse: Reuse,
    /// The object is never in the index.
    pub is_private: bool,
    /// The encoding that its filters gave the body or verified, so that it can be undone. A body that no filter looked
    /// at is delivered as it came: its encoding is [`Coding::Identity`], whatever Content-Encoding says.
    pub coding: Coding,
    /// A filter changed Content-Encoding: a later 304's must not replace it, and its strong ETag isn't this body's.
    pub is_recoded: bool,
    pub has_esi: bool,
}

impl ObjectFlags {
    pub const NONE: ObjectFlags = ObjectFlags {
        reuse: Reuse::Hit,
        is_private: false,
        coding: Coding::Identity,
        is_recoded: false,
        has_esi: false,
    };
    pub const HIT_FOR_MISS: ObjectFlags = ObjectFlags { reuse: Reuse::HitForMiss, ..ObjectFlags::NONE };
    pub const HIT_FOR_PASS: ObjectFlags = ObjectFlags { reuse: Reuse::HitForPass, ..ObjectFlags::NONE };

    /// True if the object only says "don't cache".
    pub fn is_uncacheable(self) -> bool {
        match self.reuse {
            Reuse::Hit | Reuse::HitOrRevalidate => false,
            Reuse::HitForMiss | Reuse::HitForPass => true,
        }
    }

    /// True if the object was fetched for one request: a pass, or a marker for later requests.
    pub fn is_passed(self) -> bool {
        self.is_private || self.is_uncacheable()
    }
}

/// [`ObjectFlags`] as an objcore keeps them: `0 coding:2 esi:1 recoded:1 private:1 reuse:2`, one bit is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PackedFlags(pub u8);

impl PackedFlags {
    const PRIVATE: u8 = 1 << 2;
    const RECODED: u8 = 1 << 3;
    /// An ESI program is found out about at the end of a body.
    pub const ESI: u8 = 1 << 4;
    const CODING: u32 = 5;

    /// The flags of a stored object from its record; `None` if they are impossible.
    pub fn of_stored(bits: u8) -> Option<PackedFlags> {
        let is_possible = bits & Self::PRIVATE == 0 && bits >> Self::CODING <= 3;
        is_possible.then_some(PackedFlags(bits))
    }

    pub fn unpack(self) -> ObjectFlags {
        let reuse = match self.0 & 3 {
            0 => Reuse::Hit,
            1 => Reuse::HitOrRevalidate,
            2 => Reuse::HitForMiss,
            _ => Reuse::HitForPass,
        };
        const { assert!(Coding::ALL.len() <= 4, "a coding has two bits") };
        ObjectFlags {
            reuse,
            is_private: self.0 & Self::PRIVATE != 0,
            coding: Coding::ALL[usize::from(self.0 >> Self::CODING & 3)],
            is_recoded: self.0 & Self::RECODED != 0,
            has_esi: self.0 & Self::ESI != 0,
        }
    }
}

impl From<ObjectFlags> for PackedFlags {
    fn from(flags: ObjectFlags) -> Self {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        Self(
            flags.reuse as u8
                | bit(flags.is_private, Self::PRIVATE)
                | bit(flags.is_recoded, Self::RECODED)
                | bit(flags.has_esi, Self::ESI)
                | (flags.coding as u8) << Self::CODING,
        )
    }
}

/// The attributes of an object that its fetch knows when the head is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attrs {
    /// The object's times. No lookup finds an object whose ttl isn't above 0.
    pub times: ObjectTimes,
    /// Transaction of the fetch.
    pub xid: Vxid,
    pub flags: ObjectFlags,
}

/// The variant an object is: the field names of its Vary, and the values the fetch had for them. Both are opaque here.
#[derive(Clone, Copy, Debug)]
pub struct VaryKey<'a> {
    pub spec: &'a [u8],
    pub values: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out() {
        let reuses = [Reuse::Hit, Reuse::HitOrRevalidate, Reuse::HitForMiss, Reuse::HitForPass];
        let mut seen = Vec::new();
        for (reuse, coding, bits) in reuses
            .into_iter()
            .flat_map(|reuse| Coding::ALL.map(|coding| (reuse, coding)))
            .flat_map(|(reuse, coding)| (0..8u8).map(move |bits| (reuse, coding, bits)))
        {
            let (is_private, is_recoded, has_esi) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let flags = ObjectFlags { reuse, is_private, coding, is_recoded, has_esi };
            let packed = PackedFlags::from(flags);
            assert_eq!(packed.unpack(), flags);
            let with_esi = PackedFlags(packed.0 | PackedFlags::ESI);
            assert_eq!(with_esi.unpack(), ObjectFlags { has_esi: true, ..flags });
            seen.push(packed.0);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..128).collect::<Vec<u8>>(), "each has its own bits, and one is left");
        assert_eq!(PackedFlags::from(ObjectFlags::NONE), PackedFlags(0));
    }
}
