// SPDX-License-Identifier: BSD-2-Clause
//! A backend: one server of one VCL, with its counters, its health and its share of a connection pool.

mod connect;

use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Real;
use net::Stream;
use net::proxy::{self, ProxyEnds};
use params::NEVER;
use rt::Instant;
use shm::vsc::CounterSet;
use tables::counters::Vbe;
use tables::origin_proto::OriginProto;
use tokio::sync::Semaphore;

use crate::pool::{EndpointPool, PeerLabel};
use crate::probe::Probe;
use crate::registry::Prober;
use crate::trouble::{BackendFault, BackendTrouble, LineBudget};
use crate::{
    AdminHealth, BackendConn, BackendConnectError, BackendEnv, BackendLimits, BackendSpec, Director, DirectorBase,
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
    /// The limits that VCL sets for this request.
    pub limits: BackendLimits,
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

    /// The IPv4 and the IPv6 address; where the backend has a name, those of the latest lookup.
    pub(crate) fn addresses(&self) -> [Option<SocketAddr>; 2] {
        let endpoint = &self.spec().endpoint;
        match &self.pool.name {
            Some(name) => [false, true].map(|v6| name.first(v6)),
            None => [endpoint.ipv4, endpoint.ipv6],
        }
    }

    pub fn spec(&self) -> &BackendSpec {
        &self.spec
    }

    /// The same number for backends of the same endpoint, also in other VCLs.
    pub fn endpoint_id(&self) -> u64 {
        self.pool.id
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

    /// The limits of a request for which VCL sets those.
    pub fn limits(&self, set: BackendLimits) -> BackendLimits {
        set.or(self.spec.limits).or(self.env.services.params().limits)
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
        let Ok(slot) = self.slot().await else {
            self.vbe().busy.inc();
            main.backend_busy.inc();
            return Err(BackendConnectError::Busy { backend: backend() });
        };
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

    fn arc(&self) -> Arc<Backend> {
        self.me.upgrade().expect("whoever calls holds an Arc: there is no other way to have a backend")
    }

    fn host(&self) -> String {
        self.pool.name.as_ref().map_or_else(String::new, |name| name.host().to_owned())
    }

    pub(crate) fn recycle(&self, stream: Stream, label: Box<PeerLabel>) {
        self.env.services.main().backend_recycle.inc();
        self.pool.put(stream, label, self.env.clock.mono());
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

/// The deadline after that time. `None` for zero and [`NEVER`].
pub(crate) fn deadline(limit: Duration) -> Option<Instant> {
    (!limit.is_zero() && limit < NEVER).then(|| Instant::now() + limit)
}
