// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the reader: what the writer of this crate wrote, and what nobody should have written.

use proptest::prelude::*;
use tables::counters::{Main, Mgt};
use tables::tags::{LogSettings, TagMask};

use super::*;
use crate::vsc::CounterMaker;
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
    let manager = SegmentSet::create(&dir.0, SetOwner::Manager, 1, None).unwrap();
    let worker = SegmentSet::create(&dir.0, SetOwner::Worker, 2, None).unwrap();
    let main = CounterMaker::new(&worker).add::<Main>("MAIN").unwrap();
    main.cache_hit.add(7);
    let mut reader = CounterReader::new(&dir.0);
    let find = |all: &[CounterValue], name: &str| all.iter().find(|r| r.full_name() == name).map(|r| r.value);
    let all = reader.read().unwrap();
    assert_eq!(find(&all, "MAIN.cache_hit"), Some(7));
    main.cache_hit.inc();
    assert_eq!(find(&reader.read().unwrap(), "MAIN.cache_hit"), Some(8));
    main.set_hidden(true);
    assert_eq!(find(&reader.read().unwrap(), "MAIN.cache_hit"), None);
    drop(main);
    assert!(reader.read().unwrap().is_empty());
    manager.close();
    assert!(matches!(reader.read(), Err(ShmReadError::NotRunning { .. })));
}

