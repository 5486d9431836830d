// SPDX-License-Identifier: BSD-2-Clause
//! Deaths at drawn moments: copies of the arena are opened as the next worker would. Damage: no crash, no wrong byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use base::Mono;
use proptest::prelude::*;
use tables::counters::Sma;

use crate::*;

const MB: u64 = 1 << 20;

fn memfd() -> Arc<File> {
    let map = sys::map::MemoryMap::memfd("test", 1).unwrap();
    let file = File::from(map.fd().try_clone_to_owned().unwrap());
    file.set_len(0).unwrap();
    Arc::new(file)
}

const ZEROS: [u8; 4096] = [0; 4096];

/// A copy of the bytes, as a death leaves them.
fn copy(file: &File) -> Arc<File> {
    let into = memfd();
    into.set_len(file.metadata().unwrap().len()).unwrap();
    let mut page = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let count = file.read_at(&mut page, at).unwrap();
        if count == 0 {
            return into;
        }
        // Holes stay holes.
        for (n, part) in page[..count].chunks(4096).enumerate() {
            if part != &ZEROS[..part.len()] {
                into.write_all_at(part, at + n as u64 * 4096).unwrap();
            }
        }
        at += count as u64;
    }
}

struct Bed {
    stores: Stores,
    sma: &'static Sma,
}

impl Bed {
    fn open(arena: &Arc<File>, limit: u64) -> Bed {
        Self::of(arena, limit, |specs, counters| Stores::open(specs, counters))
    }

    fn beside(arena: &Arc<File>, limit: u64) -> Bed {
        Self::of(arena, limit, |specs, counters| Stores::open_beside(specs, counters))
    }

    fn of(
        arena: &Arc<File>,
        limit: u64,
        open: impl FnOnce(&[StoreSpec], &mut dyn FnMut(&StoreSpec) -> &'static Sma) -> std::io::Result<Stores>,
    ) -> Bed {
        let mut specs = StoreSpec::in_memory(Some(limit));
        specs[0].arena = Some(arena.clone());
        let mut all: Vec<&'static Sma> = Vec::new();
        let stores = open(&specs, &mut |_| {
            all.push(Box::leak(Box::default()));
            all[all.len() - 1]
        });
        Bed { stores: stores.unwrap(), sma: all[0] }
    }

    fn store(&self) -> &Store {
        &self.stores.all()[0]
    }

    /// All that survived, by xid: as told by the walk or by digest.
    fn adopt(&self, digests: &BTreeSet<[u8; 32]>) -> BTreeMap<u64, Object> {
        let mut found: Vec<Survivor> = digests.iter().flat_map(|digest| self.store().survivors(digest)).collect();
        let mut cursor = Cursor::default();
        while let Some(more) = self.store().next_digests(&mut cursor, 3) {
            assert!(more.len() <= 3);
            found.extend(more.iter().flat_map(|digest| self.store().survivors(digest)));
        }
        let count = found.len();
        let objects: BTreeMap<u64, Object> =
            found.into_iter().map(|found| (found.record.xid, Object::of(found))).collect();
        assert_eq!(objects.len(), count, "each is given out once");
        objects
    }
}

struct Object {
    record: Record,
    id: RecordId,
    head: Buf,
    rest: Option<Rest>,
    tags: Vec<u8>,
}

impl Object {
    fn of(found: Survivor) -> Object {
        let Survivor { record, id, head, tags, rest } = found;
        Object { record, id, head, rest, tags }
    }

    /// Stores one of so many bytes, which its number determines.
    fn store(store: &Store, xid: u64, body_len: usize, piece: usize) -> Option<Object> {
        let (record, head, tags) = Self::wanted(xid);
        let head = store.block(&[&head]).ok()?;
        let mut body = BodyBlocks::default();
        for part in bytes(xid, body_len).chunks(piece) {
            body.push(store.block(&[part]).ok()?);
        }
        let (compact, id) = store.keep(&record, head, &tags, &body);
        Some(Object { record, id: id?, head: compact.head, rest: compact.rest, tags })
    }

