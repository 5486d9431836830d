// SPDX-License-Identifier: BSD-2-Clause
//! An arena: memory (a memfd) that outlives the process, with extents in pages of their own ([`crate::extent`]) and slots of
//! size classes, which its owner keeps records in.
//!
//! What is in use is said by a table with a word for each page, and in a slab by a word in each slot, which is the owner's:
//! to find a slot's fate is the owner's business, through [`Books`]. Nothing that was read from an arena is trusted: pages,
//! slots and extents are handed out by this process's own books, which were made from the table once, at opening.
//!
//! A slot is [`WORDS`] words of its owner's, two counts of handles, and bytes that don't change while there is a handle.
//!
//! Two processes may have an arena for a while, of which one hands it over: it freezes it ([`Arena::freeze`]: from then on it
//! changes nothing there but its counts, and still reads), then the other takes it over ([`Arena::take_over`]), but uses
//! nothing again that was in use. The first one lets go ([`Arena::let_go`]) or ends, and the other one is told
//! ([`Arena::own`]). Then a third may come.

mod classes;
mod count;
mod handle;
mod layout;
mod slots;
mod words;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use handle::{ArenaBytes, ArenaSlot, BlockHeader};
pub use layout::{ArenaSize, SERVING};
pub use words::ArenaWords;

use crate::extent::{Extent, PAGE, Region, SharedPages, WHAT};
use crate::map::MemoryMap;
use classes::{class, fitting};
use layout::{BIG, Layout, SLAB};
use slots::{Slab, SlotPlace, Slots};

/// Words of a slot that are its owner's. The first is 0 in a slot that was never used.
pub const WORDS: usize = 28;
/// Offset of the counts of handles.
const REFS: usize = WORDS * 4;
const PAYLOAD: usize = REFS + 8;

/// Most bytes of a slot that shares pages with others.
pub const SHARED: usize = classes::LARGEST - PAYLOAD;

/// Pages of one slot that has them alone.
const MOST_BIG: usize = 1 << 18;

/// Arenas begin on multiples of this, so that a table finds the arena of an address.
const SPACING: usize = 1 << 30;
const ADDRESSES: usize = 1 << 47;
static ARENAS: [AtomicPtr<Arena>; ADDRESSES / SPACING] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; ADDRESSES / SPACING];

/// The owner of slots. It holds no handle on its arena.
pub trait Keeper: Send + Sync + std::fmt::Debug {
    /// The last handle on a slot is gone: [`Unheld::free`] is to be called, unless the slot is to stay as it is.
    fn last_dropped(&self, slot: Unheld<'_>);
}

#[derive(Debug)]
pub struct Arena {
    map: Arc<MemoryMap>,
    layout: Layout,
    /// 0 before it is taken over.
    generation: AtomicU32,
    region: Arc<Region>,
    slots: Mutex<Slots>,
    keeper: Arc<dyn Keeper>,
    has_let_go: AtomicBool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundArena {
    /// Processes that have used it, this one included.
    pub generation: u32,
    pub pages: u64,
    /// The reason why the content can't be used; the arena was made anew.
    pub refusal: Option<&'static str>,
    /// Numbers of the slots that the threads were serving ([`Arena::note_serving`]).
    pub serving: Vec<u32>,
}

/// A slot without handles, which nobody else can reach.
#[derive(Debug)]
pub struct Unheld<'a> {
    arena: &'a Arena,
    number: u32,
}

/// The arena's books, locked: the words of slots, the buckets, what is unclaimed. No handle may be dropped meanwhile.
#[derive(Debug)]
pub struct Books<'a> {
    arena: &'a Arena,
    slots: MutexGuard<'a, Slots>,
}

