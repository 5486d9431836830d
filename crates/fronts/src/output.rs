// SPDX-License-Identifier: BSD-2-Clause
//! What waits to be written to a client: heads and framing as bytes of our own, bodies as handles on storage. Stored pages
//! that are sent often go out without a copy ([`sys::splice`]).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

use net::{Stream, ZeroCopy};
use storage::Buf;
use sys::splice::{SpliceOutcome, SpliceRanges, Splicer};

/// Most pieces in one system call (`http1_iovs` in Varnish).
const PIECES: usize = 64;
/// A stored piece of at most so many bytes is copied behind the head: one plain send of them costs less than a vectored
/// write of two.
const COPY_BYTES: usize = 4 * 1024;
/// Number of written bytes of our own at which they are moved out of the way.
const SQUEEZE_BYTES: usize = 16 * 1024;
/// Number of bytes from which on it costs less to lend the kernel their pages than to have it copy them.
const LEND_BYTES: usize = 32 * 1024;
/// Bodies from this length on are copied: they fill the socket, so that loans go in by halves, and their pages are cold when the
/// peer reads them. Sender's CPU for a body over loopback, lent and copied: 1 MB 0.12 and 0.15 us/KB, 4 MB 0.36 and 0.23,
/// 16 MB 0.37 and 0.24.
const LEND_MOST_BYTES: u64 = 2 << 20;

thread_local! {
    static LENDER: RefCell<Splicer> = const { RefCell::new(Splicer::new()) };
}

enum Piece {
    Own(usize),
    Stored(Buf),
    /// A stored one that is sent often.
    Often(Buf),
}

/// A queue of bytes for one connection. Emptied, it keeps its memory.
#[derive(Default)]
pub(crate) struct OutputQueue {
    own: Vec<u8>,
    /// Number of written bytes at the front of `own`.
    own_written: usize,
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written, when that is a stored one.
    written: usize,
    bytes: usize,
    /// Pieces that are sent often.
    often: usize,
    /// True if bytes added now are part of too much to be lent.
    is_long: bool,
}

