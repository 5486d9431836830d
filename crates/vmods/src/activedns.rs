// SPDX-License-Identifier: BSD-2-Clause
//! vmod_activedns: groups, each a name whose addresses are backends for who subscribes to the group's tag (udo). How names are
//! looked up is dynamic's. The reference part of its documentation wasn't to be had: the methods here are those that public VCL files call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use backend::{BackendSpec, Endpoint, ProbeSpec};
use parking_lot::Mutex;
use tls::origin::TlsOrigin;
use vrt::vmod::{CallResult, VOID, VmodCall, give};
use vrt::{BackendRef, Text, VclFailure};

use crate::dynamic::{AddressFamily, Domain, Dynamic, DynamicPlan, probe};
use crate::goto;
use vmod_support::args::fail;

const TTL: f64 = 10.0;
const TIMEOUT: Duration = Duration::from_secs(10);

vrt::words! {
    enum Rule { Abide = "abide", Force = "force", Morethan = "morethan", Lessthan = "lessthan" }
}

vrt::words! {
    enum DnsGroupRule { Ipv4 = "ipv4", Ipv6 = "ipv6" }
}

vrt::words! {
    enum RuleWord { IgnoreEmpty = "ignore_empty" }
}

vrt::words! {
    enum What { Host = "host", Cache = "cache", Info = "info" }
}

vrt::vmod! {
    /// DNS names whose addresses become the backends of subscribed directors (udo). The system's resolver is used outside
    /// of the serving threads: requests wait for the first lookup; later lookups happen every ttl, even without requests.
    /// The resolver reports no TTLs (which counts as a TTL of 0, so the configured ttl applies) and no SRV records
    pub(crate) static VMOD = activedns;

    needs { Authorities }

    functions {
        /// Sets the ttl of groups created later (default 10s)
        fn set_default_ttl(ttl: DURATION) -> VOID = set_default_ttl;
    }

    /// A name: HOST, HOST:PORT or http[s]://HOST:PORT (default port 80; 443 with https:// or a template that has .ssl).
    /// With https the certificate must be for the name and from an authority that the system trusts, unless the template
    /// says otherwise. Nothing is looked up before there is a name and a subscriber
    object dns_group(host: STRING = null) -> Arc<AddressGroup> = new, methods {
        /// Returns the tag with which directors subscribe
        fn get_tag() -> STRING, local = |this: &Arc<AddressGroup>, _| this.tag.clone();

        /// Sets the name: HOST, HOST:PORT or http[s]://HOST:PORT
        fn set_host(host: STRING) -> VOID = set_host;

        /// Sets the port of all backends, overriding that of the name
        fn set_port(port: STRING) -> VOID = set_port;

        /// Sets how old addresses may be before they are looked up again
        fn set_ttl(ttl: DURATION) -> VOID
            = |this: &Arc<AddressGroup>, _, ttl: f64| set(this, |settings| settings.ttl = ttl.max(0.0));

        /// Selects the TTL of the DNS or of the group. The resolver reports no TTLs, so the group's always applies
        fn set_ttl_rule(rule: Rule) -> VOID = |_: &Arc<AddressGroup>, _, _: Rule| ();

        /// Restricts the addresses to one family (default: both)
        fn set_ipv_rule(rule: DnsGroupRule) -> VOID = set_ipv_rule;

        /// Keeps the known addresses if a lookup finds no usable one. A failed lookup always keeps them
        fn set_update_rule(rule: RuleWord) -> VOID = set_update_rule;

        /// Sets a backend whose attributes, except its addresses, apply to all backends. Their Host is its .host_header, or
        /// else the name
        fn set_backend_template(backend: BACKEND) -> VOID = set_backend_template;

        /// Sets the probe of the backends, overriding the template's
        fn set_probe_template(probe: PROBE) -> VOID = set_probe_template;

        /// Looks the name up again at the next use
        fn refresh(what: What) -> VOID = refresh;
    }

    left_out {
        "activedns.dns_group.set_port_rule" => "nothing: SRV records aren't looked up, so set_port's port holds";
    }
}

fn set_default_ttl(call: &mut VmodCall<'_>, ttl: f64) -> CallResult<VOID> {
    *call.module.get_or(DefaultTtl::default).0.lock() = Some(ttl.max(0.0));
    give(())
}

