// SPDX-License-Identifier: BSD-2-Clause
//! Reads the log on a thread of its own: a pipe may have nothing for a long time, while whoever waits looks for Ctrl-C. What was
//! read until then counts.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logq::Grouping;
use logq::group::{Grouper, TxnFilter};
use logq::source::{LogSource, RecordFile};
use shm::reader::log::{LogCursor, RingStep, StartAt};
use shm::vsl::format::FILE_HEAD_BYTES;

use crate::options::DoctorOptions;
use crate::traffic::LogTraffic;

const IDLE: Duration = Duration::from_millis(10);
const RETRY: Duration = Duration::from_millis(200);
/// A reader that doesn't wait for its source ends within that time.
const PATIENCE: Duration = Duration::from_millis(500);
const MOST_REMARKS: usize = 20;

pub struct DoctorLog {
    pub shared: Arc<SharedLog>,
    pub bytes: Option<u64>,
    /// Disconnected when all is read.
    ends: Receiver<()>,
    is_read: bool,
}

/// State shared by the reader and the thread that waits for it.
pub struct SharedLog {
    reading: Mutex<LogReading>,
    pub read: AtomicU64,
    /// Set when nobody waits for the result any more.
    is_over: AtomicBool,
}

pub struct LogReading {
    grouper: Grouper,
    pub traffic: LogTraffic,
    /// The error is the reason why there is no log.
    is_there: Result<(), String>,
    failed: Option<String>,
}

enum From {
    File(String),
    Worker(PathBuf, Option<Box<LogCursor>>),
    None,
}

impl DoctorLog {
    /// Begins to read. Signals that the reader isn't to have are blocked before.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(options: &DoctorOptions, workdir: Option<&Path>) -> Result<DoctorLog, String> {
        let mut reading =
            LogReading { grouper: grouper(), traffic: LogTraffic::default(), is_there: Ok(()), failed: None };
        let is_watch = options.watch.is_some();
        let start = if is_watch { StartAt::Now } else { StartAt::Past };
        let from = match (&options.log, workdir) {
            (Some(file), _) => From::File(file.clone()),
            // Opened here: what comes from now on is watched.
            (None, Some(workdir)) => match LogCursor::open(workdir, start) {
                Ok(ring) => From::Worker(workdir.to_owned(), Some(Box::new(ring))),
                Err(error) => {
                    reading.is_there = Err(format!("the log can't be read: {error}"));
                    if is_watch { From::Worker(workdir.to_owned(), None) } else { From::None }
                }
            },
            (None, None) => {
                reading.is_there = Err("there is no log (-n, -r)".to_owned());
                From::None
            }
        };
        let bytes = options.log.as_ref().and_then(|file| std::fs::metadata(file).ok()).map(|file| file.len());
        let shared = Arc::new(SharedLog {
            reading: Mutex::new(reading),
            read: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let (ended, ends) = mpsc::channel::<()>();
        let to = shared.clone();
        let reader = std::thread::Builder::new().name("log".into()).spawn(move || {
            to.read(from, is_watch);
            drop(ended);
        });
        reader.map_err(|error| error.to_string())?;
        Ok(DoctorLog { shared, bytes, ends, is_read: false })
    }

    /// True if the whole log is read. Waits up to `time` for that.
    pub fn is_read_within(&mut self, time: Duration) -> bool {
        if self.is_read {
            std::thread::sleep(time);
        } else {
            self.is_read = matches!(self.ends.recv_timeout(time), Err(RecvTimeoutError::Disconnected));
        }
        self.is_read
    }

    /// Ends reading and returns the traffic; the inner error says why there is no log.
    ///
    /// # Errors
    /// The named file can't be read.
    pub fn end(mut self) -> Result<Result<LogTraffic, String>, String> {
        self.shared.is_over.store(true, Relaxed);
        // One that waits for its source is left to it.
        if !self.is_read {
            self.is_read_within(PATIENCE);
        }
        let mut reading = self.shared.lock();
        if let Some(why) = reading.failed.take() {
            return Err(why);
        }
        reading.grouper.flush(Instant::now());
        reading.take();
        let traffic = std::mem::take(&mut reading.traffic);
        Ok(reading.is_there.clone().map(|()| traffic))
    }
}

fn grouper() -> Grouper {
    let wanted = TxnFilter { backend: true, client: true, esi: true, limit: 10_000, timeout: Duration::from_secs(120) };
    Grouper::new(Grouping::Vxid, wanted)
}

impl LogReading {
    fn take(&mut self) {
        let (grouper, traffic) = (&mut self.grouper, &mut self.traffic);
        while grouper.take(|group| group.iter().for_each(|txn| traffic.add(txn))).is_some() {}
    }

