// SPDX-License-Identifier: BSD-2-Clause
//! The files and block devices of `-s file`: looked at, given their size, locked, and handed to the workers open, as those
//! may not be able to open them. The lock goes with the descriptor: it ends with the manager and its last worker.
//!
//! What was there is overwritten, as varnishd does, but not what surely isn't a cache: a block device with anything that
//! isn't a store, and a file that isn't as long as varnishd would have left one.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use sys::blockfile::{BlockFile, BlockFileError, BlockOptions, Direct, FileAccess};
use sys::pages::{BLOCK, Pages};
use tables::stores::{DirectIo, DiskOptions, MIN_BYTES};

use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::report::{ReportSeverity, print};
use crate::stores::{ManagerStores, NO_DIRECTORY, StoreArg};

/// Longest wait for the lock of a process that ends.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// Share of the store that is memory in front of it: one byte in this many. [`FRONT_LEAST`] and [`MACHINE_SHARE`] bound
/// it.
const FRONT_SHARE: u64 = 8;
/// Least memory in front of a store, unless the whole store is smaller.
const FRONT_LEAST: u64 = 64 << 20;
/// Largest part of the machine's memory in front of a store: one byte in this many.
const MACHINE_SHARE: u64 = 4;

/// Memory for the index, of so many bytes of the store one: enough for objects of 2 KB.
const INDEX_SHARE: u64 = 64;
const INDEX_LEAST: u64 = 4 << 20;

/// Memory that a worker locks for a store at most, and what else may be locked in it.
const LOCKED: u64 = 64 << 20;

#[derive(Debug)]
pub struct StoreFile {
    pub store: String,
    pub file: File,
    pub bytes: u64,
    /// Drawn when the store is to begin empty; 0 in one that is kept.
    pub life: u64,
}

impl StoreFile {
    /// Marks the content as useless for the next worker, unless it is to be kept.
    pub fn drop_contents(&mut self) {
        if self.life != 0 {
            self.life = draw();
        }
    }

    pub fn options(&self, arg: &StoreArg) -> DiskOptions {
        let mut options = arg.disk.clone();
        let machine = [sys::memory::machine_bytes(), sys::memory::cgroup_limit()].into_iter().flatten().min();
        options.front_bytes.get_or_insert_with(|| front_bytes(self.bytes, machine));
        options.index_bytes.get_or_insert_with(|| (self.bytes / INDEX_SHARE).max(INDEX_LEAST));
        options
    }
}

fn front_bytes(store: u64, machine: Option<u64>) -> u64 {
    let share = (store / FRONT_SHARE).max(FRONT_LEAST);
    let most = machine.map_or(u64::MAX, |bytes| bytes / MACHINE_SHARE);
    share.min(most).max(MIN_BYTES).min(store)
}

/// Something that isn't 0 and nobody else has drawn.
fn draw() -> u64 {
    RandomState::new().hash_one(Instant::now()).max(1)
}

pub fn open_all(stores: &ManagerStores, jail: &Jail) -> Result<Vec<StoreFile>, Fatal> {
    let opened: Vec<StoreFile> =
        stores.iter().filter_map(|store| Some(open(store, store.path.as_deref()?, jail))).collect::<Result<_, _>>()?;
    if !opened.is_empty() {
        // While we may: a worker's ring locks the memory that it reads into.
        let _ = jail.privileged(|| sys::limits::raise_locked_memory(LOCKED * opened.len() as u64));
    }
    Ok(opened)
}

/// File that a worker locks as long as it writes to a store. With io_uring the kernel may write for a worker that has
/// ended already; it keeps the lock as long.
pub fn write_lock(files: &[StoreFile]) -> Result<Option<File>, Fatal> {
    if files.is_empty() {
        return Ok(None);
    }
    let lock = sys::fd::memfd("lacquer write lock");
    lock.map(Some).or_else(|error| argument(format!("No lock for stores in files: {}", errno_text(&error))))
}

