// SPDX-License-Identifier: BSD-2-Clause
//! The simulator as a program; see the head of the library.

#![allow(clippy::disallowed_methods, reason = "measures how long a simulation takes")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use base::lock::Mutex;

const USAGE: &str = "usage: sim draw COUNT [SCENARIO...]   so many histories of each scenario
       sim again SCENARIO SEED           one of them, with all that happened in it
       sim soak SECONDS                  new ones for so long
       sim faults COUNT [SCENARIO]       whether each planted fault is found within so many
       sim rfc9111 COUNT                 so many exchanges against the model of RFC 9111
       sim fleet COUNT                   so many histories of a fleet
       sim fleet again SEED              one of them, with all that happened in it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let failed = match args[..] {
        ["draw", count, ref names @ ..] => number(count).map(|count| draw(count, names)),
        ["again", name, seed] => number(seed).map(|seed| again(name, seed)),
        ["soak", seconds] => number(seconds).map(soak),
        ["faults", count] => number(count).map(|count| faults(count, None)),
        ["faults", count, scenario] => number(count).map(|count| faults(count, Some(scenario))),
        ["rfc9111", count] => number(count).map(rfc9111),
        ["fleet", "again", seed] => number(seed).map(|seed| told(sim::again_fleet(seed))),
        ["fleet", count] => number(count).map(fleet),
        _ => None,
    };
    match failed {
        Some(0) => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => {
            println!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn number(word: &str) -> Option<u64> {
    word.parse().ok()
}

/// First seed of a run: the environment sets it, so that a commit's result is the same everywhere.
fn first_seed() -> u64 {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    seed.wrapping_mul(1_000_000_000)
}

/// Draws histories of all these scenarios, on as many threads as there are processors; how many scenarios failed.
fn draw(count: u64, names: &[&str]) -> usize {
    let all = sim::scenarios();
    let names: Vec<&str> = if names.is_empty() { all.iter().map(String::as_str).collect() } else { names.to_vec() };
    let begin = Instant::now();
    let failed = on_all(&names, |name| {
        let begin = Instant::now();
        let done = sim::draw(name, first_seed()..first_seed() + count);
        let what = done.as_ref().map_or_else(|failure| format!("FAIL {failure}"), |()| format!("{count} histories"));
        println!("{name}: {what} ({:.1} s)", begin.elapsed().as_secs_f64());
        done.is_ok()
    });
    println!("sim: {} passed, {failed} failed ({:.0} s)", names.len() - failed, begin.elapsed().as_secs_f64());
    failed
}

/// Draws histories of all scenarios in turn until the time is over or one fails; how many scenarios failed.
fn soak(seconds: u64) -> usize {
    /// Histories of a scenario in its turn.
    const AT_ONCE: u64 = 500;
    let (begin, all) = (Instant::now(), sim::scenarios());
    let (names, mut from, mut failed) = (all.iter().map(String::as_str).collect::<Vec<_>>(), first_seed(), 0);
    while begin.elapsed().as_secs() < seconds && failed == 0 {
        failed = on_all(&names, |name| {
            let done = sim::draw(name, from..from + AT_ONCE);
            done.as_ref().err().into_iter().for_each(|failure| println!("{name}: FAIL {failure}"));
            done.is_ok()
        });
        from += AT_ONCE;
    }
    println!("{} histories of each scenario in {} s", from - first_seed(), begin.elapsed().as_secs());
    println!("sim: {} passed, {failed} failed", names.len() - failed);
    failed
}

/// Does something for each thing, on all processors; for how many it failed.
fn on_all<T: Copy + Sync>(things: &[T], work: impl Fn(T) -> bool + Sync) -> usize {
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&thing) = things.get(next.fetch_add(1, Relaxed)) {
                    failed.fetch_add(usize::from(!work(thing)), Relaxed);
                }
            });
        }
    });
    failed.into_inner()
}

fn again(name: &str, seed: u64) -> usize {
    told(sim::again(name, seed))
}

/// Prints a history, or what is wrong with it: whether anything is.
fn told(history: Result<String, String>) -> usize {
    match history {
        Ok(history) => {
            println!("{history}");
            0
        }
        Err(failure) => {
            println!("{failure}");
            1
        }
    }
}

/// Draws so many exchanges, on all processors; whether there was a difference.
fn rfc9111(count: u64) -> usize {
    /// Histories in a turn of a thread.
    const AT_ONCE: u64 = 25;
    let (begin, done) = (Instant::now(), AtomicU64::new(0));
    let turns: Vec<u64> = (0..count.div_ceil(sim::EXCHANGES * AT_ONCE)).collect();
    let failed = on_all(&turns, |turn| {
        let drawn = sim::draw_exchanges(first_seed() + turn * AT_ONCE, AT_ONCE);
        match &drawn {
            Ok(exchanges) => drop(done.fetch_add(*exchanges, Relaxed)),
            Err(difference) => println!("FAIL {difference}"),
        }
        drawn.is_ok()
    });
    println!("{} exchanges as the model says ({:.0} s)", done.into_inner(), begin.elapsed().as_secs_f64());
    println!("rfc9111: {} passed, {failed} failed", turns.len() - failed);
    failed
}

/// Draws so many histories of a fleet, on all processors; whether one failed.
fn fleet(count: u64) -> usize {
    const AT_ONCE: u64 = 50;
    let (begin, all) = (Instant::now(), Mutex::new(sim::FleetTally::default()));
    let turns: Vec<u64> = (0..count.div_ceil(AT_ONCE)).collect();
    let failed = on_all(&turns, |turn| {
        let from = first_seed() + turn * AT_ONCE;
        let drawn = sim::draw_fleets(from..(from + AT_ONCE).min(first_seed() + count));
        match &drawn {
            Ok(some) => all.lock().add(some),
            Err(failure) => println!("FAIL {failure}"),
        }
        drawn.is_ok()
    });
    print!("{}", all.into_inner());
    println!("histories of a fleet from seed {} on ({:.0} s)", first_seed(), begin.elapsed().as_secs_f64());
    println!("fleet: {} passed, {failed} failed", turns.len() - failed);
    failed
}

/// A planted fault may well panic: the finding says so, and that is enough.
fn quietly() {
    std::panic::set_hook(Box::new(|_| ()));
}

/// Returns the number of faults that weren't found.
fn faults(count: u64, scenario: Option<&str>) -> usize {
    quietly();
    let mut missed = 0;
    println!("| fault | scenario | seed | histories | what the check said |\n| --- | --- | --- | --- | --- |");
    let is_wanted = |fault: &&sim::PlantedFault| scenario.is_none_or(|scenario| scenario == fault.scenario);
    let wanted: Vec<_> = sim::FAULTS.iter().filter(is_wanted).collect();
    for fault in &wanted {
        match sim::find(fault, count) {
            Some(found) => {
                let sim::FoundFault { seed, said } = found;
                println!("| {} | {} | {seed} | {} | {said} |", fault.name, fault.scenario, seed + 1);
            }
            None => {
                missed += 1;
                println!("| {} | {} | | not within {count} | |", fault.name, fault.scenario);
            }
        }
    }
    println!("\nfaults: {} passed, {missed} failed", wanted.len() - missed);
    missed
}
