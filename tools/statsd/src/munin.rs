// SPDX-License-Identifier: BSD-2-Clause
//! A Munin plugin for every counter of an accelerator (through its shared memory) or of a statsd (through its management
//! port). The link it is called through says which: `lacquer_MAIN.cache` shows what begins with `MAIN.cache`.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use base::lookup::addresses_of_text;
use shm::reader::{CounterReader, CounterValue};
use tables::counters::{CounterFormat, CounterKind};
use toolkit::opt;
use toolkit::options::HelpPart;
use toolkit::print;
use toolkit::tool::{AfterError, Tool};

use crate::number;

/// Longest wait for a statsd's answer.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES: u64 = 64 << 20;
const LABEL_CHARS: usize = 60;

const INTRODUCTION: &str = "\
Usage: lacquer munin [-n NAME] [--statsd HOST:PORT] [PREFIX] [config|autoconf|suggest]

A Munin plugin for all counters whose names begin with PREFIX. Prints the values; with config the description of the
graph, with autoconf whether there is anything to read, and with suggest prefixes that make useful graphs.

";

const EPILOGUE: &str = "
If installed as a link, the link's name selects the counters:

  ln -s /usr/bin/lacquer /etc/munin/plugins/lacquer_MAIN.cache    the cache's MAIN.cache...
  ln -s /usr/bin/lacquer /etc/munin/plugins/statsd_site           a statsd's counters, gauges and timers site...

Examples:

  lacquer munin suggest
  lacquer munin MAIN.cache config
  lacquer munin --statsd 127.0.0.1:8126 site
";

