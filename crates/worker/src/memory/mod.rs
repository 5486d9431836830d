// SPDX-License-Identifier: BSD-2-Clause
//! How much memory the server takes, who holds it, and what is done when it comes near `memory_limit`. A thread of its own
//! looks, the more often the nearer it is; requests only meet what it has decided: a store's cap, a pressure.

mod ladder;
mod meter;
mod report;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::clock;
use engine::Engine;
use engine::admission::Pressure;
use params::Params;
use parking_lot::{Condvar, Mutex};
use shm::vsl::Marker;
use storage::Store;
use tables::stores::TRANSIENT;
use tables::tags::Tag;

use self::ladder::{MemoryLadder, MemoryStep};
use self::meter::MemoryMeter;
pub use self::report::MemoryReport;
use crate::worker::Worker;

/// Tenths of the cgroup's limit, or of the machine's memory, that `auto` means.
const AUTO_TENTHS: u64 = 9;
/// Between two looks at least, and at most.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(500);
/// Fastest growth of memory, in bytes a second: it decides how long free memory lasts.
const FASTEST: u64 = 4 << 30;
/// Pools are trimmed no more often: they would only be filled again. Stores that are as large as they may be stay at the
/// first step for hours.
const TRIM_PAUSE: Duration = Duration::from_secs(5);
/// The same where eviction isn't far, or goes on.
const SHORT_TRIM_PAUSE: Duration = Duration::from_millis(500);
/// Time until freed memory shows in the processes' figures.
const SETTLE: Duration = Duration::from_millis(50);
const EVICT_MOST: u64 = 20_000;

pub struct WorkerMemory {
    pub meter: MemoryMeter,
    /// `memory_limit` in bytes; 0 is none.
    limit: Mutex<u64>,
    changed: Condvar,
    step: AtomicU8,
    in_force: AtomicU64,
}

impl WorkerMemory {
    pub fn new(manager_pid: u32) -> WorkerMemory {
        WorkerMemory {
            meter: MemoryMeter::new(manager_pid),
            limit: Mutex::new(0),
            changed: Condvar::new(),
            step: AtomicU8::new(0),
            in_force: AtomicU64::new(0),
        }
    }

    pub fn apply(&self, params: &Params) {
        *self.limit.lock() = params.memory_limit.bytes().unwrap_or_else(auto);
        self.changed.notify_all();
    }

    pub fn limit(&self) -> Option<u64> {
        Some(self.in_force.load(Relaxed)).filter(|&limit| limit > 0)
    }

    pub fn step(&self) -> &'static str {
        MemoryStep::numbered(self.step.load(Relaxed)).name()
    }

    /// The limit when it isn't `known` any more, or after `pause`; without one it is waited for.
    fn wait(&self, known: u64, pause: Duration) -> u64 {
        let mut limit = self.limit.lock();
        if *limit == known && known == 0 {
            self.changed.wait_while(&mut limit, |limit| *limit == 0);
        } else if *limit == known {
            self.changed.wait_for(&mut limit, pause);
        }
        *limit
    }
}

/// The limit that the system sets; 0 where there is none.
fn auto() -> u64 {
    let all = sys::memory::cgroup_limit().into_iter().chain(sys::memory::machine_bytes()).min();
    all.map_or(0, |all| all / 10 * AUTO_TENTHS)
}

/// Starts the thread. Without a limit it sleeps.
pub fn start(worker: &Arc<Worker>) {
    worker.memory.apply(&worker.engine.params.load());
    let worker = worker.clone();
    let thread = std::thread::Builder::new().name("lacquer-memory".to_owned());
    if let Err(error) = thread.spawn(move || govern(&worker)) {
        crate::panic::die(&format!("Panic: no thread that looks after memory: {error}\n"));
    }
}

fn govern(worker: &Worker) {
    let (mut known, mut pause) = (0, LONGEST);
    let mut governor = Governor::new(worker);
    loop {
        let limit = worker.memory.wait(known, pause);
        if limit != known {
            governor.set_limit(limit);
            known = limit;
        }
        if limit > 0 {
            pause = governor.look();
        }
    }
}

struct Governor<'a> {
    worker: &'a Worker,
    ladder: MemoryLadder,
    step: MemoryStep,
    trimmed: Option<Instant>,
    /// When objects were evicted last, and how much was in use then.
    evicted: Option<(Instant, u64)>,
}

impl<'a> Governor<'a> {
    fn new(worker: &'a Worker) -> Self {
        Governor { worker, ladder: MemoryLadder::new(0), step: MemoryStep::None, trimmed: None, evicted: None }
    }

