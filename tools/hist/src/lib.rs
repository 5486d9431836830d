// SPDX-License-Identifier: BSD-2-Clause
//! varnishhist: how times or sizes of requests are distributed, hits (`|`) and others (`#`), on a logarithmic axis.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod histogram;
mod profile;

use std::io;
use std::time::{Duration, Instant};

use histogram::AxisHistogram;
use logq::getopt::{OptMatch, ToolOption};
use logq::live::LiveLog;
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::tool::ToolFailure;
use logq::{BeginReason, Flow, Grouping, LogTool, Select, ToolSink, Txn, records};
use profile::HistProfile;
use screen::{KeyPress, ScreenLine};
use tables::Tag;
use tables::tags::TagKind;

pub const OPTIONS: &[ToolOption] = &[
    ToolOption('B', "factor", "With -r: replay speed factor"),
    rows::IGNORE_CASE,
    rows::FROM_THE_START,
    rows::GROUPING,
    rows::HELP,
    rows::MOST_INCOMPLETE,
    rows::SERVER,
    ToolOption('p', "period", "Seconds between screen updates (default: 1)"),
    ToolOption('P', "profile", "Profile: a name below, or [c|b|E:]tag:[prefix]:field[:min:max]"),
    rows::QUERY_FILE,
    rows::QUERY,
    rows::LOG_FILE,
    rows::PATIENCE,
    rows::COUNT_INCOMPLETE,
    rows::VERSION,
];

const MORE: &str = "
 --optstring               Print the options in getopt's notation

Keys: 0-9 update every 2^n seconds, + and - update faster and slower, < and > replay a file slower and faster, q quit.

Examples:
 varnishhist                    response times of requests
 varnishhist -P Beresptime      response times of backends
 varnishhist -P size            sizes of responses
";

/// The way to a histogram of a server on which there is no terminal.
const ELSEWHERE: &str = "Type it in a terminal (ssh -t); or store the log, varnishlog -w FILE, and read it where there is one: varnishhist -r FILE";

pub fn profiles() -> Vec<(&'static str, &'static str)> {
    profile::known()
}

pub fn main(program: &str, args: &[String]) -> i32 {
    let more = format!("\nProfiles:\n{}{MORE}", profile::list());
    program::main(program, args, &ToolCli { options: OPTIONS, long: &[], valued: &[], more: &more }, Config::default())
}

#[derive(Default)]
struct Config {
    tool: LogTool,
    delay: Option<Duration>,
    bend: f64,
    profile: Option<HistProfile>,
}

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        match option {
            OptMatch::Short('p', value) => {
                let seconds = value.parse::<f64>().ok().filter(|s| *s >= 0.0005 && *s < 1e6);
                let seconds = seconds.ok_or_else(|| ToolFailure::new(format!("-p: invalid '{value}'")))?;
                self.delay = Some(Duration::from_secs_f64(seconds));
            }
            OptMatch::Short('P', value) => self.profile = Some(HistProfile::parse(&value).map_err(ToolFailure::new)?),
            OptMatch::Short('B', value) => self.bend = bending(&value).map_err(ToolFailure::new)?,
            OptMatch::Short(letter, value) => {
                self.tool.option(letter, &value).map_err(ToolFailure::new)?;
            }
            OptMatch::Long(name, _) => return Err(ToolFailure::new(format!("unknown option --{name}"))),
        }
        Ok(())
    }

    fn run(mut self) -> Result<i32, ToolFailure> {
        let profile = match self.profile {
            Some(profile) => profile,
            None => HistProfile::by_name("responsetime").map_err(ToolFailure::new)?,
        };
        if !matches!(self.tool.grouping, Grouping::Vxid | Grouping::Request) {
            let name = self.tool.grouping.name();
            return Err(ToolFailure::new(format!(
                "Invalid grouping mode: {name} (only vxid and request are supported)"
            )));
        }
        self.tool.option(profile.side, "").map_err(ToolFailure::new)?;
        let live = LiveLog::new(&self.tool, self.delay.unwrap_or(Duration::from_secs(1)), ELSEWHERE)?;
        let histogram = AxisHistogram::new(profile.low, profile.high);
        let mut hist = Hist { profile, histogram, live, time: TimeScale { factor: self.bend, begun: None, now: 0.0 } };
        self.tool.run(&mut hist)?;
        let is_watched = hist.live.end();
        while is_watched && hist.turn(Duration::from_secs(1)).map_err(|e| ToolFailure::new(e.to_string()))? == Flow::On
        {
        }
        Ok(0)
    }
}

