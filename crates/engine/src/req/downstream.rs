// SPDX-License-Identifier: BSD-2-Clause
//! What the bytes of a response pass on their way out, behind the ESI program: the filters, and for a fragment the
//! adapter that makes them fit into their parent's body.

use filters::{Chain, FilterError, FilterNote, FilterState, FilterStep, SLICE, UNPACKED_A_MICRO};
use storage::Buf;

use super::esi::Adapter;
use crate::transport::Transport;

pub(super) struct Downstream {
    pub chain: Chain,
    pub adapter: Adapter,
    /// Bytes that came to the adapter: the length of the body for the accounting.
    pub bytes: u64,
    /// Number of calls of the adapter.
    pub calls: u64,
    is_over: bool,
    /// Microseconds of the adapters' work since [`Downstream::take_micros`].
    micros: u32,
    /// Bytes that came to the filters.
    pub given: u64,
    /// Steps of the ESI program, and stored bytes that they delivered.
    pub steps: u64,
    pub stored: u64,
}

impl Downstream {
    pub fn new(chain: Chain, adapter: Adapter) -> Self {
        Downstream { chain, adapter, bytes: 0, calls: 0, is_over: false, micros: 0, given: 0, steps: 0, stored: 0 }
    }

    /// One bounded step: takes from `piece` and hands out what comes of it. `is_last`: nothing follows the piece.
    ///
    /// # Errors
    /// A filter can't go on.
    pub fn step(&mut self, piece: &mut Buf, is_last: bool, out: &mut dyn Transport) -> Result<FilterStep, FilterError> {
        if self.chain.is_empty() {
            let taken = self.send(piece.clone(), out)?;
            *piece = piece.slice(taken..piece.len());
            let state = match (piece.is_empty(), is_last) {
                (false, _) => FilterState::More,
                (true, false) => FilterState::Hungry,
                (true, true) => FilterState::End,
            };
            let step = FilterStep { consumed: taken, produced: taken, state };
            self.micros += step.micros_at(UNPACKED_A_MICRO);
            return Ok(step);
        }
        let chain = &mut self.chain;
        let (step, made) = filters::with_room(|room| {
            let step = chain.step(piece, is_last, &mut room[..SLICE])?;
            Ok((step, Buf::unaccounted(room[..step.produced].to_vec())))
        })?;
        *piece = piece.slice(step.consumed..piece.len());
        self.given += step.consumed as u64;
        self.is_over = step.state == FilterState::End;
        let mut at = 0;
        while at < made.len() {
            // At most one slice of gzip, which no filter makes in front of an adapter that unpacks it.
            at += self.send(made.slice(at..made.len()), out)?;
        }
        Ok(step)
    }

    /// About how long steps took since this was last asked, in microseconds.
    pub fn take_micros(&mut self) -> u32 {
        std::mem::take(&mut self.micros) + self.chain.take_micros()
    }

    /// The filters' notes on damaged gzip.
    pub fn take_gzip_notes(&mut self) -> Vec<String> {
        let text = |note| if let FilterNote::Gzip(text) = note { Some(text) } else { None };
        self.chain.take_notes().into_iter().filter_map(text).collect()
    }

    /// True if what comes behind isn't sent: a range has all of its bytes.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if pieces go out at once, without a step.
    pub fn is_immediate(&self) -> bool {
        self.chain.is_empty() && self.adapter.is_immediate()
    }

    /// Hands out a piece where no step is needed.
    pub fn pass(&mut self, piece: Buf, out: &mut dyn Transport) {
        debug_assert!(self.is_immediate(), "what takes work is done in steps");
        let bytes = piece.len();
        let taken = self.send(piece, out);
        debug_assert_eq!(taken, Ok(bytes), "adapters without state take all");
    }

    /// Hands out bytes; how many were taken.
    fn send(&mut self, piece: Buf, out: &mut dyn Transport) -> Result<usize, FilterError> {
        let taken = self.adapter.send(piece, out)?;
        self.bytes += taken as u64;
        self.calls += 1;
        Ok(taken)
    }
}
