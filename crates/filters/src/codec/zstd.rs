// SPDX-License-Identifier: BSD-2-Clause
//! `zstd` (RFC 8878), by the library of its authors.
//!
//! Windows of more than 8 MB are refused (RFC 9659): no client takes them either. A body may be several frames.

use message::Coding;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, get_error_name, zstd_sys::ZSTD_EndDirective};

use super::memory::Held;
use super::{CodecOperation, CodecProgress, CodingDecoder, CodingEncoder, PackParams};
use crate::FilterError;

/// Bits of the largest window.
const WINDOW: u32 = 23;

pub(super) struct Unpacker {
    state: DCtx<'static>,
    held: Held,
    /// Within a frame, or before the first.
    is_within: bool,
}

impl Unpacker {
    pub fn new() -> Self {
        let mut state = DCtx::create();
        let set = state.set_parameter(DParameter::WindowLogMax(WINDOW));
        debug_assert!(set.is_ok(), "a window that there is");
        Self { state, held: Held::default(), is_within: true }
    }
}

fn failed(code: usize) -> FilterError {
    FilterError::InvalidCoding(Coding::Zstd, get_error_name(code))
}

impl CodingDecoder for Unpacker {
    fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<CodecProgress, FilterError> {
        if input.is_empty() && !self.is_within {
            return Ok(CodecProgress::default());
        }
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(out));
        let left = self.state.decompress_stream(&mut to, &mut from).map_err(failed)?;
        let progress = CodecProgress { consumed: from.pos(), produced: to.pos() };
        if progress != CodecProgress::default() {
            self.is_within = left > 0;
        }
        if !self.held.set(self.state.sizeof() as u64) {
            return Err(FilterError::CodingMemory(Coding::Zstd));
        }
        Ok(progress)
    }

    fn may_end(&self) -> bool {
        !self.is_within
    }

    fn is_ended(&self) -> bool {
        // Another frame may follow.
        false
    }
}

pub(super) struct Packer {
    params: PackParams,
    /// Encoder, from the first bytes on.
    state: Option<CCtx<'static>>,
    held: Held,
    /// Nothing is held back, as far as the last call said.
    is_flushed: bool,
    is_ended: bool,
}

impl Packer {
    pub fn new(params: PackParams) -> Self {
        Self { params, state: None, held: Held::default(), is_flushed: true, is_ended: false }
    }

    fn begin(&self) -> Result<CCtx<'static>, FilterError> {
        let mut state = CCtx::try_create().ok_or(FilterError::PackFailed(Coding::Zstd))?;
        let parameters = [
            CParameter::CompressionLevel(i32::from(self.params.zstd_level.clamp(1, 19))),
            CParameter::WindowLog(self.params.window()),
            // Neither gzip's clients nor ours were ever told of anything that this finds: TCP, TLS and the length have checks of their own.
            CParameter::ChecksumFlag(false),
        ];
        for parameter in parameters {
            state.set_parameter(parameter).map_err(|_| FilterError::PackFailed(Coding::Zstd))?;
        }
        Ok(state)
    }
}

impl CodingEncoder for Packer {
    fn run(&mut self, input: &[u8], operation: CodecOperation, out: &mut [u8]) -> Result<CodecProgress, FilterError> {
        if input.is_empty() && operation == CodecOperation::Process {
            return Ok(CodecProgress::default());
        }
        let mut state = match self.state.take() {
            Some(state) => state,
            None => self.begin()?,
        };
        let directive = match operation {
            CodecOperation::Process => ZSTD_EndDirective::ZSTD_e_continue,
            CodecOperation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
            CodecOperation::Finish => ZSTD_EndDirective::ZSTD_e_end,
        };
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(out));
        let left =
            state.compress_stream2(&mut to, &mut from, directive).map_err(|_| FilterError::PackFailed(Coding::Zstd))?;
        self.is_flushed = left == 0;
        self.is_ended = operation == CodecOperation::Finish && left == 0;
        self.held.set_anyway(state.sizeof() as u64);
        self.state = Some(state);
        Ok(CodecProgress { consumed: from.pos(), produced: to.pos() })
    }

    fn is_flushed(&self) -> bool {
        self.is_flushed
    }

    fn is_ended(&self) -> bool {
        self.is_ended
    }
}
