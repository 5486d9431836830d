// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer store`: what is in a file or on a device that objects are kept in, and whether it is whole. It only reads.

mod histogram;
mod report;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use disk::survey::{Survey, SurveyTable, SurveyedEntry};
use disk::{DeviceOptions, FileDevice};
use sys::blockfile::FileAccess;
use toolkit::args::{Arg, Args as Words};
use toolkit::print;

use report::SurveyReport;

const USAGE: &str = "\
Usage: lacquer store [options] FILE

Shows the content of a store on disk: segments, and objects by size, remaining lifetime, age and hits. Age and hits come
from the objects' records, of which 10000 are sampled unless --all is given. Writes nothing.

 --all              Read all records
 --verify           Read and verify all records and bodies
 --read-only        Read the store even while a server uses it; the result may be inconsistent
 --format <format>  text or json (default: text)
 -h                 Show this help
";

/// Records that are read for ages and hits.
const SAMPLE: usize = 10_000;
/// Objects looked at between two looks at the clock.
const STEP: usize = 256;
/// Time between two moves of the progress bar.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Default, PartialEq)]
struct Args {
    file: String,
    is_all: bool,
    is_verify: bool,
    is_read_only: bool,
    is_json: bool,
}

/// Runs it: the exit status. 1: it isn't whole, or no store; 2: nothing was looked at.
pub fn main(args: &[String]) -> i32 {
    let args = match Args::read(args) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print::out(USAGE);
            return 0;
        }
        Err(reason) => {
            print::err(format_args!("lacquer store: {reason}\n{USAGE}"));
            return 2;
        }
    };
    match look(&args) {
        Ok(report) => {
            print::out(if args.is_json { report.json() } else { report.text(&args.file) });
            i32::from(!report.is_whole())
        }
        Err(reason) => {
            print::err(format_args!("lacquer store: {} {reason}\n", args.file));
            1
        }
    }
}

impl Args {
    /// `None`: help was asked for.
    fn read(words: &[String]) -> Result<Option<Args>, String> {
        let mut args = Args::default();
        let mut words = Words::new(words);
        while let Some(word) = words.next()? {
            match word {
                Arg::Help => return Ok(None),
                Arg::Option("--all") => args.is_all = true,
                Arg::Option("--verify") => args.is_verify = true,
                Arg::Option("--read-only") => args.is_read_only = true,
                Arg::Option("--format") => args.is_json = words.one_of(&[("text", false), ("json", true)])?,
                Arg::Option(_) => return Err(words.unknown(USAGE)),
                Arg::Word(file) if args.file.is_empty() => args.file = file.to_owned(),
                Arg::Word(more) => return Err(format!("one file at a time: what is {more}?")),
            }
        }
        if args.file.is_empty() { Err("which file?".to_owned()) } else { Ok(Some(args)) }
    }
}

/// Looks at the store; an error's text goes on after its path.
fn look(args: &Args) -> Result<SurveyReport, String> {
    let access = if args.is_read_only { FileAccess::Read } else { FileAccess::ExclusiveRead };
    let options = DeviceOptions { access, ..DeviceOptions::default() };
    let device = FileDevice::open(Path::new(&args.file), &options).map_err(|error| match error {
        sys::blockfile::BlockFileError::Locked(_) => format!("{error}: --read-only looks at it all the same"),
        error => error.to_string(),
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
    let survey =
        Survey::open(Arc::new(device), now).map_err(|error| format!("isn't a store that can be read: {error}"))?;
    let mut survey = survey.ok_or("is empty: no store was made in it yet")?;
    let mut report = SurveyReport::new(survey.shape(), now, args.is_verify);
    let used = survey.shape().used as usize;
    let most = if args.is_all || args.is_verify { usize::MAX } else { SAMPLE.div_ceil(used.max(1)) };
    let mut progress = Progress::new(used);
    while let Some(found) = survey.next_segment() {
        report.segment(&found);
        let chosen = spread(&found.entries, most);
        for (step, some) in chosen.chunks(STEP).enumerate() {
            progress.show((step * STEP) as f64 / chosen.len() as f64, &report);
            survey.look(some, args.is_verify, |entry, looked| report.looked(entry, &looked));
        }
        // What is removed while a server goes on is no damage of the store.
        report.is_changing |= args.is_read_only && found.table == SurveyTable::Unjudged;
        progress.segments += 1;
    }
    progress.end();
    Ok(report)
}

/// At most so many of them, evenly spread.
fn spread(entries: &[SurveyedEntry], most: usize) -> Vec<SurveyedEntry> {
    let step = entries.len().div_ceil(most.min(entries.len()).max(1)).max(1);
    entries.iter().copied().step_by(step).collect()
}

struct Progress {
    segments: usize,
    of: usize,
    is_shown: bool,
    next: Instant,
}

impl Progress {
    fn new(of: usize) -> Progress {
        Progress { segments: 0, of, is_shown: std::io::stderr().is_terminal(), next: Instant::now() + TICK }
    }

    /// `part` of the segment is done.
    fn show(&mut self, part: f64, report: &SurveyReport) {
        let now = Instant::now();
        if self.is_shown && now >= self.next {
            self.next = now + TICK;
            print::err(format_args!("\r{}", bar((self.segments as f64 + part) / self.of as f64, &report.line())));
        }
    }

    fn end(&self) {
        if self.is_shown {
            print::err("\r\x1b[K");
        }
    }
}

fn bar(part: f64, text: &str) -> String {
    const WIDTH: usize = 30;
    let done = ((part.clamp(0.0, 1.0) * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}] {:>3.0} %  {text}\x1b[K", "#".repeat(done), ".".repeat(WIDTH - done), part.clamp(0.0, 1.0) * 100.0)
}

#[cfg(test)]
mod tests;
