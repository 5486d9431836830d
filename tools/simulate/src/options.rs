// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer simulate`.

use std::time::Duration;

use accesslog::Gathering;
use base::text;
use toolkit::args::{self, Arg, Args};
use toolkit::tool::{Tool, ToolInvocation};

use crate::case::Case;
use crate::curve::EvictBy;
use crate::scheme::VaryScheme;

const SYNOPSIS: &str = "\
Usage: lacquer simulate [options] LOG... [--or CHANGES]...
       lacquer simulate [options] -n DIR [--or CHANGES]...
";

const DETAILS: &str = "
Calculates from a log how large the cache should be: the hit rate for each cache size, with Lacquer's eviction and with
varnishd's (LRU). Sends no requests. The log may be any server's, or that of a running server.

LOG may be compressed with gzip; - is standard input. The log of a running server is read until Ctrl-C or -d.

Cache
 --size SIZE,...      Cache sizes, as for -s malloc,SIZE (default: powers of two until everything fits)
 --policy lacquer|lru  Only this eviction policy (default: both)
 --ttl TIME           TTL of objects (default: unlimited)
 --grace TIME         Grace: after its TTL an object is delivered once more while it is refreshed (default 10s)
 --drop-query NAMES   Ignore these query arguments: utm_*,ref or all
 --merge-www          Treat www.HOST and HOST as the same
 --vary FIELD         One variant for each value of this request header (may be repeated)
 --vary FIELD:a|b     One variant per class: contains a, contains b, other (Accept headers: the first known value)
 --pass PATH          Never cache URLs with this prefix (may be repeated)
 --pass-cookies       Never cache requests with a cookie, if the log has cookies
 --object-size SIZE   Size of objects for which the log has none (default: the average)
 --overhead SIZE      Bytes per object in addition to its body (default 400)
 --or CHANGES         Also simulate with these settings changed (may be repeated): --or --ttl 60s --or --merge-www
Selection
 --warm-up PERCENT    Use the first part of the requests only to fill the cache (default 0)
 --sample N           Keep at most this many requests in memory, by sampling URLs (default 500000)
 --bodies HOST:PORT   Fetch apparent duplicates from this server and compare them
 --log-format FORMAT  Line format, in Apache's LogFormat syntax (default: detected)
Output
 --format text|json|svg
Other
 -n DIR               Read the log of the server with this working directory (--live: the default one)
 -d TIME              Exit after this time
 -q                   Show no progress
 -h                   Show this help

These requests count as passed: methods other than GET and HEAD, requests with Authorization, responses with a status
other than 200, 203, 204, 206, 300, 301, 304, 404, 410, 414 and 416, and those that the log marks as passed. Percentages
refer to all requests and to all bytes sent. With sampling, the 95 % margin of error is shown. A log whose URLs rarely
repeat takes up to 160 MB of memory, and 100 MB more for each further key (--drop-query, --vary, ...).

The exit status is 0, 1 if no request was read, or 2 if an option is wrong or the log lacks what it requires.
";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SimulateFormat {
    #[default]
    Text,
    Json,
    Svg,
}

const MOST_CASES: usize = 12;
const MOST_SIZES: usize = 64;

#[derive(Clone, Debug)]
pub struct SimulateOptions {
    pub gathering: Gathering,
    /// The first is the log as it is.
    pub cases: Vec<Case>,
    /// Empty: as the log demands.
    pub sizes: Vec<u64>,
    pub policies: Vec<EvictBy>,
    /// A share of 1.
    pub warm_up: f64,
    pub sample: usize,
    pub bodies: Option<String>,
    pub format: SimulateFormat,
}

impl Default for SimulateOptions {
    fn default() -> Self {
        SimulateOptions {
            gathering: Gathering::default(),
            cases: vec![Case::default()],
            sizes: Vec::new(),
            policies: EvictBy::ALL.to_vec(),
            warm_up: 0.0,
            sample: 500_000,
            bodies: None,
            format: SimulateFormat::Text,
        }
    }
}

pub const TOOL: Tool = Tool { name: "lacquer simulate", synopsis: SYNOPSIS, details: DETAILS };

pub fn usage() -> String {
    TOOL.usage()
}

type Setting<'a> = (&'a str, &'a str);

