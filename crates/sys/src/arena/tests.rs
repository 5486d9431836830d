// SPDX-License-Identifier: BSD-2-Clause
//! Slots and extents of one process, found by the next.

use super::*;

#[derive(Debug, Default)]
struct Counting(Arc<AtomicU64>);

impl Keeper for Counting {
    fn last_dropped(&self, slot: Unheld<'_>) {
        self.0.fetch_add(slot.free(), Relaxed);
    }
}

const SIZE: ArenaSize = ArenaSize { pages: 200, buckets: 16 };

fn memfd() -> File {
    let map = MemoryMap::memfd("test", 1).unwrap();
    let file = File::from(map.fd().try_clone_to_owned().unwrap());
    file.set_len(0).unwrap();
    file
}

fn open(file: &File) -> (Arc<Arena>, FoundArena, Arc<AtomicU64>) {
    let freed = Arc::new(AtomicU64::new(0));
    let (arena, found) = Arena::open(file, SIZE, 4 * PAGE as u64, Box::new(Counting(freed.clone()))).unwrap();
    (arena, found, freed)
}

#[test]
fn slots_of_all_sizes_keep_their_bytes() {
    let file = memfd();
    let (arena, _, freed) = open(&file);
    let (mut held, mut cost) = (Vec::new(), 0);
    for turn in 0..if cfg!(miri) { 200 } else { 4000usize } {
        let len = turn * 37 % 9000;
        match arena.slot(&[&vec![turn as u8; len / 3], &vec![turn as u8; len - len / 3]]) {
            Some(slot) => {
                cost += arena.cost(len).unwrap();
                slot.words().word(turn % WORDS).store(turn as u32, Relaxed);
                held.push((turn, slot));
            }
            None => drop(held.split_off(held.len() / 2)),
        }
        if turn % 3 == 0 && !held.is_empty() {
            held.swap_remove(turn % held.len());
        }
    }
    for (turn, slot) in &held {
        assert!(slot.bytes().iter().all(|&byte| byte == *turn as u8) && slot.bytes().len() == turn * 37 % 9000);
        assert_eq!(slot.words().word(turn % WORDS).load(Relaxed), *turn as u32);
        let base = slot.bytes().as_ptr().addr() - PAYLOAD;
        assert_eq!(Some(Arena::cost_at(base)), arena.cost(turn * 37 % 9000));
    }
    drop(held);
    assert_eq!(freed.load(Relaxed), cost);
    assert_eq!(open(&file).1.pages, 0, "all pages are back");
}

#[test]
#[cfg_attr(miri, ignore = "two maps of one file")]
fn what_was_there_is_claimed_once() {
    let file = memfd();
    let (first, found, _) = open(&file);
    assert_eq!((found.pages, found.refusal), (0, None));
    let (slot, extent) = (first.slot(&[b"slot"]).unwrap(), first.region().extent(&[&[7; PAGE + 1]]).unwrap());
    slot.words().word(0).store(9, Relaxed);
    first.freeze();
    let (number, at) = (slot.number(), extent.place().1);
    let (second, found, freed) = open(&file);
    assert_eq!((found.generation, found.pages), (2, 3));
    let mut books = second.books();
    assert_eq!(books.next_found(0), Some((number, 1)));
    assert!(
        books.claim(number + 1).is_none()
            && books.claim_extent(at, PAGE as u32).is_none()
            && books.claim_extent(at, 0).is_none()
    );
    let claimed = (books.claim(number).unwrap(), books.claim_extent(at, PAGE as u32 + 1).unwrap());
    assert!(books.claim(number).is_none() && books.claim_extent(at, PAGE as u32 + 1).is_none());
    assert_eq!(books.word(number, 0).unwrap().load(Relaxed), 9);
    drop(books);
    assert_eq!((&claimed.0.bytes()[..4], claimed.1.len(), claimed.1[PAGE]), (&b"slot"[..], PAGE + 1, 7));
    // The former process lets go: that is nobody's business any more.
    drop((slot, extent, first));
    assert_eq!((&claimed.0.bytes()[..4], claimed.1[PAGE]), (&b"slot"[..], 7));
    second.sweep();
    drop(claimed);
    assert_eq!(freed.load(Relaxed), second.cost(4).unwrap());
    assert_eq!(open(&file).1.pages, 0);
}

