// SPDX-License-Identifier: BSD-2-Clause
//! An object's record: what follows the head of an entry of that kind. Fixed fields, the texts, the table of the body's
//! chunks, and the body itself when it is one chunk or less.

use base::Real;
use storage::{HeadLengths, ObjectTimes, Record};

use super::entry::HEAD;
use super::words::{PutWords, WordReader};
use super::{CHUNK, checksum};

const FIELDS: usize = 128;
const CHUNK_LINE: usize = 24;
/// The most bytes that the texts of an object may have together.
pub const MOST_TEXT: usize = 4 << 20;

/// The longest entry that a record makes, so that no damaged or hostile one makes anybody read more.
pub const MOST_ENTRY: u64 = 8 << 20;

/// The second since 1970 from which on nobody wants an object.
pub fn expiry(times: &ObjectTimes<Real>) -> u32 {
    // The conversion saturates, and makes 0 of what is no number.
    (times.t_origin.0 + times.ttl.max(0.0) + times.grace.max(0.0) + times.keep.max(0.0)).ceil() as u32
}

/// The head block, whose parts have the lengths that the record says, and the tags.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ObjectTexts<'a> {
    pub head: &'a [u8],
    pub tags: &'a [u8],
}

impl ObjectTexts<'_> {
    pub fn bytes(&self) -> usize {
        self.head.len() + self.tags.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    pub generation: u64,
    /// The unit of its entry; 0: it follows the table.
    pub at: u64,
    /// Length in bytes: [`CHUNK`] in all but the last.
    pub len: u32,
    pub sum: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct DiskRecord<'a> {
    pub record: Record<Real>,
    /// Generation and unit of the record that this is a copy of, which is no more; zeros: it is the first.
    pub copy_of: (u64, u64),
    pub texts: ObjectTexts<'a>,
    pub chunks: Vec<Chunk>,
    pub body_len: u64,
    /// The body, when it follows. Not yet checked.
    pub inline: &'a [u8],
}

/// Bytes of a record without its entry's head and without a body.
pub fn encoded_len(texts: &ObjectTexts<'_>, chunks: usize) -> usize {
    FIELDS + texts.bytes() + chunks * CHUNK_LINE
}

pub fn encode(
    store_id: u64,
    record: &Record<Real>,
    copy_of: (u64, u64),
    texts: &ObjectTexts<'_>,
    chunks: &[Chunk],
) -> Vec<u8> {
    let Record { xid, ban_seq, times, flags, hits, lengths, .. } = *record;
    assert_eq!(lengths.all(), texts.head.len(), "a head block has the parts that its record tells of");
    let len = encoded_len(texts, chunks.len());
    let mut out = Vec::with_capacity(len);
    out.put_u32(0);
    out.put_u32(len as u32);
    out.put_u64(xid);
    out.put_u64(ban_seq);
    [times.t_origin.0, times.ttl, times.grace, times.keep].into_iter().for_each(|time| out.put_f64(time));
    out.put_u32(flags);
    out.put_u32(hits);
    let HeadLengths { head, spec, values, aux } = lengths;
    [head, spec, values, aux, texts.tags.len() as u32].into_iter().for_each(|part| out.put_u32(part));
    out.put_u32(chunks.len() as u32);
    out.put_u64(copy_of.0);
    out.put_u64(copy_of.1);
    out.resize(FIELDS, 0);
    [texts.head, texts.tags].into_iter().for_each(|text| out.extend_from_slice(text));
    for chunk in chunks {
        out.put_u64(chunk.generation);
        out.put_u64(chunk.at);
        out.put_u32(chunk.len);
        out.put_u32(chunk.sum);
    }
    let sum = checksum(store_id, &out[4..]);
    out[..4].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The record in an entry, head included, whose digest is known from there. `None`: it isn't whole.
pub fn decode(store_id: u64, digest: [u8; 32], entry: &[u8]) -> Option<DiskRecord<'_>> {
    let bytes = entry.get(HEAD..)?;
    let mut words = WordReader(bytes);
    let (sum, len) = (words.u32()?, words.u32()? as usize);
    if len < FIELDS || checksum(store_id, bytes.get(4..len)?) != sum {
        return None;
    }
    let (xid, ban_seq, t_origin) = (words.u64()?, words.u64()?, Real(words.f64()?));
    let times = ObjectTimes { t_origin, ttl: words.f64()?, grace: words.f64()?, keep: words.f64()? };
    let (flags, hits) = (words.u32()?, words.u32()?);
    let lengths = HeadLengths { head: words.u32()?, spec: words.u32()?, values: words.u32()?, aux: words.u32()? };
    let (tags_len, count) = (words.u32()? as usize, words.u32()? as usize);
    let copy_of = (words.u64()?, words.u64()?);
    let mut rest = WordReader(&bytes[FIELDS..len]);
    let texts = ObjectTexts { head: rest.bytes(lengths.all())?, tags: rest.bytes(tags_len)? };
    let chunks = chunks(rest.0, count)?;
    let body_len = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
    let inline = &bytes[len..];
    let record = Record { digest, xid, ban_seq, times, flags, hits, lengths };
    Some(DiskRecord { record, copy_of, texts, chunks, body_len, inline })
}

