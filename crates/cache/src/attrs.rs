// SPDX-License-Identifier: BSD-2-Clause
//! What is known of an object beside its bytes.

use base::Vxid;
use message::Coding;
use storage::ObjectTimes;

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

/// The bits that objcores and records keep: `0 coding:2 esi:1 recoded:1 private:1 reuse:2`, one bit is left.
impl ObjectFlags {
    const PRIVATE: u8 = 1 << 2;
    const RECODED: u8 = 1 << 3;
    /// An ESI program is found out about at the end of a body.
    pub(crate) const ESI: u8 = 1 << 4;
    const CODING: u32 = 5;

    pub(crate) fn bits(self) -> u8 {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        self.reuse as u8
            | bit(self.is_private, Self::PRIVATE)
            | bit(self.is_recoded, Self::RECODED)
            | bit(self.has_esi, Self::ESI)
            | (self.coding as u8) << Self::CODING
    }

    pub(crate) fn of_bits(bits: u8) -> ObjectFlags {
        let reuse = match bits & 3 {
            0 => Reuse::Hit,
            1 => Reuse::HitOrRevalidate,
            2 => Reuse::HitForMiss,
            _ => Reuse::HitForPass,
        };
        const { assert!(Coding::ALL.len() <= 4, "a coding has two bits") };
        ObjectFlags {
            reuse,
            is_private: bits & Self::PRIVATE != 0,
            coding: Coding::ALL[usize::from(bits >> Self::CODING & 3)],
            is_recoded: bits & Self::RECODED != 0,
            has_esi: bits & Self::ESI != 0,
        }
    }

    /// The flags of a stored object from its record; `None` if they are impossible.
    pub(crate) fn of_stored(bits: u32) -> Option<ObjectFlags> {
        let bits = u8::try_from(bits).ok()?;
        (bits & Self::PRIVATE == 0 && bits >> Self::CODING <= 3).then(|| Self::of_bits(bits))
    }
}

/// The attributes of an object that its fetch knows when the head is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attrs {
    /// The object's times. No lookup finds an object whose ttl isn't above 0.
    pub times: ObjectTimes,
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
            let packed = flags.bits();
            assert_eq!(ObjectFlags::of_bits(packed), flags);
            assert_eq!(ObjectFlags::of_bits(packed | ObjectFlags::ESI), ObjectFlags { has_esi: true, ..flags });
            assert_eq!(ObjectFlags::of_stored(packed.into()), (!is_private).then_some(flags));
            seen.push(packed);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..128).collect::<Vec<u8>>(), "each has its own bits, and one is left");
        assert_eq!(
            (ObjectFlags::NONE.bits(), ObjectFlags::of_stored(0x80), ObjectFlags::of_stored(0x100)),
            (0, None, None)
        );
    }
}
