// SPDX-License-Identifier: BSD-2-Clause
//! `br` (RFC 7932), by the crate `brotli`.
//!
//! Windows of more than 16 MB ("large window") are not of the RFC and are refused. A decoder's window grows with what it makes.

use std::cell::Cell;
use std::rc::Rc;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter as Parameter, BrotliEncoderStateStruct};
use brotli::enc::interface::{InputPair, InputReferenceMut, PredictionModeContextMap, StaticCommand};
use brotli::{Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper};
use message::Coding;

use super::memory::Held;
use super::{CodecOperation, CodecProgress, CodingDecoder, CodingEncoder, PackParams};
use crate::FilterError;

/// Allocator of a decoder, which counts memory.
#[derive(Clone, Default)]
struct Counting {
    memory: StandardAlloc,
    bytes: Rc<Cell<u64>>,
}

impl<T: Clone + Default> Allocator<T> for Counting {
    type AllocatedMemory = <StandardAlloc as Allocator<T>>::AllocatedMemory;

    fn alloc_cell(&mut self, len: usize) -> Self::AllocatedMemory {
        self.bytes.set(self.bytes.get() + (len * size_of::<T>()) as u64);
        <StandardAlloc as Allocator<T>>::alloc_cell(&mut self.memory, len)
    }

    fn free_cell(&mut self, cell: Self::AllocatedMemory) {
        self.bytes.set(self.bytes.get().saturating_sub((cell.len() * size_of::<T>()) as u64));
        <StandardAlloc as Allocator<T>>::free_cell(&mut self.memory, cell);
    }
}

/// Bytes that a coder of the usual qualities holds beside its window.
const HASHES: u64 = 1 << 20;
/// Bits of the blocks that are packed at a time: the least there is, so that no step takes long.
const BLOCK: u32 = 16;

pub(super) struct Unpacker {
    /// Large: on the heap.
    state: Box<BrotliState<Counting, Counting, Counting>>,
    bytes: Rc<Cell<u64>>,
    held: Held,
    made: usize,
    is_ended: bool,
}

impl Unpacker {
    pub fn new() -> Self {
        let memory = Counting::default();
        let state = Box::new(BrotliState::new_strict(memory.clone(), memory.clone(), memory.clone()));
        Self { state, bytes: memory.bytes, held: Held::default(), made: 0, is_ended: false }
    }
}

impl CodingDecoder for Unpacker {
    fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<CodecProgress, FilterError> {
        if self.is_ended {
            return Ok(CodecProgress::default());
        }
        let (mut left_in, mut used, mut left_out, mut made) = (input.len(), 0, out.len(), 0);
        let result = BrotliDecompressStream(
            &mut left_in,
            &mut used,
            input,
            &mut left_out,
            &mut made,
            out,
            &mut self.made,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultSuccess => self.is_ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(FilterError::InvalidCoding(Coding::Brotli, "corrupt data")),
        }
        // A step may take one window more than there is, and is the last one then.
        if !self.held.set(self.bytes.get()) {
            return Err(FilterError::CodingMemory(Coding::Brotli));
        }
        Ok(CodecProgress { consumed: used, produced: made })
    }

    fn may_end(&self) -> bool {
        self.is_ended
    }

    fn is_ended(&self) -> bool {
        self.is_ended
    }
}

pub(super) struct Packer {
    params: PackParams,
    /// Encoder, from the first bytes on.
    state: Option<Box<BrotliEncoderStateStruct<StandardAlloc>>>,
    held: Held,
}

impl Packer {
    pub fn new(params: PackParams) -> Self {
        Self { params, state: None, held: Held::default() }
    }

    fn begin(&mut self) -> Box<BrotliEncoderStateStruct<StandardAlloc>> {
        let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
        let (window, quality) = (self.params.window(), u32::from(self.params.brotli_quality.min(11)));
        state.set_parameter(Parameter::BROTLI_PARAM_QUALITY, quality);
        state.set_parameter(Parameter::BROTLI_PARAM_LGWIN, window);
        state.set_parameter(Parameter::BROTLI_PARAM_LGBLOCK, BLOCK);
        if let Some(bytes) = self.params.bytes {
            state.set_parameter(Parameter::BROTLI_PARAM_SIZE_HINT, bytes.min(1 << 30) as u32);
        }
        self.held.set_anyway((2 << window) + if quality > 9 { 8 * HASHES } else { HASHES });
        state
    }
}

impl CodingEncoder for Packer {
    fn run(&mut self, input: &[u8], operation: CodecOperation, out: &mut [u8]) -> Result<CodecProgress, FilterError> {
        if input.is_empty() && operation == CodecOperation::Process {
            return Ok(CodecProgress::default());
        }
        let mut state = self.state.take().unwrap_or_else(|| self.begin());
        let operation = match operation {
            CodecOperation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            CodecOperation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            CodecOperation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let mut ignore = |_: &mut PredictionModeContextMap<InputReferenceMut<'_>>,
                          _: &mut [StaticCommand],
                          _: InputPair<'_>,
                          _: &mut StandardAlloc| ();
        let (mut left_in, mut used, mut left_out, mut made, mut total) = (input.len(), 0, out.len(), 0, None);
        let is_well = state.compress_stream(
            operation,
            &mut left_in,
            input,
            &mut used,
            &mut left_out,
            out,
            &mut made,
            &mut total,
            &mut ignore,
        );
        self.state = Some(state);
        if is_well {
            Ok(CodecProgress { consumed: used, produced: made })
        } else {
            Err(FilterError::PackFailed(Coding::Brotli))
        }
    }

    fn is_flushed(&self) -> bool {
        self.state.as_ref().is_none_or(|state| !state.has_more_output())
    }

    fn is_ended(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.is_finished())
    }
}
