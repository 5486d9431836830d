// SPDX-License-Identifier: BSD-2-Clause
//! The store under the names that the cache knows.

use std::future::poll_fn;

use base::Real;
use storage::{HeadLengths, Home, HomeId, ObjectTimes, Record, Stored};

use super::bed::{Bed, NOW, bytes_of, digest_of};

fn put(bed: &Bed, name: u8, len: usize) -> Option<HomeId> {
    let mut writing = Home::begin(&bed.disk, &digest_of(name));
    writing.push(&bytes_of(name, 0, len)).unwrap();
    writing.finish(&record(name), b"headspecvaluesaux", b"tags")
}

fn record(name: u8) -> Record<Real> {
    let times = ObjectTimes { t_origin: Real(f64::from(NOW)), ttl: 100.0, grace: 10.0, keep: 1.0 };
    let lengths = HeadLengths { head: 4, spec: 4, values: 6, aux: 3 };
    Record { digest: digest_of(name), xid: 7, ban_seq: 3, times, flags: 0x45, hits: 9, lengths }
}

fn write(bed: &mut Bed) {
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
}

fn load(bed: &mut Bed, name: u8, id: HomeId) -> Stored {
    let load = Home::load(&bed.disk, &digest_of(name), id);
    bed.run(load).unwrap().unwrap()
}

#[test]
fn what_was_written_is_loaded_as_it_was() {
    let mut bed = Bed::ready(30, 16);
    for (name, len) in [(1, 0), (2, 3000), (3, 200_000)] {
        let id = put(&bed, name, len).unwrap();
        assert!(!bed.disk.holds(&digest_of(name), id), "it isn't written yet");
        write(&mut bed);
        assert_eq!(Home::find(&bed.disk, &digest_of(name)), [id]);
        let stored = load(&mut bed, name, id);
        assert_eq!((stored.id, stored.record), (id, record(name)));
        assert_eq!((&stored.head[..], &stored.tags[..]), (&b"headspecvaluesaux"[..], &b"tags"[..]));
        assert_eq!((stored.body.len(), stored.body.at_hand().is_some()), (len as u64, name == 2));
        let mut read = Vec::new();
        while (read.len() as u64) < stored.body.len() {
            let wanted = read.len() as u64..u64::MAX;
            let bytes = bed.run(poll_fn(|cx| stored.body.poll_at(cx, &mut None, wanted.clone())));
            read.extend_from_slice(&bytes.unwrap().unwrap());
        }
        assert!(read == bytes_of(name, 0, len));
    }
}

#[test]
fn what_is_removed_isnt_held_any_more() {
    let mut bed = Bed::ready(31, 8);
    let unwritten = put(&bed, 1, 10).unwrap();
    assert!(Home::remove(&bed.disk, &digest_of(1), unwritten));
    let id = put(&bed, 2, 10).unwrap();
    write(&mut bed);
    assert!(bed.disk.holds(&digest_of(2), id) && !bed.disk.holds(&digest_of(1), unwritten));
    assert!(Home::remove(&bed.disk, &digest_of(2), id) && !Home::remove(&bed.disk, &digest_of(2), id));
    let load = Home::load(&bed.disk, &digest_of(2), id);
    assert!(bed.run(load).unwrap().is_err() && Home::find(&bed.disk, &digest_of(2)).is_empty());
    assert!(!bed.disk.holds(&digest_of(2), id));
    assert_eq!(Home::least_ban_seq(&bed.disk), Some(3));
}

#[test]
fn the_name_of_a_copy_that_was_moved_away_removes_it_all_the_same() {
    let mut bed = Bed::ready(32, 8);
    let id = put(&bed, 0, 3000).unwrap();
    write(&mut bed);
    for turn in 0..600_u32 {
        put(&bed, 1 + (turn % 200) as u8, 7000).unwrap();
        bed.settle();
        bed.disk.tick(NOW);
        bed.disk.tick(NOW);
        bed.settle();
        Home::find(&bed.disk, &digest_of(0)).iter().for_each(|&id| Home::note_use(&bed.disk, &digest_of(0), id));
    }
    assert!(bed.disk.counts().moved > 2, "it was moved again and again");
    let ids = Home::find(&bed.disk, &digest_of(0));
    assert!(ids.len() == 1 && ids != [id]);
    assert!(Home::remove(&bed.disk, &digest_of(0), id));
    assert!(Home::find(&bed.disk, &digest_of(0)).is_empty());
}
