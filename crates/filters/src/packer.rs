// SPDX-License-Identifier: BSD-2-Clause
//! Compressors, kept for the next body: one is a quarter of a megabyte, and to get that clean and warm costs as much as
//! packing some kilobytes.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use zlib_rs::{Deflate, DeflateConfig, Method, Strategy};

use crate::GzipParams;

/// Compressors that a thread keeps.
const SPARE: usize = 2;

thread_local! {
    static SPARES: RefCell<Vec<(GzipParams, Deflate)>> = const { RefCell::new(Vec::new()) };
}

/// A raw deflate stream, as new.
pub(crate) struct Packer {
    params: GzipParams,
    /// There until it is dropped.
    deflate: Option<Deflate>,
}

impl Packer {
    pub(crate) fn new(params: GzipParams) -> Self {
        let kept = SPARES.with_borrow_mut(|spares| {
            let at = spares.iter().rposition(|(theirs, _)| *theirs == params)?;
            Some(spares.swap_remove(at).1)
        });
        let deflate = kept.map_or_else(
            || fresh(params),
            |mut deflate| {
                deflate.reset();
                deflate
            },
        );
        Self { params, deflate: Some(deflate) }
    }
}

fn fresh(params: GzipParams) -> Deflate {
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
        let Some(deflate) = self.deflate.take() else { return };
        // A thread that ends has no use for it.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() >= SPARE {
                // The oldest: parameters may have changed.
                spares.remove(0);
            }
            spares.push((self.params, deflate));
        });
    }
}

impl Deref for Packer {
    type Target = Deflate;

    fn deref(&self) -> &Deflate {
        self.deflate.as_ref().expect("a packer has its compressor until it is dropped")
    }
}

impl DerefMut for Packer {
    fn deref_mut(&mut self) -> &mut Deflate {
        self.deflate.as_mut().expect("a packer has its compressor until it is dropped")
    }
}

#[cfg(test)]
mod tests {
    use zlib_rs::DeflateFlush;

    use super::*;

    fn pack(params: GzipParams, body: &[u8]) -> Vec<u8> {
        let (mut packer, mut out) = (Packer::new(params), vec![0; body.len() + 1000]);
        packer.compress(body, &mut out, DeflateFlush::SyncFlush).expect("packs");
        let made = packer.total_out() as usize;
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
        packer.compress(&body, &mut [0; 20], DeflateFlush::NoFlush).expect("packs");
        drop(packer);
        assert!(pack(GzipParams::default(), &body) == new);
    }
}
