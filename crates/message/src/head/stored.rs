// SPDX-License-Identifier: BSD-2-Clause
//! A response head as an object keeps it: little-endian words, a table of lines, then the bytes themselves.
//!
//! ```text
//! u8 format (1)   u8 proto length   u16 status   u16 reason length   u16 lines n
//! n x { u32 length, u16 name length, u16 offset of the value }
//! proto, reason, the lines' bytes one after another
//! ```
//! Loading is one block copy and a walk over the table. A length that doesn't fit the bytes at hand is an error: the store
//! may be older than this program, or damaged.

use super::line::Line;
use super::{Field, Head, Span, Version};

const FORMAT: u8 = 1;
const FIXED: usize = 8;
const ENTRY: usize = 8;

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
                out.extend_from_slice(&line.value_at().to_le_bytes());
            }
        }
        out[base + 6..base + 8].copy_from_slice(&lines.to_le_bytes());
        out.extend_from_slice(proto);
        out.extend_from_slice(reason);
        for (i, line) in self.lines.iter().enumerate() {
            let keep = kept.get(i / 64).map_or_else(|| more[i - 64 * kept.len()], |word| word >> (i % 64) & 1 == 1);
            if keep {
                out.extend_from_slice(line.text(&self.arena));
            }
        }
    }

    /// Makes this head the stored one. This head's limits don't count for what is loaded.
    ///
    /// # Errors
    /// [`BadStored`]; the head is then empty.
    pub fn load_from(&mut self, stored: &[u8]) -> Result<(), BadStored> {
        self.clear();
        let head = StoredHead::parse(stored)?;
        let (proto, reason) = (head.proto.len() as u32, head.reason.len() as u32);
        self.lines.reserve(head.table.len() / ENTRY);
        let mut at = (proto + reason) as usize;
        for entry in head.table.chunks_exact(ENTRY) {
            let (len, name_len, value_at) = entry_parts(entry);
            let text = &head.body[at..at + len];
            self.add(Line::from_parts(text, at as u32, name_len, value_at));
            at += len;
        }
        self.arena.extend_from_slice(&head.body[..at]);
        self.proto = Span { at: 0, len: proto };
        self.reason = Span { at: proto, len: reason };
        self.status = head.status;
        self.version = Version::parse(head.proto);
        Ok(())
    }
}

fn entry_parts(entry: &[u8]) -> (usize, u16, u16) {
    let len = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
    (len, u16::from_le_bytes([entry[4], entry[5]]), u16::from_le_bytes([entry[6], entry[7]]))
}

/// A stored head looked at in place, for bans and conditional answers that need one field.
#[derive(Clone, Copy, Debug)]
pub struct StoredHead<'a> {
    status: u16,
    proto: &'a [u8],
    reason: &'a [u8],
    table: &'a [u8],
    /// proto, reason and the lines.
    body: &'a [u8],
}

impl<'a> StoredHead<'a> {
    /// Checks every length once; the getters then can't fail.
    ///
    /// # Errors
    /// [`BadStored`].
    pub fn parse(stored: &'a [u8]) -> Result<Self, BadStored> {
        let fixed = stored.get(..FIXED).ok_or(BadStored)?;
        if fixed[0] != FORMAT {
            return Err(BadStored);
        }
        let proto_len = usize::from(fixed[1]);
        let status = u16::from_le_bytes([fixed[2], fixed[3]]);
        let reason_len = usize::from(u16::from_le_bytes([fixed[4], fixed[5]]));
        let lines = usize::from(u16::from_le_bytes([fixed[6], fixed[7]]));
        let table = stored.get(FIXED..FIXED + lines * ENTRY).ok_or(BadStored)?;
        let body = &stored[FIXED + lines * ENTRY..];
        let mut end = proto_len + reason_len;
        for entry in table.chunks_exact(ENTRY) {
            let (len, name_len, value_at) = entry_parts(entry);
            if name_len >= value_at || usize::from(value_at) > len {
                return Err(BadStored);
            }
            end = end.checked_add(len).ok_or(BadStored)?;
        }
        let body = body.get(..end).ok_or(BadStored)?;
        if u32::try_from(end).is_err() {
            return Err(BadStored);
        }
        let (proto, reason) = (&body[..proto_len], &body[proto_len..proto_len + reason_len]);
        Ok(StoredHead { status, proto, reason, table, body })
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The protocol as text.
    pub fn proto(&self) -> &'a [u8] {
        self.proto
    }

    /// The reason phrase.
    pub fn reason(&self) -> &'a [u8] {
        self.reason
    }

    /// Name and value of each line, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = &self.body[self.proto.len() + self.reason.len()..];
        self.table.chunks_exact(ENTRY).map(move |entry| {
            let (len, name_len, value_at) = entry_parts(entry);
            let (line, after) = rest.split_at(len);
            rest = after;
            (&line[..usize::from(name_len)], crate::chars::trim_end(&line[usize::from(value_at)..]))
        })
    }

    /// The value of the first field of that name (any case).
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        let name = name.as_ref();
        self.fields().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
