// SPDX-License-Identifier: BSD-2-Clause
//! What a reader finds in the directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

struct Workdir(PathBuf);

impl Workdir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lacquer-vsm-{}-{n}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn index(&self) -> String {
        fs::read_to_string(self.0.join("_.vsm_child/_.index")).unwrap()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.0.join("_.vsm_child")).unwrap().count()
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(workdir: &Workdir) -> SegmentSet {
    SegmentSet::create(&workdir.0, SetOwner::Worker, 42, None).unwrap()
}

#[test]
fn modes_and_head() {
    let workdir = Workdir::new();
    let set = set(&workdir);
    let dir = workdir.0.join("_.vsm_child");
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o750);
    assert_eq!(fs::metadata(dir.join("_.index")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(workdir.index(), format!("# 42 {}\n", set.birth()));
}

#[test]
fn a_segment_is_listed_from_publish_to_drop() {
    let workdir = Workdir::new();
    let set = set(&workdir);
    let mut segment = set.prepare("Arg", "-i", 9).unwrap();
    segment.write_text(b"identity");
    assert_eq!((workdir.index().lines().count(), workdir.files()), (1, 2));
    segment.publish().unwrap();
    let line = workdir.index().lines().nth(1).unwrap().to_owned();
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[1].starts_with("_.Arg.") && words[1].len() == 6 + 16, "{line}");
    assert_eq!((words[0], &words[2..]), ("+", &["0", "16", "Arg", "-i"][..]));
    assert_eq!(fs::metadata(workdir.0.join("_.vsm_child").join(words[1])).unwrap().len(), 4096);
    drop(segment);
    assert_eq!(workdir.index().lines().nth(2).unwrap()[2..], line[2..]);
    assert_eq!(workdir.files(), 1);
}

#[test]
fn many_deletions_rewrite_the_index() {
    let workdir = Workdir::new();
    let set = set(&workdir);
    let keep = set.put("Arg", "keep", b"x").unwrap();
    let many: Vec<_> = (0..20).map(|i| set.put("Arg", &format!("n{i}"), b"x").unwrap()).collect();
    drop(many);
    let index = workdir.index();
    assert!(index.lines().filter(|l| l.starts_with('-')).count() < 20, "{index}");
    assert!(index.starts_with("# 42 ") && index.contains(" keep\n"));
    let again = set.put("Arg", "again", b"x").unwrap();
    assert!(workdir.index().ends_with(" again\n"));
    drop((keep, again));
}

#[test]
fn clusters() {
    let workdir = Workdir::new();
    let set = set(&workdir);
    let cluster = set.cluster("VSC_cluster", 400).unwrap();
    let mut a = cluster.prepare("Stat", "VBE.a", 184).unwrap();
    a.publish().unwrap();
    let mut b = cluster.prepare("Stat", "VBE.b", 184).unwrap();
    b.publish().unwrap();
    assert!(cluster.prepare("Stat", "VBE.c", 4096).is_none());
    let index = workdir.index();
    let at: Vec<&str> = index.lines().skip(1).map(|l| l.split(' ').nth(2).unwrap()).collect();
    assert_eq!(at, ["0", "16", "200"]);
    drop((a, cluster));
    assert_eq!(workdir.files(), 2);
    drop(b);
    assert_eq!(workdir.files(), 1);
    let deleted: Vec<String> =
        workdir.index().lines().filter_map(|l| l.strip_prefix("- ").map(str::to_owned)).collect();
    assert_eq!(deleted.len(), 3);
    assert!(deleted.iter().all(|l| index.contains(&format!("+ {l}\n"))), "each deletion equals its line");
}

