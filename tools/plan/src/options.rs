// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer plan`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use accesslog::options::live;
use accesslog::{Gathering, Gathers};
use base::text;
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

const INTRODUCTION: &str = "\
Usage: lacquer plan --workers N [options] LOG...
       lacquer plan --workers N [options] -n DIR [--counters]
       lacquer plan --workers N [options] --rate N --service TIME
       lacquer plan --workers N [options] --class NAME:RATE:TIME...

Estimates how many requests per second a backend can serve, how long they wait, what happens at twice the load, and how
many workers and queue slots are needed. It models a queue in front of several workers, with service times from a log
(of varnishlog, or of varnishncsa and web servers with %D or %T), from a running server's log or counters, or as given.

Load
";

const EXAMPLES: &str = "
Examples:
 lacquer plan --workers 1 --rate 12/h --service 5m
 lacquer plan --workers 3 --queue 2 --class coffee:20/h:5m --class bread:2/h:20m
 lacquer plan --workers 32 --queue 64 --think 8s --log-format '%h %t \"%r\" %s %b %D %{Varnish:handling}x' access.log
 lacquer plan --workers 32 --live -d 1m --simulated sizes.json --ram 32G
";

const HELP: &[HelpPart<PlanWords>] = &[
    (
        INTRODUCTION,
        &[
            Opt::line("LOG", "A log (-: standard input). The plan is for its busiest minute"),
            live(
                "Read the log of the server with this working directory (--live: the default one), until Ctrl-C or -d",
            ),
            opt!("--counters": "Use the server's counters (backend connections and requests) instead of its log (with -n, --live)" =>
                |o, _| o.by_counters = true),
            opt!("--of fetches|requests": "Plan for backend fetches, or for all requests with their total time (default fetches)" =>
                |o, args| o.options.of = args.one_of(&[("fetches", Of::Fetches), ("requests", Of::Requests)])?),
            opt!("--in-class NAME": "Only fetches of this class of the server; refused requests count as arrivals.\n\
                Default: all classes, each by its name" =>
                |o, args| o.options.in_class = Some(args.text()?)),
            opt!("--split TIME": "Treat fetches that take longer as a separate class" =>
                |o, args| o.options.split = Some(args.time(TIMES)?.as_secs_f64())),
            Gathers::LOG_FORMAT,
            opt!("--rate RATE": "Arrival rate: 250, 250/s, 12/h" =>
                |o, args| o.rate = Some(args.parsed("a rate as 250, 250/s, 12/h", rate)?)),
            opt!("--service TIME": "Average time that a request occupies a worker" =>
                |o, args| o.service = Some(args.time(TIMES)?.as_secs_f64())),
            opt!("--cv N": "Its variation: standard deviation divided by mean (default 1; 0: constant)" =>
                |o, args| o.cv = Some(args.parsed("a number from 0 to 100", variation)?)),
            opt!("--class NAME:RATE:TIME[:CV]": "One of several classes (may be repeated)" =>
                |o, args| o.classes.push(args.parsed("NAME:RATE:TIME[:CV], as bread:2/h:20m", class)?)),
        ],
    ),
    (
        "Backend\n",
        &[
            opt!("--workers N": "Number of requests served at the same time" =>
                |o, args| o.workers = Some(args.number(1..=MAX_WORKERS)?)),
            opt!("--queue N": "Queue slots; further requests are refused (default: unlimited)" =>
                |o, args| o.options.slots = Some(args.number(0..=crate::queue::MAX_PLACES)?)),
            Opt::new("", &["--chairs"], "", |_, _| Err("--chairs N is now called --queue N".into())),
        ],
    ),
    (
        "Goals\n",
        &[
            opt!("--wait TIME": "Longest acceptable wait of 95 % of the requests (default: the mean service time)" =>
                |o, args| o.options.wait = Some(args.time(Duration::ZERO..=*TIMES.end())?.as_secs_f64())),
            opt!("--refused PERCENT": "Acceptable share of refused requests (default 1)" =>
                |o, args| o.options.refused = args.parsed("a share of a hundred", percent)?),
            opt!("--think TIME": "Time between two pages of a user: also report rates as numbers of users" =>
                |o, args| o.options.think = Some(args.time(TIMES)?.as_secs_f64())),
            opt!("--per-page N": "Requests per page (default 1)" =>
                |o, args| o.options.per_page = args.number::<u32>(1..=1_000_000)?.into()),
            opt!("--simulated FILE": "Output of `lacquer simulate --format json`: hit rate and backend load for each memory size" =>
                |o, args| o.options.simulated = Some(args.text()?)),
            opt!("--requests RATE": "Rate of all requests, hits included (with --simulated and --rate or --class)" =>
                |o, args| o.options.requests = Some(args.parsed("a rate as 250, 250/s, 12/h", rate)?)),
            opt!("--ram SIZE": "The machine's memory: reports its largest store and hit rate (with --simulated)" =>
                |o, args| o.options.ram = Some(args.parsed("a size as 32G", text::parse_bytes)?)),
        ],
    ),
    (
        "Other\n",
        &[
            opt!("--format text|json": "" =>
                |o, args| o.options.format = args.one_of(&[("text", PlanFormat::Text), ("json", PlanFormat::Json)])?),
            Gathers::DURATION,
            Gathers::QUIET,
            Opt::HELP,
        ],
    ),
    (EXAMPLES, &[]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlanFormat {
    #[default]
    Text,
    Json,
}

/// The requests of a log that are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Of {
    #[default]
    Fetches,
    Requests,
}

#[derive(Clone, PartialEq, Debug)]
pub struct PlanClass {
    pub name: String,
    pub rate: f64,
    /// Mean seconds that one takes.
    pub service: f64,
    /// Their variance over the square of their mean.
    pub cv2: f64,
}

#[derive(Clone, Debug)]
pub enum PlanSource {
    Told(Vec<PlanClass>),
    Log(Box<Gathering>),
    Counters { workdir: PathBuf, duration: Duration },
}

#[derive(Clone, Debug)]
pub struct PlanOptions {
    pub source: PlanSource,
    pub of: Of,
    /// Seconds above which a fetch is of another class.
    pub split: Option<f64>,
    /// Name of a class of the server: only its fetches.
    pub in_class: Option<String>,
    pub workers: u64,
    pub slots: Option<u64>,
    /// Seconds; none: the mean service time.
    pub wait: Option<f64>,
    /// A share, 0 to 1.
    pub refused: f64,
    pub think: Option<f64>,
    pub per_page: f64,
    pub simulated: Option<String>,
    /// All requests a second, hits and others.
    pub requests: Option<f64>,
    pub ram: Option<u64>,
    pub format: PlanFormat,
}

pub const TOOL: Tool<PlanWords> = Tool { word: PlanWords::file, ..Tool::new("lacquer plan", HELP) };

pub const MAX_WORKERS: u64 = 10_000;
const TIMES: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1_000_000_000);
/// Time for which counters are looked at unless `-d` says so.
const LOOK: Duration = Duration::from_secs(10);

