// SPDX-License-Identifier: BSD-2-Clause
//! How much memory the server takes, and who holds it.

mod meter;
mod report;

pub use meter::Meter;
pub use report::Report;

/// What the worker knows of its memory.
pub struct Memory {
    pub meter: Meter,
}

impl Memory {
    /// Of this worker.
    pub fn new(manager_pid: u32) -> Memory {
        Memory { meter: Meter::new(manager_pid) }
    }

    /// `memory_limit` in bytes, if there is one.
    pub fn limit(&self) -> Option<u64> {
        None
    }

    /// What is being done about it.
    pub fn step(&self) -> &'static str {
        "none"
    }
}
