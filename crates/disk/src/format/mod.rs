// SPDX-License-Identifier: BSD-2-Clause
//! What is on the device, as bytes: little-endian words at fixed offsets, each piece with its checksum. Reading is total:
//! any bytes at all give a value or `None`. The layout as a whole is in the head of this crate.

pub mod entry;
pub mod object;
pub mod removal;
pub mod segment;
pub mod superblock;
pub mod words;

pub use sys::pages::BLOCK;

/// Version of everything here; a store of another one isn't opened.
pub const VERSION: u32 = 1;
/// Unit of addresses, in bytes; entries begin at a multiple of it.
pub const UNIT: u64 = 64;
/// Bytes of a body that one checksum covers.
pub const CHUNK: usize = 64 << 10;
/// Bytes in front of the first segment: the two superblocks.
pub const FIRST_SEGMENT: u64 = 2 * BLOCK as u64;

/// The part of a digest that tables and removals carry; of SHA-256, 128 bits tell all objects apart.
pub type DigestKey = [u8; 16];

pub fn key_of(digest: &[u8; 32]) -> DigestKey {
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    key
}

/// The checksum of `bytes` in the store `store_id`: what another store wrote at the same place is as wrong as garbage.
pub fn checksum(store_id: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(store_id as u32 ^ (store_id >> 32) as u32, bytes)
}