impl Arena {
    /// Opens the arena in `file`, which is made anew when it isn't one of that size. `keep_bytes` as of regions.
    ///
    /// # Errors
    /// The system's, when there isn't so much address space or the file can't be made so long.
    pub fn open(
        file: &File,
        size: ArenaSize,
        keep_bytes: u64,
        keeper: Box<dyn Keeper>,
    ) -> io::Result<(Arc<Arena>, FoundArena)> {
        let layout = Layout::new(size)?;
        let keeper = Arc::from(keeper);
        let reason = match mapped(file, &layout)? {
            Ok(map) => {
                let arena = Self::over(map, layout, keep_bytes, Arc::clone(&keeper));
                match arena.take_over(false) {
                    Ok(found) => return Ok((arena.registered()?, found)),
                    Err(reason) => Some(reason),
                }
            }
            Err(reason) => reason,
        };
        file.set_len(0)?;
        file.set_len(layout.len as u64)?;
        let map = MemoryMap::aligned(OwnedFd::from(file.try_clone()?), layout.len, SPACING)?;
        layout.format(&map);
        let arena = Self::over(map, layout, keep_bytes, keeper);
        let found = arena.take_over(false).map_err(io::Error::other)?;
        Ok((arena.registered()?, FoundArena { refusal: reason, ..found }))
    }

    /// The arena in `file` that another process has: frozen until it is taken over. Nothing of it is read yet.
    ///
    /// # Errors
    /// As of [`Arena::open`]; `InvalidData`: it isn't of that size.
    pub fn reserve(file: &File, size: ArenaSize, keep_bytes: u64, keeper: Box<dyn Keeper>) -> io::Result<Arc<Arena>> {
        let layout = Layout::new(size)?;
        let map = mapped(file, &layout)?.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Self::over(map, layout, keep_bytes, Arc::from(keeper)).registered()
    }

    /// Not yet anybody's: no pages, no slots.
    fn over(map: MemoryMap, layout: Layout, keep_bytes: u64, keeper: Arc<dyn Keeper>) -> Arena {
        let map = Arc::new(map);
        let shared = SharedPages::frozen(map.clone(), layout.table);
        let region = Region::shared(shared, layout.data, layout.size.pages as usize * PAGE, keep_bytes);
        let slots = Mutex::new(Slots::new(layout.size.pages));
        let (generation, has_let_go) = (AtomicU32::new(0), AtomicBool::new(false));
        Arena { map, layout, generation, region, slots, keeper, has_let_go }
    }

    /// Takes over what is in it, once. `another`: the process that had it has frozen it and may still read it, until
    /// [`Arena::own`].
    ///
    /// # Errors
    /// What is in it can't be used; it stays frozen.
    pub fn take_over(&self, another: bool) -> Result<FoundArena, &'static str> {
        let mut slots = self.slots();
        assert!(self.generation.load(Relaxed) == 0, "an arena is taken over once");
        self.layout.check(&self.map)?;
        let pages = self.layout.read_table(&self.map, &mut slots, |first, pages| self.region.add_free(first, pages))?;
        let generation = self.layout.next_generation(&self.map);
        self.generation.store(generation, Relaxed);
        slots.deferred = another.then(Vec::new);
        let serving = self.layout.take_serving(&self.map, generation, another);
        self.region.thaw(another);
        Ok(FoundArena { generation, pages, refusal: None, serving })
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Cost in bytes of a slot with so many bytes, its part of a slab's pages included; `None`: there is none so large.
    pub fn cost(&self, len: usize) -> Option<u64> {
        let size = len.checked_add(PAYLOAD)?;
        match fitting(size, self.layout.granule).and_then(class) {
            Some(class) => Some(class.cost()),
            None => Some(size.next_multiple_of(PAGE) as u64).filter(|&bytes| bytes <= (MOST_BIG * PAGE) as u64),
        }
    }

