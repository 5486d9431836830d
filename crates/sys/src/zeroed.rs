// SPDX-License-Identifier: BSD-2-Clause
//! Tables of atomics that begin at zero. The allocator gives large ones as pages that the kernel clears when they are first touched, so a
//! table that is hardly used takes hardly any memory, and making it takes no time.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Types whose value is 0 when all their bytes are.
pub trait Zeroed: private::SealedZeroed {}

mod private {
    pub trait SealedZeroed {}
}

macro_rules! zeroed {
    ($($atomic:ty),*) => {$(
        impl private::SealedZeroed for $atomic {}
        impl Zeroed for $atomic {}
    )*};
}

zeroed!(AtomicU8, AtomicU32, AtomicU64);

pub fn table<A: Zeroed>(count: usize) -> Box<[A]> {
    // SAFETY: `Zeroed` is sealed, and an integer atomic of zero bytes is the integer 0.
    unsafe { Box::new_zeroed_slice(count).assume_init() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_table_begins_at_zero() {
        let counts = table::<AtomicU32>(1 << 16);
        counts[7].fetch_add(1, Relaxed);
        assert_eq!(counts.len(), 1 << 16);
        assert_eq!(counts.iter().map(|count| count.load(Relaxed)).sum::<u32>(), 1);
    }
}
