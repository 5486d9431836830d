// SPDX-License-Identifier: BSD-2-Clause
//! vmod_dynamic(3) of libvmod-dynamic: a name is a director over a backend for each of its addresses. Names are looked up by
//! the system's resolver, off the runtimes' threads: the first time while the request waits, later every `ttl`, also when nobody asks,
//! while the VCL is warm and the name was used within `domain_usage_timeout`. A name that has had no address is looked up when a request
//! asks for it, which waits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use backend::{
    Backend, BackendLimits, BackendSpec, Director, DirectorBase, Endpoint, Health, ResolveCtx, Summary, VclEvent,
};
use base::{Clock, Mono, Real, Vxid};
use parking_lot::{Mutex, RwLock};
use shm::vsl::{LogRing, Marker};
use tables::Tag;
use tls::origin::TlsOrigin;
use tls::verify::Verify;
use vrt::acl::Acl;
use vrt::vmod::{BACKEND, CallResult, VOID, VmodCall, give, wait};
use vrt::{BackendRef, Blob, HeadId, LoadedVcl, Text, VclFailure};

use vmod_support::args::fail;

/// Names of one director, which may be those that strangers send as Host: one more takes the place of another.
const MAX: usize = 1000;
const ADDRESSES: usize = 64;
/// While so many lookups are under way, names that nobody asks for wait a second longer.
const AT_ONCE: usize = 64;
/// After a lookup that failed the next one comes after a second, then after twice the time, up to so many doublings, unless `ttl` is shorter.
const MOST_DOUBLINGS: u32 = 5;

/// Lookups under way, but for first ones.
pub(crate) static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// A lookup under way in a task. Another may begin when it ends, also if its thread ends before.
struct Looking(Arc<Domain>);

impl Looking {
    fn begin(domain: Arc<Domain>) -> Looking {
        LOOKING.fetch_add(1, Relaxed);
        Looking(domain)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.times.lock().is_looking = false;
        LOOKING.fetch_sub(1, Relaxed);
    }
}

vrt::words! {
    enum Share { Director = "DIRECTOR", Host = "HOST" }
}

vrt::words! {
    enum TtlFrom { Cfg = "cfg", Dns = "dns", Min = "min", Max = "max" }
}

vrt::vmod_args! {
    struct DirectorArgs<'a> {
        port: STRING as &'a [u8] = "http",
        host_header: STRING as Option<&'a Text> = null,
        share: Share as Share = Director,
        probe: PROBE as Option<u32> = null,
        whitelist: ACL as Option<&'a Arc<Acl>> = null,
        ttl: DURATION as f64 = 3600.0,
        connect_timeout: DURATION as Duration = 0.0,
        first_byte_timeout: DURATION as Duration = 0.0,
        between_bytes_timeout: DURATION as Duration = 0.0,
        domain_usage_timeout: DURATION as f64 = 7200.0,
        first_lookup_timeout: DURATION as f64 = 10.0,
        max_connections: INT as i64 = 0,
        proxy_header: INT as i64 = 0,
        resolver: BLOB as Option<&'a Blob> = null,
        ttl_from: TtlFrom as TtlFrom = Cfg,
        ssl: BOOL as bool = false,
        ssl_sni: BOOL as bool = true,
        ssl_verify_peer: BOOL as bool = true,
        ssl_verify_host: BOOL as bool = true,
    }
}

vrt::vmod! {
    /// Backends by names that are only known at run time
    pub(crate) static VMOD = dynamic;

    needs { Authorities }

    /// Creates backends for the addresses of names and uses them in turn. Names are looked up again every ttl while the VCL
    /// is warm and the name was used within domain_usage_timeout. A failed lookup keeps the known addresses and is repeated
    /// after 1 to 32 seconds; a request for a name without an address waits for its lookup. Only addresses in whitelist are
    /// used. With ssl connections use TLS (default port 443); certificates must be from an authority that the system
    /// trusts, unless ssl_verify_peer is false, and for host_header or the name, unless ssl_verify_host is false
    object director(..DirectorArgs<'_>) -> Arc<Dynamic> = new, methods {
        /// Returns the director of a name; of the Host header if host is empty. The first call waits for the lookup
        fn backend(host: STRING = "", port: STRING = "") -> BACKEND, waits = backend;

        /// Turns logging of lookups on or off
        fn debug(_: BOOL) -> VOID = debug;
    }

    left_out {
        "dynamic.resolver" => "a director without one: the system's resolver is asked";
        "dynamic.director.service" => "director.backend with host and port: SRV records aren't looked up";
    }
}

