// SPDX-License-Identifier: BSD-2-Clause
//! A connection to a backend while a transaction has it, and the texts of its log records.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use net::{Address, Stream};
use shm::vsl::num::dec;
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

/// A BackendOpen record: descriptor, backend, remote and local address, `connect` or `reuse`.
pub struct Opened<'a>(&'a Conn);

impl Opened<'_> {
    /// Its text.
    pub fn text(&self) -> Vec<u8> {
        let conn = self.0;
        let (peer, local) = conn.ends;
        let (peer, local) = (peer.text(), local.text());
        let how: &[u8] = if conn.reused { b" reuse" } else { b" connect" };
        let (fd, name) = (dec(u64::from(conn.fd.unsigned_abs())), conn.backend.name());
        [fd.as_bytes(), b" ", name.as_bytes(), b" ", peer.ip_port(), b" ", local.ip_port(), how].concat()
    }
}

/// A BackendClose record: descriptor, backend, `recycle` or `close` and why.
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

impl Closed {
    /// Its text.
    pub fn text(&self) -> Vec<u8> {
        let (what, why) = self.close.map_or((" recycle", ""), |why| (" close ", why));
        let fd = dec(u64::from(self.fd.unsigned_abs()));
        [fd.as_bytes(), b" ", self.backend.name().as_bytes(), what.as_bytes(), why.as_bytes()].concat()
    }
}
