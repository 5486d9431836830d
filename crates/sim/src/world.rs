// SPDX-License-Identifier: BSD-2-Clause
//! A worker within the process: engine, cache, stores and backends as `worker` puts them together, but with a log and
//! counters that nobody else sees, a clock moved by hand, and a network without sockets.

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use backend::{Backends, Director};
use base::{Clock, VxidSource};
use cache::Cache;
use engine::{Engine, Labels, ListenerInfo, Random};
use fronts::h3;
use net::Address;
use net::memory::End;
use net::quic::Incoming;
use params::Params;
use shm::vsc::CounterSet;
use shm::vsl::{LogRing, Marker, TxnLog};
use shm::vsm::{Home, SegmentSet};
use storage::{StoreSpec, Stores};
use tables::counters::{Main, NoHitCounts, Sma, Vbe, Xkey};
use tables::tags::Tag;
use vcl::program::{BackendDecl, ProbeDecl};
use vrt::LoadedVcl;
use vrt::vmod::Vmod;

use crate::history::{Event, History};
use crate::script::Scenario;

/// What a thread needs to make one world after the other: counters live as long as the process.
pub(crate) struct Ground {
    main: &'static Main,
    no_hit: &'static NoHitCounts,
    stores: [&'static Sma; 2],
    tags: &'static Xkey,
    segments: SegmentSet,
    dir: PathBuf,
}

/// A worker, and what is written down of it.
pub(crate) struct World {
    pub engine: Arc<Engine>,
    pub clock: Clock,
    pub history: History,
    _backends: Arc<Backends>,
    listener: Arc<ListenerInfo>,
    sessions: Rc<Cell<usize>>,
    /// As the counter said when it began.
    panics: u64,
    /// The certificate's, where clients come over QUIC.
    pub tls: Option<tls::testing::World>,
}

/// A set of counters that lives as long as the process.
pub(crate) fn leaked<T: tables::counters::Set>() -> &'static T {
    Box::leak(Box::new(CounterSet::<T>::private()))
}

impl Ground {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let in_memory = PathBuf::from("/dev/shm");
        let parent = if in_memory.is_dir() { in_memory } else { std::env::temp_dir() };
        let dir = parent.join(format!("lacquer-sim-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the log");
        let segments = SegmentSet::create(&dir, Home::Worker, std::process::id(), None).expect("a set of segments");
        Ground { main: leaked(), no_hit: leaked(), stores: [leaked(), leaked()], tags: leaked(), segments, dir }
    }

    /// The counters of an index of tags.
    pub fn tags(&self) -> &'static Xkey {
        self.tags
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What stays behind is a directory in memory that the next boot clears.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

struct NoLabels;

impl Labels for NoLabels {
    fn labelled(&self, _label: &str) -> Option<Arc<LoadedVcl>> {
        None
    }
}

/// The parameters of a scenario.
fn params(scenario: &Scenario) -> Params {
    let mut params = Params::default();
    let mut set = |name: &str, value: &str| {
        params.set_at_start(name, value).unwrap_or_else(|error| panic!("{}: {name}: {error}", scenario.name));
    };
    set("default_grace", &scenario.grace.as_secs_f64().to_string());
    set("default_keep", &scenario.keep.as_secs_f64().to_string());
    set("vsl_space", "1m");
    scenario.params.iter().for_each(|(name, value)| set(name, value));
    params
}

/// What a worker finds when it begins.
pub(crate) struct Birth {
    pub clock: Clock,
    pub history: History,
    /// What it leaves to a successor, and is a fleet's node by.
    pub line: Option<Line>,
}

/// A worker among others before and after it.
pub(crate) struct Line {
    /// The store's memory, and the journal.
    pub arena: Arc<File>,
    pub journal: File,
    pub node: fleet::Node,
}

impl World {
    pub fn new(ground: &Ground, scenario: &Scenario, seed: u64) -> Self {
        let birth = Birth { clock: Clock::manual(), history: History::default(), line: None };
        World::born(ground, scenario, seed, birth)
    }

