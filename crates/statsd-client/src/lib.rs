// SPDX-License-Identifier: BSD-2-Clause
//! Sending metrics to a statsd: samples as lines, lines packed into datagrams, datagrams sent without ever waiting.
//!
//! [`SampleBatch`] is pure and writes bytes; [`StatsdClient`] owns the socket. Nothing here can block, fail loudly or grow: what
//! doesn't fit or can't be sent is dropped and counted.

mod batch;
mod client;

pub use batch::{DATAGRAM_BYTES, SampleBatch};
pub use client::{StatsdClient, StatsdTarget, TargetError};
