// SPDX-License-Identifier: BSD-2-Clause
//! Memory in whole pages: a [`Region`] of address space from which owned [`Extent`]s are handed out.
//!
//! What a general allocator can't promise under churn, this does: pages in use are those of the extents, plus at most
//! `keep_bytes` of pages that were freed and not yet given back to the system. Address space is reserved beyond the
//! bytes that are ever in use, so that gaps between extents cost none of them.
//!
//! The bytes of an extent never change. They may be lent to the kernel, to be sent without a copy
//! ([`crate::lend`]): packets may then refer to the pages after the extent is gone, so that such pages aren't used again but
//! given back, which leaves them to whom still has them.
//!
//! The pages may be part of an arena ([`crate::arena`]), memory that outlives the process: then a table there says which
//! are in use.

mod freeze;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::map::MemoryMap;
use freeze::Freeze;

/// Bytes of a page: extents begin on one and fill whole ones.
pub const PAGE: usize = 4096;

/// Once sent so often an extent is worth lending: what is sent once or twice had better leave pages that can be used again
/// at once.
const OFTEN: u8 = 2;

/// Pages that go back to the system at once, unless so many more were freed: a megabyte takes some 100 us. A large store keeps hundreds of
/// megabytes of freed pages, in runs that may be as long.
const GIVEN_PAGES: u32 = 256;

#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    keep_pages: u64,
    backing: Backing,
    free: Mutex<Free>,
}

#[derive(Debug)]
enum Backing {
    Memory,
    Shared(SharedPages),
}

/// Pages of memory that outlives the process, with a word for each in a table: that of an extent's first page says what
/// begins there, all others are 0.
#[derive(Debug)]
pub(crate) struct SharedPages {
    pub map: Arc<MemoryMap>,
    pub table: usize,
    /// Frozen, the pages are another process's: nothing is taken any more, and what is freed only isn't read here any more.
    freeze: Freeze,
}

impl SharedPages {
    /// Pages of a mapping that are nobody's yet, or another process's.
    pub fn frozen(map: Arc<MemoryMap>, table: usize) -> SharedPages {
        SharedPages { map, table, freeze: Freeze::new() }
    }
}

/// In the table: an extent of so many pages begins here.
pub(crate) const EXTENT: u32 = 1 << 30;
/// All bits of the table that say what, not how many.
pub(crate) const WHAT: u32 = 3 << 30;

// SAFETY: the mapping isn't tied to a thread; its parts are reached through the extents that own them alone.
unsafe impl Send for Region {}
// SAFETY: as above; the list of free pages is behind a lock.
unsafe impl Sync for Region {}

/// Free pages: `clean` ones hold no memory, `dirty` ones do.
#[derive(Debug, Default)]
struct Free {
    clean: FreeRuns,
    dirty: FreeRuns,
    /// Those that another process may still read; `None`: there is none.
    deferred: Option<Deferred>,
}

#[derive(Debug, Default)]
struct Deferred {
    runs: Vec<(u32, u32)>,
    pages: u64,
}

impl Free {
    fn defers(&mut self, first: u32, pages: u32) -> bool {
        if let Some(deferred) = &mut self.deferred {
            deferred.runs.push((first, pages));
            deferred.pages += u64::from(pages);
        }
        self.deferred.is_some()
    }
}

/// Owned bytes in pages of their own; the pages go back to the region when it is dropped.
#[derive(Debug)]
pub struct Extent {
    region: Arc<Region>,
    first: u32,
    pages: u32,
    len: u32,
    /// Number of times it was sent, as far as that counts.
    sent: AtomicU8,
    lent: AtomicBool,
}

impl Region {
    /// Address space of `len` bytes (rounded up to pages) with memory of the process's own behind it, as it is used.
    ///
    /// # Errors
    /// The system's, when there isn't that much address space.
    pub fn anonymous(len: usize, keep_bytes: u64) -> io::Result<Arc<Region>> {
        let size = rounded(len)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: new memory at an address of the kernel's choice aliases nothing of ours.
        let base = unsafe { mmap_anonymous(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) }?;
        if !cfg!(miri) {
            // SAFETY: the range just mapped. Huge pages would keep memory around extents that are gone; refused is no harm.
            let _ = unsafe { madvise(base, size.get(), MmapAdvise::MADV_NOHUGEPAGE) };
        }
        Ok(Region::over(base.cast(), size.get(), keep_bytes, Backing::Memory))
    }

