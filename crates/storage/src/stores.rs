// SPDX-License-Identifier: BSD-2-Clause
//! All stores of a worker.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tables::stores::TRANSIENT;

use crate::home::Home;
use crate::spec::StoreSpec;
use crate::store::{Store, StoreId};
use crate::tally::StoreTally;

/// The stores in the order of `storage.list`; the last is Transient. At least two, at most 255.
pub struct Stores {
    all: Vec<Arc<Store>>,
    turn: AtomicUsize,
}

impl Stores {
    /// Opens these stores; `counters` gives each its set (`SMA.<name>`, `SMF.<name>`).
    ///
    /// # Errors
    /// What is wrong with a store's file.
    pub fn open<T: Into<StoreTally>>(specs: &[StoreSpec], counters: impl FnMut(&StoreSpec) -> T) -> io::Result<Stores> {
        Self::all_of(specs, counters, false)
    }

    /// Opens them beside a process that has their arenas, and is to hand them over: [`Store::take_over`].
    ///
    /// # Errors
    /// As of [`Stores::open`].
    pub fn open_beside<T: Into<StoreTally>>(
        specs: &[StoreSpec],
        counters: impl FnMut(&StoreSpec) -> T,
    ) -> io::Result<Stores> {
        Self::all_of(specs, counters, true)
    }

    fn all_of<T: Into<StoreTally>>(
        specs: &[StoreSpec],
        mut counters: impl FnMut(&StoreSpec) -> T,
        beside: bool,
    ) -> io::Result<Stores> {
        assert!(specs.len() <= StoreId::MAX as usize, "stores are numbered in one byte");
        assert!(specs.last().is_some_and(|spec| spec.name == TRANSIENT), "Transient is the last store");
        let open = |(id, spec): (usize, &StoreSpec)| {
            Store::open(id as StoreId, spec, counters(spec).into(), beside).map(Arc::new)
        };
        Ok(Stores { all: specs.iter().enumerate().map(open).collect::<Result<_, _>>()?, turn: AtomicUsize::new(0) })
    }

    /// All stores, Transient last.
    pub fn all(&self) -> &[Arc<Store>] {
        &self.all
    }

    /// The homes of those that have one.
    pub fn homes(&self) -> impl Iterator<Item = &dyn Home> {
        self.all.iter().filter_map(|store| store.home().map(|home| &**home))
    }

    /// The store of this number.
    pub fn get(&self, id: StoreId) -> &Arc<Store> {
        &self.all[id as usize]
    }

    /// The store of this name (`s0`, `Transient`).
    pub fn named(&self, name: &str) -> Option<&Arc<Store>> {
        self.all.iter().find(|store| store.name() == name)
    }

    /// The store for passed and short-lived objects.
    pub fn transient(&self) -> &Arc<Store> {
        self.all.last().expect("there is always Transient")
    }

    /// The store of a new object when VCL didn't choose: each but Transient in turn.
    pub fn next(&self) -> &Arc<Store> {
        let count = (self.all.len() - 1).max(1);
        &self.all[self.turn.fetch_add(1, Relaxed) % count]
    }
}
