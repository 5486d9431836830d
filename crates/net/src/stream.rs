// SPDX-License-Identifier: BSD-2-Clause
//! A connected stream: readiness first, so that nobody holds a buffer while waiting.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rt::Instant;
use tokio::net::{TcpStream, UnixStream};

use crate::Address;

/// A connected stream, registered with the runtime of its thread.
#[derive(Debug)]
pub enum Stream {
    /// TCP over IPv4 or IPv6.
    Tcp(TcpStream),
    /// A unix-domain stream.
    Unix(UnixStream),
}

/// A connected stream that is registered with no runtime: what pools keep and threads hand over.
#[derive(Debug)]
pub struct Bare {
    fd: OwnedFd,
    unix: bool,
}

/// What waits on an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Nothing: the connection may be used.
    Nothing,
    /// Bytes that nobody asked for: don't use it.
    Data,
    /// The peer has closed, or the connection is in error: don't use it.
    Closed,
}

/// Why a read or write with a deadline came to nothing.
#[derive(Debug)]
pub enum IoError {
    /// The deadline passed.
    Timeout,
    /// The peer closed its side before all was written.
    Closed,
    /// The operating system's word.
    Os(io::Error),
}

impl Stream {
    /// Takes a connected socket over and registers it with this thread's runtime.
    ///
    /// # Errors
    /// The descriptor can't be registered.
    pub fn from_bare(bare: Bare) -> io::Result<Self> {
        let _ = bare;
        todo!()
    }

    /// Takes the stream out of its runtime.
    ///
    /// # Errors
    /// The descriptor can't be deregistered; it is closed then.
    pub fn into_bare(self) -> io::Result<Bare> {
        todo!()
    }

    /// Waits until bytes can be read or the peer has closed.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        todo!()
    }

    /// Waits until bytes can be written.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        todo!()
    }

    /// Reads what is there; 0 is the end. `WouldBlock` when nothing is.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let _ = into;
        todo!()
    }

    /// Reads what is there to the end of `into`, up to its spare capacity (nothing is reserved); 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; the operating system's word.
    pub fn try_read_buf(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let _ = into;
        todo!()
    }

    /// Writes what fits. `WouldBlock` when nothing does.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let _ = bytes;
        todo!()
    }

    /// Writes what fits of several pieces with one system call. `WouldBlock` when nothing does.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let _ = pieces;
        todo!()
    }

    /// Reads at least one byte to the end of `into` (within its spare capacity, which must not be zero); 0 is the end.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes; `None` waits for ever.
    pub async fn read_buf(&self, into: &mut Vec<u8>, deadline: Option<Instant>) -> Result<usize, IoError> {
        let _ = (into, deadline);
        todo!()
    }

    /// Reads at least one byte; 0 is the end.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes; `None` waits for ever.
    pub async fn read(&self, into: &mut [u8], deadline: Option<Instant>) -> Result<usize, IoError> {
        let _ = (into, deadline);
        todo!()
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes before the last byte is with the kernel.
    pub async fn write_all(&self, bytes: &[u8], deadline: Option<Instant>) -> Result<(), IoError> {
        let _ = (bytes, deadline);
        todo!()
    }

    /// Writes all pieces; they are used up on the way. `idle`: the longest wait without progress (`idle_send_timeout`),
    /// zero for none.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` or `idle` passes.
    pub async fn write_all_vectored(
        &self,
        pieces: &mut [IoSlice<'_>],
        idle: Duration,
        deadline: Option<Instant>,
    ) -> Result<(), IoError> {
        let _ = (pieces, idle, deadline);
        todo!()
    }

    /// What waits to be read, without reading it.
    pub fn pending(&self) -> Pending {
        todo!()
    }

    /// Says that nothing more will be written (FIN).
    pub fn shutdown_write(&self) {
        todo!()
    }

    /// Makes close send RST, so that a peer sees a cut and not an end.
    pub fn reset_on_close(&self) {
        todo!()
    }

    /// The peer's address.
    pub fn peer(&self) -> Address {
        todo!()
    }

    /// Our own address.
    pub fn local(&self) -> Address {
        todo!()
    }

    /// Whether it is a unix-domain stream.
    pub fn is_unix(&self) -> bool {
        matches!(self, Stream::Unix(_))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

impl Bare {
    /// A connected stream socket from elsewhere. Its family is looked up.
    ///
    /// # Errors
    /// It isn't a socket.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let _ = fd;
        todo!()
    }

    /// What waits to be read, without reading it.
    pub fn pending(&self) -> Pending {
        let _ = self.unix;
        todo!()
    }
}

impl AsFd for Bare {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
