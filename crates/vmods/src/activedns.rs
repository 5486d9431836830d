// SPDX-License-Identifier: BSD-2-Clause
//! vmod_activedns: groups, each a name whose addresses are backends for who subscribes to the group's tag (udo). How names are
//! looked up is dynamic's. The reference part of its documentation wasn't to be had: the methods here are those that public VCL files call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use backend::{BackendSpec, Endpoint, ProbeSpec};
use parking_lot::Mutex;
use vrt::vmod::{Call, CallResult, Class, Object, ObjectMethod, Vmod};
use vrt::{BackendRef, Failure, Value};

use crate::args::{Args, fail, give};
use crate::dynamic::{Domain, Dynamic, Family, Plan, probe};
use crate::goto;

/// The ttl of groups when nobody says.
const TTL: f64 = 10.0;
/// How long the first lookup of a name may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// vmod_activedns
pub(crate) static VMOD: Vmod = Vmod {
    name: "activedns",
    functions: &[("set_default_ttl", |call, args| {
        *call.module.get_or(DefaultTtl::default).0.lock() = Some(Args(args).real(0).max(0.0));
        give(Value::Void)
    })],
    classes: &[Class { name: "dns_group", new, methods: METHODS }],
};

const METHODS: &[(&str, ObjectMethod)] = &[
    ("get_tag", |_, object, _| give(Value::text(this(object).tag.clone()))),
    ("set_host", |_, object, args| {
        let (host, port) = place(&this(object).name, "set_host", Args(args).bytes_of(0))?;
        set(object, |settings| (settings.host, settings.host_port) = (Some(host), port))
    }),
    ("set_port", |_, object, args| {
        let text = Args(args).bytes_of(0).escape_ascii().to_string();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) || text.parse::<u16>().is_err() {
            return fail(format!("activedns: {}.set_port(): \"{text}\" is no port", this(object).name));
        }
        set(object, |settings| settings.port = Some(text))
    }),
    ("set_ttl", |_, object, args| set(object, |settings| settings.ttl = Args(args).real(0).max(0.0))),
    // Without TTLs out of the DNS each rule says that the group's holds.
    ("set_ttl_rule", |_, _, _| give(Value::Void)),
    ("set_ipv_rule", |_, object, args| {
        let family = if Args(args).word(0) == "ipv4" { Family::V4 } else { Family::V6 };
        set(object, |settings| settings.family = family)
    }),
    ("set_update_rule", |_, object, args| {
        let keeps_last = Args(args).word(0) == "ignore_empty";
        set(object, |settings| settings.keeps_last = keeps_last)
    }),
    ("set_backend_template", set_backend_template),
    ("set_probe_template", |call, object, args| {
        let probe = probe(call, &args[0]);
        set(object, |settings| settings.probe = probe)
    }),
    ("refresh", |_, object, _| {
        if let Some(resolver) = &*this(object).resolver.lock() {
            resolver.domain.make_due();
        }
        give(Value::Void)
    }),
];

#[derive(Default)]
struct DefaultTtl(Mutex<Option<f64>>);

/// A `dns_group` object.
pub(crate) struct Group {
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
    port: Option<String>,
    ttl: f64,
    family: Family,
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
static GROUPS: LazyLock<Mutex<HashMap<String, Weak<Group>>>> = LazyLock::new(Mutex::default);

/// The group of a tag.
pub(crate) fn find(tag: &[u8]) -> Option<Arc<Group>> {
    GROUPS.lock().get(std::str::from_utf8(tag).ok()?)?.upgrade()
}

fn this(object: &Object) -> Arc<Group> {
    object.clone().downcast().expect("made by this class")
}

fn new(call: &mut Call<'_>, name: &str, args: &[Value]) -> Result<Object, Failure> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (host, host_port) = match Args(args).text(0) {
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
        port: None,
        ttl,
        family: Family::Any,
        keeps_last: false,
        template: None,
        probe: None,
    };
    let tag = format!("activedns.{}.{name}.{}", call.vcl.name, NEXT.fetch_add(1, Relaxed));
    let group = Arc::new(Group {
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

/// Host and port of a text.
fn place(name: &str, who: &str, text: &[u8]) -> Result<(String, Option<String>), Failure> {
    let text = String::from_utf8_lossy(text);
    if text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        return fail(format!(
            "activedns: {name}.{who}(): https isn't built into Lacquer: a TLS proxy must stand before the backend"
        ));
    }
    goto::split(&text).ok_or_else(|| {
        Failure::new(format!("activedns: {name}.{who}(): \"{}\" is neither HOST nor HOST:PORT", text.escape_debug()))
    })
}

fn set(object: &Object, change: impl FnOnce(&mut Settings)) -> CallResult {
    change(&mut this(object).settings.lock());
    give(Value::Void)
}

fn set_backend_template(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let spec = Args(args).backend(0).and_then(|backend| declared(call, backend));
    let Some(spec) = spec else {
        let name = &this(object).name;
        return fail(format!("activedns: {name}.set_backend_template(): not a backend that VCL declares"));
    };
    set(object, |settings| settings.template = Some(spec))
}

/// What VCL says of a backend. Its Host is what it names itself, not its address.
fn declared(call: &Call<'_>, backend: &BackendRef) -> Option<BackendSpec> {
    let is_it = |own: &Option<BackendRef>| {
        own.as_ref().is_some_and(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(backend)))
    };
    let program = &call.vcl.program;
    let decl = program.backends.get(call.vcl.backends.iter().position(is_it)?)?;
    let probe = decl.probe.and_then(|id| program.probes.get(id as usize));
    Some(BackendSpec { hosthdr: decl.host_header.clone(), ..vrt::backend_spec(decl, probe)? })
}

impl Group {
    /// Its name now; none while it has no host. Settings that were changed since make another.
    pub(crate) fn domain(&self, call: &mut Call<'_>) -> Option<Arc<Domain>> {
        let settings = {
            let settings = self.settings.lock();
            if let Some(domain) = self.made_by(&settings) {
                return Some(domain);
            }
            settings.clone()
        };
        // Made while nobody waits for a lock. Of two who do that at once the first wins.
        let host = settings.host.clone()?;
        let port = settings.port.clone().or_else(|| settings.host_port.clone()).unwrap_or_else(|| "80".to_owned());
        let template = settings.template.clone().unwrap_or_else(|| BackendSpec::new(&self.name, Endpoint::default()));
        let probe = settings.probe.clone().or_else(|| template.probe.clone());
        let plan = Plan {
            module: "activedns",
            port: port.clone(),
            spec: BackendSpec { probe, found: Vec::new(), ..template },
            shares_hosts: false,
            whitelist: None,
            family: settings.family,
            ttl: settings.ttl,
            unused_for: f64::INFINITY,
            patience: PATIENCE,
            keeps_last: settings.keeps_last,
        };
        let dynamic = Arc::new(Dynamic::new(call, &self.name, plan));
        let domain = dynamic.domain(call, host, port)?;
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

    /// Its name, if it was made by these settings.
    fn made_by(&self, settings: &Settings) -> Option<Arc<Domain>> {
        let resolver = self.resolver.lock();
        resolver.as_ref().filter(|resolver| resolver.settings == *settings).map(|resolver| resolver.domain.clone())
    }

    /// Its name as it was last made.
    pub(crate) fn known(&self) -> Option<Arc<Domain>> {
        self.resolver.lock().as_ref().map(|resolver| resolver.domain.clone())
    }
}
