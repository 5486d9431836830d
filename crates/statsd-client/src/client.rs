// SPDX-License-Identifier: BSD-2-Clause
//! Where samples go: a connected, nonblocking datagram socket.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::SampleBatch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsdTarget {
    /// Host name or address, and port. IPv6 addresses stand without brackets here.
    Udp(String, u16),
    /// Path of a Unix datagram socket.
    Unix(PathBuf),
}

impl fmt::Display for StatsdTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsdTarget::Udp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            StatsdTarget::Udp(host, port) => write!(f, "{host}:{port}"),
            StatsdTarget::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

const PORT: u16 = 8125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    Empty,
    /// The text after the last colon is no port.
    Port,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetError::Empty => "no statsd named: write HOST, HOST:PORT, [IPv6]:PORT or /path/of/socket",
            TargetError::Port => "the port of the statsd is no number from 1 to 65535",
        })
    }
}

impl std::error::Error for TargetError {}

impl FromStr for StatsdTarget {
    type Err = TargetError;

    /// `HOST`, `HOST:PORT`, `[IPv6]:PORT`, or a path that begins with `/` or `unix:`.
    fn from_str(text: &str) -> Result<StatsdTarget, TargetError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(StatsdTarget::Unix(path.into()));
        }
        if text.starts_with('/') {
            return Ok(StatsdTarget::Unix(text.into()));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or(TargetError::Port)?)),
            // More than one colon without brackets is an IPv6 address.
            None if text.matches(':').count() == 1 => {
                text.split_once(':').map(|(h, p)| (h, Some(p))).unwrap_or((text, None))
            }
            None => (text, None),
        };
        if host.is_empty() {
            return Err(TargetError::Empty);
        }
        let port = match port {
            None => PORT,
            Some(port) => port.parse().ok().filter(|p| *p != 0).ok_or(TargetError::Port)?,
        };
        Ok(StatsdTarget::Udp(host.to_owned(), port))
    }
}

/// A socket to a statsd. Sending never waits: what the kernel doesn't take at once is dropped and counted.
#[derive(Debug)]
pub struct StatsdClient {
    socket: Socket,
    sent: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl StatsdClient {
    /// Makes the socket. A host name is looked up here, which may take as long as the resolver does; the first address
    /// is used. Nobody needs to listen there yet, except at a Unix path.
    pub fn connect(target: &StatsdTarget) -> io::Result<StatsdClient> {
        let socket = match target {
            StatsdTarget::Udp(host, port) => Socket::Udp(udp(base::lookup::addresses(host, *port)?.into_iter())?),
            StatsdTarget::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                socket.connect(path)?;
                Socket::Unix(socket)
            }
        };
        Ok(StatsdClient { socket, sent: AtomicU64::new(0), dropped: AtomicU64::new(0) })
    }

    pub fn send(&self, batch: &mut SampleBatch) {
        for datagram in batch.datagrams() {
            let sent = match &self.socket {
                Socket::Udp(socket) => socket.send(datagram),
                Socket::Unix(socket) => socket.send(datagram),
            };
            // A refusal (ECONNREFUSED) is told on the send after the one it answers.
            let counter = if sent.is_ok() { &self.sent } else { &self.dropped };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        batch.clear();
    }

    /// Datagrams that the kernel took.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Datagrams that it didn't.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn udp(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<UdpSocket> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        match socket.connect(address) {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(format!("{:?}", text.parse::<StatsdTarget>()), expected, "{text}");
    }

    #[test]
    fn targets() {
        check("h", r#"Ok(Udp("h", 8125))"#);
        check("10.0.0.1:1", r#"Ok(Udp("10.0.0.1", 1))"#);
        check("::1", r#"Ok(Udp("::1", 8125))"#);
        check("[::1]:9", r#"Ok(Udp("::1", 9))"#);
        check("[::1]", r#"Ok(Udp("::1", 8125))"#);
        check("/run/s", r#"Ok(Unix("/run/s"))"#);
        check("unix:s", r#"Ok(Unix("s"))"#);
        check("", "Err(Empty)");
        check(":1", "Err(Empty)");
        check("h:", "Err(Port)");
        check("h:0", "Err(Port)");
        check("h:99999", "Err(Port)");
        check("[::1]x", "Err(Port)");
    }

    #[test]
    fn a_batch_arrives() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = StatsdClient::connect(&server.local_addr().unwrap().to_string().parse().unwrap()).unwrap();
        let mut batch = SampleBatch::new("", "", crate::DATAGRAM_BYTES);
        batch.count(b"a", 1);
        batch.timing(b"b", 2.0);
        client.send(&mut batch);
        assert!(batch.is_empty());
        let mut into = [0; 64];
        let n = server.recv(&mut into).unwrap();
        assert_eq!(&into[..n], b"a:1|c\nb:2|ms");
        assert_eq!((client.sent(), client.dropped()), (1, 0));
    }
}
