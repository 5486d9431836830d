// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer replay`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use accesslog::{AccessSources, LogFormat};
use base::lookup::addresses_of_text;
use base::text;
use tls::{Spoken, Trust};
use toolkit::args::{Arg, Args};

use crate::engine::ReplayLimits;
use crate::fleet::worker::Serve;
use crate::head::Extras;
use crate::order::Order;
use crate::pace::ReplayPace;
use crate::reader::ReadingPlan;
use crate::scenario::{self, ReplayScenario, ScenarioLimit};
use crate::server::WatchedServer;
use crate::stream::Keep;
use crate::target::{ReplayAddress, TargetRules};

const SYNOPSIS: &str = "\
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

type Opt = (&'static str, &'static str);

/// All options, in groups with a heading: the usage and the manual are made from it.
pub const OPTIONS: &[(&str, &[Opt])] = &[
    (
        "Source",
        &[
            ("-n DIR, --live[=DIR]", "Replay the requests of a running server instead of files"),
            ("--log-format FORMAT", "Line format, in Apache's LogFormat syntax (default: detected)"),
        ],
    ),
    (
        "Target",
        &[
            ("--to ADDRESS", "Send all requests to HOST:PORT, https://HOST[:PORT] or unix:PATH"),
            ("--map HOST=ADDRESS", "Send the requests of this host to another address (may be repeated)"),
            ("--each-host", "Instead of --to: send the requests of each host to its own address"),
            ("--host NAME", "Host header of requests for which the source has none"),
            ("--sni NAME", "Name for TLS (SNI), also verified (default: each request's host)"),
            ("--ca FILE", "Trust these authorities (PEM) instead of the system's"),
            ("--no-verify", "Accept any certificate"),
            ("--no-resume", "Make full TLS handshakes instead of resuming sessions"),
            ("--http2", "HTTP/2, one request at a time per connection; over TLS (ALPN) or in clear text"),
            ("--http3", "HTTP/3, one request at a time per connection; only to https:// addresses"),
            ("--bind ADDRESS[-LAST]", "Use these source addresses in turn: a single one has about 28,000 ports"),
        ],
    ),
    (
        "Requests",
        &[
            ("--methods LIST", "Methods to send (default GET,HEAD; `all`). Logs contain no bodies"),
            ("-H, --header 'NAME: V'", "Set this header in every request; `NAME:` alone removes it"),
            ("--order log|shuffle", "Keep the source's order (default), or shuffle (with --speed: at the log's times)"),
            ("--seed N", "Seed of random choices (default 1)"),
            ("--window N", "With --order shuffle: shuffle within this many requests (default 100000)"),
            ("--loop", "Start again at the end of the source"),
        ],
    ),
    (
        "Pace (default: each connection sends as soon as it has its response)",
        &[
            ("--think TIME[-TIME]", "Each connection waits this long after a response"),
            ("--rate N", "Open loop: N requests per second; latency is measured from when each was due"),
            ("--random-gaps", "With --rate: random (exponential) gaps, as independent users cause them"),
            ("--speed X", "Open loop: by the log's timestamps, X times as fast"),
            ("--max-gap TIME", "With --speed: shorten longer pauses of the log to this (default 1h)"),
            ("-d, --duration TIME", "Exit after this time"),
            ("--requests N", "Exit after this many requests"),
            ("--warmup TIME", "Initial time that isn't measured; --duration begins after it"),
        ],
    ),
    (
        "Scenarios",
        &[
            ("--passes N", "Send the source N times and report each pass: a cold cache, then a warm one"),
            ("--walker FILE", "Also send these requests in order, in a loop, on one connection: a crawler"),
            ("--walker-rate N", "Requests per second of --walker (default: as responses arrive)"),
            ("--ramp FROM:TO:STEP", "Increase the rate step by step until a limit is exceeded"),
            ("--hold TIME", "With --ramp: time at each rate (default 10s)"),
            ("--until LIMIT", "With --ramp: stop at p99>50ms or errors>1% (may be repeated; default errors>1%)"),
        ],
    ),
    (
        "Connections",
        &[
            ("-c, --connections N", "Largest number of connections (default 10; open loop 1000)"),
            ("--keep-alive PERCENT", "Share of requests after which the connection stays open (default 100)"),
            ("--per-connection N", "Largest number of requests on one connection"),
            ("--timeout TIME", "Longest wait for a response (default 30s)"),
            ("--give-up TIME", "Give up if requests fail and none succeeds for this long (default 10s; 0: never)"),
        ],
    ),
    (
        "Distributed runs",
        &[
            (
                "--workers ADDRESS,...",
                "Send from these workers; this process reads the source and sums up (may be repeated)",
            ),
            ("--serve [HOST:]PORT", "Be a worker until Ctrl-C (port 0: choose a free port and print it)"),
            ("--secret FILE", "Shared secret; without it a worker only accepts coordinators on its own machine"),
        ],
    ),
    (
        "Report",
        &[
            ("--format text|json", "Text for people (default), or JSON for programs"),
            ("--pid PID[,PID...]", "Measure the server's CPU time: of these processes and their children"),
            ("--cgroup DIR", "Measure the server's CPU time: of this cgroup"),
            ("--top N", "Number of slowest URLs to list (default 10)"),
            ("-q, --quiet", "Show no progress, even on a terminal"),
            ("--compare", "Compare reports instead of running, and mark differences beyond noise"),
        ],
    ),
];

