// SPDX-License-Identifier: BSD-2-Clause
//! The records of one transaction, gathered in a buffer of its own and written to the ring as one batch.
//!
//! Nothing here allocates after `new`, and `new` only when this thread has no buffer to spare; a record is formatted right
//! into the buffer.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use base::{Real, Vxid, short};
use tables::Tag;

use super::layout::{self, HEAD_WORDS, Marker, RecordLayout};
use super::num;
use super::ring::LogRing;

/// A transaction's log. Records wait in the buffer until it is full, until [`TxnLog::flush`], or until it is dropped or
/// reset; with `debug=+syncvsl` each is written at once.
#[derive(Debug)]
pub struct TxnLog {
    ring: Arc<LogRing>,
    vxid: Vxid,
    marker: Marker,
    layout: &'static RecordLayout,
    /// Words of each record's head: `vxid` and `marker`.
    id: [u32; 2],
    buffer: Box<[u32]>,
    used: usize,
    records: u64,
    start: Real,
    last: Real,
    /// A record of another transaction that is written just before the first of this one.
    announced: Option<Announcement>,
    /// Nothing of it is written.
    is_silent: bool,
    /// A head or a text of it had no room for something.
    has_overflowed: bool,
}

/// A record that [`TxnLog::announce`] keeps.
#[derive(Debug)]
pub(super) struct Announcement {
    pub tag: Tag,
    pub vxid: Vxid,
    pub marker: Marker,
    text: [u8; ANNOUNCED_BYTES],
    len: usize,
}

const ANNOUNCED_BYTES: usize = 56;

impl Announcement {
    pub fn text(&self) -> &[u8] {
        &self.text[..self.len]
    }

    fn push(&mut self, part: &[u8]) {
        let cut = part.len().min(ANNOUNCED_BYTES - self.len);
        self.text[self.len..self.len + cut].copy_from_slice(&part[..cut]);
        self.len += cut;
    }
}

/// Heads of the records plus some data; smaller buffers make no sense.
const MIN_BUFFER_WORDS: usize = 64;

impl TxnLog {
    /// A log for the transaction `vxid`.
    pub fn new(ring: Arc<LogRing>, vxid: Vxid, marker: Marker) -> Self {
        let buffer = take_buffer(buffer_words(&ring));
        let layout = ring.layout();
        let (id, start, last) = (layout.id_words(vxid, marker), Real(0.0), Real(0.0));
        Self {
            ring,
            vxid,
            marker,
            layout,
            id,
            buffer,
            used: 0,
            records: 0,
            start,
            last,
            announced: None,
            is_silent: false,
            has_overflowed: false,
        }
    }

    /// A log whose records nobody will see: for what only looks as if it happened.
    pub fn silent(ring: Arc<LogRing>) -> Self {
        let mut log = Self::new(ring, Vxid::NONE, Marker::None);
        log.is_silent = true;
        log
    }

    /// Adds a record to the transaction that this one comes from (Link). It is written together with this one's first
    /// records, under the same lock; text beyond 56 bytes is cut.
    pub fn announce(&mut self, tag: Tag, parent: Vxid, parts: &[&[u8]]) {
        if self.ring.is_masked(tag) {
            return;
        }
        let mut announced = Announcement { tag, vxid: parent, marker: self.marker, text: [0; ANNOUNCED_BYTES], len: 0 };
        parts.iter().for_each(|part| announced.push(part));
        self.announced = Some(announced);
    }

    /// Writes what is left and makes this the log of another transaction. Allocates only if `vsl_buffer` was changed.
    pub fn reset(&mut self, vxid: Vxid, marker: Marker) {
        self.flush();
        let words = buffer_words(&self.ring);
        if words != self.buffer.len() {
            self.buffer = vec![0; words].into_boxed_slice();
        }
        (self.vxid, self.marker, self.id) = (vxid, marker, self.layout.id_words(vxid, marker));
        (self.start, self.last) = (Real(0.0), Real(0.0));
        self.has_overflowed = false;
    }

    /// Id of the log's transaction.
    pub fn vxid(&self) -> Vxid {
        self.vxid
    }

    /// The ring it writes to.
    pub fn ring(&self) -> &Arc<LogRing> {
        &self.ring
    }

    /// Adds a record of this data.
    pub fn put(&mut self, tag: Tag, data: &[u8]) {
        if !self.ring.is_masked(tag) {
            self.put_unmasked(tag, data);
        }
    }