    /// A slot with these bytes; its first word is 0, the others are anything. `None`: no room.
    pub fn slot(&self, parts: &[&[u8]]) -> Option<ArenaSlot> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let size = len.checked_add(PAYLOAD).filter(|&size| size <= MOST_BIG * PAGE)?;
        let base = {
            let mut slots = self.slots();
            if self.is_frozen() {
                return None;
            }
            let place = self.take(&mut slots, size)?;
            self.base(slots.slab(place.slab), place.slot)
        };
        self.map.u32_at(base).store(0, Relaxed);
        let mut at = base + PAYLOAD;
        for part in parts {
            self.map.write(at, part);
            at += part.len();
        }
        Some(self.handle(base, len))
    }

    fn take(&self, slots: &mut Slots, size: usize) -> Option<SlotPlace> {
        let number = fitting(size, self.layout.granule);
        if let Some(place) = number.and_then(|number| slots.take(number)) {
            return Some(place);
        }
        let (word, number, pages) = match number.map(|number| (number, class(number))) {
            Some((number, Some(class))) => (SLAB | u32::from(number), number, u32::from(class.pages)),
            Some((_, None)) | None => {
                let pages = size.div_ceil(PAGE) as u32;
                (BIG | pages, 0, pages)
            }
        };
        let first = self.region.take(pages)?;
        let place = slots.add(first, pages, number);
        // What was in these pages before must not be taken for slots in use.
        let slab = *slots.slab(place.slab);
        let count = class(number).map_or(1, |class| class.slots);
        (0..count).for_each(|slot| self.map.u32_at(self.base(&slab, slot)).store(0, Relaxed));
        self.region.mark_taken(first, word);
        Some(place)
    }

    fn handle(&self, base: usize, len: usize) -> ArenaSlot {
        let arena = Self::of_address(self.map.base().as_ptr() as usize + base);
        // SAFETY: `register` was given an `Arc`, of which `self` is a borrow. This is the slot's own handle on the arena,
        // which `last_dropped` drops.
        unsafe { Arc::increment_strong_count(arena) };
        let at = self.address(base);
        // SAFETY: the books gave the slot to the caller alone, it is within the mapping and long enough.
        unsafe { ArenaSlot::first(at, len as u32, self.is_odd()) }
    }

    fn address(&self, base: usize) -> NonNull<u8> {
        NonNull::new(self.map.base().as_ptr().wrapping_byte_add(base)).expect("a mapping isn't at 0")
    }

    /// True if this process uses the odd one of a slot's two counts.
    fn is_odd(&self) -> bool {
        self.generation.load(Relaxed) % 2 == 1
    }

    fn base(&self, slab: &Slab, slot: u8) -> usize {
        let size = class(slab.class).map_or(0, |class| usize::from(class.size));
        self.layout.data + slab.first as usize * PAGE + usize::from(slot) * size
    }

    fn number(&self, base: usize) -> u32 {
        ((base - self.layout.data) / self.layout.granule) as u32
    }

    fn place(&self, slots: &Slots, number: u32) -> Option<(SlotPlace, usize)> {
        let offset = number as usize * self.layout.granule;
        let slab_number = slots.of_page(u32::try_from(offset / PAGE).ok()?)?;
        let slab = slots.slab(slab_number);
        let within = offset - slab.first as usize * PAGE;
        let slot = match class(slab.class) {
            Some(class) if within.is_multiple_of(usize::from(class.size)) => {
                u8::try_from(within / usize::from(class.size)).ok().filter(|&slot| slot < class.slots)?
            }
            None if within == 0 => 0,
            Some(_) | None => return None,
        };
        Some((SlotPlace { slab: slab_number, slot }, self.layout.data + offset))
    }

    pub fn books(&self) -> Books<'_> {
        Books { arena: self, slots: self.slots() }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing under this lock panics but assertions about the books themselves, which end the process.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of memory that it holds, in all processes; `None` when the system doesn't tell.
    pub fn memory_bytes(&self) -> Option<u64> {
        let blocks = nix::sys::stat::fstat(self.map.fd()).ok()?.st_blocks;
        u64::try_from(blocks).ok()?.checked_mul(512)
    }

    /// Says which slot a thread serves, 0 for none: one relaxed store.
    #[inline]
    pub fn note_serving(&self, thread: usize, number: u32) {
        let at = Layout::serving(thread, self.is_odd());
        self.map.u32_at(at).store(number, Relaxed);
    }

    /// From now on nothing is taken, and what is freed stays as it is: it is about to be another process's.
    pub fn freeze(&self) {
        let _slots = self.slots();
        self.region.freeze();
    }

    pub fn is_frozen(&self) -> bool {
        self.region.is_frozen()
    }

    /// True if a process that has it frozen may still read it.
    pub fn is_shared(&self) -> bool {
        self.slots().deferred.is_some()
    }

    pub fn deferred_bytes(&self) -> u64 {
        self.region.deferred_bytes()
    }

    /// Asks that process to read no more than it must.
    pub fn recall(&self) {
        let former = self.generation.load(Relaxed).wrapping_sub(1);
        self.map.u32_at(layout::RECALLED_AT).store(former, SeqCst);
    }

    /// True if this process shall read no more than it must, since its successor says so.
    pub fn is_recalled(&self) -> bool {
        let generation = self.generation.load(Relaxed);
        let recalled = self.map.u32_at(layout::RECALLED_AT).load(SeqCst);
        self.has_let_go.load(Relaxed) || (recalled == generation && generation != 0)
    }

    /// Nobody else reads this arena any more: what was freed meanwhile can be used again.
    pub fn own(&self) {
        let mut empty = Vec::new();
        {
            let mut slots = self.slots();
            let deferred = slots.deferred.take().unwrap_or_default();
            for place in deferred {
                empty.extend(slots.put(place));
            }
        }
        empty.into_iter().for_each(|slab| self.region.put_lent(slab.first, slab.pages));
        self.region.own();
    }

    /// Once it is frozen: takes copies of what there still are handles on, in this process's own memory, so that whatever the
    /// arena's next owner does isn't seen here.
    ///
    /// # Errors
    /// The system can't. Then handles go on reading the arena.
    pub fn let_go(&self) -> io::Result<()> {
        assert!(self.is_frozen(), "only an arena that was handed over is let go");
        self.has_let_go.store(true, Relaxed);
        self.map.make_private()?;
        let mut runs = self.held_runs();
        runs.sort_unstable();
        let mut copied = 0;
        for (first, pages) in runs {
            let (first, end) = (first.max(copied), first + pages);
            if first < end {
                self.map.populate(self.layout.data + first as usize * PAGE, (end - first) as usize * PAGE)?;
                copied = end;
            }
        }
        Ok(())
    }

    fn held_runs(&self) -> Vec<(u32, u32)> {
        let slots = self.slots();
        let count = |base: usize| self.map.u32_at(base + REFS + usize::from(self.is_odd()) * 4).load(Relaxed);
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (slab, slot) in slots.held() {
            let base = self.base(slab, slot);
            if count(base) > 0 {
                let size = class(slab.class).map_or(slab.pages as usize * PAGE, |class| usize::from(class.size));
                let (from, to) = (base - self.layout.data, base - self.layout.data + size);
                runs.push(((from / PAGE) as u32, (to.div_ceil(PAGE) - from / PAGE) as u32));
            }
        }
        let is_extents = |page: &u32| slots.of_page(*page).is_none();
        for (first, pages) in self.region.used_runs() {
            let mut page = first;
            while page < first + pages {
                // What a process before this one had, and nobody has claimed.
                if let Some(unclaimed) = slots.extents.get(&page) {
                    page += unclaimed;
                    continue;
                }
                if is_extents(&page) {
                    runs.push((page, 1));
                }
                page += 1;
            }
        }
        runs
    }

    /// Frees what was there at opening and wasn't claimed, in steps: the books are locked for a slab at a time.
    pub fn sweep(&self) {
        let found = self.slots().found_slabs();
        for number in 0..found {
            let empty = {
                let mut slots = self.slots();
                if self.is_frozen() {
                    return;
                }
                // Nobody may take it for one in use again.
                let slab = *slots.slab(number);
                let count = class(slab.class).map_or(1, |class| class.slots);
                let left = (0..count).filter(|&slot| slots.is_unclaimed(SlotPlace { slab: number, slot }));
                left.for_each(|slot| self.map.u32_at(self.base(&slab, slot)).store(0, Relaxed));
                if slots.deferred.is_some() {
                    slots.defer_unclaimed(number);
                    continue;
                }
                slots.sweep(number)
            };
            if let Some(slab) = empty {
                self.region.put_lent(slab.first, slab.pages);
            }
        }
        let extents = std::mem::take(&mut self.slots().extents);
        extents.into_iter().for_each(|(first, pages)| self.region.put_lent(first, pages));
        self.region.give_back_free();
    }

    fn registered(self) -> io::Result<Arc<Arena>> {
        let base = self.map.base().as_ptr() as usize;
        let entries = ARENAS.get(base / SPACING..(base + self.map.len()).div_ceil(SPACING));
        let entries = entries.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let arena = Arc::new(self);
        entries.iter().for_each(|entry| entry.store(Arc::as_ptr(&arena).cast_mut(), Release));
        Ok(arena)
    }

    /// The arena of a slot at that address, which has a handle on its arena.
    fn of_address(address: usize) -> *const Arena {
        let arena = ARENAS[address / SPACING].load(Acquire);
        assert!(!arena.is_null(), "a slot is in an arena");
        arena.cast_const()
    }

    /// The slot at that address has lost its last handle.
    #[cold]
    fn last_dropped(address: usize) {
        let arena = Self::of_address(address);
        {
            // SAFETY: the slot's own handle on the arena, which is dropped below, keeps it.
            let arena = unsafe { &*arena };
            let number = arena.number(address - arena.map.base().as_ptr() as usize);
            arena.keeper.last_dropped(Unheld { arena, number });
        }
        // SAFETY: `handle` made it of an `Arc`, once for each slot in use.
        drop(unsafe { Arc::from_raw(arena) });
    }

    /// The number of the slot at that address, which has a handle.
    fn number_at(address: usize) -> u32 {
        // SAFETY: whoever asks holds a handle on the slot, and this one on the arena.
        let arena = unsafe { &*Self::of_address(address) };
        arena.number(address - arena.map.base().as_ptr() as usize)
    }

    /// True if the arena of the slot at that address is frozen; the slot has a handle.
    fn is_frozen_at(address: usize) -> bool {
        // SAFETY: as in `number_at`.
        unsafe { &*Self::of_address(address) }.is_frozen()
    }

    /// Cost of the slot at that address, which has a handle. By the table of pages, so that no lock is needed: the word
    /// of a slab's or a large slot's first page stays as long as there is a handle, and its other pages have none.
    fn cost_at(address: usize) -> u64 {
        // SAFETY: as in `number_at`.
        let arena = unsafe { &*Self::of_address(address) };
        let page = (address - arena.map.base().as_ptr() as usize - arena.layout.data) / PAGE;
        let mut words = (0..classes::MOST_PAGES.min(page)).map(|back| arena.layout.table_word(&arena.map, page - back));
        let word = words.find(|&word| word != 0).expect("a slot with a handle is in the table");
        match word & WHAT {
            SLAB => class((word & 0xff) as u8).map_or(0, |class| class.cost()),
            _ => u64::from(word & !WHAT) * PAGE as u64,
        }
    }
}

