// SPDX-License-Identifier: BSD-2-Clause
//! A file or a block device that holds blocks: opened past the page cache where it can be, locked against a second
//! process, with all of its space there from the start.
//!
//! Nothing in it is ever mapped: what goes wrong with it is an error of an operation, never a signal.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use nix::sys::statvfs::fstatvfs;

use crate::pages::{BLOCK, Pages};

/// Use of the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direct {
    /// Pass it by where the file system can.
    #[default]
    IfPossible,
    /// Refused where it can't.
    Always,
    /// Use it: blocks stay in the page cache for as long as the system likes.
    Never,
    /// Take the answer of the process that handed over the descriptor: a test read would take as long as the disk
    /// likes.
    AsFound,
}

/// Other processes that may have it open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileAccess {
    /// This process alone, which reads and writes.
    #[default]
    Exclusive,
    /// This process alone (among those that ask for a lock), which only reads.
    ExclusiveRead,
    /// Anybody: what is read may be changing.
    Read,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct BlockOptions {
    /// Size in bytes. A file that isn't there is made; one that is shorter grows; one that is longer keeps what is
    /// beyond, unused. `None`: it must be there, and all of it is used.
    pub bytes: Option<u64>,
    pub direct: Direct,
    pub access: FileAccess,
}

#[derive(Debug)]
pub struct BlockFile {
    file: File,
    len: u64,
    is_direct: bool,
    is_sparse: bool,
}

#[derive(Debug)]
pub enum BlockFileError {
    NotBlocks,
    /// Another process has it locked: its number, where the system tells.
    Locked(Option<u32>),
    /// A block device that is mounted or otherwise taken.
    Mounted,
    /// The file would need `wanted` more bytes of the file system, which has `free`.
    NoSpace {
        /// Bytes that are missing from the file.
        wanted: u64,
        /// Bytes that the file system gives to ordinary users.
        free: u64,
    },
    TooShort(u64),
    Empty,
    /// The file system refuses direct I/O, or wants longer blocks.
    NoDirect,
    /// The system's error, and what it is about.
    System(&'static str, io::Error),
}

impl fmt::Display for BlockFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockFileError::NotBlocks => f.write_str("is neither a file nor a block device"),
            BlockFileError::Locked(None) => f.write_str("is used by another process"),
            BlockFileError::Locked(Some(pid)) => write!(f, "is used by another process ({pid})"),
            BlockFileError::Mounted => f.write_str("is mounted or used otherwise"),
            BlockFileError::NoSpace { wanted, free } => {
                write!(f, "needs {wanted} bytes more, and its file system has {free} free")
            }
            BlockFileError::TooShort(len) => write!(f, "is a device of {len} bytes only"),
            BlockFileError::Empty => f.write_str("is empty"),
            BlockFileError::NoDirect => f.write_str("can't be read and written directly: its file system refuses that"),
            BlockFileError::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for BlockFileError {}

impl BlockFile {
    /// Opens the file or device at `path`; a link to it counts as it.
    ///
    /// # Errors
    /// See [`BlockFileError`]. A file that was made for nothing is removed again, and one that couldn't grow is as before.
    pub fn open(path: &Path, options: &BlockOptions) -> Result<BlockFile, BlockFileError> {
        let before = std::fs::metadata(path).ok();
        let mut flags = libc::O_NONBLOCK;
        if before.as_ref().is_some_and(|kind| kind.file_type().is_block_device()) && options.access != FileAccess::Read
        {
            // The system refuses this for a device that is mounted.
            flags |= libc::O_EXCL;
        }
        let write = options.access == FileAccess::Exclusive;
        let create = write && options.bytes.is_some() && before.is_none();
        let opened =
            OpenOptions::new().read(true).write(write).create(create).mode(0o600).custom_flags(flags).open(path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => BlockFileError::Mounted,
            Some(libc::EISDIR | libc::ENXIO) => BlockFileError::NotBlocks,
            _ => BlockFileError::System("can't be opened", error),
        })?;
        let found = BlockFile::from_file(file, options);
        if found.is_err() && before.is_none() {
            // Nothing was in it; whoever made it at the same moment has it locked, and then it isn't ours to remove.
            if !matches!(found, Err(BlockFileError::Locked(_))) {
                let _ = std::fs::remove_file(path);
            }
        }
        found
    }

