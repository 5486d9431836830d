// SPDX-License-Identifier: BSD-2-Clause
//! A connected stream: readiness first, so that nobody holds a buffer while waiting.

mod parked;
mod socketless;
mod zero_copy;

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rt::{Deadline, Instant};
use socket2::{Domain, SockRef};
use sys::tcp::SocketNumber;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{TcpStream, UnixStream};

use crate::Address;
use crate::sealed::{SealedStream, WriteFault};

pub use parked::ParkedStream;
pub use socketless::Socketless;
pub use zero_copy::ZeroCopy;

/// A connected stream, registered with the runtime of its thread.
#[derive(Debug)]
pub enum Stream {
    /// TCP over IPv4 or IPv6.
    Tcp(TcpStream),
    /// A unix-domain stream socket.
    Unix(UnixStream),
    /// One of the others, which carries TLS.
    Sealed(Box<SealedStream>),
    /// A stream without a descriptor.
    Socketless(Box<dyn Socketless>),
}

/// The same call on whatever a stream is.
macro_rules! on {
    ($stream:expr, $s:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($s) => $call,
            Stream::Unix($s) => $call,
            Stream::Sealed($s) => $call,
            Stream::Socketless($s) => $call,
        }
    };
}

/// State of an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleState {
    /// Nothing: the connection may be used.
    Nothing,
    /// Bytes that nobody asked for: don't use it.
    Data,
    /// The peer has closed, or the connection is in error: don't use it.
    Closed,
}

/// Reasons why a read or write with a deadline came to nothing.
#[derive(Debug)]
pub enum IoError {
    /// The deadline has passed.
    Timeout,
    /// The peer closed its side before all was written.
    Closed,
    /// The operating system's word.
    Os(io::Error),
}

/// TCP keepalive settings, as Varnish's `tcp_keepalive_*` parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Parameter `tcp_keepalive_time`, in seconds.
    pub time: Duration,
    /// Parameter `tcp_keepalive_intvl`, in seconds.
    pub interval: Duration,
    /// Number of probes (`tcp_keepalive_probes`).
    pub probes: u32,
}

impl Keepalive {
    pub(crate) fn wanted(&self) -> socket2::TcpKeepalive {
        socket2::TcpKeepalive::new().with_time(self.time).with_interval(self.interval).with_retries(self.probes)
    }
}

impl Stream {
    /// The two ends of a connection within this process, registered with this thread's runtime.
    ///
    /// # Errors
    /// No descriptors are to be had.
    pub fn pair() -> io::Result<(Self, Self)> {
        if let Some(network) = crate::network::current() {
            return Ok(network.pair());
        }
        let (one, other) = UnixStream::pair()?;
        Ok((Stream::Unix(one), Stream::Unix(other)))
    }

    /// Registers it with this thread's runtime instead of the one it came from.
    ///
    /// # Errors
    /// The descriptor can't be registered anew; it is closed then.
    pub(crate) fn move_here(self) -> io::Result<Self> {
        match self {
            Stream::Tcp(s) => TcpStream::from_std(s.into_std()?).map(Stream::Tcp),
            Stream::Unix(s) => UnixStream::from_std(s.into_std()?).map(Stream::Unix),
            Stream::Sealed(s) => s.move_here().map(|s| Stream::Sealed(Box::new(s))),
            Stream::Socketless(s) => Ok(Stream::Socketless(s)),
        }
    }