fn set_host(this: &Arc<AddressGroup>, _: &mut VmodCall<'_>, host: &[u8]) -> CallResult<VOID> {
    let is_https = goto::is_https(&String::from_utf8_lossy(host));
    let (host, port) = place(&this.name, "set_host", host)?;
    set(this, |settings| (settings.host, settings.host_port, settings.is_https) = (Some(host), port, is_https))
}

fn set_port(this: &Arc<AddressGroup>, _: &mut VmodCall<'_>, port: &[u8]) -> CallResult<VOID> {
    let text = port.escape_ascii().to_string();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) || text.parse::<u16>().is_err() {
        return fail(format!("activedns: {}.set_port(): \"{text}\" is no port", this.name));
    }
    set(this, |settings| settings.port = Some(text))
}

fn set_ipv_rule(this: &Arc<AddressGroup>, _: &mut VmodCall<'_>, rule: DnsGroupRule) -> CallResult<VOID> {
    let family = if rule == DnsGroupRule::Ipv4 { AddressFamily::V4 } else { AddressFamily::V6 };
    set(this, |settings| settings.family = family)
}

fn set_update_rule(this: &Arc<AddressGroup>, _: &mut VmodCall<'_>, rule: RuleWord) -> CallResult<VOID> {
    let keeps_last = rule == RuleWord::IgnoreEmpty;
    set(this, |settings| settings.keeps_last = keeps_last)
}

fn set_probe_template(this: &Arc<AddressGroup>, call: &mut VmodCall<'_>, probe2: Option<u32>) -> CallResult<VOID> {
    let probe = probe(call, probe2);
    set(this, |settings| settings.probe = probe)
}

fn refresh(this: &Arc<AddressGroup>, _: &mut VmodCall<'_>, _: What) -> CallResult<VOID> {
    if let Some(resolver) = &*this.resolver.lock() {
        resolver.domain.make_due();
    }
    give(())
}

#[derive(Default)]
struct DefaultTtl(Mutex<Option<f64>>);

pub(crate) struct AddressGroup {
    name: String,
    tag: String,
    settings: Mutex<Settings>,
    /// Made by the settings that it has.
    resolver: Mutex<Option<Resolver>>,
}

#[derive(Clone, PartialEq)]
struct Settings {
    host: Option<String>,
    host_port: Option<String>,
    is_https: bool,
    port: Option<String>,
    ttl: f64,
    family: AddressFamily,
    keeps_last: bool,
    template: Option<BackendSpec>,
    probe: Option<ProbeSpec>,
}

struct Resolver {
    settings: Settings,
    /// The domain refers to it weakly.
    _dynamic: Arc<Dynamic>,
    domain: Arc<Domain>,
}

/// All groups of the process, by tag: who subscribes is another module.
static GROUPS: LazyLock<Mutex<HashMap<String, Weak<AddressGroup>>>> = LazyLock::new(Mutex::default);

pub(crate) fn find(tag: &[u8]) -> Option<Arc<AddressGroup>> {
    GROUPS.lock().get(std::str::from_utf8(tag).ok()?)?.upgrade()
}

fn new(call: &mut VmodCall<'_>, name: &str, host: Option<&Text>) -> Result<Arc<AddressGroup>, VclFailure> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let is_https = host.is_some_and(|text| goto::is_https(&text.lossy()));
    let (host, host_port) = match host {
        Some(text) => {
            let (host, port) = place(name, "dns_group", text)?;
            (Some(host), port)
        }
        None => (None, None),
    };
    let ttl = call.module.get_or(DefaultTtl::default).0.lock().unwrap_or(TTL);
    let settings = Settings {
        host,
        host_port,
        is_https,
        port: None,
        ttl,
        family: AddressFamily::Any,
        keeps_last: false,
        template: None,
        probe: None,
    };
    let tag = format!("activedns.{}.{name}.{}", call.vcl.name, NEXT.fetch_add(1, Relaxed));
    let group = Arc::new(AddressGroup {
        name: name.to_owned(),
        tag: tag.clone(),
        settings: Mutex::new(settings),
        resolver: Mutex::default(),
    });
    let mut groups = GROUPS.lock();
    groups.retain(|_, group| group.strong_count() > 0);
    groups.insert(tag, Arc::downgrade(&group));
    Ok(group)
}

