// SPDX-License-Identifier: BSD-2-Clause
//! A response head as an object keeps it: little-endian words, a table of lines, then the bytes themselves.
//!
//! ```text
//! u8 format (2)   u8 proto length   u16 status   u16 reason length   u16 lines n
//! n x { u32 length, u16 name length }
//! proto, reason, the lines one after another, each with its CRLF, which its length doesn't count
//! ```
//! Loading is one block copy and a walk over the table. A length that doesn't fit the bytes at hand is an error: the store
//! may be older than this program, or damaged.

use super::line::HeadLine;
use super::{ArenaSpan, Field, Head, HttpVersion, LINE_END};

const FORMAT: u8 = 2;
const FIXED: usize = 8;
const ENTRY: usize = 6;

/// The bytes aren't a stored head of a format that this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadStored;

impl Head {
    /// Appends this response head in stored form. Lines for which `keep` says no are left out.
    pub fn store_to(&self, out: &mut Vec<u8>, mut keep: impl FnMut(&Field<'_>) -> bool) {
        let base = out.len();
        let proto = &self.proto()[..self.proto().len().min(u8::MAX.into())];
        let reason = &self.reason()[..self.reason().len().min(u16::MAX.into())];
        out.extend_from_slice(&[FORMAT, proto.len() as u8]);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&(reason.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        let mut lines = 0u16;
        let mut kept = [0u64; 16];
        let mut more: Vec<bool> = Vec::new();
        for (i, line) in self.lines.iter().enumerate() {
            let keep = keep(&line.field(&self.arena)) && lines < u16::MAX;
            match kept.get_mut(i / 64) {
                Some(word) => *word |= u64::from(keep) << (i % 64),
                None => more.push(keep),
            }
            if keep {
                lines += 1;
                out.extend_from_slice(&(line.range().len() as u32).to_le_bytes());
                out.extend_from_slice(&line.name_len().to_le_bytes());
            }
        }
        out[base + 6..base + 8].copy_from_slice(&lines.to_le_bytes());
        out.extend_from_slice(proto);
        out.extend_from_slice(reason);
        for (i, line) in self.lines.iter().enumerate() {
            let is_kept = kept.get(i / 64).map_or_else(|| more[i - 64 * kept.len()], |word| word >> (i % 64) & 1 == 1);
            if is_kept {
                out.extend_from_slice(&self.arena[line.wire_range()]);
            }
        }
    }

    /// Makes this head the stored one. This head's limits don't count for what is loaded.
    ///
    /// # Errors
    /// [`BadStored`]; the head is then empty.
    pub fn load_from(&mut self, stored: &[u8]) -> Result<(), BadStored> {
        self.clear();
        let head = StoredHead::open(stored)?;
        let (proto, reason) = (head.proto.len() as u32, head.reason.len() as u32);
        self.lines.reserve(head.table.len() / ENTRY);
        let mut end = head.proto.len() + head.reason.len();
        for entry in head.entries() {
            match entry.line(head.body, end) {
                Some((line, next)) => {
                    self.add(line);
                    end = next;
                }
                None => {
                    self.clear();
                    return Err(BadStored);
                }
            }
        }
        self.arena.extend_from_slice(&head.body[..end]);
        self.proto = ArenaSpan { at: 0, len: proto };
        self.reason = ArenaSpan { at: proto, len: reason };
        self.status = head.status;
        self.version = HttpVersion::parse(head.proto);
        Ok(())
    }
}

struct StoredEntry {
    len: usize,
    name_len: usize,
}

impl StoredEntry {
    /// The line, which begins at `at`, and where the next one does; `None`: there is no such line.
    #[inline]
    fn line(&self, body: &[u8], at: usize) -> Option<(HeadLine, usize)> {
        let next = at + self.len + LINE_END.len();
        let text = &body.get(at..next)?[..self.len];
        if self.name_len >= self.len { None } else { Some((HeadLine::new(text, at, self.name_len)?, next)) }
    }
}

/// A stored head looked at in place, for bans and conditional answers that need one field.
#[derive(Clone, Copy, Debug)]
pub struct StoredHead<'a> {
    status: u16,
    proto: &'a [u8],
    reason: &'a [u8],
    table: &'a [u8],
    /// proto, reason and the lines; maybe more.
    body: &'a [u8],
}

impl<'a> StoredHead<'a> {
    /// Checks every length once; the getters then can't fail.
    ///
    /// # Errors
    /// [`BadStored`].
    pub fn parse(stored: &'a [u8]) -> Result<Self, BadStored> {
        let head = Self::open(stored)?;
        let begin = head.proto.len() + head.reason.len();
        head.entries().try_fold(begin, |at, entry| Some(entry.line(head.body, at)?.1)).ok_or(BadStored)?;
        Ok(head)
    }

    /// All but the lines, which aren't checked.
    fn open(stored: &'a [u8]) -> Result<Self, BadStored> {
        let (fixed, rest) = stored.split_first_chunk::<FIXED>().ok_or(BadStored)?;
        let [FORMAT, proto_len, s0, s1, r0, r1, n0, n1] = *fixed else { return Err(BadStored) };
        let lines = usize::from(u16::from_le_bytes([n0, n1]));
        let (table, body) = rest.split_at_checked(lines * ENTRY).ok_or(BadStored)?;
        let (proto, after_proto) = body.split_at_checked(proto_len.into()).ok_or(BadStored)?;
        let reason = after_proto.get(..u16::from_le_bytes([r0, r1]).into()).ok_or(BadStored)?;
        Ok(StoredHead { status: u16::from_le_bytes([s0, s1]), proto, reason, table, body })
    }

    #[inline]
    fn entries(&self) -> impl Iterator<Item = StoredEntry> + use<'a> {
        self.table.as_chunks::<ENTRY>().0.iter().map(|&[a, b, c, d, n0, n1]| StoredEntry {
            len: u32::from_le_bytes([a, b, c, d]) as usize,
            name_len: u16::from_le_bytes([n0, n1]).into(),
        })
    }

    /// Status of the response.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The protocol as text.
    pub fn proto(&self) -> &'a [u8] {
        self.proto
    }

    /// Reason phrase of the response.
    pub fn reason(&self) -> &'a [u8] {
        self.reason
    }

    /// Name and value of each line, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = &self.body[self.proto.len() + self.reason.len()..];
        self.entries().map(move |entry| {
            let (line, after) = rest.split_at(entry.len);
            rest = &after[LINE_END.len()..];
            (&line[..entry.name_len], crate::chars::trim(&line[entry.name_len + 1..]))
        })
    }

    /// The value of the first field of that name (any case).
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        let name = name.as_ref();
        self.fields().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
