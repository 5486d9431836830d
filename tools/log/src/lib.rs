// SPDX-License-Identifier: BSD-2-Clause
//! varnishlog, which shows the log or writes it to a file, and varnishlog-json.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod json;
mod lines;
mod writer;

use std::io::{self, IsTerminal, Write};

use lines::{LogLineFormat, LogLines};
use writer::RecordWriter;

use logq::getopt::{OptMatch, ToolOption};
use logq::output::ToolOutput;
use logq::print::{self, PrintLook, PrintStyle};
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::source::strerror;
use logq::tool::ToolFailure;
use logq::{Flow, Grouping, LogTool, Select, ToolSink, Txn, records};
use shm::vsl::LogFormat;

pub const OPTIONS: &[ToolOption] = &[
    rows::APPEND,
    ToolOption('A', "", "With -w: write text instead of binary records"),
    rows::BACKENDS,
    rows::CLIENTS,
    rows::IGNORE_CASE,
    rows::TO_THE_END,
    rows::DAEMON,
    rows::ESI,
    ToolOption('g', "session|request|vxid|raw", "How records are grouped (default: vxid)"),
    rows::HELP,
    rows::TAGS,
    rows::MATCHES,
    rows::MOST_GROUPS,
    rows::MOST_INCOMPLETE,
    rows::SERVER,
    rows::PID_FILE,
    rows::QUERY_FILE,
    rows::QUERY,
    ToolOption('r', "filename", "Read a file that -w wrote (-: standard input)"),
    rows::RATE,
    rows::PATIENCE,
    rows::SHOW_INCOMPLETE,
    ToolOption('u', "", "With -w: write unbuffered"),
    ToolOption('v', "", "Prefix each line with its transaction ID"),
    rows::VERSION,
    rows::OUTPUT,
    rows::OTHER_TAGS,
    rows::OTHER_MATCHES,
];

const MORE: &str = "
 --format <json|ncsa>      One line per request, with its fetches and ESI fragments (-g vxid: per transaction)
   --names <lacquer|ecs|otel> Naming scheme of the JSON fields (default: lacquer)
   --show-field <name>     Include the value of a header that may be secret, such as Cookie or Authorization
   --to <receiver>         Send the lines: tcp:HOST:PORT, unix:PATH, syslog, syslog:HOST[:PORT]
   --queue <size>          Buffer for lines while the receiver is slow or down (default: 16m)
 --json                    One JSON object per transaction, with all its records
 --legacy                  Layout and tag names of Varnish 3 (four columns)
 --color[=always|never]    Colours (default: on a terminal, unless NO_COLOR is set)
 --optstring               Print the options in getopt's notation

Examples:
 varnishlog -g request -q 'RespStatus >= 500'   failed requests with their fetches
 varnishlog -b -i BereqURL,Timestamp            response times of the backends
 varnishlog -D -w /var/log/varnish.log          store the log; -r reads it
 varnishlog --format json -D -w access.json     one request per line; SIGHUP reopens the file
";

pub fn main(program: &str, args: &[String]) -> i32 {
    let long = &["json", "legacy", "color", "format", "names", "show-field", "to", "queue"];
    let valued = &["format", "names", "show-field", "to", "queue"];
    let cli = ToolCli { options: OPTIONS, long, valued, more: MORE };
    program::main(program, args, &cli, Config::default())
}