fn place(name: &str, who: &str, text: &[u8]) -> Result<(String, Option<String>), VclFailure> {
    let text = String::from_utf8_lossy(text);
    goto::split(&text).ok_or_else(|| {
        VclFailure::new(format!("activedns: {name}.{who}(): \"{}\" is neither HOST nor HOST:PORT", text.escape_debug()))
    })
}

fn set(group: &AddressGroup, change: impl FnOnce(&mut Settings)) -> CallResult<VOID> {
    change(&mut group.settings.lock());
    give(())
}

fn set_backend_template(
    this: &Arc<AddressGroup>,
    call: &mut VmodCall<'_>,
    backend: Option<&BackendRef>,
) -> CallResult<VOID> {
    let spec = backend.and_then(|backend| declared(call, backend));
    let reason = match &spec {
        None => "not a backend that VCL declares",
        Some(BackendSpec { via: Some(_), .. }) => "a backend with .via has one address",
        Some(_) => "",
    };
    let Some(spec) = spec.filter(|_| reason.is_empty()) else {
        return fail(format!("activedns: {}.set_backend_template(): {reason}", this.name));
    };
    set(this, |settings| settings.template = Some(spec))
}

/// The settings that VCL gives a backend. Its Host is the declared one, not its address.
fn declared(call: &mut VmodCall<'_>, backend: &BackendRef) -> Option<BackendSpec> {
    let compat = call.ctx.compat();
    let is_it = |own: &Option<BackendRef>| {
        own.as_ref().is_some_and(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(backend)))
    };
    let program = &call.vcl.program;
    let decl = program.backends.get(call.vcl.backends.iter().position(is_it)?)?;
    let mut spec =
        BackendSpec { hosthdr: decl.host_header.clone(), ..vrt::backend_spec(program, decl, &call.vcl.keys, compat)? };
    if let (Some(Ok(origin)), None) = (&mut spec.endpoint.tls, &decl.host_header) {
        origin.name.clear();
    }
    Some(spec)
}

impl AddressGroup {
    /// The domain with the present settings: settings that have changed make another one. `None` while there is no
    /// host.
    pub(crate) fn domain(&self, call: &mut VmodCall<'_>) -> Option<Arc<Domain>> {
        let settings = {
            let settings = self.settings.lock();
            if let Some(domain) = self.made_by(&settings) {
                return Some(domain);
            }
            settings.clone()
        };
        // Made while nobody waits for a lock. Of two who do that at once the first wins.
        let host = settings.host.clone()?;
        let mut template =
            settings.template.clone().unwrap_or_else(|| BackendSpec::new(&self.name, Endpoint::default()));
        if settings.is_https {
            let name = vrt::host_alone(template.hosthdr.as_deref().unwrap_or_default());
            template.endpoint.tls.get_or_insert_with(|| Ok(TlsOrigin::of(name)));
        }
        let usual = if template.endpoint.tls.is_some() { "443" } else { "80" };
        let port = settings.port.clone().or_else(|| settings.host_port.clone()).unwrap_or_else(|| usual.to_owned());
        let probe = settings.probe.clone().or_else(|| template.probe.clone());
        let plan = DynamicPlan {
            module: "activedns",
            port: port.clone(),
            spec: BackendSpec { probe, found: Vec::new(), ..template },
            shares_hosts: false,
            whitelist: None,
            family: settings.family,
            ttl: settings.ttl,
            unused_for: f64::INFINITY,
            timeout: TIMEOUT,
            keeps_last: settings.keeps_last,
        };
        let dynamic = Arc::new(Dynamic::new(call, &self.name, plan));
        let domain = dynamic.domain(call, host, port);
        let new = Resolver { settings, _dynamic: dynamic, domain: domain.clone() };
        let old = {
            let mut resolver = self.resolver.lock();
            match &*resolver {
                Some(first) if first.settings == new.settings => return Some(first.domain.clone()),
                _ => resolver.replace(new),
            }
        };
        drop(old);
        Some(domain)
    }

    fn made_by(&self, settings: &Settings) -> Option<Arc<Domain>> {
        let resolver = self.resolver.lock();
        resolver.as_ref().filter(|resolver| resolver.settings == *settings).map(|resolver| resolver.domain.clone())
    }

    pub(crate) fn known(&self) -> Option<Arc<Domain>> {
        self.resolver.lock().as_ref().map(|resolver| resolver.domain.clone())
    }
}
