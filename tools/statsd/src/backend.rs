// SPDX-License-Identifier: BSD-2-Clause
//! Who gets the flushes, and the packets.

pub mod carbon;
pub mod console;
pub mod file;
pub mod graphite;
pub mod prometheus;
pub mod repeater;
