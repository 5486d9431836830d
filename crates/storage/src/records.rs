// SPDX-License-Identifier: BSD-2-Clause
//! The records of one store's arena: written, published in the bucket of their digest, forgotten.
//!
//! What holds at any moment, for whoever opens the arena after a death in that moment: a record whose state word is
//! [`words::LIVE`] is complete. What is linked in a bucket may be dead, but its slot isn't used for anything else: a
//! record is unlinked before its slot is free. A live record that isn't linked yet is found by the walk alone.

mod facts;
mod keep;
mod survivors;
mod words;

use std::collections::HashMap;
use std::fs::File;
use std::num::NonZeroU32;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, PoisonError};

use sys::arena::{Arena, ArenaSize, Books, FoundArena, Keeper, Unheld};
use sys::extent::{PAGE, Region};

use crate::buf::Buf;
use crate::record::{RecordId, StoreOpening, Suspect};
use crate::store::{StoreAccount, keep_bytes, spread};
pub use facts::{Facts, OwnFacts};
use words::{DEAD, DEATH, HASH, KEPT, LIVE, MIXED, NEXT, STATE};

/// Bytes of the limit for one bucket.
const BUCKET: u64 = 4096;
const MOST_BUCKETS: u64 = 1 << 28;
/// Records of one bucket that are looked at: beyond them the chain is damaged, or too long to be worth it.
const MOST_LINKS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct StoreRecords {
    arena: Arc<Arena>,
    account: Arc<StoreAccount>,
    /// There may be a former process that still reads; never true again once it isn't.
    is_shared: AtomicBool,
    is_adopting: AtomicBool,
    /// Bytes that the account is charged with for what was found and nobody has claimed.
    unclaimed: AtomicU64,
    /// Numbers of records that were being served.
    serving: Mutex<Vec<u32>>,
    /// Claimed extents by their first page, while it adopts: two records may tell of the same.
    extents: Mutex<HashMap<u32, Buf>>,
}

/// Frees slots whose last handle is gone.
#[derive(Debug)]
struct Owner(Arc<StoreAccount>);

impl StoreRecords {
    /// Opens the arena of a store of that limit; `None` when it can't be had: nothing survives then.
    pub fn open(file: &File, limit: Option<u64>, account: &Arc<StoreAccount>) -> (Option<StoreRecords>, StoreOpening) {
        let Some((size, keep)) = size_of(limit) else { return (None, StoreOpening::default()) };
        let Ok((arena, found)) = Arena::open(file, size, keep, Box::new(Owner(account.clone()))) else {
            return (None, StoreOpening::refused("there is not so much address space"));
        };
        let records = StoreRecords::of(arena, account);
        let opening = records.begin(found);
        (Some(records), opening)
    }

    /// The arena of a store that another process has: nothing is kept in it before [`StoreRecords::take_over`].
    pub fn reserve(file: &File, limit: Option<u64>, account: &Arc<StoreAccount>) -> Option<StoreRecords> {
        let (size, keep) = size_of(limit)?;
        let arena = Arena::reserve(file, size, keep, Box::new(Owner(account.clone()))).ok()?;
        Some(StoreRecords::of(arena, account))
    }

    fn of(arena: Arc<Arena>, account: &Arc<StoreAccount>) -> StoreRecords {
        StoreRecords {
            arena,
            account: account.clone(),
            is_shared: AtomicBool::new(false),
            is_adopting: AtomicBool::new(false),
            unclaimed: AtomicU64::new(0),
            serving: Mutex::default(),
            extents: Mutex::default(),
        }
    }

    /// The process that has it has frozen it, or is gone.
    pub fn take_over(&self, lives: bool) -> StoreOpening {
        self.is_shared.store(lives, Relaxed);
        match self.arena.take_over(lives) {
            Ok(found) => self.begin(found),
            Err(reason) => StoreOpening::refused(reason),
        }
    }

