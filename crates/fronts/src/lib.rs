// SPDX-License-Identifier: BSD-2-Clause
//! Front ends: one per HTTP version. Each turns its connections into requests for `engine` and the answers into bytes. What begins,
//! waits and ends is the same for all ([`session`]); a front adds its codec ([`h1`], [`h2`]).

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod buffers;
mod conn;
mod h1;
mod h2;
pub mod h3;
mod handshake;
mod output;
mod pace;
mod proxy;
mod refusal;
mod send_limits;
mod session;
mod waits;

pub use session::{AcceptedClient, serve};

pub fn trim() {
    h1::trim();
    h2::trim();
    h3::trim();
}
