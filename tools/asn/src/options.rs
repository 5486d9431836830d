// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer asn`.

use std::time::Duration;

use accesslog::{Gathering, LogFormat, Sources, Stamp};
use base::text;

use crate::database::{Country, country_of};
use crate::tally::Window;

pub const SYNOPSIS: &str = "\
Usage: lacquer asn --db FILE... [options] LOG...
       lacquer asn --db FILE... [options] -n DIR
";

const DETAILS: &str = "
Whose readers are they? The share of bytes and requests by the network (autonomous system) that each client's address
belongs to, from web servers' logs, varnishncsa's, varnishlog's, or a running server's log. Nothing is asked of the net.

LOG may be packed with gzip; - is standard input. A running log is read until Ctrl-C or -d.

Whose address is whose
 --db FILE            Prefixes: `1.0.0.0/24 AS` (pyasn, RouteViews), `1.0.0.0 24 AS` (CAIDA), iptoasn's TSV, MaxMind's
                      .mmdb (ASN, Country); may be packed with gzip, may be repeated: the first that knows counts
 --names FILE         Names of networks: JSON or `AS NAME` a line (may be repeated)
What is counted
 --log-format FORMAT  How lines look, as Apache's LogFormat; else they tell themselves
 --country CC         Clients from that country alone (may be repeated)
 --from, --to TIME    From that time on, before that time (2026-10-10T13:55:36+13:00; UTC without a zone)
 --window TIME        A table for each hour (1h), day (1d) and so on
How it is shown
 --group asn|country  By network (default) or by country
 --sort bytes|requests  What the percentages are of (default bytes)
 --top N              So many lines, the others as one (default 40; 0: all)
 --format text|json|svg
Further
 -n DIR               The log of the server with that working directory (--live: of the usual one)
 -d TIME              End after that time
 -q                   No progress on the terminal
 -h                   This text
";

/// How it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    #[default]
    Text,
    Json,
    Svg,
}

/// What one line of a table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Group {
    #[default]
    Network,
    Country,
}

/// What shares are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    #[default]
    Bytes,
    Requests,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub databases: Vec<String>,
    pub names: Vec<String>,
    pub gathering: Gathering,
    pub countries: Vec<Country>,
    /// What is counted, and in which windows.
    pub window: Window,
    pub group: Group,
    pub measure: Measure,
    /// 0: all.
    pub top: usize,
    pub format: Format,
}

/// What the words ask for.
#[derive(Debug)]
pub enum Invocation {
    Run(Box<Options>),
    Help,
}

/// The whole help.
pub fn usage() -> String {
    format!("{SYNOPSIS}{DETAILS}")
}

/// Reads the words.
///
/// # Errors
/// One line that names the wrong one.
pub fn parse(args: &[String]) -> Result<Invocation, String> {
    let mut options = Options { top: 40, ..Options::default() };
    let mut sources = Sources::default();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let (name, mut inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value =
            || inline.take().or_else(|| rest.next().cloned()).ok_or_else(|| format!("{name} needs a value"));
        match name {
            "-h" | "-?" | "--help" => return Ok(Invocation::Help),
            "-q" | "--quiet" => options.gathering.is_quiet = true,
            "--live" => sources.live = Some(shm::reader::Reader::workdir_of(None)),
            "-n" => sources.live = Some(shm::reader::Reader::workdir_of(Some(&value()?))),
            "--db" => options.databases.push(value()?),
            "--names" => options.names.push(value()?),
            "--log-format" => sources.format = Some(LogFormat::parse(&value()?)?),
            "--country" => {
                let text = value()?;
                let country = country_of(&text).ok_or_else(|| format!("--country {text}: two letters, as NZ"))?;
                options.countries.push(country);
            }
            "--from" => options.window.from = Some(stamp(name, &value()?)?),
            "--to" => options.window.to = Some(stamp(name, &value()?)?),
            "--window" => options.window.length = Some(time(name, &value()?)?),
            "-d" | "--duration" => options.gathering.duration = Some(time(name, &value()?)?),
            "--top" => {
                let text = value()?;
                options.top = text.parse().map_err(|_| format!("--top {text}: not a number"))?;
            }
            "--group" => {
                options.group = one_of(name, &value()?, &[("asn", Group::Network), ("country", Group::Country)])?;
            }
            "--sort" => {
                options.measure =
                    one_of(name, &value()?, &[("bytes", Measure::Bytes), ("requests", Measure::Requests)])?;
            }
            "--format" => {
                options.format =
                    one_of(name, &value()?, &[("text", Format::Text), ("json", Format::Json), ("svg", Format::Svg)])?;
            }
            name if name.starts_with('-') && name.len() > 1 => {
                return Err(format!("unknown option {name} (--help shows the usage)"));
            }
            _ => sources.files.push(word.clone()),
        }
    }
    if options.databases.is_empty() {
        return Err("--db is missing: a file that says which addresses belong to which network".into());
    }
    match (&sources.live, sources.files.is_empty()) {
        (None, true) => return Err("which log?".into()),
        (Some(_), false) => return Err("a running log or files, not both".into()),
        (None, false) | (Some(_), true) => {}
    }
    options.gathering.sources = sources;
    Ok(Invocation::Run(Box::new(options)))
}

fn one_of<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, meant)| *meant);
    let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    found.ok_or_else(|| format!("{name} {value}: one of {}", all.join(", ")))
}

fn time(name: &str, value: &str) -> Result<Duration, String> {
    let seconds = text::parse_duration(value).filter(|s| (1.0..=1e9).contains(s));
    let seconds = seconds.ok_or_else(|| format!("{name} {value}: a time of a second or more, as 90s or 1h"))?;
    Ok(Duration::from_secs(seconds as u64))
}

fn stamp(name: &str, value: &str) -> Result<i64, String> {
    // Seconds may be left out.
    let zone = value.char_indices().skip("2026-10-10T".len()).find(|(_, c)| "+-Z ".contains(*c));
    let (clock, zone) = value.split_at(zone.map_or(value.len(), |(at, _)| at));
    let stamp = Stamp::parse(value).or_else(|| Stamp::parse(&format!("{clock}:00{zone}")));
    stamp.map(|stamp| stamp.ns).ok_or_else(|| format!("{name} {value}: a time as 2026-10-10T13:55:36+13:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Invocation, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(Invocation::Run(o)) =
            words("--db a --db=b --country nz --window 1h --group country --sort requests x.log -")
        else {
            panic!()
        };
        assert_eq!(
            (o.databases.len(), o.countries, o.group, o.measure),
            (2, vec![*b"NZ"], Group::Country, Measure::Requests)
        );
        assert_eq!(o.gathering.sources.files, ["x.log", "-"]);
        let Ok(Invocation::Run(o)) = words("--db a --from 2012-09-06T12:00 x") else { panic!() };
        assert_eq!(o.window.from, Some(1_346_932_800_000_000_000));
        for text in ["2012-09-07T00:00+12:00", "2012-09-06T12:00:00", "2012-09-06 12:00Z", "06/Sep/2012:12:00:00 +0000"]
        {
            assert_eq!(stamp("--from", text), Ok(1_346_932_800_000_000_000), "{text}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("x.log", "--db is missing"),
            ("--db a", "which log"),
            ("--db a --live x", "not both"),
            ("--db a --country NZL x", "--country NZL"),
            ("--db a --window 0 x", "--window 0"),
            ("--db a --format xml x", "one of text, json, svg"),
            ("--db a --from noon x", "--from noon"),
            ("--db", "--db needs a value"),
            ("--fast", "--fast"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
