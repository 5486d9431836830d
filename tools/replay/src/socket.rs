// SPDX-License-Identifier: BSD-2-Clause
//! A connection's socket: TCP, Unix or UDP, never blocking.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UdpSocket, UnixStream};
use mio::{Interest, Registry, Token};
use nix::sys::socket::{MsgFlags, recv};

use tls::Over;

use crate::faults::ReplayFault;
use crate::target::ReplayAddress;

#[derive(Debug)]
pub enum ReplaySocket {
    Inet(TcpStream),
    Unix(UnixStream),
    Tls(Box<Over<TcpStream>>),
    /// Datagrams to one address: what QUIC goes by.
    Udp(UdpSocket),
}

impl ReplaySocket {
    /// Begins to connect; `from` is the address to come from, `tls` what speaks TLS.
    ///
    /// # Errors
    /// It failed at once.
    pub fn connect(
        to: &ReplayAddress,
        from: Option<IpAddr>,
        tls: Option<&Arc<tls::TlsClient>>,
    ) -> io::Result<ReplaySocket> {
        match to {
            ReplayAddress::Unix(path) => UnixStream::connect(path).map(ReplaySocket::Unix),
            ReplayAddress::Inet(to) => ReplaySocket::inet(to, from).map(ReplaySocket::Inet),
            ReplayAddress::Tls(to, name) => {
                let tls = tls.ok_or(io::ErrorKind::Unsupported)?;
                let over = Over::client(ReplaySocket::inet(to, from)?, tls, name).map_err(io::Error::other)?;
                Ok(ReplaySocket::Tls(Box::new(over)))
            }
        }
    }

    /// A socket for datagrams to `to` and from there; `from` is the address to come from.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn datagrams(to: SocketAddr, from: Option<IpAddr>) -> io::Result<ReplaySocket> {
        let any = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let socket = UdpSocket::bind(SocketAddr::new(from.unwrap_or(any), 0))?;
        socket.connect(to)?;
        Ok(ReplaySocket::Udp(socket))
    }

    fn inet(to: &SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
        match from {
            None => {
                let stream = TcpStream::connect(*to)?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            Some(from) => {
                let socket = socket2::Socket::new(socket2::Domain::for_address(*to), socket2::Type::STREAM, None)?;
                socket.set_nonblocking(true)?;
                socket.set_tcp_nodelay(true)?;
                // The port is chosen at connect, when the other end is known: as many ports as there are pairs.
                nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::IpBindAddressNoPort, &true)?;
                socket.bind(&SocketAddr::new(from, 0).into())?;
                match socket.connect(&(*to).into()) {
                    Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => return Err(error),
                    _ => {}
                }
                Ok(TcpStream::from_std(socket.into()))
            }
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        match self {
            ReplaySocket::Inet(stream) => stream.register(registry, token, both),
            ReplaySocket::Unix(stream) => stream.register(registry, token, both),
            ReplaySocket::Tls(over) => over.below_mut().register(registry, token, both),
            ReplaySocket::Udp(socket) => socket.register(registry, token, both),
        }
    }

    pub fn take_error(&self) -> Option<io::Error> {
        match self {
            ReplaySocket::Inet(stream) => stream.take_error(),
            ReplaySocket::Unix(stream) => stream.take_error(),
            ReplaySocket::Tls(over) => over.below().take_error(),
            ReplaySocket::Udp(socket) => socket.take_error(),
        }
        .unwrap_or_else(Some)
    }

    /// Reads; a datagram is read as a whole.
    ///
    /// # Errors
    /// WouldBlock, or that the connection is broken.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                ReplaySocket::Inet(stream) => stream.read(buffer),
                ReplaySocket::Unix(stream) => stream.read(buffer),
                ReplaySocket::Tls(over) => over.read(buffer),
                ReplaySocket::Udp(socket) => socket.recv(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Reads and throws away, without copying where the kernel can do that.
    ///
    /// # Errors
    /// As [`ReplaySocket::read`].
    pub fn discard(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ReplaySocket::Inet(stream) = self else { return self.read(buffer) };
        loop {
            match stream.try_io(|| Ok(recv(stream.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC)?)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match self {
                ReplaySocket::Inet(stream) => stream.write(bytes),
                ReplaySocket::Unix(stream) => stream.write(bytes),
                ReplaySocket::Tls(over) => over.write(bytes),
                ReplaySocket::Udp(socket) => socket.send(bytes),
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            // These keep nothing.
            ReplaySocket::Inet(_) | ReplaySocket::Unix(_) | ReplaySocket::Udp(_) => Ok(()),
            ReplaySocket::Tls(over) => over.flush(),
        }
    }

    /// True if a read may leave something that no event will report.
    pub fn keeps_some(&self) -> bool {
        matches!(self, ReplaySocket::Tls(_))
    }

    pub fn agreed(&self) -> Option<&tls::HandshakeInfo> {
        match self {
            ReplaySocket::Inet(_) | ReplaySocket::Unix(_) | ReplaySocket::Udp(_) => None,
            ReplaySocket::Tls(over) => over.info(),
        }
    }

    /// Parts from the other end in order, where there is an order.
    pub fn part(&mut self) {
        if let ReplaySocket::Tls(over) = self {
            over.close();
        }
    }
}

pub fn connect_fault(error: &io::Error) -> ReplayFault {
    use nix::libc::{EADDRNOTAVAIL, EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOENT};
    match error.raw_os_error() {
        _ if tls::over::reason(error).is_some() => ReplayFault::Tls,
        // A Unix listener's queue that is full says EAGAIN.
        Some(EMFILE | ENFILE | EADDRNOTAVAIL | ENOBUFS | EAGAIN) => ReplayFault::Exhausted,
        Some(ENOENT) => ReplayFault::Refused,
        _ if error.kind() == io::ErrorKind::ConnectionRefused => ReplayFault::Refused,
        _ if error.kind() == io::ErrorKind::TimedOut => ReplayFault::Timeout,
        _ if error.kind() == io::ErrorKind::ConnectionReset => ReplayFault::Reset,
        _ => ReplayFault::Connect,
    }
}