#[test]
#[cfg_attr(miri, ignore = "two maps of one file")]
fn what_nobody_claims_is_swept() {
    let file = memfd();
    let (first, _, _) = open(&file);
    let slots: Vec<ArenaSlot> = (0..50).map(|_| first.slot(&[&[1; 1000]]).unwrap()).collect();
    let _extent = first.region().extent(&[&[1; 9 * PAGE]]).unwrap();
    slots.iter().for_each(|slot| slot.words().word(0).store(5, Relaxed));
    first.freeze();
    let (second, _, _) = open(&file);
    let kept = second.books().claim(slots[7].number()).unwrap();
    second.sweep();
    let (third, found, _) = open(&file);
    assert!(found.pages <= 3, "the slab of the one that is in use");
    assert_eq!(third.books().word(slots[7].number(), 0).unwrap().load(Relaxed), 5);
    assert_eq!(third.books().word(slots[8].number(), 0).unwrap().load(Relaxed), 0, "nobody takes it for one in use");
    drop(kept);
}

#[test]
fn threads_that_share_handles_never_see_the_bytes_of_another_slot() {
    let (arena, _, freed) = open(&memfd());
    let turns = if cfg!(miri) { 10 } else { 1000 };
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            let arena = &arena;
            scope.spawn(move || {
                for turn in 0..turns {
                    let mark = thread.wrapping_mul(80).wrapping_add(turn as u8 % 80);
                    let bytes = arena.slot(&[&[mark; 500]]).unwrap().into_bytes::<NoBlock>();
                    let copies = [bytes.slice(0..250), bytes.slice(250..500)];
                    drop(bytes);
                    std::thread::scope(|scope| {
                        for copy in copies {
                            scope.spawn(move || assert!(copy.iter().all(|&byte| byte == mark)));
                        }
                    });
                }
            });
        }
    });
    assert_eq!(freed.load(Relaxed), 3 * turns as u64 * arena.cost(500).unwrap());
}

struct NoBlock;

impl BlockHeader for NoBlock {
    fn bytes(block: &triomphe::ThinArc<Self, u8>) -> &[u8] {
        &block.slice
    }
}

#[test]
fn handles_outlive_the_arena_that_they_are_of() {
    let (arena, _, freed) = open(&memfd());
    let slot = arena.slot(&[b"bytes"]).unwrap();
    drop(arena);
    assert_eq!((slot.bytes(), freed.load(Relaxed)), (&b"bytes"[..], 0));
    drop(slot);
    assert!(freed.load(Relaxed) > 0);
}

#[test]
#[cfg_attr(miri, ignore = "two maps of one file")]
fn what_a_thread_serves_is_told_to_the_next_process() {
    let file = memfd();
    let (first, _, _) = open(&file);
    first.note_serving(3, 77);
    first.note_serving(255, 78);
    first.note_serving(4, 79);
    first.note_serving(4, 0);
    assert_eq!(open(&file).1.serving, [77, 78]);
    assert_eq!(open(&file).1.serving, []);
}

/// An arena that another one, of the same memory, takes over.
fn hand_over(file: &File, first: &Arena) -> Arc<Arena> {
    let second = Arena::reserve(file, SIZE, 4 * PAGE as u64, Box::new(Counting::default())).unwrap();
    assert!(second.slot(&[b"too early"]).is_none() && second.region().extent(&[b"too early"]).is_none());
    first.freeze();
    second.take_over(true).unwrap();
    second
}

#[test]
#[cfg_attr(miri, ignore = "two maps of one file")]
fn one_that_waits_finds_what_came_last() {
    let file = memfd();
    let (first, ..) = open(&file);
    let second = Arena::reserve(&file, SIZE, 0, Box::new(Counting::default())).unwrap();
    let slot = first.slot(&[b"late"]).unwrap();
    first.note_serving(1, 5);
    first.freeze();
    let found = second.take_over(true).unwrap();
    assert_eq!(
        (found.generation, found.pages, &found.serving[..]),
        (2, 1, &[][..]),
        "who lives hasn't died of anything"
    );
    let claimed = second.books().claim(slot.number()).unwrap();
    assert_eq!(&claimed.bytes()[..4], b"late");
    assert!(first.slot(&[b"x"]).is_none() && first.region().extent(&[b"x"]).is_none());
    assert!(second.slot(&[b"x"]).is_some());
    let (size, err) = (ArenaSize { pages: 300, buckets: 16 }, io::ErrorKind::InvalidData);
    assert_eq!(Arena::reserve(&file, size, 0, Box::new(Counting::default())).unwrap_err().kind(), err);
}

