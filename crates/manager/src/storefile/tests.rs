// SPDX-License-Identifier: BSD-2-Clause
//! What is opened, what is overwritten, and what is refused.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use disk::Superblock;

use super::*;

const SIZE: u64 = 4 << 20;

struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("lacquer-storefile-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Place(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store")
    }

    /// Opens the store of this `-s`, in which `@` stands for the file: its size, or what is said.
    fn open(&self, spec: &str) -> Result<StoreFile, String> {
        let mut stores = ManagerStores::default();
        stores.add(&spec.replace('@', &self.file().display().to_string())).unwrap();
        let mut opened = open_all(&stores, &Jail::None).map_err(|error| error.to_string())?;
        Ok(opened.remove(0))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refusal(place: &Place, spec: &str) -> String {
    place.open(spec).map(|opened| format!("opened: {opened:?}")).unwrap_or_else(|said| said)
}

/// The first blocks of a store of so many bytes.
fn superblocks(bytes: u64) -> Vec<u8> {
    let own = Superblock::cut(7, bytes, 1 << 19).unwrap();
    own.encode().repeat(2)
}

fn lengthened(mut bytes: Vec<u8>, len: u64) -> Vec<u8> {
    bytes.resize(len as usize, 0);
    bytes
}

#[test]
fn a_file_is_made_and_takes_its_space_at_once() {
    let place = Place::new();
    let opened = place.open("file,@,4m").unwrap();
    assert_eq!((opened.bytes, opened.file.metadata().unwrap().len()), (SIZE, SIZE));
    assert_ne!(opened.life, 0);
    drop(opened);
    assert_eq!(place.open("file,@").unwrap().bytes, SIZE, "its size is that of before");
    assert_eq!(place.open("file,@,2m,keep").unwrap().life, 0);
    assert_eq!(place.file().metadata().unwrap().len(), 2 << 20, "what it doesn't need is given back");
    assert_eq!(place.open(&format!("file,{},2m", place.0.display())).unwrap().bytes, 2 << 20);
    assert_eq!(place.0.read_dir().unwrap().count(), 1, "a file in a directory has no name");
}

#[test]
fn a_second_process_is_told_of_the_first() {
    let place = Place::new();
    let first = place.open("file,@,4m").unwrap();
    // Another opening of the same file, as another process has.
    let refused = BlockFile::open(&place.file(), &BlockOptions { bytes: Some(SIZE), ..BlockOptions::default() });
    let refused = super::refused::<()>(&place.file(), &refused.unwrap_err()).unwrap_err().to_string();
    assert!(refused.contains(&format!("is used by another process ({})", std::process::id())), "{refused}");
    drop(first);
    place.open("file,@,4m").unwrap();
}

#[test]
fn what_isnt_a_cache_is_left_alone() {
    let place = Place::new();
    for content in [b"root:x:0:0".to_vec(), vec![7; 5000], vec![7; 3 << 20], vec![7; 5 << 20]] {
        std::fs::write(place.file(), &content).unwrap();
        for spec in ["file,@,4m", "persistent,@,4m"] {
            let refused = refusal(&place, spec);
            assert!(refused.contains("holds something that isn't a store; nothing was changed"), "{refused}");
            assert!(refused.contains(&format!("rm {}", place.file().display())), "{refused}");
        }
        assert!(std::fs::read(place.file()).unwrap() == content);
    }
    assert!(refusal(&place, "file,/dev/null,4m").contains("is neither file nor directory"));
    assert!(refusal(&place, "file,/nonexistent/x,4m").contains("does not exist and could not be created"));
}

#[test]
fn what_varnishd_left_is_taken() {
    let place = Place::new();
    std::fs::write(place.file(), vec![7; SIZE as usize]).unwrap();
    assert_eq!(look(&place.file(), Some(SIZE + 100)).unwrap().unwrap(), "it held something that isn't a store");
    for spec in ["file,@,4m", "file,@", "persistent,@,4m"] {
        assert_eq!(place.open(spec).unwrap().bytes, SIZE, "{spec}");
    }
    std::fs::write(place.file(), b"").unwrap();
    assert_eq!(place.open("file,@,4m").unwrap().bytes, SIZE);
}

#[test]
fn a_store_that_cant_be_kept_is_told_with_the_reason() {
    let place = Place::new();
    let check = |content: Vec<u8>, bytes: Option<u64>, want: Option<&str>| {
        std::fs::write(place.file(), content).unwrap();
        let said = look(&place.file(), bytes).unwrap();
        match want {
            Some(want) => assert!(said.as_ref().is_some_and(|said| said.contains(want)), "{said:?} for {want:?}"),
            None => assert_eq!(said, None),
        }
    };
    let whole = superblocks(SIZE);
    check(lengthened(whole.clone(), SIZE), Some(SIZE), None);
    check(lengthened(whole.clone(), SIZE), None, None);
    check(lengthened(whole.clone(), SIZE), Some(8 << 20), Some("it was cut for 3678208 bytes, and is to have 8388608"));
    check(lengthened(whole.clone(), SIZE / 2), Some(SIZE), Some("it was truncated"));
    // Having grown, it doesn't look whole again.
    place.open("file,@,4m,keep").unwrap();
    assert_eq!(look(&place.file(), None).unwrap(), None);
    assert!(std::fs::read(place.file()).unwrap().iter().all(|&byte| byte == 0));
    check(lengthened(vec![0; 8192], SIZE), Some(SIZE), None);
    let mut changed = lengthened(whole, SIZE);
    (changed[20], changed[4096 + 20]) = (0xff, 0xff);
    check(changed.clone(), Some(SIZE), Some("superblock is damaged"));
    (changed[8], changed[4096 + 8]) = (9, 9);
    check(changed, Some(SIZE), Some("a store of format 9"));
}

#[test]
fn the_front_is_a_share_of_store_and_machine() {
    const MB: u64 = 1 << 20;
    let check = |store, machine: Option<u64>, want| assert_eq!(front_bytes(store, machine), want);
    check(10 * MB, Some(8192 * MB), 10 * MB);
    check(256 * MB, Some(8192 * MB), 64 * MB);
    check(8192 * MB, Some(8192 * MB), 1024 * MB);
    check(1 << 40, Some(8192 * MB), 2048 * MB);
    check(1 << 40, None, 1 << 37);
    check(1 << 40, Some(2 * MB), MB);
}

#[test]
fn what_isnt_kept_begins_a_new_life() {
    let place = Place::new();
    let mut own = place.open("file,@,4m").unwrap();
    let life = own.life;
    own.drop_contents();
    assert_ne!(own.life, life);
    drop(own);
    let mut kept = place.open("file,@,4m,keep").unwrap();
    kept.drop_contents();
    assert_eq!(kept.life, 0);
}