/// Checks that they could be opened, as far as that is possible without touching files in use.
pub fn check_all(stores: &ManagerStores, jail: &Jail) -> Result<(), Fatal> {
    for path in stores.iter().filter_map(|store| store.path.as_deref()) {
        jail.privileged(|| {
            if !path.is_dir() && make(path)? {
                let _ = std::fs::remove_file(path);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn open(store: &StoreArg, path: &Path, jail: &Jail) -> Result<StoreFile, Fatal> {
    let options = BlockOptions { bytes: store.bytes, direct: direct(store.disk.direct), access: FileAccess::Exclusive };
    let opened = jail.privileged(|| {
        if path.is_dir() {
            if store.disk.keep {
                return argument(format!("(-sfile) {NO_DIRECTORY}"));
            }
            let made = BlockFile::from_file(unlinked(path)?, &options);
            return made.or_else(|why| refused(path, &why));
        }
        let is_new = make(path)?;
        let lost = if is_new { None } else { look(path, store.bytes)? };
        let opened = unlocked(|| BlockFile::open(path, &options));
        if is_new && opened.is_err() {
            let _ = std::fs::remove_file(path);
        }
        let opened = opened.or_else(|why| refused(path, &why))?;
        if let Some(lost) = lost.filter(|_| store.disk.keep) {
            print(ReportSeverity::Error, &format!("storage.{} ({}) begins empty: {lost}", store.name, path.display()));
            erase(store, &opened);
        }
        Ok(opened)
    })?;
    let bytes = opened.len();
    let file = File::from(opened);
    // A store that was larger gives its space back, as varnishd's does.
    if file.metadata().is_ok_and(|found| found.is_file() && found.len() > bytes) {
        let _ = file.set_len(bytes);
    }
    let life = if store.disk.keep { 0 } else { draw() };
    Ok(StoreFile { store: store.name.clone(), file, bytes, life })
}

/// Asks again while the process before this one is still ending.
fn unlocked<T>(open: impl Fn() -> Result<T, BlockFileError>) -> Result<T, BlockFileError> {
    let begun = Instant::now();
    loop {
        match open() {
            // A device is also taken for a moment by whoever looks what is new.
            Err(BlockFileError::Locked(_) | BlockFileError::Mounted) if begun.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_LOOK)
            }
            other => return other,
        }
    }
}

/// Makes the file; false if something is there already.
fn make(path: &Path) -> Result<bool, Fatal> {
    let shown = path.display();
    match File::options().read(true).write(true).mode(0o600).create_new(true).open(path) {
        Ok(_) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(_) => return argument(format!("(-sfile) \"{shown}\" does not exist and could not be created")),
    }
    let kind = path.metadata().map(|found| found.file_type());
    if !kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device()) {
        return argument(format!("(-sfile) \"{shown}\" is neither file nor directory nor block device"));
    }
    Ok(false)
}

/// Looks at what is there: whether it may be overwritten, and why it isn't a store that can be kept, if it isn't.
fn look(path: &Path, bytes: Option<u64>) -> Result<Option<String>, Fatal> {
    let options = BlockOptions { bytes: None, direct: Direct::Never, access: FileAccess::ExclusiveRead };
    let found = match unlocked(|| BlockFile::open(path, &options)) {
        Ok(found) => found,
        Err(BlockFileError::Empty) if path.metadata().is_ok_and(|found| found.len() == 0) => return Ok(None),
        Err(BlockFileError::Empty) => return foreign(path),
        Err(why) => return refused(path, &why),
    };
    let wanted = bytes.map_or(found.len(), |bytes| bytes / BLOCK as u64 * BLOCK as u64);
    match disk::identify(&found) {
        Ok(Some(own)) if !own.fits(wanted) => {
            Ok(Some(format!("it was cut for {} bytes, and is to have {wanted}", own.end())))
        }
        Ok(_) => Ok(None),
        Err(disk::DiskOpenError::TooSmall { .. }) => foreign(path),
        Err(disk::DiskOpenError::Foreign) if !path.is_file() || found.len() != wanted => foreign(path),
        Err(disk::DiskOpenError::Foreign) => Ok(Some("it held something that isn't a store".to_owned())),
        // What can't be read now may be there all the same: the worker will say so, and change nothing.
        Err(disk::DiskOpenError::Device(_)) => Ok(None),
        Err(why) => Ok(Some(why.to_string())),
    }
}

fn foreign<T>(path: &Path) -> Result<T, Fatal> {
    let (how, path) = (if path.is_file() { "rm" } else { "wipefs -a" }, path.display());
    argument(format!(
        "(-sfile) \"{path}\" holds something that isn't a store; nothing was changed\n\tIf it isn't needed any more: {how} {path}"
    ))
}

/// Erases a store, so that the worker finds none. A truncated one might look whole again, now that it has its length.
fn erase(store: &StoreArg, file: &BlockFile) {
    let erased = file.write(0, &Pages::zeroed(2 * BLOCK)).and_then(|()| file.sync());
    if let Err(error) = erased {
        print(ReportSeverity::Error, &format!("storage.{}: {}", store.name, errno_text(&error)));
    }
}

fn refused<T>(path: &Path, why: &BlockFileError) -> Result<T, Fatal> {
    match why {
        BlockFileError::System(what, error) if *what == "can't be opened" => {
            argument(format!("(-sfile) \"{}\" could not open ({})", path.display(), errno_text(error)))
        }
        why => argument(format!("(-sfile) \"{}\" {why}", path.display())),
    }
}

fn direct(wanted: DirectIo) -> Direct {
    match wanted {
        DirectIo::Auto => Direct::IfPossible,
        DirectIo::On => Direct::Always,
        DirectIo::Off => Direct::Never,
    }
}

/// A file in this directory that nobody else can open.
fn unlinked(dir: &Path) -> Result<File, Fatal> {
    let path = dir.join(format!("varnish.{}", std::process::id()));
    let failed = |error: Error| {
        argument(format!("(-sfile) \"{}\" mkstemp({}) failed ({})", dir.display(), path.display(), errno_text(&error)))
    };
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = made.or_else(failed)?;
    std::fs::remove_file(&path).or_else(|error| failed(error).map(|_: File| ()))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
