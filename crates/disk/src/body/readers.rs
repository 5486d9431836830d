// SPDX-License-Identifier: BSD-2-Clause
//! Who reads a body: where each is, and what is read ahead of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::task::Waker;

use super::runs;

/// Chunks that are read ahead, the one that is wanted included: one operation's are sent while the next one's are read.
const WINDOW: usize = 2 * runs::MOST;

#[derive(Default)]
pub(super) struct Readers {
    readers: BTreeMap<u64, Reader>,
    next: u64,
}

struct Reader {
    at: usize,
    /// End of the chunks that it will read.
    until: usize,
    waker: Option<Waker>,
}

impl Readers {
    pub fn add(&mut self, at: usize) -> u64 {
        self.next += 1;
        let reader = Reader { at, until: at + 1, waker: None };
        self.readers.insert(self.next, reader);
        self.next
    }

    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Removes a reader; returns the chunks that it wanted.
    pub fn remove(&mut self, id: u64) -> Range<usize> {
        self.readers.remove(&id).map_or(0..0, |reader| reader.wanted())
    }

    /// Moves a reader, who wants the first of these chunks now and the others later. Returns chunks that it doesn't
    /// want any more.
    pub fn go_to(&mut self, id: u64, chunks: Range<usize>) -> Range<usize> {
        let reader = self.readers.get_mut(&id).expect("a reader keeps its number");
        let before = reader.wanted();
        (reader.at, reader.until) = (chunks.start, chunks.end);
        if reader.wanted().contains(&before.start) { before.start..before.start } else { before }
    }

    /// Chunks that a reader wants; only the one it is at unless there `has_memory` for more.
    pub fn wanted(&self, id: u64, has_memory: bool) -> Range<usize> {
        let wanted = self.readers[&id].wanted();
        if has_memory { wanted } else { wanted.start..wanted.start + 1 }
    }

    pub fn want_any(&self, chunks: &Range<usize>) -> bool {
        self.readers.values().any(|reader| {
            let wanted = reader.wanted();
            wanted.start < chunks.end && chunks.start < wanted.end
        })
    }

    pub fn wait(&mut self, id: u64, waker: &Waker) {
        let reader = self.readers.get_mut(&id).expect("a reader keeps its number");
        match &mut reader.waker {
            Some(old) => old.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    pub fn take_wakers(&mut self, chunks: Range<usize>) -> Vec<Waker> {
        let waiting = self.readers.values_mut().filter(|reader| chunks.contains(&reader.at));
        waiting.filter_map(|reader| reader.waker.take()).collect()
    }
}

impl Reader {
    fn wanted(&self) -> Range<usize> {
        self.at..self.until.min(self.at + WINDOW)
    }
}
