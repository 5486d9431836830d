// SPDX-License-Identifier: BSD-2-Clause
//! Compressors, kept for the next body: one is a quarter of a megabyte, and to get that clean and warm costs as much as
//! packing some kilobytes.

use std::cell::RefCell;
use std::collections::VecDeque;

use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Method, Status, Strategy};

use crate::{FilterError, GzipParams};

/// Compressors that a thread keeps.
const SPARE: usize = 2;

/// Room to flush into, in bytes. With six or fewer, zlib writes the marker of a flush again at each call, for ever.
const FLUSH_ROOM: usize = 64;

thread_local! {
    static SPARES: RefCell<Vec<(GzipParams, Deflate)>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn trim() {
    drop(SPARES.take());
}

pub(crate) struct Packer {
    params: GzipParams,
    /// From the first bytes to the last: a body that hasn't begun to come, and one that is packed, hold none.
    deflate: Option<Deflate>,
    /// Flushed, but there was no room for it: written before anything else.
    spill: VecDeque<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackProgress {
    pub(crate) used: usize,
    pub(crate) made: usize,
}

impl Packer {
    pub(crate) fn new(params: GzipParams) -> Self {
        Self { params, deflate: None, spill: VecDeque::new() }
    }

    /// All is written: the next body may have the compressor, which is warm still.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.spill.is_empty(), "what is spilled is still to be written");
        if let Some(deflate) = self.deflate.take() {
            keep(self.params, deflate);
        }
    }

    /// Packs what there is room for. A flush is through when it leaves room in `out`: until then it is to be asked for
    /// again.
    pub(crate) fn pack(
        &mut self,
        input: &[u8],
        out: &mut [u8],
        flush: DeflateFlush,
    ) -> Result<PackProgress, FilterError> {
        let made = self.unspill(out);
        let out = &mut out[made..];
        if out.is_empty() {
            return Ok(PackProgress { used: 0, made });
        }
        if flush == DeflateFlush::NoFlush || out.len() >= FLUSH_ROOM {
            let packed = self.compress(input, out, flush)?;
            return Ok(PackProgress { used: packed.used, made: made + packed.made });
        }
        let mut room = [0; FLUSH_ROOM];
        let packed = self.compress(input, &mut room, flush)?;
        self.spill.extend(&room[..packed.made]);
        Ok(PackProgress { used: packed.used, made: made + self.unspill(out) })
    }

    pub(crate) fn written(&self) -> u64 {
        self.deflate.as_ref().map_or(0, Deflate::total_out) - self.spill.len() as u64
    }

    fn unspill(&mut self, out: &mut [u8]) -> usize {
        let n = self.spill.len().min(out.len());
        out.iter_mut().zip(self.spill.drain(..n)).for_each(|(slot, byte)| *slot = byte);
        n
    }

    fn compress(&mut self, input: &[u8], out: &mut [u8], flush: DeflateFlush) -> Result<PackProgress, FilterError> {
        let params = self.params;
        let deflate = self.deflate.get_or_insert_with(|| kept(params).unwrap_or_else(|| fresh(params)));
        let (from, to) = (deflate.total_in(), deflate.total_out());
        match deflate.compress(input, out, flush) {
            Ok(Status::Ok | Status::BufError | Status::StreamEnd) => {}
            Err(_) => return Err(FilterError::GzipFailed),
        }
        Ok(PackProgress { used: (deflate.total_in() - from) as usize, made: (deflate.total_out() - to) as usize })
    }
}

fn kept(params: GzipParams) -> Option<Deflate> {
    let mut deflate = SPARES.with_borrow_mut(|spares| {
        let at = spares.iter().rposition(|(theirs, _)| *theirs == params)?;
        Some(spares.remove(at).1)
    })?;
    deflate.reset();
    Some(deflate)
}

fn keep(params: GzipParams, deflate: Deflate) {
    // A thread that ends has no use for it.
    let _ = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        if spares.len() >= SPARE {
            // The oldest: parameters may have changed.
            spares.remove(0);
        }
        spares.push((params, deflate));
    });
}

fn fresh(params: GzipParams) -> Deflate {
    #[cfg(test)]
    tests::MADE.set(tests::MADE.get() + 1);
    Deflate::new_with_config(DeflateConfig {
        level: i32::from(params.level.min(9)),
        method: Method::Deflated,
        window_bits: -15,
        mem_level: i32::from(params.memlevel.clamp(1, 9)),
        strategy: Strategy::Default,
    })
}

impl Drop for Packer {
    fn drop(&mut self) {
        if let Some(deflate) = self.deflate.take() {
            keep(self.params, deflate);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        pub(super) static MADE: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn a_body_holds_a_compressor_only_while_it_is_packed() {
        use crate::{Filter, FilterState, Gzip};

        let mut crowd: Vec<_> = (0..200).map(|_| Gzip::new(GzipParams::default())).collect();
        for gzip in &mut crowd {
            let (body, mut out) = (b"the same page again and again".as_slice(), [0; 200]);
            let mut rest = body;
            loop {
                let step = gzip.step(rest, true, &mut out).expect("packs");
                rest = &rest[step.consumed..];
                if step.state == FilterState::End {
                    break;
                }
            }
        }
        assert_eq!(MADE.get(), 1);
    }

    fn pack(params: GzipParams, body: &[u8]) -> Vec<u8> {
        let (mut packer, mut out) = (Packer::new(params), vec![0; body.len() + 1000]);
        let made = packer.pack(body, &mut out, DeflateFlush::SyncFlush).expect("packs").made;
        out.truncate(made);
        out
    }

    #[test]
    fn a_kept_compressor_packs_like_a_new_one() {
        let body: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 5 * 7919).to_le_bytes()).collect();
        let all = [(6, 8), (1, 8), (9, 1), (0, 4)].map(|(level, memlevel)| GzipParams { level, memlevel });
        let new = all.map(|params| std::thread::scope(|s| s.spawn(|| pack(params, &body)).join().expect("packs")));
        for _ in 0..3 {
            for (params, new) in all.into_iter().zip(&new) {
                pack(params, b"something else, left behind");
                assert!(pack(params, &body) == *new, "{params:?}");
            }
        }
        assert_eq!(SPARES.with_borrow(Vec::len), SPARE);
    }

    #[test]
    fn one_that_is_given_up_is_kept_too() {
        let body = [7; 100_000];
        let new = pack(GzipParams::default(), &body);
        let mut packer = Packer::new(GzipParams::default());
        packer.pack(&body, &mut [0; 20], DeflateFlush::NoFlush).expect("packs");
        drop(packer);
        assert!(pack(GzipParams::default(), &body) == new);
    }

    #[test]
    fn a_flush_ends_however_little_room_there_is() {
        let body: Vec<u8> = (0..3000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let whole = pack(GzipParams::default(), &body);
        for room in 1..=2 * FLUSH_ROOM {
            let (mut packer, mut all, mut at) = (Packer::new(GzipParams::default()), Vec::new(), 0);
            let mut out = vec![0; room];
            loop {
                let packed = packer.pack(&body[at..], &mut out, DeflateFlush::SyncFlush).expect("packs");
                at += packed.used;
                all.extend_from_slice(&out[..packed.made]);
                assert_eq!(packer.written(), all.len() as u64, "room for {room}");
                assert!(all.len() <= whole.len() + FLUSH_ROOM, "room for {room}: the end is written again and again");
                if packed.made < room {
                    break;
                }
            }
            assert_eq!(at, body.len());
            assert!(all.starts_with(&whole), "room for {room}");
        }
    }
}
