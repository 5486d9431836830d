// SPDX-License-Identifier: BSD-2-Clause
//! varnishtop: the log's commonest entries, and (our own) who asks most.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod entries;
mod talkers;

use std::io::{self, Write};
use std::time::Duration;

use accesslog::GroupBy;
use entries::TopEntries;
use logq::getopt::{OptMatch, ToolOption};
use logq::live::LiveLog;
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::tool::ToolFailure;
use logq::{Flow, LogTool, Select, ToolSink, Txn};
use networks::Database;
use screen::ScreenLine;
use talkers::Talkers;

pub const OPTIONS: &[ToolOption] = &[
    ToolOption('1', "", "Count the existing log, print the result, and exit"),
    rows::BACKENDS,
    rows::CLIENTS,
    rows::IGNORE_CASE,
    rows::FROM_THE_START,
    rows::ESI,
    ToolOption('f', "", "Only the first word of each record"),
    ToolOption('g', "session|request|vxid|raw", "How records are grouped for queries (default: vxid)"),
    rows::HELP,
    rows::TAGS,
    rows::MATCHES,
    rows::MOST_INCOMPLETE,
    rows::SERVER,
    ToolOption('p', "period", "Averaging period in seconds (default: 60)"),
    rows::QUERY_FILE,
    rows::QUERY,
    rows::LOG_FILE,
    rows::PATIENCE,
    rows::COUNT_INCOMPLETE,
    rows::OTHER_TAGS,
    rows::OTHER_MATCHES,
    rows::VERSION,
];

const MORE: &str = "
 --by client|url|host|ua|asn
                           Requests, bytes and hits of the most active ones
 --asn-table <file>        Table of autonomous systems for --by asn, in any format that
                           lacquer asn reads
 --optstring               Print the options in getopt's notation

Examples:
 varnishtop -i ReqURL                   most requested URLs
 varnishtop -b -i BereqURL              URLs with most fetches
 varnishtop -C -I ReqHeader:User-Agent  most active User-Agents
 varnishtop --by client                 requests, bytes and hits per client
 varnishtop -1 --by asn --asn-table ip2asn-combined.tsv
";

pub fn main(program: &str, args: &[String]) -> i32 {
    let long = &["by", "asn-table"];
    program::main(program, args, &ToolCli { options: OPTIONS, long, valued: long, more: MORE }, Config::default())
}

#[derive(Default)]
struct Config {
    tool: LogTool,
    once: bool,
    first_word: bool,
    period: Option<u32>,
    by: Option<GroupBy>,
    table: Option<String>,
}

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        match option {
            OptMatch::Short('1', _) => (self.once, self.tool.past) = (true, true),
            OptMatch::Short('f', _) => self.first_word = true,
            OptMatch::Short('p', value) => {
                let number = || ToolFailure::new(format!("Syntax error, {value} is not a number"));
                let (n, rest) = logq::number::integer(&value).ok_or_else(number)?;
                self.period = Some(u32::try_from(n).ok().filter(|_| rest.is_empty()).ok_or_else(number)?);
            }
            OptMatch::Short(letter, value) => {
                self.tool.option(letter, &value).map_err(ToolFailure::new)?;
            }
            OptMatch::Long(name, value) if name == "by" => {
                let found = talkers::WORDS.iter().find(|(word, _)| *word == value);
                let wrong = || ToolFailure::new(format!("--by: Invalid value '{value}'"));
                self.by = Some(found.map(|(_, by)| *by).ok_or_else(wrong)?);
            }
            OptMatch::Long(_, value) => self.table = Some(value),
        }
        Ok(())
    }

    fn run(mut self) -> Result<i32, ToolFailure> {
        let counts = match self.by {
            Some(by) => Counts::Talkers(Talkers::new(by, self.networks(by)?)),
            None if self.table.is_some() => return Err(ToolFailure::new("--asn-table needs --by asn")),
            None => Counts::Entries(TopEntries::new(self.first_word, self.period.unwrap_or(60))),
        };
        if self.by.is_some() {
            self.tool.option('c', "").map_err(ToolFailure::new)?;
        }
        if self.once {
            let mut top = Top { counts, live: None };
            self.tool.run(&mut top)?;
            let out = io::stdout();
            top.counts.print(&mut out.lock()).map_err(|e| ToolFailure::new(e.to_string()))?;
            return Ok(0);
        }
        let live = LiveLog::new(&self.tool, Duration::from_secs(1), "Without one, -1 prints the list")?;
        let mut top = Top { counts, live: Some(live) };
        self.tool.run(&mut top)?;
        // What was read stays on the screen until a key ends it.
        let is_watched = top.live.as_mut().is_some_and(LiveLog::end);
        while is_watched && top.turn(Duration::from_secs(1)).map_err(|e| ToolFailure::new(e.to_string()))? == Flow::On {
        }
        Ok(0)
    }
}

impl Config {
    fn networks(&self, by: GroupBy) -> Result<Option<Database>, ToolFailure> {
        match (by, &self.table) {
            (GroupBy::System, Some(name)) => {
                let mut database = Database::default();
                database.add(name).map_err(ToolFailure::new)?;
                Ok(Some(database))
            }
            (GroupBy::System, None) => Err(ToolFailure::new("--by asn needs --asn-table")),
            (_, Some(_)) => Err(ToolFailure::new("--asn-table needs --by asn")),
            (_, None) => Ok(None),
        }
    }
}

enum Counts {
    Entries(TopEntries),
    Talkers(Talkers),
}

impl Counts {
    fn add(&mut self, select: &Select, group: &[Txn<'_>]) {
        match self {
            Counts::Entries(entries) => entries.add(select, group),
            Counts::Talkers(talkers) => talkers.add(group),
        }
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Counts::Entries(entries) => entries.print(out),
            Counts::Talkers(talkers) => talkers.lines(usize::MAX).iter().try_for_each(|l| writeln!(out, "{l}")),
        }
    }
}

struct Top {
    counts: Counts,
    live: Option<LiveLog>,
}

impl Top {
    /// Draws once a second and waits for a key.
    fn turn(&mut self, wait: Duration) -> io::Result<Flow> {
        let Some(live) = &mut self.live else { return Ok(Flow::On) };
        live.draw(|live, (columns, lines)| {
            let (length, body) = match &mut self.counts {
                Counts::Entries(entries) => {
                    (entries.len(), entries.lines(lines.saturating_sub(2), columns, live.is_over))
                }
                Counts::Talkers(talkers) => (talkers.len(), talkers.lines(lines.saturating_sub(2))),
            };
            let mut head = ScreenLine::new(format!("list length {length}"));
            let ident = if live.is_over { format!("{} (EOF)", live.ident) } else { live.ident.clone() };
            head.put(columns.saturating_sub(ident.chars().count() + 1), &ident);
            let mut page = vec![head, ScreenLine::default()];
            page.extend(body.into_iter().map(ScreenLine::new));
            page
        })?;
        live.key(wait, |_, _| {})
    }
}

impl ToolSink for Top {
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        self.counts.add(select, group);
        Ok(Flow::On)
    }

    fn idle(&mut self) -> io::Result<Flow> {
        self.turn(Duration::ZERO)
    }
}
