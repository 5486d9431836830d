// SPDX-License-Identifier: BSD-2-Clause
//! Reading sources for a tool that adds up what is in them: on a thread of its own, with a line of progress on a terminal,
//! until they end, a time has passed or somebody types Ctrl-C. What there is then is the result.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sys::signal::{SIGINT, SIGTERM, Signals};
use toolkit::print;

use crate::entry::{AccessEntry, Skip};
use crate::sources::{AccessSources, SourceItem};

/// Time between two looks at signals and the clock.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two changes of the line of progress.
const SHOW: Duration = Duration::from_millis(500);
/// A reader that doesn't wait for its source ends within that time.
const PATIENCE: Duration = Duration::from_millis(200);
const MOST_NOTES: usize = 20;

#[derive(Clone, Debug, Default)]
pub struct Gathering {
    pub sources: AccessSources,
    pub duration: Option<Duration>,
    /// No progress, even on a terminal.
    pub is_quiet: bool,
}

#[derive(Debug, Default)]
pub struct Gathered<T> {
    /// The tool's own result, made of the entries.
    pub result: T,
    pub entries: u64,
    /// Lines and records that gave none, in the order of [`Skip::ALL`].
    pub skipped: [u64; Skip::ALL.len()],
    pub notes: Vec<String>,
    pub is_interrupted: bool,
}

/// The progress of a run, for a display.
#[derive(Clone, Copy, Debug)]
pub struct GatherMoment {
    pub elapsed: Duration,
    /// Bytes read, as they lie on the disk.
    pub read: u64,
    /// Number of bytes in all, where that can be known.
    pub bytes: Option<u64>,
    pub is_over: bool,
}

struct ProgressLine {
    is_shown: bool,
    next: Duration,
}

impl ProgressLine {
    fn show(&mut self, entries: impl FnOnce() -> u64, moment: GatherMoment) {
        if self.is_shown && !moment.is_over && moment.elapsed >= self.next {
            self.next = moment.elapsed + SHOW;
            let line = progress(entries(), moment.read, moment.bytes, moment.elapsed);
            print::err(format_args!("\r\x1b[K{line}"));
        }
    }

    fn end(&self) {
        if self.is_shown {
            print::err("\r\x1b[K");
        }
    }
}

impl Gathering {
    /// Reads; `take` makes a result of one entry after the other.
    ///
    /// Must be called before the process has started a thread: it blocks signals for all threads to come.
    ///
    /// # Errors
    /// Signals or a thread can't be had.
    pub fn run<T: Default + Send + 'static>(
        self,
        take: impl FnMut(&mut T, &AccessEntry<'_>) + Send + 'static,
    ) -> Result<Gathered<T>, String> {
        let is_shown = !self.is_quiet && std::io::stderr().is_terminal();
        let mut line = ProgressLine { is_shown, next: SHOW };
        let gathered = self.run_watched(take, |gathered, moment| {
            line.show(|| gathered.lock().unwrap_or_else(PoisonError::into_inner).entries, moment);
            !moment.is_over
        });
        line.end();
        gathered
    }

