// SPDX-License-Identifier: BSD-2-Clause
//! `gzip`: packs a body on its way into the cache.
//!
//! The deflate stream is brought to a byte boundary and ended with an empty stored block of our own, so that we know
//! where its last block begins without asking the compressor: that is what stitching needs.

use zlib_rs::{DeflateFlush, crc32};

use crate::gunzip::record;
use crate::packer::Packer;
use crate::step::Flushed;
use crate::{Filter, FilterError, FilterState, FilterStep, GzipBits, SLICE, UNPACKED_A_MICRO, stitch};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GzipParams {
    pub level: u8,
    pub memlevel: u8,
}

impl Default for GzipParams {
    fn default() -> Self {
        Self { level: 6, memlevel: 8 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GzipPace {
    /// Bytes that one step packs at most: about 150 microseconds of text.
    pub slice: usize,
    /// Bytes of text compressed in a microsecond. Bytes that are made to be hard to compress take some five times as
    /// long.
    pub bytes_a_micro: u32,
}

impl GzipParams {
    pub(crate) fn pace(self) -> GzipPace {
        match self.level {
            0 => GzipPace { slice: SLICE, bytes_a_micro: UNPACKED_A_MICRO },
            1..=3 => GzipPace { slice: SLICE / 2, bytes_a_micro: 60 },
            4..=6 => GzipPace { slice: SLICE / 4, bytes_a_micro: 25 },
            7.. => GzipPace { slice: SLICE / 16, bytes_a_micro: 10 },
        }
    }
}

pub struct Gzip {
    deflate: Packer,
    pace: GzipPace,
    crc: u32,
    plain: u64,
    packed: u64,
    flushed: Flushed,
    phase: Phase,
}

enum Phase {
    Head,
    Body,
    /// All input is in; the compressor still gives.
    Flush,
    Tail(usize),
}

impl Gzip {
    pub fn new(params: GzipParams) -> Self {
        Self {
            deflate: Packer::new(params),
            pace: params.pace(),
            crc: 0,
            plain: 0,
            packed: 0,
            flushed: Flushed::default(),
            phase: Phase::Head,
        }
    }

    fn bits(&self) -> GzipBits {
        let tail = (stitch::TAIL_BYTES as u64) * 8;
        let last = (self.packed * 8).saturating_sub(tail);
        GzipBits { start: stitch::HEADER.len() as u64 * 8, last, stop: last + 40, plain_bytes: self.plain }
    }

    fn tail(&self) -> [u8; stitch::TAIL_BYTES] {
        stitch::tail(self.crc, self.plain)
    }
}

impl Filter for Gzip {
    fn name(&self) -> &'static str {
        "gzip"
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let mut step = FilterStep { consumed: 0, produced: 0, state: FilterState::More };
        match self.phase {
            Phase::Head => {
                let head = stitch::HEADER;
                let at = self.packed as usize;
                let n = (head.len() - at).min(out.len());
                out[..n].copy_from_slice(&head[at..at + n]);
                step.produced = n;
                if at + n == head.len() {
                    self.phase = Phase::Body;
                }
            }
            Phase::Body if input.is_empty() && !is_last && self.flushed.is_due(self.plain) => {
                step.produced = self.deflate.pack(&[], out, DeflateFlush::SyncFlush)?.made;
                if step.produced < out.len() {
                    self.flushed.done(self.plain);
                    step.state = FilterState::Hungry;
                }
            }
            Phase::Body => {
                let slice = &input[..input.len().min(self.pace.slice)];
                let packed = self.deflate.pack(slice, out, DeflateFlush::NoFlush)?;
                (step.consumed, step.produced) = (packed.used, packed.made);
                let used = &slice[..step.consumed];
                self.crc = crc32::crc32(self.crc, used);
                self.plain += used.len() as u64;
                if step.consumed == input.len() && step.produced < out.len() {
                    let is_done = !is_last && !self.flushed.is_due(self.plain);
                    step.state = if is_done { FilterState::Hungry } else { FilterState::More };
                    if is_last {
                        self.phase = Phase::Flush;
                    }
                }
            }
            Phase::Flush => {
                step.produced = self.deflate.pack(&[], out, DeflateFlush::SyncFlush)?.made;
                if step.produced < out.len() {
                    self.deflate.release();
                    self.phase = Phase::Tail(0);
                }
            }
            Phase::Tail(at) => {
                let tail = self.tail();
                let n = (tail.len() - at).min(out.len());
                out[..n].copy_from_slice(&tail[at..at + n]);
                step.produced = n;
                self.phase = Phase::Tail(at + n);
                if at + n == tail.len() {
                    step.state = FilterState::End;
                }
            }
        }
        self.packed += step.produced as u64;
        Ok(step)
    }

    fn micros(&self, step: &FilterStep) -> u32 {
        step.micros_at(self.pace.bytes_a_micro)
    }

    fn flush(&mut self) {
        self.flushed.ask();
    }

    fn closing_note(&self) -> Option<String> {
        Some(record("G F -", self.plain, self.packed, self.bits()))
    }

    fn gzip_bits(&self) -> Option<GzipBits> {
        Some(self.bits())
    }
}
