// SPDX-License-Identifier: BSD-2-Clause
//! Which object goes when a store is full, and what one costs: as this server has it, and least recently used, as varnishd.
//!
//! [`Greedy`] repeats the arithmetic of the server's own list (`crates/cache/src/evict.rs`, which says why it is so); the
//! suite `simulate` holds both against running servers.

/// The choice of the object that goes. A policy knows a store's objects by their number in the trace.
pub trait EvictionPolicy {
    fn new(hashes: Vec<u64>) -> Self;

    /// Bytes that a store is charged with for a body, and for what is kept beside it.
    fn charge(body: u64, beside: u64) -> u64;

    fn note_use(&mut self, object: u32);

    fn add(&mut self, object: u32, cost: u64);

    /// The object is gone for another reason than room.
    fn remove(&mut self, object: u32);

    fn victim(&mut self) -> Option<u32>;
}

const NONE: u32 = u32::MAX;

/// The least recently used goes.
pub struct Lru {
    /// Each object's neighbours; the last pair is the ends of the list.
    links: Vec<(u32, u32)>,
}

impl EvictionPolicy for Lru {
    fn new(hashes: Vec<u64>) -> Self {
        let end = hashes.len() as u32;
        let mut links = vec![(NONE, NONE); hashes.len()];
        links.push((end, end));
        Lru { links }
    }

    fn charge(body: u64, beside: u64) -> u64 {
        body + beside
    }

    fn note_use(&mut self, object: u32) {
        self.remove(object);
        self.add(object, 0);
    }

    fn add(&mut self, object: u32, _: u64) {
        let end = self.links.len() - 1;
        let (last, _) = self.links[end];
        self.links[object as usize] = (last, end as u32);
        self.links[last as usize].1 = object;
        self.links[end].0 = object;
    }

    fn remove(&mut self, object: u32) {
        let (before, after) = std::mem::replace(&mut self.links[object as usize], (NONE, NONE));
        if before != NONE {
            self.links[before as usize].1 = after;
            self.links[after as usize].0 = before;
        }
    }

    fn victim(&mut self) -> Option<u32> {
        let end = self.links.len() - 1;
        let first = self.links[end].1;
        if first as usize == end {
            return None;
        }
        self.remove(first);
        Some(first)
    }
}

/// Blocks from this length on have whole pages.
const PAGED: u64 = 2 * PAGE;
const PAGE: u64 = 4096;
/// Bodies up to this length share a block with what is kept beside them.
const SMALL_BODY: u64 = 16 << 10;
/// An object weighs no more than so many average ones.
const LARGEST: u64 = 8;
const SCALE: u64 = 1 << 24;
const MAX_USES: u8 = 63;
const MAX_WEIGHT: u32 = u32::MAX >> 6;
/// Hits that count between two looks at an object.
const MAX_FREQ: u8 = 3;

/// The least use for its bytes goes, with a memory of what has gone.
pub struct Greedy {
    hashes: Vec<u64>,
    items: Vec<Item>,
    /// Least rank first: rank and object.
    heap: Vec<(u64, u32)>,
    clock: u64,
    weight: u64,
    ghosts: Ghosts,
}

#[derive(Clone, Copy)]
struct Item {
    slot: u32,
    weight: u32,
    uses: u8,
    freq: u8,
}

impl EvictionPolicy for Greedy {
    fn new(hashes: Vec<u64>) -> Self {
        let items = vec![Item { slot: NONE, weight: 0, uses: 0, freq: 0 }; hashes.len()];
        Greedy { hashes, items, heap: Vec::new(), clock: 0, weight: 0, ghosts: Ghosts::default() }
    }

    fn charge(body: u64, beside: u64) -> u64 {
        let block = |bytes: u64| if bytes < PAGED { bytes } else { bytes.next_multiple_of(PAGE) };
        if body <= SMALL_BODY { block(body + beside) } else { block(body) + beside }
    }

    fn note_use(&mut self, object: u32) {
        let item = &mut self.items[object as usize];
        item.freq = (item.freq + 1).min(MAX_FREQ);
    }

    fn add(&mut self, object: u32, cost: u64) {
        let weight = cost.div_ceil(16).clamp(1, u64::from(MAX_WEIGHT)) as u32;
        let uses = self.ghosts.remove(self.hashes[object as usize]) + 1;
        self.clock += 1;
        self.weight += u64::from(weight);
        let slot = self.heap.len() as u32;
        self.items[object as usize] = Item { slot, weight, uses, freq: 0 };
        let rank = self.rank(weight, uses, u64::from(slot));
        self.heap.push((rank, object));
        self.up(slot as usize);
    }

    fn remove(&mut self, object: u32) {
        let slot = self.items[object as usize].slot;
        if slot != NONE {
            self.take(slot as usize);
        }
    }

    fn victim(&mut self) -> Option<u32> {
        loop {
            let &(rank, object) = self.heap.first()?;
            self.clock = self.clock.max(rank);
            let item = &mut self.items[object as usize];
            if item.freq == 0 {
                let uses = item.uses;
                self.take(0);
                self.ghosts.insert(self.hashes[object as usize], uses, self.heap.len());
                return Some(object);
            }
            item.uses = item.uses.saturating_add(item.freq).min(MAX_USES);
            item.freq = 0;
            let Item { weight, uses, .. } = *item;
            self.heap[0].0 = self.rank(weight, uses, self.heap.len() as u64);
            self.down(0);
        }
    }
}

