// SPDX-License-Identifier: BSD-2-Clause
//! Listening sockets that the manager made and handed over.

use std::io;
use std::os::fd::OwnedFd;

use crate::{Address, Stream};

/// A listening socket of this thread: a member of a SO_REUSEPORT group, or a unix socket shared by all threads.
#[derive(Debug)]
pub struct Listener {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    #[allow(dead_code)]
    Tcp(tokio::net::TcpListener),
    #[allow(dead_code)]
    Unix(tokio::net::UnixListener),
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The stream, TCP_NODELAY set.
    pub stream: Stream,
    /// The client's address.
    pub peer: Address,
}

/// What an accept came to.
#[derive(Debug)]
pub enum Accept {
    /// A connection.
    Connection(Accepted),
    /// No connection waits.
    Nothing,
    /// The client went away while it waited (counted as MAIN.sess_fail_econnaborted).
    Aborted,
    /// Out of descriptors (EMFILE, ENFILE): pause before trying again, nothing else helps.
    OutOfDescriptors(io::Error),
    /// Anything else.
    Failed(io::Error),
}

impl Listener {
    /// Takes over a listening socket, TCP or unix.
    ///
    /// # Errors
    /// It isn't a listening stream socket, or can't be registered with this thread's runtime.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let _ = fd;
        todo!()
    }

    /// Waits for a connection. Never answers [`Accept::Nothing`].
    pub async fn accept(&self) -> Accept {
        let _ = &self.inner;
        todo!()
    }

    /// Accepts one more if it waits already: for batches after [`Listener::accept`].
    pub fn try_accept(&self) -> Accept {
        todo!()
    }

    /// Where it listens.
    pub fn local(&self) -> Address {
        todo!()
    }
}
