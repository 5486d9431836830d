// SPDX-License-Identifier: BSD-2-Clause
//! A backend: one server of one VCL, with its counters, its health and its share of a connection pool.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Real;
use net::proxy::{self, ProxyEnds};
use net::{Address, ConnectTarget, IoError, Stream};
use rt::Instant;
use shm::vsc::CounterSet;
use tables::counters::Vbe;
use tables::origin_proto::OriginProto;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ConnOpenError, ETIMEDOUT, holddown_of};
use crate::h2::{self, Http2Exchange};
use crate::pool::{EndpointPool, Expected, PeerLabel};
use crate::probe::Probe;
use crate::registry::Prober;
use crate::trouble::{BackendFault, BackendTrouble, LineBudget};
use crate::{
    AdminHealth, BackendConn, BackendConnectError, BackendEnv, BackendParams, BackendSpec, Director, DirectorBase,
    Health, RequestSignerRef, ResolveCtx, ServiceRef, Summary, VclEvent,
};

/// One server, as a VCL or a vmod declared it. Made by [`crate::Backends::create`].
pub struct Backend {
    me: Weak<Backend>,
    base: DirectorBase,
    spec: Arc<BackendSpec>,
    service: Option<ServiceRef>,
    hosthdr: Arc<str>,
    env: BackendEnv,
    pool: Arc<EndpointPool>,
    slots: Option<Arc<Semaphore>>,
    waiting: AtomicU32,
    counters: CounterSet<Vbe>,
    prober: Arc<Prober>,
    trouble: Arc<BackendTrouble>,
    lines: Arc<LineBudget>,
    pub(crate) probe: Option<Probe>,
}

#[derive(Clone, Debug, Default)]
pub struct ConnectOpts<'a> {
    pub connect_timeout: Duration,
    /// Don't use the pool: this is the second try after a stale connection.
    pub new_connection: bool,
    /// The request can't be sent a second time, so it would be lost on a connection that has just become stale.
    pub no_resend: bool,
    /// Use HTTP/1.1 if the origin has a choice: a pipe needs the connection itself.
    pub http1: bool,
    /// The client's address and the one it connected to, for a PROXY header. `None` writes a header without addresses.
    pub ends: Option<ProxyEnds>,
    /// The TLS name for a version 2 header.
    pub authority: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub first_byte: Duration,
    pub between_bytes: Duration,
}

/// A slot among `.max_connections`.
type Slot = OwnedSemaphorePermit;

/// Time limit for the first bytes of a new connection (preamble, PROXY header). They fit any send buffer.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

fn first_set(times: [Duration; 3]) -> Duration {
    times.into_iter().find(|time| !time.is_zero()).unwrap_or(Duration::ZERO)
}

const PROXY_V2_LOCAL: [u8; 16] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10, 0x20, 0, 0, 0];

/// The PROXY header of `version`. Without `ends`, it has no addresses.
pub(crate) fn proxy_header(version: u8, ends: Option<&ProxyEnds>, authority: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    match (version, ends) {
        (0, _) => {}
        (1, Some(ends)) => proxy::write_v1(ends, &mut out),
        (1, None) => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        (_, Some(ends)) => proxy::write_v2(ends, authority, &mut out),
        (_, None) => out.extend_from_slice(&PROXY_V2_LOCAL),
    }
    out
}

