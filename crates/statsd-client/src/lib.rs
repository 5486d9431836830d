// SPDX-License-Identifier: BSD-2-Clause
//! Sending metrics to a statsd: samples as lines, lines packed into datagrams, datagrams sent without ever waiting.
//!
//! [`Batch`] is pure and writes bytes; [`Client`] owns the socket. Nothing here can block, fail loudly or grow: what
//! doesn't fit or can't be sent is dropped and counted.

mod batch;
mod client;

pub use batch::{Batch, DATAGRAM_BYTES};
pub use client::{Client, Target, TargetError};
