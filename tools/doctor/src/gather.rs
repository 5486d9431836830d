// SPDX-License-Identifier: BSD-2-Clause
//! Looks at everything once, or twice with a time between: the facts for the rules. Ctrl-C ends the time early.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::print;
use logq::Grouping;
use logq::group::{Grouper, TxnFilter};
use logq::source::{Records, Source};
use shm::reader::Reader;
use shm::reader::log::{Ring, StartAt, Step};
use sys::signal::{SIGINT, SIGTERM, Signals};

use crate::facts::Facts;
use crate::host::Host;
use crate::options::Options;
use crate::rules;
use crate::server::{self, Server, Told};
use crate::traffic::Traffic;

/// A log that is read back doesn't end while more comes than can be read: so long at most.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to sleep when the log has nothing new.
const IDLE: Duration = Duration::from_millis(10);
/// Records between two looks for a signal and at the clock.
const BURST: u32 = 1000;
/// How often the line of progress changes.
const SHOW: Duration = Duration::from_millis(500);

/// What there was to see, and how looking ended.
pub struct Seen {
    pub facts: Facts,
    /// Somebody has ended it.
    pub is_early: bool,
    /// The server went away meanwhile.
    pub is_gone: bool,
}

/// Gathers the facts.
///
/// # Errors
/// What was asked for by name isn't there.
pub fn facts(options: &Options) -> Result<Seen, String> {
    let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let mut server = server(options)?;
    let pid = options.pid.or_else(|| server.as_ref().ok().and_then(|server| server.worker.or(server.manager)));
    if !options.root.is_dir() {
        return Err(format!("--root {}: no such directory", options.root.display()));
    }
    let mut host = Host::new(&options.root, pid);
    if options.watch.is_some() {
        host.begin(rules::watched(&host));
    }
    let mut log = Log::new(options, server.as_ref().ok().and_then(|server| server.workdir.as_deref()))?;
    let is_early = log.read(options, &mut signals);
    let mut is_gone = false;
    if options.watch.is_some()
        && let Ok(watched) = &mut server
        && let Err(error) = watched.look_again()
    {
        let why = format!("the server went away while it was watched: {error}");
        log.traffic.remarks.push(why.clone());
        (server, is_gone) = (Err(why), true);
    }
    if let Ok(server) = &mut server
        && server.workdir.is_some()
    {
        server.ask(options.address.as_deref(), options.secret.as_deref(), Some(options.timeout));
    }
    Ok(Seen { facts: Facts { host, server, traffic: log.end() }, is_early, is_gone })
}

/// The server, by its files or its directory. The inner error: there is none, which nobody has said there is.
fn server(options: &Options) -> Result<Result<Server, String>, String> {
    if let Some(file) = &options.counters {
        let mut server = Server::saved(server::counters_of(&read(file)?).map_err(|error| format!("{file}: {error}"))?);
        if let Some(file) = &options.params {
            let params = server::params(&read(file)?);
            if params.is_empty() {
                return Err(format!("{file}: no output of param.show -j"));
            }
            server.told = Ok(Told { params, ..Told::default() });
        }
        return Ok(Ok(server));
    }
    let is_elsewhere = options.root != Path::new("/");
    if options.name.is_none() && options.address.is_none() && is_elsewhere {
        return Ok(Err("the server of another machine's files isn't known (-n, --counters)".into()));
    }
    let workdir = Reader::workdir_of(options.name.as_deref());
    match Server::look(workdir) {
        Err(error) if options.name.is_some() || options.address.is_some() => Err(error),
        other => Ok(other),
    }
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{file}: {}", logq::source::strerror(&error)))
}

/// The log, being read.
struct Log {
    source: Option<Source>,
    workdir: Option<PathBuf>,
    grouper: Grouper,
    traffic: Traffic,
    /// Why there is none.
    why: String,
}

/// How reading ended.
enum Ended {
    /// It is over, or there is nothing more.
    Over,
    /// Somebody has ended it.
    Early,
    /// The log was lost.
    Lost(&'static str),
}

impl Log {
    fn new(options: &Options, workdir: Option<&Path>) -> Result<Log, String> {
        let wanted =
            TxnFilter { backend: true, client: true, esi: true, limit: 10_000, timeout: Duration::from_secs(120) };
        let grouper = Grouper::new(Grouping::Vxid, wanted);
        let mut log = Log {
            source: None,
            workdir: workdir.map(Path::to_owned),
            grouper,
            traffic: Traffic::default(),
            why: String::new(),
        };
        if let Some(file) = &options.log {
            log.source = Some(Source::File(Records::open(file)?));
            return Ok(log);
        }
        let from = if options.watch.is_some() { StartAt::Now } else { StartAt::Past };
        match workdir.map(|workdir| Ring::open(workdir, from)) {
            Some(Ok(ring)) => log.source = Some(Source::Ring(Box::new(ring))),
            Some(Err(error)) => log.why = format!("the log can't be read: {error}"),
            None => log.why = "there is no log (-n, -r)".to_owned(),
        }
        Ok(log)
    }

