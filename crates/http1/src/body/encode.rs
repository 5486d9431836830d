// SPDX-License-Identifier: BSD-2-Clause
//! The chunk encoder (RFC 9112 7.1).

/// The end of a chunked body without trailers.
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

    pub fn as_bytes(&self) -> &[u8] {
        &self.text[usize::from(self.from)..]
    }
}