fn debug(this: &Arc<Dynamic>, _: &mut VmodCall<'_>, flag: bool) -> CallResult<VOID> {
    this.debug.store(flag, Relaxed);
    give(())
}

/// The object that `new` makes; goto has the same.
pub(crate) struct Dynamic {
    module: &'static str,
    name: String,
    vcl: Weak<LoadedVcl>,
    clock: Clock,
    log: Arc<LogRing>,
    port: String,
    spec: BackendSpec,
    shares_hosts: bool,
    whitelist: Option<Arc<Acl>>,
    family: AddressFamily,
    ttl: f64,
    unused_for: f64,
    timeout: Duration,
    keeps_last: bool,
    debug: AtomicBool,
    domains: Mutex<Domains>,
    backends: Mutex<Backends>,
}

/// Addresses that count, by family.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AddressFamily {
    Any,
    V4,
    V6,
}

pub(crate) struct DynamicPlan {
    pub(crate) module: &'static str,
    pub(crate) port: String,
    pub(crate) spec: BackendSpec,
    pub(crate) shares_hosts: bool,
    pub(crate) whitelist: Option<Arc<Acl>>,
    pub(crate) family: AddressFamily,
    pub(crate) ttl: f64,
    pub(crate) unused_for: f64,
    pub(crate) timeout: Duration,
    /// A lookup that finds no address that counts changes nothing.
    pub(crate) keeps_last: bool,
}

/// Backends by address and, unless hosts share, by host.
type Backends = HashMap<(SocketAddr, Option<String>), Weak<dyn Director>>;

type ByName = HashMap<(String, String), Arc<Domain>>;

#[derive(Default)]
struct Domains {
    used: ByName,
    /// Those that nobody asks for any more: what backends they share with others stays until the next look.
    unused: ByName,
    sweep: Option<Mono>,
}

pub(crate) struct Domain {
    module: &'static str,
    base: DirectorBase,
    me: Weak<Domain>,
    owner: Weak<Dynamic>,
    host: String,
    port: String,
    backends: RwLock<Vec<Arc<dyn Director>>>,
    turn: AtomicUsize,
    times: Mutex<Times>,
}

struct Times {
    used: Mono,
    due: Option<Mono>,
    is_looking: bool,
    failures: u32,
}

