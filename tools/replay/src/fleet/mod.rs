// SPDX-License-Identifier: BSD-2-Clause
//! One run of several processes or machines: a coordinator reads the source and adds up, workers send.
//!
//! They talk over one TCP connection each (`wire`): orders and requests one way, credits and what was counted the other way. A
//! worker that dies costs its share of the requests and is told of; a coordinator that dies ends its workers' run.

pub mod coordinator;
mod dealer;
mod handshake;
mod orders;
mod tally;
mod wire;
pub mod worker;

use std::net::TcpStream;
use std::time::Duration;

/// A peer that is silent for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(10);
/// Batches that a worker has been sent and hasn't begun, for each stream.
const AHEAD: usize = 16;
/// Streams of a run: the first, and the walker.
const MAX_STREAMS: usize = 2;

/// Sets options of both ends of a connection: small frames go at once, and a machine that vanished is noticed.
fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(SILENCE / 2).with_interval(SILENCE / 5))?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}
