// SPDX-License-Identifier: BSD-2-Clause
//! Coders and decoders of `br` and `zstd`, a bounded step at a time. (Gzip's are our own or zlib's, see `inflate` and `packer`.)
//!
//! A decoder takes any bytes: what isn't the coding, or wants a larger window than clients have, is an error. What all
//! coders together hold in the way of windows and tables is counted ([`memory_held`]) and bounded ([`set_memory_limit`]):
//! at the bound a decoder fails, whatever its stream says of itself. How much it makes at a step is bounded by the room it is given.

mod brotli;
mod dictionary;
mod memory;
mod zstd;

use message::Coding;

use crate::FilterError;

pub use dictionary::{RawDictionary, pack_against};
pub use memory::{held as memory_held, refused as memory_refused, set_limit as set_memory_limit};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodecProgress {
    pub consumed: usize,
    pub produced: usize,
}

pub(crate) trait CodingDecoder {
    /// Takes from `input` and writes to `out`, which isn't empty, until one is used up or the end is reached. Nothing done
    /// means that it wants more input.
    fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<CodecProgress, FilterError>;

    /// True if the input so far may be all of it.
    fn may_end(&self) -> bool;

    /// True if more input would be junk.
    fn is_ended(&self) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodecOperation {
    /// More input follows: as much as that makes shorter may be held back.
    Process,
    /// Readers wait for all that was taken. There is no input, and it is to be called until [`CodingEncoder::is_flushed`].
    Flush,
    /// Nothing follows the input: it is to be called until [`CodingEncoder::is_ended`].
    Finish,
}

pub(crate) trait CodingEncoder {
    fn run(&mut self, input: &[u8], operation: CodecOperation, out: &mut [u8]) -> Result<CodecProgress, FilterError>;

    /// True if the last call, a flush, has written all that it had to.
    fn is_flushed(&self) -> bool;

    fn is_ended(&self) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackParams {
    pub brotli_quality: u8,
    pub zstd_level: u8,
    /// Bytes that are to be packed, where that is known.
    pub bytes: Option<u64>,
}

impl Default for PackParams {
    fn default() -> Self {
        Self { brotli_quality: 5, zstd_level: 3, bytes: None }
    }
}

impl PackParams {
    /// Strongest compression that is worth it for bodies that are sent often.
    pub const HARD: PackParams = PackParams { brotli_quality: 11, zstd_level: 19, bytes: None };
    /// Largest window in bits: no more than any client has for both codings, and little enough for many bodies at once.
    const WINDOW: u32 = 19;
    const LEAST_WINDOW: u32 = 16;

    fn window(&self) -> u32 {
        let needed = self.bytes.map_or(Self::WINDOW, |bytes| u64::BITS - bytes.saturating_sub(1).leading_zeros());
        needed.clamp(Self::LEAST_WINDOW, Self::WINDOW)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    Brotli,
    Zstd,
}

impl Packed {
    pub const fn coding(self) -> Coding {
        match self {
            Packed::Brotli => Coding::Brotli,
            Packed::Zstd => Coding::Zstd,
        }
    }

    /// Bytes of text that are packed in about a microsecond.
    pub(crate) fn pace(self, params: PackParams) -> u32 {
        match (self, params.brotli_quality, params.zstd_level) {
            (Packed::Brotli, 0..=4, _) => 60,
            (Packed::Brotli, 5..=9, _) => 25,
            (Packed::Brotli, 10.., _) => 1,
            (Packed::Zstd, _, 0..=4) => 200,
            (Packed::Zstd, _, 5..=9) => 50,
            (Packed::Zstd, _, 10..) => 5,
        }
    }

    pub(crate) fn decoder(self) -> Box<dyn CodingDecoder> {
        match self {
            Packed::Brotli => Box::new(brotli::Unpacker::new()),
            Packed::Zstd => Box::new(zstd::Unpacker::new()),
        }
    }

    pub(crate) fn encoder(self, params: PackParams) -> Box<dyn CodingEncoder> {
        match self {
            Packed::Brotli => Box::new(brotli::Packer::new(params)),
            Packed::Zstd => Box::new(zstd::Packer::new(params)),
        }
    }
}