    /// Does what `run` does, shown by `watch` in place of the line of progress: it is called again and again, also when all is read, until it says
    /// false.
    ///
    /// # Errors
    /// Signals or a thread can't be had.
    pub fn run_watched<T: Default + Send + 'static>(
        self,
        mut take: impl FnMut(&mut T, &AccessEntry<'_>) + Send + 'static,
        mut watch: impl FnMut(&Mutex<Gathered<T>>, GatherMoment) -> bool,
    ) -> Result<Gathered<T>, String> {
        let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
        let (begin, bytes) = (Instant::now(), self.sources.bytes());
        let (gathered, read) = (Arc::new(Mutex::new(Gathered::<T>::default())), Arc::new(AtomicU64::new(0)));
        let is_over = Arc::new(AtomicBool::new(false));
        let (ended, ends) = mpsc::channel::<()>();
        let (to, counted, over) = (gathered.clone(), read.clone(), is_over.clone());
        let sources = self.sources;
        let reader = std::thread::Builder::new().name("accesslog".into()).spawn(move || {
            sources.read(&counted, &mut |item| {
                to.lock().unwrap_or_else(PoisonError::into_inner).add(item, &mut take);
                !over.load(Relaxed)
            });
            drop(ended);
        });
        reader.map_err(|error| error.to_string())?;
        let mut is_read = false;
        let is_interrupted = loop {
            if is_read {
                std::thread::sleep(LOOK);
            } else {
                is_read = matches!(ends.recv_timeout(LOOK), Err(RecvTimeoutError::Disconnected));
            }
            if signals.take().is_ok_and(|signal| signal.is_some()) {
                break true;
            }
            if self.duration.is_some_and(|most| begin.elapsed() >= most) {
                break false;
            }
            let moment = GatherMoment { elapsed: begin.elapsed(), read: read.load(Relaxed), bytes, is_over: is_read };
            if !watch(&gathered, moment) {
                break false;
            }
        };
        is_over.store(true, Relaxed);
        // One that waits for its source is left to it.
        let _ = ends.recv_timeout(PATIENCE);
        let mut gathered = std::mem::take(&mut *gathered.lock().unwrap_or_else(PoisonError::into_inner));
        gathered.is_interrupted = is_interrupted;
        Ok(gathered)
    }
}

impl<T> Gathered<T> {
    fn add(&mut self, item: SourceItem<'_>, take: &mut impl FnMut(&mut T, &AccessEntry<'_>)) {
        match item {
            SourceItem::Entry(entry) => {
                self.entries += 1;
                take(&mut self.result, &entry);
            }
            SourceItem::Skipped(skip) => self.skipped[skip as usize] += 1,
            SourceItem::Idle => {}
            SourceItem::Note(note) => {
                if self.notes.len() < MOST_NOTES && !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }

    /// The remarks on things left out and things to know, a line each, for the end of a report or standard error.
    pub fn remarks(&self) -> Vec<String> {
        let skipped = Skip::ALL.iter().zip(self.skipped).filter(|(_, n)| *n > 0);
        let skipped = skipped.map(|(skip, n)| format!("{n} {} left out", skip.text()));
        let ended = self.is_interrupted.then(|| "ended early: what had been read until then".to_owned());
        skipped.chain(self.notes.iter().cloned()).chain(ended).collect()
    }
}

pub fn progress(entries: u64, read: u64, bytes: Option<u64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let mut line = format!("{entries} requests  {:.0}/s  {:.1} MB read", entries as f64 / seconds, read as f64 / 1e6);
    if let Some(bytes) = bytes.filter(|bytes| *bytes > 0 && read > 0) {
        let done = (read as f64 / bytes as f64).min(1.0);
        line.push_str(&format!("  {:.0} %  {:.0} s left", done * 100.0, seconds / done * (1.0 - done)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_a_line() {
        let at = Duration::from_secs(10);
        assert_eq!(
            progress(1000, 1_000_000, Some(4_000_000), at),
            "1000 requests  100/s  1.0 MB read  25 %  30 s left"
        );
        assert_eq!(progress(0, 0, None, at), "0 requests  0/s  0.0 MB read");
    }

    #[test]
    fn what_was_left_out_is_told() {
        let mut gathered = Gathered::<u32>::default();
        gathered.add(SourceItem::Skipped(Skip::Cut), &mut |_, _| {});
        gathered.add(SourceItem::Note("a: it was cut off".into()), &mut |_, _| {});
        gathered.add(SourceItem::Entry(AccessEntry::default()), &mut |sum, _| *sum += 1);
        assert_eq!((gathered.result, gathered.entries), (1, 1));
        assert_eq!(gathered.remarks(), ["1 lines cut off left out", "a: it was cut off"]);
    }
}
