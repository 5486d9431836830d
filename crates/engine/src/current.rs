// SPDX-License-Identifier: BSD-2-Clause
//! What this thread is working on, for panic reports and the watchdog.

use std::cell::Cell;

use base::Vxid;

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(Current { vxid: Vxid(0), step: "" }) };
}

/// A transaction and its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The transaction; [`Vxid::NONE`] between two.
    pub vxid: Vxid,
    /// The step's name.
    pub step: &'static str,
}

/// This thread works on that step of that transaction.
pub fn enter(vxid: Vxid, step: &'static str) {
    CURRENT.with(|current| current.set(Current { vxid, step }));
}

/// What this thread works on.
pub fn get() -> Current {
    CURRENT.with(Cell::get)
}
