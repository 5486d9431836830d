// SPDX-License-Identifier: BSD-2-Clause
//! VSM: a directory of segment files and the index that tells readers of them.
//!
//! A segment is filled first and published then, and unpublished before its file goes; a line is one `write`.
//! The manager and the worker have a set each.

mod cluster;
mod index;

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::Clock;
use parking_lot::Mutex;

pub use self::cluster::Cluster;
pub(crate) use self::index::FILE_NAME as INDEX_NAME;
use self::index::SegmentIndex;
use crate::map::{FileMap, reserve_more};

/// Process that a set belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOwner {
    /// The manager, with `_.vsm_mgt`.
    Manager,
    /// The worker, with `_.vsm_child`.
    Worker,
}

impl SetOwner {
    /// Name of the directory within the workdir.
    pub const fn dir_name(self) -> &'static str {
        match self {
            SetOwner::Manager => "_.vsm_mgt",
            SetOwner::Worker => "_.vsm_child",
        }
    }
}

/// Owner of the directory and the files: user and group, for a jailed process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// User id, numeric, in this namespace.
    pub uid: u32,
    /// Group id, numeric, in this namespace.
    pub gid: u32,
}

const DIR_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;
/// Payloads end on this boundary.
const ALIGN: usize = 8;
const PAGE: usize = 4096;
/// A growing segment gets room for so many bytes at a time.
const STEP: usize = 1 << 20;
/// Factor of free memory beyond which room may come late.
const SPARE: u64 = 4;

/// A set of segments in a directory of its own. Clones share it.
#[derive(Clone, Debug)]
pub struct SegmentSet(Arc<Set>);

#[derive(Debug)]
struct Set {
    dir: PathBuf,
    /// Directory of a set that was adopted, which a successor's may have replaced under the name.
    #[expect(dead_code, reason = "held, as `dir` names it")]
    held: Option<File>,
    home: SetOwner,
    owner: Option<Owner>,
    birth: u64,
    next_file: AtomicU64,
    index: Mutex<SegmentIndex>,
}

impl SegmentSet {
    /// Makes the directory anew (what was there of this name is removed) with an index that holds no segment.
    /// `pid` and the time now are what readers tell one life from another by.
    pub fn create(workdir: &Path, home: SetOwner, pid: u32, owner: Option<Owner>) -> io::Result<Self> {
        remove(workdir, home)?;
        let birth = Clock::system().real().0 as u64;
        let dir = workdir.join(home.dir_name());
        // Readers look the directory up again when its mode changes, so it gets its name when it is complete.
        let fresh = workdir.join(format!("{}.{pid}.new", home.dir_name()));
        // In a container each manager has the same number.
        let _ = fs::remove_dir_all(&fresh);
        DirBuilder::new().mode(DIR_MODE).create(&fresh)?;
        let make = || -> io::Result<SegmentIndex> {
            fs::set_permissions(&fresh, Permissions::from_mode(DIR_MODE))?;
            give(&fresh, owner)?;
            let index = SegmentIndex::create(&fresh, pid, birth, owner)?;
            fs::rename(&fresh, &dir)?;
            Ok(index)
        };
        let index = make().inspect_err(|_| _ = fs::remove_dir_all(&fresh))?;
        let (held, index) = (None, Mutex::new(index));
        let set = Set { dir: dir.clone(), held, home, owner, birth, next_file: AtomicU64::new(0), index };
        set.index.lock().moved_to(&dir);
        Ok(Self(Arc::new(set)))
    }

    /// Takes the directory as it is, empty and ours: a jailed worker may not make it, the manager does that.
    pub fn adopt(workdir: &Path, home: SetOwner, pid: u32) -> io::Result<Self> {
        let birth = Clock::system().real().0 as u64;
        let name = workdir.join(home.dir_name());
        let held = File::open(&name)?;
        // By its descriptor it stays ours when another one gets the name.
        let dir = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        let (dir, held) = if dir.is_dir() { (dir, Some(held)) } else { (name, None) };
        let index = Mutex::new(SegmentIndex::create(&dir, pid, birth, None)?);
        let set = Set { dir, held, home, owner: None, birth, next_file: AtomicU64::new(0), index };
        Ok(Self(Arc::new(set)))
    }

    /// The process that it belongs to.
    pub fn home(&self) -> SetOwner {
        self.0.home
    }

    /// When it was made, in seconds since 1970.
    pub fn birth(&self) -> u64 {
        self.0.birth
    }

