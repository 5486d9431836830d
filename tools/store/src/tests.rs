// SPDX-License-Identifier: BSD-2-Clause
//! What is said of stores: whole ones, damaged ones, and what is none.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use base::Real;
use disk::format::object::ObjectTexts;
use disk::{Disk, DiskStoreOptions};
use storage::{HeadLengths, ObjectTimes, Record};

use super::*;

const SEGMENT: u64 = 1 << 20;

/// A file in which nothing was made yet; it goes when this does.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("lacquer-store-{}-{number}", std::process::id())))
    }

    fn look(&self, flags: &str) -> Result<SurveyReport, String> {
        let words = flags.split_whitespace().map(str::to_owned).chain([self.0.display().to_string()]);
        super::look(&StoreOptions::read(&words.collect::<Vec<_>>()).unwrap().unwrap())
    }

    fn json(&self, flags: &str) -> serde_json::Value {
        serde_json::from_str(&self.look(flags).unwrap().json()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

/// Makes a store with objects of these lengths, an hour old and served as often as their number says; the object
/// numbered 1 is removed again.
fn make(place: &Place, lens: &[usize]) -> Arc<FileDevice> {
    let options = DeviceOptions { bytes: Some(16 * SEGMENT), ..DeviceOptions::default() };
    let device = Arc::new(FileDevice::open(&place.0, &options).unwrap());
    let options = DiskStoreOptions { segment_bytes: Some(SEGMENT), ..DiskStoreOptions::new(now(), 77) };
    let (disk, driver) = Disk::open(device.clone(), options);
    let waker = testkit::unpark_me();
    let mut cx = Context::from_waker(&waker);
    let mut driver = Some(Box::pin(driver));
    let mut drive = |work: &mut dyn FnMut(&mut Context<'_>) -> bool| {
        loop {
            if driver.as_mut().is_some_and(|own| own.as_mut().poll(&mut cx).is_ready()) {
                driver = None;
            }
            if work(&mut cx) {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    };
    drive(&mut |_| disk.progress().stage == disk::Stage::Ready);
    for (number, &len) in lens.iter().enumerate() {
        let mut digest = [3; 32];
        digest[0] = number as u8;
        let t_origin = Real(f64::from(now()) - 3000.0);
        let times = ObjectTimes { t_origin, ttl: 36_000.0, grace: 0.0, keep: 0.0 };
        let lengths = HeadLengths { head: 4, ..HeadLengths::default() };
        let record = Record { digest, xid: 1, ban_seq: 1, times, hits: number as u32, lengths, ..Record::default() };
        let body: Vec<u8> = (0..len).map(|at| (at * 7 + number) as u8).collect();
        let mut put = None;
        drive(&mut |_| {
            // What can't be put now can be once the store has a segment for it.
            let mut own = disk.put(&digest);
            let texts = ObjectTexts { head: b"head", tags: b"" };
            put = own.push(&body).ok().and_then(|()| own.finish(&record, &texts).ok());
            put.is_some()
        });
        if number == 1 {
            assert!(disk.remove(put.unwrap()));
        }
        disk.tick(now());
    }
    let mut close = pin!(disk.close());
    drive(&mut |cx| close.as_mut().poll(cx) == Poll::Ready(()));
    device
}

#[test]
fn a_store_is_told_by_size_age_hits_and_what_is_left() {
    let place = Place::new();
    drop(make(&place, &[100, 200, 5000, 300_000]));
    let json = place.json("");
    assert_eq!(
        (json["objects"].as_u64(), json["removed"].as_u64(), json["looked"].as_u64()),
        (Some(3), Some(1), Some(3))
    );
    let count = |part: &str, name: &str| {
        let rows = json[part].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["objects"].as_u64().unwrap()
    };
    assert_eq!([count("size", "to 1 KB"), count("size", "to 16 KB"), count("size", "to 1 MB")], [1, 1, 1]);
    assert_eq!((count("age", "to an hour"), count("left", "to a day")), (3, 3));
    assert_eq!([count("hits", "none"), count("hits", "to 10")], [1, 2]);
    assert_eq!(json["whole"], true);
    let text = place.look("--verify").unwrap().text("x");
    assert!(text.starts_with("x: 15 segments of 1.0 MB, ") && text.contains("\n3 objects, "), "{text}");
    assert!(text.contains("3 objects were read and checked"), "{text}");
}

#[test]
fn a_wrong_bit_in_a_body_is_found_by_reading_it() {
    let place = Place::new();
    drop(make(&place, &[100, 200, 300_000]));
    // The pattern of the last body, which nothing else in the file has, is broken once.
    let image = std::fs::read(&place.0).unwrap();
    let pattern: Vec<u8> = (0..64).map(|at| (at * 7 + 2) as u8).collect();
    let at = image.windows(64).position(|some| some == pattern).unwrap() as u64;
    std::fs::OpenOptions::new().write(true).open(&place.0).unwrap().write_all_at(&[0xff], at + 30).unwrap();
    assert_eq!(place.json("--all")["whole"], true, "records are whole");
    let json = place.json("--verify");
    assert_eq!(
        (json["damaged"].as_u64(), json["whole"].as_bool(), json["looked"].as_u64()),
        (Some(1), Some(false), Some(1))
    );
    assert_eq!(main(&["--verify".to_owned(), place.0.display().to_string()]), 1);
}

#[test]
fn a_store_that_is_in_use_is_only_looked_at_if_that_is_meant() {
    let place = Place::new();
    let device = make(&place, &[100]);
    let refused = place.look("").unwrap_err();
    assert!(refused.contains("is used by another process") && refused.contains("--read-only"), "{refused}");
    assert_eq!(place.json("--read-only")["objects"].as_u64(), Some(1));
    drop(device);
    assert_eq!(place.json("")["objects"].as_u64(), Some(1));
}

#[test]
fn what_is_no_store_is_said_to_be_none_and_is_left_alone() {
    let place = Place::new();
    let says = |bytes: &[u8], expect: &str| {
        std::fs::write(&place.0, bytes).unwrap();
        let said = place.look("").map(|report| report.text("")).unwrap_err();
        assert!(said.contains(expect), "{said:?} for {expect:?}");
        assert_eq!(std::fs::read(&place.0).unwrap(), bytes);
    };
    says(&[0; 1 << 16], "no store was made in it yet");
    says(&[7; 1 << 16], "isn't a store that can be read: it holds something that isn't a store");
    says(b"", "is empty");
    says(&[7; 4096], "are too few for a store");
    std::fs::remove_file(&place.0).unwrap();
    assert!(place.look("").unwrap_err().contains("No such file"));
}

#[test]
fn garbage_anywhere_costs_objects_and_nothing_else() {
    let place = Place::new();
    drop(make(&place, &[100, 200, 5000, 300_000, 70_000]));
    let file = std::fs::OpenOptions::new().write(true).open(&place.0).unwrap();
    let mut state = 5_u64;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut before = place.json("--verify")["looked"].as_u64().unwrap();
    assert_eq!(before, 4);
    for round in 0..60 {
        // Where the store has its words: the superblocks are last, since without them there is nothing to look at.
        let at = if round < 55 { 8192 + draw(2 * SEGMENT) } else { draw(8192) };
        let garbage: Vec<u8> = (0..64).map(|_| draw(256) as u8).collect();
        file.write_all_at(&garbage, at).unwrap();
        match place.look("--verify") {
            Ok(report) => {
                let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
                let whole = json["looked"].as_u64().unwrap();
                // What was removed may be back once its removal is garbage: here nobody serves it.
                assert!(whole <= before + 1, "round {round}: {whole} objects are whole after {before}");
                before = whole;
            }
            Err(said) => assert!(round >= 55 && said.contains("isn't a store"), "round {round}: {said}"),
        }
    }
}

#[test]
fn what_is_cut_off_is_said() {
    let place = Place::new();
    drop(make(&place, &[100]));
    std::fs::OpenOptions::new().write(true).open(&place.0).unwrap().set_len(SEGMENT).unwrap();
    assert!(place.look("").unwrap_err().contains("it was truncated"));
}

#[test]
fn arguments_are_one_file_and_known_options() {
    let read = |line: &str| StoreOptions::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let expect = StoreOptions { file: "f".into(), is_verify: true, is_json: true, ..StoreOptions::default() };
    assert_eq!(read("--verify --format json f"), Ok(Some(expect)));
    assert_eq!(read("f --help"), Ok(None));
    for wrong in ["", "a b", "--x f", "--format xml f", "f --format"] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_bar_is_as_long_as_what_is_done() {
    assert_eq!(bar(0.5, "x"), format!("[{}{}]  50 %  x\x1b[K", "#".repeat(15), ".".repeat(15)));
    assert!(bar(2.0, "").starts_with(&format!("[{}] 100 %", "#".repeat(30))));
}
