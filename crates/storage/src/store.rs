// SPDX-License-Identifier: BSD-2-Clause
//! One store: its limit, its account, its allocations.
//!
//! Blocks of two pages and more have pages of their own in the store's region, so that churn leaves no gaps that cost memory
//! and what is freed goes back to the system; smaller ones are on the heap. The account says what is occupied: whole pages
//! there, bytes here.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use sys::arena::BlockHeader;
use sys::extent::{Extent, PAGE, Region};
use sys::pages::Pages;
use tables::stores::StoreMedium;
use triomphe::ThinArc;

use crate::buf::Buf;
use crate::home::Home;
use crate::record::StoreOpening;
use crate::records::StoreRecords;
use crate::spec::StoreSpec;
use crate::tally::StoreTally;

/// Smallest block with pages of its own.
const PAGED: usize = 2 * PAGE;
/// Address space for a byte of the limit: gaps between extents cost none of the limit.
const SPREAD: u64 = 2;
/// Share of the limit that may be kept as freed pages: one part in this many; at least [`KEEP_LEAST`] bytes.
const KEEP_SHARE: u64 = 256;
const KEEP_LEAST: u64 = 1 << 20;

/// Share of a store with a home that one body may have while it is fetched: one part in this many; at least
/// [`FRONT_SHARE_LEAST`] bytes.
const FRONT_SHARE: u64 = 4;
const FRONT_SHARE_LEAST: u64 = 256 << 10;

/// Bytes of nobody's account are copied into their block up to this length.
const COPIED: usize = 1 << 10;

/// Bytes of the largest block.
pub const MAX_BLOCK: usize = 1 << 30;

/// Position of a store in its [`crate::Stores`].
pub type StoreId = u8;

/// The store's limit doesn't allow this allocation now. Evict from the store and try again, or give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSpace {
    /// Number of the full store.
    pub store: StoreId,
    /// Bytes that were asked for.
    pub needed: u64,
}

impl std::fmt::Display for NoSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "store {} has no room for {} bytes", self.store, self.needed)
    }
}

impl std::error::Error for NoSpace {}

/// A store, as `-s` declares it.
pub struct Store {
    id: StoreId,
    name: Box<str>,
    kind: StoreMedium,
    account: Arc<StoreAccount>,
    /// Region of paged blocks; without one all are on the heap.
    region: Option<Arc<Region>>,
    /// Records of a store with an arena, which survive.
    records: Option<StoreRecords>,
    opening: OnceLock<StoreOpening>,
    home: Option<Arc<dyn Home>>,
}

/// Account of the bytes held, against the limit. Shared by all blocks of the store.
pub(crate) struct StoreAccount {
    limit: Option<u64>,
    /// A lower limit for the time being; `u64::MAX` is none.
    cap: AtomicU64,
    held: AtomicU64,
    counters: StoreTally,
}

/// A block: the right to hold its bytes, and these, if they aren't elsewhere. One allocation for most objects.
pub(crate) type StoreBlock = ThinArc<Charge, u8>;

/// The right to hold a block's bytes; gives it back when dropped.
pub(crate) enum Charge {
    /// Bytes that follow in the block. Without an account no store accounts for them.
    Here { bytes: u32, account: Option<Arc<StoreAccount>> },
    /// Elsewhere and of nobody's account; none follow in the block.
    #[allow(clippy::box_collection, reason = "each byte here is one of every stored object")]
    Vec(Box<Vec<u8>>),
    /// Bytes in pages of the store.
    Paged(Box<PagedBlock>),
    /// In pages that a disk has filled, of nobody's account.
    Read(Box<ReadPages>),
}

/// Pages that a disk has filled, counted as long as there is a handle on any of their bytes.
pub(crate) struct ReadPages {
    pages: Pages,
    held: Arc<AtomicU64>,
}

pub(crate) struct PagedBlock {
    /// There until it is dropped.
    extent: Option<Extent>,
    account: Arc<StoreAccount>,
}

