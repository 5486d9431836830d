// SPDX-License-Identifier: BSD-2-Clause
//! varnishlog: shows the log, or writes it to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};

use logq::getopt::{self, Found, Opt};
use logq::print::{self, Style};
use logq::source::{FILE_HEAD, strerror};
use logq::tool::Failure;
use logq::{Flow, Select, Sink, Tool, Txn, records};

/// The options, with their help.
pub const OPTIONS: &[Opt] = &[
    Opt('a', "", "With -w: append to the file"),
    Opt('A', "", "With -w: write text"),
    Opt('b', "", "Only fetches"),
    Opt('c', "", "Only requests"),
    Opt('C', "", "Regexes and texts don't heed case"),
    Opt('d', "", "Show what is in the log already, and end"),
    Opt('D', "", "Go into the background (needs -w)"),
    Opt('E', "", "Requests, those of ESI too"),
    Opt('g', "session|request|vxid|raw", "What is shown together (default: vxid)"),
    Opt('h', "", "This text"),
    Opt('i', "taglist", "Only these tags"),
    Opt('I', "[taglist:]regex", "Only records that match"),
    Opt('k', "num", "End after so many groups"),
    Opt('L', "limit", "Keep so many incomplete transactions (default: 1000)"),
    Opt('n', "dir", "The working directory of varnishd"),
    Opt('P', "file", "Write the process's number to this file"),
    Opt('Q', "file", "Read a query from this file"),
    Opt('q', "query", "Show groups that match, see vsl-query(7)"),
    Opt('r', "filename", "Read a file that -w wrote (-: standard input)"),
    Opt('R', "limit[/duration]", "Show no more than so many groups per time"),
    Opt('t', "seconds|off", "How long to wait for varnishd (default: 5)"),
    Opt('T', "seconds", "Show transactions that don't end after this time (default: 120)"),
    Opt('u', "", "With -w: don't buffer"),
    Opt('v', "", "Every line with the number of its transaction"),
    Opt('V', "", "The version"),
    Opt('w', "filename", "Write to this file (-: standard output)"),
    Opt('x', "taglist", "Not these tags"),
    Opt('X', "[taglist:]regex", "Not the records that match"),
];

const LONG: &[&str] = &["json", "legacy", "color", "help", "optstring"];

const MORE: &str = "
 --json                    One JSON object per transaction
 --legacy                  Four columns and tag names as Varnish 3 had them
 --color[=always|never]    Colours (default: on a terminal, unless NO_COLOR is set)
 --optstring               The options in getopt's notation

Examples:
 varnishlog -g request -q 'RespStatus >= 500'   requests that failed, with their fetches
 varnishlog -b -i BereqURL,Timestamp            how long the backends take
 varnishlog -D -w /var/log/varnish.log          keep the log; read it again with -r
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

#[derive(Default)]
struct Config {
    append: bool,
    text: bool,
    unbuffered: bool,
    file: Option<String>,
    style: Option<Style>,
}

