// SPDX-License-Identifier: BSD-2-Clause
//! Takes over what a worker that died left in its stores' arenas: a thread of the pool for blocking calls walks over it while requests are
//! served, which take over what they ask for themselves. It ends when all is taken over.

use std::sync::Arc;
use std::time::Duration;

use crate::worker::Worker;

/// Digests looked at before other threads have their turn.
const BATCH: usize = 256;

/// The first requests come first: they take over what they ask for, and would share processors and locks with the walk.
const HEAD_START: Duration = Duration::from_millis(100);

pub fn start(worker: &Arc<Worker>) {
    if !worker.engine.cache.is_adopting() {
        return;
    }
    // Until they are counted: nobody who looks is to think that there are none.
    worker.engine.main.adopting.set(1);
    let worker = worker.clone();
    if let Err(refused) = rt::hand_off(move || adopt(&worker)) {
        crate::panic::die(&format!("Panic: can't take over objects: {}\n", refused.text()));
    }
}

fn adopt(worker: &Worker) {
    let engine = &worker.engine;
    engine.main.adopting.set(engine.cache.left_by_former() as u64);
    std::thread::sleep(HEAD_START);
    while engine.cache.adopt_some(BATCH, &mut |event| engine.log_event(event)) {
        std::thread::yield_now();
    }
    engine.main.adopting.set(0);
    // What this thread has counted and kept to itself.
    tables::counters::flush();
}
