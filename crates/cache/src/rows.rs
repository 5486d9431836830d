// SPDX-License-Identifier: BSD-2-Clause
//! A growing array in chunks of `N`: it has room for less than a chunk more, and moves what it holds only while that is less
//! than a chunk. A `Vec` doubles: that costs up to as much again as it holds, and a copy of all of it at a bad moment.

use std::ops::{Index, IndexMut};

pub(crate) struct Rows<T, const N: usize> {
    /// Chunks, all full but the last, none empty.
    chunks: Vec<Vec<T>>,
}

impl<T, const N: usize> Default for Rows<T, N> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T, const N: usize> Rows<T, N> {
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * N + last.len())
    }

    pub fn bytes(&self) -> u64 {
        let rows = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum::<usize>();
        (rows + self.chunks.capacity() * size_of::<Vec<T>>()) as u64
    }

    pub fn first(&self) -> Option<&T> {
        self.chunks.first()?.first()
    }

    pub fn push(&mut self, item: T) {
        match self.chunks.last_mut().filter(|last| last.len() < N) {
            Some(last) => last.push(item),
            None => {
                // Many short arrays, as each tenant has one, take no more than they hold.
                let room = if self.chunks.is_empty() { 1 } else { N };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }

    /// Takes one out and puts the last in its place.
    pub fn swap_remove(&mut self, at: usize) -> T {
        let last = self.chunks.last_mut().expect("nothing is taken out of what is empty");
        let item = last.pop().expect("no chunk is empty");
        if last.is_empty() {
            self.chunks.pop();
        }
        if at == self.len() { item } else { std::mem::replace(&mut self[at], item) }
    }

    pub fn swap(&mut self, a: usize, b: usize) {
        let (low, high) = (a.min(b), a.max(b));
        if low / N == high / N {
            self.chunks[low / N].swap(low % N, high % N);
            return;
        }
        let (before, after) = self.chunks.split_at_mut(high / N);
        std::mem::swap(&mut before[low / N][low % N], &mut after[0][high % N]);
    }
}

impl<T, const N: usize> Index<usize> for Rows<T, N> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / N][at % N]
    }
}

impl<T, const N: usize> IndexMut<usize> for Rows<T, N> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / N][at % N]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_hold_what_a_vec_holds(steps in prop::collection::vec((0u8..8, any::<u16>(), any::<u16>()), 0..200)) {
            let (mut rows, mut vec) = (Rows::<u16, 4>::default(), Vec::new());
            for (step, a, b) in steps {
                let len = vec.len();
                match step {
                    0..=3 => {
                        rows.push(a);
                        vec.push(a);
                    }
                    4..=5 if len > 0 => {
                        prop_assert_eq!(rows.swap_remove(a as usize % len), vec.swap_remove(a as usize % len));
                    }
                    _ if len > 0 => {
                        rows.swap(a as usize % len, b as usize % len);
                        vec.swap(a as usize % len, b as usize % len);
                    }
                    _ => {}
                }
                prop_assert_eq!((rows.len(), rows.first()), (vec.len(), vec.first()));
                prop_assert!((0..vec.len()).all(|at| rows[at] == vec[at]));
                prop_assert_eq!(rows.chunks.len(), vec.len().div_ceil(4));
            }
        }
    }
}
