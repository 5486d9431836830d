// SPDX-License-Identifier: BSD-2-Clause
//! varnishstat: the counters, once in several forms or on a screen that follows them.

mod filter;
mod once;
mod view;
mod window;

use std::time::Duration;

use filter::Filter;
use logq::getopt::{self, Found, Opt};
use logq::source::strerror;
use logq::tool::{Attach, Failure};
use shm::reader::Reader;
use sys::signal;

/// The options, with their help.
pub const OPTIONS: &[Opt] = &[
    Opt('1', "", "Print the counters once"),
    Opt('f', "glob", "Only counters that match (^glob: not those)"),
    Opt('h', "", "This text"),
    Opt('I', "glob", "Only counters that match; -I and -X are tried in order"),
    Opt('j', "", "Print the counters once, as JSON"),
    Opt('l', "", "List the counters"),
    Opt('n', "dir", "The working directory of varnishd"),
    Opt('r', "", "Gauges below zero as they are, not as 0"),
    Opt('t', "seconds|off", "How long to wait for varnishd (default: 5)"),
    Opt('V', "", "The version"),
    Opt('X', "glob", "Not the counters that match"),
    Opt('x', "", "Print the counters once, as XML"),
];

const MORE: &str = "
 --xml3                    As -x, in Varnish 3's layout (type, ident and name apart)
 --optstring               The options in getopt's notation

Examples:
 varnishstat                          follow the counters (h: keys)
 varnishstat -1 -I 'MAIN.cache_*'     hits and misses now
 varnishstat -j -X 'LCK.*'            for programs
";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Screen,
    Once,
    Xml,
    Xml3,
    Json,
    List,
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
    let usage = || getopt::usage(program, OPTIONS, MORE);
    let (found, rest) = match getopt::parse(args, OPTIONS, &["help", "optstring", "xml3"]) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprint!("{program}: {error}\n{}", usage());
            return Ok(1);
        }
    };
    let mut attach = Attach::default();
    let mut filter = Filter::default();
    let mut modes = Vec::new();
    for option in found {
        match option {
            Found::Short('1', _) => modes.push(Mode::Once),
            Found::Short('x', _) => modes.push(Mode::Xml),
            Found::Short('j', _) => modes.push(Mode::Json),
            Found::Short('l', _) => modes.push(Mode::List),
            Found::Short('r', _) => filter.raw = !filter.raw,
            Found::Short('n', name) => attach.name = Some(name),
            Found::Short('t', value) => attach.timeout(&value).map_err(Failure::new)?,
            Found::Short('V', _) => {
                eprint!("{}", logq::version::text(program));
                return Ok(0);
            }
            Found::Short('I', glob) => filter.include(&glob),
            Found::Short('X', glob) => filter.exclude(&glob),
            Found::Short('f', glob) => match glob.strip_prefix('^') {
                Some(glob) => filter.exclude(glob),
                None => filter.include(&glob),
            },
            Found::Long(name, _) if name == "xml3" => modes.push(Mode::Xml3),
            Found::Long(name, _) if name == "optstring" => {
                println!("{}", getopt::optstring(OPTIONS));
                return Ok(0);
            }
            Found::Short(..) | Found::Long(..) => {
                eprint!("{}", usage());
                return Ok(0);
            }
        }
    }
    if !rest.is_empty() {
        eprint!("{}", usage());
        return Ok(1);
    }
    let _ = signal::default(signal::SIGPIPE);
    let sleep = |time: Duration| {
        std::thread::sleep(time);
        false
    };
    let workdir = attach.wait(sleep).map_err(Failure::new)?;
    // Of several forms one is given, in this order.
    let mode = [Mode::Xml, Mode::Xml3, Mode::Json, Mode::Once, Mode::List].into_iter().find(|m| modes.contains(m));
    let mut reader = Reader::new(&workdir);
    if mode.is_none() {
        return view::follow(&mut reader, &workdir, filter)
            .map(|()| 0)
            .map_err(|e| Failure::new(format!("No screen: {}", strerror(&e))));
    }
    let readings = reader.read().map_err(|e| Failure::new(e.to_string()))?;
    let mode = mode.unwrap_or(Mode::Screen);
    let shown: Vec<_> = readings.iter().filter(|r| filter.shows(&r.full_name())).collect();
    let out = std::io::stdout();
    let mut out = std::io::BufWriter::new(out.lock());
    let written = match mode {
        Mode::Xml => once::xml(&mut out, &shown, filter.raw),
        Mode::Xml3 => once::xml3(&mut out, &shown, filter.raw),
        Mode::Json => once::json(&mut out, &shown, filter.raw),
        Mode::List => once::list(&mut out, &shown),
        Mode::Once | Mode::Screen => once::text(&mut out, &shown, once::uptime(&readings), filter.raw),
    };
    written.map_err(|e| Failure::new(format!("Cannot write: {}", strerror(&e))))?;
    Ok(0)
}