    pub fn born(ground: &Ground, scenario: &Scenario, seed: u64, birth: Birth) -> Self {
        let Birth { clock, history, line } = birth;
        let params = params(scenario);
        let log =
            LogRing::create(&ground.segments, params.log_settings(), CounterSet::private()).expect("room for a log");
        let log = Arc::new(log);
        let size = scenario.store.unwrap_or(64 << 20);
        let mut specs = StoreSpec::in_memory(Some(size));
        specs[0].arena = line.as_ref().map(|line| line.arena.clone());
        let mut tallies = ground.stores.iter();
        let stores = Stores::open(&specs, |_| *tallies.next().expect("two stores")).expect("memory for a store");
        let stores = Arc::new(stores);
        let cache = Cache::new(cache::Config {
            clock: clock.clone(),
            main: ground.main,
            stores: stores.clone(),
            heads: Box::new(worker::conf::Heads),
            regexes: Box::new(worker::conf::Patterns),
            params: worker::conf::cache_params(&params),
        });
        let tls = scenario.path.map(|_| tls::testing::World::new());
        let engine = Arc::new(Engine {
            clock: clock.clone(),
            vxids: VxidSource::new(),
            admission: engine::admission::Admission::new(&params),
            params: ArcSwap::from_pointee(params),
            main: ground.main,
            no_hit: ground.no_hit,
            log,
            cache,
            stores,
            vcl: ArcSwapOption::empty(),
            labels: Box::new(NoLabels),
            certificates: match &tls {
                Some(tls) => Arc::new(tls::testing::OneForAll::new(tls)),
                None => Arc::new(tls::NothingLoaded),
            },
            identity: "sim".to_owned(),
            hostname: "sim".to_owned(),
            sessions: AtomicI64::new(0),
            pipes: AtomicI64::new(0),
            fragfetch: AtomicUsize::new(0),
            classes: Default::default(),
            hints: Default::default(),
            queries: Default::default(),
            refreshes: Default::default(),
            keeps_key_fields: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drain_watch: Default::default(),
            has_successor: AtomicBool::new(false),
            restricted: Default::default(),
            fleet: Default::default(),
            peers: Default::default(),
            random: Random::seeded(seed as u32),
        });
        if let Some(Line { journal, node, .. }) = line {
            engine.join_fleet(node);
            let former = worker::open_journal(&journal, false, &clock).expect("a journal in memory");
            worker::adopt(Some(former), &engine);
        }
        let services = Arc::new(Services(engine.clone()));
        let backends = Backends::new(backend::Env { clock: clock.clone(), services });
        let env = LoadEnv { engine: &engine, backends: &backends };
        let vcl = load(scenario, &env);
        engine.vcl.store(Some(vcl));
        let listener = ListenerInfo {
            name: "a0".into(),
            transport: if tls.is_some() { "QUIC" } else { "HTTP/1" },
            has_proxy_header: false,
            is_tls: tls.is_some(),
            is_quic: tls.is_some(),
            frontend: "a0".into(),
            h3_port: None,
            endpoint: "10.0.0.2:80".into(),
            is_unix: false,
        };
        World {
            engine,
            clock,
            history,
            _backends: backends,
            listener: Arc::new(listener),
            sessions: Rc::default(),
            panics: ground.main.req_panic.get(),
            tls,
        }
    }

    pub fn now(&self) -> Duration {
        Duration::from_secs_f64(self.clock.mono().0)
    }

    pub fn note(&self, event: Event) {
        let _ = self.history.add(self.now(), event);
    }

    /// Serves a connection, as a task.
    pub fn accept(&self, end: End, peer: Address, local: Address) -> rt::JoinHandle<()> {
        let accepted = fronts::Accepted { stream: end.into(), peer, local };
        let (engine, listener) = (self.engine.clone(), self.listener.clone());
        let session = Session::begin(self.sessions.clone());
        rt::spawn(async move {
            let _session = session;
            fronts::serve(engine, listener, accepted).await;
        })
    }

