// SPDX-License-Identifier: BSD-2-Clause
//! One thread for what happens beside requests: expiry, the ban lurker, probes, pools, gauges.

use std::sync::Arc;
use std::time::Duration;

use shm::vsl::Marker;
use tables::tags::Tag;

use crate::birth::Worker;

/// Objects expired at a stretch.
const EXPIRE_BATCH: usize = 1000;
/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(50);

/// Starts the thread.
pub fn start(worker: &Arc<Worker>) {
    let worker = worker.clone();
    let thread = std::thread::Builder::new().name("lacquer-house".to_owned());
    let spawned = thread.spawn(move || {
        let ran = rt::run(async move {
            rt::spawn(worker.backends.clone().housekeep());
            rt::spawn(lurk(worker.clone()));
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

/// Expiry and gauges.
async fn tend(worker: Arc<Worker>) {
    let engine = &worker.engine;
    let began = engine.clock.mono();
    let mut next_told = None;
    loop {
        let log = |event: cache::Event| {
            let tag = match event.tag() {
                cache::EventTag::ExpKill => Tag::ExpKill,
                cache::EventTag::ExpBan => Tag::ExpBan,
            };
            engine.log.write_onef(tag, base::Vxid::NONE, Marker::None, format_args!("{event}"));
        };
        let went = engine.cache.expire(engine.clock.mono(), EXPIRE_BATCH, &mut { log });
        if !engine.log.is_masked(Tag::ExpKill) {
            let next = engine.cache.next_expiry();
            // As varnishd does each time that another object is the next to go: in how many seconds.
            if let Some(next) = next.filter(|next| next_told != Some(*next)) {
                let left = next.since(engine.clock.mono());
                log_expiry(engine, format_args!("EXP_expire e={left:.6}"));
            }
            next_told = next;
        }
        engine.main.uptime.set(engine.clock.mono().since(began) as u64);
        let vcls = worker.vcls.count() as u64;
        engine.main.n_vcl.set(vcls);
        engine.main.pools.set(u64::from(engine.params.load().thread_pools));
        let params = engine.params.load();
        // As many threads as Varnish would have.
        let least = u64::from(params.thread_pools) * u64::from(params.thread_pool_min);
        engine.main.txn_busy.set(engine.turns.busy());
        engine.main.threads.set(engine.turns.busy().max(least));
        worker.pools.show(&worker.seats.lock());
        engine.main.thread_queue_len.set(engine.turns.waiting());
        if let Some(counters) = worker.costs {
            let costs = base::costs::so_far();
            counters.allocations.set(costs.allocations);
            counters.locks.set(costs.locks);
            counters.turns.inc();
        }
        if went >= EXPIRE_BATCH { rt::yield_now().await } else { rt::sleep(TICK).await }
    }
}

fn log_expiry(engine: &engine::Engine, text: std::fmt::Arguments<'_>) {
    engine.log.write_onef(Tag::ExpKill, base::Vxid::NONE, Marker::None, text);
}

/// The ban lurker.
async fn lurk(worker: Arc<Worker>) {
    let engine = &worker.engine;
    loop {
        let log = |event: cache::Event| {
            engine.log.write_onef(Tag::ExpBan, base::Vxid::NONE, Marker::None, format_args!("{event}"));
        };
        let pause = engine.cache.lurk(engine.clock.mono(), &mut { log });
        rt::sleep(Duration::from_secs_f64(pause.clamp(0.001, 0.05))).await;
    }
}