    /// `len` bytes of shared memory from `at` on; of the pages none is free yet ([`Region::add_free`]).
    pub(crate) fn shared(shared: SharedPages, at: usize, len: usize, keep_bytes: u64) -> Arc<Region> {
        assert!(
            at.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len <= shared.map.len() - at,
            "pages of the mapping"
        );
        let keep_pages = keep_bytes / PAGE as u64;
        // SAFETY: within the mapping, which `shared` holds.
        let base = unsafe { shared.map.base().add(at) };
        Arc::new(Region { base, len, keep_pages, backing: Backing::Shared(shared), free: Mutex::default() })
    }

    fn over(base: NonNull<u8>, len: usize, keep_bytes: u64, backing: Backing) -> Arc<Region> {
        let mut free = Free::default();
        free.clean.put(0, (len / PAGE) as u32);
        Arc::new(Region { base, len, keep_pages: keep_bytes / PAGE as u64, backing, free: Mutex::new(free) })
    }

    /// Copies `parts`, one after the other, into an extent; `None` when there is no gap for it (or no part has a byte, or
    /// they are 4 GiB together).
    pub fn extent(self: &Arc<Region>, parts: &[&[u8]]) -> Option<Extent> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let len = u32::try_from(len).ok().filter(|&len| len > 0)?;
        let pages = len.div_ceil(PAGE as u32);
        let first = self.take(pages)?;
        self.mark_taken(first, EXTENT | pages);
        let (sent, lent) = (AtomicU8::new(0), AtomicBool::new(false));
        let mut extent = Extent { region: self.clone(), first, pages, len, sent, lent };
        let mut rest = extent.bytes_mut();
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        Some(extent)
    }

    pub fn used_bytes(&self) -> u64 {
        let free = self.free();
        // Page 0 of an arena is nobody's.
        let nobodys = u64::from(matches!(self.backing, Backing::Shared(_)));
        (self.len as u64 / PAGE as u64 - nobodys - free.clean.pages - free.dirty.pages) * PAGE as u64
    }

    pub fn kept_bytes(&self) -> u64 {
        self.free().dirty.pages * PAGE as u64
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        // Nothing under this lock panics but an assertion about the lists themselves, which ends the process.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An extent of a former process. The caller has made sure that the pages are that extent's, and asks once.
    pub(crate) fn found(self: &Arc<Region>, first: u32, pages: u32, len: u32) -> Extent {
        assert!(len > 0 && len.div_ceil(PAGE as u32) == pages, "an extent fills its pages");
        // Packets of the former process may still refer to the pages.
        let (sent, lent) = (AtomicU8::new(0), AtomicBool::new(true));
        let _within = self.at(first, pages as usize * PAGE);
        Extent { region: self.clone(), first, pages, len, sent, lent }
    }

    /// Pages that nobody has, of a region that began without any. Whether they hold memory isn't known.
    pub(crate) fn add_free(&self, first: u32, pages: u32) {
        self.free().clean.put(first, pages);
    }

    /// Gives all memory of free pages back: what a former process had kept is in none of our lists of such.
    pub(crate) fn give_back_free(&self) {
        let runs: Vec<(u32, u32)> = self.free().clean.by_place.iter().map(|(&first, &pages)| (first, pages)).collect();
        for (first, pages) in runs {
            let is_free = {
                let mut free = self.free();
                let is_free = !self.is_frozen() && free.clean.take_this(first, pages);
                if is_free {
                    self.begin_change();
                }
                is_free
            };
            if is_free {
                self.give_back_to_list(first, pages);
            }
        }
    }

    /// Writes the word of pages that were just taken into the table, if there is one. Whoever finds it later finds what was
    /// written before.
    pub(crate) fn mark_taken(&self, first: u32, word: u32) {
        self.mark(first, word);
        self.changed();
    }

    fn mark(&self, first: u32, word: u32) {
        if let Backing::Shared(shared) = &self.backing {
            shared.map.u32_at(shared.table + first as usize * 4).store(word, Release);
        }
    }

    /// A change is under way, which [`Region::changed`] ends. The caller has the list of free pages.
    fn begin_change(&self) {
        if let Backing::Shared(shared) = &self.backing {
            shared.freeze.begin_change();
        }
    }

    fn changed(&self) {
        if let Backing::Shared(shared) = &self.backing {
            shared.freeze.end_change();
        }
    }

    pub(crate) fn is_frozen(&self) -> bool {
        matches!(&self.backing, Backing::Shared(shared) if shared.freeze.is_frozen())
    }

    /// See [`SharedPages::freeze`]. When this returns the table changes no more by this process.
    pub(crate) fn freeze(&self) {
        if let Backing::Shared(shared) = &self.backing {
            let free = self.free();
            shared.freeze.set(true);
            drop(free);
            shared.freeze.wait();
        }
    }

    /// The pages are this process's from now on; if `another` may still read what was in use, nothing freed is used again
    /// before [`Region::own`].
    pub(crate) fn thaw(&self, another: bool) {
        if let Backing::Shared(shared) = &self.backing {
            let mut free = self.free();
            free.deferred = another.then(Deferred::default);
            shared.freeze.set(false);
        }
    }

    pub(crate) fn own(&self) {
        let deferred = self.free().deferred.take().unwrap_or_default();
        deferred.runs.into_iter().for_each(|(first, pages)| self.put_lent(first, pages));
    }

    pub(crate) fn deferred_bytes(&self) -> u64 {
        self.free().deferred.as_ref().map_or(0, |deferred| deferred.pages * PAGE as u64)
    }

    /// Runs of pages that are in use here: as free as they may be, a frozen region knows what is still read.
    pub(crate) fn used_runs(&self) -> Vec<(u32, u32)> {
        let free = self.free();
        let all = free.clean.by_place.iter().chain(&free.dirty.by_place);
        let mut gaps: Vec<(u32, u32)> = all.map(|(&first, &pages)| (first, pages)).collect();
        drop(free);
        gaps.sort_unstable();
        let (mut at, mut runs) = (1, Vec::new());
        for (first, pages) in gaps.into_iter().chain([((self.len / PAGE) as u32, 0)]) {
            if first > at {
                runs.push((at, first - at));
            }
            at = at.max(first + pages);
        }
        runs
    }

    pub(crate) fn take(&self, pages: u32) -> Option<u32> {
        let (first, is_clean) = self.take_run(pages)?;
        if is_clean && pages > 1 {
            self.populate(first, pages);
        }
        Some(first)
    }

    /// Pages, and whether they hold no memory yet. Until [`Region::mark_taken`] a change is under way.
    fn take_run(&self, pages: u32) -> Option<(u32, bool)> {
        let mut free = self.free();
        if self.is_frozen() {
            return None;
        }
        let taken = self.take_from(&mut free, pages);
        if taken.is_some() {
            self.begin_change();
        }
        taken
    }

    fn take_from(&self, free: &mut Free, pages: u32) -> Option<(u32, bool)> {
        if let Some(first) = free.dirty.take(pages) {
            return Some((first, false));
        }
        if let Some(first) = free.clean.take(pages) {
            return Some((first, true));
        }
        // Clean and dirty neighbours may make a gap together.
        while let Some((first, given)) = free.dirty.pop_longest(GIVEN_PAGES) {
            self.give_back(first, given);
            free.clean.put(first, given);
            if let Some(first) = free.clean.take(pages) {
                return Some((first, true));
            }
        }
        None
    }

    /// Gets memory for shared pages that are about to be written, all at once: page by page 64 KB take 35 us to write, so
    /// 26 (memory of the process's own 30). A kernel that can't leaves it to the writes.
    fn populate(&self, first: u32, pages: u32) {
        if let Backing::Shared(_) = self.backing
            && !cfg!(miri)
        {
            let at = self.at(first, pages as usize * PAGE);
            // SAFETY: pages of the mapping; none of their bytes changes by this.
            let _ = unsafe { libc::madvise(at.as_ptr().cast(), pages as usize * PAGE, libc::MADV_POPULATE_WRITE) };
        }
    }

    pub(crate) fn put(&self, first: u32, pages: u32) {
        let surplus = {
            let mut free = self.free();
            if free.defers(first, pages) {
                return;
            }
            free.dirty.put(first, pages);
            if self.is_frozen() {
                return;
            }
            self.mark(first, 0);
            let is_surplus = free.dirty.pages > self.keep_pages;
            let surplus = is_surplus.then(|| free.dirty.pop_longest(pages.max(GIVEN_PAGES))).flatten();
            surplus.inspect(|_| self.begin_change())
        };
        if let Some((first, pages)) = surplus {
            self.give_back_to_list(first, pages);
        }
    }

    /// Pages that packets may still refer to.
    pub(crate) fn put_lent(&self, first: u32, pages: u32) {
        {
            let mut free = self.free();
            if free.defers(first, pages) {
                return;
            }
            if self.is_frozen() {
                free.clean.put(first, pages);
                return;
            }
            self.mark(first, 0);
            self.begin_change();
        }
        self.give_back_to_list(first, pages);
    }

    /// The pages are in no list while the system takes them. It ends a change.
    fn give_back_to_list(&self, first: u32, pages: u32) {
        self.give_back(first, pages);
        self.free().clean.put(first, pages);
        self.changed();
    }

    fn give_back(&self, first: u32, pages: u32) {
        let advice = match self.backing {
            Backing::Memory => MmapAdvise::MADV_DONTNEED,
            // Of shared memory a hole is made: what packets still refer to is theirs alone then.
            Backing::Shared(_) => MmapAdvise::MADV_REMOVE,
        };
        let at = self.at(first, pages as usize * PAGE);
        if !cfg!(miri) {
            // SAFETY: no extent owns these pages and no list offers them; their next user writes before it reads.
            let _ = unsafe { madvise(at.cast(), pages as usize * PAGE, advice) };
        }
    }

    fn at(&self, first: u32, len: usize) -> NonNull<u8> {
        let offset = first as usize * PAGE;
        assert!(offset <= self.len && len <= self.len - offset, "an extent beyond its region");
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Backing::Shared(_) = self.backing {
            return;
        }
        // SAFETY: exactly the range that was mapped; extents hold the region, so that none is left.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

fn rounded(len: usize) -> io::Result<NonZeroUsize> {
    let rounded = len.checked_next_multiple_of(PAGE).filter(|len| len / PAGE <= u32::MAX as usize);
    rounded.and_then(NonZeroUsize::new).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

impl Extent {
    pub fn place(&self) -> (&Arc<Region>, u32) {
        (&self.region, self.first)
    }

    pub fn page_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE as u64
    }

    /// Notes that it is sent once more; whether it was so often that lending it pays.
    pub fn note_send(&self) -> bool {
        let sent = self.sent.load(Relaxed);
        if sent < OFTEN {
            self.sent.store(sent + 1, Relaxed);
        }
        sent >= OFTEN
    }

    /// The bytes, for the kernel to keep beyond the extent's life.
    pub(crate) fn lend(&self) -> &[u8] {
        self.lent.store(true, Relaxed);
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.region.at(self.first, self.len as usize);
        // SAFETY: these pages are in no list and in no other extent, so that they are borrowed through `self` alone;
        // mapped memory always has a value.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), self.len as usize) }
    }
}

impl std::ops::Deref for Extent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let at = self.region.at(self.first, self.len as usize);
        // SAFETY: as in `bytes_mut`.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), self.len as usize) }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        match *self.lent.get_mut() {
            true => self.region.put_lent(self.first, self.pages),
            false => self.region.put(self.first, self.pages),
        }
    }
}

