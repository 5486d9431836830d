// SPDX-License-Identifier: BSD-2-Clause
//! Unpacks one gzip member, checked; what gunzip and testgunzip share.

use zlib_rs::{Inflate, InflateFlush, Status};

use crate::FilterError;

/// zlib's window bits for "gzip, any window".
const GZIP: u8 = 16 + 15;

pub(crate) struct Unzip {
    inner: Inflate,
    ended: bool,
}

/// What one call did.
pub(crate) struct Unzipped {
    pub(crate) consumed: usize,
    pub(crate) produced: usize,
}

impl Unzip {
    pub(crate) fn new() -> Self {
        Self { inner: Inflate::new(true, GZIP), ended: false }
    }

    /// Unpacks until `input` is used, `out` is full, or the member ends.
    ///
    /// # Errors
    /// Not gzip, or damaged.
    pub(crate) fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<Unzipped, FilterError> {
        if self.ended {
            return Ok(Unzipped { consumed: 0, produced: 0 });
        }
        let (from, to) = (self.inner.total_in(), self.inner.total_out());
        match self.inner.decompress(input, out, InflateFlush::NoFlush) {
            Ok(Status::StreamEnd) => self.ended = true,
            Ok(Status::Ok | Status::BufError) => {}
            Err(error) => {
                return Err(FilterError::InvalidGzip(self.inner.error_message().unwrap_or(error.as_str())));
            }
        }
        Ok(Unzipped {
            consumed: (self.inner.total_in() - from) as usize,
            produced: (self.inner.total_out() - to) as usize,
        })
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Where the blocks are. Not known: zlib keeps it to itself.
    pub(crate) fn bits(&self) -> crate::GzipBits {
        crate::GzipBits { plain_bytes: self.total_out(), ..Default::default() }
    }

    pub(crate) fn total_in(&self) -> u64 {
        self.inner.total_in()
    }

    pub(crate) fn total_out(&self) -> u64 {
        self.inner.total_out()
    }
}