    /// The socket that carries it, for the options that sockets have. What travels on it may be sealed: nothing is read from it
    /// or written to it here.
    pub(crate) fn socket(&self) -> Option<SockRef<'_>> {
        match self {
            Stream::Tcp(s) => Some(SockRef::from(s)),
            Stream::Unix(s) => Some(SockRef::from(s)),
            Stream::Sealed(s) => s.inner().socket(),
            Stream::Socketless(_) => None,
        }
    }

    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Tcp(s) => Some(s),
            Stream::Unix(_) => None,
            Stream::Sealed(s) => s.inner().tcp(),
            Stream::Socketless(_) => None,
        }
    }

    pub(crate) fn fd(&self) -> Option<RawFd> {
        match self {
            Stream::Tcp(s) => Some(s.as_raw_fd()),
            Stream::Unix(s) => Some(s.as_raw_fd()),
            Stream::Sealed(s) => s.inner().fd(),
            Stream::Socketless(_) => None,
        }
    }

    /// The number in the log: that of its descriptor, or what stands for one.
    pub fn number(&self) -> u32 {
        match self {
            Stream::Tcp(s) => s.as_raw_fd().unsigned_abs(),
            Stream::Unix(s) => s.as_raw_fd().unsigned_abs(),
            Stream::Sealed(s) => s.inner().number(),
            Stream::Socketless(s) => s.number(),
        }
    }

    /// The descriptor's number, which says how many are open ([`crate::scarce`]); `None` where no socket is.
    pub fn descriptor(&self) -> Option<i32> {
        self.fd()
    }

    /// The socket, to ask the kernel about the connection; `None` where no socket is.
    pub fn socket_number(&self) -> Option<SocketNumber> {
        self.fd().map(SocketNumber::new)
    }

    /// A sender without a copy, where the kernel may take the bytes as they lie in memory: on TCP, and only as long as
    /// they travel as they are, or the kernel seals them.
    pub fn zero_copy(&self) -> Option<ZeroCopy<'_>> {
        match self {
            Stream::Tcp(socket) => Some(ZeroCopy { socket, sealed: None }),
            Stream::Sealed(s) => s.kernel_socket().map(|socket| ZeroCopy { socket, sealed: Some(s) }),
            Stream::Unix(_) => None,
            Stream::Socketless(_) => None,
        }
    }

    /// Puts it aside, for any thread.
    pub fn park(self) -> ParkedStream {
        ParkedStream { stream: self, home: rt::home(), turn: rt::park_count() }
    }

    /// Number of the user and group at the other end; only a unix socket knows.
    pub fn peer_ids(&self) -> Option<(u32, u32)> {
        match self {
            Stream::Tcp(_) => None,
            Stream::Socketless(_) => None,
            Stream::Unix(s) => s.peer_cred().ok().map(|ids| (ids.uid(), ids.gid())),
            Stream::Sealed(s) => s.inner().peer_ids(),
        }
    }

    /// Sets the type of service (traffic class) of what is sent from now on; nothing where that isn't TCP.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        let Some(s) = self.tcp() else { return Ok(()) };
        let socket = SockRef::from(s);
        if s.local_addr()?.is_ipv4() { socket.set_tos_v4(tos) } else { socket.set_tclass_v6(tos) }
    }

    /// Waits until bytes can be read or the peer has closed. Nothing may be there after all: a read says so, and then the wait
    /// is on again.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Socketless(s) => poll_fn(|cx| s.poll_readable(cx)).await,
            Stream::Tcp(s) => s.readable().await,
            Stream::Unix(s) => s.readable().await,
            Stream::Sealed(s) => s.readable().await,
        }
    }

    /// [`Stream::readable`] for hand-written futures.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(s) => s.poll_read_ready(cx),
            Stream::Unix(s) => s.poll_read_ready(cx),
            Stream::Sealed(s) => s.poll_readable(cx),
            Stream::Socketless(s) => s.poll_readable(cx),
        }
    }

    /// [`Stream::writable`] for hand-written futures.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tcp(s) => s.poll_write_ready(cx),
            Stream::Unix(s) => s.poll_write_ready(cx),
            Stream::Sealed(s) => s.inner().poll_writable(cx),
            Stream::Socketless(s) => s.poll_writable(cx),
        }
    }

    /// Waits until bytes can be written.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Stream::Socketless(s) => poll_fn(|cx| s.poll_writable(cx)).await,
            Stream::Tcp(s) => s.writable().await,
            Stream::Unix(s) => s.writable().await,
            Stream::Sealed(s) => s.writable().await,
        }
    }

    /// Reads what is there; 0 is the end. `WouldBlock` when nothing is.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        on!(self, s => s.try_read(into))
    }

    /// Reads what is there to the end of `into`, up to its spare capacity (nothing is reserved); 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; `InvalidInput` without spare capacity; the operating system's word.
    pub fn try_read_buf(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        if into.len() == into.capacity() {
            return Err(ErrorKind::InvalidInput.into());
        }
        on!(self, s => s.try_read_buf(into))
    }

    /// Does what [`Stream::try_read_buf`] does, and waits when nothing is there. A read that leaves spare capacity has
    /// emptied the socket: the next call then waits without asking the system again.
    pub fn poll_read_buf(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if into.len() == into.capacity() {
            return Poll::Ready(Err(ErrorKind::InvalidInput.into()));
        }
        match self {
            Stream::Tcp(s) => pin!(s.read_buf(into)).poll(cx),
            Stream::Unix(s) => pin!(s.read_buf(into)).poll(cx),
            Stream::Sealed(s) => s.poll_read_buf(cx, into),
            Stream::Socketless(s) => s.poll_read_buf(cx, into),
        }
    }

    /// Writes what fits. `WouldBlock` when nothing does.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.try_write(bytes),
            Stream::Unix(s) => s.try_write(bytes),
            Stream::Sealed(s) => s.try_write_vectored(&[IoSlice::new(bytes)]),
            Stream::Socketless(s) => s.try_write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes what fits of several pieces with one system call. `WouldBlock` when nothing does: the next call, of this or of
    /// [`Stream::try_write`], has to begin with the same bytes, as a part of them may be sealed already.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        on!(self, s => s.try_write_vectored(pieces))
    }

    /// Reads at least one byte to the end of `into` (within its spare capacity, which must not be zero); 0 is the end.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes; `None` waits for ever.
    pub async fn read_buf(&self, into: &mut Vec<u8>, deadline: Option<Instant>) -> Result<usize, IoError> {
        loop {
            match self.try_read_buf(into) {
                Ok(n) => return Ok(n),
                Err(error) => retry(error)?,
            }
            until(deadline, self.readable()).await?;
        }
    }

    /// Reads up to `bytes`, at least one, to the end of `into`, and makes room there only once there is something: who waits
    /// holds no buffer. 0 is the end.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes; `None` waits for ever.
    pub async fn read_more(
        &self,
        into: &mut Vec<u8>,
        bytes: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, IoError> {
        loop {
            until(deadline, self.readable()).await?;
            let held = into.capacity();
            into.reserve(bytes);
            match self.try_read_buf(into) {
                Ok(n) => return Ok(n),
                Err(error) => retry(error)?,
            }
            into.shrink_to(held);
        }
    }

    /// [`Stream::poll_read_buf`] for those who wait for it until `deadline`. `prepare` makes room in `into` once
    /// there is something to be read.
    pub fn poll_read_more(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<u8>,
        prepare: impl FnOnce(&mut Vec<u8>),
        deadline: &mut Option<Deadline>,
    ) -> Poll<Result<usize, IoError>> {
        let read = match self.poll_readable(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                prepare(into);
                self.poll_read_buf(cx, into)
            }
            Poll::Pending => Poll::Pending,
        };
        match (read, deadline) {
            (Poll::Ready(read), _) => Poll::Ready(read.map_err(failure)),
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Pending, Some(deadline)) => deadline.poll(cx).map(|()| Err(IoError::Timeout)),
        }
    }

    /// Reads at least one byte; 0 is the end.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes; `None` waits for ever.
    pub async fn read(&self, into: &mut [u8], deadline: Option<Instant>) -> Result<usize, IoError> {
        loop {
            match self.try_read(into) {
                Ok(n) => return Ok(n),
                Err(error) => retry(error)?,
            }
            until(deadline, self.readable()).await?;
        }
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` passes before the last byte is with the kernel.
    pub async fn write_all(&self, bytes: &[u8], deadline: Option<Instant>) -> Result<(), IoError> {
        self.write_all_vectored(&mut [IoSlice::new(bytes)], Duration::ZERO, deadline).await
    }

    /// Writes all pieces; they are used up on the way. `idle`: the longest wait without progress (`idle_send_timeout`),
    /// zero for none.
    ///
    /// # Errors
    /// [`IoError::Timeout`] when `deadline` or `idle` passes.
    pub async fn write_all_vectored(
        &self,
        mut pieces: &mut [IoSlice<'_>],
        idle: Duration,
        deadline: Option<Instant>,
    ) -> Result<(), IoError> {
        // Empty pieces at the front would make the system call say 0.
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            match self.try_write_vectored(pieces) {
                Ok(0) => return Err(IoError::Closed),
                Ok(n) => {
                    IoSlice::advance_slices(&mut pieces, n);
                    continue;
                }
                Err(error) => retry(error)?,
            }
            let timer = if idle.is_zero() { deadline } else { earliest(deadline, Instant::now() + idle) };
            until(timer, self.writable()).await?;
        }
        Ok(())
    }

    /// The state of waiting input, without reading it.
    pub fn pending(&self) -> IdleState {
        // Sockets here never block, so that a look answers at once.
        pending_of(match self {
            Stream::Tcp(s) => peek(&SockRef::from(s)),
            Stream::Unix(s) => peek(&SockRef::from(s)),
            Stream::Sealed(s) => return s.pending(),
            Stream::Socketless(s) => s.peek(),
        })
    }

    /// The state of waiting input as far as the runtime has heard when it last asked for events: the system is asked
    /// only when there was one. On the thread of the stream's runtime.
    fn heard(&self) -> IdleState {
        pending_of(match self {
            Stream::Tcp(s) => s.try_io(Interest::READABLE, || peek(&SockRef::from(s))),
            Stream::Unix(s) => s.try_io(Interest::READABLE, || peek(&SockRef::from(s))),
            Stream::Sealed(s) => return s.heard(),
            Stream::Socketless(s) => s.peek(),
        })
    }

    /// Says that nothing more will be written (close_notify where it is sealed, and FIN).
    pub fn shutdown_write(&self) {
        if let Stream::Sealed(s) = self {
            return s.shutdown_write();
        }
        if let Stream::Socketless(s) = self {
            s.shutdown_write();
        }
        if let Some(socket) = self.socket() {
            // A connection that is gone already has nothing left to say.
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    /// Waits, after [`Stream::shutdown_write`], until that is said: a socket that is full takes close_notify only later, and the end behind it.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        if let Stream::Sealed(s) = self { s.poll_ended(cx) } else { Poll::Ready(()) }
    }

    /// The stream that carries the records where it is sealed; else itself. For readers of bytes that nobody will open
    /// any more.
    pub fn carrier(&self) -> &Stream {
        if let Stream::Sealed(s) = self { s.inner() } else { self }
    }

    /// Makes close send RST, so that a peer sees a cut and not an end. Nothing on a unix socket.
    pub fn reset_on_close(&self) {
        if let Stream::Sealed(s) = self {
            return s.inner().reset_on_close();
        }
        if let Stream::Socketless(s) = self {
            s.reset_on_close();
        }
        if let Some(socket) = self.socket() {
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }

    /// Sets TCP keepalive; nothing where that isn't TCP.
    ///
    /// # Errors
    /// The operating system refused a value.
    pub fn set_keepalive(&self, keepalive: &Keepalive) -> io::Result<()> {
        self.tcp().map_or(Ok(()), |s| SockRef::from(s).set_tcp_keepalive(&keepalive.wanted()))
    }

    /// The peer's address; 0.0.0.0 port 0 when the connection is gone.
    pub fn peer(&self) -> Address {
        match self {
            Stream::Tcp(s) => s.peer_addr().map_or(nowhere(), Address::inet),
            Stream::Unix(_) => Address::Unix,
            Stream::Sealed(s) => s.inner().peer(),
            Stream::Socketless(s) => s.peer(),
        }
    }

    /// Address of our end.
    pub fn local(&self) -> Address {
        match self {
            Stream::Tcp(s) => s.local_addr().map_or(nowhere(), Address::inet),
            Stream::Unix(_) => Address::Unix,
            Stream::Sealed(s) => s.inner().local(),
            Stream::Socketless(s) => s.local(),
        }
    }

    /// True for a unix-domain stream.
    pub fn is_unix(&self) -> bool {
        match self {
            Stream::Unix(_) => true,
            Stream::Sealed(s) => s.inner().is_unix(),
            Stream::Tcp(_) => false,
            Stream::Socketless(_) => false,
        }
    }

    /// True if it carries TLS.
    pub fn is_sealed(&self) -> bool {
        matches!(self, Stream::Sealed(_))
    }

    /// The reason why TLS can't be read any more, once something has gone wrong with it.
    pub fn tls_fault(&self) -> Option<tls::TlsError> {
        if let Stream::Sealed(s) = self { s.fault() } else { None }
    }

    /// The reason why nothing can be written any more to one that carries TLS.
    pub fn tls_write_fault(&self) -> Option<WriteFault> {
        if let Stream::Sealed(s) = self { s.write_fault() } else { None }
    }

    /// True if the end that was read came without the peer's close_notify (RFC 8446 6.1), as anybody between could make
    /// it. Without TLS there is no telling.
    pub fn was_cut(&self) -> bool {
        matches!(self, Stream::Sealed(s) if s.was_cut())
    }
}

fn nowhere() -> Address {
    Address::Inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

fn earliest(deadline: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(deadline.map_or(other, |d| d.min(other)))
}

/// `Ok` when waiting for readiness is the answer.
#[expect(clippy::wildcard_enum_match_arm, reason = "the system's errors")]
fn retry(error: io::Error) -> Result<(), IoError> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(failure(error)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the system's errors")]
fn failure(error: io::Error) -> IoError {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => IoError::Closed,
        _ => IoError::Os(error),
    }
}

/// Waits for readiness, at most until `deadline`.
async fn until(deadline: Option<Instant>, ready: impl Future<Output = io::Result<()>>) -> Result<(), IoError> {
    let result = match deadline {
        None => ready.await,
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(IoError::Timeout);
            }
            rt::timeout(left, ready).await.map_err(|rt::Elapsed| IoError::Timeout)?
        }
    };
    result.map_err(IoError::Os)
}

fn peek(socket: &SockRef<'_>) -> io::Result<usize> {
    socket.peek(&mut [MaybeUninit::uninit()])
}

fn pending_of(peeked: io::Result<usize>) -> IdleState {
    match peeked {
        Ok(0) => IdleState::Closed,
        Ok(_) => IdleState::Data,
        Err(error) if error.kind() == ErrorKind::WouldBlock => IdleState::Nothing,
        Err(_) => IdleState::Closed,
    }
}

/// True for a unix-domain socket; an error when it is neither that nor internet.
pub(crate) fn is_unix(socket: &SockRef<'_>) -> io::Result<bool> {
    match socket.domain()? {
        Domain::UNIX => Ok(true),
        Domain::IPV4 | Domain::IPV6 => Ok(false),
        _ => Err(ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests;
