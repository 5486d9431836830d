// SPDX-License-Identifier: BSD-2-Clause
//! The frame of a tool that follows the log: common options, attaching, the loop, signals, the background.
//!
//! HUP reopens files (or ends), INT and TERM end, USR1 gives out what is incomplete.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shm::reader::find::{Unfound, find};
use shm::reader::log::{LogCursor, LogError, RingStep, StartAt};
use shm::reader::{CounterReader, WorkdirStatus};
use shm::vsl::LogFormat;
use sys::fd::Interest;
use sys::pidfile::{PidFile, PidFileError};
use sys::signal::{self, Signals};
use toolkit::print;

use crate::group::{BeginReason, Grouper, Grouping, Taken, Txn, TxnFilter, TxnType};
use crate::query::Query;
use crate::record::records;
use crate::select::Select;
use crate::source::{LogSource, RecordFile, strerror};

/// Time that an idle tool sleeps until it looks again.
const IDLE: Duration = Duration::from_millis(10);
/// Time between two tries to find a log.
const RETRY: Duration = Duration::from_millis(100);
/// Time to wait for a server of which there is no sign: a shell may be about to start it.
const GRACE: Duration = Duration::from_millis(250);
/// Time between two looks for a manager.
const ATTACH: Duration = Duration::from_millis(250);
/// Records read between two looks for signals.
const BURST: u32 = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    On,
    Stop,
}

pub trait ToolSink {
    /// Takes a group of transactions.
    ///
    /// # Errors
    /// The output can't be written: the tool ends.
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow>;

    /// Says in which format the log that is read from now on was written.
    ///
    /// # Errors
    /// The same as for [`ToolSink::group`].
    fn follows(&mut self, _format: LogFormat) -> io::Result<()> {
        Ok(())
    }

    /// Says that there is nothing more for the moment, or that much was read since the last time.
    ///
    /// # Errors
    /// The same as for [`ToolSink::group`].
    fn idle(&mut self) -> io::Result<Flow> {
        Ok(Flow::On)
    }

    /// SIGHUP.
    ///
    /// # Errors
    /// What couldn't be opened again.
    fn hup(&mut self) -> Result<Flow, ToolFailure> {
        Ok(Flow::Stop)
    }
}

/// The reason why a tool ends: its message, and its exit status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolFailure {
    pub status: i32,
    pub text: String,
}

impl ToolFailure {
    /// A failure with status 1.
    pub fn new(text: impl Into<String>) -> ToolFailure {
        ToolFailure { status: 1, text: text.into() }
    }
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The workdir to find, and the time to wait for it.
#[derive(Clone, Debug)]
pub struct Attach {
    pub name: Option<String>,
    /// -t: seconds, None: for ever.
    pub timeout: Option<Duration>,
    /// True if the tool waits all that time for a server of which there is no sign yet.
    is_patient: bool,
}

impl Default for Attach {
    fn default() -> Attach {
        Attach { name: None, timeout: Some(Duration::from_secs(5)), is_patient: false }
    }
}

impl Attach {
    /// The server of this name (-n).
    pub fn to(name: Option<String>) -> Attach {
        Attach { name, ..Attach::default() }
    }

    /// Takes -t.
    ///
    /// # Errors
    /// No number, and not `off`.
    pub fn timeout(&mut self, value: &str) -> Result<(), String> {
        self.timeout = match value {
            "off" => None,
            _ => {
                let seconds = value.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
                let seconds = seconds.ok_or_else(|| format!("-t: Invalid argument: {value}"))?;
                // No wait is longer than a year.
                Some(Duration::from_secs_f64(seconds.min(3.2e7)))
            }
        };
        self.is_patient = true;
        Ok(())
    }

    /// Does what [`Attach::wait`] does, for tools that signals end at once.
    ///
    /// # Errors
    /// None came, or it isn't clear which one is meant.
    pub fn wait_asleep(&self) -> Result<PathBuf, String> {
        self.wait(|time| {
            std::thread::sleep(time);
            false
        })
    }

