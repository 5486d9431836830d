// SPDX-License-Identifier: BSD-2-Clause
//! Atomics for types whose orderings loom checks: those of `std`, or in a build with `--cfg loom` loom's ([`model`]).

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence},
    thread::yield_now,
};

#[cfg(loom)]
pub use self::model::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub use loom::{hint::spin_loop, sync::Arc, thread::yield_now};

#[cfg(loom)]
pub mod model;
