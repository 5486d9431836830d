// SPDX-License-Identifier: BSD-2-Clause
//! How a worker comes to be: the hand-over from the manager, shared memory, stores, cache, engine.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ::backend::Backends;
use base::Clock;
use cli::handoff::WorkerStart;
use engine::{Engine, ServerNames};
use params::Params;
use parking_lot::Mutex;
use shm::vsc::CounterMaker;
use shm::vsl::{LogFormat, LogRing};
use shm::vsm::{Reservation, SegmentSet, SetOwner};
use storage::{StoreSpec, Stores};
use tables::counters::{Costs, CounterFields, Main, NoHitCounts, Sma};
use tables::stores::{StoreMedium, TRANSIENT};

use crate::backends::{Vmods, WorkerServices};
use crate::conf;
use crate::disks::Disks;
use crate::journal::{FormerJournal, PastJournal};
use crate::vcls::WorkerVcls;

pub struct Inheritance {
    pub start: WorkerStart,
    pub socket: OwnedFd,
    /// Bytes of the first commands that came with it.
    pub leftover: Vec<u8>,
}

impl Inheritance {
    pub fn receive(socket: &str) -> Result<Inheritance, String> {
        let number = socket.parse().ok();
        let number = number.ok_or("the worker is started by the manager only")?;
        let socket = sys::fd::inherit(number).map_err(|error| format!("the manager's socket: {error}"))?;
        let mut bytes = Vec::new();
        loop {
            match WorkerStart::read(&bytes) {
                Ok(Some((start, used))) => {
                    bytes.drain(..used);
                    return Ok(Inheritance { start, socket, leftover: bytes });
                }
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
            let mut buf = [0; 4096];
            match sys::fd::read(&socket, &mut buf) {
                Ok(n) if n > 0 => bytes.extend_from_slice(&buf[..n]),
                Ok(_) => return Err("the manager closed before it had said all".to_owned()),
                Err(error) => return Err(format!("the manager's socket: {error}")),
            }
        }
    }
}

pub struct Worker {
    pub start: WorkerStart,
    pub engine: Arc<Engine>,
    pub vmods: Vmods,
    pub backends: Arc<Backends>,
    pub services: Arc<WorkerServices>,
    pub vcls: Arc<WorkerVcls>,
    pub listeners: Mutex<Vec<crate::serving::ServingSocket>>,
    pub crowd: Arc<crate::serving::ConnectionLimit>,
    pub memory: crate::memory::WorkerMemory,
    pub disks: Disks,
    pub pools: crate::pools::WorkerPools,
    pub accepting: AtomicBool,
    pub demand: crate::demand::Demand,
    pub drain: crate::drain::Drain,
    pub secrets: crate::secrets::WorkerSecrets,
    pub quic: crate::quic::WorkerQuic,
    pub fleet_counters: Option<&'static tables::counters::Fleet>,
    pub succession: crate::succession::Succession,
    pub threads: Mutex<Vec<crate::watchdog::ThreadHandle>>,
    /// Counts of what requests cost, in builds that have them.
    pub costs: Option<&'static Costs>,
    /// Room for the log that isn't reserved yet: that waits until connections are taken.
    pub log_room: Mutex<Option<Reservation>>,
    /// Value of `debug.shutdown.delay`, in milliseconds.
    pub shutdown_delay_ms: AtomicU64,
}

impl Worker {
    pub fn new(start: WorkerStart, vmods: Vmods) -> Result<Arc<Worker>, String> {
        crate::panic::install(&start);
        let params = Params::decode(&start.params)
            .map_err(|error| format!("the manager's hand-over has a parameter that can't be set: {error}"))?;
        let clock = Clock::system();
        let secrets = crate::secrets::WorkerSecrets::inherit(&start)?;
        // We were born in the workdir, and may not be able to reach it by its path.
        let set = SegmentSet::adopt(Path::new("."), SetOwner::Worker, std::process::id())
            .map_err(|error| format!("shared memory in {}: {error}", start.workdir.display()))?;
        let stats = CounterMaker::new(&set);
        let text = |error: std::io::Error| format!("counters: {error}");
        let main_set = stats.add::<Main>("MAIN").map_err(text)?;
        // Counters live as long as the process; whoever counts holds a plain reference.
        let main: &'static Main = Box::leak(Box::new(main_set.clone()));
        let no_hit: &'static NoHitCounts =
            Box::leak(Box::new(stats.add::<NoHitCounts>(NoHitCounts::NAME).map_err(text)?));
        let ring =
            LogRing::create_growing(&set, LogFormat::of_server(params.compat()), params.log_settings(), main_set);
        let (ring, log_room) = ring.map_err(|error| log_fault(&error, params.vsl_space, &start.workdir))?;
        let log = Arc::new(ring);
        let pools = crate::pools::WorkerPools::new(&stats, params.thread_pools).map_err(text)?;
        // Beside another worker: when that has handed over (`crate::succession`).
        let former = if start.succession.former_fd.is_none() { crate::journal::read(&start, &clock) } else { None };
        let past = former.as_ref().map(FormerJournal::past);
        let disks = open_disks(&start, &stats, &clock, past.as_ref())?;
        let stores = Arc::new(open_stores(&start, &stats, &disks)?);
        conf::apply_to_process(&params);
        crate::steps::begin(main, &log, &params);
        let vcls = Arc::new(WorkerVcls::default());
        crate::panic::know_vcls(&vcls);
        let engine = Arc::new(Engine::new(engine::EngineConfig {
            clock: clock.clone(),
            params: params.clone(),
            main,
            no_hit,
            log,
            stores,
            labels: Box::new(crate::vcls::ByLabel(vcls.clone())),
            certificates: secrets.keyring.clone(),
            names: ServerNames { identity: start.identity.clone(), hostname: sys::process::host_name() },
            class_key: start.class_key,
            seed: clock.real().0.to_bits() as u32 ^ std::process::id(),
        }));
        let fleet_counters = match &start.fleet {
            None => None,
            Some(fleet) => {
                engine.cluster.join_fleet(crate::fleet::node(fleet, &start.identity)?);
                Some(crate::fleet::counters(&stats)?)
            }
        };
        if start.succession.former_fd.is_none() {
            find_survivors(former, &engine);
        }
        let services = Arc::new(WorkerServices::new(engine.clone(), stats.clone()));
        services.declare_classes(&params);
        services.publish_tenants();
        services.declare_tenants(&params);
        if conf::gives_tags(&params) {
            services.enable_tags();
        }
        let backends =
            Backends::new(::backend::BackendEnv { clock, services: services.clone(), compat: params.compat() });
        if let Some(peers) = &start.peers {
            let has_former = start.succession.former_fd.is_some();
            crate::peers::join(peers, &start.identity, &engine, &backends, &stats, has_former)?;
        }
        if start.listeners.iter().any(|listener| listener.transport.is_tls) {
            // Tried out before there is a client who waits for it.
            let _ = net::ktls::ability();
        }
        let listeners = crate::serving::adopt(&start)?;
        engine.fetches.loops.listen(listeners.iter().map(|socket| socket.info.endpoint.clone()));
        let costs = if base::costs::COUNTED { Some(stats.add::<Costs>("COSTS").map_err(text)?) } else { None };
        Ok(Arc::new(Worker {
            vmods,
            engine,
            backends,
            services,
            vcls,
            listeners: Mutex::new(listeners),
            crowd: Arc::default(),
            demand: Default::default(),
            memory: crate::memory::WorkerMemory::new(start.manager.pid),
            disks,
            pools,
            accepting: AtomicBool::new(false),
            drain: Default::default(),
            secrets,
            quic: crate::quic::WorkerQuic::new(&start),
            succession: Default::default(),
            fleet_counters,
            threads: Mutex::default(),
            costs: costs.map(|set| &**Box::leak(Box::new(set))),
            log_room: Mutex::new(Some(log_room)),
            shutdown_delay_ms: AtomicU64::new(0),
            start,
        }))
    }
}

/// Has the manager hear of this worker's end before its memory is given back. Without them it hears of it all the same.
pub fn start_sentinels(start: &WorkerStart) {
    for fd in &start.manager.sentinel_fds {
        if let Err(error) = sys::fd::inherit(*fd).and_then(sys::sentinel::start) {
            report_line!("no sentinel: {error}");
        }
    }
}

/// Looks at what a former worker has left in the stores' memory. Before anything is served.
pub fn find_survivors(journal: Option<FormerJournal>, engine: &Engine) {
    crate::suspects::examine(engine.cache.stores(), engine.main);
    adopt(journal, engine);
}

/// Begins with what a former worker has left, if its journal is known. Before anything is served.
pub fn adopt(journal: Option<FormerJournal>, engine: &Engine) {
    // What nobody knows the bans and purges of isn't served.
    if journal.is_some_and(|journal| journal.replay(&engine.cache)) {
        engine.cache.adopt_survivors();
    } else {
        engine.cache.disown_survivors();
    }
}

/// Reserves what room the log lacks, beside what comes next. Without it a write to the log could end the process at any time.
pub fn reserve_log(worker: &Worker) -> Result<(), String> {
    let Some(room) = worker.log_room.lock().take() else { return Ok(()) };
    let reserved = rt::hand_off(move || {
        if let Err(error) = room.complete() {
            crate::panic::die(&format!("Panic: no room for the log: {error}; {}\n", less_log()));
        }
    });
    reserved.map_err(|refused| refused.text().to_owned())
}

/// Helps where the file system is too small: Docker's /dev/shm has 64 MB.
fn less_log() -> String {
    // The workdir, which we may not be able to reach by its path.
    let size = sys::disk::size_bytes(Path::new(".")).unwrap_or(0);
    // Half of it: counters and the next worker's log need room, too.
    match size >> 21 {
        0 => "that file system is too small: give it more room".to_owned(),
        log => format!("that file system has {} MB in all: start with -l {log}M, or give it more room", size >> 20),
    }
}

fn log_fault(error: &std::io::Error, bytes: u64, workdir: &Path) -> String {
    let what = format!("no room for the log ({} MB in {}): {error}", bytes >> 20, workdir.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            format!("{what}; {}", less_log())
        }
        _ => what,
    }
}

