// SPDX-License-Identifier: BSD-2-Clause
//! varnishhist: how times or sizes of requests are distributed, hits (`|`) and others (`#`), on a logarithmic axis.

mod histogram;
mod profile;

use std::io;
use std::time::{Duration, Instant};

use histogram::Histogram;
use logq::getopt::{self, Found, Opt};
use logq::tool::Failure;
use logq::{Flow, Grouping, Reason, Select, Sink, Tool, Txn, records};
use profile::Profile;
use screen::{Key, Line, Screen};
use tables::Tag;
use tables::tags::TagKind;

/// The options, with their help.
pub const OPTIONS: &[Opt] = &[
    Opt('B', "factor", "With -r: so many times as fast as it was"),
    Opt('C', "", "Regexes and texts don't heed case"),
    Opt('d', "", "Begin with what is in the log already"),
    Opt('g', "request|vxid", "What queries see together (default: vxid)"),
    Opt('h', "", "This text"),
    Opt('L', "limit", "Keep so many incomplete transactions (default: 1000)"),
    Opt('n', "dir", "The working directory of varnishd"),
    Opt('p', "period", "Seconds between two pictures (default: 1)"),
    Opt('P', "profile", "What is shown: a name below, or [c|b|E:]tag:[prefix]:field[:min:max]"),
    Opt('Q', "file", "Read a query from this file"),
    Opt('q', "query", "Only groups that match, see vsl-query(7)"),
    Opt('r', "filename", "Read a file that varnishlog -w wrote (-: standard input)"),
    Opt('t', "seconds|off", "How long to wait for varnishd (default: 5)"),
    Opt('T', "seconds", "Count transactions that don't end after this time (default: 120)"),
    Opt('V', "", "The version"),
];

const MORE: &str = "
 --optstring               The options in getopt's notation

Keys: 0-9 a picture every 2^n seconds, + - faster, slower, < > slower, faster through a file, q end.

Examples:
 varnishhist                    how long requests take
 varnishhist -P Beresptime      how long backends think
 varnishhist -P size            how large answers are
";

/// The profiles: names and texts.
pub fn profiles() -> Vec<(&'static str, &'static str)> {
    profile::known()
}

/// Runs the tool: its exit status.
pub fn main(program: &str, args: &[String]) -> i32 {
    match run(program, args) {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("{failure}");
            failure.status
        }
    }
}

fn run(program: &str, args: &[String]) -> Result<i32, Failure> {
    let usage = || getopt::usage(program, OPTIONS, &format!("\nProfiles:\n{}{MORE}", profile::list()));
    let (found, rest) = match getopt::parse(args, OPTIONS, &["help", "optstring"]) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprint!("{program}: {error}\n{}", usage());
            return Ok(1);
        }
    };
    let mut tool = Tool::default();
    let mut delay = Duration::from_secs(1);
    let mut bend = 0.0;
    let mut profile = Profile::by_name("responsetime").map_err(Failure::new)?;
    for option in found {
        match option {
            Found::Short('p', value) => {
                let seconds = value.parse::<f64>().ok().filter(|s| *s >= 0.0005 && *s < 1e6);
                let seconds = seconds.ok_or_else(|| Failure::new(format!("-p: invalid '{value}'")))?;
                delay = Duration::from_secs_f64(seconds);
            }
            Found::Short('P', value) => profile = Profile::parse(&value).map_err(Failure::new)?,
            Found::Short('B', value) => bend = bending(&value).map_err(Failure::new)?,
            Found::Short('V', _) => {
                eprint!("{}", logq::version::text(program));
                return Ok(0);
            }
            Found::Long(name, _) if name == "optstring" => {
                println!("{}", getopt::optstring(OPTIONS));
                return Ok(0);
            }
            Found::Short('h', _) | Found::Long(..) => {
                eprint!("{}", usage());
                return Ok(0);
            }
            Found::Short(letter, value) => {
                tool.option(letter, &value).map_err(Failure::new)?;
            }
        }
    }
    if !rest.is_empty() {
        eprint!("{}", usage());
        return Ok(1);
    }
    if !matches!(tool.grouping, Grouping::Vxid | Grouping::Request) {
        let name = tool.grouping.name();
        return Err(Failure::new(format!("Invalid grouping mode: {name} (only vxid and request are supported)")));
    }
    tool.option(profile.side, "").map_err(Failure::new)?;
    let ident = if tool.file.is_none() {
        shm::reader::manager_arg(&tool.attach.workdir(), "-i").unwrap_or_default()
    } else {
        String::new()
    };
    let screen = Screen::new().map_err(|e| Failure::new(format!("No screen: {}", logq::source::strerror(&e))))?;
    let histogram = Histogram::new(profile.low, profile.high);
    let time = Bend { factor: bend, begun: None, now: 0.0 };
    let mut hist = Hist { profile, histogram, screen, ident, delay, drawn: None, time, quit: false, is_over: false };
    tool.run(&mut hist)?;
    hist.is_over = true;
    while !hist.quit {
        hist.turn(Duration::from_secs(1)).map_err(|e| Failure::new(e.to_string()))?;
    }
    Ok(0)
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

