// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the reader: what the writer of this crate wrote, and what nobody should have written.

use proptest::prelude::*;
use tables::counters::Main;

use super::*;
use crate::vsc::Stats;
use crate::vsm::SegmentSet;

/// A directory of its own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("shm-reader-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_the_writer_counts_is_read() {
    let dir = Scratch::new("own");
    let manager = SegmentSet::create(&dir.0, Home::Manager, 1, None).unwrap();
    let worker = SegmentSet::create(&dir.0, Home::Worker, 2, None).unwrap();
    let main = Stats::new(&worker).add::<Main>("MAIN").unwrap();
    main.cache_hit.add(7);
    let mut reader = Reader::new(&dir.0);
    let find = |all: &[Reading], name: &str| all.iter().find(|r| r.full_name() == name).map(|r| r.value);
    let all = reader.read().unwrap();
    assert_eq!(find(&all, "MAIN.cache_hit"), Some(7));
    main.cache_hit.inc();
    assert_eq!(find(&reader.read().unwrap(), "MAIN.cache_hit"), Some(8));
    main.set_hidden(true);
    assert_eq!(find(&reader.read().unwrap(), "MAIN.cache_hit"), None);
    drop(main);
    assert!(reader.read().unwrap().is_empty());
    manager.close();
    assert!(matches!(reader.read(), Err(ReadError::NotRunning { .. })));
}

#[test]
fn a_file_that_is_cut_short_gives_what_is_there() {
    let dir = Scratch::new("short");
    let set = SegmentSet::create(&dir.0, Home::Manager, 1, None).unwrap();
    let _main = Stats::new(&set).add::<Main>("MAIN").unwrap();
    let mut reader = Reader::new(&dir.0);
    let whole = reader.read().unwrap().len();
    let home = dir.0.join(Home::Manager.dir_name());
    let counters = segments(&home).unwrap().unwrap().into_iter().find(|line| line.class == "Stat").unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(home.join(&counters.file)).unwrap();
    file.set_len(24 + 80).unwrap();
    assert!((1..whole).contains(&reader.read().unwrap().len()));
    file.set_len(3).unwrap();
    assert!(reader.read().unwrap().is_empty());
}

fn check(text: &str, expected: &str) {
    let idents = index(text).map(|lines| lines.into_iter().map(|l| l.ident).collect::<Vec<_>>().join(","));
    assert_eq!(format!("{idents:?}"), expected, "{text:?}");
}

#[test]
fn indexes() {
    check("", "None");
    check("# 1\n", "None");
    check("# 1 2", "None");
    check("# 1 2\n", "Some(\"\")");
    check("# 1 2\n+ f 0 8 Stat a\n+ g 0 8 Stat b\n", "Some(\"a,b\")");
    check("# 1 2\n+ f 0 8 Stat a\n- f 0 8 Stat a\n", "Some(\"\")");
    check("# 1 2\n- f 0 8 Stat a\n+ f 0 8 Stat a", "Some(\"\")");
    check("# 1 2\n+ ../x 0 8 Stat a\n+ /x 0 8 Stat b\n+ f -1 8 Stat c\n+ f\n+\nx\n", "Some(\"\")");
}

proptest! {
    #[test]
    fn no_index_and_no_document_can_hurt(text in ".{0,300}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = index(&text);
        let _ = index(&format!("# 1 2\n{text}"));
        let mut doc = vec![1, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        doc.extend_from_slice(&bytes);
        let _ = parse(&doc);
        let _ = parse(&bytes);
        let _ = body(&bytes);
    }
}
