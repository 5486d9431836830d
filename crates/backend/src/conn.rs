// SPDX-License-Identifier: BSD-2-Clause
//! A connection to a backend while a transaction has it, and the texts of its log records.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use net::{Address, Stream};
use tokio::sync::OwnedSemaphorePermit;

use crate::pool::Ends;
use crate::{Backend, Director};

/// A connection in use. It counts against `.max_connections` until finished; dropping it closes it.
pub struct Conn {
    stream: Option<Stream>,
    ends: Ends,
    fd: i32,
    backend: Arc<Backend>,
    reused: bool,
    proxy_bytes: usize,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Conn {
    /// Counts the connection and the request.
    pub(crate) fn new(
        stream: Stream,
        ends: Ends,
        backend: Arc<Backend>,
        reused: bool,
        proxy_bytes: usize,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        backend.vbe().conn.inc();
        backend.vbe().req.inc();
        let fd = stream.as_fd().as_raw_fd();
        Self { stream: Some(stream), ends, fd, backend, reused, proxy_bytes, _slot: slot }
    }

    /// The stream, registered with this thread's runtime.
    pub fn stream(&self) -> &Stream {
        self.stream.as_ref().expect("only finish takes the stream, and it takes the connection")
    }

    /// [`Conn::stream`], to be read from.
    pub fn stream_mut(&mut self) -> &mut Stream {
        self.stream.as_mut().expect("only finish takes the stream, and it takes the connection")
    }

    /// Whose connection it is.
    pub fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// Whether it comes from the pool: when it fails before the first byte of a response, and the request can be sent
    /// again, the caller tries once more with `ConnectOpts::fresh` and counts `MAIN.backend_retry`.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Bytes of the PROXY header, which Varnish counts as request head.
    pub fn proxy_bytes(&self) -> usize {
        self.proxy_bytes
    }

    /// `beresp.backend.ip`.
    pub fn peer(&self) -> Address {
        self.ends.0
    }

    /// The text of the BackendOpen record.
    pub fn opened(&self) -> Opened<'_> {
        Opened(self)
    }

    /// Ends the use. `close` is the description of the reason why it can't be used again (`tables`' close reasons:
    /// `Received junk data`); `None` puts it back into the pool, unless it began with a PROXY header. Nothing may be
    /// left unread. Call it before the client gets the response's last byte. Answers the BackendClose record's text.
    pub fn finish(mut self, close: Option<&'static str>) -> Closed {
        let stream = self.stream.take().expect("finish takes the connection, so this is the first time");
        let close = match close {
            None if self.backend.spec().proxy_header != 0 => Some(NOT_CLOSING),
            other => other,
        };
        let closed = Closed { fd: self.fd, backend: self.backend.clone(), close };
        if close.is_none() {
            self.backend.recycle(stream, self.ends);
        }
        closed
    }
}

/// How Varnish describes "no reason": what it shows when it closes a connection that began with a PROXY header.
const NOT_CLOSING: &str = "Not Closing";

impl Drop for Conn {
    fn drop(&mut self) {
        self.backend.vbe().conn.dec();
    }
}

/// Text of a BackendOpen record: descriptor, backend, remote and local address, `connect` or `reuse`.
pub struct Opened<'a>(&'a Conn);

impl fmt::Display for Opened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conn = self.0;
        let (peer, local) = conn.ends;
        write!(
            f,
            "{} {} {} {} {} {} {}",
            conn.fd,
            conn.backend.name(),
            peer.ip(),
            peer.port(),
            local.ip(),
            local.port(),
            if conn.reused { "reuse" } else { "connect" }
        )
    }
}

/// Text of a BackendClose record: descriptor, backend, `recycle` or `close` and why.
pub struct Closed {
    fd: i32,
    backend: Arc<Backend>,
    close: Option<&'static str>,
}

impl Closed {
    /// Whether the connection went back to the pool.
    pub fn is_recycled(&self) -> bool {
        self.close.is_none()
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.close {
            None => write!(f, "{} {} recycle", self.fd, self.backend.name()),
            Some(why) => write!(f, "{} {} close {why}", self.fd, self.backend.name()),
        }
    }
}
