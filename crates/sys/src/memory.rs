// SPDX-License-Identifier: BSD-2-Clause
//! How much memory processes have, how much of it the heap's users hold, and how much there may be: the cgroup's limit.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// Changes of the heap that a thread keeps to itself up to so many bytes.
const BATCH: usize = 64 << 10;
/// Unit of files' sizes on their device, in bytes.
const BLOCK: u64 = 512;
const CGROUPS: &str = "/sys/fs/cgroup";

static HEAP: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static CHANGE: HeapChange = const { HeapChange(Cell::new(0)) };
}

struct HeapChange(Cell<isize>);

impl Drop for HeapChange {
    fn drop(&mut self) {
        HEAP.fetch_add(self.0.get(), Relaxed);
    }
}

/// The heap's users hold so many bytes more, or fewer. Called for each allocation: it must not allocate.
#[inline]
pub fn heap_changed(bytes: isize) {
    let told = CHANGE.try_with(|change| {
        let sum = change.0.get() + bytes;
        let is_much = sum.unsigned_abs() >= BATCH;
        change.0.set(if is_much { 0 } else { sum });
        if is_much { sum } else { 0 }
    });
    // A thread that is ending keeps nothing any more.
    let told = told.unwrap_or(bytes);
    if told != 0 {
        HEAP.fetch_add(told, Relaxed);
    }
}

/// Bytes that the heap's users hold, but for at most 64 KB a thread; 0 where nobody calls [`heap_changed`].
pub fn heap_bytes() -> u64 {
    u64::try_from(HEAP.load(Relaxed)).unwrap_or(0)
}

/// Memory of a process that is really there, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Resident {
    /// Private memory: heap, stacks, private regions.
    pub private: u64,
    /// Memory of files and shared memory: program, log, counters, stores.
    pub shared: u64,
}

/// The kernel's account of a process's memory. Reading it costs a few microseconds, however much it is.
#[derive(Debug)]
pub struct ResidentReader {
    statm: File,
    page: u64,
}

impl ResidentReader {
    /// A reader for this process.
    ///
    /// # Errors
    /// The system's: there is no `/proc`.
    pub fn of_self() -> io::Result<Self> {
        Self::open("/proc/self/statm")
    }

    /// A reader for another process.
    ///
    /// # Errors
    /// The system's: there is no such process, or it isn't to be seen.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Self::open(&format!("/proc/{pid}/statm"))
    }

    fn open(path: &str) -> io::Result<Self> {
        Ok(Self { statm: File::open(path)?, page: page_bytes() })
    }

    pub fn read(&self) -> io::Result<Resident> {
        let mut buf = [0; 256];
        let len = self.statm.read_at(&mut buf, 0)?;
        let text = String::from_utf8_lossy(&buf[..len]);
        parse_statm(&text, self.page).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn page_bytes() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}

pub fn machine_bytes() -> Option<u64> {
    let pages = nix::unistd::sysconf(nix::unistd::SysconfVar::_PHYS_PAGES).ok().flatten()?;
    u64::try_from(pages).ok()?.checked_mul(page_bytes())
}

/// `size resident shared ...` in pages.
fn parse_statm(text: &str, page: u64) -> Option<Resident> {
    let mut pages = text.split_ascii_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    Some(Resident { private: resident.saturating_sub(shared) * page, shared: shared * page })
}

/// Memory that this process has mapped from files, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Address space of the program and its libraries: at most so much of it is there.
    pub program: u64,
    /// Shared memory with monitoring, as far as it was ever written to: log and counters.
    pub monitored: u64,
}

/// The mapped memory. `monitored` gives, for the path of shared memory with monitoring, the place of its file.
///
/// # Errors
/// The system's.
pub fn mapped(monitored: impl Fn(&str) -> Option<PathBuf>) -> io::Result<Mapped> {
    let written = |path: &str, bytes: u64| {
        let file = monitored(path)?;
        Some(fs::metadata(file).map_or(bytes, |file| (file.blocks() * BLOCK).min(bytes)))
    };
    Ok(parse_maps(&fs::read_to_string("/proc/self/maps")?, written))
}

/// Lines of `from-to rwxp offset device inode path`; `monitored` answers what counts of such memory.
fn parse_maps(text: &str, monitored: impl Fn(&str, u64) -> Option<u64>) -> Mapped {
    let mut sum = Mapped::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let (Some(inode), Some(path)) = (words.nth(2), words.next()) else { continue };
        let ends = range.split_once('-').map(|(from, to)| [from, to].map(|end| u64::from_str_radix(end, 16).ok()));
        let Some([Some(from), Some(to)]) = ends else { continue };
        let bytes = to.saturating_sub(from);
        match rights.ends_with('s') {
            true => sum.monitored += monitored(path, bytes).unwrap_or(0),
            false if inode != "0" => sum.program += bytes,
            false => {}
        }
    }
    sum
}

