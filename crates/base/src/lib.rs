// SPDX-License-Identifier: BSD-2-Clause
//! Types and functions at the bottom of every crate: vxids, clocks, locks, text of durations and byte sizes, hexadecimal digits, base64, matching and look-up of names. Depends on nothing of ours.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

pub mod base64;
pub mod clock;
mod columns;
pub mod costs;
pub mod critical;
pub mod failpoint;
pub mod fnmatch;
pub mod hex;
pub mod lock;
pub mod lookup;
pub mod short;
pub mod spelling;
pub mod text;
mod vxid;

pub use clock::{Clock, Mono, Real};
pub use columns::columns;
pub use vxid::{Vxid, VxidSource};