pub fn usage() -> String {
    let mut out = SYNOPSIS.to_owned();
    for (heading, options) in OPTIONS {
        out.push_str(&format!("\n{heading}:\n"));
        options.iter().for_each(|(option, text)| out.push_str(&format!("  {option:<24} {text}\n")));
    }
    out.push_str(EPILOGUE);
    out
}

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

#[derive(Debug)]
pub enum ReplayInvocation {
    Run(Box<ReplayOptions>),
    Compare(Vec<String>, ReplayFormat),
    Serve(Serve),
    Help,
}

/// Reports that are compared at once: each has a letter.
const MAX_REPORTS: usize = 26;
const DEFAULT_WINDOW: usize = 100_000;
pub const MAX_CONNECTIONS: usize = 100_000;
const MAX_BINDS: u128 = 65_536;
pub const MAX_TOP: usize = 10_000;
const MIN_SECRET: usize = 8;
const MAX_WORKERS: usize = 1000;
/// Most slowest requests to report with workers, which send theirs each second.
const MAX_TOP_OF_WORKERS: usize = 100;

#[derive(Default)]
struct Words {
    sources: Vec<String>,
    live: Option<Option<String>>,
    log_format: Option<String>,
    to: Option<String>,
    map: Vec<String>,
    each_host: bool,
    host: Option<String>,
    sni: Option<String>,
    ca: Option<PathBuf>,
    no_verify: bool,
    no_resume: bool,
    http2: bool,
    http3: bool,
    bind: Vec<IpAddr>,
    methods: Option<String>,
    fields: Vec<(String, Option<String>)>,
    shuffle: bool,
    seed: Option<u64>,
    window: Option<usize>,
    repeat: bool,
    think: Option<(u64, u64)>,
    rate: Option<f64>,
    random_gaps: bool,
    speed: Option<f64>,
    max_gap: Option<u64>,
    duration: Option<u64>,
    requests: Option<u64>,
    warmup: Option<u64>,
    connections: Option<usize>,
    keep_alive: Option<f64>,
    per_connection: Option<u32>,
    timeout: Option<u64>,
    give_up: Option<u64>,
    format: ReplayFormat,
    pids: Option<Vec<u32>>,
    cgroup: Option<PathBuf>,
    top: Option<usize>,
    quiet: bool,
    compare: bool,
    passes: Option<u32>,
    walker: Option<String>,
    walker_rate: Option<f64>,
    ramp: Option<Vec<f64>>,
    hold: Option<u64>,
    until: Vec<ScenarioLimit>,
    workers: Vec<String>,
    serve: Option<String>,
    secret: Option<PathBuf>,
}

/// Reads the words; names among them are looked up.
///
/// # Errors
/// One line that names the wrong one.
pub fn parse(args: &[String]) -> Result<ReplayInvocation, String> {
    let mut words = Words::default();
    let mut args = Args::new(args);
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Help => return Ok(ReplayInvocation::Help),
            Arg::Word(source) => words.sources.push(source.to_owned()),
            Arg::Option(name) if words.flag(name, &mut args) => {}
            Arg::Option(name) => words.valued(name, &mut || args.value().map(str::to_owned))?,
        }
    }
    words.finish()
}