const HELP: &[HelpPart<MuninCall>] = &[
    (
        INTRODUCTION,
        &[
            opt!("-n NAME": "working directory of the cache, as varnishd's -n (also: env.name)" =>
                |o, args| o.workdir = Some(args.text()?)),
            opt!("--statsd HOST:PORT": "management port of a statsd instead (also: env.statsd)" =>
                |o, args| o.statsd = Some(args.text()?)),
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: Tool<MuninCall> = Tool {
    indent: 2,
    word: MuninCall::word,
    suggests: false,
    after_error: AfterError::Usage,
    failure: 1,
    ..Tool::new("lacquer munin", HELP)
};

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    label: String,
    info: String,
    /// True for a counter, which only grows.
    counts: bool,
    bytes: bool,
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Values,
    Config,
    Autoconf,
    Suggest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuninCall {
    mode: Mode,
    prefix: String,
    workdir: Option<String>,
    statsd: Option<String>,
    dirty: bool,
}

pub fn main(program: &str, args: &[String]) -> i32 {
    let parse = |words: &[String]| TOOL.read(MuninCall::new(program, |name| std::env::var(name).ok()), words);
    TOOL.main(args, parse, |call| {
        let fields = match read(&call) {
            Ok(fields) => fields,
            // Munin wants this answer with exit code 0.
            Err(reason) if call.mode == Mode::Autoconf => {
                print::out(format_args!("no ({reason})\n"));
                return Ok(0);
            }
            Err(reason) => return Err(reason),
        };
        print::out(match call.mode {
            Mode::Autoconf => "yes\n".to_owned(),
            Mode::Suggest => suggestions(&fields),
            Mode::Config if call.dirty => config(&call, &shown(&call, fields.clone())) + &values(&shown(&call, fields)),
            Mode::Config => config(&call, &shown(&call, fields)),
            Mode::Values => values(&shown(&call, fields)),
        });
        Ok(0)
    })
}

impl MuninCall {
    fn new(program: &str, variable: impl Fn(&str) -> Option<String>) -> MuninCall {
        let mut call = MuninCall {
            mode: Mode::Values,
            prefix: String::new(),
            workdir: variable("name"),
            statsd: variable("statsd"),
            dirty: variable("MUNIN_CAP_DIRTYCONFIG").as_deref() == Some("1"),
        };
        if let Some((stem, prefix)) = program.split_once('_') {
            call.prefix = prefix.to_owned();
            if stem == "statsd" && call.statsd.is_none() {
                call.statsd = Some("127.0.0.1:8126".to_owned());
            }
        }
        call
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        match word {
            "config" => self.mode = Mode::Config,
            "autoconf" => self.mode = Mode::Autoconf,
            "suggest" => self.mode = Mode::Suggest,
            prefix => self.prefix = prefix.to_owned(),
        }
        Ok(())
    }
}

fn read(call: &MuninCall) -> Result<Vec<Field>, String> {
    match &call.statsd {
        Some(address) => {
            let text = ask(address).map_err(|error| format!("{address}: {error}"))?;
            Ok(text.lines().filter_map(of_total).collect())
        }
        None => {
            let found = shm::reader::find(call.workdir.as_deref()).map_err(|unfound| unfound.to_string())?;
            let readings = CounterReader::new(&found.workdir).read().map_err(|error| error.to_string())?;
            Ok(readings.iter().filter_map(of_reading).collect())
        }
    }
}

fn of_reading(reading: &CounterValue) -> Option<Field> {
    let about = &reading.about;
    // Bits are nothing to draw.
    if about.kind == CounterKind::Bitmap {
        return None;
    }
    let counts = about.kind == CounterKind::Counter;
    let value = if counts { reading.value as f64 } else { reading.signed() as f64 };
    let bytes = about.format == CounterFormat::Bytes;
    Some(Field {
        name: reading.full_name(),
        label: about.name.clone(),
        info: about.oneliner.clone(),
        counts,
        bytes,
        value,
    })
}

/// A line of a statsd's `totals`: type, name and value with tabs between them.
fn of_total(line: &str) -> Option<Field> {
    let mut parts = line.splitn(3, '\t');
    let (kind, name, value) = (parts.next()?, parts.next()?, parts.next()?);
    let value = number::parse(value.as_bytes())?;
    let counts = matches!(kind, "c" | "t");
    Some(Field { name: name.to_owned(), label: name.to_owned(), info: String::new(), counts, bytes: false, value })
}

fn ask(address: &str) -> io::Result<String> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for addr in addresses_of_text(address)? {
        match TcpStream::connect_timeout(&addr, PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"totals\nquit\n")?;
                let mut text = String::new();
                stream.take(ANSWER_BYTES).read_to_string(&mut text)?;
                if !text.contains("\nEND\n") && !text.starts_with("END\n") {
                    return Err(io::Error::other("this statsd doesn't know the command `totals`"));
                }
                return Ok(text);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn shown(call: &MuninCall, fields: Vec<Field>) -> Vec<Field> {
    fields.into_iter().filter(|field| field.name.starts_with(&call.prefix)).collect()
}

fn config(call: &MuninCall, fields: &[Field]) -> String {
    let (what, category) = if call.statsd.is_some() { ("statsd", "statsd") } else { ("Lacquer", "webserver") };
    let subject = if call.prefix.is_empty() { "all counters" } else { call.prefix.trim_end_matches(['.', '_']) };
    let all = |test: fn(&Field) -> bool| !fields.is_empty() && fields.iter().all(test);
    let unit = if all(|f| f.bytes) { "bytes" } else { "number" };
    let vlabel = if all(|f| f.counts) { format!("{unit} per ${{graph_period}}") } else { unit.to_owned() };
    let base = if unit == "bytes" { "--base 1024" } else { "--base 1000" };
    let mut out = format!(
        "graph_title {what} {}\ngraph_vlabel {vlabel}\ngraph_category {category}\ngraph_args {base}\n",
        one_line(subject)
    );
    for (id, field) in ids(fields).iter().zip(fields) {
        let kind = if field.counts { "DERIVE" } else { "GAUGE" };
        out.push_str(&format!("{id}.label {}\n{id}.type {kind}\n", label(field)));
        if field.counts {
            out.push_str(&format!("{id}.min 0\n"));
        }
        if !field.info.is_empty() {
            out.push_str(&format!("{id}.info {}\n", one_line(&field.info)));
        }
    }
    out
}

/// DERIVE takes whole numbers only.
fn values(fields: &[Field]) -> String {
    let line = |(id, field): (&String, &Field)| match field.value {
        v if !v.is_finite() => format!("{id}.value U\n"),
        v if field.counts => format!("{id}.value {}\n", number::show(v.floor())),
        v => format!("{id}.value {}\n", number::show(v)),
    };
    ids(fields).iter().zip(fields).map(line).collect()
}

/// Munin's field names: letters, digits and `_`, not beginning with a digit, each once.
fn ids(fields: &[Field]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let id = |field: &Field| {
        let mut id: String = field.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if !id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || id == "root" {
            id.insert(0, '_');
        }
        while !seen.insert(id.clone()) {
            id.push('_');
        }
        id
    };
    fields.iter().map(id).collect()
}

fn label(field: &Field) -> String {
    let text = one_line(&field.label);
    // `#` begins a comment, and a leading `-` hides a field.
    text.trim_start_matches('-').replace('#', "").chars().take(LABEL_CHARS).collect()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Sets that make a graph each; a large set by the first word of its counters' names.
fn suggestions(fields: &[Field]) -> String {
    const LARGE: usize = 30;
    let set = |field: &Field| field.name.rsplit_once('.').map_or(String::new(), |(set, _)| set.to_owned());
    let mut out = BTreeSet::new();
    for field in fields {
        let set = set(field);
        let members = fields.iter().filter(|f| f.name.starts_with(&format!("{set}."))).count();
        if set.is_empty() || members > LARGE {
            let start = if set.is_empty() { 0 } else { set.len() + 1 };
            let word = field.name[start..].split('_').next().unwrap_or_default();
            let prefix = &field.name[..start + word.len()];
            if fields.iter().filter(|f| f.name.starts_with(prefix)).count() > 1 {
                out.insert(prefix.to_owned());
            }
        } else {
            out.insert(format!("{set}."));
        }
    }
    out.into_iter().map(|prefix| prefix + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, counts: bool, value: f64) -> Field {
        Field { name: name.to_owned(), label: name.to_owned(), info: String::new(), counts, bytes: false, value }
    }

    fn called(program: &str, args: &[&str]) -> MuninCall {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        TOOL.read(MuninCall::new(program, |_| None), &args).unwrap().unwrap()
    }

    #[test]
    fn the_link_says_what_to_show() {
        assert_eq!(called("lacquer_MAIN.cache", &["config"]).prefix, "MAIN.cache");
        assert_eq!(called("lacquer_MAIN.cache", &["config"]).mode, Mode::Config);
        let statsd = called("statsd_site", &[]);
        assert_eq!((statsd.prefix.as_str(), statsd.statsd.as_deref()), ("site", Some("127.0.0.1:8126")));
        assert_eq!(called("lacquer", &["-n", "/x", "SMA"]).workdir.as_deref(), Some("/x"));
        assert!(TOOL.read(MuninCall::new("lacquer", |_| None), &["--what".to_owned()]).is_err());
    }

    #[test]
    fn counters_are_derived_and_gauges_are_not() {
        let fields = [field("a.b", true, 7.5), field("a-b", false, 0.5), field("1", false, f64::NAN)];
        let text = config(&called("statsd_", &[]), &fields);
        assert_eq!(
            text,
            "graph_title statsd all counters\ngraph_vlabel number\ngraph_category statsd\ngraph_args --base 1000\n\
             a_b.label a.b\na_b.type DERIVE\na_b.min 0\na_b_.label a-b\na_b_.type GAUGE\n_1.label 1\n_1.type GAUGE\n"
        );
        assert_eq!(values(&fields), "a_b.value 7\na_b_.value 0.5\n_1.value U\n");
    }

    #[test]
    fn suggestions_are_prefixes() {
        let mut fields: Vec<Field> = (0..40).map(|n| field(&format!("MAIN.x{}_{n}", n % 20), true, 0.0)).collect();
        fields.push(field("SMA.s0.c_req", true, 0.0));
        let text = suggestions(&fields);
        assert!(text.starts_with("MAIN.x0\nMAIN.x1\n") && text.ends_with("SMA.s0.\n"), "{text}");
    }

    #[test]
    fn totals_are_read() {
        assert_eq!(of_total("c\ta.b\t3"), Some(field("a.b", true, 3.0)));
        assert_eq!(of_total("g\ta b\t-1.5"), Some(field("a b", false, -1.5)));
        assert_eq!(of_total("END"), None);
        assert_eq!(of_total("c\ta\tx"), None);
    }
}
