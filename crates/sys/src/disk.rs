// SPDX-License-Identifier: BSD-2-Clause
//! What file system a path is on, and how much room it has.

use std::io;
use std::path::Path;

use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

/// The other file system without a disk behind it.
const RAMFS_MAGIC: i64 = 0x8584_58f6;

pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    let kind = statfs(path)?.filesystem_type();
    Ok(kind == TMPFS_MAGIC || kind == FsType(RAMFS_MAGIC as _))
}

/// Bytes that anybody may still write on the file system of a path.
pub fn room_bytes(path: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok((stat.blocks_available() as u64).saturating_mul(stat.fragment_size() as u64))
}

pub fn size_bytes(path: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok((stat.blocks() as u64).saturating_mul(stat.fragment_size() as u64))
}

#[cfg(test)]
mod tests {
    #[test]
    fn shared_memory_is_in_memory() {
        assert!(super::is_in_memory("/dev/shm".as_ref()).unwrap());
        assert!(!super::is_in_memory("/proc".as_ref()).unwrap());
    }
}
