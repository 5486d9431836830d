// SPDX-License-Identifier: BSD-2-Clause
//! TLS for tests: a certificate with its authority, and both roles with them.

mod world;

pub use world::*;