impl Greedy {
    fn rank(&self, weight: u32, uses: u8, count: u64) -> u64 {
        let average = (self.weight / count.max(1)).max(1);
        let weight = u64::from(weight).min(LARGEST * average);
        self.clock + (SCALE * u64::from(uses) / weight).max(1)
    }

    fn take(&mut self, at: usize) {
        let (_, object) = self.heap.swap_remove(at);
        let item = &mut self.items[object as usize];
        item.slot = NONE;
        self.weight -= u64::from(item.weight);
        if at < self.heap.len() {
            let at = self.up(at);
            self.down(at);
        }
    }

    fn place(&mut self, at: usize) {
        let (_, object) = self.heap[at];
        self.items[object as usize].slot = at as u32;
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at].0 < self.heap[(at - 1) / 2].0 {
            self.heap.swap(at, (at - 1) / 2);
            self.place(at);
            at = (at - 1) / 2;
        }
        self.place(at);
        at
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1)..(2 * at + 3).min(self.heap.len());
            match children.min_by_key(|child| self.heap[*child].0) {
                Some(child) if self.heap[child].0 < self.heap[at].0 => {
                    self.heap.swap(at, child);
                    self.place(at);
                    at = child;
                }
                Some(_) | None => return self.place(at),
            }
        }
    }
}

/// The objects that have gone of late, with their uses: a table that newer ones overwrite.
#[derive(Default)]
struct Ghosts {
    slots: Vec<Ghost>,
    turn: u32,
}

#[derive(Clone, Copy, Default)]
struct Ghost {
    print: u32,
    turn: u32,
    uses: u8,
}

const MAX_GHOST_USES: u8 = 15;

impl Ghosts {
    fn insert(&mut self, hash: u64, uses: u8, resident: usize) {
        let want = resident.clamp(64, 1 << 22).next_power_of_two();
        if want > self.slots.len() {
            self.slots = vec![Ghost::default(); want];
            self.turn = 0;
        }
        self.turn += 1;
        let (at, print) = self.locate(hash);
        self.slots[at] = Ghost { print, turn: self.turn, uses: uses.min(MAX_GHOST_USES) };
    }

    /// Takes an object out and gives its uses, 0 when it wasn't known.
    fn remove(&mut self, hash: u64) -> u8 {
        if self.slots.is_empty() {
            return 0;
        }
        let (at, print) = self.locate(hash);
        let found = self.slots[at];
        if found.print != print || (self.turn - found.turn) as usize > self.slots.len() {
            return 0;
        }
        self.slots[at] = Ghost::default();
        found.uses
    }

    /// Pages were drawn by the highest bits: the others tell them apart.
    fn locate(&self, hash: u64) -> (usize, u32) {
        let hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((hash >> 20) as usize & (self.slots.len() - 1), (hash >> 32) as u32 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_wasnt_used_for_longest_goes() {
        let mut lru = Lru::new(vec![0; 4]);
        (0..4).for_each(|object| lru.add(object, 1));
        lru.note_use(0);
        lru.remove(2);
        let order: Vec<u32> = std::iter::from_fn(|| lru.victim()).collect();
        assert_eq!(order, [1, 3, 0]);
    }

    #[test]
    fn large_ones_and_unused_ones_go() {
        let mut greedy = Greedy::new((0..4).map(crate::tests::mixed).collect());
        for (object, cost) in [(0, 1000), (1, 1000), (2, 4000), (3, 1000)] {
            greedy.add(object, cost);
        }
        greedy.note_use(0);
        let order: Vec<u32> = std::iter::from_fn(|| greedy.victim()).collect();
        assert_eq!(order, [2, 1, 3, 0]);
    }

    #[test]
    fn what_comes_back_is_remembered() {
        let mut greedy = Greedy::new((0..3).map(crate::tests::mixed).collect());
        greedy.add(0, 1000);
        assert_eq!(greedy.victim(), Some(0));
        greedy.add(0, 1000);
        greedy.add(1, 1000);
        assert_eq!(greedy.victim(), Some(1), "though it came last");
    }

    #[test]
    fn blocks_are_whole_pages() {
        for (body, cost) in [(0, 300), (7000, 7300), (7892, 8192), (8000, 12_288), (16_384, 20_480), (16_385, 20_780)] {
            assert_eq!(Greedy::charge(body, 300), cost, "{body}");
            assert_eq!(Lru::charge(body, 300), body + 300);
        }
    }

    proptest! {
        /// Whatever happens, each object is in the list once or not at all, and the least rank is in front.
        #[test]
        fn the_heap_is_one(steps in proptest::collection::vec((0u8..4, 0u32..20, 1u64..100_000), 0..300)) {
            let mut greedy = Greedy::new((0..20).map(crate::tests::mixed).collect());
            let mut kept = std::collections::HashMap::new();
            for (what, object, cost) in steps {
                match what {
                    0 if !kept.contains_key(&object) => {
                        greedy.add(object, cost);
                        kept.insert(object, cost.div_ceil(16));
                    }
                    1 if kept.contains_key(&object) => greedy.note_use(object),
                    2 => {
                        greedy.remove(object);
                        kept.remove(&object);
                    }
                    _ => if let Some(victim) = greedy.victim() {
                        prop_assert!(kept.remove(&victim).is_some());
                    }
                }
                prop_assert_eq!(greedy.heap.len(), kept.len());
                prop_assert_eq!(greedy.weight, kept.values().sum::<u64>());
                for (at, &(rank, object)) in greedy.heap.iter().enumerate() {
                    prop_assert_eq!(greedy.items[object as usize].slot as usize, at);
                    prop_assert!(at == 0 || greedy.heap[(at - 1) / 2].0 <= rank);
                }
            }
        }
    }
}
