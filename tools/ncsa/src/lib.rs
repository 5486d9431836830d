// SPDX-License-Identifier: BSD-2-Clause
//! varnishncsa: a line per request in the format of web servers' logs.

mod fields;
mod format;
mod quote;

use std::fs::OpenOptions;
use std::io::{self, Write};

use fields::Fields;
use format::Format;
use logq::getopt::{self, Found, Opt};
use logq::source::strerror;
use logq::tool::Failure;
use logq::{Flow, Grouping, Select, Sink, Tool, Txn};

/// The options, with their help.
pub const OPTIONS: &[Opt] = &[
    Opt('a', "", "With -w: append to the file"),
    Opt('b', "", "Fetches"),
    Opt('c', "", "Requests (the default)"),
    Opt('C', "", "Regexes and texts don't heed case"),
    Opt('d', "", "Show what is in the log already, and end"),
    Opt('D', "", "Go into the background (needs -w)"),
    Opt('E', "", "Requests, those of ESI too"),
    Opt('F', "format", "The format of a line, see varnishncsa(1)"),
    Opt('f', "formatfile", "Read the format from a file's first line"),
    Opt('g', "request|vxid", "What queries see together (default: vxid)"),
    Opt('h', "", "This text"),
    Opt('j', "", "Quote and leave out as JSON needs it"),
    Opt('k', "num", "End after so many groups"),
    Opt('L', "limit", "Keep so many incomplete transactions (default: 1000)"),
    Opt('n', "dir", "The working directory of varnishd"),
    Opt('P', "file", "Write the process's number to this file"),
    Opt('Q', "file", "Read a query from this file"),
    Opt('q', "query", "Show groups that match, see vsl-query(7)"),
    Opt('r', "filename", "Read a file that varnishlog -w wrote (-: standard input)"),
    Opt('R', "limit[/duration]", "Show no more than so many groups per time"),
    Opt('t', "seconds|off", "How long to wait for varnishd (default: 5)"),
    Opt('V', "", "The version"),
    Opt('w', "filename", "Write to this file (-: standard output)"),
];

const MORE: &str = "
 --optstring               The options in getopt's notation

Examples:
 varnishncsa                                  the combined format of web servers
 varnishncsa -F '%U%q %s %{Varnish:hitmiss}x'  what was a hit
 varnishncsa -j -F '{\"url\":\"%U\",\"status\":%s}'  JSON lines
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
    let (found, rest) = match getopt::parse(args, OPTIONS, &["help", "optstring"]) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprint!("{program}: {error}\n{}", usage());
            return Ok(1);
        }
    };
    let mut tool = Tool::default();
    let (mut append, mut file, mut text, mut json, mut has_side) = (false, None, None, false, false);
    for option in found {
        match option {
            Found::Short('a', _) => append = true,
            Found::Short('F' | 'f', _) if text.is_some() => return Err(Failure::new("Format already set")),
            Found::Short('F', format) => text = Some(format),
            Found::Short('f', name) => text = Some(read_format(&name)?),
            Found::Short('h', _) | Found::Long(_, _) => {
                if option == Found::Long("optstring".into(), String::new()) {
                    println!("{}", getopt::optstring(OPTIONS));
                } else {
                    eprint!("{}", usage());
                }
                return Ok(0);
            }
            Found::Short('j', _) => json = true,
            Found::Short('w', name) => file = Some(name),
            Found::Short('V', _) => {
                eprint!("{}", logq::version::text(program));
                return Ok(0);
            }
            Found::Short(letter, value) => {
                has_side |= matches!(letter, 'b' | 'c' | 'E');
                tool.option(letter, &value).map_err(Failure::new)?;
            }
        }
    }
    if !rest.is_empty() {
        eprint!("{}", usage());
        return Ok(1);
    }
    if !has_side {
        tool.option('c', "").map_err(Failure::new)?;
    }
    if tool.daemon && file.is_none() {
        return Err(Failure::new("Missing -w option"));
    }
    if tool.daemon && file.as_deref() == Some("-") {
        return Err(Failure::new("Daemon cannot write to stdout"));
    }
    if !matches!(tool.grouping, Grouping::Vxid | Grouping::Request) {
        return Err(Failure::new(format!("Invalid grouping mode: {}", tool.grouping.name())));
    }
    let format = Format::parse(text.as_deref().unwrap_or(format::DEFAULT), json).map_err(Failure::new)?;
    let out = open(file.as_deref(), append)?;
    let reopens = tool.daemon;
    tool.run(&mut Ncsa { fields: Fields::new(&format), format, file, out, reopens, line: Vec::new() })?;
    Ok(0)
}

fn read_format(name: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(name).map_err(|e| Failure::new(format!("Can't open format file ({})", strerror(&e))))?;
    if bytes.is_empty() {
        return Err(Failure::new("Empty format file"));
    }
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn open(file: Option<&str>, append: bool) -> Result<Box<dyn Write>, Failure> {
    let target: Box<dyn Write> = match file {
        None | Some("-") => Box::new(io::stdout()),
        Some(name) => {
            let mut options = OpenOptions::new();
            options.create(true);
            if append {
                options.append(true)
            } else {
                options.write(true).truncate(true)
            };
            let file =
                options.open(name).map_err(|e| Failure::new(format!("Can't open output file ({})", strerror(&e))))?;
            Box::new(file)
        }
    };
    Ok(Box::new(io::BufWriter::with_capacity(64 << 10, target)))
}

struct Ncsa {
    format: Format,
    fields: Fields,
    file: Option<String>,
    out: Box<dyn Write>,
    reopens: bool,
    line: Vec<u8>,
}

impl Sink for Ncsa {
    fn group(&mut self, _: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        for txn in group {
            if !self.fields.gather(txn, self.format.is_json()) {
                continue;
            }
            self.line.clear();
            if self.format.line(&self.fields, &mut self.line) {
                self.out.write_all(&self.line)?;
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
        self.out = open(self.file.as_deref(), true)?;
        Ok(Flow::On)
    }
}
