// SPDX-License-Identifier: BSD-2-Clause
//! Listening sockets that the manager made and handed over.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use socket2::SockRef;
use tokio::net::{TcpListener, UnixListener};

use crate::stream::Keepalive;
use crate::stream::is_unix;
use crate::{Address, Stream};

/// A listening socket of this thread: a member of a SO_REUSEPORT group, or a unix socket shared by all threads.
#[derive(Debug)]
pub struct Listener {
    socket: Inner,
    /// The address of all its connections, unless it listens on any address.
    address: Option<Address>,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The stream, TCP_NODELAY set.
    pub stream: Stream,
    /// Address of the client.
    pub peer: Address,
    /// Our end: where the listener listens, asked for only when that is any address.
    pub local: Address,
}

/// Result of an accept.
#[derive(Debug)]
pub enum Accept {
    /// A connection was accepted.
    Connection(Accepted),
    /// No connection is waiting.
    Nothing,
    /// No connection could be had.
    Failed(AcceptFailure),
}

/// Reasons why no connection could be accepted. Each is counted as one of `MAIN.sess_fail_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptFailure {
    /// The client went away while it waited.
    Aborted,
    /// A signal interrupted the call.
    Interrupted,
    /// EMFILE, ENFILE: pause before trying again, nothing else helps.
    OutOfDescriptors,
    /// ENOMEM or ENOBUFS: likewise.
    OutOfMemory,
    /// EBADF: the descriptor is bad.
    BadDescriptor,
    /// Any other reason (`MAIN.sess_fail_other`).
    Other,
}

impl Listener {
    /// Takes over a listening socket, TCP or unix, and registers it with this thread's runtime. What it accepts inherits
    /// TCP_NODELAY from it, which saves a system call per connection.
    ///
    /// # Errors
    /// It isn't a listening stream socket, or can't be registered.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let unix = {
            let socket = SockRef::from(&fd);
            socket.set_nonblocking(true)?;
            if !socket.is_listener()? {
                return Err(io::Error::new(ErrorKind::InvalidInput, "not a listening socket"));
            }
            let unix = is_unix(&socket)?;
            if !unix {
                socket.set_tcp_nodelay(true)?;
            }
            unix
        };
        let socket = if unix {
            Inner::Unix(UnixListener::from_std(fd.into())?)
        } else {
            Inner::Tcp(TcpListener::from_std(fd.into())?)
        };
        let mut listener = Listener { socket, address: None };
        listener.address = Some(listener.local()).filter(|local| !local.ip().is_unspecified());
        Ok(listener)
    }

    /// Sets TCP keepalive for what is accepted from now on, without a system call each; nothing on a unix socket.
    ///
    /// # Errors
    /// The operating system refused a value.
    pub fn set_keepalive(&self, keepalive: &Keepalive) -> io::Result<()> {
        match &self.socket {
            Inner::Tcp(listener) => SockRef::from(listener).set_tcp_keepalive(&keepalive.wanted()),
            Inner::Unix(_) => Ok(()),
        }
    }

    /// Accepts a TCP connection only when its first bytes have come (or after a second without): one wake-up, and no read
    /// for nothing. Nothing on a unix socket.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn set_defer_accept(&self, on: bool) -> io::Result<()> {
        match &self.socket {
            Inner::Tcp(listener) => sys::sock::set_defer_accept(listener, u16::from(on)),
            Inner::Unix(_) => Ok(()),
        }
    }

    /// Waits for a connection. Never answers [`Accept::Nothing`].
    pub async fn accept(&self) -> Accept {
        poll_fn(|cx| match self.poll(cx) {
            Accept::Nothing => Poll::Pending,
            accept @ (Accept::Connection(_) | Accept::Failed(_)) => Poll::Ready(accept),
        })
        .await
    }

    /// Accepts one more if it waits already: for batches after [`Listener::accept`].
    pub fn try_accept(&self) -> Accept {
        // Nobody waits here: the next `accept` puts its own waker in this one's place.
        self.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn poll(&self, cx: &mut Context<'_>) -> Accept {
        let polled = match &self.socket {
            Inner::Tcp(l) => l.poll_accept(cx).map_ok(|(s, peer)| (Stream::Tcp(s), Address::inet(peer))),
            Inner::Unix(l) => l.poll_accept(cx).map_ok(|(s, _)| (Stream::Unix(s), Address::Unix)),
        };
        match polled {
            Poll::Pending => Accept::Nothing,
            Poll::Ready(Ok((stream, peer))) => {
                let local = self.address.unwrap_or_else(|| stream.local());
                Accept::Connection(Accepted { stream, peer, local })
            }
            Poll::Ready(Err(error)) => Accept::Failed(classify(&error)),
        }
    }

    /// The address of the listener.
    pub fn local(&self) -> Address {
        match &self.socket {
            Inner::Tcp(l) => {
                let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                Address::inet(l.local_addr().unwrap_or(nowhere))
            }
            Inner::Unix(_) => Address::Unix,
        }
    }
}