impl Words {
    /// Words without a value, or whose value is optional.
    fn flag(&mut self, name: &str, args: &mut Args<'_>) -> bool {
        match name {
            "--live" => self.live = Some(args.joined_value().map(str::to_owned)),
            "--each-host" => self.each_host = true,
            "--no-verify" => self.no_verify = true,
            "--no-resume" => self.no_resume = true,
            "--http2" => self.http2 = true,
            "--http3" => self.http3 = true,
            "--loop" => self.repeat = true,
            "--random-gaps" => self.random_gaps = true,
            "-q" | "--quiet" => self.quiet = true,
            "--compare" => self.compare = true,
            _ => return false,
        }
        true
    }

    fn valued(&mut self, name: &str, value: &mut dyn FnMut() -> Result<String, String>) -> Result<(), String> {
        let wrong = |value: &str| format!("{name} {value}: not understood (--help shows the usage)");
        match name {
            "-n" => self.live = Some(Some(value()?)),
            "--log-format" => self.log_format = Some(value()?),
            "--to" => self.to = Some(value()?),
            "--map" => self.map.push(value()?),
            "--host" => self.host = Some(value()?),
            "--sni" => self.sni = Some(value()?),
            "--ca" => self.ca = Some(value()?.into()),
            "--bind" => {
                let text = value()?;
                self.bind.extend(addresses(&text).ok_or_else(|| wrong(&text))?);
            }
            "--methods" => self.methods = Some(value()?),
            "-H" | "--header" => {
                let text = value()?;
                self.fields.push(field(&text).ok_or_else(|| wrong(&text))?);
            }
            "--order" => {
                self.shuffle = match value()?.as_str() {
                    "log" => false,
                    "shuffle" => true,
                    other => return Err(wrong(other)),
                };
            }
            "--seed" => self.seed = Some(number(name, &value()?, 0, u64::MAX)?),
            "--window" => self.window = Some(number(name, &value()?, 1, 10_000_000)? as usize),
            "--think" => {
                let text = value()?;
                let (from, to) = text.split_once('-').unwrap_or((&text, &text));
                let range = time(from).zip(time(to)).filter(|(from, to)| from <= to);
                self.think = Some(range.ok_or_else(|| wrong(&text))?);
            }
            "--rate" => self.rate = Some(positive(name, &value()?)?),
            "--speed" => {
                let text = value()?;
                self.speed = Some(positive(name, text.strip_suffix('x').unwrap_or(&text))?);
            }
            "--passes" => self.passes = Some(number(name, &value()?, 1, 1000)? as u32),
            "--walker" => self.walker = Some(value()?),
            "--walker-rate" => self.walker_rate = Some(positive(name, &value()?)?),
            "--ramp" => {
                let text = value()?;
                self.ramp = Some(scenario::rates(&text).ok_or_else(|| wrong(&text))?);
            }
            "--hold" => self.hold = Some(duration(name, &value()?)?),
            "--until" => {
                let text = value()?;
                self.until.push(ScenarioLimit::parse(&text, time).ok_or_else(|| wrong(&text))?);
            }
            "--max-gap" => self.max_gap = Some(duration(name, &value()?)?),
            "-d" | "--duration" => self.duration = Some(duration(name, &value()?)?),
            "--requests" => self.requests = Some(number(name, &value()?, 1, u64::MAX)?),
            "--warmup" => self.warmup = Some(duration(name, &value()?)?),
            "-c" | "--connections" => {
                self.connections = Some(number(name, &value()?, 1, MAX_CONNECTIONS as u64)? as usize);
            }
            "--keep-alive" => {
                let text = value()?;
                let percent = text.trim_end_matches('%').parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p));
                self.keep_alive = Some(percent.ok_or_else(|| wrong(&text))? / 100.0);
            }
            "--per-connection" => self.per_connection = Some(number(name, &value()?, 1, u64::from(u32::MAX))? as u32),
            "--timeout" => self.timeout = Some(duration(name, &value()?)?),
            "--give-up" => self.give_up = Some(duration(name, &value()?)?),
            "--format" => {
                self.format = match value()?.as_str() {
                    "text" => ReplayFormat::Text,
                    "json" => ReplayFormat::Json,
                    other => return Err(wrong(other)),
                };
            }
            "--pid" => {
                let text = value()?;
                let pids: Result<Vec<u32>, _> = text.split(',').map(|pid| pid.trim().parse()).collect();
                self.pids = Some(pids.map_err(|_| wrong(&text))?);
            }
            "--cgroup" => self.cgroup = Some(value()?.into()),
            "--top" => self.top = Some(number(name, &value()?, 0, MAX_TOP as u64)? as usize),
            "--workers" => {
                self.workers.extend(value()?.split(',').map(|w| w.trim().to_owned()).filter(|w| !w.is_empty()))
            }
            "--serve" => self.serve = Some(value()?),
            "--secret" => self.secret = Some(value()?.into()),
            _ => return Err(toolkit::args::no_option(name, &usage())),
        }
        Ok(())
    }

    fn finish(self) -> Result<ReplayInvocation, String> {
        if self.compare {
            return match self.sources.len() {
                0 | 1 => Err("--compare needs two reports or more".into()),
                2..=MAX_REPORTS => Ok(ReplayInvocation::Compare(self.sources, self.format)),
                n => Err(format!("--compare: {n} reports; at most {MAX_REPORTS}")),
            };
        }
        if let Some(address) = &self.serve {
            return self.served(address).map(ReplayInvocation::Serve);
        }
        self.check()?;
        let (secret, spoken) = (self.secret()?, self.spoken());
        let rules = self.rules()?;
        let trust = self.trust(&rules)?;
        let tls = trust.as_ref().map(Trust::client).transpose().map_err(|error| format!("--ca: {error}"))?;
        let first_rate = self.ramp.as_ref().and_then(|rates| rates.first().copied());
        let pace = match (self.rate.or(first_rate), self.speed, self.think) {
            (Some(rate), ..) => ReplayPace::Rate { rate, is_random: self.random_gaps },
            (_, Some(speed), _) => ReplayPace::Log { speed },
            (.., think) => {
                let (from, to) = think.unwrap_or((0, 0));
                ReplayPace::Closed { from, to }
            }
        };
        let host = self.host.or_else(|| self.to.as_deref().map(authority));
        let methods = self.methods.as_deref().unwrap_or("GET,HEAD");
        let methods = match methods {
            "all" => Vec::new(),
            list => list.split(',').map(|m| m.trim().to_uppercase()).collect(),
        };
        let order = if self.shuffle {
            Order::Shuffled { window: self.window.unwrap_or(DEFAULT_WINDOW) }
        } else {
            Order::AsRead
        };
        let plan = ReadingPlan {
            sources: AccessSources {
                files: self.sources,
                live: self.live.map(|name| shm::reader::CounterReader::workdir_of(name.as_deref())),
                format: self.log_format.as_deref().map(LogFormat::parse).transpose()?,
                ..AccessSources::default()
            },
            methods,
            extras: Extras { fields: self.fields, host },
            rules,
            order,
            seed: self.seed.unwrap_or(1),
            is_timed: self.speed.is_some(),
            max_gap: self.max_gap.unwrap_or(3_600_000_000_000),
            repeat: self.repeat,
        };
        let walker_pace = match self.walker_rate {
            Some(rate) => ReplayPace::Rate { rate, is_random: false },
            None => ReplayPace::Closed { from: 0, to: 0 },
        };
        let walker = self.walker.map(|file| {
            let plan = ReadingPlan {
                sources: AccessSources { files: vec![file], live: None, ..plan.sources.clone() },
                order: Order::AsRead,
                is_timed: false,
                repeat: true,
                ..plan.clone()
            };
            (plan, walker_pace)
        });
        let scenario = match (self.passes, self.ramp) {
            (Some(n), _) => ReplayScenario::Passes(n),
            (_, Some(rates)) => {
                let limits = if self.until.is_empty() { vec![ScenarioLimit::Errors(0.01)] } else { self.until };
                ReplayScenario::Ramp { rates, hold: self.hold.unwrap_or(10_000_000_000), limits }
            }
            _ => ReplayScenario::Plain,
        };
        let limits = ReplayLimits {
            duration: self.duration,
            warmup: self.warmup.unwrap_or(0),
            timeout: self.timeout.unwrap_or(30_000_000_000),
            give_up: self.give_up.unwrap_or(10_000_000_000),
            bind: self.bind,
            tls,
            spoken,
        };
        Ok(ReplayInvocation::Run(Box::new(ReplayOptions {
            plan,
            pace,
            connections: self.connections.unwrap_or(if pace.is_open() { 1000 } else { 10 }).max(self.workers.len()),
            keep: Keep { share: self.keep_alive.unwrap_or(1.0), most: self.per_connection },
            requests: self.requests,
            scenario,
            walker,
            limits,
            trust,
            format: self.format,
            watched: self.pids.map(WatchedServer::Pids).or(self.cgroup.map(WatchedServer::Cgroup)),
            top: self.top.unwrap_or(10),
            quiet: self.quiet,
            workers: self.workers,
            secret,
        })))
    }

    fn served(&self, address: &str) -> Result<Serve, String> {
        let is_alone = self.sources.is_empty() && self.to.is_none() && self.workers.is_empty();
        if !is_alone {
            return Err("--serve takes its orders from a coordinator: only --bind and --secret go with it".into());
        }
        let wrong = || format!("--serve {address}: no such address");
        let address: SocketAddr = match address.parse::<u16>() {
            Ok(port) => ([127, 0, 0, 1], port).into(),
            Err(_) => addresses_of_text(address).ok().and_then(|all| all.first().copied()).ok_or_else(wrong)?,
        };
        let secret = self.secret()?;
        if secret.is_empty() && !address.ip().is_loopback() {
            return Err(format!("--serve {address}: others could have it load whom they like; give it a --secret"));
        }
        Ok(Serve { address, secret, bind: self.bind.clone() })
    }

    fn secret(&self) -> Result<Vec<u8>, String> {
        let Some(path) = &self.secret else { return Ok(Vec::new()) };
        let wrong = |why: &str| format!("--secret {}: {why}", path.display());
        let bytes = std::fs::read(path).map_err(|e| wrong(&logq::source::strerror(&e)))?;
        let secret = bytes.trim_ascii();
        if secret.len() < MIN_SECRET { Err(wrong("shorter than 8 bytes")) } else { Ok(secret.to_vec()) }
    }

    fn check(&self) -> Result<(), String> {
        let rules = [
            (self.sources.is_empty() && self.live.is_none(), "no source (--help shows the usage)"),
            (!self.sources.is_empty() && self.live.is_some(), "files or a running varnishd (-n), not both"),
            (self.to.is_none() && self.map.is_empty() && !self.each_host, "where to? --to, --map or --each-host"),
            (self.to.is_some() && self.each_host, "--to or --each-host, not both"),
            (self.no_verify && self.ca.is_some(), "--no-verify or --ca, not both"),
            (self.http2 && self.http3, "--http2 or --http3, not both"),
            (self.rate.is_some() && self.speed.is_some(), "--rate or --speed, not both"),
            (self.think.is_some() && (self.rate.is_some() || self.speed.is_some()), "--think is for the closed loop"),
            (self.random_gaps && self.rate.is_none() && self.ramp.is_none(), "--random-gaps needs --rate or --ramp"),
            (self.passes.is_some() && self.ramp.is_some(), "--passes or --ramp, not both"),
            (
                self.passes.is_some() && self.repeat && self.requests.is_none() && self.duration.is_none(),
                "--passes ends at the source's end, --loop never does",
            ),
            (
                self.passes.is_some() && (self.live.is_some() || self.sources.iter().any(|s| s == "-")),
                "--passes needs files: they are read again",
            ),
            (
                self.ramp.is_some() && (self.rate.is_some() || self.speed.is_some() || self.think.is_some()),
                "--ramp sets the pace: no --rate, --speed or --think",
            ),
            (self.ramp.is_some() && self.duration.is_some(), "--ramp takes --hold, not --duration"),
            ((self.hold.is_some() || !self.until.is_empty()) && self.ramp.is_none(), "--hold and --until need --ramp"),
            (self.walker_rate.is_some() && self.walker.is_none(), "--walker-rate needs --walker"),
            (self.walker.as_deref() == Some("-"), "--walker needs a file: it is read again"),
            (self.window.is_some() && !self.shuffle, "--window needs --order shuffle"),
            (self.max_gap.is_some() && self.speed.is_none(), "--max-gap needs --speed"),
            (self.pids.is_some() && self.cgroup.is_some(), "--pid or --cgroup, not both"),
            (self.repeat && self.live.is_some(), "a running varnishd has no end to --loop at"),
            (self.repeat && self.sources.iter().any(|s| s == "-"), "standard input can't be read again (--loop)"),
            (
                self.repeat && self.duration.is_none() && self.requests.is_none() && self.ramp.is_none(),
                "--loop without an end: give --duration or --requests",
            ),
            (
                self.log_format.is_some() && self.live.is_some(),
                "--log-format is for lines of a file, not for a running varnishd",
            ),
            (self.secret.is_some() && self.workers.is_empty(), "--secret is for --workers and --serve"),
            (self.workers.len() > MAX_WORKERS, "more than 1000 workers"),
            (
                !self.workers.is_empty() && self.connections.is_some_and(|n| n < self.workers.len()),
                "fewer connections (-c) than workers: each needs one",
            ),
            (!self.workers.is_empty() && !self.bind.is_empty(), "--bind is each worker's own: give it with --serve"),
            (
                !self.workers.is_empty() && self.requests.is_some() && self.ramp.is_some(),
                "--requests with --ramp is for one process; with --workers give --hold",
            ),
            (
                !self.workers.is_empty() && self.top.is_some_and(|n| n > MAX_TOP_OF_WORKERS),
                "--top is 100 at most with --workers",
            ),
            (self.sources.iter().filter(|s| *s == "-").count() > 1, "standard input can be read only once"),
        ];
        rules.iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, text)| Err((*text).to_owned()))
    }

    fn rules(&self) -> Result<TargetRules, String> {
        let mut map = HashMap::new();
        for text in &self.map {
            let (host, address) = text.split_once('=').ok_or_else(|| format!("--map {text}: HOST=ADDRESS"))?;
            map.insert(host.to_ascii_lowercase().into_bytes(), ReplayAddress::parse(address)?);
        }
        let to = self.to.as_deref().map(ReplayAddress::parse).transpose()?;
        if self.http3 && !to.iter().chain(map.values()).all(ReplayAddress::is_tls) {
            return Err("--http3 is spoken by TLS alone: --to https://HOST, --map HOST=https://HOST".into());
        }
        Ok(TargetRules { to, map, each_host: self.each_host, sealed: self.http3, sni: self.sni.clone() })
    }

    fn spoken(&self) -> Spoken {
        match (self.http2, self.http3) {
            (_, true) => Spoken::Http3,
            (true, false) => Spoken::Http2,
            (false, false) => Spoken::Http1,
        }
    }

    fn trust(&self, rules: &TargetRules) -> Result<Option<Trust>, String> {
        if !rules.may_need_tls() {
            let is_idle = self.sni.is_some() || self.ca.is_some() || self.no_verify || self.no_resume;
            return if is_idle {
                Err("--sni, --ca, --no-verify and --no-resume are for TLS: --to https://HOST, --map or --each-host"
                    .into())
            } else {
                Ok(None)
            };
        }
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|e| format!("--ca {}: {}", path.display(), logq::source::strerror(&e)))
        };
        let authorities = self.ca.as_ref().map(read).transpose()?;
        let spoken = self.spoken();
        Ok(Some(Trust { is_blind: self.no_verify, authorities, is_fresh: self.no_resume, spoken }))
    }
}

