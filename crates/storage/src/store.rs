// SPDX-License-Identifier: BSD-2-Clause
//! One store: its limit, its account, its allocations.
//!
//! Today every store lives on the heap. The interface is the one the segment store will have: whole blocks in, counted
//! handles out, the account exact at every moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tables::counters::Sma;

use crate::buf::Buf;
use crate::spec::{Kind, StoreSpec};

/// Largest single block.
pub const MAX_BLOCK: usize = 1 << 30;

/// Position of a store in its [`crate::Stores`].
pub type StoreId = u8;

/// The store's limit doesn't allow this allocation now. Evict from the store and try again, or give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSpace {
    /// Which store is full.
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

/// One `-s`.
pub struct Store {
    id: StoreId,
    name: Box<str>,
    kind: Kind,
    account: Arc<Account>,
}

/// What is held, against the limit. Shared by all blocks of the store.
struct Account {
    limit: Option<u64>,
    held: AtomicU64,
    counters: &'static Sma,
}

/// The right to hold some bytes of a store; gives them back when dropped.
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Store {
    pub(crate) fn new(id: StoreId, spec: &StoreSpec, counters: &'static Sma) -> Self {
        if let Some(limit) = spec.limit {
            counters.g_space.set(limit);
        }
        let account = Account { limit: spec.limit, held: AtomicU64::new(0), counters };
        Self { id, name: spec.name.clone().into(), kind: spec.kind, account: Arc::new(account) }
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
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes held now.
    pub fn used_bytes(&self) -> u64 {
        self.account.held.load(Relaxed)
    }

    /// Bytes still free; `None` when the store has no limit.
    pub fn free_bytes(&self) -> Option<u64> {
        self.account.limit.map(|limit| limit.saturating_sub(self.used_bytes()))
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
        let needed = len as u64;
        let full = NoSpace { store: self.id, needed };
        if len > MAX_BLOCK {
            return Err(full);
        }
        let charge = self.account.charge(needed).ok_or(full)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| full)?;
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        Ok(Buf::charged(bytes.into_boxed_slice(), charge))
    }
}

impl Account {
    fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let counters = &self.counters;
        counters.c_req.inc();
        let fits = |held: u64| match self.limit {
            Some(limit) => held.checked_add(bytes).filter(|&sum| sum <= limit),
            None => held.checked_add(bytes),
        };
        if self.held.try_update(Relaxed, Relaxed, fits).is_err() {
            counters.c_fail.inc();
            return None;
        }
        counters.c_bytes.add(bytes);
        counters.g_alloc.inc();
        counters.g_bytes.add(bytes);
        if self.limit.is_some() {
            counters.g_space.sub(bytes);
        }
        Some(Charge { account: self.clone(), bytes })
    }
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let (account, bytes) = (&self.account, self.bytes);
        let held = account.held.fetch_sub(bytes, Relaxed);
        assert!(held >= bytes, "more bytes given back than were held");
        account.counters.g_alloc.sub(1);
        account.counters.g_bytes.sub(bytes);
        account.counters.c_freed.add(bytes);
        if account.limit.is_some() {
            account.counters.g_space.add(bytes);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "storage.{} ({} bytes used)", self.name, self.used_bytes())
    }
}
