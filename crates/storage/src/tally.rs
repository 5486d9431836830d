// SPDX-License-Identifier: BSD-2-Clause
//! A store's counters of memory.

use tables::counters::{Counter, Sma};

/// References to them: a store doesn't know in which set they are.
pub struct StoreTally {
    pub(crate) c_req: &'static Counter,
    pub(crate) c_fail: &'static Counter,
    pub(crate) c_bytes: &'static Counter,
    pub(crate) c_freed: &'static Counter,
    pub(crate) g_alloc: &'static Counter,
    pub(crate) g_bytes: &'static Counter,
    pub(crate) g_space: &'static Counter,
}

impl From<&'static Sma> for StoreTally {
    fn from(sma: &'static Sma) -> Self {
        let Sma { c_req, c_fail, c_bytes, c_freed, g_alloc, g_bytes, g_space } = sma;
        StoreTally { c_req, c_fail, c_bytes, c_freed, g_alloc, g_bytes, g_space }
    }
}
