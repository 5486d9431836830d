// SPDX-License-Identifier: BSD-2-Clause
//! Connections to a backend: a slot for each, an idle one, a shared one, or a new one.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use net::{Address, ConnectTarget, IoError, Stream};
use rt::Instant;
use tables::origin_proto::OriginProto;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Backend, ConnectOpts, deadline, proxy_header};
use crate::error::{ConnOpenError, ETIMEDOUT, holddown_of};
use crate::h2::{self, Http2Exchange};
use crate::pool::{Expected, PeerLabel};
use crate::{BackendConn, BackendConnectError, BackendLimits, BackendParams};

/// A slot among `.max_connections`.
type Slot = OwnedSemaphorePermit;

/// Time limit for the first bytes of a new connection (preamble, PROXY header). They fit any send buffer.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

impl Backend {
    pub(super) async fn connect_http1(
        &self,
        opts: &ConnectOpts<'_>,
        slot: Option<Slot>,
    ) -> Result<BackendConn, ConnOpenError> {
        let header = proxy_header(self.spec.proxy_header, opts.ends.as_ref(), opts.authority);
        // A PROXY header is sent only at the beginning of a connection.
        let is_fresh = opts.new_connection || !header.is_empty();
        if !is_fresh && let Some((stream, label)) = self.pool.take(opts.no_resend) {
            return Ok(self.reused(stream, label, slot));
        }
        let params = self.env.services.params();
        let (stream, tls) = self.open(self.connect_limit(opts, &params), true, |_| header.clone(), &params).await?;
        self.env.services.main().backend_conn.inc();
        let label = PeerLabel::new(&stream, tls, self.env.clock.mono());
        Ok(BackendConn::http1(stream, label, self.arc(), false, header.len(), slot))
    }

    /// Returns a stream of an HTTP/2 connection, or an HTTP/1 connection if the origin chooses it. If there is none, one of several callers
    /// opens it for all.
    pub(super) async fn connect_any(
        &self,
        opts: &ConnectOpts<'_>,
        mut slot: Option<Slot>,
    ) -> Result<BackendConn, ConnOpenError> {
        let ticket = loop {
            if opts.new_connection {
                break None;
            }
            if let Some(conn) = self.idle_any(opts, &mut slot) {
                return Ok(conn);
            }
            if self.pool.expected() != Expected::Http2 {
                break None;
            }
            match h2::opening(&self.pool) {
                Ok(ticket) => break Some(ticket),
                Err(opening) => opening.wait(self.connect_limit(opts, &self.env.services.params())).await?,
            }
        };
        let params = self.env.services.params();
        let opened = match self.open_any(opts, &params).await {
            Ok(opened) => opened,
            Err(error) => {
                ticket.into_iter().for_each(|ticket| ticket.failed(error.clone()));
                return Err(error);
            }
        };
        let (stream, label, is_http2) = opened;
        self.env.services.main().backend_conn.inc();
        if !is_http2 {
            return Ok(BackendConn::http1(stream, label, self.arc(), false, 0, slot));
        }
        let exchange = h2::add(stream, *label, &self.pool, &self.env, &params, ticket);
        Ok(BackendConn::http2(exchange, self.arc(), false, slot))
    }

    /// Opens a connection. Returns whether it uses HTTP/2.
    async fn open_any(
        &self,
        opts: &ConnectOpts<'_>,
        params: &BackendParams,
    ) -> Result<(Stream, Box<PeerLabel>, bool), ConnOpenError> {
        let http1 = self.pool.wants_http1();
        let (stream, tls) = self.open(self.connect_limit(opts, params), http1, |_| Vec::new(), params).await?;
        let is_http2 = self.pool.take_choice(tls.as_deref())?;
        let label = PeerLabel::new(&stream, tls, self.env.clock.mono());
        Ok((stream, label, is_http2))
    }

    /// Opens a connection for a probe, in the way of fetches. Returns whether it uses HTTP/2.
    pub(crate) async fn open_probe(
        &self,
        limit: Duration,
        header: impl FnOnce(&Stream) -> Vec<u8>,
        params: &BackendParams,
    ) -> Result<(Stream, bool), ConnOpenError> {
        let http1 = self.pool.wants_http1();
        let (stream, tls) = self.open(limit, http1, header, params).await?;
        let is_http2 = self.pool.take_choice(tls.as_deref())?;
        Ok((stream, is_http2))
    }

    /// The single exchange of a connection that isn't shared.
    pub(crate) fn http2_alone(&self, stream: Stream, params: &BackendParams) -> Http2Exchange {
        let label = PeerLabel::new(&stream, None, self.env.clock.mono());
        h2::alone(stream, *label, &self.pool, &self.env, params)
    }

