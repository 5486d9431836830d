// SPDX-License-Identifier: BSD-2-Clause
//! What couldn't be handed on at once: plaintext for a reader with little room, sealed bytes for a full socket.

/// Bytes of which the first ones are used up. Without memory while there are none.
#[derive(Debug, Default)]
pub struct Leftover {
    /// All bytes, the used ones included. More may be added at the end.
    pub bytes: Vec<u8>,
    used: usize,
}

impl Leftover {
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn used(&self) -> usize {
        self.used
    }

    pub fn use_up(&mut self, count: usize) {
        self.used += count;
        if self.used == self.bytes.len() {
            *self = Leftover::default();
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_holds_no_memory() {
        let mut left = Leftover::default();
        left.push(b"abc");
        left.use_up(1);
        left.push(b"d");
        assert_eq!((left.rest(), left.used(), left.is_empty()), (&b"bcd"[..], 1, false));
        left.use_up(3);
        assert_eq!((left.rest(), left.used(), left.is_empty(), left.bytes.capacity()), (&b""[..], 0, true, 0));
    }
}