    /// Finds the server, and waits for one: for the whole timeout if -t was given or a process is there that will be it, otherwise just
    /// long enough for a shell to start one. `is_over` is asked between the looks.
    ///
    /// # Errors
    /// None came, it isn't clear which one is meant, or it was interrupted.
    pub fn wait(&self, mut is_over: impl FnMut(Duration) -> bool) -> Result<PathBuf, String> {
        let begun = Instant::now();
        let mut looks = 0u32;
        loop {
            let found = find(self.name.as_deref());
            let patience = match &found {
                Err(Unfound::NotRunning { is_starting, .. }) if self.is_patient || *is_starting => self.timeout,
                Err(Unfound::NotRunning { .. }) => self.timeout.map(|timeout| timeout.min(GRACE)),
                Ok(_) | Err(Unfound::Several(_) | Unfound::Denied(_)) => Some(Duration::ZERO),
            };
            let is_over_now = patience.is_some_and(|patience| begun.elapsed() >= patience);
            if is_over_now && looks > 4 {
                print::err("\n");
            }
            match found {
                Ok(found) => {
                    if let Some(remark) = found.remark {
                        print::foreign_err(format_args!("{remark}\n"));
                    }
                    return Ok(found.workdir);
                }
                Err(error) if is_over_now => return Err(error.to_string()),
                Err(_) => {}
            }
            looks += 1;
            if looks.is_multiple_of(4) {
                print::err(".");
            }
            if is_over(ATTACH) {
                return Err("Attach interrupted".into());
            }
        }
    }
}

#[derive(Debug)]
pub struct LogTool {
    pub attach: Attach,
    pub grouping: Grouping,
    pub daemon: bool,
    pub past: bool,
    /// Go on after what -d reads (varnishtop).
    pub past_and_on: bool,
    pub file: Option<String>,
    pub select: Select,
    count: Option<u64>,
    pid_file: Option<String>,
    query: Option<String>,
}

impl Default for LogTool {
    fn default() -> LogTool {
        LogTool {
            attach: Attach::default(),
            grouping: Grouping::Vxid,
            daemon: false,
            past: false,
            past_and_on: false,
            file: None,
            select: Select::default(),
            count: None,
            pid_file: None,
            query: None,
        }
    }
}

impl LogTool {
    pub fn option(&mut self, letter: char, value: &str) -> Result<bool, String> {
        match letter {
            'd' => self.past = true,
            'D' => self.daemon = true,
            'g' => self.grouping = Grouping::from_name(value)?,
            'k' => {
                let count = value.trim_start().parse::<u64>().ok().filter(|n| *n > 0 && *n <= i32::MAX as u64);
                self.count = Some(count.ok_or_else(|| format!("-k: Invalid number '{value}'"))?);
            }
            'n' => self.attach.name = Some(value.to_owned()),
            'P' => self.pid_file = Some(value.to_owned()),
            'Q' => {
                let text = std::fs::read(value).map_err(|e| format!("-Q {value}: {}", strerror(&e)))?;
                self.add_query(&String::from_utf8_lossy(&text));
            }
            'q' => self.add_query(value),
            'r' => self.file = Some(value.to_owned()),
            't' => self.attach.timeout(value)?,
            _ => return self.select.option(letter, value),
        }
        Ok(true)
    }

    fn add_query(&mut self, text: &str) {
        match &mut self.query {
            Some(query) => {
                query.push('\n');
                query.push_str(text);
            }
            None => self.query = Some(text.to_owned()),
        }
    }

    /// -D needs a file to write to.
    ///
    /// # Errors
    /// There is none.
    pub fn check_daemon(&self, file: Option<&str>) -> Result<(), ToolFailure> {
        match file {
            None if self.daemon => Err(ToolFailure::new("Missing -w option")),
            Some("-") if self.daemon => Err(ToolFailure::new("Daemon cannot write to stdout")),
            _ => Ok(()),
        }
    }

    /// Follows the log until its end, the -k-th group or a signal.
    ///
    /// # Errors
    /// What the options ask for can't be had; or the output can't be written.
    pub fn run(self, sink: &mut dyn ToolSink) -> Result<(), ToolFailure> {
        if self.attach.name.is_some() && self.file.is_some() {
            return Err(ToolFailure::new("Only one of -n and -r options may be used"));
        }
        if self.file.as_deref() == Some("-") && self.daemon {
            return Err(ToolFailure::new("Daemon cannot read from stdin"));
        }
        let query = match &self.query {
            Some(text) => Some(
                Query::new(text, self.select.caseless)
                    .map_err(|e| ToolFailure::new(format!("Query expression error:\n{e}")))?,
            ),
            None => None,
        };
        let file = self.file.as_deref().map(RecordFile::open).transpose().map_err(ToolFailure::new)?;
        // Readers that go away end a tool without a word, as everywhere.
        let _ = signal::default(signal::SIGPIPE);
        let numbers = [signal::SIGHUP, signal::SIGINT, signal::SIGTERM, signal::SIGUSR1];
        let mut signals = Signals::new(&numbers).map_err(|e| ToolFailure::new(strerror(&e)))?;
        let mut workdir = PathBuf::new();
        if file.is_none() {
            let mut attach = self.attach.clone();
            if self.daemon {
                // Nobody is there to choose a server or to try again.
                attach.is_patient = true;
                attach.name.get_or_insert_with(|| CounterReader::workdir_of(None).to_string_lossy().into_owned());
            }
            let attached = attach.wait(|time| sleep(&mut signals, time).is_some_and(ends));
            workdir = attached.map_err(|e| ToolFailure::new(format!("VSM: {e}")))?;
        }
        let pid_file = self.background()?;
        let rate = self.select.rate.map(|(limit, period)| Rate { limit, period, credits: 1.0, last: Instant::now() });
        let mut run = Run { tool: &self, workdir, query, signals, rate, left: self.count, overruns: 0, sink };
        let result = run.run(file.map(LogSource::File));
        run.tell_gaps();
        if let Some(pid_file) = pid_file {
            pid_file.remove();
        }
        result
    }