    /// A stream of an existing connection, or an idle connection.
    pub(super) fn idle_any(&self, opts: &ConnectOpts<'_>, slot: &mut Option<Slot>) -> Option<BackendConn> {
        let proto = self.pool.endpoint.proto;
        let is_http1 = proto == OriginProto::Http1 || (proto == OriginProto::Auto && opts.http1);
        if !is_http1 && let Some(exchange) = h2::reuse(&self.pool) {
            self.env.services.main().backend_reuse.inc();
            return Some(BackendConn::http2(exchange, self.arc(), true, slot.take()));
        }
        if proto == OriginProto::Http2 {
            return None;
        }
        let (stream, label) = self.pool.take(opts.no_resend)?;
        Some(self.reused(stream, label, slot.take()))
    }

    fn reused(&self, stream: Stream, label: Box<PeerLabel>, slot: Option<Slot>) -> BackendConn {
        self.env.services.main().backend_reuse.inc();
        BackendConn::http1(stream, label, self.arc(), true, 0, slot)
    }

    fn connect_limit(&self, opts: &ConnectOpts<'_>, params: &BackendParams) -> Duration {
        opts.limits.or(self.spec.limits).or(params.limits).connect
    }

    pub(super) fn connect_error(&self, error: ConnOpenError) -> BackendConnectError {
        let backend = self.base.name().to_string();
        match error {
            ConnOpenError::Errno(errno) => BackendConnectError::Failed { backend, errno },
            // This is what varnishd writes into FetchError records.
            ConnOpenError::HeldDown(_) => BackendConnectError::Failed { backend, errno: 0 },
            ConnOpenError::NoAddress => BackendConnectError::NoAddress { backend, host: self.host() },
            ConnOpenError::Tls(errno, error, reason) => BackendConnectError::Tls { backend, errno, error, reason },
            ConnOpenError::Proxy(errno) => BackendConnectError::ProxyWrite { backend, errno },
        }
    }

    /// Takes a slot among `.max_connections`, first come, first served. `Err`: busy, also if the backend became sick during the wait.
    pub(super) async fn slot(&self) -> Result<Option<Slot>, ()> {
        let Some(slots) = &self.slots else { return Ok(None) };
        if let Ok(slot) = slots.clone().try_acquire_owned() {
            return Ok(Some(slot));
        }
        let (params, main) = (self.env.services.params(), self.env.services.main());
        let limit = self.spec.wait_limit.unwrap_or(params.wait_limit);
        let wait = self.spec.wait_timeout.unwrap_or(params.wait_timeout);
        if limit == 0 || wait.is_zero() {
            return Err(());
        }
        let Some(_waiter) = Waiter::enter(&self.waiting, limit) else {
            main.backend_wait_full.inc();
            return Err(());
        };
        main.backend_wait.inc();
        let slot = rt::timeout(wait, self.slot_while_healthy(slots)).await.ok().flatten();
        if slot.is_none() {
            main.backend_wait_fail.inc();
        }
        slot.map(Some).ok_or(())
    }

    /// Waits in the queue until a slot is free. `None`: the backend is sick.
    async fn slot_while_healthy(&self, slots: &Arc<Semaphore>) -> Option<Slot> {
        let mut slot = pin!(slots.clone().acquire_owned());
        loop {
            // A change after this line wakes the task, so none is missed between the check and the wait.
            let mut change = pin!(self.base.next_change());
            if !self.is_healthy() {
                return None;
            }
            let taken = poll_fn(|cx| match slot.as_mut().poll(cx) {
                Poll::Ready(permit) => Poll::Ready(Some(permit)),
                Poll::Pending => change.as_mut().poll(cx).map(|()| None),
            });
            if let Some(permit) = taken.await {
                return permit.ok().filter(|_| self.is_healthy());
            }
        }
    }

    fn targets(&self, params: &BackendParams) -> Vec<ConnectTarget> {
        match &self.pool.name {
            Some(name) => {
                let addrs = name.targets(params.prefer_ipv6, self.env.clock.mono());
                addrs.into_iter().map(ConnectTarget::Inet).collect()
            }
            None => self.spec.endpoint.targets(params.prefer_ipv6),
        }
    }