#[test]
#[cfg_attr(miri, ignore = "two maps of one file")]
fn what_a_former_owner_reads_is_used_again_only_when_it_has_let_go() {
    let file = memfd();
    let (first, ..) = open(&file);
    let slots: Vec<ArenaSlot> = (0..40u8).map(|n| first.slot(&[&[n; 1000]]).unwrap()).collect();
    let extents: Vec<Extent> = (0..8u8).map(|n| first.region().extent(&[&[100 + n; 2 * PAGE]]).unwrap()).collect();
    let second = hand_over(&file, &first);
    let read = |slots: &[ArenaSlot], extents: &[Extent], what| {
        for slot in slots {
            let number = slot.bytes()[0];
            assert!(slot.bytes()[..1000].iter().all(|&byte| byte == number && byte < 40), "{what} {number}");
        }
        for extent in extents {
            assert!(extent.iter().all(|&byte| byte == extent[0] && byte >= 100), "{what}: {}", extent[0]);
        }
    };
    // The new owner drops all of it, and writes wherever there is room.
    let scribble = |arena: &Arena| {
        let all: Vec<_> = std::iter::from_fn(|| arena.slot(&[&[77; 1000]])).collect();
        let more: Vec<_> = std::iter::from_fn(|| arena.region().extent(&[&[77; PAGE]])).collect();
        assert!(arena.slot(&[&[1; 5000]]).is_none());
        (all.len(), more.len())
    };
    {
        let mut books = second.books();
        // What isn't claimed is swept.
        let claimed: Vec<ArenaSlot> = slots[5..].iter().map(|slot| books.claim(slot.number()).unwrap()).collect();
        let found: Vec<_> =
            extents[1..].iter().map(|extent| books.claim_extent(extent.place().1, 2 * PAGE as u32).unwrap()).collect();
        drop(books);
        drop((claimed, found));
    }
    assert_eq!(second.deferred_bytes(), 14 * PAGE as u64);
    second.sweep();
    assert_eq!(second.deferred_bytes(), 16 * PAGE as u64);
    let before = scribble(&second);
    read(&slots, &extents, "shared");
    assert!(!first.is_recalled());
    second.recall();
    assert!(first.is_recalled() && !second.is_recalled());
    // Some handles are left when it lets go.
    let (mut slots, mut extents) = (slots, extents);
    slots.drain(3..);
    extents.drain(2..);
    first.let_go().unwrap();
    second.own();
    assert!(!second.is_shared() && second.deferred_bytes() == 0);
    let after = scribble(&second);
    assert!(after.0 > before.0 + 30, "{before:?} {after:?}");
    read(&slots, &extents, "let go");
    let more = slots.pop().unwrap();
    drop((slots, extents, more, first));
    // A third one may come: its counts are those of the first.
    let kept = second.slot(&[b"kept"]).unwrap();
    let third = hand_over(&file, &second);
    let claimed = third.books().claim(kept.number()).unwrap();
    assert_eq!(&claimed.bytes()[..4], b"kept");
}

#[test]
#[cfg_attr(miri, ignore = "two maps of one file")]
fn an_owner_that_dies_beside_a_former_one_leaves_a_sound_arena() {
    let file = memfd();
    let (first, ..) = open(&file);
    let slots: Vec<ArenaSlot> = (0..40u8).map(|n| first.slot(&[&[n; 1000]]).unwrap()).collect();
    let second = hand_over(&file, &first);
    let claimed = second.books().claim(slots[3].number()).unwrap();
    drop(claimed);
    // It dies: what it had freed is found, and swept.
    first.let_go().unwrap();
    let (third, found, _) = open(&file);
    assert_eq!((found.generation, found.refusal), (3, None));
    third.sweep();
    assert_eq!(third.region().used_bytes(), 0);
    assert!(slots.iter().enumerate().all(|(n, slot)| slot.bytes()[..1000].iter().all(|&byte| byte == n as u8)));
}
