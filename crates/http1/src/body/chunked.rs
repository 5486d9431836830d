// SPDX-License-Identifier: BSD-2-Clause
//! The decoder of the chunked coding (RFC 9112 7.1). Extensions are checked and dropped, trailers checked and kept; both
//! are bounded.
//!
//! ```text
//! Size -> Blank -> Extension -> SizeLf -> Data -> DataCr -> DataLf -> Size ...
//!                                  `-> (size 0) Trailer
//! ```

use message::chars::is_blank;

use super::extension::Extension;
use super::trailer::{self, Trailers};
use super::{BodyError, BodyStep};

/// Most digits of a size, leading zeros included.
const MAX_DIGITS: u8 = 20;
/// Most bytes of extensions and padding in a whole body: each costs the sender a byte too, but buys nothing.
const MAX_EXTENSION_BYTES: u32 = 16 * 1024;
/// Most bytes of one size line's extensions.
const MAX_EXTENSION_LINE: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Size { digits: u8 },
    Blank,
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer(trailer::Position),
}

#[derive(Clone, Debug)]
pub(super) struct Chunked {
    at: Position,
    /// The chunk's size while it is read; then what is left of its data.
    left: u64,
    extension_line: u32,
    extension_bytes: u32,
    trailers: Trailers,
    /// Take a lone LF for CRLF, and blanks after a size.
    lax: bool,
}

impl Chunked {
    pub(super) fn new(lax: bool) -> Self {
        Chunked {
            at: Position::Size { digits: 0 },
            left: 0,
            extension_line: 0,
            extension_bytes: 0,
            trailers: Trailers::new(),
            lax,
        }
    }

    pub(super) fn take_trailers(&mut self) -> Vec<u8> {
        self.trailers.take_lines()
    }

    pub(super) fn data_ahead(&self) -> u64 {
        if self.at == Position::Data { self.left } else { 0 }
    }

    pub(super) fn advance(&mut self, n: u64) {
        if self.at == Position::Data {
            self.left -= n;
            if self.left == 0 {
                self.at = Position::DataCr;
            }
        }
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Result<BodyStep, BodyError> {
        let mut i = 0;
        while i < input.len() {
            if self.at == Position::Data {
                let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - i);
                self.advance(n as u64);
                return Ok(BodyStep::Data(i..i + n));
            }
            self.at = self.next(input[i])?;
            i += 1;
            if self.at == Position::Trailer(trailer::Position::Done) {
                return Ok(BodyStep::End { consumed: i });
            }
        }
        Ok(BodyStep::More { consumed: i })
    }

    fn next(&mut self, c: u8) -> Result<Position, BodyError> {
        match self.at {
            Position::Size { digits } => self.size(c, digits),
            Position::Blank => match c {
                b';' => self.extension(),
                c if is_blank(c) => self.count_extension().map(|()| Position::Blank),
                b'\r' if self.lax => Ok(Position::SizeLf),
                b'\n' if self.lax => Ok(self.after_size()),
                _ => Err(BodyError::BadSize),
            },
            Position::Extension(extension) => self.in_extension(c, extension),
            Position::SizeLf if c == b'\n' => Ok(self.after_size()),
            Position::SizeLf => Err(BodyError::BadSize),
            Position::DataCr if c == b'\r' => Ok(Position::DataLf),
            Position::DataCr if c == b'\n' && self.lax => Ok(Position::Size { digits: 0 }),
            Position::DataLf if c == b'\n' => Ok(Position::Size { digits: 0 }),
            Position::DataCr | Position::DataLf => Err(BodyError::NoCrlf),
            Position::Trailer(at) => {
                self.trailers.next(at, c, self.lax).map(Position::Trailer).ok_or(BodyError::BadTrailer)
            }
            Position::Data => unreachable!("data is taken in pieces, not by the byte"),
        }
    }

    fn size(&mut self, c: u8, digits: u8) -> Result<Position, BodyError> {
        if let Some(digit) = (c as char).to_digit(16) {
            if digits == 0 {
                self.left = 0;
            }
            if digits == MAX_DIGITS {
                return Err(BodyError::SizeTooLong);
            }
            self.left = self.left.checked_mul(16).ok_or(BodyError::SizeTooLarge)? + u64::from(digit);
            if self.left > i64::MAX as u64 {
                return Err(BodyError::SizeTooLarge);
            }
            return Ok(Position::Size { digits: digits + 1 });
        }
        self.extension_line = 0;
        match c {
            _ if digits == 0 => Err(BodyError::BadSize),
            b'\r' => Ok(Position::SizeLf),
            b'\n' if self.lax => Ok(self.after_size()),
            b';' => self.extension(),
            c if is_blank(c) => self.count_extension().map(|()| Position::Blank),
            _ => Err(BodyError::BadSize),
        }
    }

    fn after_size(&self) -> Position {
        if self.left == 0 { Position::Trailer(trailer::Position::LineStart) } else { Position::Data }
    }

    fn extension(&mut self) -> Result<Position, BodyError> {
        self.count_extension().map(|()| Position::Extension(Extension::begin(self.lax)))
    }

    fn count_extension(&mut self) -> Result<(), BodyError> {
        self.extension_line += 1;
        self.extension_bytes += 1;
        if self.extension_line > MAX_EXTENSION_LINE || self.extension_bytes > MAX_EXTENSION_BYTES {
            return Err(BodyError::BadExtension);
        }
        Ok(())
    }

    fn in_extension(&mut self, c: u8, extension: Extension) -> Result<Position, BodyError> {
        match c {
            b'\r' if extension.may_end() => return Ok(Position::SizeLf),
            b'\n' if extension.may_end() && self.lax => return Ok(self.after_size()),
            _ => {}
        }
        self.count_extension()?;
        extension.next(c).map(Position::Extension).ok_or(BodyError::BadExtension)
    }
}
