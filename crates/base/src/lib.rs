// SPDX-License-Identifier: BSD-2-Clause
//! Ground-level types every crate shares: vxids, clocks, duration and byte-size text, words of command lines. Depends on nothing of ours.

#![warn(clippy::shadow_unrelated)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod args;
pub mod clock;
pub mod costs;
pub mod critical;
pub mod failpoint;
pub mod fnmatch;
pub mod lock;
pub mod print;
pub mod short;
pub mod spelling;
pub mod text;
pub mod tool;
mod vxid;

pub use clock::{Clock, Mono, Real};
pub use vxid::{Vxid, VxidSource};