#[derive(Debug, Default)]
struct FreeRuns {
    /// First page to number of pages.
    by_place: BTreeMap<u32, u32>,
    by_length: BTreeSet<(u32, u32)>,
    pages: u64,
}

impl FreeRuns {
    fn put(&mut self, mut first: u32, mut pages: u32) {
        self.pages += u64::from(pages);
        let before = self.by_place.range(..first).next_back().map(|(&at, &len)| (at, len));
        if let Some((at, len)) = before {
            assert!(at + len <= first, "pages are freed once");
            if at + len == first {
                self.forget(at, len);
                (first, pages) = (at, pages + len);
            }
        }
        let after = self.by_place.range(first + 1..).next().map(|(&at, &len)| (at, len));
        if let Some((at, len)) = after {
            assert!(first + pages <= at, "pages are freed once");
            if first + pages == at {
                self.forget(at, len);
                pages += len;
            }
        }
        self.note(first, pages);
    }

    /// Cuts the shortest run that is long enough.
    fn take(&mut self, pages: u32) -> Option<u32> {
        let (len, first) = *self.by_length.range((pages, 0)..).next()?;
        self.forget(first, len);
        if len > pages {
            self.note(first + pages, len - pages);
        }
        self.pages -= u64::from(pages);
        Some(first)
    }

    /// Takes exactly this run; whether it was there.
    fn take_this(&mut self, first: u32, pages: u32) -> bool {
        let is_there = self.by_place.get(&first) == Some(&pages);
        if is_there {
            self.forget(first, pages);
            self.pages -= u64::from(pages);
        }
        is_there
    }

    /// The longest run, or its first `most` pages.
    fn pop_longest(&mut self, most: u32) -> Option<(u32, u32)> {
        let (len, first) = *self.by_length.last()?;
        self.forget(first, len);
        let taken = len.min(most);
        if taken < len {
            self.note(first + taken, len - taken);
        }
        self.pages -= u64::from(taken);
        Some((first, taken))
    }

    fn note(&mut self, first: u32, len: u32) {
        self.by_place.insert(first, len);
        self.by_length.insert((len, first));
    }

    fn forget(&mut self, first: u32, len: u32) {
        assert!(self.by_place.remove(&first) == Some(len) && self.by_length.remove(&(len, first)), "both lists agree");
    }
}

#[cfg(test)]
mod tests;