    /// Carries out -P and -D.
    fn background(&self) -> Result<Option<PidFile>, ToolFailure> {
        let mut pid_file = None;
        if let Some(path) = &self.pid_file {
            pid_file = Some(PidFile::open(Path::new(path), 0o644, 0).map_err(|error| {
                let text = match error {
                    PidFileError::Running(_) => "File exists".to_owned(),
                    PidFileError::Io(error) => strerror(&error),
                };
                ToolFailure::new(format!("{path}: {text}"))
            })?);
        }
        if self.daemon {
            let failed = |e: io::Error| ToolFailure::new(format!("Daemon mode: {}", strerror(&e)));
            sys::daemon::detach().map_err(failed)?.report(0).map_err(failed)?;
        }
        if let Some(pid_file) = &mut pid_file {
            pid_file.write().map_err(|e| ToolFailure::new(strerror(&e)))?;
        }
        Ok(pid_file)
    }
}

fn sleep(signals: &mut Signals, time: Duration) -> Option<i32> {
    let _ = sys::fd::wait(&*signals, Interest::Read, Some(time));
    signals.take().ok().flatten()
}

fn ends(number: i32) -> bool {
    number == signal::SIGINT || number == signal::SIGTERM
}

/// -R: credits come with time and are paid with.
struct Rate {
    limit: f64,
    period: f64,
    credits: f64,
    last: Instant,
}

impl Rate {
    fn pay(&mut self) -> bool {
        let now = Instant::now();
        let passed = now.duration_since(self.last).as_secs_f64();
        self.credits = (self.credits + passed / self.period * self.limit).min(self.limit);
        self.last = now;
        let can = self.credits >= 1.0;
        if can {
            self.credits -= 1.0;
        }
        can
    }
}

struct Run<'a> {
    tool: &'a LogTool,
    workdir: PathBuf,
    query: Option<Query>,
    signals: Signals,
    rate: Option<Rate>,
    /// Groups still to be given out (-k).
    left: Option<u64>,
    overruns: u64,
    sink: &'a mut dyn ToolSink,
}

enum EndReason {
    Stop,
    Abandoned,
    Overrun,
}

