// SPDX-License-Identifier: BSD-2-Clause
//! `gunzip`: unpacks a body, on its way into the cache or to a client that doesn't take gzip.

use crate::inflate::Unzip;
use crate::{Filter, FilterError, FilterNote, FilterState, FilterStep, SLICE};

pub struct Gunzip {
    unzip: Unzip,
    id: &'static str,
}

impl Gunzip {
    /// Between backend and storage (`U F -`).
    pub fn fetch() -> Self {
        Self { unzip: Unzip::new(), id: "U F -" }
    }

    /// Between storage and client (`U D -`).
    pub fn deliver() -> Self {
        Self { unzip: Unzip::new(), id: "U D -" }
    }
}

pub(crate) fn record(id: &str, bytes_in: u64, bytes_out: u64, bits: crate::GzipBits) -> String {
    format!("{id} {bytes_in} {bytes_out} {} {} {}", bits.start, bits.last, bits.stop)
}

impl Filter for Gunzip {
    fn name(&self) -> &'static str {
        "gunzip"
    }

    fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
        let slice = &input[..input.len().min(SLICE)];
        let room = out.len().min(SLICE);
        let did = self.unzip.run(slice, &mut out[..room])?;
        let rest = input.len() - did.consumed;
        let state = if self.unzip.is_ended() && rest > 0 {
            self.unzip.junk(self.id);
            return Err(FilterError::JunkAfterGzip);
        } else if self.unzip.is_ended() && is_last {
            FilterState::End
        } else if did.produced == room || rest > 0 {
            FilterState::More
        } else if is_last {
            return Err(FilterError::GunzipTruncated);
        } else {
            FilterState::Hungry
        };
        Ok(FilterStep { consumed: did.consumed, produced: did.produced, state })
    }

    fn take_notes(&mut self, notes: &mut Vec<FilterNote>) {
        notes.extend(self.unzip.take_note().map(FilterNote::Gzip));
    }

    fn closing_note(&self) -> Option<String> {
        Some(record(self.id, self.unzip.total_in(), self.unzip.total_out(), self.unzip.bits()))
    }
}
