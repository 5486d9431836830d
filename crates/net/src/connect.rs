// SPDX-License-Identifier: BSD-2-Clause
//! Connections to backends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::{Stream, scarce};

/// "Too many open files", as the kernel says it.
const EMFILE: i32 = 24;

/// Address to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConnectTarget {
    /// An address for TCP.
    Inet(SocketAddr),
    /// A unix socket's path, or `@name` of an abstract one.
    Unix(PathBuf),
}

/// Reasons why no connection came about.
#[derive(Debug)]
pub enum ConnectError {
    /// The limit `connect_timeout` passed.
    Timeout,
    /// Refused, unreachable, no such socket, out of descriptors...
    Os(io::Error),
}

/// Connects, at most within `limit` (zero: the system's own limit). TCP_NODELAY is set.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(target: &ConnectTarget, limit: Duration) -> Result<Stream, ConnectError> {
    if let Some(network) = crate::network::current() {
        return network.connect(target).map_err(ConnectError::Os);
    }
    let connected = rt::timeout(limit, async {
        match target {
            ConnectTarget::Inet(addr) => {
                let stream = TcpStream::connect(addr).await?;
                look_for_scarcity(stream.as_raw_fd())?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            ConnectTarget::Unix(path) => {
                let stream = UnixStream::connect(sys::sock::unix_path(path)).await?;
                look_for_scarcity(stream.as_raw_fd())?;
                Ok(Stream::Unix(stream))
            }
        }
    });
    connected.await.map_err(|rt::Elapsed| ConnectError::Timeout)?.map_err(ConnectError::Os)
}

/// A fetch may have one of the last descriptors, in the place of an idle client, but none of those that are the CLI's.
fn look_for_scarcity(number: RawFd) -> io::Result<()> {
    if scarce::are_few_left(Some(number)) {
        scarce::end_longest_idle();
        if scarce::is_kept(number) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_nobody_listens_on_refuses() {
        rt::run(async {
            let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let refused = connect(&ConnectTarget::Inet(addr), Duration::from_secs(5)).await;
            assert!(matches!(refused, Err(ConnectError::Os(e)) if e.kind() == io::ErrorKind::ConnectionRefused));
            let missing = connect(&ConnectTarget::Unix("/nonexistent/socket".into()), Duration::ZERO).await;
            assert!(matches!(missing, Err(ConnectError::Os(e)) if e.kind() == io::ErrorKind::NotFound));
        })
        .unwrap();
    }
}