    fn engine(&self) -> &'a Engine {
        &self.worker.engine
    }

    fn set_limit(&mut self, limit: u64) {
        self.ladder.set_limit(limit);
        self.worker.memory.in_force.store(limit, Relaxed);
        self.engine().main.mem_limit.set(limit);
        if limit > 0 {
            self.engine().cache.evict_unlimited();
            return;
        }
        self.ladder = MemoryLadder::new(0);
        for store in self.engine().cache.stores().all() {
            store.set_cap(None);
        }
        self.engine().requests.admission.set_pressure(Pressure::None);
        self.tell(MemoryStep::None, 0);
    }

    fn look(&mut self) -> Duration {
        let used = self.worker.memory.meter.read(self.engine().cache.stores()).bytes();
        self.engine().main.mem_used.set(used);
        let step = self.ladder.climb(used);
        self.tell(step, used);
        self.engine().requests.admission.set_pressure(pressure(step, used, self.ladder.limit()));
        if step >= MemoryStep::Trim {
            self.trim(if step > MemoryStep::Trim { SHORT_TRIM_PAUSE } else { TRIM_PAUSE });
        }
        if step >= MemoryStep::Evict {
            self.evict(used);
        }
        self.cap(used);
        match step {
            MemoryStep::None => pause(self.ladder.target().saturating_sub(used)),
            _ => SHORTEST,
        }
    }

    /// A change of steps is told once.
    fn tell(&mut self, step: MemoryStep, used: u64) {
        if std::mem::replace(&mut self.step, step) == step {
            return;
        }
        self.worker.memory.step.store(step as u8, Relaxed);
        let mut text = format!("memory_limit: step {}", step.name());
        let limit = self.ladder.limit();
        if limit > 0 {
            let _ = write!(text, ", {} of {} kB in use", used >> 10, limit >> 10);
        }
        self.engine().log.write_onef(Tag::Notice, base::Vxid::NONE, Marker::None, format_args!("{text}"));
        if step == MemoryStep::Shed {
            report_line!("{text}: requests are answered 503");
        }
    }

    /// Threads give up what they keep for requests to come, and the allocator what nobody uses, if they didn't just now.
    fn trim(&mut self, pause: Duration) {
        if self.trimmed.is_some_and(|when| when.elapsed() < pause) {
            return;
        }
        self.trimmed = Some(clock::now());
        self.engine().main.mem_trim.inc();
        self.worker.threads.lock().iter().for_each(|thread| thread.trim.waker().wake());
        sys::alloc::give_back();
    }

    /// Objects go until what is in use should be at the target again.
    fn evict(&mut self, used: u64) {
        // What went just now may still be seen.
        if self.evicted.is_some_and(|(when, then)| when.elapsed() < SETTLE && used <= then) {
            return;
        }
        let Some(most) = self.engine().cache.stores().all().iter().max_by_key(|store| store.used_bytes()) else {
            return;
        };
        let surplus = used.saturating_sub(self.ladder.target());
        let engine = self.engine();
        let went = engine.cache.evict(most.id(), surplus, EVICT_MOST, &mut |event| engine.log_event(event));
        self.engine().main.mem_evict.add(went);
        self.evicted = Some((clock::now(), used));
    }

    /// Caps the stores: they may grow by no more than what is free until the target.
    fn cap(&self, used: u64) {
        let capped: Vec<&Arc<Store>> =
            self.engine().cache.stores().all().iter().filter(|store| store.name() != TRANSIENT).collect();
        let Some(largest) = capped.iter().max_by_key(|store| store.used_bytes()) else { return };
        let free = self.ladder.target().saturating_sub(used);
        // The others may grow a little all the same: what isn't let in anywhere is a fetch that fails.
        let others = free.max(self.ladder.reserve() / 8) / capped.len() as u64;
        for store in &capped {
            let more = if store.id() == largest.id() { free } else { others };
            store.set_cap(Some(store.used_bytes() + more));
        }
    }
}

fn pressure(step: MemoryStep, used: u64, limit: u64) -> Pressure {
    match step {
        MemoryStep::None | MemoryStep::Trim | MemoryStep::Evict => Pressure::None,
        MemoryStep::RefuseBackground => Pressure::BackgroundFetches,
        MemoryStep::Shed if used < limit => Pressure::Fetches,
        MemoryStep::Shed => Pressure::Requests,
    }
}

/// Shortest time that so many free bytes last.
fn pause(free: u64) -> Duration {
    Duration::from_secs_f64(free as f64 / FASTEST as f64).clamp(SHORTEST, LONGEST)
}

pub fn trim_thread() {
    fronts::trim();
    engine::pool::trim();
    sys::alloc::give_back();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_at_the_more_often_the_less_is_free() {
        assert_eq!([0, 1 << 20, 400 << 20, 10 << 30].map(pause).map(|pause| pause.as_millis()), [10, 10, 97, 500]);
    }

    #[test]
    fn each_step_refuses_more() {
        let at = |step, used| pressure(step, used, 100);
        assert_eq!([at(MemoryStep::None, 10), at(MemoryStep::Evict, 90)], [Pressure::None; 2]);
        assert_eq!(at(MemoryStep::RefuseBackground, 95), Pressure::BackgroundFetches);
        assert_eq!([at(MemoryStep::Shed, 99), at(MemoryStep::Shed, 100)], [Pressure::Fetches, Pressure::Requests]);
    }

    #[test]
    fn a_limit_wakes_who_waits_for_one() {
        let memory = Arc::new(WorkerMemory::new(std::process::id()));
        let waiting = std::thread::spawn({
            let memory = memory.clone();
            move || memory.wait(0, LONGEST)
        });
        let mut params = Params::default();
        params.set("memory_limit", "40m").unwrap();
        memory.apply(&params);
        assert_eq!(waiting.join().unwrap(), 40 << 20);
        assert_eq!(memory.wait(40 << 20, Duration::ZERO), 40 << 20);
        params.set("memory_limit", "auto").unwrap();
        memory.apply(&params);
        let limit = memory.wait(40 << 20, LONGEST);
        assert!(limit > 40 << 20 && limit < sys::memory::machine_bytes().unwrap(), "{limit}");
    }
}