/// The table of chunks, if it is one: all of a full length but the last, and only an only one in the record itself.
fn chunks(table: &[u8], count: usize) -> Option<Vec<Chunk>> {
    if table.len() != count.checked_mul(CHUNK_LINE)? {
        return None;
    }
    let mut words = WordReader(table);
    let mut chunks = Vec::with_capacity(count);
    for turn in 1..=count {
        let chunk = Chunk { generation: words.u64()?, at: words.u64()?, len: words.u32()?, sum: words.u32()? };
        let is_full = chunk.len as usize == CHUNK || turn == count && (1..CHUNK).contains(&(chunk.len as usize));
        if !is_full || chunk.at == 0 && count > 1 {
            return None;
        }
        chunks.push(chunk);
    }
    Some(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<Real> {
        let times = ObjectTimes { t_origin: Real(1e9), ttl: 10.5, grace: 10.0, keep: 0.0 };
        let lengths = HeadLengths { head: 4, spec: 1, values: 2, aux: 0 };
        Record { digest: [3; 32], xid: 1, ban_seq: 2, times, flags: 5, hits: 6, lengths }
    }

    #[test]
    fn a_record_is_read_back() {
        let texts = ObjectTexts { head: b"HTTPabc", tags: b"t" };
        let chunks = [Chunk { generation: 0, at: 0, len: 4, sum: 9 }];
        let mut entry = vec![0; HEAD];
        entry.extend(encode(1, &record(), (7, 8), &texts, &chunks));
        entry.extend(b"body");
        let decoded = DiskRecord {
            record: record(),
            copy_of: (7, 8),
            texts,
            chunks: chunks.to_vec(),
            body_len: 4,
            inline: b"body",
        };
        assert_eq!(decode(1, [3; 32], &entry), Some(decoded));
        for at in HEAD..entry.len() - 4 {
            let mut wrong = entry.clone();
            wrong[at] ^= 0x10;
            assert_eq!(decode(1, [3; 32], &wrong), None, "byte {at}");
        }
    }

    /// Stores outlive programs: another layout would need another version in the superblock.
    #[test]
    fn the_layout_is_that_of_all_stores_of_this_version() {
        let texts = ObjectTexts { head: b"HTTPabc", tags: b"t" };
        let encoded = encode(1, &record(), (7, 8), &texts, &[Chunk { generation: 9, at: 0, len: 4, sum: 10 }]);
        let times = [1e9_f64, 10.5, 10.0, 0.0].map(f64::to_le_bytes);
        let wide = |words: [u64; 2]| words.map(u64::to_le_bytes).concat();
        let short = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let flags_to_count = short(&[5, 6, 4, 1, 2, 0, 1, 1]);
        let fields = [short(&[160]), wide([1, 2]), times.concat(), flags_to_count, wide([7, 8]), vec![0; 24]].concat();
        assert_eq!(encoded[4..], [fields, b"HTTPabct".to_vec(), wide([9, 0]), short(&[4, 10])].concat());
        assert_eq!(encoded[..4], checksum(1, &encoded[4..]).to_le_bytes());
    }

    #[test]
    fn what_has_no_end_expires_late_and_nonsense_at_once() {
        let times = record().times;
        assert_eq!(expiry(&times), 1_000_000_021);
        assert_eq!(expiry(&ObjectTimes { ttl: 1e300, ..times }), u32::MAX);
        assert_eq!(expiry(&ObjectTimes { t_origin: Real(f64::NAN), ..times }), 0);
    }
}
