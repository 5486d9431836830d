// SPDX-License-Identifier: BSD-2-Clause
//! The decoder of the chunked coding (RFC 9112 7.1). Extensions are skipped, trailers checked and dropped; both bounded.
//!
//! ```text
//! Size -> Blank -> Extension -> SizeLf -> Data -> DataCr -> DataLf -> Size ...
//!                                  `-> (size 0) LineStart -> Name -> Value -> ValueLf -> LineStart ... EndLf -> Done
//! ```

use message::chars::{is_blank, is_tchar, is_value_char};

use super::{BodyError, Step};

/// Most digits of a size, leading zeros included.
const MAX_DIGITS: u8 = 20;
/// Most bytes of extensions and padding in a whole body: each costs the sender a byte too, but buys nothing.
const MAX_EXTENSION_BYTES: u32 = 16 * 1024;
/// Most bytes of one size line's extensions.
const MAX_EXTENSION_LINE: u32 = 1024;
/// Most bytes of all trailer lines.
const MAX_TRAILER_BYTES: u32 = 8 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size { digits: u8 },
    Blank,
    Extension { quoted: bool, escaped: bool },
    SizeLf,
    Data,
    DataCr,
    DataLf,
    LineStart,
    Name,
    Value,
    ValueLf,
    EndLf,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Chunked {
    at: At,
    /// The chunk's size while it is read; then what is left of its data.
    left: u64,
    extension_line: u32,
    extension_bytes: u32,
    trailer_bytes: u32,
    /// Take a lone LF for CRLF, and blanks after a size.
    lax: bool,
}

impl Chunked {
    pub(super) fn new(lax: bool) -> Self {
        Chunked { at: At::Size { digits: 0 }, left: 0, extension_line: 0, extension_bytes: 0, trailer_bytes: 0, lax }
    }

    pub(super) fn data_ahead(&self) -> u64 {
        if self.at == At::Data { self.left } else { 0 }
    }

    pub(super) fn advance(&mut self, n: u64) {
        if self.at == At::Data {
            self.left -= n;
            if self.left == 0 {
                self.at = At::DataCr;
            }
        }
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Result<Step, BodyError> {
        let mut i = 0;
        while i < input.len() {
            if self.at == At::Data {
                let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - i);
                self.advance(n as u64);
                return Ok(Step::Data(i..i + n));
            }
            self.at = self.next(input[i])?;
            i += 1;
            if self.at == At::Done {
                return Ok(Step::End { consumed: i });
            }
        }
        Ok(Step::More { consumed: i })
    }

    fn next(&mut self, c: u8) -> Result<At, BodyError> {
        match self.at {
            At::Size { digits } => self.size(c, digits),
            At::Blank => match c {
                b';' => self.extension(),
                c if is_blank(c) => self.count_extension().map(|()| At::Blank),
                b'\r' if self.lax => Ok(At::SizeLf),
                b'\n' if self.lax => Ok(self.after_size()),
                _ => Err(BodyError::BadSize),
            },
            At::Extension { quoted, escaped } => self.in_extension(c, quoted, escaped),
            At::SizeLf if c == b'\n' => Ok(self.after_size()),
            At::SizeLf => Err(BodyError::BadSize),
            At::DataCr if c == b'\r' => Ok(At::DataLf),
            At::DataCr if c == b'\n' && self.lax => Ok(At::Size { digits: 0 }),
            At::DataLf if c == b'\n' => Ok(At::Size { digits: 0 }),
            At::DataCr | At::DataLf => Err(BodyError::NoCrlf),
            At::LineStart | At::Name | At::Value | At::ValueLf | At::EndLf => self.trailer(c),
            At::Data | At::Done => unreachable!("neither reads a byte"),
        }
    }

    fn size(&mut self, c: u8, digits: u8) -> Result<At, BodyError> {
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
            return Ok(At::Size { digits: digits + 1 });
        }
        self.extension_line = 0;
        match c {
            _ if digits == 0 => Err(BodyError::BadSize),
            b'\r' => Ok(At::SizeLf),
            b'\n' if self.lax => Ok(self.after_size()),
            b';' => self.extension(),
            c if is_blank(c) => self.count_extension().map(|()| At::Blank),
            _ => Err(BodyError::BadSize),
        }
    }

    fn after_size(&self) -> At {
        if self.left == 0 { At::LineStart } else { At::Data }
    }

    fn extension(&mut self) -> Result<At, BodyError> {
        self.count_extension().map(|()| At::Extension { quoted: false, escaped: false })
    }

    fn count_extension(&mut self) -> Result<(), BodyError> {
        self.extension_line += 1;
        self.extension_bytes += 1;
        if self.extension_line > MAX_EXTENSION_LINE || self.extension_bytes > MAX_EXTENSION_BYTES {
            return Err(BodyError::BadExtension);
        }
        Ok(())
    }

    fn in_extension(&mut self, c: u8, quoted: bool, escaped: bool) -> Result<At, BodyError> {
        match c {
            b'\r' if !quoted => return Ok(At::SizeLf),
            b'\n' if !quoted && self.lax => return Ok(self.after_size()),
            c if !is_value_char(c) => return Err(BodyError::BadExtension),
            _ => {}
        }
        self.count_extension()?;
        Ok(match c {
            _ if escaped => At::Extension { quoted, escaped: false },
            b'\\' if quoted => At::Extension { quoted, escaped: true },
            b'"' => At::Extension { quoted: !quoted, escaped: false },
            _ => At::Extension { quoted, escaped: false },
        })
    }

    fn trailer(&mut self, c: u8) -> Result<At, BodyError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > MAX_TRAILER_BYTES {
            return Err(BodyError::BadTrailer);
        }
        match (self.at, c) {
            (At::LineStart, b'\r') => Ok(At::EndLf),
            (At::LineStart, b'\n') if self.lax => Ok(At::Done),
            (At::EndLf, b'\n') => Ok(At::Done),
            (At::LineStart | At::Name, c) if is_tchar(c) => Ok(At::Name),
            (At::Name, b':') => Ok(At::Value),
            (At::Value, b'\r') => Ok(At::ValueLf),
            (At::Value, b'\n') if self.lax => Ok(At::LineStart),
            (At::Value, c) if is_value_char(c) => Ok(At::Value),
            (At::ValueLf, b'\n') => Ok(At::LineStart),
            _ => Err(BodyError::BadTrailer),
        }
    }
}