impl Store {
    /// `beside`: another process has the arena, and hands it over later.
    pub(crate) fn open(id: StoreId, spec: &StoreSpec, counters: StoreTally, beside: bool) -> io::Result<Self> {
        let limit = spec.limit;
        if let Some(limit) = limit {
            counters.g_space.set(limit);
        }
        let account =
            Arc::new(StoreAccount { limit, cap: AtomicU64::new(u64::MAX), held: AtomicU64::new(0), counters });
        let name = spec.name.clone().into();
        let (records, opening) = match &spec.arena {
            // What a home has survives by itself.
            Some(_) if spec.home.is_some() => (None, Some(StoreOpening::default())),
            Some(arena) if beside => (StoreRecords::reserve(arena, spec.limit, &account), None),
            Some(arena) => {
                let (records, opening) = StoreRecords::open(arena, spec.limit, &account);
                (records, Some(opening))
            }
            None => (None, Some(StoreOpening::default())),
        };
        let opening = opening.map(OnceLock::from).unwrap_or_default();
        let region = match &records {
            Some(records) => Some(records.region().clone()),
            // Without so much address space (a limit on it, strict overcommit) the heap serves as well as it can.
            None => limit.and_then(in_memory),
        };
        Ok(Self { id, name, kind: spec.kind, account, region, records, opening, home: spec.home.clone() })
    }

    /// State of the store when it was opened.
    pub fn opening(&self) -> &StoreOpening {
        static NOT_YET: StoreOpening = StoreOpening { generation: 0, pages_found: 0, refusal: None };
        self.opening.get().unwrap_or(&NOT_YET)
    }

    pub(crate) fn opening_cell(&self) -> &OnceLock<StoreOpening> {
        &self.opening
    }

    pub(crate) fn records(&self) -> Option<&StoreRecords> {
        self.records.as_ref()
    }

    pub(crate) fn account(&self) -> &Arc<StoreAccount> {
        &self.account
    }

    /// Position among the worker's stores.
    pub fn id(&self) -> StoreId {
        self.id
    }

    /// Name as in VCL's `storage.NAME` (`s0`, `Transient`, ...).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `malloc`, `file`, ... as `storage.list` and the log's Storage record write it.
    pub fn kind(&self) -> StoreMedium {
        self.kind
    }

    /// Home of objects that aren't in memory.
    #[inline]
    pub fn home(&self) -> Option<&Arc<dyn Home>> {
        self.home.as_ref()
    }

    /// Bytes of memory that one body takes before it is read from the store's home; without a home any body is in
    /// memory, as it is without a limit.
    pub fn front_share(&self) -> Option<u64> {
        self.home.as_ref()?;
        Some((self.account.bound()? / FRONT_SHARE).max(FRONT_SHARE_LEAST))
    }

    /// Number of bytes held.
    pub fn used_bytes(&self) -> u64 {
        self.account.held.load(Relaxed)
    }

    /// Bytes still free; `None` when the store has no limit.
    pub fn free_bytes(&self) -> Option<u64> {
        self.account.bound().map(|bound| bound.saturating_sub(self.used_bytes()))
    }

    /// Until further notice it may hold no more than this, whatever its limit says. What it holds already stays.
    pub fn set_cap(&self, cap: Option<u64>) {
        self.account.cap.store(cap.unwrap_or(u64::MAX), Relaxed);
    }

    /// Bytes held in pages of the store's own: the others are on the heap.
    pub fn paged_bytes(&self) -> u64 {
        self.region.as_ref().map_or(0, |region| region.used_bytes())
    }

    /// Memory of pages that were freed and are kept for the next blocks. A file's are the file's.
    pub fn kept_bytes(&self) -> u64 {
        self.region.as_ref().map_or(0, |region| region.kept_bytes())
    }

