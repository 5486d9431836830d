// SPDX-License-Identifier: BSD-2-Clause
//! The disk home of a store. Knows bytes in blocks; no HTTP, no VCL, no socket.
//!
//! * [`Device`] is what the blocks are on: a file or a block device, asked by operations that end later; a [`FileDevice`] is such a one.

mod device;

pub use device::{Counts, Device, DeviceError, DeviceOptions, Done, Engine, FileDevice, Op, Patience, run};