#[derive(Default)]
struct Config {
    tool: LogTool,
    append: bool,
    text: bool,
    unbuffered: bool,
    file: Option<String>,
    style: Option<PrintStyle>,
    colour: Option<bool>,
    lines: Option<LogLines>,
    is_grouped: bool,
}

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        match option {
            OptMatch::Short('a', _) => self.append = true,
            OptMatch::Short('A', _) => self.text = true,
            OptMatch::Short('u', _) => self.unbuffered = true,
            OptMatch::Short('w', file) => self.file = Some(file),
            OptMatch::Short(letter, value) => {
                self.is_grouped |= letter == 'g';
                self.tool.option(letter, &value).map_err(ToolFailure::new)?;
            }
            OptMatch::Long(name, value) => match (name.as_str(), value.as_str()) {
                ("json", "") => self.style = Some(PrintStyle::Json),
                ("legacy", "") => {
                    self.style = Some(PrintStyle::FourColumns);
                    self.tool.grouping = logq::Grouping::Raw;
                }
                ("color", "" | "always") => self.colour = Some(true),
                ("color", "never") => self.colour = Some(false),
                ("format", "json") => self.lines = Some(LogLines::new(LogLineFormat::Json)),
                ("format", "ncsa") => self.lines = Some(LogLines::new(LogLineFormat::Ncsa)),
                ("names" | "show-field" | "to" | "queue", value) => match &mut self.lines {
                    Some(lines) => lines.option(&name, value)?,
                    None => return Err(ToolFailure::new(format!("--{name} belongs behind --format"))),
                },
                _ => return Err(ToolFailure::new(format!("--{name}: Invalid value '{value}'"))),
            },
        }
        Ok(())
    }

    fn run(mut self) -> Result<i32, ToolFailure> {
        if let Some(lines) = self.lines.take() {
            return self.run_lines(lines);
        }
        self.tool.check_daemon(self.file.as_deref())?;
        let is_binary = self.file.is_some() && !self.text && self.style.is_none();
        if is_binary {
            // Files need these to be grouped again. The first keeps -i from hiding all others.
            for (letter, tag) in [('x', "Link"), ('i', "Link"), ('i', "Begin"), ('i', "End")] {
                self.tool.select.option(letter, tag).map_err(ToolFailure::new)?;
            }
        }
        let is_terminal = self.file.as_deref().is_none_or(|file| file == "-") && io::stdout().is_terminal();
        let has_colours = self.colour.unwrap_or(is_terminal && std::env::var_os("NO_COLOR").is_none());
        let look = PrintLook { style: self.style.unwrap_or(PrintStyle::Text), has_colours, is_terminal };
        let out = ToolOutput::open(self.file, self.append, !self.unbuffered).map_err(|e| cannot_open(&e))?;
        let reopens = self.tool.daemon;
        let records = is_binary.then(RecordWriter::default);
        self.tool.run(&mut Log { look, records, reopens, out })?;
        Ok(0)
    }
}

impl Config {
    fn run_lines(mut self, lines: LogLines) -> Result<i32, ToolFailure> {
        if !lines.has_receiver() {
            self.tool.check_daemon(self.file.as_deref())?;
        }
        if self.style.is_some() || self.text {
            return Err(ToolFailure::new("--format is a form of its own: leave out -A, --json and --legacy"));
        }
        if lines.format == LogLineFormat::Ncsa && !self.tool.select.backend {
            // As varnishncsa: clients' requests, fragments if they are asked for.
            self.tool.select.client = true;
        }
        if !self.is_grouped {
            self.tool.grouping = if lines.format == LogLineFormat::Json { Grouping::Request } else { Grouping::Vxid };
        }
        let (file, append, is_buffered) = (self.file, self.append, !self.unbuffered);
        let mut sink = lines.open(file.is_some(), || {
            ToolOutput::open(file, append, is_buffered).map_err(|error| cannot_open(&error))
        })?;
        self.tool.run(&mut sink)?;
        Ok(0)
    }
}

struct Log {
    look: PrintLook,
    records: Option<RecordWriter>,
    reopens: bool,
    out: ToolOutput,
}

fn cannot_open(error: &io::Error) -> ToolFailure {
    ToolFailure { status: 2, text: format!("Cannot open output file ({})", strerror(error)) }
}

impl ToolSink for Log {
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        let Some(writer) = &mut self.records else {
            print::group(&mut self.out, select, self.look, group)?;
            return Ok(Flow::On);
        };
        for txn in group {
            for rec in records(txn.records).filter(|rec| select.shows(rec)) {
                writer.write(&rec, &mut self.out)?;
            }
        }
        Ok(Flow::On)
    }

    fn follows(&mut self, format: LogFormat) -> io::Result<()> {
        self.records.as_mut().map_or(Ok(()), |writer| writer.follow(format, &mut self.out))
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
        if let Some(writer) = &mut self.records {
            writer.begin(&mut self.out).map_err(|e| cannot_open(&e))?;
        }
        Ok(Flow::On)
    }
}
