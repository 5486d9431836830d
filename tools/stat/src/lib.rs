// SPDX-License-Identifier: BSD-2-Clause
//! varnishstat: the counters, once in several forms or on a screen that follows them.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod filter;
mod once;
mod statsd;
mod view;
mod window;

use std::io::IsTerminal;
use std::time::Duration;

use filter::StatFilter;
use logq::getopt::{OptMatch, ToolOption};
use logq::live::no_screen;
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::source::strerror;
use logq::tool::{Attach, ToolFailure};
use shm::reader::CounterReader;
use statsd::Statsd;
use sys::signal;

pub const OPTIONS: &[ToolOption] = &[
    ToolOption('1', "", "Print the counters once and exit, the default when the output is no terminal"),
    ToolOption('c', "", "Show the counters live, the default on a terminal"),
    ToolOption('f', "glob", "Only counters that match (^glob: exclude them)"),
    rows::HELP,
    ToolOption('I', "glob", "Include counters that match; -I and -X are tested in order"),
    ToolOption('j', "", "Print the counters once, as JSON"),
    ToolOption('l', "", "List the counters"),
    rows::SERVER,
    ToolOption('r', "", "Show negative gauges as they are instead of as 0"),
    rows::PATIENCE,
    rows::VERSION,
    ToolOption('X', "glob", "Exclude counters that match"),
    ToolOption('x', "", "Print the counters once, as XML"),
];

const MORE: &str = "
 --xml3                    As -x, in Varnish 3's layout (type, ident and name separate)
 --statsd <target>         Send the counters to a statsd: HOST[:PORT] or /path/of/socket
   --interval <time>       Time between two exports (default: 10s)
   --prefix <text>         Prefix of each name (default: varnish.)
 --optstring               Print the options in getopt's notation

Examples:
 varnishstat                          show the counters live (h: keys)
 varnishstat -1 -I 'MAIN.cache_*'     hits and misses now
 varnishstat -j -X 'LCK.*'            JSON for programs
 varnishstat --statsd 127.0.0.1 -X 'LCK.*' -X 'MEMPOOL.*'
";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Live,
    Once,
    Xml,
    Xml3,
    Json,
    List,
}

pub fn main(program: &str, args: &[String]) -> i32 {
    let long = &["xml3", "statsd", "interval", "prefix"];
    let cli = ToolCli { options: OPTIONS, long, valued: &["statsd", "interval", "prefix"], more: MORE };
    program::main(program, args, &cli, Config::default())
}

#[derive(Default)]
struct Config {
    attach: Attach,
    filter: StatFilter,
    modes: Vec<Mode>,
    statsd: Option<Statsd>,
}

/// Times between two looks at the counters.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        match option {
            OptMatch::Short('1', _) => self.modes.push(Mode::Once),
            OptMatch::Short('c', _) => self.modes.push(Mode::Live),
            OptMatch::Short('x', _) => self.modes.push(Mode::Xml),
            OptMatch::Short('j', _) => self.modes.push(Mode::Json),
            OptMatch::Short('l', _) => self.modes.push(Mode::List),
            OptMatch::Short('r', _) => self.filter.raw = !self.filter.raw,
            OptMatch::Short('n', name) => self.attach.name = Some(name),
            OptMatch::Short('t', value) => self.attach.timeout(&value).map_err(ToolFailure::new)?,
            OptMatch::Short('I', glob) => self.filter.include(&glob),
            OptMatch::Short('X', glob) => self.filter.exclude(&glob),
            OptMatch::Short('f', glob) => match glob.strip_prefix('^') {
                Some(glob) => self.filter.exclude(glob),
                None => self.filter.include(&glob),
            },
            OptMatch::Long(name, _) if name == "xml3" => self.modes.push(Mode::Xml3),
            OptMatch::Long(name, target) if name == "statsd" => {
                self.statsd = Some(Statsd::new(&target).map_err(ToolFailure::new)?);
            }
            OptMatch::Long(name, value) if name == "interval" || name == "prefix" => {
                let Some(statsd) = &mut self.statsd else {
                    return Err(ToolFailure::new(format!("--{name} belongs behind --statsd")));
                };
                if name == "prefix" {
                    statsd.prefix = value;
                    return Ok(());
                }
                let seconds = base::text::parse_duration(&value).filter(|seconds| INTERVALS.contains(seconds));
                let bad = || ToolFailure::new(format!("--interval={value}: write a time from 0.1s to 1h"));
                statsd.interval = Duration::from_secs_f64(seconds.ok_or_else(bad)?);
            }
            OptMatch::Short(..) | OptMatch::Long(..) => return Err(ToolFailure::new("unknown option")),
        }
        Ok(())
    }

    fn run(self) -> Result<i32, ToolFailure> {
        let Config { attach, filter, modes, statsd } = self;
        if statsd.is_some() && !modes.is_empty() {
            return Err(ToolFailure::new("--statsd goes with none of -1, -c, -x, -j and -l"));
        }
        let _ = signal::default(signal::SIGPIPE);
        let workdir = attach.wait_asleep().map_err(ToolFailure::new)?;
        // Of several forms one is given, in this order.
        let order = [Mode::Live, Mode::Xml3, Mode::Xml, Mode::Json, Mode::Once, Mode::List];
        let default = if std::io::stdout().is_terminal() { Mode::Live } else { Mode::Once };
        let mut reader = CounterReader::new(&workdir);
        if let Some(statsd) = statsd {
            return statsd.run(&mut reader, &filter).map(|()| 0);
        }
        let mode = order.into_iter().find(|mode| modes.contains(mode)).unwrap_or(default);
        if mode == Mode::Live {
            return view::follow(&mut reader, &workdir, filter)
                .map(|()| 0)
                .map_err(|e| no_screen(&e, "Without one, -1 prints the counters, -j as JSON"));
        }
        let readings = reader.read().map_err(|e| ToolFailure::new(e.to_string()))?;
        let shown: Vec<_> = readings.iter().filter(|r| filter.shows(&r.full_name())).collect();
        let out = std::io::stdout();
        let mut out = std::io::BufWriter::new(out.lock());
        let written = match mode {
            Mode::Xml => once::xml(&mut out, &shown, filter.raw),
            Mode::Xml3 => once::xml3(&mut out, &shown, filter.raw),
            Mode::Json => once::json(&mut out, &shown, filter.raw),
            Mode::List => once::list(&mut out, &shown),
            Mode::Live | Mode::Once => once::text(&mut out, &shown, once::uptime(&readings), filter.raw),
        };
        written.map_err(|e| ToolFailure::new(format!("Cannot write: {}", strerror(&e))))?;
        Ok(0)
    }
}
