// SPDX-License-Identifier: BSD-2-Clause
//! An entry of a segment: a head of one unit that says what follows and where it was written, so that what an earlier
//! life of the segment or another store has left there is never taken for it.

use super::words::{PutWords, WordReader};
use super::{UNIT, checksum};

const MAGIC: u32 = u32::from_le_bytes(*b"LQEN");

pub const HEAD: usize = UNIT as usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskEntryKind {
    Object,
    /// A chunk of the body of an object whose record follows later.
    Part,
    Removals,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryHead {
    pub kind: DiskEntryKind,
    /// The generation of the segment it was written for.
    pub generation: u64,
    /// The unit of the device that it is at.
    pub at: u64,
    /// Bytes of the entry, this head included.
    pub len: u32,
    /// For an object, its digest; for a part, digest and number of the chunk; for removals, a checksum.
    pub own: [u8; 32],
}

impl EntryHead {
    pub fn encode(&self, store_id: u64) -> [u8; HEAD] {
        let mut out = Vec::with_capacity(HEAD);
        out.put_u32(MAGIC);
        out.put_u32(match self.kind {
            DiskEntryKind::Object => 1,
            DiskEntryKind::Part => 2,
            DiskEntryKind::Removals => 3,
        });
        out.put_u64(self.generation);
        out.put_u64(self.at);
        out.put_u32(self.len);
        out.put_u32(0);
        out.extend_from_slice(&self.own);
        let sum = checksum(store_id, &out);
        out[28..32].copy_from_slice(&sum.to_le_bytes());
        out.try_into().expect("the words above make up one unit")
    }

    /// The head at the beginning of `bytes`, if it is one that the store `store_id` has written at `at` in `generation`.
    pub fn decode(bytes: &[u8], store_id: u64, generation: u64, at: u64) -> Option<EntryHead> {
        let mut unit: [u8; HEAD] = bytes.get(..HEAD)?.try_into().ok()?;
        let mut words = WordReader(&bytes[..HEAD]);
        if words.u32()? != MAGIC {
            return None;
        }
        let kind = match words.u32()? {
            1 => DiskEntryKind::Object,
            2 => DiskEntryKind::Part,
            3 => DiskEntryKind::Removals,
            _ => return None,
        };
        let head = EntryHead { kind, generation: words.u64()?, at: words.u64()?, len: words.u32()?, own: [0; 32] };
        let sum = words.u32()?;
        let head = EntryHead { own: words.array()?, ..head };
        unit[28..32].fill(0);
        let is_here = head.generation == generation && head.at == at && head.len as usize >= HEAD;
        (is_here && sum == checksum(store_id, &unit)).then_some(head)
    }

    pub fn units(&self) -> u64 {
        u64::from(self.len).div_ceil(UNIT)
    }
}