    /// Serves a connection over QUIC, as a task.
    pub fn serve_quic(&self, group: Rc<h3::Group>, seat: h3::Seat, client: (Incoming, h3::Config)) {
        let (engine, listener) = (self.engine.clone(), self.listener.clone());
        let session = Session::begin(self.sessions.clone());
        rt::spawn(async move {
            let _session = session;
            h3::serve(engine, listener, group, seat, client, || Some(())).await;
        });
    }

    /// Connections being served.
    pub fn sessions(&self) -> usize {
        self.sessions.get()
    }

    /// Transactions that a panic ended.
    pub fn panics(&self) -> u64 {
        self.engine.main.req_panic.get() - self.panics
    }

    /// Does what the housekeeping thread does, once.
    pub fn keep_house(&self) {
        let cache = &self.engine.cache;
        if cache.is_adopting() {
            cache.adopt_some(1, &mut |_| {});
        }
        cache.expire(self.clock.mono(), usize::MAX, &mut |_| {});
        cache.lurk(self.clock.mono(), &mut |_| {});
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The VCL has backends, whose services have the engine: nothing of that would ever go.
        self.engine.vcl.store(None);
    }
}

/// A connection being served, also one whose task is dropped.
struct Session(Rc<Cell<usize>>);

impl Session {
    fn begin(all: Rc<Cell<usize>>) -> Self {
        all.set(all.get() + 1);
        Session(all)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn load(scenario: &Scenario, env: &LoadEnv<'_>) -> Arc<LoadedVcl> {
    const HEAD: &str = "vcl 4.1;\nbackend default { .host = \"10.0.0.1\"; .port = \"80\"; }\n";
    let text = format!("{HEAD}{}", scenario.vcl);
    let options = vcl::Options { err_unref: false, modules: vmods::MODULES, ..vcl::Options::default() };
    let compiled = vcl::compile(&scenario.name, text.as_bytes(), &vcl::NoSources, &options);
    let compiled = compiled.unwrap_or_else(|wrong| panic!("{}: {}", scenario.name, wrong.text));
    vrt::loaded::load(&scenario.name, compiled.program, env)
        .unwrap_or_else(|error| panic!("{}: {}", scenario.name, error.0))
}

/// What backends get.
struct Services(Arc<Engine>);

impl backend::Services for Services {
    fn params(&self) -> backend::Params {
        (&**self.0.params.load()).into()
    }

    fn main(&self) -> &Main {
        self.0.main
    }

    fn publish(&self, _vcl: &str, _backend: &str) -> CounterSet<Vbe> {
        CounterSet::private()
    }

    fn log_error(&self, text: &str) {
        self.0.log.write_one(Tag::Error, base::Vxid::NONE, Marker::None, text.as_bytes());
    }

    fn log_notice(&self, text: &str) {
        self.0.log.write_one(Tag::Notice, base::Vxid::NONE, Marker::None, text.as_bytes());
    }

    fn log_health(&self, text: &str) {
        self.0.log.write_one(Tag::BackendHealth, base::Vxid::NONE, Marker::None, text.as_bytes());
    }
}

/// What loading a VCL gets.
struct LoadEnv<'a> {
    engine: &'a Arc<Engine>,
    backends: &'a Arc<Backends>,
}

impl vrt::Env for LoadEnv<'_> {
    fn backend(&self, vcl: &str, decl: &BackendDecl, probe: Option<&ProbeDecl>) -> Arc<dyn Director> {
        self.backends.create(vcl, vrt::backend_spec(vcl, decl, probe).expect("it isn't none"))
    }

    fn vmods(&self) -> &[&'static Vmod] {
        vmods::ALL
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_world() {
        let world = World::new(&Ground::new(), &Scenario::default(), 1);
        let engine = Arc::downgrade(&world.engine);
        drop(world);
        assert_eq!(engine.strong_count(), 0);
    }
}
