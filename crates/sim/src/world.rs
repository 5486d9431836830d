// SPDX-License-Identifier: BSD-2-Clause
//! A worker within the process: engine, cache, stores and backends as `worker` puts them together, but with a log and
//! counters that nobody else sees, a clock moved by hand, and a network without sockets.

use std::cell::Cell;
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::Backends;
use base::Clock;
use engine::{Engine, ListenerInfo};
use fronts::h3;
use net::Address;
use net::quic::Incoming;
use storage::StoreSpec;
use testkit_engine::{EngineModules, EngineSettings, Ground};
use testkit_net::memory::MemoryEnd;
use vrt::LoadedVcl;

use crate::fleet::SimDisk;
use crate::history::{SimEvent, SimHistory};
use crate::script::SimScenario;

pub(crate) struct SimWorld {
    pub engine: Arc<Engine>,
    pub clock: Clock,
    pub history: SimHistory,
    _backends: Arc<Backends>,
    listener: Arc<ListenerInfo>,
    sessions: Rc<Cell<usize>>,
    panics: u64,
    pub tls: Option<testkit_tls::TlsWorld>,
}

fn settings(scenario: &SimScenario, clock: &Clock) -> EngineSettings {
    let mut settings = EngineSettings::new(clock.clone(), &scenario.name);
    settings.set("default_grace", &scenario.grace.as_secs_f64().to_string());
    settings.set("default_keep", &scenario.keep.as_secs_f64().to_string());
    scenario.params.iter().for_each(|(name, value)| settings.set(name, value));
    settings.name = "sim".to_owned();
    settings
}

pub(crate) struct Birth {
    pub clock: Clock,
    pub history: SimHistory,
    /// Link to a successor, and to a fleet.
    pub line: Option<SimWorkerLine>,
}

/// A worker among others before and after it.
pub(crate) struct SimWorkerLine {
    /// The store's memory, and the journal.
    pub arena: Arc<File>,
    pub journal: SimDisk,
    pub node: fleet::Node,
}

impl SimWorld {
    pub fn new(ground: &Ground, scenario: &SimScenario, seed: u64) -> Self {
        let birth = Birth { clock: Clock::manual(), history: SimHistory::default(), line: None };
        SimWorld::born(ground, scenario, seed, birth)
    }

    pub fn born(ground: &Ground, scenario: &SimScenario, seed: u64, birth: Birth) -> Self {
        let Birth { clock, history, line } = birth;
        let mut settings = settings(scenario, &clock);
        settings.stores = StoreSpec::in_memory(Some(scenario.store.unwrap_or(64 << 20)));
        settings.stores[0].arena = line.as_ref().map(|line| line.arena.clone());
        settings.seed = seed as u32;
        let tls = scenario.path.map(|_| testkit_tls::TlsWorld::new());
        if let Some(tls) = &tls {
            settings.certificates = Arc::new(testkit_tls::OneForAll::new(tls));
        }
        let engine = ground.engine(settings);
        if let Some(SimWorkerLine { journal, node, .. }) = line {
            engine.cluster.join_fleet(node);
            let former = worker::open_journal(|| Ok(journal.clone()), &clock).expect("a journal in memory");
            worker::adopt(Some(former), &engine);
        }
        let backends = testkit_engine::backends(&engine);
        engine.vcls.activate(Some(load(scenario, &engine, &backends)));
        let transport = if tls.is_some() { "QUIC" } else { "HTTP/1" };
        let listener = testkit_engine::listener("10.0.0.2:80", transport, tls.is_some());
        SimWorld {
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

    pub fn note(&self, event: SimEvent) {
        let _ = self.history.add(self.now(), event);
    }

    pub fn accept(&self, end: MemoryEnd, peer: Address, local: Address) -> rt::JoinHandle<()> {
        let accepted = fronts::AcceptedClient { stream: end.into(), peer, local };
        let (engine, listener) = (self.engine.clone(), self.listener.clone());
        let session = Session::begin(self.sessions.clone());
        rt::spawn(async move {
            let _session = session;
            fronts::serve(engine, listener, accepted).await;
        })
    }

    pub fn serve_quic(
        &self,
        group: Rc<h3::LinkGroup>,
        own_socket: h3::ListenerSocket,
        client: (Incoming, h3::Http3Config),
    ) {
        let (engine, listener) = (self.engine.clone(), self.listener.clone());
        let session = Session::begin(self.sessions.clone());
        rt::spawn(async move {
            let _session = session;
            h3::serve(engine, listener, group, own_socket, client, || Some(())).await;
        });
    }

    pub fn sessions(&self) -> usize {
        self.sessions.get()
    }

    pub fn panics(&self) -> u64 {
        self.engine.main.req_panic.get() - self.panics
    }

    pub fn keep_house(&self) {
        let cache = &self.engine.cache;
        if cache.is_adopting() {
            cache.adopt_some(1, &mut |_| {});
        }
        cache.expire(self.clock.mono(), usize::MAX, &mut |_| {});
        cache.lurk(self.clock.mono(), &mut |_| {});
    }
}

impl Drop for SimWorld {
    fn drop(&mut self) {
        // The VCL has backends, whose services have the engine: nothing of that would ever go.
        self.engine.vcls.activate(None);
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

fn load(scenario: &SimScenario, engine: &Arc<Engine>, backends: &Arc<Backends>) -> Arc<LoadedVcl> {
    const HEAD: &str = "vcl 4.1;\nbackend default { .host = \"10.0.0.1\"; .port = \"80\"; }\n";
    let modules = EngineModules { all: vmods::ALL, signatures: vmods::MODULES };
    testkit_engine::load(engine, backends, modules, &scenario.name, &format!("{HEAD}{}", scenario.vcl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_world() {
        let world = SimWorld::new(&Ground::new(), &SimScenario::default(), 1);
        let engine = Arc::downgrade(&world.engine);
        drop(world);
        assert_eq!(engine.strong_count(), 0);
    }
}