    fn wanted(xid: u64) -> (Record, Vec<u8>, Vec<u8>) {
        let n = xid as u32;
        let record = Record {
            digest: digest(xid),
            xid,
            ban_seq: xid * 3,
            times: ObjectTimes { t_origin: Mono(xid as f64 + 0.25), ttl: 120.5, grace: 10.0, keep: 0.5 },
            flags: n & 0xff,
            hits: 7,
            lengths: HeadLengths { head: 100 + n % 300, spec: n % 7, values: n % 3, aux: n % 50 },
        };
        let head = bytes(!xid, record.lengths.all());
        (record, head, bytes(xid ^ 99, xid as usize % 40))
    }

    fn body(&self) -> Vec<u8> {
        let head_len = Self::wanted(self.record.xid).1.len();
        let rest = self.rest.as_ref().map_or(&[][..], Rest::blocks);
        self.head[head_len..].iter().copied().chain(rest.iter().flat_map(|piece| piece.buf.to_vec())).collect()
    }

    /// Checks that it is what was stored under its number, with a body of that length.
    fn check(&self, body_len: usize) {
        let (record, head, tags) = Self::wanted(self.record.xid);
        assert!(self.record == record && self.head[..head.len()] == head && self.tags == tags);
        assert!(self.body() == bytes(record.xid, body_len));
    }
}

/// Few digests, so that some meet.
fn digest(xid: u64) -> [u8; 32] {
    [(xid % 50) as u8 * 5; 32]
}

fn digests() -> BTreeSet<[u8; 32]> {
    (0..50).map(digest).collect()
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn what_was_published_survives() {
    let file = memfd();
    let first = Bed::open(&file, 4 * MB);
    assert_eq!((first.store().opening().generation, first.store().is_adopting()), (1, false));
    let lens = [0, 100, 5000, 9000, 70_000, 300_000];
    let objects: Vec<Object> =
        lens.iter().zip(1..).map(|(&len, xid)| Object::store(first.store(), xid, len, 64 << 10).unwrap()).collect();
    objects[1..].iter().for_each(|object| first.store().publish(object.id));
    first.store().forget(objects[2].id);
    objects[3].head.facts().unwrap().raise_ban_seq(77);
    objects[3].head.facts().unwrap().set_hits(78);
    let times = ObjectTimes { t_origin: Mono(1.0), ttl: 2.0, grace: 3.0, keep: 4.0 };
    objects[4].head.facts().unwrap().set_times(times);
    let second = Bed::open(&copy(&file), 4 * MB);
    assert_eq!((second.store().opening().generation, second.store().is_adopting()), (2, true));
    let found = second.adopt(&BTreeSet::from([digest(4)]));
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [2, 4, 5, 6]);
    assert_eq!((found[&4].record.ban_seq, found[&4].record.hits), (77, 78));
    assert_eq!(found[&5].record.times, times);
    found[&2].check(100);
    found[&6].check(300_000);
    assert_eq!(found[&4].body(), bytes(4, 9000));
    second.store().sweep();
    assert!(!second.store().is_adopting() && second.store().survivors(&digest(2)).is_empty());
    let charged = |object: &Object| object.head.charged_bytes() + object.rest.as_ref().map_or(0, Rest::charged_bytes);
    assert_eq!(second.store().used_bytes(), found.values().map(charged).sum::<u64>());
    drop(found);
    assert_eq!((second.store().used_bytes(), second.sma.g_alloc.get()), (0, 0));
    assert_eq!(second.sma.c_bytes.get(), second.sma.c_freed.get());
}

#[test]
fn two_records_may_share_their_extents() {
    let file = memfd();
    let first = Bed::open(&file, 4 * MB);
    let old = Object::store(first.store(), 1, 100_000, 50_000).unwrap();
    let mut body = BodyBlocks::default();
    old.rest.as_ref().unwrap().blocks().iter().for_each(|piece| body.push(piece.buf.clone()));
    let (record, head, tags) = Object::wanted(2);
    let head = first.store().block(&[&head]).unwrap();
    let (compact, id) = first.store().keep(&record, head, &tags, &body);
    let new = Object { record, id: id.unwrap(), head: compact.head, rest: compact.rest, tags };
    first.store().publish(old.id);
    first.store().publish(new.id);
    assert_eq!((old.head.record(), new.rest.as_ref().unwrap().blocks()[0].buf.record()), (Some(old.id), None));
    let file = copy(&file);
    let second = Bed::open(&file, 4 * MB);
    let mut found = second.adopt(&digests());
    assert_eq!((found.len(), second.store().published()), (2, 2));
    assert!(found[&1].body() == bytes(1, 100_000) && found[&2].body() == bytes(1, 100_000));
    let gone = found.remove(&1).unwrap();
    assert!(second.store().is_published(gone.id));
    second.store().forget(gone.id);
    assert!(!second.store().is_published(gone.id) && second.store().published() == 1);
    drop(gone);
    second.store().sweep();
    assert!(found[&2].body() == bytes(1, 100_000) && second.store().used_bytes() < 110_000);
    drop(found);
    assert_eq!((second.store().used_bytes(), Bed::open(&file, 4 * MB).store().opening().pages_found), (0, 0));
}

#[test]
fn a_record_costs_its_words_and_little_else() {
    let file = memfd();
    let bed = Bed::open(&file, 4 * MB);
    let object = Object::store(bed.store(), 3, 100, 1000).unwrap();
    let all = object.head.len() as u64 + object.tags.len() as u64;
    assert!(object.head.charged_bytes() <= (all + 120).next_multiple_of(16) * 104 / 100);
    assert_eq!(size_of::<Buf>(), 16);
}

#[test]
fn deaths_while_it_was_delivered_are_counted() {
    let file = memfd();
    let first = Bed::open(&file, 4 * MB);
    let objects: Vec<Object> = (1..4).map(|xid| Object::store(first.store(), xid, 100, 1000).unwrap()).collect();
    objects.iter().for_each(|object| first.store().publish(object.id));
    first.store().note_serving(3, Some(objects[1].id));
    first.store().note_serving(500, Some(objects[1].id));
    first.store().note_serving(4, Some(objects[0].id));
    first.store().note_serving(4, None);
    let file = copy(&file);
    let second = Bed::open(&file, 4 * MB);
    let suspects = second.store().serving_at_death();
    let wanted = Suspect { record: objects[1].id, digest: digest(2), xid: 2, deaths: 1 };
    assert_eq!(suspects, [wanted]);
    assert!(second.store().serving_at_death().is_empty());
    let adopted = second.adopt(&digests());
    assert_eq!(adopted.len(), 3);
    second.store().note_serving(0, Some(adopted[&2].id));
    let third = Bed::open(&copy(&file), 4 * MB);
    let suspects = third.store().serving_at_death();
    assert_eq!(suspects, [Suspect { deaths: 2, ..wanted }]);
    third.store().forget(suspects[0].record);
    assert_eq!(third.adopt(&digests()).keys().copied().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn what_is_dropped_without_being_forgotten_is_gone_unless_it_is_frozen() {
    for frozen in [false, true] {
        let file = memfd();
        let first = Bed::open(&file, 4 * MB);
        let object = Object::store(first.store(), 1, 20_000, 10_000).unwrap();
        first.store().publish(object.id);
        if frozen {
            first.store().freeze();
            assert!(Object::store(first.store(), 2, 10, 10).is_none(), "nothing new survives");
        }
        drop(object);
        drop(first);
        let second = Bed::open(&file, 4 * MB);
        let found = second.adopt(&digests());
        assert_eq!(found.len(), usize::from(frozen));
        found.values().for_each(|object| object.check(20_000));
    }
}

#[test]
fn a_worker_that_hands_over_goes_on_reading_and_the_next_one_has_all_of_it() {
    let file = memfd();
    let first = Bed::open(&file, 4 * MB);
    let next = Bed::beside(&file, 4 * MB);
    let waiting = Object::store(next.store(), 9, 300, 300);
    assert!(waiting.is_none() && !next.store().is_adopting() && next.store().opening().pages_found == 0);
    let len = |xid: u64| xid as usize * 3000;
    let held: Vec<Object> = (1..40).filter_map(|xid| Object::store(first.store(), xid, len(xid), 5000)).collect();
    held.iter().for_each(|object| first.store().publish(object.id));
    let unpublished = Object::store(first.store(), 200, 9000, 5000).unwrap();
    first.store().freeze();
    assert!(next.store().take_over(true).pages_found > 0);
    // What the first one does from now on is nobody's business.
    first.store().publish(unpublished.id);
    first.store().forget(held[0].id);
    let found = next.adopt(&digests());
    assert_eq!(found.len(), held.len());
    found.values().for_each(|object| object.check(len(object.record.xid)));
    let stays = [5u64, 30];
    // The next one evicts and stores over and over.
    let churn = |bed: &Bed, from: u64| {
        let objects = (from..from + 2000).filter_map(|xid| Object::store(bed.store(), xid, 2000, 700));
        objects.for_each(|object| bed.store().publish(object.id));
    };
    let kept: Vec<Object> = found.into_values().filter(|object| stays.contains(&object.record.xid)).collect();
    churn(&next, 1000);
    assert!(next.store().deferred_bytes() > 0);
    held.iter()
        .chain([&unpublished])
        .filter(|object| object.record.xid != 200)
        .for_each(|object| object.check(len(object.record.xid)));
    next.store().recall();
    assert!(first.store().is_recalled());
    let held: Vec<Object> = held.into_iter().filter(|object| [1, 7, 39].contains(&object.record.xid)).collect();
    first.store().let_go().unwrap();
    next.store().own();
    assert!(!next.store().is_shared() && next.store().deferred_bytes() == 0);
    next.store().sweep();
    churn(&next, 9000);
    held.iter().for_each(|object| object.check(len(object.record.xid)));
    kept.iter().for_each(|object| object.check(len(object.record.xid)));
    drop((held, unpublished, first, kept));
    assert_eq!((next.store().used_bytes(), next.sma.g_alloc.get()), (0, 0));
    assert_eq!(Bed::open(&file, 4 * MB).store().opening().pages_found, 0, "no page is lost");
}

#[test]
fn an_arena_of_something_else_begins_anew() {
    let file = memfd();
    let first = Bed::open(&file, 4 * MB);
    let object = Object::store(first.store(), 1, 100, 100).unwrap();
    first.store().publish(object.id);
    let check = |file: &Arc<File>, limit: u64, refusal: Option<&str>| {
        let bed = Bed::open(file, limit);
        assert_eq!(bed.store().opening().refusal, refusal);
        assert_eq!(bed.adopt(&digests()).len(), usize::from(refusal.is_none()));
        assert!(refusal.is_none() || !bed.store().is_adopting());
        let object = Object::store(bed.store(), 5, 100, 100).unwrap();
        bed.store().publish(object.id);
        object.check(100);
    };
    check(&copy(&file), 4 * MB, None);
    check(&copy(&file), 8 * MB, Some("it is of another size"));
    let other = |at: u64, byte: u8| {
        let file = copy(&file);
        file.write_all_at(&[byte], at).unwrap();
        file
    };
    check(&other(0, 0), 4 * MB, Some("it isn't an arena"));
    check(&other(8, 9), 4 * MB, Some("it has another format version"));
    // A word of the table of pages.
    check(&other(4096 * 9 + 7, 0xff), 4 * MB, Some("its table of pages is damaged"));
}

const VICTIM: &str = "LACQUER_TEST_ARENA";

fn victims_len(xid: u64) -> usize {
    (xid * 7919 % 40_000) as usize / if xid.is_multiple_of(3) { 1 } else { 50 }
}

/// The process that the next test kills: it stores, forgets and drops on two threads, and reports each before and
/// after. Without its variable there is nothing to do.
#[test]
fn a_victim_stores_until_it_is_killed() {
    let Ok(path) = std::env::var(VICTIM) else { return };
    let file = Arc::new(File::options().read(true).write(true).open(path).unwrap());
    let bed = Bed::open(&file, 4 * MB);
    let tell = |what: &str, xid: u64| println!("\n@{what} {xid}");
    let first = bed.adopt(&digests()).keys().max().map_or(1, |xid| xid + 1);
    bed.store().sweep();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let bed = &bed;
            scope.spawn(move || {
                let mut held: Vec<Object> = Vec::new();
                for xid in (first + thread..).step_by(2) {
                    while held.len() > 40 {
                        let object = held.swap_remove(xid as usize % held.len());
                        tell("forget", object.record.xid);
                        bed.store().forget(object.id);
                        tell("forgotten", object.record.xid);
                    }
                    let Some(object) = Object::store(bed.store(), xid, victims_len(xid), 9000) else { continue };
                    tell("publish", xid);
                    bed.store().publish(object.id);
                    tell("published", xid);
                    held.push(object);
                }
            });
        }
    });
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    use std::io::{BufRead, BufReader};
    use std::os::fd::AsRawFd;
    let file = memfd();
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    // A former victim's objects are dropped by the next as soon as it has seen them.
    for round in 1..8usize {
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["records::tests::a_victim_stores_until_it_is_killed", "--exact", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut told: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
        for (n, line) in lines.enumerate() {
            if n == round * round * 61 {
                victim.kill().unwrap();
            }
            let words: Option<(String, u64)> = line
                .strip_prefix('@')
                .and_then(|rest| rest.split_once(' '))
                .and_then(|(what, xid)| Some((what.to_owned(), xid.parse().ok()?)));
            if let Some((what, xid)) = words {
                told.entry(xid).or_default().push(what);
            }
        }
        victim.wait().unwrap();
        let after = copy(&file);
        let next = Bed::open(&after, 4 * MB);
        let found = next.adopt(&digests());
        found.values().for_each(|object| object.check(victims_len(object.record.xid)));
        assert!(told.len() > 10, "it was killed at work: {told:?}");
        for (xid, told) in &told {
            match told.last().map(String::as_str) {
                Some("published") => assert!(found.contains_key(xid), "{xid} was published"),
                Some("forgotten") => assert!(!found.contains_key(xid), "{xid} was forgotten"),
                _ => {}
            }
        }
        assert!(found.keys().all(|xid| told.contains_key(xid)), "nothing else is found");
        next.store().sweep();
        drop(found);
        assert_eq!((next.store().used_bytes(), Bed::open(&after, 4 * MB).store().opening().pages_found), (0, 0));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Store { len: usize, piece: usize, is_published: bool },
    Forget(usize),
    Drop(usize),
    Die { walk_first: usize, is_swept: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop_oneof![0usize..300, 300usize..20_000, 20_000usize..200_000], 500usize..70_000, prop::bool::weighted(0.9))
            .prop_map(|(len, piece, is_published)| Step::Store { len, piece, is_published }),
        2 => (0usize..100).prop_map(Step::Forget),
        2 => (0usize..100).prop_map(Step::Drop),
        1 => (0usize..50, any::<bool>()).prop_map(|(walk_first, is_swept)| Step::Die { walk_first, is_swept }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is done and whenever it dies: what was published and not forgotten is there, byte for byte, nothing else
    /// is, and after the sweep nothing else takes room.
    #[test]
    fn nothing_published_is_lost_and_nothing_else_is_found(steps in prop::collection::vec(step(), 1..60)) {
        let mut file = memfd();
        let mut bed = Bed::open(&file, 4 * MB);
        // Number to length of the body, and whether it is published.
        let mut lens: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
        let mut held: Vec<Object> = Vec::new();
        let mut xid = 0;
        for step in steps {
            match step {
                Step::Store { len, piece, is_published } => {
                    xid += 1;
                    let Some(object) = Object::store(bed.store(), xid, len, piece) else { continue };
                    object.check(len);
                    if is_published {
                        bed.store().publish(object.id);
                    }
                    lens.insert(xid, (len, is_published));
                    held.push(object);
                }
                Step::Forget(at) if at < held.len() => {
                    bed.store().forget(held[at].id);
                    held[at].check(lens[&held[at].record.xid].0);
                    // The bytes stay as long as the handle.
                    lens.get_mut(&held[at].record.xid).unwrap().1 = false;
                }
                Step::Drop(at) if at < held.len() => {
                    let object = held.swap_remove(at);
                    lens.remove(&object.record.xid);
                }
                Step::Forget(_) | Step::Drop(_) => {}
                Step::Die { walk_first, is_swept } => {
                    file = copy(&file);
                    let next = Bed::open(&file, 4 * MB);
                    let some: BTreeSet<[u8; 32]> = digests().into_iter().take(walk_first).collect();
                    let found = next.adopt(&some);
                    let wanted: Vec<u64> = lens.iter().filter(|(_, (_, published))| *published).map(|(&xid, _)| xid).collect();
                    prop_assert_eq!(found.keys().copied().collect::<Vec<_>>(), wanted);
                    lens.retain(|_, (_, published)| *published);
                    found.values().for_each(|object| object.check(lens[&object.record.xid].0));
                    if is_swept {
                        next.store().sweep();
                    }
                    held = found.into_values().collect();
                    bed = next;
                }
            }
        }
        bed.store().sweep();
        held.iter().for_each(|object| object.check(lens[&object.record.xid].0));
        held.clear();
        prop_assert_eq!((bed.store().used_bytes(), bed.sma.g_alloc.get()), (0, 0));
        // No page is lost.
        prop_assert_eq!(Bed::open(&file, 4 * MB).store().opening().pages_found, 0);
    }

    /// Bytes changed at random: no crash, no hang; what is found has the right bytes, or has bytes that were changed.
    #[test]
    fn damage_costs_what_it_hits(
        seed in any::<u64>(), changes in prop::collection::vec((any::<u64>(), any::<u8>(), 0u8..4), 1..40),
    ) {
        let file = memfd();
        let bed = Bed::open(&file, 2 * MB);
        let lens: BTreeMap<u64, usize> = (1..40).map(|xid| (xid, bytes(seed ^ xid, 2).iter().map(|&byte| usize::from(byte) * 30).product())).collect();
        let held: Vec<Object> = lens.iter().filter_map(|(&xid, &len)| Object::store(bed.store(), xid, len.min(50_000), 9000)).collect();
        held.iter().for_each(|object| bed.store().publish(object.id));
        let file = copy(&file);
        let length = file.metadata().unwrap().len();
        for (at, byte, what) in changes {
            // The table of pages, the buckets and the first pages are small: each is hit as often as the rest.
            let at = match what {
                0 => 4096 * 9 + at % 4096,
                1 => 4096 * 10 + at % 4096,
                2 => 4096 * 11 + at % (60 * 4096),
                _ => at % length,
            };
            file.write_all_at(&[byte], at).unwrap();
        }
        let next = Bed::open(&file, 2 * MB);
        let found = next.adopt(&digests());
        for object in found.values() {
            let rest = object.rest.as_ref().map_or(&[][..], Rest::blocks);
            let sum: u64 = object.head.iter().chain(rest.iter().flat_map(|piece| piece.buf.iter())).map(|&byte| u64::from(byte)).sum();
            std::hint::black_box(sum);
            next.store().forget(object.id);
        }
        next.store().sweep();
        drop(found);
        prop_assert_eq!((next.store().used_bytes(), next.sma.g_alloc.get()), (0, 0));
        let object = Object::store(next.store(), 1000, 100_000, 9000).unwrap();
        object.check(100_000);
        drop(object);
        prop_assert_eq!(Bed::open(&file, 2 * MB).store().opening().pages_found, 0);
    }
}
