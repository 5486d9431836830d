// SPDX-License-Identifier: BSD-2-Clause
//! What a store is to be. The text of `-s` is the manager's business; kinds are declared in `tables::stores`.

use std::fs::File;
use std::sync::Arc;

use crate::home::Home;
use tables::stores::{StoreMedium, TRANSIENT};

/// One store to be opened.
#[derive(Debug, Clone)]
pub struct StoreSpec {
    /// Name given, or `s0`, `s1`, ... in the order of the unnamed ones.
    pub name: String,
    /// Kind of the store.
    pub kind: StoreMedium,
    /// Most bytes it may hold; `None` for no limit. Of a store with a home: in memory.
    pub limit: Option<u64>,
    /// The memory (a memfd) of a store in memory that outlives its worker, of any length: the store makes it as long as it
    /// needs. Without one, or in another kind of store, nothing survives.
    pub arena: Option<Arc<File>>,
    /// Home for objects that aren't in memory: the store itself is the front then, in memory, whatever its kind.
    pub home: Option<Arc<dyn Home>>,
}

impl StoreSpec {
    /// A store in memory.
    pub fn malloc(name: &str, limit: Option<u64>) -> StoreSpec {
        StoreSpec { name: name.to_owned(), kind: StoreMedium::Malloc, limit, arena: None, home: None }
    }

    /// One store in memory, and Transient.
    pub fn in_memory(limit: Option<u64>) -> Vec<StoreSpec> {
        vec![StoreSpec::malloc("s0", limit), StoreSpec::malloc(TRANSIENT, None)]
    }
}
