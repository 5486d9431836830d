// SPDX-License-Identifier: BSD-2-Clause
//! A connection's socket: TCP or Unix, never blocking.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use nix::sys::socket::{MsgFlags, recv};

use crate::faults::Fault;
use crate::target::Address;

/// Either kind.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Inet(TcpStream),
    /// In the file system.
    Unix(UnixStream),
}

impl Socket {
    /// Begins to connect; `from` is the address to come from.
    ///
    /// # Errors
    /// It failed at once.
    pub fn connect(to: &Address, from: Option<IpAddr>) -> io::Result<Socket> {
        match (to, from) {
            (Address::Unix(path), _) => UnixStream::connect(path).map(Socket::Unix),
            (Address::Inet(to), None) => {
                let stream = TcpStream::connect(*to)?;
                stream.set_nodelay(true)?;
                Ok(Socket::Inet(stream))
            }
            (Address::Inet(to), Some(from)) => {
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
                Ok(Socket::Inet(TcpStream::from_std(socket.into())))
            }
        }
    }

    /// Has the poll tell of it.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        match self {
            Socket::Inet(stream) => stream.register(registry, token, both),
            Socket::Unix(stream) => stream.register(registry, token, both),
        }
    }

    /// What went wrong with connecting, if something did.
    pub fn take_error(&self) -> Option<io::Error> {
        match self {
            Socket::Inet(stream) => stream.take_error(),
            Socket::Unix(stream) => stream.take_error(),
        }
        .unwrap_or_else(Some)
    }

    /// Reads.
    ///
    /// # Errors
    /// WouldBlock, or that the connection is broken.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Socket::Inet(stream) => stream.read(buffer),
                Socket::Unix(stream) => stream.read(buffer),
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
    /// As [`Socket::read`].
    pub fn discard(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Socket::Inet(stream) = self else { return self.read(buffer) };
        loop {
            match stream.try_io(|| Ok(recv(stream.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC)?)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Writes.
    ///
    /// # Errors
    /// As [`Socket::read`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match self {
                Socket::Inet(stream) => stream.write(bytes),
                Socket::Unix(stream) => stream.write(bytes),
            };
            match written {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// What an error of connecting is.
pub fn connect_fault(error: &io::Error) -> Fault {
    use nix::libc::{EADDRNOTAVAIL, EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOENT};
    match error.raw_os_error() {
        // A Unix listener's queue that is full says EAGAIN.
        Some(EMFILE | ENFILE | EADDRNOTAVAIL | ENOBUFS | EAGAIN) => Fault::Exhausted,
        Some(ENOENT) => Fault::Refused,
        _ if error.kind() == io::ErrorKind::ConnectionRefused => Fault::Refused,
        _ if error.kind() == io::ErrorKind::TimedOut => Fault::Timeout,
        _ if error.kind() == io::ErrorKind::ConnectionReset => Fault::Reset,
        _ => Fault::Connect,
    }
}
