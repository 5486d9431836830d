// SPDX-License-Identifier: BSD-2-Clause
//! Doubles of what `storage` asks of others.

mod home;

pub use home::SimulatedHome;
