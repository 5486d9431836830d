// SPDX-License-Identifier: BSD-2-Clause
//! Slots and extents of one process, found by the next.

use super::*;

/// Frees slots at once, and counts them.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicU64>);

impl Keeper for Counting {
    fn last_dropped(&self, slot: Unheld<'_>) {
        if !slot.is_frozen() {
            self.0.fetch_add(slot.free(), Relaxed);
        }
    }
}

const SIZE: Size = Size { pages: 200, buckets: 16 };

fn memfd() -> File {
    let map = Map::memfd("test", 1).unwrap();
    let file = File::from(map.fd().try_clone_to_owned().unwrap());
    file.set_len(0).unwrap();
    file
}

fn open(file: &File) -> (Arc<Arena>, Found, Arc<AtomicU64>) {
    let freed = Arc::new(AtomicU64::new(0));
    let (arena, found) = Arena::open(file, SIZE, 4 * PAGE as u64, Box::new(Counting(freed.clone()))).unwrap();
    (arena, found, freed)
}

#[test]
fn slots_of_all_sizes_keep_their_bytes() {
    let file = memfd();
    let (arena, _, freed) = open(&file);
    let (mut held, mut cost) = (Vec::new(), 0);
    for turn in 0..4000usize {
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
fn what_nobody_claims_is_swept() {
    let file = memfd();
    let (first, _, _) = open(&file);
    let slots: Vec<Slot> = (0..50).map(|_| first.slot(&[&[1; 1000]]).unwrap()).collect();
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
fn handles_outlive_the_arena_that_they_are_of() {
    let (arena, _, freed) = open(&memfd());
    let slot = arena.slot(&[b"bytes"]).unwrap();
    drop(arena);
    assert_eq!((slot.bytes(), freed.load(Relaxed)), (&b"bytes"[..], 0));
    drop(slot);
    assert!(freed.load(Relaxed) > 0);
}

#[test]
fn what_a_thread_serves_is_told_to_the_next_process() {
    let file = memfd();
    let (first, _, _) = open(&file);
    first.note_serving(3, 77);
    first.note_serving(511, 78);
    first.note_serving(4, 79);
    first.note_serving(4, 0);
    assert_eq!(open(&file).1.serving, [77, 78]);
    assert_eq!(open(&file).1.serving, []);
}
