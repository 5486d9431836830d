// SPDX-License-Identifier: BSD-2-Clause
//! varnishncsa: a line per request in the format of web servers' logs.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod fields;
mod format;
mod quote;

use std::io::{self, Write};

use fields::NcsaFields;
use format::NcsaFormat;
use logq::getopt::{OptMatch, ToolOption};
use logq::output::ToolOutput;
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::source::strerror;
use logq::tool::ToolFailure;
use logq::{Flow, Grouping, LogTool, Select, ToolSink, Txn};

pub const OPTIONS: &[ToolOption] = &[
    rows::APPEND,
    ToolOption('b', "", "Log backend transactions (fetches)"),
    ToolOption('c', "", "Log client transactions (requests; the default)"),
    rows::IGNORE_CASE,
    rows::TO_THE_END,
    rows::DAEMON,
    rows::ESI,
    ToolOption('F', "format", "Format of a line, see varnishncsa(1)"),
    ToolOption('f', "formatfile", "Read the format from the first line of this file"),
    rows::GROUPING,
    rows::HELP,
    ToolOption('j', "", "Escape values for JSON"),
    rows::MOST_GROUPS,
    rows::MOST_INCOMPLETE,
    rows::SERVER,
    rows::PID_FILE,
    rows::QUERY_FILE,
    rows::QUERY,
    rows::LOG_FILE,
    rows::RATE,
    rows::PATIENCE,
    rows::VERSION,
    ToolOption('w', "filename", "Write to this file (-: standard output)"),
];

const MORE: &str = "
 --optstring               Print the options in getopt's notation

Examples:
 varnishncsa                                  the combined format of web servers
 varnishncsa -F '%U%q %s %{Varnish:hitmiss}x'  hits and misses
 varnishncsa -j -F '{\"url\":\"%U\",\"status\":%s}'  JSON lines
";

pub fn main(program: &str, args: &[String]) -> i32 {
    let cli = ToolCli { options: OPTIONS, long: &[], valued: &[], more: MORE };
    program::main(program, args, &cli, Config::default())
}

#[derive(Default)]
struct Config {
    tool: LogTool,
    append: bool,
    file: Option<String>,
    text: Option<String>,
    json: bool,
    has_side: bool,
}

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        match option {
            OptMatch::Short('a', _) => self.append = true,
            OptMatch::Short('F' | 'f', _) if self.text.is_some() => return Err(ToolFailure::new("Format already set")),
            OptMatch::Short('F', format) => self.text = Some(format),
            OptMatch::Short('f', name) => self.text = Some(read_format(&name)?),
            OptMatch::Short('j', _) => self.json = true,
            OptMatch::Short('w', name) => self.file = Some(name),
            OptMatch::Short(letter, value) => {
                self.has_side |= matches!(letter, 'b' | 'c' | 'E');
                self.tool.option(letter, &value).map_err(ToolFailure::new)?;
            }
            OptMatch::Long(name, _) => return Err(ToolFailure::new(format!("unknown option --{name}"))),
        }
        Ok(())
    }

    fn run(mut self) -> Result<i32, ToolFailure> {
        if !self.has_side {
            self.tool.option('c', "").map_err(ToolFailure::new)?;
        }
        self.tool.check_daemon(self.file.as_deref())?;
        if !matches!(self.tool.grouping, Grouping::Vxid | Grouping::Request) {
            return Err(ToolFailure::new(format!("Invalid grouping mode: {}", self.tool.grouping.name())));
        }
        let format =
            NcsaFormat::parse(self.text.as_deref().unwrap_or(format::DEFAULT), self.json).map_err(ToolFailure::new)?;
        let out = ToolOutput::open(self.file, self.append, true).map_err(|e| cannot_open(&e))?;
        let reopens = self.tool.daemon;
        self.tool.run(&mut Ncsa { format, out, reopens, line: Vec::new() })?;
        Ok(0)
    }
}

fn read_format(name: &str) -> Result<String, ToolFailure> {
    let bytes =
        std::fs::read(name).map_err(|e| ToolFailure::new(format!("Can't open format file ({})", strerror(&e))))?;
    if bytes.is_empty() {
        return Err(ToolFailure::new("Empty format file"));
    }
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn cannot_open(error: &io::Error) -> ToolFailure {
    ToolFailure::new(format!("Can't open output file ({})", strerror(error)))
}

struct Ncsa {
    format: NcsaFormat,
    out: ToolOutput,
    reopens: bool,
    line: Vec<u8>,
}

impl ToolSink for Ncsa {
    fn group(&mut self, _: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        for txn in group {
            let Some(fields) = NcsaFields::gather(txn, &self.format) else { continue };
            self.line.clear();
            if self.format.line(&fields, &mut self.line) {
                self.out.write_all(&self.line)?;
            }
        }
        Ok(Flow::On)
    }

    fn idle(&mut self) -> io::Result<Flow> {
        self.out.flush()?;
        Ok(Flow::On)
    }

    fn hup(&mut self) -> Result<Flow, ToolFailure> {
        if !self.reopens {
            return Ok(Flow::Stop);
        }
        self.out.reopen().map_err(|e| cannot_open(&e))?;
        Ok(Flow::On)
    }
}