    /// The limit in bytes; `None` when there is none.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.account.limit
    }

    /// Copies `parts`, one after the other, into a new block of exactly their length.
    ///
    /// # Errors
    /// [`NoSpace`] when the limit (or the machine) doesn't allow it, or the parts are more than [`MAX_BLOCK`] together.
    pub fn block(&self, parts: &[&[u8]]) -> Result<Buf, NoSpace> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let full = NoSpace { store: self.id, needed: len as u64 };
        if len > MAX_BLOCK {
            return Err(full);
        }
        self.account.counters.c_req.tally();
        let block = self.paged(parts, len).or_else(|| self.on_heap(parts, len));
        block.map(Buf::over).ok_or_else(|| {
            self.account.counters.c_fail.inc();
            full
        })
    }

    /// A block in pages of its own, if it is worth that and there is room for whole pages.
    fn paged(&self, parts: &[&[u8]], len: usize) -> Option<StoreBlock> {
        if len >= PAGED { self.in_pages(parts, len) } else { None }
    }

    /// A block in pages of its own, if there is room for whole pages.
    pub(crate) fn in_pages(&self, parts: &[&[u8]], len: usize) -> Option<StoreBlock> {
        let region = self.region.as_ref()?;
        let cost = len.next_multiple_of(PAGE) as u64;
        if !self.account.charge(cost) {
            return None;
        }
        let critical = base::critical::enter();
        let extent = region.extent(parts);
        drop(critical);
        let Some(extent) = extent else {
            self.account.give_back(cost);
            return None;
        };
        Some(Charge::paged(extent, self.account.clone()))
    }

    fn on_heap(&self, parts: &[&[u8]], len: usize) -> Option<StoreBlock> {
        if !self.account.charge(len as u64) {
            return None;
        }
        // Dropped, it gives back what was charged.
        let charged = Charge::Here { bytes: len as u32, account: Some(self.account.clone()) };
        match parts {
            [all] => StoreBlock::try_from_header_and_slice(charged, all).ok(),
            _ => {
                let mut all = Vec::new();
                all.try_reserve_exact(len).ok()?;
                parts.iter().for_each(|part| all.extend_from_slice(part));
                StoreBlock::try_from_header_and_slice(charged, &all).ok()
            }
        }
    }
}

fn in_memory(limit: u64) -> Option<Arc<Region>> {
    Region::anonymous(spread(limit)?, keep_bytes(limit)).ok()
}

pub(crate) fn spread(limit: u64) -> Option<usize> {
    usize::try_from(limit.checked_mul(SPREAD)?).ok()
}

/// Bytes of that limit that may be kept as freed pages.
pub(crate) fn keep_bytes(limit: u64) -> u64 {
    (limit / KEEP_SHARE).max(KEEP_LEAST)
}

impl StoreAccount {
    fn bound(&self) -> Option<u64> {
        let cap = Some(self.cap.load(Relaxed)).filter(|&cap| cap != u64::MAX);
        self.limit.into_iter().chain(cap).min()
    }

    pub(crate) fn charge(&self, bytes: u64) -> bool {
        let counters = &self.counters;
        let bound = self.bound().unwrap_or(u64::MAX);
        let fits = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= bound);
        if self.held.try_update(Relaxed, Relaxed, fits).is_err() {
            return false;
        }
        counters.c_bytes.tally_add(bytes);
        counters.g_alloc.inc();
        counters.g_bytes.add(bytes);
        if self.limit.is_some() {
            counters.g_space.untally(bytes);
        }
        true
    }

    /// Charges what is there already, whatever the limit says; `blocks` are so many as will be released with it.
    pub(crate) fn charge_found(&self, bytes: u64, blocks: u64) {
        self.held.fetch_add(bytes, Relaxed);
        self.counters.c_bytes.tally_add(bytes);
        self.counters.g_alloc.add(blocks);
        self.counters.g_bytes.add(bytes);
        if self.limit.is_some() {
            self.counters.g_space.untally(bytes);
        }
    }

    /// Releases what [`StoreAccount::charge_found`] has charged without a block.
    pub(crate) fn release_found(&self, bytes: u64) {
        self.counters.g_alloc.inc();
        self.release(bytes);
    }

    pub(crate) fn count_request(&self) {
        self.counters.c_req.tally();
    }

    /// Undoes a charge whose bytes couldn't be had.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.release(bytes);
        self.counters.c_bytes.untally(bytes);
        self.counters.c_freed.untally(bytes);
    }

    pub(crate) fn release(&self, bytes: u64) {
        let held = self.held.fetch_sub(bytes, Relaxed);
        assert!(held >= bytes, "more bytes given back than were held");
        self.counters.g_alloc.untally(1);
        self.counters.g_bytes.untally(bytes);
        self.counters.c_freed.tally_add(bytes);
        if self.limit.is_some() {
            self.counters.g_space.add(bytes);
        }
    }
}