    pub fn remark(&mut self, what: &str) {
        let remarks = &mut self.traffic.remarks;
        if remarks.len() < MOST_REMARKS && !remarks.iter().any(|remark| remark == what) {
            remarks.push(what.to_owned());
        }
    }
}

enum Ended {
    Over,
    /// The log was lost: how.
    Lost(&'static str),
}

impl SharedLog {
    pub fn lock(&self) -> MutexGuard<'_, LogReading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn read(&self, from: From, is_watch: bool) {
        match from {
            From::File(name) => self.read_file(&name),
            From::Worker(workdir, ring) if is_watch => self.follow(&workdir, ring),
            From::Worker(_, Some(ring)) => self.read_back(ring),
            From::Worker(..) | From::None => {}
        }
    }

    fn read_file(&self, name: &str) {
        let file = match RecordFile::open(name) {
            Ok(file) => file,
            Err(why) => {
                self.lock().failed = Some(why);
                return;
            }
        };
        self.read.store(FILE_HEAD_BYTES as u64, Relaxed);
        let mut source = LogSource::File(file);
        self.read_source(&mut source);
        if matches!(&source, LogSource::File(file) if file.is_cut()) {
            self.lock().remark("the log was cut: what came before that was used");
        }
    }

    fn read_back(&self, ring: Box<LogCursor>) {
        if let Ended::Lost(how) = self.read_source(&mut LogSource::Ring(ring)) {
            self.lock().remark(&lost(how));
        }
    }

    /// Follows a worker's log, and the next worker's when that one has gone.
    fn follow(&self, workdir: &Path, mut ring: Option<Box<LogCursor>>) {
        while !self.is_over() {
            let Some(open) = ring.take() else {
                std::thread::sleep(RETRY);
                ring = LogCursor::open(workdir, StartAt::Now).ok().map(Box::new);
                if ring.is_some() {
                    self.lock().is_there = Ok(());
                }
                continue;
            };
            if let Ended::Lost(how) = self.read_source(&mut LogSource::Ring(open)) {
                let mut reading = self.lock();
                reading.remark(&lost(how));
                // The next worker gives its transactions the same numbers, and what was begun here won't end.
                reading.grouper = grouper();
            }
        }
    }

    fn read_source(&self, source: &mut LogSource) -> Ended {
        while !self.is_over() {
            match source.step() {
                RingStep::Records(bytes) => {
                    self.read.fetch_add(bytes.len() as u64, Relaxed);
                    let mut reading = self.lock();
                    // A caller that no longer waits has taken the result.
                    if self.is_over() {
                        break;
                    }
                    reading.grouper.feed(bytes, Instant::now());
                    reading.take();
                    source.notes().iter().for_each(|note| reading.remark(&note.to_string()));
                }
                RingStep::Eof => break,
                RingStep::Abandoned => return Ended::Lost("ended by its worker"),
                RingStep::Overrun => return Ended::Lost("overrun"),
                RingStep::End => std::thread::sleep(IDLE),
            }
        }
        Ended::Over
    }
}

fn lost(how: &str) -> String {
    format!("the log was {how}: some requests are missing")
}