impl Backend {
    pub(crate) fn new(
        vcl: &str,
        spec: BackendSpec,
        env: BackendEnv,
        pool: Arc<EndpointPool>,
        prober: Arc<Prober>,
        lines: Arc<LineBudget>,
    ) -> Arc<Self> {
        let params = env.services.params();
        let hosthdr = spec.hosthdr.clone().unwrap_or_else(|| spec.endpoint.default_host(params.prefer_ipv6));
        let slots = match spec.max_connections {
            0 => None,
            max => Some(Arc::new(Semaphore::new(max as usize))),
        };
        let counters = env.services.publish(vcl, &spec.name);
        counters.set_hidden(true);
        if spec.probe.is_none() {
            counters.happy.set(u64::MAX);
        }
        env.services.main().n_backend.inc();
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            base: DirectorBase::new(vcl, &spec.name, env.clock.real()),
            probe: spec.probe.as_ref().map(|probe| Probe::new(probe, &hosthdr)),
            counters,
            hosthdr: hosthdr.into(),
            pool,
            prober,
            trouble: Arc::default(),
            lines,
            slots,
            waiting: AtomicU32::new(0),
            env,
            service: spec.service.clone(),
            spec: Arc::new(spec),
        })
    }

    pub fn spec(&self) -> &BackendSpec {
        &self.spec
    }

    pub fn signer(&self) -> Option<&RequestSignerRef> {
        self.spec.signer.as_ref()
    }

    /// The Host that a bereq without one gets: just the value.
    pub fn hosthdr(&self) -> &str {
        &self.hosthdr
    }

    /// The backend's counters; the engine adds bytes of a finished fetch here.
    pub fn vbe(&self) -> &Vbe {
        &self.counters
    }

    pub fn is_service(&self) -> bool {
        self.service.is_some()
    }

    pub(crate) fn service(&self) -> Option<&ServiceRef> {
        self.service.as_ref()
    }

    pub(crate) fn env(&self) -> &BackendEnv {
        &self.env
    }

    pub(crate) fn prober(&self) -> &Prober {
        &self.prober
    }

    pub(crate) fn weak(&self) -> Weak<Backend> {
        self.me.clone()
    }

    /// This backend with another service, for one transaction. Everything except the health is shared, and nothing is copied.
    pub fn serving(&self, service: ServiceRef) -> Arc<Backend> {
        self.env.services.main().n_backend.inc();
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            base: DirectorBase::like(&self.base),
            probe: None,
            counters: self.counters.clone(),
            hosthdr: self.hosthdr.clone(),
            pool: self.pool.clone(),
            prober: self.prober.clone(),
            trouble: self.trouble.clone(),
            lines: self.lines.clone(),
            slots: self.slots.clone(),
            waiting: AtomicU32::new(0),
            env: self.env.clone(),
            service: Some(service),
            spec: self.spec.clone(),
        })
    }

    /// `first_byte` and `between_bytes` are bereq's, zero when VCL didn't set them.
    pub fn timeouts(&self, first_byte: Duration, between_bytes: Duration) -> Timeouts {
        let params = self.env.services.params();
        Timeouts {
            first_byte: first_set([first_byte, self.spec.first_byte_timeout, params.first_byte_timeout]),
            between_bytes: first_set([between_bytes, self.spec.between_bytes_timeout, params.between_bytes_timeout]),
        }
    }

    /// An idle connection, if there is nothing to wait for and nothing to send first. Otherwise use [`Backend::connect`].
    pub fn idle(&self, opts: &ConnectOpts<'_>) -> Option<BackendConn> {
        if opts.new_connection || self.spec.proxy_header != 0 || !self.is_healthy() {
            return None;
        }
        let mut slot = match &self.slots {
            None => None,
            Some(slots) => Some(slots.clone().try_acquire_owned().ok()?),
        };
        self.idle_any(opts, &mut slot)
    }

    /// [`Director::healthy`], which for a backend doesn't depend on the time.
    fn is_healthy(&self) -> bool {
        match self.base.admin() {
            AdminHealth::Healthy => true,
            AdminHealth::Sick => false,
            AdminHealth::Auto => self.probe.as_ref().is_none_or(|probe| probe.health().ok),
        }
    }

    /// Takes a connection from the pool, or opens one. Every failure is counted.
    ///
    /// # Errors
    /// Sick, busy, or connecting failed: the error's text is the FetchError record's.
    pub async fn connect(&self, opts: &ConnectOpts<'_>) -> Result<BackendConn, BackendConnectError> {
        let main = self.env.services.main();
        let backend = || self.base.name().to_string();
        if !self.is_healthy() {
            self.vbe().unhealthy.inc();
            main.backend_unhealthy.inc();
            return Err(BackendConnectError::Unhealthy { backend: backend() });
        }
        let Ok((slot, has_waited)) = self.slot().await else {
            self.vbe().busy.inc();
            main.backend_busy.inc();
            return Err(BackendConnectError::Busy { backend: backend() });
        };
        if has_waited && !self.is_healthy() {
            // The backend became sick meanwhile. All waiting fetches fail now, not one by one.
            self.vbe().unhealthy.inc();
            main.backend_unhealthy.inc();
            return Err(BackendConnectError::Unhealthy { backend: backend() });
        }
        if let Some(service) = &self.service {
            main.backend_conn.inc();
            return Ok(BackendConn::other(service.0.exchange(), self.arc(), slot));
        }
        let has_choice = self.pool.endpoint.proto == OriginProto::Auto;
        let conn = if self.pool.endpoint.proto == OriginProto::Http1 || (has_choice && opts.http1) {
            self.connect_http1(opts, slot).await
        } else {
            self.connect_any(opts, slot).await
        };
        conn.map_err(|error| {
            self.count_failure(&error);
            main.backend_fail.inc();
            self.fails(BackendFault::of(&error, &self.host()));
            self.connect_error(error)
        })
    }

    /// Records a failed fetch or probe. The operator is informed once per cause until the backend answers.
    pub fn fails(&self, fault: BackendFault<'_>) {
        let effect = match (fault == BackendFault::Loop, self.spec.is_optional) {
            (true, _) => "requests that need it are answered 508",
            (false, true) => "the origin is asked instead",
            (false, false) => "requests that need it are answered 503",
        };
        if let Some(text) = self.trouble.fails(fault, effect, self.env.clock.mono()) {
            self.tell(&text);
        }
    }

    pub fn answers(&self) {
        if self.trouble.answers() {
            self.tell("answers again");
        }
    }

    pub(crate) fn is_probed_healthy(&self) {
        if self.trouble.is_healthy() {
            self.tell("healthy again");
        }
    }

    /// The failure of the last fetch, and its age in seconds. `None` if the backend has responded since.
    pub fn last_fault(&self) -> Option<(String, f64)> {
        let (at, text) = self.trouble.last()?;
        Some((text, self.env.clock.mono().since(at)))
    }

    /// The name and the address, for messages: `default (127.0.0.1:8080)`.
    pub fn label(&self) -> String {
        match &self.service {
            Some(_) => self.base.name().to_owned(),
            None => format!("{} ({})", self.base.name(), self.spec.endpoint),
        }
    }

    fn tell(&self, text: &str) {
        let line = format!("backend {}: {text}", self.label());
        if let Some(line) = self.lines.spend(line, self.env.clock.mono()) {
            self.env.services.tell_operator(&line);
        }
    }

    async fn connect_http1(&self, opts: &ConnectOpts<'_>, slot: Option<Slot>) -> Result<BackendConn, ConnOpenError> {
        let header = proxy_header(self.spec.proxy_header, opts.ends.as_ref(), opts.authority);
        // A PROXY header is sent only at the beginning of a connection.
        let is_fresh = opts.new_connection || !header.is_empty();
        if !is_fresh && let Some((stream, label)) = self.pool.take(opts.no_resend) {
            return Ok(self.reused(stream, label, slot));
        }
        let params = self.env.services.params();
        let (stream, tls) = self.open(self.connect_limit(opts, &params), true, |_| header.clone(), &params).await?;
        self.env.services.main().backend_conn.inc();
        let label = PeerLabel::new(&stream, tls);
        Ok(BackendConn::http1(stream, label, self.arc(), false, header.len(), slot))
    }

    /// Returns a stream of an HTTP/2 connection, or an HTTP/1 connection if the origin chooses it. If there is none, one of several callers
    /// opens it for all.
    async fn connect_any(&self, opts: &ConnectOpts<'_>, mut slot: Option<Slot>) -> Result<BackendConn, ConnOpenError> {
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
        let label = PeerLabel::new(&stream, tls);
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
        let label = PeerLabel::new(&stream, None);
        h2::alone(stream, *label, &self.pool, &self.env, params)
    }

    /// A stream of an existing connection, or an idle connection.
    fn idle_any(&self, opts: &ConnectOpts<'_>, slot: &mut Option<Slot>) -> Option<BackendConn> {
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
        first_set([opts.connect_timeout, self.spec.connect_timeout, params.connect_timeout])
    }

    fn connect_error(&self, error: ConnOpenError) -> BackendConnectError {
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

    fn arc(&self) -> Arc<Backend> {
        self.me.upgrade().expect("whoever calls holds an Arc: there is no other way to have a backend")
    }

    /// Takes a slot among `.max_connections`, first come, first served. Returns whether it had to wait. `Err`: busy.
    async fn slot(&self) -> Result<(Option<OwnedSemaphorePermit>, bool), ()> {
        let Some(slots) = &self.slots else { return Ok((None, false)) };
        if let Ok(slot) = slots.clone().try_acquire_owned() {
            return Ok((Some(slot), false));
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
        match rt::timeout(wait, slots.clone().acquire_owned()).await {
            Ok(Ok(slot)) => Ok((Some(slot), true)),
            Ok(Err(_)) | Err(rt::Elapsed) => {
                main.backend_wait_fail.inc();
                Err(())
            }
        }
    }

    fn host(&self) -> String {
        self.pool.name.as_ref().map_or_else(String::new, |name| name.host().to_owned())
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
        let until = until.or_else(|| deadline(self.timeouts(Duration::ZERO, Duration::ZERO).first_byte));
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

    pub(crate) fn recycle(&self, stream: Stream, label: Box<PeerLabel>) {
        self.env.services.main().backend_recycle.inc();
        self.pool.put(stream, label, self.env.clock.mono());
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

impl Drop for Backend {
    fn drop(&mut self) {
        self.env.services.main().n_backend.dec();
    }
}

impl Director for Backend {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        "backend"
    }

    fn choose(&self, _ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        Some(self.arc())
    }

    fn as_backend(&self) -> Option<&Backend> {
        Some(self)
    }

    fn own_health(&self, _now: Real) -> Option<Health> {
        self.probe.as_ref().map(Probe::health)
    }

    fn summary(&self, _now: Real) -> Summary {
        self.probe.as_ref().map_or(Summary::UNWATCHED, Probe::summary)
    }

    fn details(&self, _now: Real, out: &mut String) {
        if let Some(probe) = &self.probe {
            probe.details(out);
        }
    }

    fn details_json(&self, _now: Real, out: &mut String) {
        match &self.probe {
            Some(probe) => probe.details_json(out),
            None => out.push_str("{},\n"),
        }
    }

    fn event(&self, event: VclEvent) {
        match event {
            VclEvent::Warm => self.counters.set_hidden(false),
            VclEvent::Cold | VclEvent::Discard => self.counters.set_hidden(true),
        }
        if let Some(probe) = &self.probe {
            probe.event(self, event);
        }
    }
}

/// The deadline after that time. `None` for zero.
pub(crate) fn deadline(limit: Duration) -> Option<Instant> {
    (!limit.is_zero()).then(|| Instant::now() + limit)
}
