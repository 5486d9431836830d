// SPDX-License-Identifier: BSD-2-Clause
//! What of a body is being read and has been read: runs of chunks that lie side by side on the device, so that one operation
//! brings several.

use std::collections::BTreeMap;
use std::ops::Range;

use storage::Buf;

use crate::format::UNIT;
use crate::format::object::Chunk;
use crate::put::part_bytes;

/// Chunks that are read at once, at most: with their heads they fit into a quarter of a megabyte of a pool.
pub(super) const MOST: usize = 3;

/// The runs, by their first chunk; no chunk is in two.
#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<usize, Run>,
    next: u64,
}

struct Run {
    /// Tells it from a later one of the same chunks.
    id: u64,
    end: usize,
    /// The unit of the first entry.
    at: u64,
    entries: Option<Buf>,
    /// Checked entries, a bit each.
    checked: u32,
}

#[derive(Clone, Debug)]
pub(super) struct RunPlace {
    id: u64,
    pub chunks: Range<usize>,
    pub units: Range<u64>,
}

impl Runs {
    pub fn has(&self, number: usize) -> bool {
        self.run(number).is_some()
    }

    /// The entry of a chunk, if it has been read, and the run in which it hasn't been checked.
    pub fn entry(&self, number: usize, chunk: Chunk) -> Option<(Buf, Option<u64>)> {
        let (first, run) = self.run(number)?;
        let entries = run.entries.as_ref()?;
        let start = ((chunk.at - run.at) * UNIT) as usize;
        let entry = entries.slice(start..start + part_bytes(chunk.len) as usize);
        let is_checked = run.checked & 1 << (number - first) != 0;
        Some((entry, (!is_checked).then_some(run.id)))
    }

    pub fn note_checked(&mut self, number: usize, id: u64) {
        if let Some((&first, run)) = self.runs.range_mut(..=number).next_back()
            && run.id == id
        {
            run.checked |= 1 << (number - first);
        }
    }

    /// The first of these chunks that is in no run; their end, if all are.
    pub fn first_unread(&self, chunks: Range<usize>) -> usize {
        let mut at = chunks.start;
        while at < chunks.end
            && let Some((_, run)) = self.run(at)
        {
            at = run.end;
        }
        at.min(chunks.end)
    }

    /// Begins a run with the first of these chunks, which is in none, and as many of them as lie behind it.
    pub fn begin(&mut self, table: &[Chunk], chunks: Range<usize>) -> RunPlace {
        let first = chunks.start;
        let next = self.runs.range(first..).next().map_or(usize::MAX, |(&next, _)| next);
        let most = chunks.end.min(next).min(first + MOST);
        let mut end = first + 1;
        while end < most && follows(&table[end - 1], &table[end]) {
            end += 1;
        }
        self.next += 1;
        let (id, at) = (self.next, table[first].at);
        self.runs.insert(first, Run { id, end, at, entries: None, checked: 0 });
        RunPlace { id, chunks: first..end, units: at..after(&table[end - 1]) }
    }

    /// Ends a run with the entries that were read; without any it is forgotten.
    pub fn end(&mut self, place: &RunPlace, entries: Option<Buf>) {
        let Some(run) = self.runs.get_mut(&place.chunks.start).filter(|run| run.id == place.id) else { return };
        match entries {
            Some(_) => run.entries = entries,
            None => drop(self.runs.remove(&place.chunks.start)),
        }
    }

    /// Lets go of runs that have any of these chunks and aren't wanted.
    pub fn retain(&mut self, chunks: Range<usize>, is_wanted: impl Fn(&Range<usize>) -> bool) {
        let mut end = chunks.end;
        while end > chunks.start
            && let Some((&first, run)) = self.runs.range(..end).next_back()
            && run.end > chunks.start
        {
            if !is_wanted(&(first..run.end)) {
                self.runs.remove(&first);
            }
            end = first;
        }
    }

    fn run(&self, number: usize) -> Option<(usize, &Run)> {
        let (&first, run) = self.runs.range(..=number).next_back()?;
        (number < run.end).then_some((first, run))
    }
}

fn follows(one: &Chunk, next: &Chunk) -> bool {
    next.generation == one.generation && next.at == after(one)
}

fn after(chunk: &Chunk) -> u64 {
    chunk.at + part_bytes(chunk.len).div_ceil(UNIT)
}