    fn begin(&self, found: FoundArena) -> StoreOpening {
        let unclaimed = found.pages * PAGE as u64;
        self.account.charge_found(unclaimed, 0);
        self.unclaimed.store(unclaimed, Relaxed);
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = found.serving;
        self.is_adopting.store(found.pages > 0, Relaxed);
        StoreOpening { generation: found.generation, pages_found: found.pages, refusal: found.refusal }
    }

    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Relaxed)
    }

    pub fn own(&self) {
        if self.is_shared.swap(false, Relaxed) {
            let _critical = base::critical::enter();
            self.arena.own();
        }
    }

    pub fn deferred_bytes(&self) -> u64 {
        self.arena.deferred_bytes()
    }

    pub fn recall(&self) {
        if self.is_shared() {
            self.arena.recall();
        }
    }

    pub fn is_recalled(&self) -> bool {
        self.arena.is_recalled()
    }

    pub fn let_go(&self) -> std::io::Result<()> {
        self.arena.let_go()
    }

    pub fn region(&self) -> &Arc<Region> {
        self.arena.region()
    }

    pub fn publish(&self, id: RecordId) {
        let _critical = base::critical::enter();
        let Some(books) = self.own_books() else { return };
        let (Some(state), Some(next), Some(hash)) = words_of(&books, id.0.get()) else { return };
        if state.compare_exchange(KEPT, LIVE, Release, Relaxed).is_ok() {
            let bucket = books.bucket(hash);
            next.store(bucket.load(Relaxed), Relaxed);
            bucket.store(id.0.get(), Release);
        }
    }

    pub fn forget(&self, id: RecordId) {
        let _critical = base::critical::enter();
        if let Some(books) = self.own_books() {
            forget(&books, id.0.get());
        }
    }

    /// The books, as long as the arena is this process's: what it has handed over it changes no more.
    fn own_books(&self) -> Option<Books<'_>> {
        Some(self.arena.books()).filter(|books| !books.is_frozen())
    }

    #[inline]
    pub fn is_adopting(&self) -> bool {
        self.is_adopting.load(Relaxed)
    }

    #[inline]
    pub fn note_serving(&self, thread: usize, record: Option<RecordId>) {
        self.arena.note_serving(thread, record.map_or(0, |id| id.0.get()));
    }

    pub fn serving_at_death(&self) -> Vec<Suspect> {
        let mut numbers = std::mem::take(&mut *self.serving.lock().unwrap_or_else(PoisonError::into_inner));
        numbers.sort_unstable();
        numbers.dedup();
        let books = self.arena.books();
        numbers.into_iter().filter_map(|number| suspect(&books, number)).collect()
    }

    pub fn is_published(&self, id: RecordId) -> bool {
        is_live(&self.arena.books(), id.0.get())
    }

    pub fn published(&self) -> usize {
        let books = self.arena.books();
        books.all().into_iter().filter(|&number| is_live(&books, number)).count()
    }

    pub fn memory_bytes(&self) -> Option<u64> {
        self.arena.memory_bytes()
    }

    pub fn freeze(&self) {
        self.arena.freeze();
    }
}

/// The size of an arena for a store of that limit, and how much of freed pages it may keep.
fn size_of(limit: Option<u64>) -> Option<(ArenaSize, u64)> {
    let bytes = limit.and_then(spread).or_else(machine_memory)?;
    let limit = limit.unwrap_or(bytes as u64);
    let pages = u32::try_from(bytes.div_ceil(PAGE) + 1).unwrap_or(u32::MAX >> 2);
    let buckets = (limit / BUCKET).next_power_of_two().min(MOST_BUCKETS) as u32;
    Some((ArenaSize { pages, buckets }, keep_bytes(limit)))
}

fn machine_memory() -> Option<usize> {
    usize::try_from(sys::limits::machine_memory()?).ok()
}

impl Keeper for Owner {
    fn last_dropped(&self, slot: Unheld<'_>) {
        let _critical = base::critical::enter();
        if slot.word(STATE).load(Relaxed) == LIVE {
            let books = slot.books();
            if !books.is_frozen() {
                forget(&books, slot.number());
            }
        }
        let bytes = slot.free();
        self.0.release(bytes);
    }
}

type Word<'a> = &'a std::sync::atomic::AtomicU32;

/// State, link, and the word of the digest that chooses the bucket.
fn words_of<'a>(books: &'a Books<'_>, number: u32) -> (Option<Word<'a>>, Option<Word<'a>>, Option<u32>) {
    let hash = books.word(number, HASH).map(|word| word.load(Relaxed));
    (books.word(number, STATE), books.word(number, NEXT), hash)
}

fn forget(books: &Books<'_>, number: u32) {
    let (Some(state), _, Some(hash)) = words_of(books, number) else { return };
    if state.compare_exchange(KEPT, DEAD, AcqRel, Acquire).is_ok() {
        return;
    }
    if state.compare_exchange(LIVE, DEAD, AcqRel, Acquire).is_err() {
        return;
    }
    let mut link = books.bucket(hash);
    for _ in 0..MOST_LINKS {
        let at = link.load(Relaxed);
        let Some(next) = books.word(at, NEXT) else { return };
        if at == number {
            link.store(next.load(Relaxed), Release);
            return;
        }
        link = next;
    }
}

fn is_live(books: &Books<'_>, number: u32) -> bool {
    books.word(number, STATE).is_some_and(|state| state.load(Acquire) == LIVE)
}

fn digest_of(books: &Books<'_>, number: u32) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let (parts, _) = digest.as_chunks_mut::<4>();
    for (n, part) in parts.iter_mut().enumerate() {
        *part = books.word(number, words::digest_word(n))?.load(Relaxed).to_le_bytes();
    }
    Some(digest)
}

/// Counts the death of a worker that was serving that record.
fn suspect(books: &Books<'_>, number: u32) -> Option<Suspect> {
    let record = RecordId(NonZeroU32::new(number)?);
    if books.word(number, STATE)?.load(Acquire) != LIVE {
        return None;
    }
    let mixed = books.word(number, MIXED)?;
    if mixed.load(Relaxed) < u32::MAX - DEATH {
        mixed.fetch_add(DEATH, Relaxed);
    }
    let digest = digest_of(books, number)?;
    let xid = books.word64(number, words::XID_WORD)?.load(Relaxed);
    Some(Suspect { record, digest, xid, deaths: mixed.load(Relaxed) / DEATH })
}

#[cfg(test)]
mod tests;
