// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer demo`: a built-in origin behind the cache, and once a second what the cache does.
//!
//! The origin runs in this process, the cache is a child that ends with it (its CLI is our pipe: when we are gone, it reads the
//! end of its input and stops). The figures are the worker's own counters, read from its shared memory; nothing is asked for.

mod cache;
mod load;
mod options;
mod origin;
mod pages;
mod query;
mod status;
mod vsc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs the demo until SIGINT or SIGTERM; `args` are the words after `lacquer demo`.
///
/// Starts the origin on a free port, the cache in front of it as a child of this process, and prints where both listen.
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> ExitCode {
    let options = match options::Options::parse(args) {
        Ok(options::Asked::Run(o)) => o,
        Ok(options::Asked::Help) => {
            print!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("lacquer demo: {e}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("lacquer demo: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &options::Options) -> Result<(), String> {
    let stop = Stop::new()?;
    let origin = origin::Origin::start().map_err(|e| format!("the origin: {e}"))?;
    let mut cache = cache::Cache::start(options, origin.address())?;
    println!("origin  http://{}/", origin.address());
    println!("cache   http://{}/", cache.address());
    println!("log     varnishlog -n {}", cache.directory().display());
    println!("{}", pages::TRY);
    let load = load::Load::start(cache.address(), options.load);
    let mut status = status::Status::new(&cache.directory());
    let mut next = Instant::now();
    loop {
        next += Duration::from_secs(1);
        if stop.before(next)? {
            println!("stopping");
            return cache.stop();
        }
        cache.check()?;
        println!("{}", status.line(&load.take(), cache.memory()));
    }
}

/// SIGINT and SIGTERM as something to wait for.
struct Stop(SignalFd);

impl Stop {
    fn new() -> Result<Self, String> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
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
