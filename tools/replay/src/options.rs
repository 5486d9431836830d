// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer replay`: the options, each in a row. `settle` checks them together.

mod settle;

use std::net::IpAddr;
use std::path::PathBuf;

use accesslog::LogFormat;
use base::text;
use shm::reader::CounterReader;
use tls::{Spoken, Trust};
use toolkit::args::Args;
use toolkit::opt;
use toolkit::options::HelpPart;
use toolkit::tool::{AfterError, Tool};

use crate::engine::ReplayLimits;
use crate::fleet::worker::Serve;
use crate::pace::ReplayPace;
use crate::reader::ReadingPlan;
use crate::scenario::{self, ReplayScenario, ScenarioLimit};
use crate::server::WatchedServer;
use crate::stream::Keep;

const INTRODUCTION: &str = "\
Usage: lacquer replay --to ADDRESS [OPTION...] SOURCE...
       lacquer replay --serve [HOST:]PORT [--secret FILE] [--bind ADDRESS[-LAST]]
       lacquer replay --compare A.json B.json...

Sends the requests of a log to a server and measures how it answers. Load only servers that you may load.

SOURCE is a log of a web server or of varnishncsa, a list of URLs (also `METHOD URL`, with headers after tabs), or a file
written by varnishlog -w. It may be compressed with gzip; `-` is standard input. Several are read one after the other.
";

const EPILOGUE: &str = "
Ctrl-C ends a run early and prints the report so far. The exit status is 0, or 1 if no request was answered, the run
ended during its warm-up or was given up, or a worker was lost.
TIME is 500ms, 10s, 5m, 1h, or a number of seconds.

Examples:
  lacquer replay --to 127.0.0.1:6081 access.log
  lacquer replay --to 127.0.0.1:6081 --rate 2000 -d 1m --loop --format json access.log > a.json
  lacquer replay --to 127.0.0.1:6081 --speed 4 access.log.1.gz access.log
";

