// SPDX-License-Identifier: BSD-2-Clause
//! An engine for tests, put together as `worker` does it: with a log and counters that nobody else sees, stores in memory,
//! and VCL from a text.

mod ground;
mod load;

pub use ground::{EngineSettings, Ground, leaked, listener};
pub use load::{EngineModules, backends, load};