fn new(call: &mut VmodCall<'_>, name: &str, args: DirectorArgs<'_>) -> Result<Arc<Dynamic>, VclFailure> {
    let refused = |what: &str| fail(format!("dynamic.director(): {what}"));
    if args.resolver.is_some() || args.ttl_from != TtlFrom::Cfg {
        return refused(
            "resolver and ttl_from aren't built into Lacquer: addresses come from the system's resolver, for ttl",
        );
    }
    let probe = probe(call, args.probe);
    let Ok(proxy_header @ 0..=2) = u8::try_from(args.proxy_header) else {
        return refused("proxy_header must be 0, 1 or 2");
    };
    let Ok(max_connections) = u32::try_from(args.max_connections) else {
        return refused("max_connections must not be negative");
    };
    let port = match String::from_utf8_lossy(args.port).into_owned() {
        usual if args.ssl && usual == "http" => "https".to_owned(),
        port => port,
    };
    if port.is_empty() {
        return refused("port may not be empty");
    }
    let nonzero = [
        (args.ttl, "ttl"),
        (args.domain_usage_timeout, "domain_usage_timeout"),
        (args.first_lookup_timeout, "first_lookup_timeout"),
    ];
    for (seconds, name) in nonzero {
        if seconds == 0.0 {
            return refused(&format!("{name} may not be 0s"));
        }
    }
    let hosthdr = args.host_header.map(|host| host.lossy().into_owned());
    let tls = args.ssl.then(|| {
        let name = vrt::host_alone(hosthdr.as_deref().unwrap_or_default());
        let verify = Verify::of(args.ssl_verify_peer, args.ssl_verify_host);
        Ok(TlsOrigin { verify, sni: args.ssl_sni, ..TlsOrigin::of(name) })
    });
    let spec = BackendSpec {
        hosthdr,
        limits: BackendLimits {
            connect: args.connect_timeout,
            first_byte: args.first_byte_timeout,
            between_bytes: args.between_bytes_timeout,
        },
        max_connections,
        proxy_header,
        probe,
        ..BackendSpec::new(name, Endpoint { tls, ..Endpoint::default() })
    };
    let plan = DynamicPlan {
        module: "dynamic",
        port,
        spec,
        shares_hosts: args.share == Share::Director,
        whitelist: args.whitelist.cloned(),
        family: AddressFamily::Any,
        ttl: args.ttl.max(0.0),
        unused_for: args.domain_usage_timeout,
        timeout: Duration::try_from_secs_f64(args.first_lookup_timeout).unwrap_or(Duration::ZERO),
        keeps_last: false,
    };
    Ok(Arc::new(Dynamic::new(call, name, plan)))
}

pub(crate) fn probe(call: &VmodCall<'_>, index: Option<u32>) -> Option<backend::ProbeSpec> {
    call.vcl.program.probes.get(index? as usize).map(vrt::probe_spec)
}

fn host_of(call: &mut VmodCall<'_>) -> Option<String> {
    let field = |id: HeadId| Some(call.ctx.head(id)?.get("Host")?.to_vec());
    let host = [HeadId::Bereq, HeadId::Req].into_iter().find_map(field)?;
    let host = String::from_utf8_lossy(&host);
    let end = match host.strip_prefix('[') {
        Some(rest) => return rest.split_once(']').map(|(address, _)| address.to_owned()),
        None => host.find(':').unwrap_or(host.len()),
    };
    (end > 0).then(|| host[..end].to_owned())
}

fn backend(dynamic: &Arc<Dynamic>, call: &mut VmodCall<'_>, host: &[u8], port: &[u8]) -> CallResult<BACKEND> {
    let given = |text: &[u8]| Some(String::from_utf8_lossy(text).into_owned()).filter(|s| !s.is_empty());
    let Some(host) = given(host).or_else(|| host_of(call)) else { return give(None::<BackendRef>) };
    let port = given(port).unwrap_or_else(|| dynamic.port.clone());
    serve(dynamic, call, &host, port)
}

/// The director of a name, once it was looked up.
pub(crate) fn serve(dynamic: &Arc<Dynamic>, call: &mut VmodCall<'_>, host: &str, port: String) -> CallResult<BACKEND> {
    let domain = dynamic.domain(call, host.to_ascii_lowercase(), port);
    if domain.is_known() {
        domain.refresh();
        return give(domain);
    }
    wait(async move {
        domain.clone().look_first().await;
        Ok(domain)
    })
}

impl Dynamic {
    pub(crate) fn new(call: &mut VmodCall<'_>, name: &str, plan: DynamicPlan) -> Dynamic {
        Dynamic {
            module: plan.module,
            name: name.to_owned(),
            vcl: Arc::downgrade(call.vcl),
            clock: call.ctx.clock().clone(),
            log: call.ctx.log().ring().clone(),
            port: plan.port,
            spec: plan.spec,
            shares_hosts: plan.shares_hosts,
            whitelist: plan.whitelist,
            family: plan.family,
            ttl: plan.ttl,
            unused_for: plan.unused_for,
            timeout: plan.timeout,
            keeps_last: plan.keeps_last,
            debug: AtomicBool::new(false),
            domains: Mutex::default(),
            backends: Mutex::default(),
        }
    }