    /// Makes a segment of `len` zero bytes that readers don't know of yet: fill it, then [`Segment::publish`] it.
    /// `class` and `ident` must have no white space; `ident` may be empty.
    pub fn prepare(&self, class: &str, ident: &str, len: usize) -> io::Result<Segment> {
        let len = len.max(1).next_multiple_of(ALIGN);
        let backing = MappedFile::create_whole(&self.0, class, len)?;
        Ok(Segment::new(backing, 0, len, class, ident))
    }

    /// The same as [`SegmentSet::prepare`] for a large segment that is filled from its beginning: it is there at once,
    /// and its later bytes get room by [`Reservation::complete`]. Where there may not be enough, all get it here, and
    /// here is the error.
    pub fn prepare_growing(&self, class: &str, ident: &str, len: usize) -> io::Result<(Segment, Reservation)> {
        let len = len.max(1).next_multiple_of(ALIGN);
        let is_tight = sys::disk::room_bytes(&self.0.dir).is_ok_and(|room| room / SPARE < len as u64);
        let (backing, reservation) = MappedFile::create(&self.0, class, len, if is_tight { len } else { STEP })?;
        Ok((Segment::new(backing, 0, len, class, ident), reservation))
    }

    /// Makes a segment that holds `data` and publishes it.
    pub fn put(&self, class: &str, ident: &str, data: &[u8]) -> io::Result<Segment> {
        let mut segment = self.prepare(class, ident, data.len())?;
        segment.write(0, data);
        segment.publish()?;
        Ok(segment)
    }