    /// Adds a record of this data, whatever `vsl_mask` says.
    pub fn put_unmasked(&mut self, tag: Tag, data: &[u8]) {
        match self.place(tag, data.len()) {
            Some(place) => {
                short::copy(&mut place[..data.len()], data);
                self.added();
            }
            None => self.put_cut(tag, &[data]),
        }
    }

    /// Adds a record of this tag for each of these data.
    pub fn put_all<'a>(&mut self, tag: Tag, all: impl Iterator<Item = &'a [u8]>) {
        if self.ring.is_masked(tag) {
            return;
        }
        for data in all {
            match self.place(tag, data.len()) {
                Some(place) => {
                    short::copy(&mut place[..data.len()], data);
                    self.added();
                }
                None => self.put_cut(tag, &[data]),
            }
        }
    }

    /// Adds a record of `a` followed by `b`.
    #[inline]
    pub fn put2(&mut self, tag: Tag, a: &[u8], b: &[u8]) {
        self.put_parts(tag, &[a, b]);
    }

    /// Adds a record of these parts, one after the other.
    pub fn put_parts(&mut self, tag: Tag, parts: &[&[u8]]) {
        if self.ring.is_masked(tag) {
            return;
        }
        match self.place(tag, parts.iter().map(|part| part.len()).sum()) {
            Some(mut place) => {
                for part in parts {
                    let (here, rest) = place.split_at_mut(part.len());
                    short::copy(here, part);
                    place = rest;
                }
                self.added();
            }
            None => self.put_cut(tag, parts),
        }
    }

    /// Logs a header field that found no room in its head, and counts it.
    pub fn lost_header(&mut self, parts: &[&[u8]]) {
        self.put_parts(Tag::LostHeader, parts);
        self.count_lost();
    }

    /// Counts a header field, or a part of a start line, that found no room in its head (`MAIN.losthdr`), and the overflow that this is.
    pub fn count_lost(&mut self) {
        if !self.is_silent {
            self.ring.main().losthdr.inc();
        }
        self.count_overflow();
    }

    /// Counts that something found no room: once a transaction, as an overflow of its side's workspace (`MAIN.ws_client_overflow`,
    /// `MAIN.ws_backend_overflow`).
    pub fn count_overflow(&mut self) {
        if self.is_silent || std::mem::replace(&mut self.has_overflowed, true) {
            return;
        }
        let main = self.ring.main();
        match self.marker {
            Marker::Client => main.ws_client_overflow.inc(),
            Marker::Backend => main.ws_backend_overflow.inc(),
            Marker::None => {}
        }
    }

    /// Room for a record with `len` bytes of data, but for them complete; `None` when they don't fit and must be cut, or
    /// the buffer written out first.
    #[inline]
    fn place(&mut self, tag: Tag, len: usize) -> Option<&mut [u8]> {
        let empty = self.layout.empty(tag);
        let bytes = len + layout::nul_bytes(empty);
        let end = self.used + self.layout.head_words + layout::data_words(bytes);
        if bytes > self.ring.reclen() {
            return None;
        }
        let place = self.buffer.get_mut(self.used..end)?;
        // The NUL and the padding are in the last word, as the data fill all but the NUL.
        if let Some(last) = place.last_mut() {
            *last = 0;
        }
        // If a head has two words, the third is the first of the data, and 0.
        *place.first_chunk_mut()? = [empty + len as u32, self.id[0], self.id[1]];
        let data = place.get_mut(self.layout.head_words..)?;
        self.used = end;
        Some(bytes_mut(data))
    }

    /// The record that [`TxnLog::place`] made room for is in place.
    #[inline]
    fn added(&mut self) {
        self.records += 1;
        if self.ring.is_sync() {
            self.write_out(false);
        }
    }

    /// Does what [`TxnLog::put_parts`] does for records that are cut, or that the buffer has no room for.
    #[cold]
    fn put_cut(&mut self, tag: Tag, parts: &[&[u8]]) {
        let mut record = self.record(tag);
        parts.iter().for_each(|part| record.push(part));
    }

    /// Adds a formatted record: `log.putf(Tag::VclError, format_args!(...))`.
    pub fn putf(&mut self, tag: Tag, text: fmt::Arguments<'_>) {
        match text.as_str() {
            Some(text) => self.put(tag, text.as_bytes()),
            None => {
                // Writing never fails: what does not fit is cut.
                let _ = fmt::Write::write_fmt(&mut self.record(tag), text);
            }
        }
    }

    /// Adds a record piece by piece: `log.record(Tag::Hit).num(42).text(b" ").fixed6(ttl);` It ends with the value.
    #[inline]
    pub fn record(&mut self, tag: Tag) -> RecordWriter<'_> {
        let room = if self.ring.is_masked(tag) { 0 } else { self.room() };
        if room == 0 {
            return RecordWriter { log: self, tag, at: 0, end: 0 };
        }
        let [low, high] = self.id;
        if let Some(head) = self.buffer.get_mut(self.used..).and_then(|rest| rest.first_chunk_mut::<HEAD_WORDS>()) {
            *head = [0, low, high];
        }
        let at = (self.used + self.layout.head_words) * 4;
        RecordWriter { at, end: at + room - layout::nul_bytes(self.layout.empty(tag)), log: self, tag }
    }

    /// Adds a `Timestamp`: label, time, seconds since the transaction began, seconds since the last one.
    /// The first one after `new` or `reset` begins the transaction.
    pub fn timestamp(&mut self, label: &str, now: Real) {
        if self.start == Real(0.0) {
            (self.start, self.last) = (now, now);
        }
        let (since_start, since_last) = (now.since(self.start), now.since(self.last));
        self.last = now;
        self.record(Tag::Timestamp).text(label).put_number(|out: &mut [u8; 3 * SPACED_ROOM]| {
            out[0] = b':';
            let at = 1 + spaced(room_at(out, 1), |out| num::put_time(out, now.0));
            let at = at + spaced(room_at(out, at), |out| num::put_fixed6(out, since_start));
            at + spaced(room_at(out, at), |out| num::put_fixed6(out, since_last))
        });
    }

    /// Goes on with the times of another transaction, as a restart and a retry do.
    pub fn resume(&mut self, start: Real, last: Real) {
        (self.start, self.last) = (start, last);
    }

    /// When the transaction began, by the first timestamp; 0 before it.
    pub fn start(&self) -> Real {
        self.start
    }

    /// The time of the last timestamp; 0 before the first.
    pub fn last(&self) -> Real {
        self.last
    }

    /// Writes the records gathered.
    #[inline]
    pub fn flush(&mut self) {
        self.write_out(false);
    }

    /// Writes the records gathered, and lends the buffer to others until the next record: for whoever waits now.
    pub fn rest(&mut self) {
        self.flush();
        give_buffer(std::mem::take(&mut self.buffer));
    }

    fn write_out(&mut self, overflow: bool) {
        if self.used > 0 {
            if self.is_silent {
                self.announced = None;
                (self.used, self.records) = (0, 0);
                return;
            }
            self.ring.write_batch(self.announced.take(), &self.buffer[..self.used], self.records, overflow);
            (self.used, self.records) = (0, 0);
        }
    }

    /// Number of bytes that the next record may have; flushes if they would not fit.
    #[inline]
    fn room(&mut self) -> usize {
        if self.buffer.is_empty() {
            self.buffer = take_buffer(buffer_words(&self.ring));
        }
        let most = (self.buffer.len() - HEAD_WORDS) * 4;
        let bytes = self.ring.reclen().min(most);
        if self.used + HEAD_WORDS + layout::data_words(bytes) > self.buffer.len() {
            self.write_out(true);
        }
        bytes
    }
}

