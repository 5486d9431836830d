// SPDX-License-Identifier: BSD-2-Clause
//! A file or a block device as a [`Device`]: opened, locked and given its space, read and written by a ring where the
//! system has rings for us, else by threads, and watched.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use sys::blockfile::{BlockFile, BlockFileError, BlockOptions, Direct, FileAccess};
use sys::pages::PagePool;

use super::ring::RingDevice;
use super::threads::Threads;
use super::watched::{DeviceCounts, Patience, WatchedDevice};
use super::{Device, DeviceOp, Done};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceEngine {
    /// A ring, or threads where rings are forbidden.
    #[default]
    IfPossible,
    Threads,
}

#[derive(Clone, Debug)]
pub struct DeviceOptions {
    pub bytes: Option<u64>,
    /// Pass by the page cache.
    pub direct: Direct,
    pub access: FileAccess,
    pub engine: DeviceEngine,
    /// Most operations at a time; further ones are refused.
    pub most: u32,
    pub patience: Patience,
    /// Pool that most pages are taken from: the kernel learns it once where it can. It holds this memory then, all of
    /// it.
    pub pool: Option<Arc<PagePool>>,
    /// Kept open as long as anything that was begun may still be in progress, also when this process is gone.
    pub held: Option<Arc<File>>,
}

/// Number of threads that keep a fast disk busy.
const THREADS: usize = 16;

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            bytes: None,
            direct: Direct::default(),
            access: FileAccess::default(),
            engine: DeviceEngine::default(),
            most: 256,
            patience: Patience::default(),
            pool: None,
            held: None,
        }
    }
}

#[derive(Debug)]
pub struct FileDevice {
    watched: WatchedDevice<Either>,
    notes: Vec<String>,
    is_direct: bool,
    locked_bytes: u64,
}

#[derive(Debug)]
enum Either {
    Ring(RingDevice),
    Threads(Threads),
}

impl FileDevice {
    /// Opens what is at `path`.
    ///
    /// # Errors
    /// See [`BlockFileError`]; its text goes on after the path.
    pub fn open(path: &Path, options: &DeviceOptions) -> Result<FileDevice, BlockFileError> {
        FileDevice::over(BlockFile::open(path, &options.blocks())?, options)
    }

    /// The same for what is open already: a descriptor that was handed over with its lock.
    ///
    /// # Errors
    /// See [`BlockFileError`].
    pub fn from_file(file: File, options: &DeviceOptions) -> Result<FileDevice, BlockFileError> {
        FileDevice::over(BlockFile::from_file(file, &options.blocks())?, options)
    }

    fn over(file: BlockFile, options: &DeviceOptions) -> Result<FileDevice, BlockFileError> {
        let mut notes = Vec::new();
        let is_direct = file.is_direct();
        if !is_direct && options.direct != Direct::Never {
            notes.push(
                "its file system refuses direct I/O: the page cache holds a second copy of what is read".to_owned(),
            );
        }
        if file.is_sparse() {
            notes.push("its file system can't set space aside: writes may find it full".to_owned());
        }
        let device = Either::new(Arc::new(file), options, &mut notes)?;
        let locked_bytes = match (&device, &options.pool) {
            (Either::Ring(ring), Some(pool)) if ring.is_registered() => pool.bytes() as u64,
            _ => 0,
        };
        let watched = WatchedDevice::new(device, options.most as usize, options.patience);
        Ok(FileDevice { watched, notes, is_direct, locked_bytes })
    }

    /// Notes for the operator about how it was opened, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub fn engine(&self) -> &'static str {
        match self.watched.device() {
            Either::Ring(_) => "io_uring",
            Either::Threads(_) => "threads",
        }
    }

    /// Memory of the pool that the kernel holds, all of it.
    pub fn locked_bytes(&self) -> u64 {
        self.locked_bytes
    }

    pub fn counts(&self) -> DeviceCounts {
        self.watched.counts()
    }
}

impl Device for FileDevice {
    fn len(&self) -> u64 {
        self.watched.len()
    }

    fn start(&self, op: DeviceOp, done: Done) {
        self.watched.start(op, done);
    }
}

impl DeviceOptions {
    fn blocks(&self) -> BlockOptions {
        BlockOptions { bytes: self.bytes, direct: self.direct, access: self.access }
    }
}

impl Either {
    fn new(file: Arc<BlockFile>, options: &DeviceOptions, notes: &mut Vec<String>) -> Result<Either, BlockFileError> {
        if options.engine == DeviceEngine::IfPossible {
            match RingDevice::new(file.clone(), options.most, options.pool.as_ref(), options.held.as_ref()) {
                Ok(ring) => {
                    if options.pool.is_some() && !ring.is_registered() {
                        notes.push(
                            "io_uring doesn't get its buffers locked in memory (RLIMIT_MEMLOCK): it does without"
                                .to_owned(),
                        );
                    }
                    return Ok(Either::Ring(ring));
                }
                Err(error) => notes.push(format!("io_uring is refused ({error}): {THREADS} threads read and write")),
            }
        }
        let threads = Threads::new(file, THREADS);
        threads.map(Either::Threads).map_err(|error| BlockFileError::System("gets no thread", error))
    }
}

impl Device for Either {
    fn len(&self) -> u64 {
        match self {
            Either::Ring(device) => device.len(),
            Either::Threads(device) => device.len(),
        }
    }

    fn start(&self, op: DeviceOp, done: Done) {
        match self {
            Either::Ring(device) => device.start(op, done),
            Either::Threads(device) => device.start(op, done),
        }
    }
}
