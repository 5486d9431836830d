// SPDX-License-Identifier: BSD-2-Clause
//! What backends and VCLs get from the worker: parameters, counters in shared memory, the log, new backends.

use std::collections::HashMap;
use std::sync::Arc;

use backend::{Backends, Director};
use base::Clock;
use engine::Engine;
use params::Params;
use parking_lot::Mutex;
use shm::vsc::{CounterMaker, CounterSet};
use shm::vsl::{Marker, TxnLog};
use tables::counters::{ClassCounters, Main, Vbe, Xkey};
use tables::tags::Tag;
use vcl::program::{BackendDecl, ProbeDecl};
use vrt::vmod::Vmod;

/// Number of a VCL's backends that share a file of counters.
const CLUSTER: usize = 64;

pub struct WorkerServices {
    engine: Arc<Engine>,
    stats: CounterMaker,
    /// The file of each VCL that backends are being added to.
    clusters: Mutex<HashMap<String, (shm::vsm::Cluster, usize)>>,
}

impl WorkerServices {
    pub fn new(engine: Arc<Engine>, stats: CounterMaker) -> Self {
        WorkerServices { engine, stats, clusters: Mutex::default() }
    }

    fn counters(&self, vcl: &str, backend: &str) -> CounterSet<Vbe> {
        let mut clusters = self.clusters.lock();
        let ident = format!("VBE.{vcl}.{backend}");
        let made = (|| {
            let (cluster, left) = match clusters.remove(vcl) {
                Some((cluster, left)) if left > 0 => (cluster, left),
                _ => (self.stats.cluster::<Vbe>(CLUSTER)?, CLUSTER),
            };
            let set = self.stats.add_to::<Vbe>(&cluster, &ident)?;
            clusters.insert(vcl.to_owned(), (cluster, left - 1));
            Ok::<_, std::io::Error>(set)
        })();
        made.unwrap_or_else(|error| {
            // A full file system mustn't keep a VCL from loading; its counters then are not seen.
            eprintln!("counters {ident}: {error}");
            CounterSet::private()
        })
    }

    /// The parameter `tag_fields` or a VCL gives tags: from now on objects are kept by them, and counted.
    pub fn enable_tags(&self) {
        if self.engine.cache.counts_tags() {
            return;
        }
        let set = self.stats.add::<Xkey>("XKEY").unwrap_or_else(|error| {
            eprintln!("counters XKEY: {error}");
            CounterSet::private()
        });
        // As MAIN, it lives as long as the process.
        self.engine.cache.enable_tags(Box::leak(Box::new(set)));
    }

    /// The classes that parameters declare, with counters for those that are new.
    pub fn declare_classes(&self, params: &Params) {
        self.engine.classes.apply(params, |class| {
            self.stats.add::<ClassCounters>(&format!("CLASS.{class}")).unwrap_or_else(|error| {
                eprintln!("counters CLASS.{class}: {error}");
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
        eprintln!("{line}");
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

pub struct LoadEnv<'a> {
    pub engine: &'a Arc<Engine>,
    pub backends: &'a Arc<Backends>,
    pub vmods: Vmods,
}

impl vrt::VclLoadEnv for LoadEnv<'_> {
    fn backend(&self, vcl: &str, decl: &BackendDecl, probe: Option<&ProbeDecl>) -> Arc<dyn Director> {
        let spec = vrt::backend_spec(vcl, decl, probe).expect("vrt makes no backend of `none`");
        self.backends.create(vcl, spec)
    }

    fn vmods(&self) -> &[&'static Vmod] {
        self.vmods.code
    }

    fn log(&self) -> TxnLog {
        TxnLog::new(self.engine.log.clone(), base::Vxid::NONE, Marker::None)
    }

    fn clock(&self) -> Clock {
        self.engine.clock.clone()
    }

    fn params(&self) -> Params {
        Params::clone(&self.engine.params.load())
    }

    fn server_names(&self) -> (&str, &str) {
        (&self.engine.identity, &self.engine.hostname)
    }

    fn ban(&self, spec: &[u8]) -> Result<(), String> {
        self.engine.ban(spec)
    }

    fn backend_maker(&self) -> Option<vrt::loaded::BackendMaker> {
        let backends = self.backends.clone();
        Some(Arc::new(move |vcl, spec| backends.create(vcl, spec)))
    }
}