    /// Opens a connection and makes it ready for a request: sends the preamble and the PROXY header, then does the TLS handshake if TLS is
    /// used. `limit` applies to each address and includes the handshake. `http1`: use HTTP/1.1 if the origin has a choice.
    pub(crate) async fn open(
        &self,
        limit: Duration,
        http1: bool,
        header: impl FnOnce(&Stream) -> Vec<u8>,
        params: &BackendParams,
    ) -> Result<(Stream, Option<Box<tls::HandshakeInfo>>), ConnOpenError> {
        let (stream, until) = self.reach(limit, params).await?;
        self.preamble(&stream).await.map_err(ConnOpenError::Errno)?;
        let header = header(&stream);
        if !header.is_empty() {
            let written = stream.write_all(&header, deadline(WRITE_LIMIT)).await;
            written.map_err(|error| ConnOpenError::Proxy(errno_of(&error)))?;
        }
        let Some(peer) = &self.pool.tls else { return Ok((stream, None)) };
        let address = stream.peer();
        // Without a connect timeout, `first_byte_timeout` limits the handshake: a server may accept and stay silent.
        let until = until.or_else(|| deadline(self.limits(BackendLimits::default()).first_byte));
        match peer.seal(stream, http1, until, self.env.services.main()).await {
            Ok((stream, info)) => Ok((stream, Some(info))),
            Err(error) => {
                if let (Some(name), Address::Inet(address)) = (&self.pool.name, address) {
                    name.avoid(address, self.env.clock.mono());
                }
                Err(error)
            }
        }
    }

    /// Connects to the first address that accepts. Returns the deadline for the remaining steps.
    async fn reach(&self, limit: Duration, params: &BackendParams) -> Result<(Stream, Option<Instant>), ConnOpenError> {
        if let Some(errno) = self.pool.held_down(self.env.clock.mono()) {
            return Err(ConnOpenError::HeldDown(errno));
        }
        let targets = self.targets(params);
        if targets.is_empty() {
            return Err(ConnOpenError::NoAddress);
        }
        let mut last = ETIMEDOUT;
        for target in targets {
            let until = deadline(limit);
            match net::connect(&target, limit).await {
                Ok(stream) => return Ok((stream, until)),
                Err(net::ConnectError::Timeout) => last = ETIMEDOUT,
                Err(net::ConnectError::Os(error)) => last = error.raw_os_error().unwrap_or(ETIMEDOUT),
            }
            if let (Some(name), ConnectTarget::Inet(addr)) = (&self.pool.name, target) {
                name.avoid(addr, self.env.clock.mono());
            }
        }
        if let Some(hold) = holddown_of(last, params) {
            self.pool.hold_down(self.env.clock.mono(), hold, last);
        }
        Err(ConnOpenError::Errno(last))
    }

    async fn preamble(&self, stream: &Stream) -> Result<(), i32> {
        let preamble = &self.pool.endpoint.preamble;
        if !preamble.is_empty() {
            stream.write_all(preamble, deadline(WRITE_LIMIT)).await.map_err(|error| errno_of(&error))?;
        }
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the system's errors")]
    pub(crate) fn count_failure(&self, error: &ConnOpenError) {
        let vbe = self.vbe();
        let errno = match error {
            ConnOpenError::HeldDown(_) => return vbe.helddown.inc(),
            ConnOpenError::Proxy(_) => return,
            ConnOpenError::Errno(errno) | ConnOpenError::Tls(errno, ..) => *errno,
            ConnOpenError::NoAddress => {
                vbe.fail.inc();
                return vbe.fail_other.inc();
            }
        };
        vbe.fail.inc();
        match io::Error::from_raw_os_error(errno).kind() {
            io::ErrorKind::PermissionDenied => vbe.fail_eacces.inc(),
            io::ErrorKind::AddrNotAvailable => vbe.fail_eaddrnotavail.inc(),
            io::ErrorKind::ConnectionRefused => vbe.fail_econnrefused.inc(),
            io::ErrorKind::NetworkUnreachable => vbe.fail_enetunreach.inc(),
            io::ErrorKind::TimedOut => vbe.fail_etimedout.inc(),
            _ => vbe.fail_other.inc(),
        }
    }
}

/// The error number that the operating system would report for a timeout or a closed connection.
fn errno_of(error: &IoError) -> i32 {
    const EPIPE: i32 = 32;
    match error {
        IoError::Timeout => ETIMEDOUT,
        IoError::Closed => EPIPE,
        IoError::Os(error) => error.raw_os_error().unwrap_or(EPIPE),
    }
}

/// A fetch that waits for a busy backend.
struct Waiter<'a>(&'a AtomicU32);

impl<'a> Waiter<'a> {
    fn enter(waiting: &'a AtomicU32, limit: u32) -> Option<Self> {
        let more = |now: u32| (now < limit).then_some(now + 1);
        waiting.try_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Waiter(waiting))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