pub fn parse(args: &[String]) -> Result<ToolInvocation<SimulateOptions>, String> {
    let mut options = SimulateOptions::default();
    // A request that VCL restarts says how it was answered where it ended.
    options.gathering.sources.with_caused = true;
    // Of the first case before any `--or`, else of the last of these.
    let mut settings = vec![Vec::<Setting<'_>>::new()];
    let mut args = Args::new(args);
    while let Some(arg) = args.next()? {
        if options.gathering.take(arg, &mut args)? {
            continue;
        }
        let Arg::Option(name) = arg else { return Ok(ToolInvocation::Help) };
        match name {
            "--size" => options.sizes = sizes(args.value()?)?,
            "--policy" => {
                options.policies = vec![args.one_of(&[("lacquer", EvictBy::Lacquer), ("lru", EvictBy::Lru)])?]
            }
            "--warm-up" => {
                let percent = |text: &str| text.trim_end_matches('%').parse::<f64>().ok();
                let share =
                    args.parsed("0 to 99 percent", |text| percent(text).filter(|p| (0.0..100.0).contains(p)))?;
                options.warm_up = share / 100.0;
            }
            "--sample" => options.sample = args.number(1000..=100_000_000)?,
            "--bodies" => options.bodies = Some(args.value()?.to_owned()),
            "--format" => {
                options.format = args.one_of(&[
                    ("text", SimulateFormat::Text),
                    ("json", SimulateFormat::Json),
                    ("svg", SimulateFormat::Svg),
                ])?;
            }
            "--or" => settings.push(Vec::new()),
            "--merge-www" | "--pass-cookies" => settings.last_mut().expect("there is one").push((name, "")),
            "--ttl" | "--grace" | "--drop-query" | "--vary" | "--pass" | "--object-size" | "--overhead" => {
                settings.last_mut().expect("there is one").push((name, args.value()?));
            }
            _ => return Err(args.unknown(&usage())),
        }
    }
    add_cases(&mut options, &settings)?;
    options.gathering.check()?;
    Ok(ToolInvocation::Run(options))
}

/// A hundred years, nearly.
const LONGEST_LIFE: Duration = Duration::from_hours(24 * 7 * 5200);

/// The first settings make the first case; the others change it.
fn add_cases(options: &mut SimulateOptions, settings: &[Vec<Setting<'_>>]) -> Result<(), String> {
    let (first, changes) = settings.split_first().expect("there is one");
    for (name, value) in first {
        apply(&mut options.cases[0], name, value)?;
    }
    if changes.len() >= MOST_CASES {
        return Err(format!("--or: {} at most", MOST_CASES - 1));
    }
    for change in changes {
        let mut case = options.cases[0].clone();
        if change.is_empty() {
            return Err("--or: what else?".into());
        }
        for (name, value) in change {
            apply(&mut case, name, value)?;
        }
        let words = change.iter().map(|(name, value)| format!("{name} {value}").trim_end().to_owned());
        case.words = words.collect::<Vec<_>>().join(" ");
        options.cases.push(case);
    }
    Ok(())
}

fn apply(case: &mut Case, name: &str, value: &str) -> Result<(), String> {
    match name {
        "--ttl" => case.lives.ttl = life(name, value, Duration::from_millis(1))?,
        "--grace" => case.lives.grace = life(name, value, Duration::ZERO)?,
        "--drop-query" => case.rules.scheme.dropped.add(value)?,
        "--merge-www" => case.rules.scheme.merges_www = true,
        "--vary" => case.rules.scheme.vary.push(VaryScheme::parse(value)?),
        "--pass-cookies" => case.rules.passes_cookies = true,
        "--pass" if value.starts_with('/') => case.rules.passes.push(value.to_owned()),
        "--pass" => return Err(format!("--pass {value}: a path, as /admin/")),
        "--object-size" => case.body = Some(size(name, value)?),
        _ => case.beside = size(name, value)?,
    }
    Ok(())
}

fn sizes(text: &str) -> Result<Vec<u64>, String> {
    let mut sizes = text.split(',').map(|one| size("--size", one)).collect::<Result<Vec<u64>, String>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() > MOST_SIZES || sizes.first() == Some(&0) {
        return Err(format!("--size {text}: up to {MOST_SIZES} sizes of a byte and more"));
    }
    Ok(sizes)
}

fn size(name: &str, value: &str) -> Result<u64, String> {
    let bytes = text::parse_bytes(value).filter(|bytes| *bytes <= 1 << 50);
    bytes.ok_or_else(|| format!("{name} {value}: a size, as 400, 64k or 2G"))
}

/// A time in nanoseconds.
fn life(name: &str, value: &str, least: Duration) -> Result<i64, String> {
    Ok(args::time(name, value, least..=LONGEST_LIFE)?.as_nanos() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<SimulateOptions, String> {
        match parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())? {
            ToolInvocation::Run(options) => Ok(options),
            ToolInvocation::Help => Err("help".into()),
        }
    }

    #[test]
    fn words_are_understood() {
        let o = words(
            "--size 1g,64m --policy=lru --warm-up 50% --ttl 2m --or --vary Cookie --ttl 1h --or --merge-www a.log",
        )
        .expect("right");
        assert_eq!((o.sizes, o.policies, o.warm_up), (vec![64 << 20, 1 << 30], vec![EvictBy::Lru], 0.5));
        assert_eq!(o.cases.len(), 3);
        assert_eq!(o.cases.iter().map(|c| c.lives.ttl / 1_000_000_000).collect::<Vec<_>>(), [120, 3600, 120]);
        assert_eq!(o.cases[1].words, "--vary Cookie --ttl 1h");
        assert_eq!(o.cases[2].words, "--merge-www");
        assert!(o.cases[2].rules.scheme.vary.is_empty() && o.cases[2].rules.scheme.merges_www);
        assert_eq!(o.gathering.sources.files, ["a.log"]);
        assert_eq!(words("-h").unwrap_err(), "help");
        let o = words("--ttl 60 --grace 0 a.log --or --ttl 500ms").expect("times as everywhere");
        assert_eq!((o.cases[0].lives.ttl, o.cases[0].lives.grace), (60_000_000_000, 0));
        assert_eq!(o.cases[1].lives.ttl, 500_000_000);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("", "which log"),
            ("--live x", "not both"),
            ("x --ttl 0", "--ttl 0: not a time from 1ms"),
            ("x --grace -1", "--grace -1: not a time from 0s"),
            ("x --or", "what else"),
            ("x --or --ttl never", "--ttl never"),
            ("x --size 0", "--size 0"),
            ("x --size 1,many", "--size many"),
            ("x --warm-up 100", "--warm-up 100"),
            ("x --sample 7", "--sample 7"),
            ("x --policy fifo", "--policy fifo"),
            ("x --pass admin", "--pass admin"),
            ("x --vary a:|", "--vary a:|"),
            ("x --format xml", "one of text, json, svg"),
            ("x --drop-query", "--drop-query needs a value"),
            ("x --fast", "--fast"),
            (&format!("x {}", "--or --merge-www ".repeat(12)), "11 at most"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