    /// Makes a file for several segments of at most `len` bytes together, headers and rounding included.
    pub fn cluster(&self, name: &str, len: usize) -> io::Result<Cluster> {
        Cluster::create(&self.0, name, len)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.0.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes the index away: readers see that this process is gone. Segments still held are no longer published.
    /// The files stay; [`remove`] takes them away.
    pub fn close(&self) {
        self.0.index.lock().close();
    }
}

/// Removes the directory of `home` and all in it; nothing there is no error.
pub fn remove(workdir: &Path, home: SetOwner) -> io::Result<()> {
    match fs::remove_dir_all(workdir.join(home.dir_name())) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Gives the directory of `home` another name, under which nobody looks for it; nothing there is no error.
pub fn set_aside(workdir: &Path, home: SetOwner) -> io::Result<()> {
    let (dir, aside) = (workdir.join(home.dir_name()), workdir.join(aside_name(home)));
    match fs::rename(&dir, &aside) {
        // One that is there still.
        Err(e) if matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
            fs::remove_dir_all(&aside)?;
            fs::rename(&dir, &aside)
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes what [`set_aside`] left.
pub fn remove_set_aside(workdir: &Path, home: SetOwner) -> io::Result<()> {
    match fs::remove_dir_all(workdir.join(aside_name(home))) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn aside_name(home: SetOwner) -> String {
    format!("{}.old", home.dir_name())
}

fn give(path: &Path, owner: Option<Owner>) -> io::Result<()> {
    match owner {
        Some(Owner { uid, gid }) => chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// Creates a file that must not exist, with the mode and owner of all files here.
fn new_file(path: &Path, owner: Option<Owner>) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    give(path, owner)?;
    Ok(file)
}

/// A mapped file; it goes when the last segment in it goes.
#[derive(Debug)]
struct MappedFile {
    set: Arc<Set>,
    name: String,
    map: FileMap,
    /// Line of the file itself, for a cluster.
    line: Option<u64>,
}

impl MappedFile {
    fn create_whole(set: &Arc<Set>, class: &str, len: usize) -> io::Result<MappedFile> {
        Ok(Self::create(set, class, len, len)?.0)
    }

    /// Creates the file, with room for its `first` bytes at least.
    fn create(set: &Arc<Set>, class: &str, len: usize, first: usize) -> io::Result<(MappedFile, Reservation)> {
        let number = set.next_file.fetch_add(1, Ordering::Relaxed);
        // Unique within the directory, and unlike any name an earlier life used there.
        let unique = (set.birth << 32) ^ (u64::from(std::process::id()) << 24) ^ number;
        let name = format!("_.{class}.{unique:016x}");
        let path = set.dir.join(&name);
        let file = new_file(&path, set.owner)?;
        let (len, first) = (len.next_multiple_of(PAGE), first.next_multiple_of(PAGE));
        let (map, reserved) = FileMap::create(&file, len, first.min(len)).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        let backing = MappedFile { set: Arc::clone(set), name, map, line: None };
        Ok((backing, Reservation { file, from: reserved, to: len }))
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if let Some(line) = self.line {
            self.set.index.lock().remove(line);
        }
        let _ = fs::remove_file(self.set.dir.join(&self.name));
    }
}

/// Room for the later bytes of a segment, which isn't reserved yet.
#[derive(Debug)]
#[must_use = "without room a write beyond the first bytes may end the process"]
pub struct Reservation {
    file: File,
    from: usize,
    to: usize,
}

impl Reservation {
    /// Reserves it, step by step from the beginning. It takes a while: a file in memory is cleared on the way.
    pub fn complete(self) -> io::Result<()> {
        (self.from..self.to).step_by(STEP).try_for_each(|at| reserve_more(&self.file, at, STEP.min(self.to - at)))
    }
}

/// A piece of shared memory. Dropping it unpublishes it and removes its file.
#[derive(Debug)]
pub struct Segment {
    backing: Arc<MappedFile>,
    offset: usize,
    len: usize,
    class: String,
    ident: String,
    line: Option<u64>,
}

impl Segment {
    fn new(backing: impl Into<Arc<MappedFile>>, offset: usize, len: usize, class: &str, ident: &str) -> Self {
        debug_assert!(!class.contains(char::is_whitespace) && !ident.contains(char::is_whitespace));
        let (class, ident) = (class.to_owned(), ident.to_owned());
        Self { backing: backing.into(), offset, len, class, ident, line: None }
    }

    /// Tells readers of it. Once is enough.
    pub fn publish(&mut self) -> io::Result<()> {
        if self.line.is_none() {
            let file = &self.backing.name;
            let text = format!("{file} {} {} {} {}", self.offset, self.len, self.class, self.ident);
            self.line = Some(self.backing.set.index.lock().add(text)?);
        }
        Ok(())
    }

    /// Number of usable bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a segment has at least 8 bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Copies `data` to byte `at`; panics when it does not fit.
    pub fn write(&self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.len, "{} bytes at {at} of a segment of {}", data.len(), self.len);
        self.backing.map.write(self.offset + at, data);
    }

    /// Replaces the content by text and a final NUL; what does not fit is cut.
    pub fn write_text(&self, text: &[u8]) {
        write_text(&self.backing.map, self.offset, self.len, text);
    }

    /// The text up to the first NUL.
    pub fn read_text(&self) -> Vec<u8> {
        read_text(&self.backing.map, self.offset, self.len)
    }

    /// The file, opened again for reading and writing, to be passed to another process (see [`SharedSegment`]).
    pub fn open_file(&self) -> io::Result<OwnedFd> {
        let path = self.backing.set.dir.join(&self.backing.name);
        Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
    }

    pub(crate) fn map(&self) -> &FileMap {
        &self.backing.map
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(line) = self.line {
            self.backing.set.index.lock().remove(line);
        }
    }
}

/// A segment of another process, by a descriptor that process passed on: the worker writes its panic report so.
#[derive(Debug)]
pub struct SharedSegment(FileMap);

impl SharedSegment {
    /// Maps the whole file.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let len = file.metadata()?.size() as usize;
        Ok(Self(FileMap::from_fd(&file, len)?))
    }

    /// Replaces the content by text and a final NUL; what does not fit is cut.
    pub fn write_text(&self, text: &[u8]) {
        write_text(&self.0, 0, self.0.len(), text);
    }

    /// The text up to the first NUL.
    pub fn read_text(&self) -> Vec<u8> {
        read_text(&self.0, 0, self.0.len())
    }

    /// Writes text piece by piece from the beginning on; readers see what was written so far. Allocates nothing.
    pub fn writer(&self) -> SegmentWriter<'_> {
        SegmentWriter { map: &self.0, at: 0 }
    }
}

/// Writes into a [`SharedSegment`] segment; what doesn't fit is cut.
#[derive(Clone, Debug)]
pub struct SegmentWriter<'a> {
    map: &'a FileMap,
    at: usize,
}

impl std::fmt::Write for SegmentWriter<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.map.len() - self.at;
        write_text(self.map, self.at, room, text.as_bytes());
        self.at += text.len().min(room - 1);
        Ok(())
    }
}

fn write_text(map: &FileMap, offset: usize, len: usize, text: &[u8]) {
    let cut = &text[..text.len().min(len - 1)];
    map.write(offset, cut);
    map.write(offset + cut.len(), &[0]);
}

fn read_text(map: &FileMap, offset: usize, len: usize) -> Vec<u8> {
    map.bytes(offset, len).iter().map(|b| b.load(Ordering::Relaxed)).take_while(|b| *b != 0).collect()
}

#[cfg(test)]
mod tests;
