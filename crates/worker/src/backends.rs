// SPDX-License-Identifier: BSD-2-Clause
//! What backends and VCLs get from the worker: parameters, counters in shared memory, the log, new backends.

use std::collections::HashMap;
use std::sync::Arc;

use backend::{BackendSpec, Director};
use base::Clock;
use engine::Engine;
use params::Params;
use parking_lot::Mutex;
use shm::vsc::{CounterMaker, CounterSet};
use shm::vsl::{Marker, TxnLog};
use tables::counters::{ClassCounters, CounterFields, Main, Vbe, Vcp, Xkey};
use tables::tags::Tag;
use tls::origin_keys::VclKeys;
use vrt::vmod::Vmod;

use crate::worker::Worker;

/// Number of a VCL's backends that share a file of counters.
const CLUSTER: usize = 64;
/// Number of tenants that share a file of counters. Adoption may make such a file under a lock, so it should be rare.
const TENANT_CLUSTER: usize = 512;

pub struct WorkerServices {
    engine: Arc<Engine>,
    stats: CounterMaker,
    pools: CounterSet<Vcp>,
    /// The file of each VCL that backends are being added to.
    clusters: Mutex<HashMap<String, (shm::vsm::Cluster, usize)>>,
}

/// Counters in a file that they share with others; `file` is the present one and its free places, of `places`.
fn counters_in<T: CounterFields>(
    stats: &CounterMaker,
    file: &mut Option<(shm::vsm::Cluster, usize)>,
    places: usize,
    ident: &str,
) -> CounterSet<T> {
    let made = (|| {
        let (cluster, left) = match file.take() {
            Some((cluster, left)) if left > 0 => (cluster, left),
            Some(_) | None => (stats.cluster::<T>(places)?, places),
        };
        let set = stats.add_to::<T>(&cluster, ident)?;
        *file = Some((cluster, left - 1));
        Ok::<_, std::io::Error>(set)
    })();
    made.unwrap_or_else(|error| {
        // A full file system mustn't keep a VCL from loading; its counters then are not seen.
        report_line!("counters {ident}: {error}");
        CounterSet::private()
    })
}

impl WorkerServices {
    pub fn new(engine: Arc<Engine>, stats: CounterMaker) -> Self {
        let pools = stats.add::<Vcp>(Vcp::NAME).unwrap_or_else(|error| {
            report_line!("counters VCP: {error}");
            CounterSet::private()
        });
        WorkerServices { engine, stats, pools, clusters: Mutex::default() }
    }

    fn counters(&self, vcl: &str, backend: &str) -> CounterSet<Vbe> {
        let mut clusters = self.clusters.lock();
        let mut file = clusters.remove(vcl);
        let set = counters_in(&self.stats, &mut file, CLUSTER, &format!("VBE.{vcl}.{backend}"));
        file.into_iter().for_each(|file| drop(clusters.insert(vcl.to_owned(), file)));
        set
    }

    /// The parameter `tag_fields` or a VCL gives tags: from now on objects are kept by them, and counted.
    pub fn enable_tags(&self) {
        if self.engine.cache.counts_tags() {
            return;
        }
        let set = self.stats.add::<Xkey>("XKEY").unwrap_or_else(|error| {
            report_line!("counters XKEY: {error}");
            CounterSet::private()
        });
        // As MAIN, it lives as long as the process.
        self.engine.cache.enable_tags(Box::leak(Box::new(set)));
    }

    /// The counters of tenants, of [`TENANT_CLUSTER`] in a file, come from here.
    pub fn publish_tenants(&self) {
        let (stats, file) = (self.stats.clone(), Mutex::new(None));
        self.engine.cache.publish_tenants(Box::new(move |name| {
            let ident = format!("TENANT.{name}");
            let set = counters_in(&stats, &mut file.lock(), TENANT_CLUSTER, &ident);
            Box::new(set)
        }));
    }

    pub fn declare_tenants(&self, params: &Params) {
        // The parameter was checked when it was set.
        let shares = params::tenants::parse_shares(&params.tenant_shares).unwrap_or_default();
        self.engine.cache.set_tenants(params.tenants_max as usize, &shares);
    }

    /// The classes that parameters declare and the accounts of bots, with counters for those that are new.
    pub fn declare_classes(&self, params: &Params) {
        self.engine.requests.bots.apply(params, self.engine.clock.mono());
        self.engine.requests.classes.apply(params, |class| {
            self.stats.add::<ClassCounters>(&format!("CLASS.{class}")).unwrap_or_else(|error| {
                report_line!("counters CLASS.{class}: {error}");
                CounterSet::private()
            })
        });
    }

    /// A VCL is gone: its file goes with the last backend.
    pub fn forget(&self, vcl: &str) {
        self.clusters.lock().remove(vcl);
    }
}

impl backend::BackendServices for WorkerServices {
    fn params(&self) -> backend::BackendParams {
        (&**self.engine.params.load()).into()
    }

    fn main(&self) -> &Main {
        self.engine.main
    }

    fn pools(&self) -> &Vcp {
        &self.pools
    }

    fn publish(&self, vcl: &str, backend: &str) -> CounterSet<Vbe> {
        self.counters(vcl, backend)
    }

    fn log_error(&self, text: &str) {
        self.engine.log.write_one(Tag::Error, base::Vxid::NONE, Marker::None, text.as_bytes());
    }

    fn log_notice(&self, text: &str) {
        self.engine.log.write_one(Tag::Notice, base::Vxid::NONE, Marker::None, text.as_bytes());
    }

    fn tell_operator(&self, line: &str) {
        report_line!("{line}");
    }

    fn log_health(&self, text: &str) {
        self.engine.log.write_one(Tag::BackendHealth, base::Vxid::NONE, Marker::None, text.as_bytes());
    }
}

#[derive(Clone, Copy)]
pub struct Vmods {
    pub signatures: vcl::Modules,
    pub code: &'static [&'static Vmod],
}

/// This worker as a VCL sees it that is being loaded or ended.
pub struct LoadEnv<'a>(pub &'a Worker);

impl vrt::VclLoadEnv for LoadEnv<'_> {
    fn backend(&self, vcl: &str, spec: BackendSpec) -> Arc<dyn Director> {
        self.0.backends.create(vcl, spec)
    }

    fn keys(&self, vcl: &str) -> VclKeys {
        self.0.secrets.origin_keys.take(vcl)
    }

    fn vmods(&self) -> &[&'static Vmod] {
        self.0.vmods.code
    }

    fn log(&self) -> TxnLog {
        TxnLog::new(self.0.engine.log.clone(), base::Vxid::NONE, Marker::None)
    }

    fn clock(&self) -> Clock {
        self.0.engine.clock.clone()
    }

    fn params(&self) -> Params {
        Params::clone(&self.0.engine.params.load())
    }

    fn server_names(&self) -> (&str, &str) {
        let names = &self.0.engine.vcls.names;
        (&names.identity, &names.hostname)
    }

    fn ban(&self, spec: &[u8]) -> Result<(), String> {
        self.0.engine.ban(spec)
    }

    fn backend_maker(&self) -> Option<vrt::loaded::BackendMaker> {
        let backends = self.0.backends.clone();
        Some(Arc::new(move |vcl, spec| backends.create(vcl, spec)))
    }
}