fn run(program: &str, args: &[String]) -> Result<i32, Failure> {
    let usage = || getopt::usage(program, OPTIONS, MORE);
    let (found, rest) = match getopt::parse(args, OPTIONS, LONG) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprint!("{program}: {error}\n{}", usage());
            return Ok(1);
        }
    };
    if !rest.is_empty() {
        eprint!("{}", usage());
        return Ok(1);
    }
    let mut tool = Tool::default();
    let mut config = Config::default();
    let mut colour = None;
    for option in found {
        match option {
            Found::Short('a', _) => config.append = true,
            Found::Short('A', _) => config.text = true,
            Found::Short('u', _) => config.unbuffered = true,
            Found::Short('w', file) => config.file = Some(file),
            Found::Short('h', _) => {
                eprint!("{}", usage());
                return Ok(0);
            }
            Found::Short('V', _) => {
                eprint!("{}", logq::version::text(program));
                return Ok(0);
            }
            Found::Short(letter, value) => {
                tool.option(letter, &value).map_err(Failure::new)?;
            }
            Found::Long(name, value) => match (name.as_str(), value.as_str()) {
                ("json", "") => config.style = Some(Style::Json),
                ("legacy", "") => {
                    config.style = Some(Style::FourColumns);
                    tool.grouping = logq::Grouping::Raw;
                }
                ("color", "" | "always") => colour = Some(true),
                ("color", "never") => colour = Some(false),
                ("optstring", _) => {
                    println!("{}", getopt::optstring(OPTIONS));
                    return Ok(0);
                }
                ("help", _) => {
                    print!("{}", usage());
                    return Ok(0);
                }
                _ => return Err(Failure::new(format!("--{name}: Invalid value '{value}'"))),
            },
        }
    }
    if tool.daemon && config.file.is_none() {
        return Err(Failure::new("Missing -w option"));
    }
    if tool.daemon && config.file.as_deref() == Some("-") {
        return Err(Failure::new("Daemon cannot write to stdout"));
    }
    let is_binary = config.file.is_some() && !config.text && config.style.is_none();
    if is_binary {
        // Files need these to be grouped again. The first keeps -i from hiding all others.
        for (letter, tag) in [('x', "Link"), ('i', "Link"), ('i', "Begin"), ('i', "End")] {
            tool.select.option(letter, tag).map_err(Failure::new)?;
        }
    }
    let style = config.style.unwrap_or_else(|| match colour {
        Some(true) => Style::Coloured,
        None if config.file.is_none() && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() => {
            Style::Coloured
        }
        _ => Style::Text,
    });
    let reopens = tool.daemon;
    let out = open(&config, config.append, is_binary)?;
    tool.run(&mut Log { config, style, is_binary, reopens, out })?;
    Ok(0)
}

struct Log {
    config: Config,
    style: Style,
    is_binary: bool,
    reopens: bool,
    out: Box<dyn Write>,
}

fn open(config: &Config, append: bool, is_binary: bool) -> Result<Box<dyn Write>, Failure> {
    let (target, is_empty): (Box<dyn Write>, bool) = match config.file.as_deref() {
        None | Some("-") => (Box::new(io::stdout()), true),
        Some(name) => {
            let mut options = OpenOptions::new();
            options.create(true);
            if append {
                options.append(true)
            } else {
                options.write(true).truncate(true)
            };
            let file = options.open(name).map_err(|e| cannot_open(&e))?;
            let is_empty = file.metadata().is_ok_and(|meta| meta.len() == 0);
            (boxed(file), is_empty)
        }
    };
    let mut out: Box<dyn Write> =
        if config.unbuffered { target } else { Box::new(io::BufWriter::with_capacity(64 << 10, target)) };
    if is_binary && is_empty {
        out.write_all(FILE_HEAD).map_err(|e| cannot_open(&e))?;
    }
    Ok(out)
}

fn boxed(file: File) -> Box<dyn Write> {
    Box::new(file)
}

fn cannot_open(error: &io::Error) -> Failure {
    Failure { status: 2, text: format!("Cannot open output file ({})", strerror(error)) }
}

impl Sink for Log {
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        if !self.is_binary {
            print::group(&mut self.out, select, self.style, group)?;
            return Ok(Flow::On);
        }
        for txn in group {
            for rec in records(txn.records).filter(|rec| select.shows(rec)) {
                self.out.write_all(rec.bytes)?;
            }
        }
        Ok(Flow::On)
    }

    fn idle(&mut self) -> io::Result<Flow> {
        self.out.flush()?;
        Ok(Flow::On)
    }

    fn hup(&mut self) -> Result<Flow, Failure> {
        if !self.reopens {
            return Ok(Flow::Stop);
        }
        let _ = self.out.flush();
        self.out = open(&self.config, true, self.is_binary)?;
        Ok(Flow::On)
    }
}
