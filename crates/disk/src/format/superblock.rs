// SPDX-License-Identifier: BSD-2-Clause
//! The superblock: whose store this is and how it is cut. In the first two blocks of the device, twice the same; written
//! when the store is made, and when it is bound to another life of its journal: one after the other then.

use super::words::{PutWords, WordReader};
use super::{BLOCK, FIRST_SEGMENT, UNIT, VERSION, checksum};

const MAGIC: &[u8; 8] = b"LACQDISK";

/// The least number of segments: one open, one prepared, one being sealed, one being reclaimed.
pub const LEAST_SEGMENTS: u32 = 4;
/// The shortest segment that is of any use.
pub const LEAST_SEGMENT: u64 = 16 * BLOCK as u64;
/// The longest: offsets within a segment are 32 bits.
pub const LONGEST_SEGMENT: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Drawn when the store was made.
    pub store_id: u64,
    /// Bytes of a segment, whole blocks.
    pub segment_bytes: u64,
    pub segments: u32,
    /// The number of the journal that says what of it was invalidated; 0: none does.
    pub journal: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundSuperblock {
    Ours(Superblock),
    OtherVersion(u32),
    Damaged,
    Blank,
    Foreign,
}

impl Superblock {
    /// A device of `len` bytes cut into segments of `segment_bytes`; `None` when it is too short.
    pub fn cut(store_id: u64, len: u64, segment_bytes: u64) -> Option<Superblock> {
        let segments = len.checked_sub(FIRST_SEGMENT)? / segment_bytes;
        let own = Superblock { store_id, segment_bytes, segments: u32::try_from(segments).ok()?, journal: 0 };
        own.is_sound().then_some(own)
    }

    /// Bytes of the device that it speaks of.
    pub fn end(&self) -> u64 {
        FIRST_SEGMENT + self.segment_bytes * u64::from(self.segments)
    }

    /// True if a device of `len` bytes has room for all segments, and for no further one.
    pub fn fits(&self, len: u64) -> bool {
        (self.end()..self.end() + self.segment_bytes).contains(&len)
    }

    pub fn segment_start(&self, index: u32) -> u64 {
        FIRST_SEGMENT + self.segment_bytes * u64::from(index)
    }

    pub fn segment_at(&self, unit: u64) -> Option<u32> {
        let index = (unit.checked_mul(UNIT)?).checked_sub(FIRST_SEGMENT)? / self.segment_bytes;
        u32::try_from(index).ok().filter(|&index| index < self.segments)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(VERSION);
        out.put_u32(BLOCK as u32);
        out.put_u64(self.store_id);
        out.put_u64(self.segment_bytes);
        out.put_u32(self.segments);
        out.put_u64(self.journal);
        let sum = checksum(0, &out);
        out.put_u32(sum);
        out.resize(BLOCK, 0);
        out
    }

    pub fn decode(block: &[u8]) -> FoundSuperblock {
        if block.iter().all(|&byte| byte == 0) {
            return FoundSuperblock::Blank;
        }
        let mut words = WordReader(block);
        if words.array() != Some(*MAGIC) {
            return FoundSuperblock::Foreign;
        }
        match words.u32() {
            Some(VERSION) => Self::fields(block, words).map_or(FoundSuperblock::Damaged, FoundSuperblock::Ours),
            Some(version) => FoundSuperblock::OtherVersion(version),
            None => FoundSuperblock::Damaged,
        }
    }

    fn fields(block: &[u8], mut words: WordReader<'_>) -> Option<Superblock> {
        let block_bytes = words.u32()?;
        let own = Superblock {
            store_id: words.u64()?,
            segment_bytes: words.u64()?,
            segments: words.u32()?,
            journal: words.u64()?,
        };
        let covered = block.len() - words.0.len();
        let is_whole = words.u32()? == checksum(0, &block[..covered]);
        (is_whole && block_bytes == BLOCK as u32 && own.is_sound()).then_some(own)
    }

    fn is_sound(&self) -> bool {
        self.segments >= LEAST_SEGMENTS
            && (LEAST_SEGMENT..=LONGEST_SEGMENT).contains(&self.segment_bytes)
            && self.segment_bytes.is_multiple_of(BLOCK as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_is_read_back() {
        let own = Superblock { journal: 9, ..Superblock::cut(7, 1 << 20, LEAST_SEGMENT).unwrap() };
        assert_eq!(own.segments, 15);
        assert_eq!(Superblock::decode(&own.encode()), FoundSuperblock::Ours(own));
    }

    #[test]
    fn what_isnt_one_is_told_apart() {
        let mut block = Superblock::cut(7, 1 << 20, LEAST_SEGMENT).unwrap().encode();
        block[20] ^= 1;
        assert_eq!(Superblock::decode(&block), FoundSuperblock::Damaged);
        block[8] = 9;
        assert_eq!(Superblock::decode(&block), FoundSuperblock::OtherVersion(9));
        block[0] = 0;
        assert_eq!(Superblock::decode(&block), FoundSuperblock::Foreign);
        assert_eq!(Superblock::decode(&[0; BLOCK]), FoundSuperblock::Blank);
        assert_eq!(Superblock::cut(7, 4 * LEAST_SEGMENT, LEAST_SEGMENT), None);
    }
}
