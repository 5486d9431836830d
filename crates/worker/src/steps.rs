// SPDX-License-Identifier: BSD-2-Clause
//! What is shown of the steps of serving threads: how long the longest took, and how often a task let others go first.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tables::counters::Main;
use tables::params::Params;

/// What a step should take at most.
const LONG: Duration = Duration::from_micros(500);

static COUNTERS: OnceLock<&'static Main> = OnceLock::new();
/// [`Main::longest_step`], which several threads may raise at once.
static LONGEST: AtomicU64 = AtomicU64::new(0);
/// The parameter as it was applied.
static EVERY: AtomicU32 = AtomicU32::new(0);

/// Begins to count.
pub fn begin(main: &'static Main, params: &Params) {
    let _ = COUNTERS.set(main);
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
    }
    let micros = took.as_micros() as u64;
    if micros > LONGEST.load(Relaxed) {
        main.longest_step.set(LONGEST.fetch_max(micros, Relaxed).max(micros));
    }
}

fn gave_way() {
    COUNTERS.get().into_iter().for_each(|main| main.stints.tally());
}