const HELP: &[HelpPart<ReplayWords>] = &[
    (INTRODUCTION, &[]),
    (
        "\nSource:\n",
        &[
            opt!("-n DIR, --live[=DIR]": "Replay the requests of a running server instead of files" => |o, args| {
                let name = if args.name() == "-n" { Some(args.value()?) } else { args.joined_value() };
                o.options.plan.sources.live = Some(CounterReader::workdir_of(name))
            }),
            opt!("--log-format FORMAT": "Line format, in Apache's LogFormat syntax (default: detected)" =>
                |o, args| o.options.plan.sources.format = Some(LogFormat::parse(args.value()?)?)),
        ],
    ),
    (
        "\nTarget:\n",
        &[
            opt!("--to ADDRESS": "Send all requests to HOST:PORT, https://HOST[:PORT] or unix:PATH" =>
                |o, args| o.target.to = Some(args.text()?)),
            opt!("--map HOST=ADDRESS": "Send the requests of this host to another address (may be repeated)" =>
                |o, args| o.target.map.push(args.text()?)),
            opt!("--each-host": "Instead of --to: send the requests of each host to its own address" =>
                |o, _| o.target.each_host = true),
            opt!("--host NAME": "Host header of requests for which the source has none" =>
                |o, args| o.options.plan.extras.host = Some(args.text()?)),
            opt!("--sni NAME": "Name for TLS (SNI), also verified (default: each request's host)" =>
                |o, args| o.target.sni = Some(args.text()?)),
            opt!("--ca FILE": "Trust these authorities (PEM) instead of the system's" =>
                |o, args| o.target.ca = Some(args.value()?.into())),
            opt!("--no-verify": "Accept any certificate" => |o, _| o.target.no_verify = true),
            opt!("--no-resume": "Make full TLS handshakes instead of resuming sessions" =>
                |o, _| o.target.no_resume = true),
            opt!("--http2": "HTTP/2, one request at a time per connection; over TLS (ALPN) or in clear text" =>
                |o, _| o.target.http2 = true),
            opt!("--http3": "HTTP/3, one request at a time per connection; only to https:// addresses" =>
                |o, _| o.target.http3 = true),
            opt!("--bind ADDRESS[-LAST]": "Use these source addresses in turn: a single one has about 28,000 ports" =>
                |o, args| o.options.limits.bind.extend(args.parsed(NOT_UNDERSTOOD, addresses)?)),
        ],
    ),
    (
        "\nRequests:\n",
        &[
            opt!("--methods LIST": "Methods to send (default GET,HEAD; `all`). Logs contain no bodies" => |o, args| {
                o.options.plan.methods = match args.value()? {
                    "all" => Vec::new(),
                    list => list.split(',').map(|method| method.trim().to_uppercase()).collect(),
                }
            }),
            opt!("-H, --header 'NAME: V'": "Set this header in every request; `NAME:` alone removes it" =>
                |o, args| o.options.plan.extras.fields.push(args.parsed(NOT_UNDERSTOOD, field)?)),
            opt!("--order log|shuffle": "Keep the source's order (default), or shuffle (with --speed: at the log's times)" =>
                |o, args| o.pace.is_shuffled = word(args, &[("log", false), ("shuffle", true)])?),
            opt!("--seed N": "Seed of random choices (default 1)" =>
                |o, args| o.options.plan.seed = number(args, 0, u64::MAX)?),
            opt!("--window N": "With --order shuffle: shuffle within this many requests (default 100000)" =>
                |o, args| o.pace.window = Some(number(args, 1, 10_000_000)? as usize)),
            opt!("--loop": "Start again at the end of the source" => |o, _| o.options.plan.repeat = true),
        ],
    ),
    (
        "\nPace (default: each connection sends as soon as it has its response):\n",
        &[
            opt!("--think TIME[-TIME]": "Each connection waits this long after a response" =>
                |o, args| o.pace.think = Some(args.parsed(NOT_UNDERSTOOD, times)?)),
            opt!("--rate N": "Open loop: N requests per second; latency is measured from when each was due" =>
                |o, args| o.pace.rate = Some(positive(args.name(), args.value()?)?)),
            opt!("--random-gaps": "With --rate: random (exponential) gaps, as independent users cause them" =>
                |o, _| o.pace.random_gaps = true),
            opt!("--speed X": "Open loop: by the log's timestamps, X times as fast" => |o, args| {
                let text = args.value()?;
                o.pace.speed = Some(positive(args.name(), text.strip_suffix('x').unwrap_or(text))?)
            }),
            opt!("--max-gap TIME": "With --speed: shorten longer pauses of the log to this (default 1h)" =>
                |o, args| o.pace.max_gap = Some(duration(args)?)),
            opt!("-d, --duration TIME": "Exit after this time" =>
                |o, args| o.options.limits.duration = Some(duration(args)?)),
            opt!("--requests N": "Exit after this many requests" =>
                |o, args| o.options.requests = Some(number(args, 1, u64::MAX)?)),
            opt!("--warmup TIME": "Initial time that isn't measured; --duration begins after it" =>
                |o, args| o.options.limits.warmup = duration(args)?),
        ],
    ),
    (
        "\nScenarios:\n",
        &[
            opt!("--passes N": "Send the source N times and report each pass: a cold cache, then a warm one" =>
                |o, args| o.scenario.passes = Some(number(args, 1, 1000)? as u32)),
            opt!("--walker FILE": "Also send these requests in order, in a loop, on one connection: a crawler" =>
                |o, args| o.scenario.walker = Some(args.text()?)),
            opt!("--walker-rate N": "Requests per second of --walker (default: as responses arrive)" =>
                |o, args| o.scenario.walker_rate = Some(positive(args.name(), args.value()?)?)),
            opt!("--ramp FROM:TO:STEP": "Increase the rate step by step until a limit is exceeded" =>
                |o, args| o.scenario.ramp = Some(args.parsed(NOT_UNDERSTOOD, scenario::rates)?)),
            opt!("--hold TIME": "With --ramp: time at each rate (default 10s)" =>
                |o, args| o.scenario.hold = Some(duration(args)?)),
            opt!("--until LIMIT": "With --ramp: stop at p99>50ms or errors>1% (may be repeated; default errors>1%)" =>
                |o, args| o.scenario.until.push(args.parsed(NOT_UNDERSTOOD, |text| ScenarioLimit::parse(text, time))?)),
        ],
    ),
    (
        "\nConnections:\n",
        &[
            opt!("-c, --connections N": "Largest number of connections (default 10; open loop 1000)" =>
                |o, args| o.connections = Some(number(args, 1, MAX_CONNECTIONS as u64)? as usize)),
            opt!("--keep-alive PERCENT": "Share of requests after which the connection stays open (default 100)" =>
                |o, args| o.options.keep.share = args.parsed(NOT_UNDERSTOOD, percent)? / 100.0),
            opt!("--per-connection N": "Largest number of requests on one connection" =>
                |o, args| o.options.keep.most = Some(number(args, 1, u64::from(u32::MAX))? as u32)),
            opt!("--timeout TIME": "Longest wait for a response (default 30s)" =>
                |o, args| o.options.limits.timeout = duration(args)?),
            opt!("--give-up TIME": "Give up if requests fail and none succeeds for this long (default 10s; 0: never)" =>
                |o, args| o.options.limits.give_up = duration(args)?),
        ],
    ),
    (
        "\nDistributed runs:\n",
        &[
            opt!("--workers ADDRESS,...": "Send from these workers; this process reads the source and sums up (may be repeated)" => |o, args| {
                let all = args.value()?.split(',').map(|worker| worker.trim().to_owned());
                o.options.workers.extend(all.filter(|worker| !worker.is_empty()))
            }),
            opt!("--serve [HOST:]PORT": "Be a worker until Ctrl-C (port 0: choose a free port and print it)" =>
                |o, args| o.serve = Some(args.text()?)),
            opt!("--secret FILE": "Shared secret; without it a worker only accepts coordinators on its own machine" =>
                |o, args| o.secret = Some(args.value()?.into())),
        ],
    ),
    (
        "\nReport:\n",
        &[
            opt!("--format text|json": "Text for people (default), or JSON for programs" =>
                |o, args| o.options.format = word(args, &[("text", ReplayFormat::Text), ("json", ReplayFormat::Json)])?),
            opt!("--pid PID[,PID...]": "Measure the server's CPU time: of these processes and their children" =>
                |o, args| o.pids = Some(args.parsed(NOT_UNDERSTOOD, pids)?)),
            opt!("--cgroup DIR": "Measure the server's CPU time: of this cgroup" =>
                |o, args| o.cgroup = Some(args.value()?.into())),
            opt!("--top N": "Number of slowest URLs to list (default 10)" =>
                |o, args| o.options.top = number(args, 0, MAX_TOP as u64)? as usize),
            opt!("-q, --quiet": "Show no progress, even on a terminal" => |o, _| o.options.quiet = true),
            opt!("--compare": "Compare reports instead of running, and mark differences beyond noise" =>
                |o, _| o.is_compare = true),
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: Tool<ReplayWords> = Tool {
    indent: 2,
    column: 27,
    word: |o, source| {
        o.options.plan.sources.files.push(source.to_owned());
        Ok(())
    },
    after_error: AfterError::Nothing,
    failure: 1,
    ..Tool::new("lacquer replay", HELP)
};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayFormat {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub struct ReplayOptions {
    pub plan: ReadingPlan,
    pub pace: ReplayPace,
    pub connections: usize,
    pub keep: Keep,
    pub requests: Option<u64>,
    pub scenario: ReplayScenario,
    pub walker: Option<(ReadingPlan, ReplayPace)>,
    pub limits: ReplayLimits,
    pub trust: Option<Trust>,
    pub format: ReplayFormat,
    pub watched: Option<WatchedServer>,
    pub top: usize,
    pub quiet: bool,
    pub workers: Vec<String>,
    pub secret: Vec<u8>,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        let methods = vec!["GET".to_owned(), "HEAD".to_owned()];
        ReplayOptions {
            plan: ReadingPlan { methods, seed: 1, max_gap: 3_600_000_000_000, ..ReadingPlan::default() },
            pace: ReplayPace::Closed { from: 0, to: 0 },
            connections: 10,
            keep: Keep { share: 1.0, most: None },
            requests: None,
            scenario: ReplayScenario::Plain,
            walker: None,
            limits: ReplayLimits {
                duration: None,
                warmup: 0,
                timeout: 30_000_000_000,
                give_up: 10_000_000_000,
                bind: Vec::new(),
                tls: None,
                spoken: Spoken::default(),
            },
            trust: None,
            format: ReplayFormat::Text,
            watched: None,
            top: 10,
            quiet: false,
            workers: Vec::new(),
            secret: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub enum ReplayInvocation {
    Run(Box<ReplayOptions>),
    Compare(Vec<String>, ReplayFormat),
    Serve(Serve),
}

pub const MAX_CONNECTIONS: usize = 100_000;
const MAX_BINDS: u128 = 65_536;
pub const MAX_TOP: usize = 10_000;

/// The options, and the words that mean something only together.
#[derive(Default)]
pub struct ReplayWords {
    options: ReplayOptions,
    target: TargetWords,
    pace: PaceWords,
    scenario: ScenarioWords,
    connections: Option<usize>,
    pids: Option<Vec<u32>>,
    cgroup: Option<PathBuf>,
    is_compare: bool,
    serve: Option<String>,
    secret: Option<PathBuf>,
}

#[derive(Default)]
struct TargetWords {
    to: Option<String>,
    map: Vec<String>,
    each_host: bool,
    sni: Option<String>,
    ca: Option<PathBuf>,
    no_verify: bool,
    no_resume: bool,
    http2: bool,
    http3: bool,
}

#[derive(Default)]
struct PaceWords {
    think: Option<(u64, u64)>,
    rate: Option<f64>,
    random_gaps: bool,
    speed: Option<f64>,
    max_gap: Option<u64>,
    is_shuffled: bool,
    window: Option<usize>,
}

#[derive(Default)]
struct ScenarioWords {
    passes: Option<u32>,
    walker: Option<String>,
    walker_rate: Option<f64>,
    ramp: Option<Vec<f64>>,
    hold: Option<u64>,
    until: Vec<ScenarioLimit>,
}

pub fn parse(words: &[String]) -> Result<Option<ReplayInvocation>, String> {
    TOOL.read(ReplayWords::default(), words)?.map(ReplayWords::finish).transpose()
}

const NOT_UNDERSTOOD: &str = "not understood (--help shows the usage)";

fn word<T: Copy>(args: &mut Args<'_>, words: &[(&str, T)]) -> Result<T, String> {
    args.parsed(NOT_UNDERSTOOD, |text| words.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant))
}

fn number(args: &mut Args<'_>, least: u64, most: u64) -> Result<u64, String> {
    args.parsed(&format!("not a number from {least} to {most}"), |text| {
        text.replace('_', "").parse().ok().filter(|n| (least..=most).contains(n))
    })
}

fn positive(name: &str, text: &str) -> Result<f64, String> {
    let found = text.parse::<f64>().ok().filter(|n| n.is_finite() && (1e-6..=1e8).contains(n));
    found.ok_or_else(|| format!("{name} {text}: not a number above 0"))
}

/// `500ms`, `10s`, or seconds; in nanoseconds.
fn time(text: &str) -> Option<u64> {
    let seconds = text::parse_duration(text).or_else(|| text.parse::<f64>().ok())?;
    (0.0..=1e9).contains(&seconds).then_some((seconds * 1e9) as u64)
}

fn times(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    time(from).zip(time(to)).filter(|(from, to)| from <= to)
}

fn duration(args: &mut Args<'_>) -> Result<u64, String> {
    args.parsed("not a time (500ms, 10s, 5m)", time)
}

fn percent(text: &str) -> Option<f64> {
    text.trim_end_matches('%').parse().ok().filter(|percent| (0.0..=100.0).contains(percent))
}

fn pids(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|pid| pid.trim().parse().ok()).collect()
}

fn field(text: &str) -> Option<(String, Option<String>)> {
    let (name, value) = text.split_once(':')?;
    let value = value.trim();
    let is_good = message::chars::is_token(name.as_bytes()) && value.bytes().all(message::chars::is_value_char);
    is_good.then(|| (name.to_owned(), (!value.is_empty()).then(|| value.to_owned())))
}

/// Parses `127.0.0.2`, or `127.0.0.2-127.0.0.9`.
fn addresses(text: &str) -> Option<Vec<IpAddr>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse().ok()?, last.parse().ok()?) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let (first, last) = (u32::from(first), u32::from(last));
            let fits = first <= last && u128::from(last - first) < MAX_BINDS;
            fits.then(|| (first..=last).map(|n| IpAddr::V4(n.into())).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            let (first, last) = (u128::from(first), u128::from(last));
            let fits = first <= last && last - first < MAX_BINDS;
            fits.then(|| (first..=last).map(|n| IpAddr::V6(n.into())).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
