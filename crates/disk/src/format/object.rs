// SPDX-License-Identifier: BSD-2-Clause
//! An object's record: what follows the head of an entry of that kind. Fixed fields, the texts, the table of the body's
//! chunks, and the body itself when it is one chunk or less.

use super::entry::HEAD;
use super::words::{PutWords, WordReader};
use super::{CHUNK, checksum};

const FIELDS: usize = 128;
const CHUNK_LINE: usize = 24;
/// The most bytes that the texts of an object may have together.
pub const MOST_TEXT: usize = 4 << 20;

/// The longest entry that a record makes, so that no damaged or hostile one makes anybody read more.
pub const MOST_ENTRY: u64 = 8 << 20;

/// Fixed fields of a record. Times are seconds since 1970.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ObjectFields {
    pub digest: [u8; 32],
    pub xid: u64,
    /// The number of the newest invalidation that it has been judged by, or that was known when its fetch began.
    pub ban_seq: u64,
    /// Start of its lifetime.
    pub t_origin: f64,
    /// TTL in seconds from then on.
    pub ttl: f64,
    pub grace: f64,
    pub keep: f64,
    /// Flags that only the cache reads.
    pub flags: u32,
    pub hits: u32,
    /// Generation and unit of the record that this is a copy of, which is no more; zeros: it is the first.
    pub copy_of: (u64, u64),
}

impl ObjectFields {
    /// The second since 1970 from which on nobody wants it.
    pub fn expiry(&self) -> u32 {
        // The conversion saturates, and makes 0 of what is no number.
        (self.t_origin + self.ttl.max(0.0) + self.grace.max(0.0) + self.keep.max(0.0)).ceil() as u32
    }
}

/// Head, vary spec and values, attributes and tags.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ObjectTexts<'a> {
    pub head: &'a [u8],
    pub spec: &'a [u8],
    pub values: &'a [u8],
    pub aux: &'a [u8],
    pub tags: &'a [u8],
}

impl<'a> ObjectTexts<'a> {
    fn all(&self) -> [&'a [u8]; 5] {
        [self.head, self.spec, self.values, self.aux, self.tags]
    }

    pub fn bytes(&self) -> usize {
        self.all().iter().map(|text| text.len()).sum()
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
    pub fields: ObjectFields,
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

pub fn encode(store_id: u64, fields: &ObjectFields, texts: &ObjectTexts<'_>, chunks: &[Chunk]) -> Vec<u8> {
    let len = encoded_len(texts, chunks.len());
    let mut out = Vec::with_capacity(len);
    out.put_u32(0);
    out.put_u32(len as u32);
    out.put_u64(fields.xid);
    out.put_u64(fields.ban_seq);
    [fields.t_origin, fields.ttl, fields.grace, fields.keep].into_iter().for_each(|time| out.put_f64(time));
    out.put_u32(fields.flags);
    out.put_u32(fields.hits);
    texts.all().iter().for_each(|text| out.put_u32(text.len() as u32));
    out.put_u32(chunks.len() as u32);
    out.put_u64(fields.copy_of.0);
    out.put_u64(fields.copy_of.1);
    out.resize(FIELDS, 0);
    texts.all().iter().for_each(|text| out.extend_from_slice(text));
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
    let record = entry.get(HEAD..)?;
    let mut words = WordReader(record);
    let (sum, len) = (words.u32()?, words.u32()? as usize);
    if len < FIELDS || checksum(store_id, record.get(4..len)?) != sum {
        return None;
    }
    let fields = ObjectFields {
        digest,
        xid: words.u64()?,
        ban_seq: words.u64()?,
        t_origin: words.f64()?,
        ttl: words.f64()?,
        grace: words.f64()?,
        keep: words.f64()?,
        flags: words.u32()?,
        hits: words.u32()?,
        copy_of: (0, 0),
    };
    let mut lens = [0; 5];
    for part_len in &mut lens {
        *part_len = words.u32()? as usize;
    }
    let count = words.u32()? as usize;
    let fields = ObjectFields { copy_of: (words.u64()?, words.u64()?), ..fields };
    let mut rest = WordReader(&record[FIELDS..len]);
    let [head, spec, values, aux, tags] = lens.map(|part_len| rest.bytes(part_len));
    let texts = ObjectTexts { head: head?, spec: spec?, values: values?, aux: aux?, tags: tags? };
    let chunks = chunks(rest.0, count)?;
    let body_len = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
    Some(DiskRecord { fields, texts, chunks, body_len, inline: &record[len..] })
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

    fn fields() -> ObjectFields {
        let (t_origin, ttl, grace, keep) = (1e9, 10.5, 10.0, 0.0);
        ObjectFields {
            digest: [3; 32],
            xid: 1,
            ban_seq: 2,
            t_origin,
            ttl,
            grace,
            keep,
            flags: 5,
            hits: 6,
            copy_of: (7, 8),
        }
    }

    #[test]
    fn a_record_is_read_back() {
        let texts = ObjectTexts { head: b"HTTP", spec: b"a", values: b"bc", aux: b"", tags: b"t" };
        let chunks = [Chunk { generation: 0, at: 0, len: 4, sum: 9 }];
        let mut entry = vec![0; HEAD];
        entry.extend(encode(1, &fields(), &texts, &chunks));
        entry.extend(b"body");
        let record = decode(1, [3; 32], &entry).unwrap();
        assert_eq!((record.fields, record.texts, record.inline), (fields(), texts, &b"body"[..]));
        assert_eq!((record.chunks, record.body_len), (chunks.to_vec(), 4));
        for at in HEAD..entry.len() - 4 {
            let mut wrong = entry.clone();
            wrong[at] ^= 0x10;
            assert_eq!(decode(1, [3; 32], &wrong), None, "byte {at}");
        }
    }

    #[test]
    fn what_has_no_end_expires_late_and_nonsense_at_once() {
        assert_eq!(fields().expiry(), 1_000_000_021);
        assert_eq!(ObjectFields { ttl: 1e300, ..fields() }.expiry(), u32::MAX);
        assert_eq!(ObjectFields { t_origin: f64::NAN, ..fields() }.expiry(), 0);
    }
}
