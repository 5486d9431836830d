// SPDX-License-Identifier: BSD-2-Clause
//! Looks at everything once, or twice with a time between: the facts for the rules. Ctrl-C ends the time early.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use sys::signal::{SIGINT, SIGTERM, Signals};
use toolkit::print;

use crate::facts::DoctorFacts;
use crate::fleet;
use crate::host::{Host, HostSpan};
use crate::log::DoctorLog;
use crate::options::DoctorOptions;
use crate::rule::Area;
use crate::rules;
use crate::server::{self, CliFacts, DoctorServer};

/// Longest time for reading back a running log, which doesn't end while it grows faster than it can be read. A file has
/// an end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for which the machine is watched if its counters go back further than the server's start.
const MOMENT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// Interval between changes of the progress line.
const SHOW: Duration = Duration::from_millis(500);

/// The facts, and how gathering them ended.
pub struct Seen {
    pub facts: DoctorFacts,
    pub is_early: bool,
    pub is_gone: bool,
}

/// Gathers the facts.
///
/// # Errors
/// A thing that was named on the command line isn't there.
pub fn facts(options: &DoctorOptions) -> Result<Seen, String> {
    let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let mut server = server(options)?;
    let pid = options.pid.or_else(|| server.as_ref().ok().and_then(|server| server.worker.or(server.manager)));
    if !options.root.is_dir() {
        return Err(format!("--root {}: no such directory", options.root.display()));
    }
    let mut host = Host::new(&options.root, pid);
    if options.watch.is_some() {
        host.begin(HostSpan::Watched, rules::watched(&host));
    }
    let mut log = DoctorLog::begin(options, server.as_ref().ok().and_then(|server| server.workdir.as_deref()))?;
    let mut clock = Clock::new(options, log.bytes);
    let is_early = wait(&mut log, &mut clock, &mut signals);
    clock.end();
    let mut traffic = log.end()?;
    let mut is_gone = false;
    if options.watch.is_some()
        && let Ok(watched) = &mut server
        && let Err(error) = watched.look_again()
    {
        let why = format!("the server went away while it was watched: {error}");
        if let Ok(traffic) = &mut traffic {
            traffic.remarks.push(why.clone());
        }
        (server, is_gone) = (Err(why), true);
    }
    if let Ok(server) = &mut server
        && server.workdir.is_some()
    {
        server.ask(options.address.as_deref(), options.secret.as_deref(), Some(options.timeout));
    }
    let mut facts = DoctorFacts { host, server, traffic, fleet: Ok(None) };
    if rules::fleet().any(|rule| options.wants(rule)) {
        let asked = |arguments: Vec<String>| fleet::look(&arguments, &options.root, options.nats_monitor.as_deref());
        facts.fleet = facts.arguments().and_then(asked);
    }
    let is_here = options.root == Path::new("/");
    let is_early = is_early || (options.watch.is_none() && is_here && look_twice(&mut facts, &mut signals));
    Ok(Seen { facts, is_early, is_gone })
}

/// Watches the machine's counters for a moment, if rules have findings about them and most counts are older than the
/// server. Returns `true` if the user ended it.
fn look_twice(facts: &mut DoctorFacts, signals: &mut Signals) -> bool {
    if !facts.is_server_younger() {
        return false;
    }
    rules::all().filter(|rule| rule.area == Area::Host).for_each(|rule| drop((rule.look)(facts)));
    if !facts.host.has_told_span() {
        return false;
    }
    let paths = rules::of_machine(&facts.host);
    facts.host.begin(HostSpan::Moment, paths);
    let begin = Instant::now();
    while begin.elapsed() < MOMENT {
        std::thread::sleep(LOOK);
        if signals.take().is_ok_and(|signal| signal.is_some()) {
            return true;
        }
    }
    false
}

/// The server, from its directory or from saved files. The inner error says that there is none, when none was named.
fn server(options: &DoctorOptions) -> Result<Result<DoctorServer, String>, String> {
    if let Some(file) = &options.counters {
        let mut server =
            DoctorServer::saved(server::counters_of(&read(file)?).map_err(|error| format!("{file}: {error}"))?);
        if let Some(file) = &options.params {
            let params = server::params(&read(file)?);
            if params.is_empty() {
                return Err(format!("{file}: no output of param.show -j"));
            }
            server.told = Ok(CliFacts { params, ..CliFacts::default() });
        }
        return Ok(Ok(server));
    }
    let is_elsewhere = options.root != Path::new("/");
    if options.name.is_none() && options.address.is_none() && is_elsewhere {
        return Ok(Err("the server of another machine's files isn't known (-n, --counters)".into()));
    }
    let found = shm::reader::find(options.name.as_deref()).map_err(|unfound| unfound.to_string());
    let remark = found.as_ref().ok().and_then(|found| found.remark.as_ref());
    if let Some(remark) = remark {
        print::foreign_err(format_args!("lacquer doctor: {remark}\n"));
    }
    match found.and_then(|found| DoctorServer::look(found.workdir)) {
        Err(error) if options.name.is_some() || options.address.is_some() => Err(error),
        other => Ok(other),
    }
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{file}: {}", logq::source::strerror(&error)))
}

