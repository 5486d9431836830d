// SPDX-License-Identifier: BSD-2-Clause
//! What the owner decides when a store is opened, and why it may not be.

use std::fmt;
use std::sync::Arc;

use sys::pages::PagePool;

use crate::device::DeviceError;
use crate::format::VERSION;

#[derive(Clone, Debug)]
pub struct DiskStoreOptions {
    /// Bytes of a segment of a store that is made now; `None`: by the device's length. An old one keeps its own.
    pub segment_bytes: Option<u64>,
    /// The most memory that the index takes.
    pub index_bytes: u64,
    /// The most bytes that wait to be written; what would be more isn't stored.
    pub write_behind_bytes: usize,
    /// The most reads in progress; what would be more is a miss. Less than the device takes, so that writes find room.
    pub most_reads: usize,
    /// With so many bytes of bodies read and not yet sent, nothing more is read ahead of those who read.
    pub read_ahead_bytes: u64,
    /// Pool for reading objects and writing batches: the one that the device was opened with.
    pub pool: Option<Arc<PagePool>>,
    /// Records that were judged by no invalidation of this number or a later one aren't served: the bans that would say
    /// more are gone.
    pub least_ban_seq: u64,
    /// Make a new store of whatever is there.
    pub format: bool,
    /// Make a new store in the place of content that can't be used (something else, another version, damaged,
    /// truncated, cut for another length), instead of refusing it: the owner has looked at it before.
    pub replaces: bool,
    /// The journal that says what is invalidated here; `None`: there is none, and nobody asks for one.
    pub journal: Option<Bond>,
    /// Verify the checksums of bodies. Those of records always are.
    pub checks_bodies: bool,
    pub others: Others,
    pub now: u32,
    /// Something that no other process has drawn: a store's number and its generations are made with it.
    pub drawn: u64,
}

impl DiskStoreOptions {
    pub fn new(now: u32, drawn: u64) -> DiskStoreOptions {
        DiskStoreOptions {
            segment_bytes: None,
            index_bytes: u64::MAX,
            write_behind_bytes: 32 << 20,
            most_reads: 192,
            read_ahead_bytes: 64 << 20,
            pool: None,
            least_ban_seq: 0,
            format: false,
            replaces: false,
            journal: None,
            checks_bodies: true,
            others: Others::Nobody,
            now,
            drawn,
        }
    }

    /// Bytes of a segment for a device of `len` bytes: 64 to 256 MB, less where that would be fewer than 64 segments.
    pub(crate) fn segment_bytes(&self, len: u64) -> u64 {
        let share = 1 << (len / 256).clamp(64 << 20, 256 << 20).min(len / 64).max(1).ilog2();
        let most = crate::format::superblock::LONGEST_SEGMENT;
        self.segment_bytes.unwrap_or(share).clamp(crate::format::superblock::LEAST_SEGMENT, most)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Others {
    Nobody,
    /// A process that has ended, whose last writes may still arrive. The store is read; nothing is written before
    /// [`crate::Disk::allow_writing`].
    Ended,
    /// A process that still has the store. Nothing is asked of the device before [`crate::Disk::take_over`], nothing is
    /// written before [`crate::Disk::allow_writing`], and nothing that it may read is written over before [`crate::Disk::own`].
    Present,
}

/// A store and the journal of what was invalidated in it belong together: by a number that both have.
#[derive(Clone, Debug)]
pub struct Bond {
    /// Numbers of which the journal says all. A store that has another one begins empty: what was invalidated is not known.
    pub known: Vec<u64>,
    pub own: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOpenError {
    Device(DeviceError),
    /// The device has something else in it.
    Foreign,
    OtherVersion(u32),
    Damaged,
    /// The device is shorter than it was.
    Truncated {
        had: u64,
        has: u64,
    },
    TooSmall {
        has: u64,
    },
}

impl DiskOpenError {
    /// True if the reason is the content, not the device.
    pub fn is_contents(self) -> bool {
        match self {
            DiskOpenError::Foreign
            | DiskOpenError::OtherVersion(_)
            | DiskOpenError::Damaged
            | DiskOpenError::Truncated { .. } => true,
            DiskOpenError::Device(_) | DiskOpenError::TooSmall { .. } => false,
        }
    }
}

impl fmt::Display for DiskOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskOpenError::Device(error) => write!(f, "{error}"),
            DiskOpenError::Foreign => f.write_str("it holds something that isn't a store; nothing was changed"),
            DiskOpenError::OtherVersion(version) => {
                write!(f, "it is a store of format {version}; this program has format {VERSION}")
            }
            DiskOpenError::Damaged => f.write_str("it is a store whose superblock is damaged"),
            DiskOpenError::Truncated { had, has } => {
                write!(f, "it is a store of {had} bytes of which {has} are left: it was truncated")
            }
            DiskOpenError::TooSmall { has } => write!(f, "{has} bytes are too few for a store"),
        }
    }
}

impl std::error::Error for DiskOpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_as_long_as_a_start_with_few_reads_wants() {
        let options = DiskStoreOptions::new(0, 1);
        for (len, bytes) in [(100 << 20, 1 << 20), (3 << 30, 32 << 20), (16 << 30, 64 << 20), (40 << 30, 128 << 20)] {
            assert_eq!(options.segment_bytes(len), bytes, "{len}");
        }
        assert_eq!(options.segment_bytes(4 << 40), 256 << 20);
        assert_eq!(options.segment_bytes(0), crate::format::superblock::LEAST_SEGMENT);
    }
}
