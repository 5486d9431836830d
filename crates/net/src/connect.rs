// SPDX-License-Identifier: BSD-2-Clause
//! Connections to backends.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::Stream;

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// TCP.
    Inet(SocketAddr),
    /// A unix socket's path.
    Unix(PathBuf),
}

/// Why no connection came about.
#[derive(Debug)]
pub enum ConnectError {
    /// `connect_timeout` passed.
    Timeout,
    /// Refused, unreachable, no such socket, out of descriptors...
    Os(io::Error),
}

/// Connects, at most within `limit` (zero: the system's own limit). TCP_NODELAY is set.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(target: &Target, limit: Duration) -> Result<Stream, ConnectError> {
    let _ = (target, limit);
    todo!()
}
