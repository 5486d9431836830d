// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer simulate`.

use std::ops::RangeInclusive;
use std::time::Duration;

use accesslog::{Gathering, Gathers};
use base::text;
use toolkit::args::{self, Args};
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

use crate::bots::{self, BotsPlan};
use crate::case::Case;
use crate::curve::EvictBy;
use crate::scheme::VaryScheme;

const INTRODUCTION: &str = "\
Usage: lacquer simulate [options] LOG... [--or CHANGES]...
       lacquer simulate [options] -n DIR [--or CHANGES]...

Calculates from a log how large the cache should be: the hit rate for each cache size, with Lacquer's eviction and with
varnishd's (LRU). Sends no requests. The log may be any server's, or that of a running server.

LOG may be compressed with gzip; - is standard input. The log of a running server is read until Ctrl-C or -d.

Cache
";

const EPILOGUE: &str = "
These requests count as passed: methods other than GET and HEAD, requests with Authorization, responses with a status
other than 200, 203, 204, 206, 300, 301, 304, 404, 410, 414 and 416, and those that the log marks as passed. Percentages
refer to all requests and to all bytes sent. With sampling, the 95 % margin of error is shown. A log whose URLs rarely
repeat takes up to 160 MB of memory, and 100 MB more for each further key (--drop-query, --vary, ...).

The exit status is 0, 1 if no request was read, or 2 if an option is wrong or the log lacks what it requires.
";

const HELP: &[HelpPart<SimulateWords>] = &[
    (
        INTRODUCTION,
        &[
            opt!("--size SIZE,...": "Cache sizes, as for -s malloc,SIZE (default: powers of two until everything fits)" =>
                |o, args| o.options.sizes = sizes(args.value()?)?),
            opt!("--policy lacquer|lru": "Only this eviction policy (default: both)" =>
                |o, args| o.options.policies = vec![args.one_of(&[("lacquer", EvictBy::Lacquer), ("lru", EvictBy::Lru)])?]),
            opt!("--ttl TIME": "TTL of objects (default: unlimited)" => |o, args| o.set(args)?),
            opt!("--grace TIME": "Grace: after its TTL an object is delivered once more while it is refreshed (default 10s)" =>
                |o, args| o.set(args)?),
            opt!("--drop-query NAMES": "Ignore these query arguments: utm_*,ref or all" => |o, args| o.set(args)?),
            opt!("--merge-www": "Treat www.HOST and HOST as the same" => |o, args| o.switch_on(args)),
            opt!("--vary FIELD": "One variant for each value of this request header (may be repeated)" =>
                |o, args| o.set(args)?),
            Opt::line(
                "--vary FIELD:a|b",
                "One variant per class: contains a, contains b, other (Accept headers: the first known value)",
            ),
            opt!("--pass PATH": "Never cache URLs with this prefix (may be repeated)" => |o, args| o.set(args)?),
            opt!("--pass-cookies": "Never cache requests with a cookie, if the log has cookies" =>
                |o, args| o.switch_on(args)),
            opt!("--object-size SIZE": "Size of objects for which the log has none (default: the average)" =>
                |o, args| o.set(args)?),
            opt!("--overhead SIZE": "Bytes per object in addition to its body (default 400)" => |o, args| o.set(args)?),
            opt!("--or CHANGES": "Also simulate with these settings changed (may be repeated): --or --ttl 60s --or --merge-www" =>
                |o, _| o.changes.push(Vec::new())),
        ],
    ),
    (
        "Selection\n",
        &[
            opt!("--warm-up PERCENT": "Use the first part of the requests only to fill the cache (default 0)" =>
                |o, args| o.options.warm_up = args.parsed("0 to 99 percent", percent)? / 100.0),
            opt!("--sample N": "Keep at most this many requests in memory, by sampling URLs (default 500000)" =>
                |o, args| o.options.sample = args.number(1000..=100_000_000)?),
            opt!("--bodies HOST:PORT": "Fetch apparent duplicates from this server and compare them" =>
                |o, args| o.options.bodies = Some(args.text()?)),
            Gathers::LOG_FORMAT,
        ],
    ),
    (
        "Crawlers\n",
        &[
            opt!("--bots": "What varnishd's --bots=on would have done to these requests, instead of cache sizes" =>
                |o, _| o.with_bots = true),
            opt!("--fetch-time TIME": "With --bots: the origin's time for a fetch, if the log has none (default 100ms)" =>
                |o, args| o.fetch_time = Some(args.time(FETCH_TIMES)?)),
        ],
    ),
    (
        "Output\n",
        &[opt!("--format text|json|svg": "" =>
            |o, args| o.options.format = args.one_of(&[ ("text", SimulateFormat::Text), ("json", SimulateFormat::Json), ("svg", SimulateFormat::Svg), ])?)],
    ),
    ("Other\n", &[Gathers::LIVE, Gathers::DURATION, Gathers::QUIET, Opt::HELP]),
    (EPILOGUE, &[]),
];

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
    pub bots: Option<BotsPlan>,
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
            bots: None,
        }
    }
}

