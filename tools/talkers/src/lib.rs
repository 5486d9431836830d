// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer talkers`: who asks most, of a running server or in a log, in bounded memory.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod accounts;
mod acl;
mod options;
mod page;
mod report;
mod tally;

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use accesslog::{Gathered, GroupKeys, HittersMeasure};
use networks::Database;
use toolkit::print;

pub use options::TOOL;
use options::{TalkersFormat, TalkersOptions};
use page::TalkersPage;
use report::TalkersReport;
use tally::{CountedThing, TalkersTally};

/// Runs it: `args` are the words after `lacquer talkers`; the exit status. 1: nothing was counted; 2: nothing was read.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |options| run(&options))
}

fn run(options: &TalkersOptions) -> Result<i32, String> {
    if options.is_of_accounts {
        return accounts::show(options);
    }
    let is_screen =
        options.is_live() && is_terminal() && options.format == TalkersFormat::Text && options.every.is_none();
    let counting = CountedThing {
        keys: keys(options)?,
        by: options.by.clone(),
        measure: options.measure,
        // On the screen a key changes what "most" is by.
        shown: if is_screen { &HittersMeasure::ALL } else { &[] },
        bytes: options.memory_bytes,
        only: options.only.clone(),
    };
    let counting = Arc::new(counting);
    let first = counting.clone();
    let take = move |tally: &mut TalkersTally, entry: &accesslog::AccessEntry<'_>| tally.add(entry, &first);
    let gathering = options.gathering.clone();
    let mut has_told = false;
    let gathered = if is_screen {
        let mut page = TalkersPage::new(options)?;
        let gathered = gathering.run_watched(take, |gathered, moment| page.turn(gathered, moment))?;
        drop(page);
        gathered
    } else if let Some(every) = options.every {
        let mut next = every;
        gathering.run_watched(take, |gathered, moment| {
            if moment.elapsed >= next {
                next += every;
                has_told |= tell(options, &take_what_there_is(gathered)) == 0;
            }
            !moment.is_over
        })?
    } else {
        gathering.run(take)?
    };
    // The time after the last of several reports may have brought nothing, and then there is nothing to tell of it.
    let is_bare = gathered.entries == 0 && (gathered.remarks().is_empty() || options.format != TalkersFormat::Json);
    if has_told && is_bare {
        remark(&gathered.remarks());
        return Ok(0);
    }
    let status = tell(options, &gathered);
    Ok(if has_told { 0 } else { status })
}

fn tell(options: &TalkersOptions, gathered: &Gathered<TalkersTally>) -> i32 {
    let report = TalkersReport::new(options, gathered);
    match (options.format, options.every) {
        (TalkersFormat::Json, Some(_)) => print::out(format_args!("{}\n", report.json())),
        (TalkersFormat::Json, None) => print::out(format_args!("{:#}\n", report.json())),
        (TalkersFormat::Text, _) => print::foreign(report.text()),
        (TalkersFormat::Acl, _) => print::out(acl::text(&report, options.acl.as_deref().unwrap_or_default())),
    }
    if options.format != TalkersFormat::Json {
        remark(&report.remarks());
    }
    i32::from(report.is_empty())
}

fn remark(remarks: &[String]) {
    remarks.iter().for_each(|remark| TOOL.remark(remark));
}

/// Takes the counts up to now; the next count begins at nothing.
fn take_what_there_is(gathered: &Mutex<Gathered<TalkersTally>>) -> Gathered<TalkersTally> {
    std::mem::take(&mut *gathered.lock().unwrap_or_else(PoisonError::into_inner))
}

fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

fn keys(options: &TalkersOptions) -> Result<GroupKeys, String> {
    let mut database = Database::default();
    for file in &options.databases {
        database.add(file)?;
    }
    for file in &options.names {
        database.add_names(file)?;
    }
    let networks = (!options.databases.is_empty()).then(|| Arc::new(database));
    Ok(GroupKeys { networks, bits: options.bits, with_query: options.with_query })
}

/// The time in which what the screen shows has faded to a half, unless an option says another.
const FADE: Duration = Duration::from_secs(30);