#[test]
fn a_file_that_is_cut_short_gives_what_is_there() {
    let dir = Scratch::new("short");
    let set = SegmentSet::create(&dir.0, SetOwner::Manager, 1, None).unwrap();
    let _main = CounterMaker::new(&set).add::<Main>("MAIN").unwrap();
    let mut reader = CounterReader::new(&dir.0);
    let whole = reader.read().unwrap().len();
    let home = dir.0.join(SetOwner::Manager.dir_name());
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

/// A workdir with a manager, a worker, counters and a log, as files by name.
fn whole(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let manager = SegmentSet::create(dir, SetOwner::Manager, 1, None).unwrap();
    let worker = SegmentSet::create(dir, SetOwner::Worker, 2, None).unwrap();
    let _counters = (
        CounterMaker::new(&worker).add::<Main>("MAIN").unwrap(),
        CounterMaker::new(&manager).add::<Mgt>("MGT").unwrap(),
    );
    let settings =
        LogSettings { space: 1 << 20, mask: TagMask::default(), reclen: 255, buffer: 16 << 10, is_sync: false };
    let ring =
        crate::vsl::LogRing::create(&worker, crate::vsl::LogFormat::Seven, settings, crate::vsc::CounterSet::private())
            .unwrap();
    for n in 0..50 {
        ring.write_one(tables::Tag::VclLog, base::Vxid(n), crate::vsl::Marker::Client, b"some text");
    }
    let homes = [SetOwner::Manager, SetOwner::Worker].map(|home| dir.join(home.dir_name()));
    let names = homes.iter().flat_map(|home| std::fs::read_dir(home).unwrap().map(|e| e.unwrap().path()));
    // Of the ring only what is written: the rest is zeros.
    names.map(|path| (path.clone(), std::fs::read(path).unwrap().into_iter().take(64 << 10).collect())).collect()
}

/// Everything that the tools ask of a workdir.
fn ask(dir: &Path) {
    let mut reader = CounterReader::new(dir);
    for _ in 0..2 {
        assert!(reader.read().map_or(0, |all| all.len()) <= READINGS);
    }
    let _ = (status(dir), manager_arg(dir, "-T"));
    for from in [log::StartAt::Now, log::StartAt::Past, log::StartAt::PastAndOn] {
        let Ok(mut ring) = log::LogCursor::open(dir, from) else { continue };
        let mut bytes = 0;
        while let log::RingStep::Records(records) = ring.step() {
            bytes += records.len();
            assert!(bytes <= 4 << 20, "walks round for ever");
        }
    }
}

/// One change: a byte, a word, a stretch, the length, a line of text twice or with other words.
fn damage(octets: &mut Vec<u8>, kind: u8, at: usize, value: u64) {
    let at = at % octets.len().max(1);
    match kind % 6 {
        0 if !octets.is_empty() => octets[at] = value as u8,
        1 if octets.len() >= 8 => {
            let at = at.min(octets.len() - 8) & !7;
            octets[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        2 => octets.truncate(at),
        3 => {
            let end = (at + (value as usize % 100)).min(octets.len());
            octets.drain(at..end);
        }
        4 => {
            let piece = octets[at..(at + 64).min(octets.len())].to_vec();
            octets.extend(piece);
        }
        _ => {
            let text = String::from_utf8_lossy(&octets[..octets.len().min(4096)]).into_owned();
            let mut words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
            let (n, count) = (at % words.len().max(1), words.len());
            if count > 0 {
                words[n] =
                    ["-1 ", "18446744073709551615 ", "9223372036854775807 ", "\n", "../../etc/passwd ", "Log ", "0 "]
                        [value as usize % 7];
            }
            let new: Vec<u8> = words.concat().into_bytes();
            octets.splice(..octets.len().min(4096), new);
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_a_segment_is_not_waited_for() {
    let dir = Scratch::new("pipe");
    let home = dir.0.join(SetOwner::Manager.dir_name());
    std::fs::create_dir_all(&home).unwrap();
    let made = std::process::Command::new("mkfifo").arg(home.join("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::write(home.join("_.index"), "# 1 2\n+ pipe 0 100 StatDoc a\n+ pipe 0 100 Arg -T\n").unwrap();
    ask(&dir.0);
    std::fs::remove_file(home.join("_.index")).unwrap();
    std::fs::rename(home.join("pipe"), home.join("_.index")).unwrap();
    ask(&dir.0);
}

#[test]
fn an_index_that_names_one_document_for_ever_is_bounded() {
    let dir = Scratch::new("many");
    let all = whole(&dir.0);
    let home = dir.0.join(SetOwner::Manager.dir_name());
    for (path, octets) in &all {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, octets).unwrap();
    }
    let index = std::fs::read_to_string(home.join("_.index")).unwrap();
    let stat = index.lines().find(|line| line.contains(" Stat ")).unwrap().to_owned();
    let file = home.join(stat.split(' ').nth(1).unwrap());
    std::fs::File::options().write(true).open(file).unwrap().set_len(8 << 20).unwrap();
    let words: Vec<&str> = stat.split(' ').collect();
    let more: String = (0..60_000).map(|i| format!("+ {} {} 4194304 Stat s{i}\n", words[1], words[2])).collect();
    std::fs::write(home.join("_.index"), index + &more).unwrap();
    let read = CounterReader::new(&dir.0).read().unwrap();
    assert!(read.len() < 100 * 20, "{}", read.len());
}

proptest! {
    #[test]
    fn no_damaged_workdir_can_hurt(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<usize>(),
        prop_oneof![0u64..70, any::<u64>(), Just(1u64 << 62), Just(u64::from(u32::MAX))]), 1..5)) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        static WHOLE: std::sync::OnceLock<Vec<(PathBuf, Vec<u8>)>> = std::sync::OnceLock::new();
        let name = |n: u32| Scratch::new(&format!("damaged-{n}"));
        let all = WHOLE.get_or_init(|| {
            let dir = name(u32::MAX);
            let files = whole(&dir.0);
            files.into_iter().map(|(path, octets)| (path.strip_prefix(&dir.0).unwrap().to_owned(), octets)).collect()
        });
        let dir = name(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let mut files = all.clone();
        for (file, kind, at, value) in &changes {
            let n = file.index(files.len());
            damage(&mut files[n].1, *kind, *at, *value);
        }
        for (path, octets) in files {
            let path = dir.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, octets).unwrap();
        }
        ask(&dir.0);
    }

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