/// The Host for an address that was given.
fn authority(to: &str) -> String {
    if to.starts_with('/') || to.starts_with("unix:") {
        return "localhost".into();
    }
    let to = to.strip_prefix("http://").or_else(|| to.strip_prefix("https://")).unwrap_or(to);
    to.trim_end_matches('/').to_owned()
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let found = plain.parse().ok().filter(|n| (least..=most).contains(n));
    found.ok_or_else(|| format!("{name} {text}: not a number from {least} to {most}"))
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

fn duration(name: &str, text: &str) -> Result<u64, String> {
    time(text).ok_or_else(|| format!("{name} {text}: not a time (500ms, 10s, 5m)"))
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
mod tests {
    use super::*;

    fn check(line: &str, want: &str) {
        let args: Vec<String> = line.split('|').map(str::to_owned).filter(|w| !w.is_empty()).collect();
        let got = match parse(&args) {
            Err(error) => error,
            Ok(ReplayInvocation::Help) => "help".into(),
            Ok(ReplayInvocation::Serve(serve)) => format!("serve {}", serve.address),
            Ok(ReplayInvocation::Compare(names, format)) => format!("compare {} {format:?}", names.join(" ")),
            Ok(ReplayInvocation::Run(o)) => format!("{:?} {} {:?}", o.pace, o.connections, o.plan.sources.files),
        };
        assert_eq!(got, want, "{line}");
    }

    #[test]
    fn words() {
        let to = "--to|127.0.0.1:80";
        check(&format!("{to}|a"), r#"Closed { from: 0, to: 0 } 10 ["a"]"#);
        check(&format!("{to}|-|--think=1s-1500ms|-c|3"), r#"Closed { from: 1000000000, to: 1500000000 } 3 ["-"]"#);
        check(&format!("{to}|a|--rate|5|--random-gaps"), r#"Rate { rate: 5.0, is_random: true } 1000 ["a"]"#);
        check(&format!("{to}|--speed|2x|--|-a"), r#"Log { speed: 2.0 } 1000 ["-a"]"#);
        check("--help", "help");
        check("--compare|a|b|--format=json", "compare a b Json");
        check("--compare|a|b|c", "compare a b c Text");
        check("--compare|a", "--compare needs two reports or more");
        check(&format!("--compare{}", "|a".repeat(27)), "--compare: 27 reports; at most 26");
        check("", "no source (--help shows the usage)");
        check("a", "where to? --to, --map or --each-host");
        check(&format!("{to}|a|--rate|5|--speed|2"), "--rate or --speed, not both");
        check(&format!("{to}|a|--rate|0"), "--rate 0: not a number above 0");
        check(&format!("{to}|a|--loop"), "--loop without an end: give --duration or --requests");
        check(&format!("{to}|-|--loop|-d|1"), "standard input can't be read again (--loop)");
        check(&format!("{to}|a|--quiet=x"), "--quiet takes no value");
        check(&format!("{to}|a|--nope"), "no option --nope (--help shows the usage)");
        check(&format!("{to}|a|--http3"), "--http3 is spoken by TLS alone: --to https://HOST, --map HOST=https://HOST");
        check("--to|https://127.0.0.1|--no-verify|--http3|a", r#"Closed { from: 0, to: 0 } 10 ["a"]"#);
        check("--to|https://127.0.0.1|--http2|--http3|a", "--http2 or --http3, not both");
        check(&format!("{to}|a|-d"), "-d needs a value");
        check(&format!("{to}|a|-H|x y: z"), "-H x y: z: not understood (--help shows the usage)");
        check("--map|a|x", "--map a: HOST=ADDRESS");
        check("--to|https://127.0.0.1|--no-verify|a", r#"Closed { from: 0, to: 0 } 10 ["a"]"#);
        check(
            &format!("{to}|a|--no-verify"),
            "--sni, --ca, --no-verify and --no-resume are for TLS: --to https://HOST, --map or --each-host",
        );
        check("--to|https://127.0.0.1|--ca|/nonexistent|a", "--ca /nonexistent: No such file or directory");
        check("--to|https://127.0.0.1|--ca|/dev/null|--no-verify|a", "--no-verify or --ca, not both");
    }

    #[test]
    fn the_usage_names_every_option() {
        let source = include_str!("options.rs");
        let (_, code) = source.split_once("fn flag").unwrap();
        let (code, _) = code.split_once("fn finish").unwrap();
        let names = code
            .split('"')
            .filter(|w| w.starts_with("--") && w[2..].chars().all(|c| c.is_ascii_lowercase() || c == '-'));
        let mut n = 0;
        for name in names {
            assert!(usage().contains(name), "{name}");
            n += 1;
        }
        assert!(n > 20, "only {n}");
    }
}
