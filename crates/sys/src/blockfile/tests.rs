// SPDX-License-Identifier: BSD-2-Clause
//! What a file must be to hold blocks, and what is said of one that can't.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lacquer-blockfile-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        Place(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sized(bytes: u64) -> BlockOptions {
    BlockOptions { bytes: Some(bytes), ..BlockOptions::default() }
}

fn says(opened: Result<BlockFile, BlockFileError>, expect: &str) {
    let text = opened.map_or_else(|error| error.to_string(), |file| format!("opened, {} bytes", file.len()));
    assert!(text.contains(expect), "{text:?} for {expect:?}");
}

#[test]
fn a_new_file_has_all_of_its_space_and_is_nobody_elses_to_read() {
    let place = Place::new();
    let file = BlockFile::open(&place.file(), &sized(1_000_000)).unwrap();
    let found = std::fs::metadata(place.file()).unwrap();
    assert_eq!((file.len(), found.len(), found.mode() & 0o777), (999_424, 999_424, 0o600));
    assert!(file.is_sparse() || found.blocks() * 512 >= 999_424, "{} blocks", found.blocks());
}

#[test]
fn what_is_written_is_read_again() {
    for direct in [Direct::IfPossible, Direct::Never] {
        let place = Place::new();
        let options = BlockOptions { direct, ..sized(1 << 20) };
        let file = BlockFile::open(&place.file(), &options).unwrap();
        assert!(!(file.is_direct() && direct == Direct::Never));
        let mut pages = Pages::zeroed(2 * BLOCK);
        pages.fill(7);
        file.write(4 * BLOCK as u64, &pages).unwrap();
        file.sync().unwrap();
        drop(file);
        let file = BlockFile::open(&place.file(), &BlockOptions { direct, ..BlockOptions::default() }).unwrap();
        let mut read = Pages::zeroed(4 * BLOCK);
        file.read(3 * BLOCK as u64, &mut read).unwrap();
        assert_eq!((read[BLOCK - 1], read[BLOCK], read[3 * BLOCK - 1], read[3 * BLOCK]), (0, 7, 7, 0));
        assert_eq!(file.read((1 << 20) - BLOCK as u64, &mut read).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_longer_file_keeps_its_end_and_a_shorter_one_grows() {
    let place = Place::new();
    let mut longer = vec![0; 3 * BLOCK];
    longer.push(9);
    std::fs::write(place.file(), &longer).unwrap();
    says(BlockFile::open(&place.file(), &sized(BLOCK as u64)), "opened, 4096 bytes");
    assert_eq!(std::fs::read(place.file()).unwrap(), longer);
    says(BlockFile::open(&place.file(), &BlockOptions::default()), "opened, 12288 bytes");
    says(BlockFile::open(&place.file(), &sized(5 * BLOCK as u64)), "opened, 20480 bytes");
    longer.resize(5 * BLOCK, 0);
    assert_eq!(std::fs::read(place.file()).unwrap(), longer);
}

#[test]
fn a_second_user_is_refused_and_told_who_the_first_is() {
    let place = Place::new();
    let first = BlockFile::open(&place.file(), &sized(BLOCK as u64)).unwrap();
    let read = |access| BlockOptions { access, ..BlockOptions::default() };
    let own = format!("is used by another process ({})", std::process::id());
    says(BlockFile::open(&place.file(), &sized(BLOCK as u64)), &own);
    says(BlockFile::open(&place.file(), &read(FileAccess::ExclusiveRead)), "is used by another process");
    says(BlockFile::open(&place.file(), &read(FileAccess::Read)), "opened, 4096 bytes");
    // Who is handed the descriptor has the lock as well, and it lasts as long as either.
    let heir = BlockFile::from_file(first.file.try_clone().unwrap(), &sized(BLOCK as u64)).unwrap();
    drop(first);
    says(BlockFile::open(&place.file(), &sized(BLOCK as u64)), "is used by another process");
    drop(heir);
    says(BlockFile::open(&place.file(), &sized(BLOCK as u64)), "opened");
}

#[test]
fn what_the_file_system_has_not_is_not_taken() {
    let place = Place::new();
    says(BlockFile::open(&place.file(), &sized(1 << 55)), "bytes more, and its file system has");
    assert!(!place.file().exists(), "a file made for nothing stays");
    std::fs::write(place.file(), b"before").unwrap();
    says(BlockFile::open(&place.file(), &sized(1 << 55)), "bytes more, and its file system has");
    assert_eq!(std::fs::read(place.file()).unwrap(), b"before");
}

#[test]
fn what_holds_no_blocks_is_told_apart() {
    let place = Place::new();
    says(BlockFile::open(&place.0, &sized(BLOCK as u64)), "neither a file nor a block device");
    says(BlockFile::open("/dev/null".as_ref(), &sized(BLOCK as u64)), "neither a file nor a block device");
    nix::unistd::mkfifo(&place.file(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    says(BlockFile::open(&place.file(), &BlockOptions::default()), "neither a file nor a block device");
    let other = place.0.join("other");
    says(BlockFile::open(&other, &BlockOptions::default()), "No such file");
    std::fs::write(&other, b"short").unwrap();
    says(BlockFile::open(&other, &BlockOptions::default()), "is empty");
    std::fs::remove_file(&other).unwrap();
    says(BlockFile::open(&other, &sized(100)), "is empty");
    assert!(!other.exists(), "a file made for nothing stays");
}

#[test]
fn direct_io_is_refused_just_where_it_cannot_be_had() {
    let options = |direct| BlockOptions { direct, access: FileAccess::Read, ..BlockOptions::default() };
    for dir in [std::env::temp_dir(), PathBuf::from("/dev/shm")] {
        let path = dir.join(format!("lacquer-direct-{}", std::process::id()));
        std::fs::write(&path, vec![1; BLOCK]).unwrap();
        let if_possible = BlockFile::open(&path, &options(Direct::IfPossible));
        let always = BlockFile::open(&path, &options(Direct::Always));
        std::fs::remove_file(&path).unwrap();
        match if_possible.unwrap().is_direct() {
            true => assert!(always.unwrap().is_direct()),
            false => says(always, "its file system refuses that"),
        }
    }
}

/// A block device over a file, where this user may have one; it goes when this does.
struct Loop(PathBuf);

impl Loop {
    fn new(file: &Path) -> Option<Loop> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?;
        (made.status.success() && !name.trim().is_empty()).then(|| Loop(PathBuf::from(name.trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_is_used_as_it_is() {
    let place = Place::new();
    std::fs::write(place.file(), vec![1; 5 * BLOCK]).unwrap();
    let Some(device) = Loop::new(&place.file()) else {
        println!("no block devices for this user");
        return;
    };
    says(BlockFile::open(&device.0, &sized(6 * BLOCK as u64)), "is a device of 20480 bytes only");
    let file = BlockFile::open(&device.0, &BlockOptions::default()).unwrap();
    assert_eq!((file.len(), file.is_sparse()), (5 * BLOCK as u64, false));
    let mut pages = Pages::zeroed(BLOCK);
    pages.fill(2);
    file.write(4 * BLOCK as u64, &pages).unwrap();
    file.read(3 * BLOCK as u64, &mut pages).unwrap();
    assert_eq!(pages[0], 1);
    assert_eq!(file.read(5 * BLOCK as u64, &mut pages).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    file.sync().unwrap();
    // As a mount has it: the system itself keeps others out.
    says(BlockFile::open(&device.0, &BlockOptions::default()), "is mounted or used otherwise");
    let read = BlockOptions { access: FileAccess::Read, ..BlockOptions::default() };
    says(BlockFile::open(&device.0, &read), "opened, 20480 bytes");
    drop(file);
    says(BlockFile::open(&device.0, &sized(2 * BLOCK as u64)), "opened, 8192 bytes");
}
