// SPDX-License-Identifier: BSD-2-Clause
//! The blocks of a gzip body whose positions aren't known yet: it is being fetched, or only passes by. Unpacks it on
//! the way to find where they begin and end; a body that is known is cheaper taken apart by [`crate::stitch::Blocks`].

use crate::inflate::Unzip;
use crate::stitch::{self, GzipSum};
use crate::{FilterError, SLICE};

/// Bytes that may be unpacked before it is known that the last block begins in them: what the bit buffer holds.
const UNSURE: u64 = 16;
/// The last, partly used byte and the trailer.
const TAIL: u64 = 9;

pub struct GzipScan {
    unzip: Unzip,
    scratch: Box<[u8]>,
    /// Bytes looked at and not handed out, the first of them at `at`.
    held: Vec<u8>,
    at: u64,
    is_unmarked: bool,
    is_done: bool,
    sum: GzipSum,
}

impl Default for GzipScan {
    fn default() -> Self {
        Self::new()
    }
}

impl GzipScan {
    pub fn new() -> Self {
        Self {
            unzip: Unzip::new(),
            scratch: vec![0; SLICE].into_boxed_slice(),
            held: Vec::new(),
            at: 0,
            is_unmarked: false,
            is_done: false,
            sum: GzipSum::default(),
        }
    }

    /// Looks at the next bytes, a bounded amount of work; how many were used: call again with the rest. Appends to `out`
    /// what may stand in another body's middle.
    ///
    /// # Errors
    /// Not gzip, or damaged. What was handed out before can't be ended well.
    pub fn step(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<usize, FilterError> {
        if self.is_done {
            return if body.is_empty() { Ok(0) } else { Err(FilterError::JunkAfterGzip) };
        }
        let slice = &body[..body.len().min(SLICE)];
        let did = self.unzip.run(slice, &mut self.scratch)?;
        self.sum.add(&self.scratch[..did.produced]);
        self.held.extend_from_slice(&slice[..did.consumed]);
        let bits = self.unzip.bits();
        let seen = self.at + self.held.len() as u64;
        let safe = if self.unzip.is_ended() {
            bits.stop / 8
        } else if bits.last > 0 {
            seen.saturating_sub(TAIL)
        } else {
            seen.saturating_sub(UNSURE)
        };
        if bits.last > 0 && !self.is_unmarked {
            let at =
                (bits.last / 8).checked_sub(self.at).expect("the last block's begin is held back until it is known");
            self.held[at as usize] &= !(1 << (bits.last & 7));
            self.is_unmarked = true;
        }
        self.hand_out(bits.start / 8, safe, out);
        if self.unzip.is_ended() {
            self.is_done = true;
            let used = (bits.stop & 7) as u32;
            if used > 0 {
                stitch::align(self.held[0], used, out);
            }
            self.held = Vec::new();
        }
        Ok(did.consumed)
    }

    /// True if the body is through; more bytes would be junk.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Checksum and length of what the blocks unpack to, once the body is through.
    ///
    /// # Errors
    /// The body ended early.
    pub fn finish(&self) -> Result<GzipSum, FilterError> {
        if self.is_done { Ok(self.sum) } else { Err(FilterError::GunzipTruncated) }
    }

    /// Hands out what is held of the bytes before `until`, but for the header (before `start`; 0: not over yet).
    fn hand_out(&mut self, start: u64, until: u64, out: &mut Vec<u8>) {
        let start = if start == 0 { u64::MAX } else { start };
        let n = until.saturating_sub(self.at).min(self.held.len() as u64) as usize;
        let skip = start.saturating_sub(self.at).min(n as u64) as usize;
        out.extend_from_slice(&self.held[skip..n]);
        self.held.drain(..n);
        self.at += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stitch::{Blocks, HEADER, tail};
    use crate::{Chain, FilterState, Gunzip, Gzip, GzipParams, TestGunzip};

    fn through(mut chain: Chain, data: &[u8]) -> (Vec<u8>, Chain) {
        let (mut out, mut at, mut room) = (Vec::new(), 0, vec![0; 777]);
        loop {
            let step = chain.step(&data[at..], true, &mut room).expect("sound data");
            at += step.consumed;
            out.extend_from_slice(&room[..step.produced]);
            if step.state == FilterState::End {
                return (out, chain);
            }
        }
    }

    fn pack(plain: &[u8], level: u8) -> Vec<u8> {
        let mut chain = Chain::new();
        chain.push(Gzip::new(GzipParams { level, memlevel: 8 }));
        through(chain, plain).0
    }

    fn unpack(packed: &[u8]) -> Vec<u8> {
        let mut chain = Chain::new();
        chain.push(Gunzip::deliver());
        through(chain, packed).0
    }

    fn scan(packed: &[u8], cut: usize) -> (Vec<u8>, GzipSum) {
        let (mut scan, mut out) = (GzipScan::new(), Vec::new());
        for part in packed.chunks(cut) {
            let mut part = part;
            while !part.is_empty() {
                let n = scan.step(part, &mut out).expect("sound data");
                part = &part[n..];
            }
        }
        while !scan.is_done() {
            scan.step(&[], &mut out).expect("sound data");
        }
        (out, scan.finish().expect("all of it came"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bodies_joined_unpack_to_their_texts_joined(
            texts in proptest::collection::vec("([a-c]{0,40}|[ -~]{0,400}|x{2000,9000})", 1..5), level in 0u8..10, cut in 1usize..400,
        ) {
            let (mut whole, mut sum, mut plain) = (HEADER.to_vec(), GzipSum::default(), Vec::new());
            for text in &texts {
                let packed = pack(text.as_bytes(), level);
                let (blocks, one) = scan(&packed, cut);
                whole.extend_from_slice(&blocks);
                sum.join(one);
                plain.extend_from_slice(text.as_bytes());
                let mut chain = Chain::new();
                chain.push(TestGunzip::new());
                let bits = through(chain, &packed).1.gzip_bits().expect("a test knows");
                let (mut known, mut taken) = (Blocks::new(bits, packed.len() as u64).expect("sound"), Vec::new());
                known.push(&packed, &mut taken);
                prop_assert_eq!((&taken, known.sum()), (&blocks, Some(one)));
            }
            whole.extend_from_slice(&tail(sum.crc, sum.plain_bytes));
            prop_assert_eq!(unpack(&whole), plain);
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), with_header: bool) {
            let mut body = if with_header { HEADER.to_vec() } else { Vec::new() };
            body.extend(bytes);
            let (mut scan, mut out, mut at) = (GzipScan::new(), Vec::new(), 0);
            for _ in 0..10_000 {
                match scan.step(&body[at..], &mut out) {
                    Ok(0) | Err(_) => break,
                    Ok(n) => at += n,
                }
            }
        }
    }

    #[test]
    fn a_body_cut_short_is_an_error() {
        let packed = pack(b"some text that is long enough", 6);
        let (mut scan, mut out) = (GzipScan::new(), Vec::new());
        scan.step(&packed[..packed.len() - 1], &mut out).expect("so far so good");
        assert!(scan.finish().is_err());
    }
}
