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
pub enum Step {
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
pub struct Decoder {
    state: State,
    /// The lines behind the body, checked, once it is complete.
    trailers: Vec<u8>,
}

#[derive(Clone, Debug)]
enum State {
    Length { left: u64 },
    Chunked(Chunked),
    Eof,
    Complete,
    Failed(BodyError),
}

impl Decoder {
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
            Framing::None | Framing::Length(0) => State::Complete,
            Framing::Length(left) => State::Length { left },
            Framing::Chunked => State::Chunked(Chunked::new(lax)),
            Framing::Eof => State::Eof,
        };
        Decoder { state, trailers: Vec::new() }
    }

    /// Looks at the next input. After [`Step::Data`] call again with what follows the range, even when that is nothing:
    /// the end of a body of known length is a step of its own.
    ///
    /// # Errors
    /// The body is broken; every later call says the same.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, BodyError> {
        match &mut self.state {
            State::Complete => Ok(Step::End { consumed: 0 }),
            State::Failed(error) => Err(*error),
            State::Eof if input.is_empty() => Ok(Step::More { consumed: 0 }),
            State::Eof => Ok(Step::Data(0..input.len())),
            State::Length { .. } if input.is_empty() => Ok(Step::More { consumed: 0 }),
            State::Length { left } => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                self.advance(n as u64);
                Ok(Step::Data(0..n))
            }
            State::Chunked(chunked) => {
                let step = chunked.decode(input);
                match &step {
                    Ok(Step::End { .. }) => {
                        self.trailers = chunked.take_trailers();
                        self.state = State::Complete;
                    }
                    Err(error) => self.state = State::Failed(*error),
                    Ok(Step::Data(_) | Step::More { .. }) => {}
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
            State::Complete => return Ok(()),
            State::Eof => {
                self.state = State::Complete;
                return Ok(());
            }
            State::Failed(error) => return Err(*error),
            State::Length { .. } | State::Chunked(_) => {}
        }
        let cut = self.cut();
        self.state = State::Failed(BodyError::Truncated(cut));
        Err(BodyError::Truncated(cut))
    }

    /// Goes over input that stays where it is: whether the body ends in it.
    ///
    /// # Errors
    /// The body is broken.
    pub fn skip(&mut self, mut input: &[u8]) -> Result<bool, BodyError> {
        loop {
            match self.decode(input)? {
                Step::Data(range) => input = &input[range.end..],
                Step::More { .. } => return Ok(false),
                Step::End { .. } => return Ok(true),
            }
        }
    }

    /// The place at which a body that isn't complete would be cut now.
    pub fn cut(&self) -> Truncation {
        match &self.state {
            State::Chunked(chunked) if chunked.data_ahead() > 0 => Truncation::ChunkData,
            State::Chunked(_) => Truncation::Chunking,
            State::Length { .. } | State::Eof | State::Complete | State::Failed(_) => Truncation::Length,
        }
    }

    /// Number of bytes of data that come next without framing between them (at most), so that they can be read straight
    /// to where they are kept; tell [`Decoder::advance`] how many came. 0: call [`Decoder::decode`].
    pub fn data_ahead(&self) -> u64 {
        match &self.state {
            State::Length { left } => *left,
            State::Chunked(chunked) => chunked.data_ahead(),
            State::Eof => u64::MAX,
            State::Complete | State::Failed(_) => 0,
        }
    }

    /// `n` bytes of data were read past the decoder. Panics when `n` is more than [`Decoder::data_ahead`].
    pub fn advance(&mut self, n: u64) {
        assert!(n <= self.data_ahead(), "more data than the body has");
        match &mut self.state {
            State::Length { left } => {
                *left -= n;
                if *left == 0 {
                    self.state = State::Complete;
                }
            }
            State::Chunked(chunked) => chunked.advance(n),
            State::Eof | State::Complete | State::Failed(_) => {}
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
        matches!(self.state, State::Complete)
    }
}

#[cfg(test)]
mod tests;