    /// The same for what is open already: a descriptor that was handed over with its lock.
    ///
    /// # Errors
    /// See [`BlockFileError`].
    pub fn from_file(file: File, options: &BlockOptions) -> Result<BlockFile, BlockFileError> {
        let kind = file.metadata().map_err(|error| BlockFileError::System("can't be looked at", error))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(BlockFileError::NotBlocks);
        }
        if options.access != FileAccess::Read {
            lock(&file)?;
        }
        let mut this = BlockFile { file, len: 0, is_direct: false, is_sparse: false };
        this.size(options, kind.is_file())?;
        this.pass_page_cache(options.direct)?;
        Ok(this)
    }

    fn size(&mut self, options: &BlockOptions, is_file: bool) -> Result<(), BlockFileError> {
        let system = |error| BlockFileError::System("can't be sized", error);
        let found = self.file.seek(SeekFrom::End(0)).map_err(system)?;
        let wanted = options.bytes.unwrap_or(found) / BLOCK as u64 * BLOCK as u64;
        self.len = wanted;
        match wanted {
            0 => Err(BlockFileError::Empty),
            _ if !is_file && wanted > found => Err(BlockFileError::TooShort(found)),
            _ if is_file && options.access == FileAccess::Exclusive => {
                self.is_sparse = !preallocate(&self.file, found, wanted)?;
                Ok(())
            }
            _ => {
                self.len = wanted.min(found / BLOCK as u64 * BLOCK as u64);
                Ok(())
            }
        }
    }

    /// Direct I/O is tried once: some file systems take the flag and refuse the operations, and some devices have
    /// blocks that are longer than ours.
    fn pass_page_cache(&mut self, direct: Direct) -> Result<(), BlockFileError> {
        if direct == Direct::Never {
            return self
                .set_direct(false)
                .map_err(|error| BlockFileError::System("can't be read through the page cache", error));
        }
        if direct == Direct::AsFound {
            let flags = fcntl(&self.file, FcntlArg::F_GETFL);
            self.is_direct = flags.is_ok_and(|flags| OFlag::from_bits_retain(flags).contains(OFlag::O_DIRECT));
            return Ok(());
        }
        self.is_direct = self.set_direct(true).is_ok() && self.reads_directly();
        match (self.is_direct, direct) {
            (true, _) => Ok(()),
            (false, Direct::Always) => Err(BlockFileError::NoDirect),
            (false, _) => self
                .set_direct(false)
                .map_err(|error| BlockFileError::System("can't be read through the page cache", error)),
        }
    }

    fn reads_directly(&self) -> bool {
        let tried = self.file.read_at(&mut Pages::zeroed(BLOCK), 0);
        // Any other error is that of the block, which is for its readers to hear.
        !tried.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    }

    fn set_direct(&self, on: bool) -> io::Result<()> {
        let now = OFlag::from_bits_retain(fcntl(&self.file, FcntlArg::F_GETFL)?);
        let mut then = now;
        then.set(OFlag::O_DIRECT, on);
        if then != now {
            fcntl(&self.file, FcntlArg::F_SETFL(then))?;
        }
        Ok(())
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: such a one isn't opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// True if its space couldn't be had in advance, so that a write may still find none.
    pub fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    /// Fills `into` with what is there from `at` on.
    ///
    /// # Errors
    /// The system's, or `UnexpectedEof`.
    pub fn read(&self, at: u64, into: &mut Pages) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    /// Writes `from`, whole.
    ///
    /// # Errors
    /// The system's, or `WriteZero`. What was written then is anything.
    pub fn write(&self, at: u64, from: &Pages) -> io::Result<()> {
        self.file.write_all_at(from, at)
    }

    /// Brings to stable storage what was written.
    ///
    /// # Errors
    /// The system's; it tells them once, and forgets what couldn't be written.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl From<BlockFile> for File {
    fn from(own: BlockFile) -> File {
        own.file
    }
}

impl AsFd for BlockFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The lock belongs to what is open, not to the process: who gets the descriptor has it, too, and it ends with the last.
fn lock(file: &File) -> Result<(), BlockFileError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(BlockFileError::Locked(lock_holder(file))),
        Err(std::fs::TryLockError::Error(error)) => Err(BlockFileError::System("can't be locked", error)),
    }
}

/// The process that has the lock, by the system's list of them.
fn lock_holder(file: &File) -> Option<u32> {
    let file = file.metadata().ok()?;
    let (dev, ino) = (file.dev(), file.ino());
    let own = format!("{:02x}:{:02x}:{ino}", nix::sys::stat::major(dev), nix::sys::stat::minor(dev));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|line| line.len() == 8 && line[1] == "FLOCK" && line[5] == own).find_map(|line| line[4].parse().ok())
}

/// Takes all space that a file of `wanted` bytes needs. False: the file system can't do that, and the file has holes.
fn preallocate(file: &File, found: u64, wanted: u64) -> Result<bool, BlockFileError> {
    let system = |error| BlockFileError::System("can't be given its space", error);
    let taken = file.metadata().map_err(system)?.blocks() * 512;
    let missing = wanted.saturating_sub(taken);
    // Asked first: taking what there is until there is nothing left would harm others for a moment.
    let free = fstatvfs(file).map(|fs| fs.blocks_available() * fs.fragment_size()).unwrap_or(u64::MAX);
    if missing > free {
        return Err(BlockFileError::NoSpace { wanted: missing, free });
    }
    match allocate(file, wanted) {
        Ok(()) => Ok(true),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            file.set_len(found.max(wanted)).map_err(system)?;
            Ok(false)
        }
        Err(error) => {
            // Gives back what was taken beyond the old end.
            let _ = file.set_len(found);
            match error {
                Errno::ENOSPC | Errno::EDQUOT => Err(BlockFileError::NoSpace { wanted: missing, free }),
                other => Err(system(other.into())),
            }
        }
    }
}

fn allocate(file: &File, bytes: u64) -> Result<(), Errno> {
    let bytes = i64::try_from(bytes).map_err(|_| Errno::EFBIG)?;
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests;