fn classify(error: &io::Error) -> AcceptFailure {
    // Linux's numbers, the same on all its architectures that we build for.
    const EINTR: i32 = 4;
    const EBADF: i32 = 9;
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ECONNABORTED: i32 = 103;
    const ENOBUFS: i32 = 105;
    match error.raw_os_error() {
        Some(ENFILE | EMFILE) => AcceptFailure::OutOfDescriptors,
        Some(ENOMEM | ENOBUFS) => AcceptFailure::OutOfMemory,
        Some(EBADF) => AcceptFailure::BadDescriptor,
        Some(ECONNABORTED) => AcceptFailure::Aborted,
        Some(EINTR) => AcceptFailure::Interrupted,
        _ => AcceptFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ConnectTarget, connect};

    fn listener() -> (Listener, ConnectTarget) {
        let std = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = ConnectTarget::Inet(std.local_addr().unwrap());
        (Listener::from_fd(std.into()).unwrap(), target)
    }

    #[test]
    fn batches_are_accepted_until_nothing_waits() {
        rt::run(async {
            let (listener, target) = listener();
            let keepalive = Keepalive { time: Duration::from_secs(77), interval: Duration::from_secs(7), probes: 3 };
            listener.set_keepalive(&keepalive).unwrap();
            let one = connect(&target, Duration::from_secs(5)).await.unwrap();
            let _two = connect(&target, Duration::from_secs(5)).await.unwrap();
            let Accept::Connection(first) = listener.accept().await else { panic!("no connection") };
            assert_eq!(first.peer, one.local());
            assert_eq!(first.stream.local(), listener.local());
            assert!(first.stream.socket().unwrap().tcp_nodelay().unwrap());
            assert!(first.stream.socket().unwrap().keepalive().unwrap());
            assert!(matches!(listener.try_accept(), Accept::Connection(_)));
            assert!(matches!(listener.try_accept(), Accept::Nothing));
            let (accepted, _three) = tokio::join!(listener.accept(), connect(&target, Duration::from_secs(5)));
            assert!(matches!(accepted, Accept::Connection(_)));
        })
        .unwrap();
    }

    #[test]
    fn a_silent_connection_is_deferred() {
        rt::run(async {
            let (listener, target) = listener();
            listener.set_defer_accept(true).unwrap();
            let silent = connect(&target, Duration::from_secs(5)).await.unwrap();
            let talks = connect(&target, Duration::from_secs(5)).await.unwrap();
            talks.write_all(b"x", None).await.unwrap();
            let Accept::Connection(first) = listener.accept().await else { panic!("no connection") };
            assert_eq!(first.peer, talks.local());
            let Accept::Connection(second) = listener.accept().await else { panic!("no connection") };
            assert_eq!(second.peer, silent.local(), "but not for ever");
        })
        .unwrap();
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        rt::run(async {
            let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
            assert!(Listener::from_fd(a.into()).is_err());
        })
        .unwrap();
    }

    #[test]
    fn errors_are_told_apart() {
        let of_number = |number| classify(&io::Error::from_raw_os_error(number));
        assert_eq!([24, 23].map(of_number), [AcceptFailure::OutOfDescriptors; 2]);
        assert_eq!([12, 105].map(of_number), [AcceptFailure::OutOfMemory; 2]);
        let others =
            [AcceptFailure::Interrupted, AcceptFailure::BadDescriptor, AcceptFailure::Aborted, AcceptFailure::Other];
        assert_eq!([4, 9, 103, 22].map(of_number), others);
    }
}
