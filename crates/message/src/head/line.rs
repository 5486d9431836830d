// SPDX-License-Identifier: BSD-2-Clause
//! One field line of a [`Head`](super::Head): where it lies in the arena, and the quick key that name lookups compare first.

use crate::chars::trim_end;

/// Set on a line that a Connection field nominates (see [`crate::hop`]).
pub(crate) const NOMINATED: u16 = 1;

/// A line in the arena: 16 bytes, copied with the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLine {
    at: u32,
    len: u32,
    name_len: u16,
    /// Offset of the value from the line's start.
    value_at: u16,
    key: u16,
    pub(crate) flags: u16,
}

/// First and last letter in lower case: with the length that tells nearly all names apart without looking at the arena.
#[inline]
pub(crate) fn key(name: &[u8]) -> u16 {
    match name {
        [] => 0,
        // What this makes of other characters doesn't matter: it is the same for the same ones.
        [first, ..] => u16::from_be_bytes([first | 0x20, name[name.len() - 1] | 0x20]),
    }
}

/// The bit of a name in [`Head::names`](super::Head): names with different keys mostly have different ones.
#[inline]
pub(crate) fn bit(key: u16) -> u64 {
    1 << (u32::from(key).wrapping_mul(0x9e37_79b1) >> 26)
}

impl HeadLine {
    pub(crate) fn key(&self) -> u16 {
        self.key
    }

    /// The line that lies at `at`; `None` when it is too long to be indexed.
    #[inline]
    pub(crate) fn new(text: &[u8], at: usize, name_len: usize) -> Option<HeadLine> {
        let blanks = super::value_start(&text[name_len + 1..]);
        HeadLine::of_parts(&text[..name_len], at, text.len(), name_len + 1 + blanks)
    }

    /// The same as [`HeadLine::new`] for a line of `len` bytes whose value begins at `value_at`, behind the name.
    #[inline]
    pub(crate) fn of_parts(name: &[u8], at: usize, len: usize, value_at: usize) -> Option<HeadLine> {
        let (value_at, _end) = (u16::try_from(value_at).ok()?, u32::try_from(at + len).ok()?);
        Some(HeadLine {
            at: at as u32,
            len: len as u32,
            name_len: name.len() as u16,
            value_at,
            key: key(name),
            flags: 0,
        })
    }

    pub(crate) fn name_len(&self) -> u16 {
        self.name_len
    }

    #[inline]
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }

    #[inline]
    pub(crate) fn wire_range(&self) -> std::ops::Range<usize> {
        let line = self.range();
        line.start..line.end + super::LINE_END.len()
    }

    #[inline]
    pub(crate) fn value_range(&self) -> std::ops::Range<usize> {
        self.at as usize + usize::from(self.value_at)..self.at as usize + self.len as usize
    }

    pub(crate) fn move_to(&mut self, at: u32) {
        self.at = at;
    }

    #[inline]
    pub(crate) fn text<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.range()]
    }

    #[inline]
    pub(crate) fn name<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &self.text(arena)[..usize::from(self.name_len)]
    }

    #[inline]
    pub(crate) fn value<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        trim_end(&arena[self.value_range()])
    }

    #[inline]
    pub(crate) fn is(&self, key: u16, name: &[u8], arena: &[u8]) -> bool {
        self.key == key && usize::from(self.name_len) == name.len() && same(self.name(arena), name)
    }

    pub(crate) fn field<'a>(&self, arena: &'a [u8]) -> Field<'a> {
        Field { text: self.text(arena), name_len: self.name_len, value_at: self.value_at, flags: self.flags }
    }
}

/// True if two names of the same length are the same in any case, eight letters at a time.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let eights = a.iter().zip(b).all(|(a, b)| same_eight(u64::from_le_bytes(*a), u64::from_le_bytes(*b)));
    eights && same_eight(few(a_rest), few(b_rest))
}

#[inline]
fn same_eight(a: u64, b: u64) -> bool {
    a == b || lower(a) == lower(b)
}

/// Up to seven letters as one number, some of them twice: the same for the same letters.
#[inline]
fn few(text: &[u8]) -> u64 {
    match (text.first_chunk::<4>(), text.last_chunk::<4>(), text) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        (_, _, [first, .., last]) => u64::from(*first) << 16 | u64::from(text[text.len() / 2]) << 8 | u64::from(*last),
        (_, _, [one]) => u64::from(*one),
        _ => 0,
    }
}

/// Eight letters in lower case; other bytes stay as they are.
#[inline]
fn lower(letters: u64) -> u64 {
    const ALL: u64 = 0x0101_0101_0101_0101;
    let low = letters & (0x7f * ALL);
    let from_a = low + (0x80 - u64::from(b'A')) * ALL;
    let beyond_z = low + (0x7f - u64::from(b'Z')) * ALL;
    let upper = (from_a ^ beyond_z) & !letters & (0x80 * ALL);
    letters | upper >> 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::same;

    proptest! {
        #[test]
        fn the_same_in_any_case(pairs in prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 0..40)) {
            let a: Vec<u8> = pairs.iter().map(|(a, ..)| *a).collect();
            // Mostly what differs in case at most.
            let b: Vec<u8> = pairs.iter().map(|(a, b, other)| if *other { *b } else { a ^ (b & 0x20) }).collect();
            prop_assert_eq!(same(&a, &b), a.eq_ignore_ascii_case(&b));
            prop_assert!(same(&a, &a.to_ascii_uppercase()));
        }
    }
}

/// A field line as seen from outside.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    text: &'a [u8],
    name_len: u16,
    value_at: u16,
    flags: u16,
}

impl<'a> Field<'a> {
    /// The name, in the case it came in.
    #[inline]
    pub fn name(&self) -> &'a [u8] {
        &self.text[..usize::from(self.name_len)]
    }

    /// The value without surrounding blanks.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        trim_end(&self.text[usize::from(self.value_at)..])
    }

    /// The whole line without its line end: what Varnish logs and sends.
    #[inline]
    pub fn line(&self) -> &'a [u8] {
        self.text
    }

    /// True if the name is this one, in any case.
    #[inline]
    pub fn is(&self, name: impl AsRef<[u8]>) -> bool {
        self.name().eq_ignore_ascii_case(name.as_ref())
    }

    /// True if a Connection field of the same head nominates it (after [`crate::hop::connection`]).
    pub fn is_nominated(&self) -> bool {
        self.flags & NOMINATED != 0
    }
}

/// The field lines of a head, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    arena: &'a [u8],
    lines: std::slice::Iter<'a, HeadLine>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(arena: &'a [u8], lines: &'a [HeadLine]) -> Self {
        Fields { arena, lines: lines.iter() }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        self.lines.next().map(|l| l.field(self.arena))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.lines.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl<'a> IntoIterator for &'a super::Head {
    type Item = Field<'a>;
    type IntoIter = Fields<'a>;

    fn into_iter(self) -> Fields<'a> {
        self.iter()
    }
}