pub const TOOL: Tool<SimulateWords> = Tool { word: SimulateWords::file, ..Tool::new("lacquer simulate", HELP) };

/// An option of a case, and its value; a switch has an empty one.
type Setting = (String, String);

/// The options, and the settings of cases.
#[derive(Default)]
pub struct SimulateWords {
    options: SimulateOptions,
    first: Vec<Setting>,
    /// The settings behind each `--or`.
    changes: Vec<Vec<Setting>>,
    with_bots: bool,
    fetch_time: Option<Duration>,
}

impl Gathers for SimulateWords {
    fn gathering(&mut self) -> &mut Gathering {
        &mut self.options.gathering
    }
}

impl SimulateWords {
    fn set(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let setting = (args.name().to_owned(), args.value()?.to_owned());
        self.changes.last_mut().unwrap_or(&mut self.first).push(setting);
        Ok(())
    }

    fn switch_on(&mut self, args: &Args<'_>) {
        let setting = (args.name().to_owned(), String::new());
        self.changes.last_mut().unwrap_or(&mut self.first).push(setting);
    }
}

pub fn parse(words: &[String]) -> Result<Option<SimulateOptions>, String> {
    let mut initial = SimulateWords::default();
    // A request that VCL restarts says how it was answered where it ended.
    initial.options.gathering.sources.with_caused = true;
    let Some(words) = TOOL.read(initial, words)? else { return Ok(None) };
    let SimulateWords { mut options, first, changes, with_bots, fetch_time } = words;
    add_cases(&mut options, &first, &changes)?;
    if with_bots {
        options.bots = Some(bots_plan(&options, &first, fetch_time.unwrap_or(bots::USUAL_FETCH))?);
    } else if fetch_time.is_some() {
        return Err("--fetch-time needs --bots".into());
    }
    options.gathering.check()?;
    Ok(Some(options))
}

const FETCH_TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(1);

/// The plan of `--bots`. An option that changes nothing of its result is refused.
fn bots_plan(options: &SimulateOptions, first: &[Setting], fetch_time: Duration) -> Result<BotsPlan, String> {
    const OTHERS: [&str; 3] = ["--grace", "--object-size", "--overhead"];
    let usual = SimulateOptions::default();
    let other = [
        (options.cases.len() > 1, "--or"),
        (!options.sizes.is_empty(), "--size"),
        (options.policies != usual.policies, "--policy"),
        (options.warm_up > 0.0, "--warm-up"),
        (options.sample != usual.sample, "--sample"),
        (options.bodies.is_some(), "--bodies"),
        (options.format == SimulateFormat::Svg, "--format svg"),
    ];
    let other = other.iter().find(|(is_set, _)| *is_set).map(|(_, name)| *name);
    let setting = || first.iter().map(|(name, _)| name.as_str()).find(|name| OTHERS.contains(name));
    if let Some(name) = other.or_else(setting) {
        return Err(format!("--bots and {name} exclude each other"));
    }
    let case = &options.cases[0];
    let ttl = if case.lives.ttl == i64::MAX { bots::USUAL_TTL.as_secs_f64() } else { case.lives.ttl as f64 / 1e9 };
    Ok(BotsPlan { rules: case.rules.clone(), ttl, fetch_seconds: fetch_time.as_secs_f64() })
}

fn percent(text: &str) -> Option<f64> {
    text.trim_end_matches('%').parse().ok().filter(|percent| (0.0..100.0).contains(percent))
}

/// A hundred years, nearly.
const LONGEST_LIFE: Duration = Duration::from_hours(24 * 7 * 5200);

/// The first settings make the first case; the others change it.
fn add_cases(options: &mut SimulateOptions, first: &[Setting], changes: &[Vec<Setting>]) -> Result<(), String> {
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
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())?.ok_or_else(|| "help".into())
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
        let bots = |line: &str| words(line).expect("right").bots.map(|plan| (plan.ttl, plan.fetch_seconds));
        assert_eq!(bots("--bots a.log"), Some((120.0, 0.1)));
        assert_eq!(bots("--fetch-time 2s --ttl 60 --bots a.log"), Some((60.0, 2.0)));
        assert_eq!(bots("--ttl 60 a.log"), None);
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
            ("x --fetch-time 1s", "--fetch-time needs --bots"),
            ("x --bots --size 1m", "--bots and --size exclude"),
            ("x --bots --ttl 1m --overhead 3", "--bots and --overhead exclude"),
            ("x --bots --or --merge-www", "--bots and --or exclude"),
            ("x --bots --format svg", "--bots and --format svg exclude"),
            ("x --bots --fetch-time 0", "--fetch-time 0: not a time from 1ms"),
            (&format!("x {}", "--or --merge-www ".repeat(12)), "11 at most"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
