// SPDX-License-Identifier: BSD-2-Clause
//! The management protocol, both ends, without a socket: [`decode`] turns bytes into commands, [`reply`] frames what is
//! answered, [`auth`] is the challenge, [`client`] the other end, [`handoff`] what a worker is told at its birth.

pub mod auth;
pub mod client;
pub mod decode;
pub mod drain;
pub mod handoff;
pub mod record;
pub mod reply;
pub mod words;

pub use client::{ReplyDecoder, quote};
pub use decode::{CliDecoder, CliRequest};
pub use reply::{CliReply, CliStatus};