/// Waits until everything is read or the time is over. Returns `true` if the user ended it before.
fn wait(log: &mut DoctorLog, clock: &mut Clock, signals: &mut Signals) -> bool {
    loop {
        let is_read = log.is_read_within(LOOK);
        if signals.take().is_ok_and(|signal| signal.is_some()) {
            return true;
        }
        match clock.look(clock.begin.elapsed(), is_read) {
            Wait::On => clock.show(log),
            Wait::Over => return false,
            Wait::TooLong => {
                log.shared.lock().remark("the log grows faster than it can be read: only a part was read");
                return false;
            }
        }
    }
}

/// The progress of reading and its time limit, with a progress line.
struct Clock {
    begin: Instant,
    /// The time to watch the server; `None`: until everything is read.
    watch: Option<Duration>,
    /// Bytes of a file, if that can be known.
    bytes: Option<u64>,
    is_file: bool,
    is_shown: bool,
    show_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    On,
    Over,
    /// There is more to read, but reading has taken too long.
    TooLong,
}

impl Clock {
    fn new(options: &DoctorOptions, bytes: Option<u64>) -> Clock {
        let begin = Instant::now();
        let is_shown = !options.is_quiet && std::io::stderr().is_terminal();
        let (watch, is_file) = (options.watch, options.log.is_some());
        Clock { begin, watch, bytes, is_file, is_shown, show_at: begin + SHOW }
    }

    /// Decides if to wait on after the time `passed`.
    fn look(&self, passed: Duration, is_read: bool) -> Wait {
        match self.watch {
            Some(watch) if passed < watch => Wait::On,
            Some(_) => Wait::Over,
            None if is_read => Wait::Over,
            None if passed >= PATIENCE && !self.is_file => Wait::TooLong,
            None => Wait::On,
        }
    }

    fn show(&mut self, log: &DoctorLog) {
        if !self.is_shown || Instant::now() < self.show_at {
            return;
        }
        self.show_at = Instant::now() + SHOW;
        let (requests, passed) = (log.shared.lock().traffic.requests, self.begin.elapsed());
        let line = match self.watch {
            Some(watch) => progress(requests, passed, watch),
            None => accesslog::progress(requests, log.shared.read.load(Relaxed), self.bytes, passed),
        };
        print::err(format_args!("\r\x1b[K{line}"));
    }

    fn end(&self) {
        if self.is_shown {
            print::err("\r\x1b[K");
        }
    }
}

fn progress(requests: u64, passed: Duration, watch: Duration) -> String {
    let (seconds, watch) = (passed.as_secs_f64().max(1e-3), watch.as_secs_f64());
    let (rate, done) = (requests as f64 / seconds, (100.0 * seconds / watch).min(100.0));
    format!("{requests} requests  {rate:.0}/s  {done:.0} %  {:.0} s left", (watch - seconds).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_a_line() {
        let (passed, most) = (Duration::from_secs(2), Duration::from_secs(10));
        assert_eq!(progress(100, passed, most), "100 requests  50/s  20 %  8 s left");
    }

    #[test]
    fn a_file_is_read_to_its_end_and_a_running_log_for_a_time() {
        let clock = |watch, log: Option<&str>| {
            let options =
                DoctorOptions { watch, log: log.map(str::to_owned), is_quiet: true, ..DoctorOptions::default() };
            Clock::new(&options, None)
        };
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(100_000));
        assert_eq!([false, true].map(|read| clock(None, Some("f")).look(long, read)), [Wait::On, Wait::Over]);
        assert_eq!(clock(None, None).look(short, true), Wait::Over);
        assert_eq!([short, long].map(|passed| clock(None, None).look(passed, false)), [Wait::On, Wait::TooLong]);
        let watch = Some(2 * short);
        assert_eq!([short, long].map(|passed| clock(watch, None).look(passed, false)), [Wait::On, Wait::Over]);
    }
}
