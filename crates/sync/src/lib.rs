// SPDX-License-Identifier: BSD-2-Clause
//! What threads share through an ordering of their own instead of one lock. Each type is small enough for loom to try every
//! interleaving of the product's own code: the models are in `proofs.rs` beside it, and `tests/proofs/run` runs them.
//!
//! Two more such types are unsafe, so they are in `sys`: `sys::arc_cell` and `sys::arena::count`.

pub mod derived_flag;
pub mod limit;
pub mod line;
mod lock;
pub mod noted_number;

pub use derived_flag::DerivedFlag;
pub use limit::Limit;
pub use line::{Called, Line, Turn};
pub use noted_number::NotedNumber;