    /// Reads to the end, or for the time that is watched; whether it was ended early.
    fn read(&mut self, options: &Options, signals: &mut Signals) -> bool {
        let most = options.watch.unwrap_or(PATIENCE);
        let mut clock = Clock::new(most, options.watch.is_some(), options.is_quiet);
        let is_early = loop {
            match self.step(&mut clock, signals) {
                Ended::Over => break false,
                Ended::Early => break true,
                Ended::Lost(how) => {
                    self.traffic.remarks.push(format!("the log was {how}: some requests are missing"));
                    let again = self.workdir.as_deref().and_then(|workdir| Ring::open(workdir, StartAt::Now).ok());
                    self.source = again.filter(|_| options.watch.is_some()).map(|ring| Source::Ring(Box::new(ring)));
                }
            }
        };
        clock.end();
        is_early
    }

    fn step(&mut self, clock: &mut Clock, signals: &mut Signals) -> Ended {
        let mut burst = 0;
        loop {
            let step = match &mut self.source {
                Some(source) => source.step(),
                // Only the clock is waited for.
                None if clock.is_watch => Step::End,
                None => return Ended::Over,
            };
            let is_idle = match step {
                Step::Records(bytes) => {
                    self.grouper.feed(bytes, Instant::now());
                    take(&mut self.grouper, &mut self.traffic);
                    false
                }
                Step::Eof => return Ended::Over,
                Step::Abandoned => return Ended::Lost("ended by its worker"),
                Step::Overrun => return Ended::Lost("overrun"),
                Step::End => true,
            };
            burst += 1;
            if !is_idle && burst < BURST {
                continue;
            }
            burst = 0;
            if signals.take().is_ok_and(|signal| signal.is_some()) {
                return Ended::Early;
            }
            if clock.is_over(self.traffic.requests) {
                if !clock.is_watch {
                    self.traffic.remarks.push("the log grows faster than it can be read: only a part was read".into());
                }
                return Ended::Over;
            }
            if is_idle {
                std::thread::sleep(IDLE);
            }
        }
    }

    fn end(mut self) -> Result<Traffic, String> {
        self.grouper.flush(Instant::now());
        take(&mut self.grouper, &mut self.traffic);
        if let Some(Source::File(file)) = &self.source
            && file.is_cut()
        {
            self.traffic.remarks.push("the log was cut: what came before that was used".into());
        }
        let is_known = self.source.is_some() || !self.traffic.remarks.is_empty();
        if is_known { Ok(self.traffic) } else { Err(self.why) }
    }
}

fn take(grouper: &mut Grouper, traffic: &mut Traffic) {
    while grouper.take(|group| group.iter().for_each(|txn| traffic.add(txn))).is_some() {}
}

/// How long it is watched, with a line of progress.
struct Clock {
    begin: Instant,
    most: Duration,
    is_watch: bool,
    is_shown: bool,
    show_at: Instant,
}

impl Clock {
    fn new(most: Duration, is_watch: bool, is_quiet: bool) -> Clock {
        let begin = Instant::now();
        let is_shown = !is_quiet && std::io::stderr().is_terminal();
        Clock { begin, most, is_watch, is_shown, show_at: begin + SHOW }
    }

    fn is_over(&mut self, requests: u64) -> bool {
        let passed = self.begin.elapsed();
        if self.is_shown && Instant::now() >= self.show_at {
            self.show_at = Instant::now() + SHOW;
            print::err(format_args!("\r\x1b[K{}", progress(requests, passed, self.is_watch.then_some(self.most))));
        }
        passed >= self.most
    }

    fn end(&self) {
        if self.is_shown {
            print::err("\r\x1b[K");
        }
    }
}

fn progress(requests: u64, passed: Duration, most: Option<Duration>) -> String {
    let seconds = passed.as_secs_f64().max(1e-3);
    let line = format!("{requests} requests  {:.0}/s", requests as f64 / seconds);
    let Some(most) = most.map(|most| most.as_secs_f64()) else { return line };
    format!("{line}  {:.0} %  {:.0} s left", (100.0 * seconds / most).min(100.0), (most - seconds).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_a_line() {
        let (passed, most) = (Duration::from_secs(2), Duration::from_secs(10));
        assert_eq!(progress(100, passed, Some(most)), "100 requests  50/s  20 %  8 s left");
        assert_eq!(progress(0, Duration::ZERO, None), "0 requests  0/s");
    }
}
