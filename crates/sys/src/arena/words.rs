// SPDX-License-Identifier: BSD-2-Clause
//! The words that a slot begins with, which are its owner's. They can be had outside of an arena, too.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::arena::WORDS;

/// See the module. A pair of words is used as one or as two, not now so and now so.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub struct ArenaWords([AtomicU32; WORDS]);

impl ArenaWords {
    #[inline]
    pub fn word(&self, n: usize) -> &AtomicU32 {
        &self.0[n]
    }

    /// Words `n` and `n + 1` as one; `n` is even.
    #[inline]
    pub fn word64(&self, n: usize) -> &AtomicU64 {
        assert!(n + 1 < WORDS && n.is_multiple_of(2), "a slot has so many words");
        let at = self.0.as_ptr().wrapping_add(n).cast_mut();
        // SAFETY: both words are within the array, which begins on a multiple of 8; they are atomics only.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_words_are_one_little_endian() {
        let words = ArenaWords::default();
        words.word64(4).store(0x0102_0304_0506_0708, Relaxed);
        let both = [3, 4, 5, 6].map(|n| words.word(n).load(Relaxed));
        assert_eq!(both, [0, 0x0506_0708, 0x0102_0304, 0]);
        assert_eq!((size_of::<ArenaWords>(), align_of::<ArenaWords>()), (WORDS * 4, 8));
    }
}