    fn takes(&self, addr: SocketAddr) -> bool {
        match self.family {
            AddressFamily::Any => true,
            AddressFamily::V4 => addr.is_ipv4(),
            AddressFamily::V6 => addr.is_ipv6(),
        }
    }

    /// The name's director, made when there is none. Names that nobody used for long go.
    pub(crate) fn domain(self: &Arc<Self>, call: &mut VmodCall<'_>, host: String, port: String) -> Arc<Domain> {
        let now = self.clock.mono();
        let key = (host.clone(), port.clone());
        let mut domains = self.domains.lock();
        let known = domains.used.get(&key).cloned().or_else(|| {
            let back = domains.unused.remove(&key)?;
            domains.used.insert(key.clone(), back.clone());
            Some(back)
        });
        if let Some(known) = &known {
            known.times.lock().used = now;
        }
        let swept = domains.sweep(now, self.unused_for);
        let evicted = if known.is_none() { domains.make_room() } else { ByName::new() };
        drop(domains);
        if let Some((timed_out, gone)) = swept {
            self.tell(call, &timed_out, "timeout");
            self.tell(call, &gone, "deleted");
        }
        self.tell(call, &evicted, "evicted");
        if let Some(known) = known {
            return known;
        }
        let name = format!("{}({host}:{port})", self.name);
        let domain = Arc::new_cyclic(|me| Domain {
            me: me.clone(),
            module: self.module,
            base: DirectorBase::new(&call.vcl.name, &name, call.ctx.clock().real()),
            owner: Arc::downgrade(self),
            host: host.clone(),
            port: port.clone(),
            backends: RwLock::default(),
            turn: AtomicUsize::new(0),
            times: Mutex::new(Times { used: now, due: None, is_looking: false, failures: 0 }),
        });
        match self.domains.lock().used.entry(key) {
            // Another was first.
            Entry::Occupied(first) => return first.get().clone(),
            Entry::Vacant(place) => drop(place.insert(domain.clone())),
        }
        let known: Arc<dyn Director> = domain.clone();
        call.vcl.add_director(&known);
        domain
    }

    fn tell(&self, call: &mut VmodCall<'_>, domains: &ByName, what: &str) {
        for (host, port) in domains.keys() {
            let (module, vcl, name) = (self.module, &call.vcl.name, &self.name);
            call.ctx.log().putf(Tag::VclLog, format_args!("vmod-{module}: {vcl} {name} {host}:{port} {what}"));
        }
    }

    fn log(&self, tag: Tag, domain: &Domain, what: std::fmt::Arguments<'_>) {
        if tag == Tag::Error || self.debug.load(Relaxed) {
            let vcl = self.vcl.upgrade().map(|vcl| vcl.name.clone()).unwrap_or_default();
            let (host, port) = (&domain.host, &domain.port);
            let text = format_args!("vmod-{}: {vcl} {} {host}:{port} {what}", self.module, self.name);
            self.log.write_onef(tag, Vxid::NONE, Marker::None, text);
        }
    }

    /// The backend of an address, shared with the other names that have it if that is wanted. By TLS it is one name's.
    fn backend(&self, addr: SocketAddr, host: &str, port: &str) -> Option<Arc<dyn Director>> {
        let tls = self.spec.endpoint.tls.clone().map(|origin| origin.map(|origin| named(origin, host)));
        let is_shared = self.shares_hosts && tls.is_none();
        let owner = (!is_shared).then(|| host.to_owned());
        let mut backends = self.backends.lock();
        if let Some(known) = backends.get(&(addr, owner.clone())).and_then(Weak::upgrade) {
            return Some(known);
        }
        backends.retain(|_, backend| backend.strong_count() > 0);
        let (name, ip) = (&self.name, addr.ip());
        let name = match &owner {
            Some(host) => format!("{name}.{host}({ip}:{port})"),
            None => format!("{name}({ip}:{port})"),
        };
        let hosthdr = self.spec.hosthdr.clone().or_else(|| owner.clone());
        let endpoint = Endpoint { preamble: self.spec.endpoint.preamble.clone(), tls, ..Endpoint::addr(addr) };
        let spec = BackendSpec { name, endpoint, hosthdr, ..self.spec.clone() };
        let backend = self.vcl.upgrade()?.make_backend(spec)?;
        backends.insert((addr, owner), Arc::downgrade(&backend));
        Some(backend)
    }
}