fn bending(value: &str) -> Result<f64, String> {
    let factor = value.parse::<f64>().unwrap_or(0.0);
    if factor == 0.0 || !factor.is_finite() {
        return Err(format!("-B: being able to bend time does not mean we can stop it (invalid factor '{value}')"));
    }
    if factor < 0.0 {
        return Err(format!(
            "-B: being able to bend time does not mean we can make it go backwards (invalid factor '{value}')"
        ));
    }
    Ok(factor)
}

struct TimeScale {
    /// 0: as fast as it can be read.
    factor: f64,
    /// When the reading began, and the log's time then.
    begun: Option<(Instant, f64)>,
    now: f64,
}

struct Hist {
    profile: HistProfile,
    histogram: AxisHistogram,
    live: LiveLog,
    time: TimeScale,
}

impl Hist {
    /// Draws when it is time, and waits for a key.
    fn turn(&mut self, wait: Duration) -> io::Result<Flow> {
        let Hist { histogram, time, .. } = self;
        self.live.draw(|live, (columns, lines)| {
            let mut page = histogram.picture(columns, lines);
            let mut head = format!(
                "1:{}, n = {}, d = {}",
                histogram.scale(columns, lines),
                histogram.len(),
                live.delay.as_secs_f64()
            );
            if time.begun.is_some() {
                let at = sys::localtime::format("%a, %d %b %Y %H:%M:%S", time.now as i64).unwrap_or_default();
                head.push_str(&format!(" @ {at} x {}", time.factor));
            }
            if let Some(line) = page.first_mut() {
                *line = ScreenLine::new(head);
                let right = if live.is_over { "EOF" } else { &live.ident };
                line.put(columns.saturating_sub(right.chars().count() + 1), right);
            }
            page
        })?;
        self.live.key(wait, |live, key| match key {
            KeyPress::Char(digit @ '0'..='9') => live.delay = Duration::from_secs(1 << digit.to_digit(10).unwrap_or(0)),
            KeyPress::Char('+') => live.delay = (live.delay / 2).max(Duration::from_millis(1)),
            KeyPress::Char('-') => live.delay = (live.delay * 2).min(Duration::from_secs(86_400)),
            KeyPress::Char(sign @ ('<' | '>')) => {
                time.factor = match (time.factor, sign) {
                    (0.0, _) => 1.0,
                    (factor, '<') => factor / 2.0,
                    (factor, _) => factor * 2.0,
                };
                time.begun = None;
            }
            _ => {}
        })
    }

    fn keep_time(&mut self) -> io::Result<Flow> {
        while self.time.factor > 0.0 && self.time.now > 0.0 {
            let (begun, first) = *self.time.begun.get_or_insert((Instant::now(), self.time.now));
            let due = (self.time.now - first) / self.time.factor - begun.elapsed().as_secs_f64();
            if due <= 0.0 {
                break;
            }
            if self.turn(Duration::from_secs_f64(due.min(0.1)))? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }
}

impl ToolSink for Hist {
    fn group(&mut self, _: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        // ESI requests are part of another.
        for txn in group.iter().filter(|txn| txn.reason != BeginReason::Esi) {
            let (mut hit, mut value, mut stamp, mut skip) = (false, None, None, false);
            for rec in records(txn.records).filter(|rec| rec.tag.kind() == TagKind::Plain) {
                let text = rec.text();
                match rec.tag {
                    Tag::Hit => hit = true,
                    Tag::VclReturn if [&b"restart"[..], b"retry"].iter().any(|w| text.eq_ignore_ascii_case(w)) => {
                        skip = true;
                        break;
                    }
                    Tag::Timestamp => stamp = profile::word(text, 2),
                    _ => {}
                }
                if !matches!(rec.tag, Tag::Hit | Tag::VclReturn) {
                    value = self.profile.value(rec.tag, text).or(value);
                }
            }
            let Some(value) = value.filter(|v| *v > 0.0 && !skip) else { continue };
            if let Some(stamp) = stamp.filter(|_| self.time.factor > 0.0) {
                self.time.now = self.time.now.max(stamp);
            }
            self.histogram.add(value, hit);
        }
        self.keep_time()
    }

    fn idle(&mut self) -> io::Result<Flow> {
        self.turn(Duration::ZERO)
    }
}
