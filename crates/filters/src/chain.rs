// SPDX-License-Identifier: BSD-2-Clause
//! Filters one behind the other, with a small buffer between two.

use crate::{Filter, FilterError, FilterNote, FilterState, FilterStep, GzipBits, SLICE, Subrequest};

#[derive(Default)]
pub struct Chain {
    links: Vec<Link>,
    /// Microseconds of the steps since [`Chain::take_micros`].
    micros: u32,
}

struct Link {
    filter: Box<dyn Filter>,
    calls: u64,
    bytes_out: u64,
    ended: bool,
    /// Output that the next link hasn't taken: `from..to` of `buf`. The last link writes to the caller's space.
    buf: Vec<u8>,
    from: usize,
    to: usize,
}

/// Figures of a VfpAcct or VdpAcct record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterAcct {
    pub name: &'static str,
    pub calls: u64,
    pub bytes: u64,
}

impl Chain {
    /// No filter: the caller needn't call [`Chain::step`] at all.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, filter: impl Filter) {
        self.push_boxed(Box::new(filter));
    }

    pub fn push_boxed(&mut self, filter: Box<dyn Filter>) {
        if let Some(last) = self.links.last_mut() {
            last.buf = vec![0; SLICE];
        }
        self.links.push(Link { filter, calls: 0, bytes_out: 0, ended: false, buf: Vec::new(), from: 0, to: 0 });
    }

    pub fn len(&self) -> usize {
        self.links.len()
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.links.iter().map(|link| link.filter.name())
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Runs each filter at most once. `out` must not be empty. `is_last`: nothing follows `input`; after it the caller
    /// goes on calling, with what is left of the input, until [`FilterState::End`].
    ///
    /// # Errors
    /// A filter gave up; the body can't go on.
    pub fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        assert!(!out.is_empty(), "a step needs room");
        let mut step = FilterStep { consumed: 0, produced: 0, state: FilterState::Hungry };
        if self.links.is_empty() {
            let n = input.len().min(out.len());
            out[..n].copy_from_slice(&input[..n]);
            step = FilterStep {
                consumed: n,
                produced: n,
                state: if n < input.len() { FilterState::More } else { step.state },
            };
            if n == input.len() && is_last {
                step.state = FilterState::End;
            }
            return Ok(step);
        }
        let mut hungry = true;
        for i in 0..self.links.len() {
            let is_tail = i + 1 == self.links.len();
            let (before, after) = self.links.split_at_mut(i);
            let link = &mut after[0];
            if link.ended || (!is_tail && link.from < link.to) {
                // Nothing to do here before the next one took what there is.
                hungry &= link.ended;
                continue;
            }
            let (source, source_ends) = match before.last() {
                None => (input, is_last),
                Some(prev) => (&prev.buf[prev.from..prev.to], prev.ended),
            };
            let room = if is_tail { &mut *out } else { &mut link.buf[..] };
            base::failpoint::index_error(link.filter.name());
            let did = link.filter.step(source, source_ends, room)?;
            self.micros = self.micros.saturating_add(link.filter.micros(&did));
            link.calls += 1;
            link.bytes_out += did.produced as u64;
            link.ended = did.state == FilterState::End;
            hungry &= did.state != FilterState::More;
            if is_tail {
                step.produced = did.produced;
            } else {
                (link.from, link.to) = (0, did.produced);
            }
            match before.last_mut() {
                None => step.consumed = did.consumed,
                Some(prev) => {
                    prev.from += did.consumed;
                    hungry &= prev.from == prev.to;
                }
            }
        }
        // An ended link's successor has yet to be told so: only the tail's end is the chain's.
        let told = self.links.windows(2).all(|pair| !pair[0].ended || pair[1].ended);
        step.state = match self.links.last() {
            Some(tail) if tail.ended => FilterState::End,
            _ if hungry && told && step.consumed == input.len() && !is_last => FilterState::Hungry,
            _ => FilterState::More,
        };
        Ok(step)
    }

    /// No more input is at hand, and readers wait: the next steps, without input until [`FilterState::Hungry`], give what filters hold back.
    pub fn flush(&mut self) {
        self.links.iter_mut().for_each(|link| link.filter.flush());
    }

    /// About how long its steps took since this was last asked, in microseconds: to be charged to who had them done.
    pub fn take_micros(&mut self) -> u32 {
        std::mem::take(&mut self.micros)
    }

    pub fn take_notes(&mut self) -> Vec<FilterNote> {
        let mut notes = Vec::new();
        self.links.iter_mut().for_each(|link| link.filter.take_notes(&mut notes));
        notes
    }

    /// At the end, also an early one: for each filter, from the one next to the storage (or client) back, its Gzip
    /// record and its account, in the order Varnish logs them.
    pub fn close(&self) -> impl Iterator<Item = (Option<FilterNote>, FilterAcct)> + '_ {
        self.links.iter().rev().map(|link| {
            let acct = FilterAcct { name: link.filter.name(), calls: link.calls, bytes: link.bytes_out };
            (link.filter.closing_note().map(FilterNote::Gzip), acct)
        })
    }

    pub fn gzip_bits(&self) -> Option<GzipBits> {
        self.links.last().and_then(|link| link.filter.gzip_bits())
    }

    /// Bytes that the stored body decompresses to, if it is in a coding other than gzip and no filter changes it after
    /// that.
    pub fn plain_bytes(&self) -> Option<u64> {
        self.links.last().filter(|link| link.ended).and_then(|link| link.filter.plain_bytes())
    }

    /// The next filter that asks for something, and what.
    pub fn take_subrequests(&mut self) -> Option<(usize, Vec<Subrequest>)> {
        let mut all = self.links.iter_mut().enumerate();
        all.find_map(|(i, link)| Some((i, link.filter.take_subrequests())).filter(|(_, asked)| !asked.is_empty()))
    }

    pub fn answer(&mut self, filter: usize, answers: Vec<Option<Vec<u8>>>) {
        self.links[filter].filter.answer(answers);
    }

    /// The first filter that holds the body back until all of it is in.
    pub fn holding(&self) -> Option<&'static str> {
        self.links.iter().find(|link| link.filter.needs_whole()).map(|link| link.filter.name())
    }

    pub fn has_metadata(&self) -> bool {
        self.links.iter().any(|link| link.filter.has_metadata())
    }

    pub fn take_metadata(&mut self) -> Vec<(&'static str, Vec<u8>)> {
        let all = self.links.iter_mut().map(|link| (link.filter.name(), link.filter.take_metadata()));
        all.filter_map(|(name, metadata)| Some((name, metadata?))).collect()
    }

    pub fn take_esi(&mut self) -> Option<Vec<u8>> {
        self.links.iter_mut().find_map(|link| link.filter.take_esi())
    }
}

#[cfg(test)]
mod tests;
