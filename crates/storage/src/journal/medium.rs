// SPDX-License-Identifier: BSD-2-Clause
//! What a journal is written to: a file in memory that outlives the worker, or one on a disk that outlives the machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes by offset. Beyond its length everything is as if it were zero.
pub trait Medium: Send + Sync + std::fmt::Debug {
    /// Length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// True if nothing was ever written.
    ///
    /// # Errors
    /// The system's.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `into` from `at`, all of which is within the length.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes at `at`, within the length or beyond.
    ///
    /// # Errors
    /// The system's; some of it may have been written.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Zeroes what is from `at` up to `end`, and gives the room back where that is possible.
    ///
    /// # Errors
    /// The system's.
    fn clear(&self, at: u64, end: u64) -> io::Result<()>;

    /// Brings to stable storage all that was written.
    ///
    /// # Errors
    /// The system's: nothing is known about what was written since the last time.
    fn sync(&self) -> io::Result<()>;

    /// True if writing and syncing may take longer than an invalidation should be held up.
    fn takes_time(&self) -> bool {
        false
    }
}

/// A file, which is used by nobody else.
#[derive(Debug)]
pub struct JournalFile {
    file: File,
    lasts: bool,
}

impl JournalFile {
    /// In memory (a memfd that another process holds, too): what is written outlives this process at once.
    pub fn in_memory(file: File) -> JournalFile {
        JournalFile { file, lasts: false }
    }

    /// On a disk: what is written outlives the machine's power once it is synced.
    pub fn on_disk(file: File) -> JournalFile {
        JournalFile { file, lasts: true }
    }
}

impl Medium for JournalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        let len = self.len()?;
        if end >= len {
            return if at < len { self.file.set_len(at) } else { Ok(()) };
        }
        if at >= end || sys::fd::punch(&self.file, at, end - at).is_ok() {
            return Ok(());
        }
        // A file system without holes.
        let zeros = [0; 4096];
        let mut at = at;
        while at < end {
            let some = (end - at).min(zeros.len() as u64);
            self.write_at(at, &zeros[..some as usize])?;
            at += some;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.lasts { self.file.sync_data() } else { Ok(()) }
    }

    fn takes_time(&self) -> bool {
        self.lasts
    }
}
