// SPDX-License-Identifier: BSD-2-Clause
//! Looks whether each serving thread makes progress. One that has work and makes no turn for a second is logged with what
//! it works on; after a minute the worker ends, with a report that names the culprit.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base::clock;
use engine::current::ThreadWork;
use rt::{RuntimeProgress, RuntimeWatch};
use shm::vsl::Marker;
use tables::tags::Tag;

use crate::worker::Worker;

const LOOK: Duration = Duration::from_millis(250);
/// Time without a turn after which a thread is logged.
const STALLED: Duration = Duration::from_secs(1);
/// Time without a turn after which the worker ends.
const HOPELESS: Duration = Duration::from_secs(60);

/// A serving thread as others see it.
pub struct ThreadHandle {
    pub name: String,
    pub progress: Arc<RuntimeProgress>,
    pub work: Arc<ThreadWork>,
    pub trim: Arc<rt::Notify>,
}

pub fn start(worker: &Arc<Worker>) -> Result<(), String> {
    let worker = Arc::downgrade(worker);
    let thread = std::thread::Builder::new().name("lacquer-watch".to_owned());
    thread
        .spawn(move || {
            sys::fault::protect_this_thread();
            watch(&worker);
        })
        .map_err(|error| format!("the watchdog's thread: {error}"))?;
    Ok(())
}

fn watch(worker: &Weak<Worker>) {
    let mut watches: Vec<(RuntimeWatch, bool)> = Vec::new();
    while let Some(worker) = worker.upgrade() {
        let now = clock::now();
        let threads = worker.threads.lock();
        for thread in &threads[watches.len()..] {
            watches.push((RuntimeWatch::new(thread.progress.clone(), now), false));
        }
        for (thread, (watch, is_known)) in threads.iter().zip(&mut watches) {
            let stalled = watch.look(now);
            if stalled < STALLED {
                *is_known = false;
            } else if !std::mem::replace(is_known, true) {
                report(&worker, thread, stalled);
            }
            if stalled >= HOPELESS {
                crate::panic::die(&format!("Panic: {}\n", describe(thread, stalled)));
            }
        }
        drop(threads);
        drop(worker);
        std::thread::sleep(LOOK);
    }
}

fn report(worker: &Worker, thread: &ThreadHandle, stalled: Duration) {
    let (engine, text) = (&worker.engine, describe(thread, stalled));
    engine.main.stalls.inc();
    engine.log.write_onef(Tag::Error, thread.work.current().vxid, Marker::None, format_args!("{text}"));
    report_line!("{text}");
}

fn describe(thread: &ThreadHandle, stalled: Duration) -> String {
    let current = thread.work.current();
    let step = if current.step.is_empty() { "-" } else { &current.step };
    format!(
        "Thread {} makes no progress for {:.1} s: transaction {}, step {step}",
        thread.name,
        stalled.as_secs_f64(),
        current.vxid
    )
}