fn cost_of(slab: &Slab) -> u64 {
    class(slab.class).map_or(u64::from(slab.pages) * PAGE as u64, |class| class.cost())
}

impl Drop for Arena {
    fn drop(&mut self) {
        let base = self.map.base().as_ptr() as usize;
        let entries = ARENAS.get(base / SPACING..(base + self.map.len()).div_ceil(SPACING)).unwrap_or_default();
        let own = std::ptr::from_mut(self);
        for entry in entries {
            let _ = entry.compare_exchange(own, std::ptr::null_mut(), Release, Relaxed);
        }
    }
}

impl Unheld<'_> {
    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn word(&self, n: usize) -> &AtomicU32 {
        assert!(n < WORDS, "a slot has so many words");
        let base = self.arena.layout.data + self.number as usize * self.arena.layout.granule;
        self.arena.map.u32_at(base + n * 4)
    }

    pub fn books(&self) -> Books<'_> {
        self.arena.books()
    }

    /// Frees the slot's place, unless the arena is frozen: the place is another process's then. Returns the slot's
    /// cost.
    pub fn free(self) -> u64 {
        let (cost, empty) = {
            let mut slots = self.arena.slots();
            let (place, _) = self.arena.place(&slots, self.number).expect("a slot in use is in the books");
            let cost = cost_of(slots.slab(place.slab));
            (cost, if self.arena.is_frozen() { None } else { slots.put_or_defer(place) })
        };
        if let Some(empty) = empty {
            self.arena.region.put(empty.first, empty.pages);
        }
        cost
    }
}