/// The log's time, run through at another speed.
struct Bend {
    /// 0: as fast as it can be read.
    factor: f64,
    /// When the reading began, and the log's time then.
    begun: Option<(Instant, f64)>,
    /// The log's time now.
    now: f64,
}

struct Hist {
    profile: Profile,
    histogram: Histogram,
    screen: Screen,
    ident: String,
    delay: Duration,
    drawn: Option<Instant>,
    time: Bend,
    quit: bool,
    /// The log has ended.
    is_over: bool,
}

impl Hist {
    /// Draws when it is time, and waits for a key.
    fn turn(&mut self, wait: Duration) -> io::Result<Flow> {
        if self.drawn.is_none_or(|at| at.elapsed() >= self.delay) {
            self.drawn = Some(Instant::now());
            let (columns, lines) = self.screen.size();
            let mut page = self.histogram.picture(columns, lines);
            let mut head = format!(
                "1:{}, n = {}, d = {}",
                self.histogram.scale(columns, lines),
                self.histogram.len(),
                self.delay.as_secs_f64()
            );
            if self.time.begun.is_some() {
                let at = sys::localtime::format("%a, %d %b %Y %H:%M:%S", self.time.now as i64).unwrap_or_default();
                head.push_str(&format!(" @ {at} x {}", self.time.factor));
            }
            if let Some(line) = page.first_mut() {
                *line = Line::new(head);
                let right = if self.is_over { "EOF" } else { &self.ident };
                line.put(columns.saturating_sub(right.chars().count() + 1), right);
            }
            self.screen.draw(&page)?;
        }
        match self.screen.key(wait)? {
            Some(Key::Char('q' | 'Q') | Key::Ctrl('c' | 'q')) => {
                self.quit = true;
                return Ok(Flow::Stop);
            }
            Some(Key::Char(digit @ '0'..='9')) => {
                self.delay = Duration::from_secs(1 << digit.to_digit(10).unwrap_or(0));
            }
            Some(Key::Char('+')) => self.delay = (self.delay / 2).max(Duration::from_millis(1)),
            Some(Key::Char('-')) => self.delay = (self.delay * 2).min(Duration::from_secs(86_400)),
            Some(Key::Char(sign @ ('<' | '>'))) => {
                self.time.factor = match (self.time.factor, sign) {
                    (0.0, _) => 1.0,
                    (factor, '<') => factor / 2.0,
                    (factor, _) => factor * 2.0,
                };
                self.time.begun = None;
            }
            Some(Key::Ctrl('l' | 't') | Key::Resize) => self.drawn = None,
            _ => {}
        }
        Ok(Flow::On)
    }

    /// Waits until the log's time has come.
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

impl Sink for Hist {
    fn group(&mut self, _: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        // ESI requests are part of another.
        for txn in group.iter().filter(|txn| txn.reason != Reason::Esi) {
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
