// SPDX-License-Identifier: BSD-2-Clause
//! The files of `-s file`: made, given their size and handed to the worker open, as it may not be able to open them.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::stores::{StoreArg, Stores};

/// A store's file.
#[derive(Debug)]
pub struct StoreFile {
    /// Name of the store.
    pub store: String,
    /// The file, as long as the store is large.
    pub file: File,
    /// Size in bytes.
    pub bytes: u64,
}

/// Opens the files of all stores that have one.
pub fn open_all(stores: &Stores, jail: &Jail) -> Result<Vec<StoreFile>, Fatal> {
    stores.iter().filter_map(|store| open(store, jail).transpose()).collect()
}

fn open(store: &StoreArg, jail: &Jail) -> Result<Option<StoreFile>, Fatal> {
    let Some(path) = &store.path else { return Ok(None) };
    let file = jail.privileged(|| open_path(path))?;
    let had = file.metadata().map_or(0, |meta| meta.len());
    let bytes = match store.bytes {
        Some(bytes) => bytes,
        None if had > 0 => had,
        None => return argument("(-sfile) no size specified"),
    };
    // All of it at once: a disk that is full later would be a fault in the midst of serving.
    jail.privileged(|| sys::fd::allocate(&file, bytes)).or_else(|error| {
        let path = path.display();
        argument(format!("(-sfile) \"{path}\" size {bytes}: could not allocate ({})", errno_text(&error)))
    })?;
    Ok(Some(StoreFile { store: store.name.clone(), file, bytes }))
}

fn open_path(path: &Path) -> Result<File, Fatal> {
    let shown = path.display();
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    if path.is_dir() {
        return unlinked(path);
    }
    match options.clone().create_new(true).open(path) {
        Ok(file) => return Ok(file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(_) => return argument(format!("(-sfile) \"{shown}\" does not exist and could not be created")),
    }
    if !path.is_file() {
        return argument(format!("(-sfile) \"{shown}\" is neither file nor directory"));
    }
    options
        .open(path)
        .or_else(|error| argument(format!("(-sfile) \"{shown}\" could not open ({})", errno_text(&error))))
}

/// A file in this directory that nobody else can open.
fn unlinked(dir: &Path) -> Result<File, Fatal> {
    let path = dir.join(format!("varnish.{}", std::process::id()));
    let failed = |error: std::io::Error| {
        argument(format!("(-sfile) \"{}\" mkstemp({}) failed ({})", dir.display(), path.display(), errno_text(&error)))
    };
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = made.or_else(failed)?;
    std::fs::remove_file(&path).or_else(|error| failed(error).map(|_: File| ()))?;
    Ok(file)
}
