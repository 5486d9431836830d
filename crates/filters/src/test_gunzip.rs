// SPDX-License-Identifier: BSD-2-Clause
//! `testgunzip`: lets a gzip body through as it is and checks on the way that it is whole and sound.

use crate::gunzip::record;
use crate::inflate::Unzip;
use crate::{Filter, FilterError, FilterNote, FilterState, FilterStep, GzipBits, SLICE, UNPACKED_A_MICRO};

pub struct TestGunzip {
    unzip: Unzip,
    scratch: Box<[u8]>,
    made: usize,
}

impl TestGunzip {
    pub fn new() -> Self {
        Self { unzip: Unzip::new(), scratch: vec![0; SLICE].into_boxed_slice(), made: 0 }
    }
}

impl Default for TestGunzip {
    fn default() -> Self {
        Self::new()
    }
}

impl Filter for TestGunzip {
    fn name(&self) -> &'static str {
        "testgunzip"
    }

    /// Bytes go out as soon as they are unpacked, so that one step never unpacks more than a slice.
    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let take = input.len().min(out.len()).min(SLICE);
        let did = self.unzip.run(&input[..take], &mut self.scratch)?;
        self.made = did.produced;
        out[..did.consumed].copy_from_slice(&input[..did.consumed]);
        let rest = input.len() - did.consumed;
        let state = if self.unzip.is_ended() && rest > 0 {
            return Err(FilterError::JunkAfterGzip);
        } else if self.unzip.is_ended() && is_last {
            FilterState::End
        } else if did.produced == self.scratch.len() || rest > 0 {
            FilterState::More
        } else if is_last {
            return Err(FilterError::TestTruncated);
        } else {
            FilterState::Hungry
        };
        Ok(FilterStep { consumed: did.consumed, produced: did.consumed, state })
    }

    fn micros(&self, step: &FilterStep) -> u32 {
        FilterStep { produced: self.made, ..*step }.micros_at(UNPACKED_A_MICRO)
    }

    fn take_notes(&mut self, notes: &mut Vec<FilterNote>) {
        notes.extend(self.unzip.take_note().map(FilterNote::Gzip));
    }

    fn closing_note(&self) -> Option<String> {
        Some(record("u F -", self.unzip.total_in(), self.unzip.total_out(), self.unzip.bits()))
    }

    fn gzip_bits(&self) -> Option<GzipBits> {
        self.unzip.is_ended().then(|| self.unzip.bits())
    }
}
