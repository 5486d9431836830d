// SPDX-License-Identifier: BSD-2-Clause
//! The last bytes of the output, as a ring. A body has one from its first bytes to its last; a thread keeps some, and what
//! stands in one isn't cleared: a match never reaches back before the first byte.

use std::cell::RefCell;

pub(super) const WINDOW: usize = 32 * 1024;
/// Rings that a thread keeps.
const SPARE: usize = 4;

thread_local! {
    static SPARES: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn trim() {
    drop(SPARES.take());
}

#[derive(Default)]
pub(super) struct Window(Option<Box<[u8]>>);

impl Window {
    /// `bytes`, at most as many as the ring holds, stand in the output at `at`.
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        let ring = self.0.get_or_insert_with(|| {
            let kept = SPARES.with_borrow_mut(Vec::pop);
            kept.unwrap_or_else(|| vec![0; WINDOW].into_boxed_slice())
        });
        let at = (at % WINDOW as u64) as usize;
        let first = bytes.len().min(WINDOW - at);
        ring[at..at + first].copy_from_slice(&bytes[..first]);
        ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
    }

    /// Bytes of the ring, without a wrap.
    pub(super) fn get(&self, from: usize, bytes: usize) -> &[u8] {
        let ring = self.0.as_ref().expect("a match reaches back to bytes that were put");
        &ring[from..from + bytes]
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let Some(ring) = self.0.take() else { return };
        // A thread that ends has no use for it.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() < SPARE {
                spares.push(ring);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_taken_over_by_the_next_body() {
        let mut one = Window::default();
        one.put(WINDOW as u64 - 2, b"abcd");
        assert_eq!((one.get(WINDOW - 2, 2), one.get(0, 2)), (b"ab".as_slice(), b"cd".as_slice()));
        let at = one.get(0, 1).as_ptr();
        drop(one);
        let mut next = Window::default();
        next.put(0, b"x");
        assert_eq!(next.get(0, 1).as_ptr(), at);
    }
}
