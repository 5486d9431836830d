// SPDX-License-Identifier: BSD-2-Clause
//! Body decoders and the chunk encoder (RFC 9112 6 and 7). No byte is copied here.

mod chunked;
mod encode;
mod extension;
mod trailer;

use std::ops::Range;

use message::{Head, HeadLimits};

use crate::Framing;
use chunked::Chunked;
pub use encode::{ChunkHeader, LAST_CHUNK};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyStep {
    /// These bytes of the input are data; everything up to their end is consumed.
    Data(Range<usize>),
    /// A number of bytes of framing is consumed and more input is needed.
    More {
        /// Bytes of the input that are done with.
        consumed: usize,
    },
    /// The body is complete; what follows belongs to the next message.
    End { consumed: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    Length,
    ChunkData,
    Chunking,
}

/// The reason why a body is broken. It must never be passed on as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    Truncated(Truncation),
    BadSize,
    SizeTooLong,
    /// A chunk's size doesn't fit 63 bits.
    SizeTooLarge,
    /// Extensions longer than the bound, or against the grammar: control characters, a line end in quotes.
    BadExtension,
    NoCrlf,
    /// A trailer line is malformed or may not be there, or they exceed the bound.
    BadTrailer,
}

impl BodyError {
    /// The text that varnishd logs as FetchError for it, or one in its manner.
    pub fn text(self) -> &'static str {
        match self {
            Self::Truncated(Truncation::Length) => "straight insufficient bytes",
            Self::Truncated(Truncation::ChunkData) => "chunked insufficient bytes",
            Self::Truncated(Truncation::Chunking) => "chunked read err",
            Self::BadSize => "chunked header non-hex",
            Self::SizeTooLong => "chunked header too long",
            Self::SizeTooLarge => "bogusly large chunk size",
            Self::BadExtension => "chunked header extension",
            Self::NoCrlf => "chunked tail no NL",
            Self::BadTrailer => "chunked trailer",
        }
    }
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for BodyError {}

#[derive(Clone, Debug)]
pub struct FramingDecoder {
    state: FramingState,
    /// The lines behind the body, checked, once it is complete.
    trailers: Vec<u8>,
}

#[derive(Clone, Debug)]
enum FramingState {
    Length { left: u64 },
    Chunked(Chunked),
    Eof,
    Complete,
    Failed(BodyError),
}

impl FramingDecoder {
    /// A decoder for a request's body: the chunked coding to the letter, and no field of framing in the trailers.
    pub fn request(framing: Framing) -> Self {
        Self::new(framing, false)
    }

    /// A decoder for a response's body, which may end lines with a lone LF, pad a chunk's size with blanks and put
    /// anything into extensions.
    pub fn response(framing: Framing) -> Self {
        Self::new(framing, true)
    }

    fn new(framing: Framing, lax: bool) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => FramingState::Complete,
            Framing::Length(left) => FramingState::Length { left },
            Framing::Chunked => FramingState::Chunked(Chunked::new(lax)),
            Framing::Eof => FramingState::Eof,
        };
        FramingDecoder { state, trailers: Vec::new() }
    }

    /// Looks at the next input. After [`BodyStep::Data`] call again with what follows the range, even when that is nothing:
    /// the end of a body of known length is a step of its own.
    ///
    /// # Errors
    /// The body is broken; every later call says the same.
    pub fn decode(&mut self, input: &[u8]) -> Result<BodyStep, BodyError> {
        match &mut self.state {
            FramingState::Complete => Ok(BodyStep::End { consumed: 0 }),
            FramingState::Failed(error) => Err(*error),
            FramingState::Eof if input.is_empty() => Ok(BodyStep::More { consumed: 0 }),
            FramingState::Eof => Ok(BodyStep::Data(0..input.len())),
            FramingState::Length { .. } if input.is_empty() => Ok(BodyStep::More { consumed: 0 }),
            FramingState::Length { left } => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                self.advance(n as u64);
                Ok(BodyStep::Data(0..n))
            }
            FramingState::Chunked(chunked) => {
                let step = chunked.decode(input);
                match &step {
                    Ok(BodyStep::End { .. }) => {
                        self.trailers = chunked.take_trailers();
                        self.state = FramingState::Complete;
                    }
                    Err(error) => self.state = FramingState::Failed(*error),
                    Ok(BodyStep::Data(_) | BodyStep::More { .. }) => {}
                }
                step
            }
        }
    }

    /// The peer has closed its side.
    ///
    /// # Errors
    /// [`BodyError::Truncated`] unless the body is complete by that.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match &self.state {
            FramingState::Complete => return Ok(()),
            FramingState::Eof => {
                self.state = FramingState::Complete;
                return Ok(());
            }
            FramingState::Failed(error) => return Err(*error),
            FramingState::Length { .. } | FramingState::Chunked(_) => {}
        }
        let cut = self.cut();
        self.state = FramingState::Failed(BodyError::Truncated(cut));
        Err(BodyError::Truncated(cut))
    }

    /// Goes over input that stays where it is: whether the body ends in it.
    ///
    /// # Errors
    /// The body is broken.
    pub fn skip(&mut self, mut input: &[u8]) -> Result<bool, BodyError> {
        loop {
            match self.decode(input)? {
                BodyStep::Data(range) => input = &input[range.end..],
                BodyStep::More { .. } => return Ok(false),
                BodyStep::End { .. } => return Ok(true),
            }
        }
    }

    /// The place at which a body that isn't complete would be cut now.
    pub fn cut(&self) -> Truncation {
        match &self.state {
            FramingState::Chunked(chunked) if chunked.data_ahead() > 0 => Truncation::ChunkData,
            FramingState::Chunked(_) => Truncation::Chunking,
            FramingState::Length { .. } | FramingState::Eof | FramingState::Complete | FramingState::Failed(_) => {
                Truncation::Length
            }
        }
    }

    /// Number of bytes of data that come next without framing between them (at most), so that they can be read straight
    /// to where they are kept; tell [`FramingDecoder::advance`] how many came. 0: call [`FramingDecoder::decode`].
    pub fn data_ahead(&self) -> u64 {
        match &self.state {
            FramingState::Length { left } => *left,
            FramingState::Chunked(chunked) => chunked.data_ahead(),
            FramingState::Eof => u64::MAX,
            FramingState::Complete | FramingState::Failed(_) => 0,
        }
    }

    /// `n` bytes of data were read past the decoder. Panics when `n` is more than [`FramingDecoder::data_ahead`].
    pub fn advance(&mut self, n: u64) {
        assert!(n <= self.data_ahead(), "more data than the body has");
        match &mut self.state {
            FramingState::Length { left } => {
                *left -= n;
                if *left == 0 {
                    self.state = FramingState::Complete;
                }
            }
            FramingState::Chunked(chunked) => chunked.advance(n),
            FramingState::Eof | FramingState::Complete | FramingState::Failed(_) => {}
        }
    }

    /// The fields behind the body, once it is complete: in a head of these limits, as many as fit.
    pub fn trailers(&self, limits: HeadLimits) -> Option<Head> {
        if self.trailers.is_empty() {
            return None;
        }
        let mut head = Head::with_limits(limits);
        for line in self.trailers.split(|&c| c == b'\n').filter(|line| !line.is_empty()) {
            let fits = head.append_line(line.strip_suffix(b"\r").unwrap_or(line));
            if fits.is_err() {
                break;
            }
        }
        Some(head)
    }

    pub fn is_complete(&self) -> bool {
        matches!(self.state, FramingState::Complete)
    }
}

#[cfg(test)]
mod tests;
