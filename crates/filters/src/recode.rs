// SPDX-License-Identifier: BSD-2-Clause
//! `br`, `unbr`, `testbr`, `zstd`, `unzstd`, `testzstd`: pack a body, unpack it, or only see whether that can be done.

use message::Coding;

use crate::codec::{CodecOperation, CodingDecoder, CodingEncoder, PackParams, Packed};
use crate::step::Flushed;
use crate::{Filter, FilterError, FilterState, FilterStep, SLICE, UNPACKED_A_MICRO};

pub struct Pack {
    packed: Packed,
    encoder: Box<dyn CodingEncoder>,
    bytes_a_micro: u32,
    plain_bytes: u64,
    flushed: Flushed,
}

impl Pack {
    pub fn new(packed: Packed, params: PackParams) -> Self {
        let (encoder, bytes_a_micro) = (packed.encoder(params), packed.pace(params));
        Self { packed, encoder, bytes_a_micro, plain_bytes: 0, flushed: Flushed::default() }
    }

    fn flush_into(&mut self, room: &mut [u8]) -> Result<FilterStep, FilterError> {
        let did = self.encoder.run(&[], CodecOperation::Flush, room)?;
        let mut state = FilterState::More;
        if self.encoder.is_flushed() {
            self.flushed.done(self.plain_bytes);
            state = FilterState::Hungry;
        }
        Ok(FilterStep { consumed: 0, produced: did.produced, state })
    }
}

impl Filter for Pack {
    fn name(&self) -> &'static str {
        match self.packed {
            Packed::Brotli => "br",
            Packed::Zstd => "zstd",
        }
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let slice = &input[..input.len().min(SLICE)];
        let room = out.len().min(SLICE);
        if input.is_empty() && !is_last && self.flushed.is_due(self.plain_bytes) {
            return self.flush_into(&mut out[..room]);
        }
        let ends = is_last && slice.len() == input.len();
        let operation = if ends { CodecOperation::Finish } else { CodecOperation::Process };
        let did = self.encoder.run(slice, operation, &mut out[..room])?;
        self.plain_bytes += did.consumed as u64;
        let state = if ends && self.encoder.is_ended() {
            FilterState::End
        } else if ends || did.consumed < input.len() || did.produced == room || self.flushed.is_due(self.plain_bytes) {
            FilterState::More
        } else {
            FilterState::Hungry
        };
        Ok(FilterStep { consumed: did.consumed, produced: did.produced, state })
    }

    /// On the average: an encoder works on blocks, which are longer than a step.
    fn micros(&self, step: &FilterStep) -> u32 {
        step.micros_at(self.bytes_a_micro)
    }

    fn flush(&mut self) {
        self.flushed.ask();
    }

    fn plain_bytes(&self) -> Option<u64> {
        Some(self.plain_bytes)
    }
}

pub struct Unpack {
    packed: Packed,
    decoder: Box<dyn CodingDecoder>,
}

impl Unpack {
    pub fn new(packed: Packed) -> Self {
        Self { packed, decoder: packed.decoder() }
    }
}

impl Filter for Unpack {
    fn name(&self) -> &'static str {
        match self.packed {
            Packed::Brotli => "unbr",
            Packed::Zstd => "unzstd",
        }
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let slice = &input[..input.len().min(SLICE)];
        let room = out.len().min(SLICE);
        let did = self.decoder.run(slice, &mut out[..room])?;
        let state =
            state_of(self.packed.coding(), &*self.decoder, input.len() - did.consumed, is_last, did.produced == room)?;
        Ok(FilterStep { consumed: did.consumed, produced: did.produced, state })
    }
}

/// The state after a decoder has left `rest` bytes of its input. `is_full`: it has filled the room it had, and may have
/// more.
fn state_of(
    coding: Coding,
    decoder: &dyn CodingDecoder,
    rest: usize,
    is_last: bool,
    is_full: bool,
) -> Result<FilterState, FilterError> {
    if decoder.is_ended() && rest > 0 {
        return Err(FilterError::JunkAfterCoding(coding));
    }
    if is_full && !decoder.is_ended() || rest > 0 {
        return Ok(FilterState::More);
    }
    match is_last {
        true if decoder.may_end() => Ok(FilterState::End),
        true => Err(FilterError::CodingTruncated(coding)),
        false => Ok(FilterState::Hungry),
    }
}

/// Lets a body through and sees whether it can be unpacked, so that no client is sent half of one.
pub struct Check {
    packed: Packed,
    decoder: Box<dyn CodingDecoder>,
    scratch: Box<[u8]>,
    made: usize,
    plain_bytes: u64,
}

impl Check {
    pub fn new(packed: Packed) -> Self {
        let scratch = vec![0; SLICE].into_boxed_slice();
        Self { packed, decoder: packed.decoder(), scratch, made: 0, plain_bytes: 0 }
    }
}

impl Filter for Check {
    fn name(&self) -> &'static str {
        match self.packed {
            Packed::Brotli => "testbr",
            Packed::Zstd => "testzstd",
        }
    }

    fn keeps_body(&self) -> bool {
        true
    }

    /// Out goes what the decoder has taken: a step is bounded by what it makes, too.
    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let slice = &input[..input.len().min(SLICE).min(out.len())];
        let did = self.decoder.run(slice, &mut self.scratch)?;
        self.made = did.produced;
        self.plain_bytes += did.produced as u64;
        out[..did.consumed].copy_from_slice(&slice[..did.consumed]);
        let (rest, is_full) = (input.len() - did.consumed, did.produced == self.scratch.len());
        let state = state_of(self.packed.coding(), &*self.decoder, rest, is_last, is_full)?;
        Ok(FilterStep { consumed: did.consumed, produced: did.consumed, state })
    }

    fn micros(&self, step: &FilterStep) -> u32 {
        FilterStep { produced: self.made, ..*step }.micros_at(UNPACKED_A_MICRO)
    }

    fn plain_bytes(&self) -> Option<u64> {
        Some(self.plain_bytes)
    }
}

#[cfg(test)]
mod tests;
