// SPDX-License-Identifier: BSD-2-Clause
//! varnishtop: the log's commonest entries, and (our own) who asks most.

mod entries;
mod talkers;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use entries::Entries;
use logq::getopt::{self, Found, Opt};
use logq::tool::Failure;
use logq::{Flow, Select, Sink, Tool, Txn};
use screen::{Key, Line, Screen};
use talkers::{By, Talkers};

/// The options, with their help.
pub const OPTIONS: &[Opt] = &[
    Opt('1', "", "Count what is in the log already, print, and end"),
    Opt('b', "", "Only fetches"),
    Opt('c', "", "Only requests"),
    Opt('C', "", "Regexes and texts don't heed case"),
    Opt('d', "", "Begin with what is in the log already"),
    Opt('E', "", "Requests, those of ESI too"),
    Opt('f', "", "Only the first word of an entry"),
    Opt('g', "session|request|vxid|raw", "What queries see together (default: vxid)"),
    Opt('h', "", "This text"),
    Opt('i', "taglist", "Only these tags"),
    Opt('I', "[taglist:]regex", "Only records that match"),
    Opt('L', "limit", "Keep so many incomplete transactions (default: 1000)"),
    Opt('n', "dir", "The working directory of varnishd"),
    Opt('p', "period", "Seconds over which is averaged (default: 60)"),
    Opt('Q', "file", "Read a query from this file"),
    Opt('q', "query", "Only groups that match, see vsl-query(7)"),
    Opt('r', "filename", "Read a file that varnishlog -w wrote (-: standard input)"),
    Opt('t', "seconds|off", "How long to wait for varnishd (default: 5)"),
    Opt('T', "seconds", "Count transactions that don't end after this time (default: 120)"),
    Opt('x', "taglist", "Not these tags"),
    Opt('X', "[taglist:]regex", "Not the records that match"),
    Opt('V', "", "The version"),
];

const MORE: &str = "
 --by client|url|host|ua   Who asks most: requests, bytes and hits by this
 --optstring               The options in getopt's notation

Examples:
 varnishtop -i ReqURL                   the URLs asked for most
 varnishtop -b -i BereqURL              the URLs that cost most fetches
 varnishtop -C -I ReqHeader:User-Agent  who asks
 varnishtop --by client                 requests, bytes, hits per client
";

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
    let usage = || getopt::usage(program, OPTIONS, MORE);
    let (found, rest) = match getopt::parse_with_values(args, OPTIONS, &["help", "optstring", "by"], &["by"]) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprint!("{program}: {error}\n{}", usage());
            return Ok(1);
        }
    };
    let mut tool = Tool::default();
    let (mut once, mut first_word, mut period, mut by) = (false, false, 60, None);
    for option in found {
        match option {
            Found::Short('1', _) => (once, tool.past) = (true, true),
            Found::Short('f', _) => first_word = true,
            Found::Short('p', value) => {
                let number = || Failure::new(format!("Syntax error, {value} is not a number"));
                let (n, rest) = logq::number::integer(&value).ok_or_else(number)?;
                period = u32::try_from(n).ok().filter(|_| rest.is_empty()).ok_or_else(number)?;
            }
            Found::Short('V', _) => {
                eprint!("{}", logq::version::text(program));
                return Ok(0);
            }
            Found::Long(name, value) if name == "by" => by = Some(By::from_name(&value).map_err(Failure::new)?),
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
    if by.is_some() {
        tool.option('c', "").map_err(Failure::new)?;
    }
    let counts = match by {
        Some(by) => Counts::Talkers(Talkers::new(by)),
        None => Counts::Entries(Entries::new(first_word, period)),
    };
    let ident = if tool.file.is_none() {
        shm::reader::manager_arg(&tool.attach.workdir(), "-i").unwrap_or_default()
    } else {
        String::new()
    };
    if once {
        let mut top = Top { counts, ident, screen: None, drawn: None, is_over: false };
        tool.run(&mut top)?;
        let out = io::stdout();
        top.counts.print(&mut out.lock()).map_err(|e| Failure::new(e.to_string()))?;
        return Ok(0);
    }
    let screen = Screen::new().map_err(|e| Failure::new(format!("No screen: {}", logq::source::strerror(&e))))?;
    let mut top = Top { counts, ident, screen: Some(screen), drawn: None, is_over: false };
    tool.run(&mut top)?;
    // What was read stays on the screen until a key ends it.
    let ended = top.is_over;
    top.is_over = true;
    while !ended && top.turn(Duration::from_secs(1)).map_err(|e| Failure::new(e.to_string()))? == Flow::On {}
    Ok(0)
}

enum Counts {
    Entries(Entries),
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
    ident: String,
    screen: Option<Screen>,
    drawn: Option<Instant>,
    /// A key said so, or the log has ended.
    is_over: bool,
}

impl Top {
    /// Draws once a second and waits for a key.
    fn turn(&mut self, wait: Duration) -> io::Result<Flow> {
        let Some(screen) = &mut self.screen else { return Ok(Flow::On) };
        if self.drawn.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            self.drawn = Some(Instant::now());
            let (columns, lines) = screen.size();
            let (length, body) = match &mut self.counts {
                Counts::Entries(entries) => {
                    (entries.len(), entries.lines(lines.saturating_sub(2), columns, self.is_over))
                }
                Counts::Talkers(talkers) => (talkers.len(), talkers.lines(lines.saturating_sub(2))),
            };
            let mut head = Line::new(format!("list length {length}"));
            let ident = if self.is_over { format!("{} (EOF)", self.ident) } else { self.ident.clone() };
            head.put(columns.saturating_sub(ident.chars().count() + 1), &ident);
            let mut page = vec![head, Line::default()];
            page.extend(body.into_iter().map(Line::new));
            screen.draw(&page)?;
        }
        match screen.key(wait)? {
            Some(Key::Char('q' | 'Q') | Key::Ctrl('c' | 'q')) => {
                self.is_over = true;
                Ok(Flow::Stop)
            }
            Some(Key::Ctrl('l' | 't') | Key::Resize) => {
                self.drawn = None;
                Ok(Flow::On)
            }
            _ => Ok(Flow::On),
        }
    }
}

impl Sink for Top {
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        self.counts.add(select, group);
        Ok(Flow::On)
    }

    fn idle(&mut self) -> io::Result<Flow> {
        self.turn(Duration::ZERO)
    }
}
