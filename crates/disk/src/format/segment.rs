// SPDX-License-Identifier: BSD-2-Clause
//! The two ends of a segment. Its first block says which life of the segment this is (its generation). Its footer,
//! written once nothing more is added, says what is in it: the table of its objects, removals, a trailer.
//!
//! The table can be made anew from the entries; removals can't, and without them an object that is no more could come
//! back. So they and the trailer are there twice, in blocks of their own.

use super::words::{PutWords, WordReader};
use super::{BLOCK, DigestKey, checksum, removal, removal::Removal};

const HEAD_MAGIC: &[u8; 8] = b"LQSEGMNT";
const END_MAGIC: &[u8; 8] = b"LQSEGEND";

pub const LINE: usize = 40;

/// The generation in a segment's first block, if the store `store_id` has written that there.
pub fn decode_head(block: &[u8], store_id: u64, index: u32) -> Option<u64> {
    let mut words = WordReader(block);
    let is_ours = (words.array()?, words.u64()?) == (*HEAD_MAGIC, store_id);
    let (generation, own_index) = (words.u64()?, words.u32()?);
    let covered = block.len() - words.0.len();
    let is_whole = words.u32()? == checksum(store_id, &block[..covered]);
    (is_ours && is_whole && own_index == index && generation != 0).then_some(generation)
}