impl Books<'_> {
    pub fn is_frozen(&self) -> bool {
        self.arena.is_frozen()
    }

    /// Word `n` of the slot of that number, if there is one.
    pub fn word(&self, number: u32, n: usize) -> Option<&AtomicU32> {
        assert!(n < WORDS, "a slot has so many words");
        let (_, base) = self.arena.place(&self.slots, number)?;
        Some(self.arena.map.u32_at(base + n * 4))
    }

    /// Words `n` and `n + 1` of that slot as one; `n` is even.
    pub fn word64(&self, number: u32, n: usize) -> Option<&AtomicU64> {
        assert!(n + 1 < WORDS, "a slot has so many words");
        let (_, base) = self.arena.place(&self.slots, number)?;
        Some(self.arena.map.u64_at(base + n * 4))
    }

    pub fn buckets(&self) -> u32 {
        self.arena.layout.size.buckets
    }

    /// The head of the bucket of that hash.
    pub fn bucket(&self, hash: u32) -> &AtomicU32 {
        let layout = &self.arena.layout;
        self.arena.map.u32_at(layout.buckets + (hash & (layout.size.buckets - 1)) as usize * 4)
    }

    pub fn is_unclaimed(&self, number: u32) -> bool {
        self.arena.place(&self.slots, number).is_some_and(|(place, _)| self.slots.is_unclaimed(place))
    }

    /// The first handle on a slot that was there at opening: given once.
    pub fn claim(&mut self, number: u32) -> Option<ArenaSlot> {
        let (place, base) = self.arena.place(&self.slots, number)?;
        if !self.slots.claim(place) {
            return None;
        }
        self.payload_of(place).map(|len| self.arena.handle(base, len))
    }

    /// Calls `read` with a slot that nobody has claimed, which stays unclaimed.
    pub fn with_unclaimed<R>(&self, number: u32, read: impl FnOnce(&ArenaSlot) -> R) -> Option<R> {
        let (place, base) = self.arena.place(&self.slots, number)?;
        let len = self.payload_of(place).filter(|_| self.slots.is_unclaimed(place))?;
        // SAFETY: the slot was taken by a former process, is within the mapping and has `len` bytes. `self` holds the books, without
        // which nobody claims or frees it.
        let slot = unsafe { ArenaSlot::view(self.arena.address(base), len as u32) };
        Some(read(&slot))
    }

    /// Length of a slot's bytes behind its words.
    fn payload_of(&self, place: SlotPlace) -> Option<usize> {
        let slab = self.slots.slab(place.slab);
        let size = class(slab.class).map_or(slab.pages as usize * PAGE, |class| usize::from(class.size));
        size.checked_sub(PAYLOAD)
    }

    /// The first handle on an extent that was there at opening: given once.
    pub fn claim_extent(&mut self, first: u32, len: u32) -> Option<Extent> {
        let pages =
            self.slots.extents.get(&first).copied().filter(|&pages| len > 0 && len.div_ceil(PAGE as u32) == pages)?;
        self.slots.extents.remove(&first);
        Some(self.arena.region.found(first, pages, len))
    }

    /// The numbers of all slots in use, those that nobody has claimed among them. Long: for tests.
    pub fn all(&self) -> Vec<u32> {
        let numbers = self.slots.taken().map(|(slab, slot)| self.arena.number(self.arena.base(slab, slot)));
        numbers.collect()
    }

    /// The number of the first slot at or after `from` (0 at first) that was there at opening, and what to go on with.
    pub fn next_found(&self, from: u64) -> Option<(u32, u64)> {
        let (mut slab, mut slot) = ((from / 64) as u32, (from % 64) as u8);
        while slab < self.slots.found_slabs() {
            let count = class(self.slots.slab(slab).class).map_or(1, |class| class.slots);
            for at in slot..count {
                if self.slots.is_unclaimed(SlotPlace { slab, slot: at }) {
                    let number = self.arena.number(self.arena.base(self.slots.slab(slab), at));
                    return Some((number, u64::from(slab) * 64 + u64::from(at) + 1));
                }
            }
            (slab, slot) = (slab + 1, 0);
        }
        None
    }
}

/// True if an arena in this file is of the format that this program uses: a program that takes another one's place
/// asks.
///
/// # Errors
/// The system's.
pub fn is_of_this_format(file: &File) -> io::Result<bool> {
    layout::is_of_this_format(file)
}

/// The file's mapping, if it is as long as an arena of this layout; else why not. An empty file has no reason.
fn mapped(file: &File, layout: &Layout) -> io::Result<Result<MemoryMap, Option<&'static str>>> {
    match file.metadata()?.len() {
        0 => return Ok(Err(None)),
        len if len != layout.len as u64 => return Ok(Err(Some("it is of another size"))),
        _ => {}
    }
    MemoryMap::aligned(OwnedFd::from(file.try_clone()?), layout.len, SPACING).map(Ok)
}

#[cfg(test)]
mod tests;
