// SPDX-License-Identifier: BSD-2-Clause
//! A request or response head: one byte arena and a list of lines.
//!
//! Each line lies in the arena with its CRLF, so that lines that lie there as they are sent are sent by one copy.
//! Names keep their case and lines their order (RFC 9110 5.3). Setting a field appends to the arena; what it replaced stays
//! there as garbage until the arena is full and is then squeezed out. A [`Head`] is meant to be pooled: `clear` and
//! `copy_from` keep its capacity, so that a warm one allocates nothing. Both bounds of [`HeadLimits`] are errors
//! ([`LostHeader`]), which the engine logs as `LostHeader`; nothing here panics on what a peer or VCL sent.

mod line;
mod start;
mod stored;
#[cfg(test)]
mod tests;

pub use line::{Field, Fields};
pub use start::HttpVersion;
pub use stored::{BadStored, StoredHead};

use std::borrow::Cow;

use crate::chars::{is_token, trim_start};
use crate::names;

pub(crate) use line::{HeadLine, NOMINATED, key};

/// Limits of a head's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most field lines; [`HeadLimits::new`] takes the start line's slots off `http_max_hdr`.
    pub fields: u16,
    /// Most bytes of all lines together: the analogue of a workspace.
    pub bytes: u32,
}

/// Slots of `http_max_hdr` that the start line takes.
const START_LINE_SLOTS: u32 = 5;

impl Default for HeadLimits {
    /// Varnish's defaults: `http_max_hdr` 64 and a 64 KB workspace.
    fn default() -> Self {
        HeadLimits::new(64, 64 * 1024)
    }
}

impl HeadLimits {
    /// The limits for a value of the parameter `http_max_hdr`, of which the start line takes five, and a workspace of so
    /// many bytes.
    pub const fn new(http_max_hdr: u32, bytes: u32) -> Self {
        let fields = http_max_hdr.saturating_sub(START_LINE_SLOTS);
        HeadLimits { fields: if fields > u16::MAX as u32 { u16::MAX } else { fields as u16 }, bytes }
    }

    /// The value of `http_max_hdr` that they come from.
    pub const fn http_max_hdr(&self) -> u32 {
        self.fields as u32 + START_LINE_SLOTS
    }
}

/// A change didn't fit; the head is as it was before. The engine logs it as `LostHeader` and fails the transaction as
/// Varnish does when a workspace is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostHeader {
    /// More field lines than `http_max_hdr`.
    TooManyFields,
    /// More bytes than the arena may hold.
    NoSpace,
    /// Not a field: the name isn't a token, or the line is too long to be indexed.
    BadField,
}

impl std::fmt::Display for LostHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LostHeader::TooManyFields => "too many header fields",
            LostHeader::NoSpace => "out of workspace",
            LostHeader::BadField => "not a header field",
        })
    }
}

impl std::error::Error for LostHeader {}

const LINE_END: &[u8] = b"\r\n";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArenaSpan {
    at: u32,
    len: u32,
}

impl ArenaSpan {
    /// A range of an arena whose length fits.
    fn at(range: std::ops::Range<usize>) -> ArenaSpan {
        ArenaSpan { at: range.start as u32, len: range.len() as u32 }
    }

    fn slice(self, arena: &[u8]) -> &[u8] {
        &arena[self.at as usize..(self.at + self.len) as usize]
    }
}

/// A request head (method, url, proto) or a response head (proto, status, reason) and its fields.
#[derive(Clone, Debug, Default)]
pub struct Head {
    arena: Vec<u8>,
    lines: Vec<HeadLine>,
    /// A bit for the name of each line there was: most names that are asked for are in no head, and that tells.
    names: u64,
    method: ArenaSpan,
    url: ArenaSpan,
    proto: ArenaSpan,
    reason: ArenaSpan,
    status: u16,
    version: HttpVersion,
    had_absolute_target: bool,
    limits: HeadLimits,
}

impl Head {
    /// An empty head with Varnish's default limits; allocates nothing yet.
    pub fn new() -> Self {
        Head::default()
    }

    /// An empty head with these limits.
    pub fn with_limits(limits: HeadLimits) -> Self {
        Head { limits, ..Head::default() }
    }

    /// The limits for later changes.
    pub fn set_limits(&mut self, limits: HeadLimits) {
        self.limits = limits;
    }

    /// The limits in force.
    pub fn limits(&self) -> HeadLimits {
        self.limits
    }