fn named(origin: TlsOrigin, host: &str) -> TlsOrigin {
    if origin.name.is_empty() { TlsOrigin { name: host.to_owned(), ..origin } } else { origin }
}

impl Domains {
    /// When there are [`MAX`] names: one that has no address, or else any, goes: the one that was used longest ago. Names that clients make up
    /// are gone before those that are used. Requests that use it keep it.
    fn make_room(&mut self) -> ByName {
        if self.used.len() < MAX {
            return ByName::new();
        }
        let rank = |domain: &Domain| (domain.has_address(), domain.times.lock().used.0);
        let least = self.used.iter().min_by(|(_, a), (_, b)| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let least = least.map(|(key, _)| key.clone());
        least.and_then(|key| self.used.remove_entry(&key)).into_iter().collect()
    }

    /// From time to time: which names time out now, and which go for good.
    fn sweep(&mut self, now: Mono, unused_for: f64) -> Option<(ByName, ByName)> {
        if unused_for <= 0.0 || self.sweep.is_some_and(|at| now.since(at) < 0.0) {
            return None;
        }
        self.sweep = Some(now.plus(unused_for / 2.0));
        let gone = std::mem::take(&mut self.unused);
        self.unused = self.used.extract_if(|_, domain| now.since(domain.times.lock().used) > unused_for).collect();
        Some((self.unused.clone(), gone))
    }
}

impl Domain {
    /// True if a request can go on without a lookup: one has ended, and has found an address or isn't to be repeated
    /// yet.
    pub(crate) fn is_known(&self) -> bool {
        let Some(due) = self.times.lock().due else { return false };
        let is_due = self.owner.upgrade().is_some_and(|owner| owner.clock.mono().since(due) >= 0.0);
        !is_due || self.has_address()
    }

    fn has_address(&self) -> bool {
        !self.backends.read().is_empty()
    }

    /// The first lookup, as long as its director waits for it.
    pub(crate) async fn look_first(self: Arc<Self>) {
        let Some(timeout) = self.owner.upgrade().map(|owner| owner.timeout) else { return };
        // Several may ask at once: each looks, as none of them can wait for another's task.
        let _ = rt::timeout(timeout, self.look_up()).await;
    }

    /// The next who asks looks again.
    pub(crate) fn make_due(&self) {
        if let (Some(owner), Some(due)) = (self.owner.upgrade(), &mut self.times.lock().due) {
            *due = owner.clock.mono();
        }
    }

    /// The backends that the last lookup found; starts another lookup when it is time.
    pub(crate) fn backends(&self) -> Vec<Arc<dyn Director>> {
        self.refresh();
        self.backends.read().clone()
    }

    fn refresh(&self) {
        let (Some(me), Some(owner)) = (self.me.upgrade(), self.owner.upgrade()) else { return };
        let now = owner.clock.mono();
        let is_due = {
            let mut times = self.times.lock();
            times.used = now;
            times.begin_if_due(now)
        };
        if is_due {
            me.start();
        }
    }

    fn start(self: Arc<Self>) {
        let looking = Looking::begin(self);
        drop(rt::spawn(async move {
            looking.0.clone().look_up().await;
            drop(looking);
        }));
    }

    async fn look_up(self: Arc<Self>) {
        let found = net::resolve::resolve(Some(&self.host), &self.port, false).await;
        let Some(owner) = self.owner.upgrade() else { return };
        let is_found = found.is_ok();
        match found {
            Ok(addrs) => self.take(&owner, addrs),
            Err(error) => owner.log(Tag::Error, &self, format_args!("getaddrinfo ({error})")),
        }
        self.times.lock().end(owner.clock.mono(), owner.ttl, is_found);
    }

