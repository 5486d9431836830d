// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer demo`: a built-in origin behind the cache, and once a second what the cache does.
//!
//! The origin runs in this process, the cache is a child that ends with it (its CLI is our pipe: when we are gone, it reads the
//! end of its input and stops). The figures are the worker's own counters, read from its shared memory; nothing is asked for.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cache;
mod load;
mod options;
mod origin;
mod pages;
mod query;
mod status;
mod tour;
mod welcome;

use options::DemoOptions;
pub use options::TOOL;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use toolkit::print;

/// Lines between two headings: a terminal of 24 lines always shows one.
const LINES_A_HEADING: u32 = 20;

/// Runs the demo until SIGINT, SIGTERM, SIGHUP or until nobody reads what it prints; `args` are the words after
/// `lacquer demo`. Gives the exit status.
///
/// Starts the origin on a free port, the cache in front of it as a child of this process, and prints where both listen.
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, |words| TOOL.read(DemoOptions::default(), words), |options| run(&options).map(|()| 0))
}

fn run(options: &DemoOptions) -> Result<(), String> {
    let stop = Stop::new()?;
    let origin = origin::DemoOrigin::start().map_err(|e| format!("the origin: {e}"))?;
    let mut cache = cache::DemoCache::start(options, origin.address())?;
    let mut is_read = print::is_read(welcome::opening(&cache.address(), cache.page().as_ref()));
    if is_read {
        tour::walk(cache.address(), |line| {
            is_read = print::is_read(line);
            is_read
        })
        .map_err(|e| format!("the cache at {}: {e}", cache.address()))?;
    }
    let load = load::Load::start(cache.address(), options.load);
    let mut status = status::DemoStatus::new(&cache.directory());
    is_read = is_read && print::is_read(welcome::further(&origin.address(), &cache.address(), &cache.directory()));
    // The first reading has nothing to compare with.
    let _ = status.line(&[], 0);
    let mut next = Instant::now();
    let mut lines = 0;
    while is_read {
        next += Duration::from_secs(1);
        if stop.before(next)? {
            print::out("stopping\n");
            break;
        }
        cache.check()?;
        if lines % LINES_A_HEADING == 0 {
            print::out(format_args!("{}\n", status::HEADING));
        }
        lines += 1;
        is_read = print::is_read(format_args!("{}\n", status.line(&load.take(), cache.memory())));
    }
    cache.stop()
}

/// SIGINT, SIGTERM and SIGHUP as something to wait for.
struct Stop(SignalFd);

impl Stop {
    fn new() -> Result<Self, String> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        mask.add(Signal::SIGHUP);
        mask.thread_block().map_err(|e| format!("signals: {e}"))?;
        SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC).map(Self).map_err(|e| format!("signals: {e}"))
    }

    /// Waits until `end`; whether one of the signals came before that.
    fn before(&self, end: Instant) -> Result<bool, String> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(format!("signals: {e}")),
            }
        }
    }
}