    /// Empties the head for its next use; capacity and limits stay.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.lines.clear();
        self.names = 0;
        (self.method, self.url, self.proto, self.reason) = Default::default();
        self.status = 0;
        self.version = HttpVersion::default();
        self.had_absolute_target = false;
    }

    pub(crate) fn set_had_absolute_target(&mut self) {
        self.had_absolute_target = true;
    }

    pub(crate) fn had_absolute_target(&self) -> bool {
        self.had_absolute_target
    }

    /// Number of field lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if there is no field line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of the arena in use, garbage included.
    pub fn arena_bytes(&self) -> usize {
        self.arena.len()
    }

    /// All field lines in order.
    pub fn iter(&self) -> Fields<'_> {
        Fields::new(&self.arena, &self.lines)
    }

    /// The `i`-th field line.
    pub fn field(&self, i: usize) -> Option<Field<'_>> {
        self.lines.get(i).map(|line| line.field(&self.arena))
    }

    /// The value of the first field of that name (any case), without surrounding blanks.
    #[inline]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let i = self.find(name.as_ref(), 0)?;
        Some(self.lines[i].value(&self.arena))
    }

    /// The same as [`Head::get`], with the blanks at its end that VCL has set: it sees what it set.
    #[inline]
    pub fn get_as_set(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let i = self.find(name.as_ref(), 0)?;
        Some(&self.arena[self.lines[i].value_range()])
    }

    /// True if a field of that name is present.
    #[inline]
    pub fn has(&self, name: impl AsRef<[u8]>) -> bool {
        self.find(name.as_ref(), 0).is_some()
    }

    /// Number of field lines of that name.
    pub fn count(&self, name: impl AsRef<[u8]>) -> usize {
        self.get_all(name.as_ref()).count()
    }

    /// The values of all fields of that name, in order.
    pub fn get_all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        let key = line::key(name);
        let lines = if self.may_have(key) { &self.lines[..] } else { &[] };
        lines.iter().filter(move |l| l.is(key, name, &self.arena)).map(|l| l.value(&self.arena))
    }

    /// The value of a field that has one line. Several lines of a field that isn't a list are no valid value (RFC 9110 5.3, 5.5).
    pub fn only<'a>(&'a self, name: &'a (impl AsRef<[u8]> + ?Sized)) -> Option<&'a [u8]> {
        let name = name.as_ref();
        let first = self.find(name, 0)?;
        self.find(name, first + 1).is_none().then(|| self.lines[first].value(&self.arena))
    }

    /// The value of a field whose lines are one value (RFC 9110 5.2): joined by `, `, those of Cookie by `; ` (RFC 9113 8.2.3).
    pub fn joined<'a>(&'a self, name: &'a (impl AsRef<[u8]> + ?Sized)) -> Option<Cow<'a, [u8]>> {
        let name = name.as_ref();
        let first = self.find(name, 0)?;
        let value = self.lines[first].value(&self.arena);
        if self.find(name, first + 1).is_none() {
            return Some(value.into());
        }
        let separator: &[u8] = if name.eq_ignore_ascii_case(names::COOKIE.as_bytes()) { b"; " } else { b", " };
        Some(self.get_all(name).collect::<Vec<_>>().join(separator).into())
    }

    #[inline]
    fn find(&self, name: &[u8], from: usize) -> Option<usize> {
        let key = line::key(name);
        if self.may_have(key) { self.find_line(key, name, from) } else { None }
    }

    #[inline]
    fn may_have(&self, key: u16) -> bool {
        self.names & line::bit(key) != 0
    }

    fn find_line(&self, key: u16, name: &[u8], from: usize) -> Option<usize> {
        let rest = self.lines.get(from..)?;
        rest.iter().position(|line| line.is(key, name, &self.arena)).map(|at| from + at)
    }

    /// All lines are added here.
    #[inline]
    fn add(&mut self, line: HeadLine) {
        self.names |= line::bit(line.key());
        self.lines.push(line);
    }

    /// Adds the field `name: value` at the end. The value is taken as it is: VCL may set what it likes, CR and LF included
    /// are the caller's to refuse.
    ///
    /// # Errors
    /// See [`LostHeader`]; nothing is added.
    pub fn append(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), LostHeader> {
        self.append_parts(name, &[value.as_ref()])
    }

    /// The same as [`Head::append`], the value given in pieces.
    ///
    /// # Errors
    /// See [`LostHeader`]; nothing is added.
    pub fn append_parts(&mut self, name: impl AsRef<[u8]>, value: &[&[u8]]) -> Result<(), LostHeader> {
        let name = name.as_ref();
        if !is_token(name) {
            return Err(LostHeader::BadField);
        }
        self.append_known(name, value)
    }

    /// The same as [`Head::append_parts`] for a name that is known to be a token, as those of [`crate::names`] are.
    ///
    /// # Errors
    /// See [`LostHeader`]; nothing is added.
    pub fn append_known(&mut self, name: impl AsRef<[u8]>, value: &[&[u8]]) -> Result<(), LostHeader> {
        let name = name.as_ref();
        debug_assert!(is_token(name));
        let value_len: usize = value.iter().map(|part| part.len()).sum();
        let len = name.len() + 2 + value_len;
        self.room_for_line()?;
        self.room(len + LINE_END.len())?;
        let at = self.arena.len();
        self.arena.reserve(len + LINE_END.len());
        self.arena.extend_from_slice(name);
        self.arena.extend_from_slice(b": ");
        value.iter().for_each(|part| self.arena.extend_from_slice(part));
        self.arena.extend_from_slice(LINE_END);
        let blanks = value_start(&self.arena[at + name.len() + 2..]);
        self.add_or_forget(at, HeadLine::of_parts(name, at, len, name.len() + 2 + blanks))
    }

    /// Adds a whole line as received: `name:value` without its line end. Blanks around the value are kept in the line, and
    /// are no part of the value.
    ///
    /// # Errors
    /// See [`LostHeader`]; `BadField` when there is no colon or no token before it.
    pub fn append_line(&mut self, text: &[u8]) -> Result<(), LostHeader> {
        let name_len = memchr::memchr(b':', text).ok_or(LostHeader::BadField)?;
        if !is_token(&text[..name_len]) {
            return Err(LostHeader::BadField);
        }
        self.append_checked_line(text, name_len)
    }

    /// The same as [`Head::append_line`] for a codec that has already found the colon at `name_len` and checked the
    /// name.
    ///
    /// # Errors
    /// See [`LostHeader`].
    pub fn append_checked_line(&mut self, text: &[u8], name_len: usize) -> Result<(), LostHeader> {
        debug_assert_eq!(text.get(name_len), Some(&b':'));
        self.room_for_line()?;
        self.push_line(text, name_len)
    }

    /// Makes it the last line, in the arena's tail.
    fn push_line(&mut self, text: &[u8], name_len: usize) -> Result<(), LostHeader> {
        self.room(text.len() + LINE_END.len())?;
        let at = self.arena.len();
        self.arena.extend_from_slice(text);
        self.arena.extend_from_slice(LINE_END);
        self.add_or_forget(at, HeadLine::new(text, at, name_len))
    }

    /// Empties the head and lays into it, unread, what a codec has received of one. The codec then says where in it the start
    /// line's parts and the lines are.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn lay(&mut self, received: &[u8]) -> Result<(), LostHeader> {
        self.clear();
        self.room(received.len())?;
        self.arena.extend_from_slice(received);
        Ok(())
    }

    /// The same as [`Head::append_checked_line`] for a line that lies at `range` of what was laid, followed by CRLF.
    ///
    /// # Errors
    /// See [`LostHeader`].
    pub fn append_laid_line(&mut self, range: std::ops::Range<usize>, name_len: usize) -> Result<(), LostHeader> {
        debug_assert!(self.arena[range.end..].starts_with(LINE_END));
        self.room_for_line()?;
        let at = range.start;
        self.add(HeadLine::new(&self.arena[range], at, name_len).ok_or(LostHeader::BadField)?);
        Ok(())
    }

    /// Adds the line of the arena's tail from `at` on, or takes that away again.
    fn add_or_forget(&mut self, at: usize, line: Option<HeadLine>) -> Result<(), LostHeader> {
        match line {
            Some(line) => {
                self.add(line);
                Ok(())
            }
            None => {
                self.arena.truncate(at);
                Err(LostHeader::BadField)
            }
        }
    }

    /// Puts a whole line (`name: value`) in the place of the `i`-th.
    ///
    /// # Errors
    /// See [`LostHeader`]; `BadField` when there is no such line, too. The old line stays.
    pub fn replace_line(&mut self, i: usize, text: &[u8]) -> Result<(), LostHeader> {
        let name_len = memchr::memchr(b':', text).ok_or(LostHeader::BadField)?;
        if i >= self.lines.len() || !is_token(&text[..name_len]) {
            return Err(LostHeader::BadField);
        }
        self.push_line(text, name_len)?;
        self.lines.swap_remove(i);
        Ok(())
    }

    /// Replaces all fields of that name by one at the end, as Varnish does.
    ///
    /// # Errors
    /// See [`LostHeader`]; the old fields stay.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), LostHeader> {
        self.set_parts(name, &[value.as_ref()])
    }

    /// The same as [`Head::set`], the value given in pieces.
    ///
    /// # Errors
    /// See [`LostHeader`]; the old fields stay.
    pub fn set_parts(&mut self, name: impl AsRef<[u8]>, value: &[&[u8]]) -> Result<(), LostHeader> {
        let name = name.as_ref();
        let Some(first) = self.find(name, 0) else { return self.append_parts(name, value) };
        // One slot more for a moment: the old line goes when the new one is in.
        let limits = self.limits;
        self.limits.fields = limits.fields.saturating_add(1);
        let added = self.append_parts(name, value);
        self.limits = limits;
        added?;
        let last = self.lines.len() - 1;
        let (key, arena) = (line::key(name), &self.arena);
        let mut i = 0;
        self.lines.retain(|l| {
            let keep = i < first || i == last || !l.is(key, name, arena);
            i += 1;
            keep
        });
        Ok(())
    }

    /// Removes all fields of that name and says how many there were.
    pub fn unset(&mut self, name: impl AsRef<[u8]>) -> usize {
        let name = name.as_ref();
        let (key, before, arena) = (line::key(name), self.lines.len(), &self.arena);
        if !self.may_have(key) {
            return 0;
        }
        self.lines.retain(|l| !l.is(key, name, arena));
        before - self.lines.len()
    }

    /// Keeps the fields for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&Field<'_>) -> bool) {
        let arena = &self.arena;
        self.lines.retain(|l| keep(&l.field(arena)));
    }

    /// Joins all fields of that name into the first one with `, `. Says whether there was more than one.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`]; the fields stay apart.
    pub fn collect(&mut self, name: impl AsRef<[u8]>) -> Result<bool, LostHeader> {
        self.collect_with(name, b", ")
    }

    /// The same as [`Head::collect`] with another separator: `; ` for Cookie.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`]; the fields stay apart.
    pub fn collect_with(&mut self, name: impl AsRef<[u8]>, separator: &[u8]) -> Result<bool, LostHeader> {
        let name = name.as_ref();
        let Some(first) = self.find(name, 0) else { return Ok(false) };
        if self.find(name, first + 1).is_none() {
            return Ok(false);
        }
        let key = line::key(name);
        let need: usize = self
            .lines
            .iter()
            .filter(|l| l.is(key, name, &self.arena))
            .map(|l| l.text(&self.arena).len() + separator.len())
            .sum();
        self.room(need + LINE_END.len())?;
        let at = self.arena.len();
        self.arena.extend_from_within(self.lines[first].range());
        for i in first + 1..self.lines.len() {
            let line = self.lines[i];
            if line.is(key, name, &self.arena) {
                self.arena.extend_from_slice(separator);
                let value = line.value_range();
                let len = line.value(&self.arena).len();
                self.arena.extend_from_within(value.start..value.start + len);
            }
        }
        let joined = HeadLine::new(&self.arena[at..], at, name.len());
        self.arena.extend_from_slice(LINE_END);
        let Some(joined) = joined else {
            self.arena.truncate(at);
            return Err(LostHeader::NoSpace);
        };
        let (mut i, arena) = (0, &self.arena);
        self.lines.retain(|l| {
            let keep = i <= first || !l.is(key, name, arena);
            i += 1;
            keep
        });
        self.lines[first] = joined;
        Ok(true)
    }

    /// Makes this head a copy of `other`: two block copies, no allocation when warm. This head's limits stay and don't
    /// count for what is copied.
    pub fn copy_from(&mut self, other: &Head) {
        self.arena.clear();
        self.arena.extend_from_slice(&other.arena);
        self.lines.clear();
        self.lines.extend_from_slice(&other.lines);
        self.names = other.names;
        (self.method, self.url, self.proto, self.reason) = (other.method, other.url, other.proto, other.reason);
        (self.status, self.version) = (other.status, other.version);
        self.had_absolute_target = other.had_absolute_target;
    }

    /// Adds the fields of `other` for which `keep` says so.
    ///
    /// # Errors
    /// See [`LostHeader`]; the fields before the one that didn't fit are in.
    pub fn append_from(&mut self, other: &Head, mut keep: impl FnMut(&Field<'_>) -> bool) -> Result<(), LostHeader> {
        for field in other.iter().filter(|f| keep(f)) {
            self.append_checked_line(field.line(), field.name().len())?;
        }
        Ok(())
    }

    /// The lines in runs that follow each other in the arena, each with its text in wire form. A line that `is_apart` is
    /// given alone, without a text.
    pub fn runs(&self, is_apart: impl Fn(&Field<'_>) -> bool) -> impl Iterator<Item = (Option<&[u8]>, Fields<'_>)> {
        let mut rest = &self.lines[..];
        std::iter::from_fn(move || {
            let first = rest.first()?;
            let (mut count, mut text) = (1, None);
            if !is_apart(&first.field(&self.arena)) {
                let mut range = first.wire_range();
                let follows =
                    |line: &HeadLine, end| line.wire_range().start == end && !is_apart(&line.field(&self.arena));
                while let Some(line) = rest.get(count).filter(|line| follows(line, range.end)) {
                    (count, range.end) = (count + 1, line.wire_range().end);
                }
                text = Some(&self.arena[range]);
            }
            let (run, later) = rest.split_at(count);
            rest = later;
            Some((text, Fields::new(&self.arena, run)))
        })
    }

    /// Writes the fields and the empty line that ends a head, in wire form.
    pub fn write_fields(&self, out: &mut Vec<u8>) {
        let mut run = 0..0;
        for line in &self.lines {
            let line = line.wire_range();
            if line.start != run.end {
                out.extend_from_slice(&self.arena[run]);
                run = line.start..line.start;
            }
            run.end = line.end;
        }
        out.extend_from_slice(&self.arena[run]);
        out.extend_from_slice(LINE_END);
    }

    fn room_for_line(&self) -> Result<(), LostHeader> {
        if self.lines.len() >= usize::from(self.limits.fields) { Err(LostHeader::TooManyFields) } else { Ok(()) }
    }

    /// Makes sure that `more` bytes may be added to the arena, squeezing garbage out when that is what it takes.
    #[inline]
    fn room(&mut self, more: usize) -> Result<(), LostHeader> {
        let fits = self.arena.len().saturating_add(more) <= self.limits.bytes as usize;
        if fits { Ok(()) } else { self.make_room(more) }
    }

    #[cold]
    fn make_room(&mut self, more: usize) -> Result<(), LostHeader> {
        if self.live_bytes().saturating_add(more) > self.limits.bytes as usize {
            return Err(LostHeader::NoSpace);
        }
        self.squeeze();
        Ok(())
    }

    fn live_bytes(&self) -> usize {
        let start = self.method.len + self.url.len + self.proto.len + self.reason.len;
        start as usize + self.lines.iter().map(|l| l.wire_range().len()).sum::<usize>()
    }

    /// Moves what is live to the front of a new arena. Rare: only VCL that sets fields in great number gets here.
    fn squeeze(&mut self) {
        let mut arena = Vec::with_capacity(self.arena.capacity());
        for span in [&mut self.method, &mut self.url, &mut self.proto, &mut self.reason] {
            let at = arena.len() as u32;
            arena.extend_from_slice(span.slice(&self.arena));
            span.at = at;
        }
        for line in &mut self.lines {
            let at = arena.len() as u32;
            arena.extend_from_slice(&self.arena[line.wire_range()]);
            line.move_to(at);
        }
        self.arena = arena;
    }

    pub(crate) fn lines_mut(&mut self) -> (&[u8], &mut [HeadLine]) {
        (&self.arena, &mut self.lines)
    }
}

impl PartialEq for Head {
    /// Same start line and same lines in the same order.
    fn eq(&self, other: &Self) -> bool {
        self.method() == other.method()
            && self.url() == other.url()
            && self.proto() == other.proto()
            && self.reason() == other.reason()
            && self.status == other.status
            && self.lines.len() == other.lines.len()
            && self.iter().zip(other.iter()).all(|(a, b)| a.line() == b.line())
    }
}

pub(crate) fn value_start(after_colon: &[u8]) -> usize {
    after_colon.len() - trim_start(after_colon).len()
}
