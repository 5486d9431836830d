// SPDX-License-Identifier: BSD-2-Clause
//! A removal: what the log says of objects that it holds further back and that are no more. It depends on no order, so
//! that it may be read before or after what it speaks of.

use super::DigestKey;
use super::words::{PutWords, WordReader};

pub const BYTES: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// All objects of this key that know no invalidation of the number `before` or a later one.
    Key {
        key: DigestKey,
        before: u64,
    },
    Record {
        generation: u64,
        at: u64,
    },
}

impl Removal {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Removal::Key { key, before } => {
                out.extend_from_slice(&key);
                out.put_u64(before);
                out.put_u64(1);
            }
            Removal::Record { generation, at } => {
                out.put_u64(generation);
                out.put_u64(at);
                out.put_u64(0);
                out.put_u64(2);
            }
        }
    }

    /// One of [`BYTES`] bytes.
    pub fn decode(bytes: &[u8]) -> Option<Removal> {
        let mut words = WordReader(bytes);
        let (first, third, kind) = (words.array::<16>()?, words.u64()?, words.u64()?);
        let mut halves = WordReader(&first);
        match kind {
            1 => Some(Removal::Key { key: first, before: third }),
            2 => Some(Removal::Record { generation: halves.u64()?, at: halves.u64()? }),
            _ => None,
        }
    }
}

pub fn decode_all(bytes: &[u8]) -> Option<Vec<Removal>> {
    let pieces = bytes.chunks_exact(BYTES);
    if !pieces.remainder().is_empty() {
        return None;
    }
    pieces.map(Removal::decode).collect()
}
