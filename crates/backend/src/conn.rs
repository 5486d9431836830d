// SPDX-License-Identifier: BSD-2-Clause
//! A connection to a backend while a transaction has it, and its log records.

use std::sync::Arc;

use net::{Address, Stream};
use tokio::sync::OwnedSemaphorePermit;

use crate::pool::Ends;
use crate::{Backend, Director};

/// A connection in use. It counts against `.max_connections` until finished; dropping it closes it.
pub struct Conn {
    stream: Option<Stream>,
    ends: Option<Box<Ends>>,
    backend: Arc<Backend>,
    reused: bool,
    proxy_bytes: usize,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Conn {
    /// Counts the connection and the request.
    pub(crate) fn new(
        stream: Stream,
        ends: Box<Ends>,
        backend: Arc<Backend>,
        reused: bool,
        proxy_bytes: usize,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        backend.vbe().conn.inc();
        backend.vbe().req.inc();
        Self { stream: Some(stream), ends: Some(ends), backend, reused, proxy_bytes, _slot: slot }
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
        self.ends().peer
    }

    fn ends(&self) -> &Ends {
        self.ends.as_deref().expect("only finish takes them, and it takes the connection")
    }

    /// The parts of the BackendOpen record: descriptor, backend, remote and local address, `connect` or `reuse`.
    pub fn opened(&self) -> [&[u8]; 5] {
        let how: &[u8] = if self.reused { b" reuse" } else { b" connect" };
        [self.ends().fd(), b" ", self.backend.name().as_bytes(), self.ends().addresses(), how]
    }

    /// Ends the use. `close` is the description of the reason why it can't be used again (`tables`' close reasons:
    /// `Received junk data`); `None` puts it back into the pool, unless it began with a PROXY header. Nothing may be
    /// left unread. Call it before the client gets the response's last byte. `note` is given the parts of the BackendClose
    /// record: descriptor, backend, `recycle` or `close` and why. Answers whether the connection went back to the pool.
    pub fn finish(mut self, close: Option<&'static str>, note: impl FnOnce(&[&[u8]])) -> bool {
        let close = match close {
            None if self.backend.spec().proxy_header != 0 => Some(NOT_CLOSING),
            other => other,
        };
        let (what, why) = close.map_or((" recycle", ""), |why| (" close ", why));
        note(&[self.ends().fd(), b" ", self.backend.name().as_bytes(), what.as_bytes(), why.as_bytes()]);
        if let (None, Some(stream), Some(ends)) = (close, self.stream.take(), self.ends.take()) {
            self.backend.recycle(stream, ends);
        }
        close.is_none()
    }
}

/// How Varnish describes "no reason": what it shows when it closes a connection that began with a PROXY header.
const NOT_CLOSING: &str = "Not Closing";

impl Drop for Conn {
    fn drop(&mut self) {
        self.backend.vbe().conn.dec();
    }
}