impl Run<'_> {
    fn run(&mut self, file: Option<LogSource>) -> Result<(), ToolFailure> {
        if let Some(mut file) = file {
            self.read(&mut file)?;
            return self.flush_out();
        }
        let mut had = false;
        loop {
            let Some(ring) = self.open(had)? else { return self.flush_out() };
            had = true;
            match self.read(&mut LogSource::Ring(Box::new(ring)))? {
                EndReason::Stop => return self.flush_out(),
                EndReason::Abandoned => print::err("Log abandoned (vsl)\n"),
                EndReason::Overrun => {
                    self.overruns += 1;
                    print::err("Log overrun\n");
                }
            }
        }
    }

    /// Whoever kept the log is to know that it has gaps.
    fn tell_gaps(&self) {
        if self.overruns > 0 {
            print::err(format_args!("Log overruns: {} (what was logged between is missing)\n", self.overruns));
        }
    }

    fn flush_out(&mut self) -> Result<(), ToolFailure> {
        self.sink.idle().map(|_| ()).map_err(|e| written(&e))
    }

    /// Waits for a log; None when a signal ends that.
    fn open(&mut self, again: bool) -> Result<Option<LogCursor>, ToolFailure> {
        let from = match (self.tool.past, self.tool.past_and_on) {
            (false, _) => StartAt::Now,
            (true, false) => StartAt::Past,
            (true, true) => StartAt::PastAndOn,
        };
        let mut complained: Option<Instant> = None;
        let mut first = true;
        loop {
            // At first there is nothing to wait for.
            let time = if first && !again { Duration::ZERO } else { RETRY };
            first = false;
            match sleep(&mut self.signals, time) {
                Some(number) if ends(number) => return Ok(None),
                Some(signal::SIGHUP) if self.sink.hup()? == Flow::Stop => return Ok(None),
                _ => {}
            }
            match LogCursor::open(&self.workdir, from) {
                Ok(ring) => {
                    if again {
                        print::err("Log reacquired\n");
                    }
                    return Ok(Some(ring));
                }
                Err(error) => {
                    if complained.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
                        let lead = if complained.is_none() { self.stopped_worker() } else { "" };
                        print::err(format_args!("Failed to acquire log: {}\n{lead}", describe(&error)));
                        complained = Some(Instant::now());
                    }
                    if self.sink.idle().map_err(|e| written(&e))? == Flow::Stop {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// A line that says what to type, if the server has no worker, whose log this is.
    fn stopped_worker(&self) -> &'static str {
        match shm::reader::status(&self.workdir) {
            WorkdirStatus { manager: Some(_), worker: None } => {
                "The server's worker isn't running. To start it, type: varnishadm start\n"
            }
            _ => "",
        }
    }

    fn read(&mut self, source: &mut LogSource) -> Result<EndReason, ToolFailure> {
        let select = &self.tool.select;
        let wanted = TxnFilter {
            backend: select.backend,
            client: select.client,
            esi: select.esi,
            limit: select.limit,
            timeout: Duration::from_secs_f64(select.timeout.min(3.2e7)),
        };
        let mut grouper = Grouper::new(self.tool.grouping, wanted);
        self.sink.follows(source.format()).map_err(|e| written(&e))?;
        let mut burst = 0;
        loop {
            let ended = match source.step() {
                RingStep::Records(bytes) => {
                    if self.take(&mut grouper, bytes)? == Flow::Stop {
                        return Ok(EndReason::Stop);
                    }
                    if source.has_notes() {
                        source.notes().into_iter().for_each(|note| print::err(format_args!("{note}\n")));
                    }
                    burst += 1;
                    if burst < BURST {
                        continue;
                    }
                    None
                }
                RingStep::End => None,
                RingStep::Eof => return Ok(EndReason::Stop),
                RingStep::Abandoned => Some(EndReason::Abandoned),
                RingStep::Overrun => Some(EndReason::Overrun),
            };
            if let Some(ended) = ended {
                grouper.flush(Instant::now());
                return Ok(if self.give(&mut grouper)? == Flow::Stop { EndReason::Stop } else { ended });
            }
            let time = if burst >= BURST { Duration::ZERO } else { IDLE };
            burst = 0;
            if self.idle(time, &mut grouper)? == Flow::Stop {
                return Ok(EndReason::Stop);
            }
        }
    }

    /// Runs between records: the sink's turn, then signals.
    fn idle(&mut self, time: Duration, grouper: &mut Grouper) -> Result<Flow, ToolFailure> {
        if self.sink.idle().map_err(|e| written(&e))? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        match sleep(&mut self.signals, time) {
            Some(signal::SIGHUP) => self.sink.hup(),
            Some(signal::SIGUSR1) => {
                grouper.flush(Instant::now());
                self.give(grouper)
            }
            Some(_) => Ok(Flow::Stop),
            None => Ok(Flow::On),
        }
    }

    fn take(&mut self, grouper: &mut Grouper, bytes: &[u8]) -> Result<Flow, ToolFailure> {
        if self.tool.grouping != Grouping::Raw {
            grouper.feed(bytes, Instant::now());
            return self.give(grouper);
        }
        for rec in records(bytes) {
            let (kind, reason) = (TxnType::Raw, BeginReason::Unknown);
            let txn = Txn { vxid: rec.vxid, level: 0, parent: 0, kind, reason, records: rec.bytes };
            if self.show(&[txn])? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn give(&mut self, grouper: &mut Grouper) -> Result<Flow, ToolFailure> {
        while let Some(shown) = grouper.take(|group| self.show(group)) {
            if let Taken::Shown(flow) = shown
                && flow? == Flow::Stop
            {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn show(&mut self, group: &[Txn<'_>]) -> Result<Flow, ToolFailure> {
        if self.query.as_ref().is_some_and(|query| !query.matches(group)) {
            return Ok(Flow::On);
        }
        if self.rate.as_mut().is_some_and(|rate| !rate.pay()) {
            return Ok(Flow::On);
        }
        if self.sink.group(&self.tool.select, group).map_err(|e| written(&e))? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }
}

fn written(error: &io::Error) -> ToolFailure {
    ToolFailure::new(format!("Cannot write: {}", strerror(error)))
}

fn describe(error: &LogError) -> String {
    match error {
        LogError::Io(error) => format!("VSM_Map(): {}", strerror(error)),
        other => other.to_string(),
    }
}
