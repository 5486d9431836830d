// SPDX-License-Identifier: BSD-2-Clause
//! Body decoders and the chunk encoder (RFC 9112 6 and 7). No byte is copied here.

use std::ops::Range;

use crate::Framing;

/// What a decoder found in its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes of the input are data; everything up to their end is consumed.
    Data(Range<usize>),
    /// So many bytes of framing are consumed and more input is needed.
    More { consumed: usize },
    /// The body is complete; so many bytes are consumed, what follows belongs to the next message.
    End { consumed: usize },
}

/// Why a body is broken. It must never be passed on as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The connection ended before the body did.
    Truncated,
    /// A chunk's size line isn't one.
    BadSize,
    /// A chunk's size doesn't fit 63 bits.
    SizeTooLarge,
    /// Extensions longer than the bound, or with control characters.
    BadExtension,
    /// A chunk's data isn't followed by CRLF.
    NoCrlf,
    /// A trailer line is malformed, or they exceed the bound.
    BadTrailer,
}

impl BodyError {
    /// The text that varnishd logs as FetchError for it (or one in its manner).
    pub fn text(self) -> &'static str {
        match self {
            Self::Truncated => "straight insufficient bytes",
            Self::BadSize => "chunked header non-hex",
            Self::SizeTooLarge => "chunked header too long",
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

/// Decodes one body.
#[derive(Clone, Debug)]
pub struct Decoder {
    framing: Framing,
}

impl Decoder {
    /// A decoder for a request's body: every line end within the chunked coding is CRLF.
    pub fn request(framing: Framing) -> Self {
        Decoder { framing }
    }

    /// A decoder for a response's body, which may end lines with a lone LF.
    pub fn response(framing: Framing) -> Self {
        Decoder { framing }
    }

    /// Looks at the next input. After [`Step::Data`] call again with what follows the range.
    ///
    /// # Errors
    /// The body is broken; every later call says the same.
    pub fn decode(&mut self, input: &[u8]) -> Result<Step, BodyError> {
        let _ = input;
        todo!()
    }

    /// The peer has closed its side.
    ///
    /// # Errors
    /// [`BodyError::Truncated`] unless the body is complete by that.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        todo!()
    }

    /// How many bytes of data come next without framing between them (at most), so that they can be read straight to where
    /// they are kept; tell [`Decoder::advance`] how many came. 0: call [`Decoder::decode`].
    pub fn data_ahead(&self) -> u64 {
        todo!()
    }

    /// `n` bytes of data were read past the decoder. Panics when `n` is more than [`Decoder::data_ahead`].
    pub fn advance(&mut self, n: u64) {
        let _ = n;
        todo!()
    }

    /// Whether the body is complete.
    pub fn is_complete(&self) -> bool {
        let _ = self.framing;
        todo!()
    }
}

/// What ends a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The line before a chunk's data, in hexadecimal with its CRLF; the CRLF after the data is the caller's to write.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    text: [u8; 18],
    from: u8,
}

impl ChunkHeader {
    /// The header of a chunk of `len` bytes. Panics when `len` is 0: that would end the body.
    pub fn new(len: usize) -> Self {
        assert!(len > 0, "a chunk without data ends the body");
        let (mut text, mut from, mut n) = ([0; 18], 16, len);
        text[16..].copy_from_slice(b"\r\n");
        while n > 0 {
            from -= 1;
            text[from] = b"0123456789abcdef"[n & 15];
            n >>= 4;
        }
        ChunkHeader { text, from: from as u8 }
    }

    /// The bytes to write.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[usize::from(self.from)..]
    }
}