impl Drop for TxnLog {
    fn drop(&mut self) {
        self.flush();
        give_buffer(std::mem::take(&mut self.buffer));
    }
}

/// Buffers that a thread keeps for its next transactions: as many as run at once when it is busy, not as many as ever did.
const POOLED_BUFFERS: usize = 64;

thread_local! {
    static BUFFER_POOL: RefCell<Vec<Box<[u32]>>> = const { RefCell::new(Vec::new()) };
}

fn take_buffer(words: usize) -> Box<[u32]> {
    let spare = BUFFER_POOL.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
    spare.filter(|buffer| buffer.len() == words).unwrap_or_else(|| vec![0; words].into_boxed_slice())
}

fn give_buffer(buffer: Box<[u32]>) {
    if buffer.is_empty() {
        return;
    }
    // A thread that ends has no use for it.
    let _ = BUFFER_POOL.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < POOLED_BUFFERS {
            spare.push(buffer);
        }
    });
}

/// Builds one record; dropping it adds the record. Longer data than `vsl_reclen` is cut.
#[derive(Debug)]
pub struct RecordWriter<'a> {
    log: &'a mut TxnLog,
    tag: Tag,
    /// Byte of the buffer behind the data so far.
    at: usize,
    /// Byte of the buffer that the data may reach, if the NUL is to have room; 0 when the tag is masked.
    end: usize,
}

