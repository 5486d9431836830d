// SPDX-License-Identifier: BSD-2-Clause
//! A connection to a backend while a transaction uses it, and its log records.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use net::Stream;
use tables::Compat;
use tables::close::SessClose;
use tokio::sync::OwnedSemaphorePermit;

use crate::h2::Http2Exchange;
use crate::pool::PeerLabel;
use crate::{Backend, Director, Exchange, Http1};

/// A connection in use. It counts against `.max_connections` until finished; dropping it closes it.
pub struct BackendConn {
    user: User,
    exchange: Protocol,
    label: Label,
    is_reused: bool,
    _slot: Option<OwnedSemaphorePermit>,
}

#[allow(clippy::large_enum_variant, reason = "nearly all are the large one, which is worth no allocation each")]
enum Protocol {
    Http1(Http1),
    /// A stream of an HTTP/2 connection that is shared with others.
    Http2(Http2Exchange),
    Other(Box<dyn Exchange>),
}

enum Label {
    Own(Box<PeerLabel>),
    Shared(Arc<PeerLabel>),
}

impl Deref for Label {
    type Target = PeerLabel;

    fn deref(&self) -> &PeerLabel {
        match self {
            Label::Own(label) => label,
            Label::Shared(label) => label,
        }
    }
}

struct User(Arc<Backend>);

impl User {
    fn new(backend: Arc<Backend>) -> Self {
        backend.vbe().conn.inc();
        backend.vbe().req.inc();
        User(backend)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.vbe().conn.dec();
    }
}

impl BackendConn {
    /// An HTTP/1 connection. `preface` bytes of a PROXY header were sent ahead, which Varnish counts as request head.
    pub(crate) fn http1(
        stream: Stream,
        label: Box<PeerLabel>,
        backend: Arc<Backend>,
        is_reused: bool,
        preface: usize,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let is_strict = label.tls().is_some() && backend.env().services.params().tls_strict_end;
        let exchange = Protocol::Http1(Http1::new(stream, preface).with_strict_end(is_strict));
        label.count_use(is_reused);
        Self { exchange, label: Label::Own(label), is_reused, user: User::new(backend), _slot: slot }
    }

    pub(crate) fn http2(
        exchange: Http2Exchange,
        backend: Arc<Backend>,
        is_reused: bool,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let label = Label::Shared(exchange.label().clone());
        label.count_use(is_reused);
        Self { exchange: Protocol::Http2(exchange), label, is_reused, user: User::new(backend), _slot: slot }
    }

    pub(crate) fn other(
        exchange: Box<dyn Exchange>,
        backend: Arc<Backend>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let (exchange, label) = (Protocol::Other(exchange), Label::Own(PeerLabel::none()));
        Self { exchange, label, is_reused: false, user: User::new(backend), _slot: slot }
    }

    pub fn backend(&self) -> &Arc<Backend> {
        &self.user.0
    }

    /// The peer's address, if it is on this host.
    pub fn peer_here(&self) -> Option<SocketAddr> {
        self.label.here()
    }

    /// True for a connection from the pool: when it fails before the first byte of a response, and the request can be
    /// sent again, the caller tries once more with `ConnectOpts::fresh` and counts `MAIN.backend_retry`.
    pub fn is_reused(&self) -> bool {
        self.is_reused
    }

    pub fn tls(&self) -> Option<&tls::HandshakeInfo> {
        self.label.tls()
    }

    /// The raw connection, for bytes both ways, if the protocol allows it.
    pub fn tunnel(&self) -> Option<&Stream> {
        match &self.exchange {
            Protocol::Http1(http1) => Some(http1.stream()),
            Protocol::Http2(_) | Protocol::Other(_) => None,
        }
    }

    /// Calls `note` with the parts of the BackendOpen record: descriptor, backend, remote and local address, `connect` or `reuse`; from release 9
    /// on, also the age and the number of former uses of a connection that is reused.
    pub fn opened(&self, note: impl FnOnce(&[&[u8]])) {
        let (label, name) = (&self.label, self.backend().name().as_bytes());
        match (self.is_reused, self.backend().env().compat) {
            (false, _) => note(&[label.fd(), b" ", name, label.addresses(), b" connect"]),
            (true, Compat::V7_1) => note(&[label.fd(), b" ", name, label.addresses(), b" reuse"]),
            (true, Compat::V9) => {
                let (age, reuses) = label.life(self.backend().env().clock.mono());
                let (age, reuses) = (age.as_bytes(), reuses.as_bytes());
                note(&[label.fd(), b" ", name, label.addresses(), b" reuse ", age, b" ", reuses]);
            }
        }
    }

    /// Ends the use. `close` is the reason why the connection can't be reused. `None` returns it to the pool, unless it began with a PROXY
    /// header. Nothing may be left unread. Call it before the client gets the response's last byte. `note` is called with the parts of the
    /// BackendClose record: descriptor, backend, `recycle` or `close` and the reason. Returns whether the connection went back to the pool.
    pub fn finish(self, close: Option<SessClose>, note: impl FnOnce(&[&[u8]])) -> bool {
        // They are dropped in reverse order.
        let BackendConn { _slot, label, exchange, user, .. } = self;
        let backend = &user.0;
        let has_pool = !matches!(exchange, Protocol::Other(_)) && backend.spec().proxy_header == 0;
        let reason = (close.is_some() || !has_pool).then(|| SessClose::of_backend(close, backend.env().compat));
        let what = if reason.is_some() { " close " } else { " recycle" };
        note(&[label.fd(), b" ", backend.name().as_bytes(), what.as_bytes(), reason.unwrap_or_default().as_bytes()]);
        match (reason, exchange, label) {
            (None, Protocol::Http1(http1), Label::Own(label)) => backend.recycle(http1.into_stream(), label),
            (None, Protocol::Http2(_), _) => backend.env().services.main().backend_recycle.inc(),
            _ => {}
        }
        reason.is_none()
    }
}

impl Deref for BackendConn {
    type Target = dyn Exchange;

    fn deref(&self) -> &(dyn Exchange + 'static) {
        match &self.exchange {
            Protocol::Http1(http1) => http1,
            Protocol::Http2(http2) => http2,
            Protocol::Other(other) => &**other,
        }
    }
}

impl DerefMut for BackendConn {
    fn deref_mut(&mut self) -> &mut (dyn Exchange + 'static) {
        match &mut self.exchange {
            Protocol::Http1(http1) => http1,
            Protocol::Http2(http2) => http2,
            Protocol::Other(other) => &mut **other,
        }
    }
}
