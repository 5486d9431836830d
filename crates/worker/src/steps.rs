// SPDX-License-Identifier: BSD-2-Clause
//! What is shown of the steps of serving threads: how long the longest took, and how often a task let others go first. While all are
//! timed the log says of what took long.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base::clock;
use params::Params;
use shm::vsl::{LogRing, Marker};
use tables::counters::Main;
use tables::tags::Tag;

/// Longest time that a step should take.
const LONG: Duration = Duration::from_micros(500);

/// Records of long steps that a thread writes in a second at most.
const TOLD_A_SECOND: u32 = 20;

static COUNTERS: OnceLock<&'static Main> = OnceLock::new();
static LOG: OnceLock<Arc<LogRing>> = OnceLock::new();
/// [`Main::longest_step`], which several threads may raise at once.
static LONGEST: AtomicU64 = AtomicU64::new(0);
/// The parameter as it was applied.
static EVERY: AtomicU32 = AtomicU32::new(0);

pub fn begin(main: &'static Main, log: &Arc<LogRing>, params: &Params) {
    let _ = COUNTERS.set(main);
    let _ = LOG.set(log.clone());
    rt::observe_steps(rt::Observer { timed, gave_way });
    apply(params);
}

/// A parameter may have changed.
pub fn apply(params: &Params) {
    if EVERY.swap(params.step_timing, Relaxed) != params.step_timing {
        LONGEST.store(0, Relaxed);
        COUNTERS.get().into_iter().for_each(|main| main.longest_step.set(0));
        rt::time_steps(params.step_timing);
    }
}

fn timed(took: Duration) {
    let Some(main) = COUNTERS.get() else { return };
    main.steps_timed.tally();
    if took > LONG {
        main.steps_long.inc();
        if EVERY.load(Relaxed) == 1 {
            tell(took);
        }
    }
    let micros = took.as_micros() as u64;
    if micros > LONGEST.load(Relaxed) {
        main.longest_step.set(LONGEST.fetch_max(micros, Relaxed).max(micros));
    }
}

fn gave_way() {
    COUNTERS.get().into_iter().for_each(|main| main.stints.tally());
}

/// Says in the log what took long.
#[cold]
fn tell(took: Duration) {
    thread_local! {
        /// Since when records are counted, and how many.
        static TOLD: Cell<(Option<Instant>, u32)> = const { Cell::new((None, 0)) };
    }
    let now = clock::now();
    let told = match TOLD.get() {
        (Some(since), told) if now.saturating_duration_since(since) < Duration::from_secs(1) => (Some(since), told + 1),
        _ => (Some(now), 1),
    };
    TOLD.set(told);
    if told.1 > TOLD_A_SECOND {
        return;
    }
    let Some(log) = LOG.get() else { return };
    let micros = took.as_micros();
    log.write_onef(
        Tag::Notice,
        base::Vxid::NONE,
        Marker::None,
        format_args!("lacquer: long step: {micros} us, {LastWork}"),
    );
}

struct LastWork;

impl fmt::Display for LastWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        engine::current::write_last(f)
    }
}