impl RecordWriter<'_> {
    /// Appends bytes as they are.
    #[inline]
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.push(text.as_ref());
        self
    }

    /// Appends a whole number.
    #[inline]
    pub fn num(&mut self, n: u64) -> &mut Self {
        self.put_number(|out| num::put_dec(first(out), n))
    }

    /// Appends a space and a whole number.
    #[inline]
    pub fn sp_num(&mut self, n: u64) -> &mut Self {
        self.put_number(|out| spaced(out, |out| num::put_dec(out, n)))
    }

    /// Appends a number with six decimals.
    #[inline]
    pub fn fixed6(&mut self, x: f64) -> &mut Self {
        self.put_number(|out| num::put_fixed6(first(out), x))
    }

    /// Appends a space and a number with six decimals.
    #[inline]
    pub fn sp_fixed6(&mut self, x: f64) -> &mut Self {
        self.put_number(|out| spaced(out, |out| num::put_fixed6(out, x)))
    }

    /// Appends a space and a wall-clock time with six decimals.
    #[inline]
    pub fn sp_time(&mut self, time: Real) -> &mut Self {
        self.put_number(|out| spaced(out, |out| num::put_time(out, time.0)))
    }

    /// Appends a space and a number rounded to a whole one, as `%.0f` writes it.
    #[inline]
    pub fn sp_whole(&mut self, x: f64) -> &mut Self {
        self.put_number(|out| spaced(out, |out| num::put_rounded(out, x)))
    }

    /// Appends a number with three decimals.
    #[inline]
    pub fn fixed3(&mut self, x: f64) -> &mut Self {
        self.put_number(|out| num::put_fixed3(first(out), x))
    }

    /// Writes a number or several right into the buffer where there is room for any, else what fits of them.
    #[inline]
    fn put_number<const N: usize>(&mut self, write: impl FnOnce(&mut [u8; N]) -> usize) -> &mut Self {
        if self.at + N <= self.end
            && let Some(place) =
                bytes_mut(&mut self.log.buffer).get_mut(self.at..).and_then(|rest| rest.first_chunk_mut())
        {
            self.at += write(place);
        } else if self.end > 0 {
            let mut number = [0; N];
            let len = write(&mut number);
            self.push(&number[..len]);
        }
        self
    }

    /// Appends bytes to the data of the record.
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        let cut = &text[..text.len().min(self.end - self.at)];
        let end = self.at + cut.len();
        short::copy(&mut bytes_mut(&mut self.log.buffer)[self.at..end], cut);
        self.at = end;
    }
}

impl fmt::Write for RecordWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl Drop for RecordWriter<'_> {
    fn drop(&mut self) {
        if self.end == 0 {
            return;
        }
        let log = &mut *self.log;
        let empty = log.layout.empty(self.tag);
        let data = log.used + log.layout.head_words;
        // The first word behind the record.
        let end = layout::data_words(self.at + layout::nul_bytes(empty));
        if end > self.at / 4 {
            // The NUL and the padding, behind the last bytes of the data: by the word, which is cheaper than a fill.
            let last = &mut log.buffer[self.at / 4];
            *last = (u32::from_le(*last) & ((1 << (self.at % 4 * 8)) - 1)).to_le();
        }
        log.buffer[log.used] = empty + (self.at - data * 4) as u32;
        log.used = end;
        log.added();
    }
}

const SPACED_ROOM: usize = num::ROOM + 1;

/// Puts a space before what `write` writes; gives the length of both.
#[inline]
fn spaced(out: &mut [u8; SPACED_ROOM], write: impl FnOnce(&mut [u8; num::ROOM]) -> usize) -> usize {
    let [space, number @ ..] = out;
    *space = b' ';
    1 + write(number)
}

/// Room for the next of several, none of which fills its own.
#[inline]
fn room_at<const N: usize>(out: &mut [u8; N], at: usize) -> &mut [u8; SPACED_ROOM] {
    out[at..].first_chunk_mut().expect("the numbers before it were shorter than their room")
}

#[inline]
fn first(out: &mut [u8; SPACED_ROOM]) -> &mut [u8; num::ROOM] {
    let [number @ .., _] = out;
    number
}

fn buffer_words(ring: &LogRing) -> usize {
    (ring.buffer_bytes() / 4).max(MIN_BUFFER_WORDS)
}

#[inline]
fn bytes_mut(words: &mut [u32]) -> &mut [u8] {
    let len = size_of_val(words);
    // SAFETY: the same memory, exclusively borrowed for the same time; bytes need no alignment and any are valid.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), len) }
}
