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
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;
use toolkit::tool::{AfterError, Tool};

use report::SurveyReport;

const INTRODUCTION: &str = "\
Usage: lacquer store [options] FILE

Shows the content of a store on disk: segments, and objects by size, remaining lifetime, age and hits. Age and hits come
from the objects' records, of which 10000 are sampled unless --all is given. Writes nothing.

";

const HELP: &[HelpPart<StoreOptions>] = &[(
    INTRODUCTION,
    &[
        opt!("--all": "Read all records" => |o, _| o.is_all = true),
        opt!("--verify": "Read and verify all records and bodies" => |o, _| o.is_verify = true),
        opt!("--read-only": "Read the store even while a server uses it; the result may be inconsistent" =>
            |o, _| o .is_read_only = true),
        opt!("--format <format>": "text or json (default: text)" =>
            |o, args| o.is_json = args.one_of(&[("text", false), ("json", true)])?),
        Opt::HELP,
    ],
)];

pub const TOOL: Tool<StoreOptions> =
    Tool { column: 20, word: StoreOptions::file, after_error: AfterError::Usage, ..Tool::new("lacquer store", HELP) };

/// Records that are read for ages and hits.
const SAMPLE: usize = 10_000;
/// Objects looked at between two looks at the clock.
const STEP: usize = 256;
/// Time between two moves of the progress bar.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Default, PartialEq)]
pub struct StoreOptions {
    file: String,
    is_all: bool,
    is_verify: bool,
    is_read_only: bool,
    is_json: bool,
}

/// Runs it: the exit status. 1: it isn't whole, or no store; 2: nothing was looked at.
pub fn main(words: &[String]) -> i32 {
    TOOL.main(words, StoreOptions::read, |options| match look(&options) {
        Ok(report) => {
            print::out(if options.is_json { report.json() } else { report.text(&options.file) });
            Ok(i32::from(!report.is_whole()))
        }
        Err(reason) => {
            print::err(format_args!("lacquer store: {} {reason}\n", options.file));
            Ok(1)
        }
    })
}

impl StoreOptions {
    fn file(&mut self, word: &str) -> Result<(), String> {
        if !self.file.is_empty() {
            return Err(format!("one file at a time: what is {word}?"));
        }
        word.clone_into(&mut self.file);
        Ok(())
    }

    /// `None`: help was asked for.
    fn read(words: &[String]) -> Result<Option<StoreOptions>, String> {
        let options = TOOL.read(StoreOptions::default(), words)?;
        match &options {
            Some(options) if options.file.is_empty() => Err("which file?".to_owned()),
            _ => Ok(options),
        }
    }
}

/// Looks at the store; an error's text goes on after its path.
fn look(options: &StoreOptions) -> Result<SurveyReport, String> {
    let access = if options.is_read_only { FileAccess::Read } else { FileAccess::ExclusiveRead };
    let device_options = DeviceOptions { access, ..DeviceOptions::default() };
    let device = FileDevice::open(Path::new(&options.file), &device_options).map_err(|error| match error {
        sys::blockfile::BlockFileError::Locked(_) => format!("{error}: --read-only looks at it all the same"),
        error => error.to_string(),
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
    let survey =
        Survey::open(Arc::new(device), now).map_err(|error| format!("isn't a store that can be read: {error}"))?;
    let mut survey = survey.ok_or("is empty: no store was made in it yet")?;
    let mut report = SurveyReport::new(survey.shape(), now, options.is_verify);
    let used = survey.shape().used as usize;
    let most = if options.is_all || options.is_verify { usize::MAX } else { SAMPLE.div_ceil(used.max(1)) };
    let mut progress = Progress::new(used);
    while let Some(found) = survey.next_segment() {
        report.segment(&found);
        let chosen = spread(&found.entries, most);
        for (step, some) in chosen.chunks(STEP).enumerate() {
            progress.show((step * STEP) as f64 / chosen.len() as f64, &report);
            survey.look(some, options.is_verify, |entry, looked| report.looked(entry, &looked));
        }
        // What is removed while a server goes on is no damage of the store.
        report.is_changing |= options.is_read_only && found.table == SurveyTable::Unjudged;
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
