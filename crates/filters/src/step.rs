// SPDX-License-Identifier: BSD-2-Clause
//! The interface of a filter: one bounded step at a time.

use std::any::Any;

use message::Coding;

use crate::FilterError;

/// Bytes that one step of a filter takes or makes at most; about 50 us of unpacking. What takes longer over a byte takes fewer.
pub const SLICE: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterStep {
    /// Bytes of the input that were used; the rest is to be given again.
    pub consumed: usize,
    pub produced: usize,
    pub state: FilterState,
}

impl FilterStep {
    pub fn micros_at(&self, bytes_a_micro: u32) -> u32 {
        (self.consumed.max(self.produced) as u32 / bytes_a_micro).max(LEAST_MICROS)
    }
}

/// Bytes decompressed in a microsecond, which is what most filters do.
pub const UNPACKED_A_MICRO: u32 = 320;
/// Microseconds of a step that moves next to nothing.
const LEAST_MICROS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterState {
    /// Call again with the rest of the input: the output is full, or the slice is used up.
    More,
    /// All input is used: call again when there is more. Never after the last input.
    Hungry,
    /// The output has ended. Input that is left over isn't needed.
    End,
}

pub trait Filter: Any {
    fn name(&self) -> &'static str;

    /// Takes from `input` and writes to `out` (not empty), at most about [`SLICE`] bytes of either. `is_last`: nothing
    /// follows `input`.
    ///
    /// # Errors
    /// The body can't be what it claims to be; nothing more may be asked of this filter.
    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError>;

    /// About how long such a step of its takes, in microseconds. A body that is at hand is best finished before another is begun (its
    /// buffers and its compressor are in the processor's caches, and the next body takes them over): so whoever drives a filter charges
    /// its task for it, and doesn't yield at each step.
    fn micros(&self, step: &FilterStep) -> u32 {
        step.micros_at(UNPACKED_A_MICRO)
    }

    /// True if the body comes out as it went in: it is only looked at.
    fn keeps_body(&self) -> bool {
        false
    }

    /// True if nothing comes out before all of the body is in.
    fn needs_whole(&self) -> bool {
        false
    }

    /// No more input is at hand: what the filter holds back of what it has is to come out with the next steps.
    fn flush(&mut self) {}

    /// The Gzip record to be logged when it is closed, be it early.
    fn closing_note(&self) -> Option<String> {
        None
    }

    fn take_notes(&mut self, notes: &mut Vec<FilterNote>) {
        let _ = notes;
    }

    /// Positions of the deflate stream in the stored body, once it is through.
    fn gzip_bits(&self) -> Option<GzipBits> {
        None
    }

    /// Bytes that the stored body decompresses to, once it is through; for a coding other than gzip.
    fn plain_bytes(&self) -> Option<u64> {
        None
    }

    /// The ESI program of the stored body, once it is through and if there is any.
    fn take_esi(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Responses that it needs before a body comes, at delivery.
    fn take_subrequests(&mut self) -> Vec<Subrequest> {
        Vec::new()
    }

    /// Sets these responses, in that order; `None`: there is none.
    fn answer(&mut self, answers: Vec<Option<Vec<u8>>>) {
        let _ = answers;
    }

    /// True if it has metadata for the stored object, known at the body's end: the object doesn't stream then.
    fn has_metadata(&self) -> bool {
        false
    }

    /// Metadata for the stored object, once it is through; found again under its name.
    fn take_metadata(&mut self) -> Option<Vec<u8>> {
        None
    }
}

#[derive(Debug, Default)]
pub(crate) struct Flushed {
    plain: u64,
    is_asked: bool,
}

impl Flushed {
    pub fn ask(&mut self) {
        self.is_asked = true;
    }

    /// True if a step without input is to flush what `plain` bytes have become. Where there is nothing yet, filters
    /// before this one may be about to give it something.
    pub fn is_due(&self, plain: u64) -> bool {
        self.is_asked && plain > self.plain
    }

    pub fn done(&mut self, plain: u64) {
        *self = Self { plain, is_asked: false };
    }
}

/// A response that a filter wants to have: as a fragment's, made by VCL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subrequest {
    pub url: Vec<u8>,
    pub host: Option<Vec<u8>>,
    pub most: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterNote {
    Gzip(String),
    /// An ESI_xmlerror record, without the word for its severity.
    Esi(esi::ComplaintSeverity, String),
    VclError(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    Unset(&'static str),
    SetCoding(Coding),
    /// The body isn't the one any more that Content-Length and digests tell of.
    OtherBody,
    WeakenEtag,
    /// `Accept-Encoding` joins Vary unless it is there.
    VaryAcceptEncoding,
}

/// Positions in a gzip body, in bits from its start, and the length of the other form. Stitching needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GzipBits {
    /// First bit of the first deflate block.
    pub start: u64,
    /// First bit of the last deflate block.
    pub last: u64,
    /// First bit after the last deflate block.
    pub stop: u64,
    pub plain_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_costs_what_it_takes_or_makes_and_something_at_least() {
        let micros = |consumed, produced| {
            FilterStep { consumed, produced, state: FilterState::More }.micros_at(UNPACKED_A_MICRO)
        };
        assert_eq!((micros(SLICE, 100), micros(100, SLICE), micros(0, 0)), (51, 51, LEAST_MICROS));
    }
}
