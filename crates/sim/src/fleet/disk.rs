// SPDX-License-Identifier: BSD-2-Clause
//! The disk under a node's journal, which may be full: nothing grows then, but what is there can be written over.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use storage::journal::{JournalFile, Medium};

#[derive(Clone, Debug)]
pub(crate) struct SimDisk {
    file: Arc<JournalFile>,
    bytes: Arc<File>,
    is_full: Arc<AtomicBool>,
    has_refused: Arc<AtomicBool>,
}

impl SimDisk {
    pub fn new(bytes: File) -> io::Result<SimDisk> {
        let file = Arc::new(JournalFile::in_memory(bytes.try_clone()?));
        Ok(SimDisk { file, bytes: Arc::new(bytes), is_full: Arc::default(), has_refused: Arc::default() })
    }

    pub fn fill(&self) {
        self.is_full.store(true, Relaxed);
    }

    /// True if something wasn't written: a journal in it is incomplete.
    pub fn has_refused(&self) -> bool {
        self.has_refused.load(Relaxed)
    }

    pub fn bytes(&self) -> &File {
        &self.bytes
    }
}

impl Medium for SimDisk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(into, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.is_full.load(Relaxed) && at + bytes.len() as u64 > self.len()? {
            self.has_refused.store(true, Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(at, bytes)
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        self.file.clear(at, end)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
