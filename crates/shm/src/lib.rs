// SPDX-License-Identifier: BSD-2-Clause
//! Shared memory in varnish-7.1's formats: segment index ([`vsm`]), counters ([`vsc`]), log ring ([`vsl`]).
//!
//! Everything another process sees is written through atomics, in the order its readers rely on; [`reader`] reads
//! counters back, ours or a genuine varnishd's.
#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]
#![warn(missing_docs)]
#![allow(unsafe_code)] // Memory shared with other processes; each block says why it is sound.

mod map;
pub mod reader;
pub mod vsc;
pub mod vsl;
pub mod vsm;