/// The options, and words that make a source only together.
pub struct PlanWords {
    options: PlanOptions,
    gathering: Gathering,
    by_counters: bool,
    rate: Option<f64>,
    service: Option<f64>,
    cv: Option<f64>,
    classes: Vec<PlanClass>,
    workers: Option<u64>,
}

impl Gathers for PlanWords {
    fn gathering(&mut self) -> &mut Gathering {
        &mut self.gathering
    }
}

impl Default for PlanWords {
    fn default() -> PlanWords {
        let options = PlanOptions {
            source: PlanSource::Told(Vec::new()),
            of: Of::default(),
            split: None,
            in_class: None,
            workers: 0,
            slots: None,
            wait: None,
            refused: 0.01,
            think: None,
            per_page: 1.0,
            simulated: None,
            requests: None,
            ram: None,
            format: PlanFormat::Text,
        };
        let mut gathering = Gathering::default();
        gathering.sources.with_caused = true;
        let (rate, service, cv, classes, workers) = (None, None, None, Vec::new(), None);
        PlanWords { options, gathering, by_counters: false, rate, service, cv, classes, workers }
    }
}

pub fn parse(words: &[String]) -> Result<Option<PlanOptions>, String> {
    let Some(words) = TOOL.read(PlanWords::default(), words)? else { return Ok(None) };
    let mut options = words.options.clone();
    options.workers = words.workers.ok_or("--workers is missing: how many are served at the same time")?;
    if options.ram.is_some() && options.simulated.is_none() {
        return Err("--ram needs --simulated: what lacquer simulate --format json said".into());
    }
    if options.simulated.is_some() && options.of == Of::Requests {
        return Err(
            "--simulated says what is left for backends: not with --of requests, whose time is that of hits, too"
                .into(),
        );
    }
    options.source = source(words)?;
    if options.in_class.is_some() && (options.of == Of::Requests || !matches!(options.source, PlanSource::Log(_))) {
        return Err("--in-class needs a log, and fetches: requests and counters have no classes".into());
    }
    if options.requests.is_some() && (options.simulated.is_none() || !matches!(options.source, PlanSource::Told(_))) {
        return Err("--requests needs --simulated, and --rate or --class: a log and counters tell it".into());
    }
    Ok(Some(options))
}

