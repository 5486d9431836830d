// SPDX-License-Identifier: BSD-2-Clause
//! One thread for what happens beside requests: expiry, the ban lurker, probes, pools, gauges, bodies that come from disk to
//! memory.

use std::sync::Arc;
use std::time::Duration;

use engine::current::{ThreadWork, TransactionKind};
use shm::vsl::Marker;
use tables::Compat;
use tables::tags::Tag;

use crate::worker::Worker;

const EXPIRE_BATCH: usize = 1000;
/// Between two looks at what is due while there is traffic.
const TICK: Duration = Duration::from_millis(50);
/// The same while there is none: the uptime wants a look each second.
const IDLE_TICK: Duration = Duration::from_secs(1);

pub fn start(worker: &Arc<Worker>) {
    let worker = worker.clone();
    let thread = std::thread::Builder::new().name("lacquer-house".to_owned());
    let spawned = thread.spawn(move || {
        let ran = rt::run(async move {
            rt::spawn(worker.backends.clone().housekeep());
            rt::spawn(lurk(worker.clone()));
            rt::spawn(crate::peers::follow(worker.clone()));
            if worker.engine.cache.has_homes() {
                let worker = worker.clone();
                rt::spawn(async move { worker.engine.cache.admit().await });
            }
            tend(worker).await;
        });
        if let Err(error) = ran {
            crate::panic::die(&format!("Panic: no runtime for the housekeeping thread: {error}\n"));
        }
    });
    if let Err(error) = spawned {
        crate::panic::die(&format!("Panic: no housekeeping thread: {error}\n"));
    }
}

async fn tend(worker: Arc<Worker>) {
    let engine = &worker.engine;
    let began = engine.clock.mono();
    let next_word = match engine.params.load().compat() {
        Compat::V7_1 => "EXP_expire",
        Compat::V9 => "EXP_Inspect",
    };
    let mut next_told = None;
    let mut files_seen = None;
    engine.main.open_files_limit.set(sys::limits::open_files_limit().unwrap_or(0));
    let mut last_signs = None;
    let bell = Arc::new(rt::Notify::default());
    loop {
        let went = engine.cache.expire(engine.clock.mono(), EXPIRE_BATCH, &mut |event| engine.log_event(event));
        if !engine.log.is_masked(Tag::ExpKill) {
            let next = engine.cache.next_expiry();
            // As varnishd does each time that another object is the next to go: in how many seconds.
            if let Some(next) = next.filter(|next| next_told != Some(*next)) {
                let left = next.since(engine.clock.mono());
                log_expiry(engine, format_args!("{next_word} e={left:.6}"));
            }
            next_told = next;
        }
        let uptime = engine.clock.mono().since(began) as u64;
        engine.main.uptime.set(uptime);
        if files_seen.replace(uptime) != Some(uptime) {
            look(&worker);
        }
        let vcls = worker.vcls.count() as u64;
        show(&worker, vcls);
        let signs = Some(ChangeMarks::read(engine, vcls));
        let is_idle = went == 0 && worker.costs.is_none() && signs == last_signs;
        last_signs = signs;
        if went >= EXPIRE_BATCH {
            rt::yield_now().await;
        } else if is_idle {
            // An object that is due before that rings; set before the look, so that none is missed.
            engine.cache.wake_expiry_by(bell.waker(), engine.clock.mono().plus(IDLE_TICK.as_secs_f64()));
            let due = engine.cache.next_expiry().map(|due| due.since(engine.clock.mono()).max(0.0));
            let due = due.and_then(|due| Duration::try_from_secs_f64(due).ok()).unwrap_or(IDLE_TICK);
            let _ = rt::timeout(due.clamp(TICK, IDLE_TICK), bell.notified()).await;
        } else {
            rt::sleep(TICK).await;
        }
    }
}

/// Looks at what costs a system call or more; once a second.
fn look(worker: &Worker) {
    let engine = &worker.engine;
    engine.main.open_files.set(sys::limits::open_files().unwrap_or(0));
    engine.count_coders();
    engine.forget_old_uploads();
    engine.main.mem_used.set(worker.memory.meter.read(engine.cache.stores()).bytes());
    worker.quic.count_drops(engine.main);
    for vcl in worker.vcls.warm() {
        vcl.directors().iter().for_each(|director| director.look_again());
    }
}

fn show(worker: &Worker, vcls: u64) {
    let engine = &worker.engine;
    let discarded = worker.vcls.discarded() as u64;
    engine.main.n_vcl.set(vcls + discarded);
    engine.main.n_vcl_discard.set(discarded);
    engine.main.regex_limit.set(vcl_regex::matches_given_up());
    engine.main.threads_failed.set(rt::threads_failed());
    engine.main.pools.set(u64::from(engine.params.load().thread_pools));
    let params = engine.params.load();
    // As many threads as Varnish would have.
    let least = u64::from(params.thread_pools) * u64::from(params.thread_pool_min);
    let in_progress = |work: &ThreadWork| work.tally(TransactionKind::Request).0 + work.tally(TransactionKind::Fetch).0;
    engine.main.txn_busy.set(worker.threads.lock().iter().map(|thread| in_progress(&thread.work)).sum());
    engine.main.threads.set(engine.requests.admission.busy().max(least));
    worker.pools.show(&worker.threads.lock());
    engine.main.thread_queue_len.set(engine.requests.admission.waiting());
    if let Some(counters) = worker.costs {
        let costs = base::costs::so_far();
        counters.allocations.set(costs.allocations);
        counters.locks.set(costs.locks);
        counters.turns.inc();
    }
}

#[derive(PartialEq)]
struct ChangeMarks {
    sessions: u64,
    requests: u64,
    fetches: u64,
    vcls: u64,
    busy: u64,
    waiting: u64,
}

impl ChangeMarks {
    fn read(engine: &engine::Engine, vcls: u64) -> ChangeMarks {
        ChangeMarks {
            sessions: engine.main.s_sess.get(),
            requests: engine.main.client_req.get(),
            fetches: engine.main.s_fetch.get(),
            vcls,
            busy: engine.requests.admission.busy(),
            waiting: engine.requests.admission.waiting(),
        }
    }
}

fn log_expiry(engine: &engine::Engine, text: std::fmt::Arguments<'_>) {
    engine.log.write_onef(Tag::ExpKill, base::Vxid::NONE, Marker::None, text);
}

/// The ban lurker: sleeps until a ban is old enough, or a new one comes.
async fn lurk(worker: Arc<Worker>) {
    /// Each look, as parameters may have changed meanwhile.
    const MAX: f64 = 1.0;
    let engine = &worker.engine;
    let bell = Arc::new(rt::Notify::default());
    loop {
        engine.cache.wake_lurker_by(bell.waker());
        let pause = engine.cache.lurk(engine.clock.mono(), &mut |event| engine.log_event(event));
        if let Some(trouble) = engine.cache.journal_trouble() {
            report_line!("{trouble}");
        }
        let _ = rt::timeout(Duration::from_secs_f64(pause.clamp(0.001, MAX)), bell.notified()).await;
    }
}