#[test]
fn closing_and_making_anew() {
    let workdir = Workdir::new();
    let first = set(&workdir);
    let segment = first.put("Arg", "-S", b"path").unwrap();
    let inode = fs::metadata(workdir.0.join("_.vsm_child")).unwrap().ino();
    first.close();
    assert!(!workdir.0.join("_.vsm_child/_.index").exists());
    drop(segment);
    let keep_inode_busy = fs::File::open(workdir.0.join("_.vsm_child")).unwrap();
    let _second = set(&workdir);
    assert_ne!(fs::metadata(workdir.0.join("_.vsm_child")).unwrap().ino(), inode);
    drop(keep_inode_busy);
    remove(&workdir.0, SetOwner::Worker).unwrap();
    remove(&workdir.0, SetOwner::Worker).unwrap();
}

#[test]
fn another_process_writes_its_report() {
    let workdir = Workdir::new();
    let set = set(&workdir);
    let segment = set.put("Panic", "", &[0; 4096]).unwrap();
    let shared = SharedSegment::from_fd(segment.open_file().unwrap()).unwrap();
    shared.write_text(b"it broke");
    assert_eq!(segment.read_text(), b"it broke");
    segment.write_text(b"");
    assert_eq!(shared.read_text(), b"");
    shared.write_text(&[b'x'; 9999]);
    assert_eq!(segment.read_text().len(), 4095);
}

#[test]
fn a_directory_that_is_set_aside_is_out_of_the_way() {
    let workdir = Workdir::new();
    let aside = || fs::read_dir(&workdir.0).unwrap().count();
    set_aside(&workdir.0, SetOwner::Worker).unwrap();
    assert_eq!(aside(), 0, "nothing there is no error");
    for _ in 0..2 {
        let _set = set(&workdir);
        set_aside(&workdir.0, SetOwner::Worker).unwrap();
        assert_eq!(
            (workdir.0.join("_.vsm_child").exists(), aside()),
            (false, 1),
            "the last one took the place of others"
        );
    }
    remove_set_aside(&workdir.0, SetOwner::Worker).unwrap();
    remove_set_aside(&workdir.0, SetOwner::Worker).unwrap();
    assert_eq!(aside(), 0);
}

#[test]
fn a_growing_segment_gets_its_room_step_by_step() {
    let workdir = Workdir::new();
    let set = set(&workdir);
    let len = 5 * STEP + 8;
    let (segment, room) = set.prepare_growing("Log", "Log", len).unwrap();
    let held = || {
        let files = fs::read_dir(workdir.0.join("_.vsm_child")).unwrap().map(|f| f.unwrap());
        let log = files.into_iter().find(|f| f.file_name().to_string_lossy().starts_with("_.Log.")).unwrap();
        log.metadata().unwrap().blocks() * 512
    };
    assert_eq!(segment.len(), len);
    let first = held();
    room.complete().unwrap();
    // All of it at once where the file system knows no better.
    assert!(first < len as u64 || first == held(), "{first} at first, {} in the end", held());
    assert!(held() >= len as u64, "{} held of {len}", held());
}

#[test]
fn an_adopted_set_stays_in_its_directory_when_that_is_moved() {
    let workdir = Workdir::new();
    let (name, aside) = (workdir.0.join("_.vsm_child"), workdir.0.join("_.vsm_child.42"));
    fs::create_dir(&name).unwrap();
    let old = SegmentSet::adopt(&workdir.0, SetOwner::Worker, 42).unwrap();
    let first = old.put("Stat", "a", b"x").unwrap();
    fs::rename(&name, &aside).unwrap();
    fs::create_dir(&name).unwrap();
    let new = SegmentSet::adopt(&workdir.0, SetOwner::Worker, 43).unwrap();
    // Enough of them that the index is written anew.
    for n in 0..40 {
        drop(old.put("Stat", &n.to_string(), b"y").unwrap());
    }
    drop(first);
    assert_eq!(workdir.index(), format!("# 43 {}\n", new.birth()));
    assert_eq!(workdir.files(), 1);
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 1);
    assert!(fs::read_to_string(aside.join("_.index")).unwrap().starts_with("# 42 "));
}
