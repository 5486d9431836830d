// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer asn`: which networks and countries the readers of a site come from, by bytes and by requests.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod addresses;
mod options;
mod report;
mod tally;

use std::sync::Arc;

use networks::Database;
use toolkit::print;

use addresses::ClientNetworks;
pub use options::TOOL;
use options::{AsnFormat, AsnOptions};
use report::AsnReport;
use tally::AsnTally;

/// Runs it: `args` are the words after `lacquer asn`; the exit status. 1: nothing was counted; 2: nothing was read.
///
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> i32 {
    TOOL.main(args, options::parse, |options| run(&options))
}

fn run(options: &AsnOptions) -> Result<i32, String> {
    if options.lists_addresses {
        return list(options);
    }
    let mut database = Database::default();
    for file in &options.databases {
        database.add(file)?;
    }
    for file in &options.names {
        database.add_names(file)?;
    }
    let (window, countries) = (options.window, options.countries.clone());
    let database = Arc::new(database);
    let known = database.clone();
    let gathered =
        options.gathering.clone().run::<AsnTally>(move |tally, entry| tally.add(entry, &window, &countries, &known))?;
    let report = AsnReport::new(options, &gathered, &database);
    match options.format {
        AsnFormat::Json => print::out(format_args!("{:#}\n", report.json())),
        AsnFormat::Text => print::foreign(report.text()),
        AsnFormat::Svg => print::out(report.svg()),
    }
    if options.format != AsnFormat::Json {
        report.remarks().iter().for_each(|remark| TOOL.remark(remark));
    }
    Ok(i32::from(report.is_empty()))
}

fn list(options: &AsnOptions) -> Result<i32, String> {
    let gathered = options.gathering.clone().run::<ClientNetworks>(ClientNetworks::add)?;
    print::out(gathered.result.text());
    gathered.result.remarks().into_iter().chain(gathered.remarks()).for_each(|remark| TOOL.remark(&remark));
    Ok(i32::from(gathered.result.is_empty()))
}