impl OutputQueue {
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that it holds for the next use.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.own.capacity() + self.pieces.capacity() * size_of::<Piece>()
    }

    pub(crate) fn add(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.own.len();
        fill(&mut self.own);
        let added = self.own.len() - before;
        match self.pieces.back_mut() {
            Some(Piece::Own(bytes)) => *bytes += added,
            Some(Piece::Stored(_) | Piece::Often(_)) | None => self.pieces.push_back(Piece::Own(added)),
        }
        self.bytes += added;
        added
    }

    pub(crate) fn begin_body(&mut self, len: Option<u64>) {
        self.is_long = len.is_some_and(|len| len >= LEND_MOST_BYTES);
    }

    pub(crate) fn add_stored(&mut self, buf: Buf) {
        if buf.len() <= COPY_BYTES {
            self.add(|out| out.extend_from_slice(&buf));
            return;
        }
        self.bytes += buf.len();
        let is_often = !self.is_long && buf.note_send();
        self.often += usize::from(is_often);
        self.pieces.push_back(if is_often { Piece::Often(buf) } else { Piece::Stored(buf) });
    }

    pub(crate) fn clear(&mut self) {
        self.own.clear();
        self.pieces.clear();
        (self.own_written, self.written, self.bytes, self.often) = (0, 0, 0, 0);
    }

    /// Writes with one system call what fits; whether anything was.
    pub(crate) fn write(&mut self, stream: &Stream) -> io::Result<usize> {
        let wrote = match self.often {
            0 => self.copy(stream)?,
            _ => match stream.zero_copy().map(|stream| self.lend(&stream)).transpose()? {
                Some(SpliceOutcome::Bytes(wrote)) => wrote,
                Some(SpliceOutcome::Impossible) | None => self.copy(stream)?,
            },
        };
        self.advance(wrote);
        Ok(wrote)
    }

    /// Lends a run of pieces that are sent often, or begins with what comes before it.
    fn lend(&self, stream: &ZeroCopy<'_>) -> io::Result<SpliceOutcome> {
        let own = match self.pieces.front() {
            Some(Piece::Own(len)) => &self.own[self.own_written..self.own_written + len],
            _ => &[],
        };
        let run = || self.run(usize::from(!own.is_empty()));
        if self.run_bytes(run()) < LEND_BYTES {
            return Ok(SpliceOutcome::Impossible);
        }
        if !own.is_empty() {
            return stream.try_write_begin(own).map(SpliceOutcome::Bytes);
        }
        let (mut loans, mut written) = (SpliceRanges::default(), self.written);
        let lent = run().take_while(|buf| buf.splice(std::mem::take(&mut written), &mut loans)).count();
        LENDER.with_borrow_mut(|lender| stream.try_lend(lender, &loans, lent < self.pieces.len()))
    }

    /// The pieces that are sent often, from the one at `first` to the first of another kind.
    fn run(&self, first: usize) -> impl Iterator<Item = &Buf> {
        let pieces = self.pieces.iter().skip(first);
        pieces.map_while(|piece| if let Piece::Often(buf) = piece { Some(buf) } else { None })
    }

    /// Number of bytes of a run that aren't written yet. A run may be empty: the piece that is partly written is then
    /// of another kind.
    fn run_bytes<'a>(&self, run: impl Iterator<Item = &'a Buf>) -> usize {
        run.map(Buf::len).sum::<usize>().saturating_sub(self.written)
    }

    fn copy(&self, stream: &Stream) -> io::Result<usize> {
        if let (1, Some(Piece::Own(len))) = (self.pieces.len(), self.pieces.front()) {
            return stream.try_write(&self.own[self.own_written..self.own_written + len]);
        }
        let mut slices = [IoSlice::new(&[]); PIECES];
        let (mut own, mut written, mut count) = (&self.own[self.own_written..], self.written, 0);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let bytes = match piece {
                Piece::Own(len) => {
                    let (head, rest) = own.split_at(*len);
                    own = rest;
                    head
                }
                Piece::Stored(buf) | Piece::Often(buf) => &buf[written..],
            };
            (*slice, written) = (IoSlice::new(bytes), 0);
            count += 1;
        }
        match count {
            1 => stream.try_write(&slices[0]),
            _ => stream.try_write_vectored(&slices[..count]),
        }
    }

    fn advance(&mut self, mut wrote: usize) {
        self.bytes -= wrote;
        while let Some(first) = self.pieces.front_mut() {
            match first {
                Piece::Own(left) if wrote < *left => {
                    (*left, self.own_written) = (*left - wrote, self.own_written + wrote);
                    break;
                }
                Piece::Own(left) => (wrote, self.own_written) = (wrote - *left, self.own_written + *left),
                Piece::Stored(buf) | Piece::Often(buf) if wrote < buf.len() - self.written => {
                    self.written += wrote;
                    break;
                }
                Piece::Stored(buf) | Piece::Often(buf) => {
                    (wrote, self.written) = (wrote + self.written - buf.len(), 0);
                }
            }
            let gone = self.pieces.pop_front();
            self.often -= usize::from(matches!(gone, Some(Piece::Often(_))));
        }
        if self.pieces.is_empty() {
            self.clear();
        } else if self.own_written > SQUEEZE_BYTES {
            self.own.drain(..self.own_written);
            self.own_written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(pieces: &[(Option<bool>, Vec<u8>)]) -> (OutputQueue, Vec<u8>) {
        let (mut output, mut all) = (OutputQueue::default(), Vec::new());
        for (stored_often, bytes) in pieces {
            all.extend_from_slice(bytes);
            let Some(is_often) = *stored_often else {
                output.add(|out| out.extend_from_slice(bytes));
                continue;
            };
            // As the stored pieces that are too long to be copied.
            let buf = Buf::unaccounted(bytes.clone());
            output.bytes += bytes.len();
            output.often += usize::from(is_often);
            output.pieces.push_back(if is_often { Piece::Often(buf) } else { Piece::Stored(buf) });
        }
        (output, all)
    }

    #[test]
    fn long_bodies_are_not_lent() {
        let counters: &'static tables::counters::Sma = Box::leak(Box::default());
        let stores = storage::Stores::open(&storage::StoreSpec::in_memory(Some(1 << 20)), |_| counters).unwrap();
        let block = stores.all()[0].block(&[&[7; 64 * 1024]]).unwrap();
        let often = |len: Option<u64>| {
            let mut output = OutputQueue::default();
            output.begin_body(len);
            (0..3).for_each(|_| output.add_stored(block.clone()));
            output.often
        };
        assert_eq!(often(Some(LEND_MOST_BYTES)), 0);
        assert_eq!(often(Some(LEND_MOST_BYTES - 1)), 1, "from the third time on");
        assert_eq!(often(None), 3);
    }

    fn left(output: &OutputQueue) -> Vec<u8> {
        let (mut own, mut written, mut out) = (&output.own[output.own_written..], output.written, Vec::new());
        for piece in &output.pieces {
            match piece {
                Piece::Own(len) => {
                    out.extend_from_slice(&own[..*len]);
                    own = &own[*len..];
                }
                Piece::Stored(buf) | Piece::Often(buf) => out.extend_from_slice(&buf[written..]),
            }
            written = 0;
        }
        out
    }

    proptest! {
        #[test]
        fn what_is_written_is_gone_and_nothing_else(
            pieces in prop::collection::vec((any::<Option<bool>>(), prop::collection::vec(any::<u8>(), 1..40)), 0..12),
            steps in prop::collection::vec(0usize..60, 0..12),
        ) {
            let (mut output, mut all) = queue(&pieces);
            for step in steps {
                let step = step.min(all.len());
                output.advance(step);
                all.drain(..step);
                prop_assert_eq!(output.len(), all.len());
                prop_assert_eq!(left(&output), all.clone());
                let run: Vec<u8> = output.run(0).flat_map(|buf| buf.to_vec()).collect();
                let run_bytes = output.run_bytes(output.run(0));
                prop_assert_eq!(run_bytes, run.len().saturating_sub(output.written));
                prop_assert!(all.starts_with(&run[run.len() - run_bytes..]));
                prop_assert_eq!(output.often, output.pieces.iter().filter(|p| matches!(p, Piece::Often(_))).count());
            }
        }
    }
}