    /// These are the addresses from now on. Fetches under way keep the backends that they have.
    fn take(&self, owner: &Dynamic, addrs: Vec<SocketAddr>) {
        let mut backends: Vec<Arc<dyn Director>> = Vec::new();
        for addr in addrs.into_iter().filter(|addr| owner.takes(*addr)).take(ADDRESSES) {
            if owner.whitelist.as_ref().is_some_and(|acl| !acl.matches(addr.ip()).allowed) {
                owner.log(Tag::Error, self, format_args!("whitelist mismatch {addr}"));
                continue;
            }
            let Some(backend) = owner.backend(addr, &self.host, &self.port) else { continue };
            if !backends.iter().any(|other| Arc::ptr_eq(other, &backend)) {
                owner.log(Tag::Debug, self, format_args!("address {addr}"));
                backends.push(backend);
            }
        }
        if backends.is_empty() && owner.keeps_last {
            return;
        }
        let old = std::mem::replace(&mut *self.backends.write(), backends);
        drop(old);
    }

    fn any_healthy(&self, health: impl Fn(&Arc<dyn Director>) -> Health) -> Health {
        let backends = self.backends.read();
        let all = backends.iter().map(health);
        all.fold(Health { ok: false, changed: Real(0.0) }, |sum, one| Health {
            ok: sum.ok || one.ok,
            changed: Real(sum.changed.0.max(one.changed.0)),
        })
    }
}

impl Times {
    /// Begins a lookup if one is due. The first belongs to the request that needs it.
    fn begin_if_due(&mut self, now: Mono) -> bool {
        let is_due = !self.is_looking && self.due.is_none_or(|due| now.since(due) >= 0.0);
        self.is_looking |= is_due;
        is_due
    }

    fn end(&mut self, now: Mono, ttl: f64, is_found: bool) {
        let retry = f64::from(1_u32 << self.failures.min(MOST_DOUBLINGS));
        self.failures = if is_found { 0 } else { self.failures.saturating_add(1) };
        self.due = Some(now.plus(if is_found { ttl } else { ttl.min(retry) }));
    }
}

impl Director for Domain {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        self.module
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        self.refresh();
        let of: Vec<Arc<dyn Director>> = {
            let backends = self.backends.read();
            let healthy: Vec<_> = backends.iter().filter(|backend| backend.healthy_for(ctx).ok).cloned().collect();
            // One that is sick says so itself.
            if healthy.is_empty() { backends.clone() } else { healthy }
        };
        let at = self.turn.fetch_add(1, Relaxed).checked_rem(of.len())?;
        of[at].resolve(ctx)
    }

    fn look_again(&self) {
        let (Some(me), Some(owner)) = (self.me.upgrade(), self.owner.upgrade()) else { return };
        let now = owner.clock.mono();
        // A client can make names up, a thousand in a second: one that has had no address waits for the next request.
        if !self.has_address() {
            return;
        }
        if LOOKING.load(Relaxed) >= AT_ONCE {
            return;
        }
        {
            let mut times = self.times.lock();
            let is_used = owner.unused_for <= 0.0 || now.since(times.used) <= owner.unused_for;
            if times.due.is_none() || !is_used || !times.begin_if_due(now) {
                return;
            }
        }
        me.start();
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        Some(self.any_healthy(|backend| backend.healthy(now)))
    }

    fn own_health_for(&self, ctx: &dyn ResolveCtx) -> Option<Health> {
        Some(self.any_healthy(|backend| backend.healthy_for(ctx)))
    }

    fn summary(&self, now: Real) -> Summary {
        let backends = self.backends.read();
        let good = backends.iter().filter(|backend| backend.healthy(now).ok).count() as u32;
        Summary { good, of: backends.len() as u32, healthy: good > 0 }
    }

    fn event(&self, _: VclEvent) {
        // Its backends are known to the VCL and hear of it themselves.
    }
}
