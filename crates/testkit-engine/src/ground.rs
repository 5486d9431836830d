// SPDX-License-Identifier: BSD-2-Clause
//! What an engine stands on, and the engine itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::Clock;
use engine::{Engine, Labels, ListenerInfo, ServerNames};
use params::Params;
use shm::vsc::CounterSet;
use shm::vsl::{LogFormat, LogRing};
use shm::vsm::{SegmentSet, SetOwner};
use storage::{StoreSpec, Stores};
use tables::counters::{CounterFields, Main, NoHitCounts, Sma, Xkey};
use vrt::LoadedVcl;

/// Counters, and a directory for logs. A thread may make one engine after the other on it.
pub struct Ground {
    pub main: &'static Main,
    /// Counters of an index of tags, for `cache::Cache::enable_tags`.
    pub tags: &'static Xkey,
    no_hit: &'static NoHitCounts,
    stores: [&'static Sma; 2],
    segments: SegmentSet,
    dir: PathBuf,
}

pub struct EngineSettings {
    pub clock: Clock,
    pub params: Params,
    /// Two stores at most.
    pub stores: Vec<StoreSpec>,
    pub certificates: Arc<dyn tls::Certificates>,
    /// The value of `server.identity` and `server.hostname`.
    pub name: String,
    pub seed: u32,
}

impl EngineSettings {
    /// Default parameters but for a small log, stores without a limit, no certificate.
    pub fn new(clock: Clock, name: &str) -> Self {
        let mut params = Params::default();
        params.set_at_start("vsl_space", "1m").expect("a size");
        EngineSettings {
            clock,
            params,
            stores: StoreSpec::in_memory(None),
            certificates: Arc::new(tls::NothingLoaded),
            name: name.to_owned(),
            seed: 1,
        }
    }

    /// Gives a parameter this value.
    ///
    /// # Panics
    /// There is no such parameter, or it can't have that value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.params.set_at_start(name, value).unwrap_or_else(|error| panic!("{}: {name}: {error}", self.name));
    }
}

/// A set of counters that lives as long as the process, as those do that an engine refers to.
pub fn leaked<T: CounterFields>() -> &'static T {
    Box::leak(Box::new(CounterSet::<T>::private()))
}

struct NoLabels;

impl Labels for NoLabels {
    fn labelled(&self, _: &str) -> Option<Arc<LoadedVcl>> {
        None
    }
}

impl Ground {
    #[expect(clippy::new_without_default, reason = "it makes files, and counters that stay")]
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let in_memory = PathBuf::from("/dev/shm");
        let parent = if in_memory.is_dir() { in_memory } else { std::env::temp_dir() };
        let dir = parent.join(format!("lacquer-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the log");
        let segments = SegmentSet::create(&dir, SetOwner::Worker, std::process::id(), None).expect("a set of segments");
        Ground { main: leaked(), tags: leaked(), no_hit: leaked(), stores: [leaked(), leaked()], segments, dir }
    }

    /// An engine without a VCL.
    ///
    /// # Panics
    /// There is no room for its log or its stores.
    pub fn engine(&self, settings: EngineSettings) -> Arc<Engine> {
        let EngineSettings { clock, params, stores, certificates, name, seed } = settings;
        let log = LogRing::create(
            &self.segments,
            LogFormat::of_server(params.compat()),
            params.log_settings(),
            CounterSet::private(),
        )
        .expect("room for a log");
        let mut tallies = self.stores.iter();
        let stores = Stores::open(&stores, |_| *tallies.next().expect("two stores")).expect("memory for a store");
        Arc::new(Engine::new(engine::EngineConfig {
            clock,
            params,
            main: self.main,
            no_hit: self.no_hit,
            log: Arc::new(log),
            stores: Arc::new(stores),
            labels: Box::new(NoLabels),
            certificates,
            names: ServerNames { identity: name.clone(), hostname: name },
            class_key: [0; 32],
            seed,
        }))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What stays behind is a directory in memory that the next boot clears.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn listener(endpoint: &str, transport: &'static str, is_tls: bool) -> ListenerInfo {
    ListenerInfo {
        name: "a0".into(),
        transport,
        has_proxy_header: transport == "PROXY",
        is_tls,
        is_quic: transport == "QUIC",
        frontend: "a0".into(),
        h3_port: None,
        endpoint: endpoint.into(),
        is_unix: false,
    }
}