/// Opens the stores' disks. The store of short-lived objects gets none, as its content isn't worth it.
fn open_disks(
    start: &WorkerStart,
    stats: &CounterMaker,
    clock: &Clock,
    past: Option<&PastJournal>,
) -> Result<Disks, String> {
    let mut failed = None;
    let disks = start.stores.iter().filter(|store| store.name != TRANSIENT);
    let has_former = start.succession.former_fd.is_some();
    let disks = Disks::open(disks, clock, past, has_former, start.succession.write_lock_fd, |name| {
        crate::disks::DiskCounterSets {
            smf: counted(stats, name, &mut failed),
            disk: counted(stats, name, &mut failed),
        }
    });
    failed.map_or(Ok(disks), Err)
}

fn open_stores(start: &WorkerStart, stats: &CounterMaker, disks: &Disks) -> Result<Stores, String> {
    let specs: Vec<StoreSpec> = start.stores.iter().map(|store| store_spec(store, disks)).collect::<Result<_, _>>()?;
    let mut failed = None;
    // What is on a disk has counters of its own: these are memory's.
    let counters = |spec: &StoreSpec| storage::StoreTally::from(counted::<Sma>(stats, &spec.name, &mut failed));
    let stores = match start.succession.former_fd {
        Some(_) => Stores::open_beside(&specs, counters),
        None => Stores::open(&specs, counters),
    };
    let stores = stores.map_err(|error| format!("storage: {error}"))?;
    failed.map_or(Ok(stores), Err)
}

fn store_spec(store: &cli::handoff::StoreStart, disks: &Disks) -> Result<StoreSpec, String> {
    let bad = |error: std::io::Error| format!("storage {}: {error}", store.name);
    let arena = store.arena_fd.map(sys::fd::inherit).transpose().map_err(bad)?;
    let arena = arena.map(|fd| Arc::new(std::fs::File::from(fd)));
    let home = disks.home_of(&store.name);
    let limit = store.disk.as_ref().map_or(store.size, |disk| disk.options.front_bytes);
    // Without its disk such a store is one in memory.
    let kind = if home.is_some() { store.kind } else { StoreMedium::Malloc };
    Ok(StoreSpec { name: store.name.clone(), kind, limit, arena, home })
}

/// A store's counters, for as long as the process lives.
fn counted<T: CounterFields>(stats: &CounterMaker, name: &str, failed: &mut Option<String>) -> &'static T {
    match stats.add::<T>(&format!("{}.{name}", T::NAME)) {
        Ok(set) => Box::leak(Box::new(set)),
        Err(error) => {
            *failed = Some(format!("counters of storage {name}: {error}"));
            Box::leak(Box::new(shm::vsc::CounterSet::<T>::private()))
        }
    }
}