/// The least limit of memory of this process's cgroup and those above it, in bytes, when there is one (version 2, then 1).
pub fn cgroup_limit() -> Option<u64> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit_under(Path::new(CGROUPS), &cgroup)
}

fn limit_under(root: &Path, cgroup: &str) -> Option<u64> {
    let places = cgroup.lines().filter_map(|line| {
        let mut words = line.splitn(3, ':').skip(1);
        let (controllers, path) = (words.next()?, words.next()?);
        match controllers {
            "" => Some((root.to_path_buf(), "memory.max", path)),
            _ if controllers.split(',').any(|word| word == "memory") => {
                Some((root.join("memory"), "memory.limit_in_bytes", path))
            }
            _ => None,
        }
    });
    places.filter_map(|(root, file, path)| least_limit(&root, file, path)).min()
}

/// The least of the limits from `path` up to `root`. In a container the path may be one that only the host sees: then
/// the container's own is at the root.
fn least_limit(root: &Path, file: &str, path: &str) -> Option<u64> {
    let below = root.join(path.trim_start_matches('/'));
    let levels = below.ancestors().take_while(|level| level.starts_with(root)).map(PathBuf::from);
    levels.filter_map(|level| read_limit(&level.join(file))).min()
}

fn read_limit(path: &Path) -> Option<u64> {
    // Version 1 says "no limit" with a number near 2^63, version 2 with a word.
    fs::read_to_string(path).ok()?.trim().parse().ok().filter(|&limit: &u64| limit < 1 << 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_is_what_it_touched() {
        let reader = ResidentReader::of_self().unwrap();
        let before = reader.read().unwrap();
        assert!(before.private > 0 && before.shared > 0, "{before:?}");
        let touched = vec![1_u8; 64 << 20];
        let after = reader.read().unwrap();
        assert!(after.private >= before.private + (60 << 20), "{before:?} {after:?} {}", touched.len());
        assert!(ResidentReader::of_process(std::process::id()).unwrap().read().unwrap().private > 0);
        assert_eq!(parse_statm("100 30 10 5 0 20 0\n", 4096), Some(Resident { private: 81920, shared: 40960 }));
        assert_eq!(parse_statm("100", 4096), None);
        assert!(machine_bytes().unwrap() > 64 << 20);
    }

    #[test]
    fn heap_bytes_are_the_sum_of_what_all_threads_tell() {
        let before = heap_bytes();
        // Below and beyond what a thread keeps to itself; at its end it tells the rest.
        std::thread::spawn(|| (0..100).for_each(|_| heap_changed(50_000))).join().unwrap();
        assert_eq!(heap_bytes() - before, 5_000_000);
        std::thread::spawn(|| (0..100).for_each(|_| heap_changed(-49_999))).join().unwrap();
        assert_eq!(heap_bytes() - before, 100);
        heap_changed(-100);
    }

    #[test]
    fn mappings_are_told_apart_by_rights_and_path() {
        let maps = "\
55d0a000-55d0c000 r-xp 00000000 08:01 77 /usr/bin/lacquer
55d0c000-55d0d000 rw-p 00002000 08:01 77 /usr/bin/lacquer
7f00000000-7f00010000 rw-p 00000000 00:00 0 
7f10000000-7f10001000 rw-s 00000000 00:1b 9 /run/l/_.vsm_child/_.Log 1 (deleted)
7f20000000-7f20100000 rw-s 00000000 00:1b 8 /var/store
7ffd000000-7ffd001000 rw-p 00000000 00:00 0 [stack]
";
        let monitored = |path: &str, bytes| path.contains("_.vsm").then_some(bytes);
        assert_eq!(parse_maps(maps, monitored), Mapped { program: 0x3000, monitored: 0x1000 });
        assert!(mapped(|_| None).unwrap().program > 0);
    }

    #[test]
    fn the_least_limit_from_the_cgroup_up_counts() {
        let root = std::env::temp_dir().join(format!("cgroups-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("system.slice/web.service/memory.max", "max\n");
        put("system.slice/memory.max", "2000000\n");
        put("memory/docker/1/memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/memory.limit_in_bytes", "1000000\n");
        let limit = |cgroup: &str| limit_under(&root, cgroup);
        assert_eq!(limit("0::/system.slice/web.service\n"), Some(2_000_000));
        assert_eq!(limit("0::/other\n"), None);
        assert_eq!(limit("5:cpu:/docker/1\n4:memory:/docker/1\n"), Some(1_000_000), "version 1");
        assert_eq!(limit("4:memory:/of/the/host\n"), Some(1_000_000), "a path that isn't seen here");
        assert_eq!(limit("0::/../../etc\n"), None);
        assert_eq!(limit(""), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