impl std::fmt::Debug for StoreAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of {:?}", self.held.load(Relaxed), self.limit)
    }
}

impl BlockHeader for Charge {
    #[inline]
    fn bytes(block: &StoreBlock) -> &[u8] {
        match &block.header.header {
            Charge::Here { .. } => &block.slice,
            Charge::Vec(bytes) => bytes,
            Charge::Paged(paged) => paged.extent(),
            Charge::Read(read) => &read.pages,
        }
    }
}

impl Charge {
    pub fn unaccounted(bytes: Vec<u8>) -> StoreBlock {
        if bytes.len() <= COPIED {
            let charged = Charge::Here { bytes: bytes.len() as u32, account: None };
            return StoreBlock::from_header_and_slice(charged, &bytes);
        }
        StoreBlock::from_header_and_slice(Charge::Vec(Box::new(bytes)), &[])
    }

    /// For bytes in pages of their own, which that account is charged with.
    pub fn paged(extent: Extent, account: Arc<StoreAccount>) -> StoreBlock {
        StoreBlock::from_header_and_slice(Charge::Paged(Box::new(PagedBlock { extent: Some(extent), account })), &[])
    }

    /// A block of pages that a disk has filled; `held` counts their bytes.
    pub fn read(pages: Pages, held: Arc<AtomicU64>) -> StoreBlock {
        held.fetch_add(pages.len() as u64, Relaxed);
        StoreBlock::from_header_and_slice(Charge::Read(Box::new(ReadPages { pages, held })), &[])
    }

    pub fn extent(&self) -> Option<&Extent> {
        match self {
            Charge::Here { .. } | Charge::Vec(_) | Charge::Read(_) => None,
            Charge::Paged(paged) => Some(paged.extent()),
        }
    }

    pub fn charged_bytes(&self) -> u64 {
        match self {
            Charge::Here { bytes, account: Some(_) } => u64::from(*bytes),
            Charge::Here { account: None, .. } | Charge::Vec(_) | Charge::Read(_) => 0,
            Charge::Paged(paged) => paged.extent().page_bytes(),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Charge::Here { bytes, account: Some(account) } = self
            && !base::failpoint::fault("a leak of storage")
        {
            account.release(u64::from(*bytes));
        }
    }
}

impl PagedBlock {
    fn extent(&self) -> &Extent {
        self.extent.as_ref().expect("a block has its pages until it is dropped")
    }
}

impl Drop for ReadPages {
    fn drop(&mut self) {
        self.held.fetch_sub(self.pages.len() as u64, Relaxed);
    }
}

impl Drop for PagedBlock {
    fn drop(&mut self) {
        let bytes = self.extent().page_bytes();
        // First the pages: whoever is then told that there is room finds them free.
        {
            let _critical = base::critical::enter();
            self.extent = None;
        }
        if base::failpoint::fault("a double release of storage") && self.account.held.load(Relaxed) >= 2 * bytes {
            self.account.release(bytes);
        }
        self.account.release(bytes);
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "storage.{} ({} bytes used)", self.name, self.used_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_its_bytes_and_little_else() {
        // With the count before it and the length behind it.
        assert!(size_of::<Charge>() + 16 <= 32, "{}", size_of::<Charge>());
        assert_eq!(size_of::<Buf>(), 16);
    }
}