pub fn encode_head(store_id: u64, index: u32, generation: u64) -> Vec<u8> {
    let mut out = HEAD_MAGIC.to_vec();
    out.put_u64(store_id);
    out.put_u64(generation);
    out.put_u32(index);
    let sum = checksum(store_id, &out);
    out.put_u32(sum);
    out.resize(BLOCK, 0);
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FooterLine {
    pub key: DigestKey,
    pub ban_seq: u64,
    /// The unit of its entry, counted from the segment's first.
    pub offset: u32,
    pub expiry: u32,
    pub units: u32,
    /// Bytes of its body in KB, rounded up.
    pub body_kb: u32,
}

impl FooterLine {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key);
        out.put_u64(self.ban_seq);
        [self.offset, self.expiry, self.units, self.body_kb].into_iter().for_each(|word| out.put_u32(word));
    }

    fn decode(bytes: &[u8; LINE]) -> FooterLine {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut key = [0; 16];
        key.copy_from_slice(&bytes[..16]);
        let ban_seq = u64::from(word(16)) | u64::from(word(20)) << 32;
        FooterLine { key, ban_seq, offset: word(24), expiry: word(28), units: word(32), body_kb: word(36) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Trailer {
    pub generation: u64,
    /// End of its entries, in bytes from its start.
    pub end: u32,
    pub lines: u32,
    pub lines_sum: u32,
    /// Number of removals in each of the two copies.
    pub removals: u32,
    pub removals_sum: u32,
    pub least_ban_seq: u64,
    /// The generation whose end was on stable storage before this one's was begun; 0: none.
    pub previous: u64,
}

/// Offsets of a footer's parts, in bytes from its first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FooterParts {
    pub removals: [u64; 2],
    pub trailers: [u64; 2],
    pub len: u64,
}

impl FooterParts {
    /// The offsets in a footer of so many lines and removals.
    pub fn of(lines: usize, removals: usize) -> FooterParts {
        let (lines, copy) = (whole_blocks(lines * LINE), whole_blocks(removals * removal::BYTES));
        let trailers = lines + 2 * copy;
        let block = BLOCK as u64;
        FooterParts {
            removals: [lines, lines + copy],
            trailers: [trailers, trailers + block],
            len: trailers + 2 * block,
        }
    }
}

fn whole_blocks(bytes: usize) -> u64 {
    bytes.next_multiple_of(BLOCK) as u64
}

impl Trailer {
    /// The trailer in one of a segment's last two blocks, if it is that of `generation`.
    pub fn decode(block: &[u8], store_id: u64, generation: u64) -> Option<Trailer> {
        let mut words = WordReader(block);
        let is_ours = (words.array()?, words.u64()?) == (*END_MAGIC, store_id);
        let own = Trailer {
            generation: words.u64()?,
            end: words.u32()?,
            lines: words.u32()?,
            lines_sum: words.u32()?,
            removals: words.u32()?,
            removals_sum: words.u32()?,
            least_ban_seq: words.u64()?,
            previous: words.u64()?,
        };
        let covered = block.len() - words.0.len();
        let is_whole = words.u32()? == checksum(store_id, &block[..covered]);
        (is_ours && is_whole && own.generation == generation).then_some(own)
    }

    fn encode(&self, store_id: u64) -> Vec<u8> {
        let mut out = END_MAGIC.to_vec();
        out.put_u64(store_id);
        out.put_u64(self.generation);
        let words = [self.end, self.lines, self.lines_sum, self.removals, self.removals_sum];
        words.into_iter().for_each(|word| out.put_u32(word));
        out.put_u64(self.least_ban_seq);
        out.put_u64(self.previous);
        let sum = checksum(store_id, &out);
        out.put_u32(sum);
        out.resize(BLOCK, 0);
        out
    }

    pub fn parts(&self) -> FooterParts {
        FooterParts::of(self.lines as usize, self.removals as usize)
    }

    /// The lines, read from the beginning of the footer. `None`: they aren't whole.
    pub fn decode_lines(&self, bytes: &[u8], store_id: u64) -> Option<Vec<FooterLine>> {
        let bytes = bytes.get(..(self.lines as usize).checked_mul(LINE)?)?;
        let is_whole = checksum(store_id, bytes) == self.lines_sum;
        is_whole.then(|| bytes.as_chunks().0.iter().map(FooterLine::decode).collect())
    }

    /// The removals, read from either copy. `None`: this copy isn't whole.
    pub fn decode_removals(&self, bytes: &[u8], store_id: u64) -> Option<Vec<Removal>> {
        let bytes = bytes.get(..(self.removals as usize).checked_mul(removal::BYTES)?)?;
        let is_whole = checksum(store_id, bytes) == self.removals_sum;
        is_whole.then(|| removal::decode_all(bytes))?
    }
}

/// A footer, whose trailer is completed by what it stands behind.
pub fn encode_footer(store_id: u64, trailer: Trailer, lines: &[FooterLine], removals: &[Removal]) -> Vec<u8> {
    let parts = FooterParts::of(lines.len(), removals.len());
    let (mut table, mut copy) = (Vec::with_capacity(parts.len as usize), Vec::new());
    lines.iter().for_each(|line| line.encode(&mut table));
    removals.iter().for_each(|removal| removal.encode(&mut copy));
    let trailer = Trailer {
        lines: lines.len() as u32,
        lines_sum: checksum(store_id, &table),
        removals: removals.len() as u32,
        removals_sum: checksum(store_id, &copy),
        least_ban_seq: lines.iter().map(|line| line.ban_seq).min().unwrap_or(u64::MAX),
        ..trailer
    };
    for at in parts.removals {
        table.resize(at as usize, 0);
        table.extend_from_slice(&copy);
    }
    table.resize(parts.trailers[0] as usize, 0);
    let block = trailer.encode(store_id);
    table.extend_from_slice(&block);
    table.extend_from_slice(&block);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_read_back_and_only_where_they_belong() {
        let block = encode_head(5, 3, 77);
        assert_eq!(decode_head(&block, 5, 3), Some(77));
        assert_eq!((decode_head(&block, 5, 4), decode_head(&block, 6, 3)), (None, None));
        for cut in 0..32 {
            assert_eq!((decode_head(&block[..cut], 5, 3), decode_head(&[7; 32][..cut], 5, 3)), (None, None), "{cut}");
        }

        let line = FooterLine { key: [1; 16], ban_seq: 9, offset: 64, expiry: 8, units: 7, body_kb: 6 };
        let removals = [Removal::Key { key: [2; 16], before: 4 }, Removal::Record { generation: 1, at: 2 }];
        let trailer = Trailer { generation: 77, end: 8192, previous: 76, ..Trailer::default() };
        let bytes = encode_footer(5, trailer, &[line], &removals);
        let parts = FooterParts::of(1, 2);
        assert_eq!(bytes.len() as u64, parts.len);
        for at in parts.trailers {
            let read = Trailer::decode(&bytes[at as usize..][..BLOCK], 5, 77).unwrap();
            assert_eq!((read.least_ban_seq, read.previous, read.end), (9, 76, 8192));
            assert_eq!((read.parts(), read.decode_lines(&bytes, 5)), (parts, Some(vec![line])));
            for copy in parts.removals {
                assert_eq!(read.decode_removals(&bytes[copy as usize..], 5), Some(removals.to_vec()));
            }
            assert_eq!(Trailer::decode(&bytes[at as usize..], 5, 78), None);
        }
    }
}