fn source(words: PlanWords) -> Result<PlanSource, String> {
    let PlanWords { gathering, by_counters, rate, service, cv, classes, .. } = words;
    let is_log = gathering.sources.live.is_some() || !gathering.sources.files.is_empty();
    let is_told = rate.is_some() || service.is_some() || !classes.is_empty();
    match (is_log, is_told) {
        (true, true) => Err("a log, or --rate, --service and --class, not both".into()),
        (false, false) => Err("which log? (or --rate and --service)".into()),
        (true, false) => {
            gathering.check()?;
            match (&gathering.sources.live, by_counters) {
                (Some(workdir), true) => {
                    Ok(PlanSource::Counters { workdir: workdir.clone(), duration: gathering.duration.unwrap_or(LOOK) })
                }
                (None, true) => Err("--counters are those of a running server: -n DIR or --live".into()),
                (_, false) => Ok(PlanSource::Log(Box::new(gathering))),
            }
        }
        (false, true) if !classes.is_empty() => match (rate, service, cv) {
            (None, None, None) => Ok(PlanSource::Told(classes)),
            _ => Err("--class has rate, time and variation in it: no --rate, --service, --cv beside it".into()),
        },
        (false, true) => {
            let rate = rate.ok_or("--rate is missing")?;
            let service = service.ok_or("--service is missing")?;
            Ok(PlanSource::Told(vec![PlanClass { name: "all".into(), rate, service, cv2: cv.unwrap_or(1.0).powi(2) }]))
        }
    }
}

/// A rate: `250`, `250/s`, `12/h`.
fn rate(value: &str) -> Option<f64> {
    let (number, unit) = value.split_once('/').unwrap_or((value, "s"));
    let number: f64 = number.parse().ok()?;
    let rate = number / text::unit_seconds(unit)?;
    (rate.is_finite() && (0.0..=1e9).contains(&rate)).then_some(rate)
}

fn variation(value: &str) -> Option<f64> {
    value.parse().ok().filter(|cv| (0.0..=100.0).contains(cv))
}

fn percent(value: &str) -> Option<f64> {
    value
        .trim_end_matches('%')
        .parse()
        .ok()
        .filter(|share| (0.0..100.0).contains(share))
        .map(|share: f64| share / 100.0)
}

fn class(value: &str) -> Option<PlanClass> {
    let mut words = value.split(':');
    let name = words.next().filter(|name| !name.is_empty())?.to_owned();
    let rate = rate(words.next()?)?;
    let time = words.next()?;
    let service =
        text::parse_duration(time).or_else(|| time.parse().ok()).filter(|time| (1e-6..=1e9).contains(time))?;
    let cv = words.next().map_or(Some(1.0), variation)?;
    words.next().is_none().then_some(PlanClass { name, rate, service, cv2: cv * cv })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Option<PlanOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        assert_eq!(words("--workers 3 --chairs 2").unwrap_err(), "--chairs N is now called --queue N");
        let Ok(Some(o)) = words("--workers 3 --queue 2 --class coffee:24/h:5m --class bread:2/h:20m:0.5") else {
            panic!()
        };
        let PlanSource::Told(classes) = &o.source else { panic!() };
        assert_eq!((o.workers, o.slots, classes.len()), (3, Some(2), 2));
        assert_eq!((classes[1].rate * 3600.0, classes[1].service, classes[1].cv2), (2.0, 1200.0, 0.25));
        let Ok(Some(o)) = words("--workers 1 --rate 12/h --service 5m --think 8s --per-page 100") else { panic!() };
        assert_eq!((o.think, o.per_page, o.refused), (Some(8.0), 100.0, 0.01));
        assert!(words("--workers 2 --live --counters").unwrap().is_some());
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("x.log", "--workers is missing"),
            ("--workers 1", "which log"),
            ("--workers 0 x", "--workers 0"),
            ("--workers 1 --rate 5 x", "not both"),
            ("--workers 1 --rate 5", "--service is missing"),
            ("--workers 1 --rate 5/x --service 1s", "--rate 5/x"),
            ("--workers 1 --class a:1 ", "--class a:1"),
            ("--workers 1 --class a:1:1s --rate 4", "--class has rate"),
            ("--workers 1 --counters x", "--counters"),
            ("--workers 1 --live x", "not both"),
            ("--workers 1 --refused 100 x", "--refused 100"),
            ("--workers 1 --ram 1G x", "--simulated"),
            ("--workers 1 --of requests --simulated s.json x", "not with --of requests"),
            ("--fast", "--fast"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
