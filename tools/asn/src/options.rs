// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer asn`.

use std::ops::RangeInclusive;
use std::time::Duration;

use accesslog::{EntryStamp, Gathering, Gathers};
use networks::{Country, country_of};
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

use crate::tally::{CountedWindow, NamedMoment};

const INTRODUCTION: &str = "\
Usage: lacquer asn --db FILE... [options] LOG...
       lacquer asn --db FILE... [options] -n DIR
       lacquer asn --addresses LOG...

Shows which networks (autonomous systems) a site's visitors come from: the share of requests and bytes by network. Reads
logs of web servers, varnishncsa or varnishlog, or the log of a running server. Makes no network requests. It needs a
table of networks: curl -LO https://iptoasn.com/data/ip2asn-combined.tsv.gz

LOG may be compressed with gzip; - is standard input. The log of a running server is read until Ctrl-C or -d.

Tables of networks
";

const HELP: &[HelpPart<AsnOptions>] = &[
    (
        INTRODUCTION,
        &[
            opt!("--db FILE": "Prefixes: `1.0.0.0/24 AS` (pyasn, RouteViews), `1.0.0.0 24 AS` (CAIDA), iptoasn's TSV,\n\
                `FIRST,LAST,AS,NAME` (CSV of ip-location-db and DB-IP), MaxMind's CSV (GeoLite2-ASN-Blocks),\n\
                .mmdb files (MaxMind's, ip-location-db's, IPinfo's), or a response of Team Cymru's whois. May be\n\
                compressed with gzip and repeated; the first file that has an address counts" =>
                |o, args| o.databases.push(args.text()?)),
            opt!("--names FILE": "Names of networks: JSON, or one `AS NAME` per line (may be repeated)" =>
                |o, args| o.names.push(args.text()?)),
        ],
    ),
    (
        "Selection\n",
        &[
            Gathers::LOG_FORMAT,
            opt!("--country CC": "Only clients from this country (may be repeated)" =>
                |o, args| o.countries.push(args.parsed("two letters, as NZ", country_of)?)),
            opt!("--from, --to TIME": "Time range, such as 2026-10-10T13:55:36+13:00 (default zone: the log's)" => |o, args| {
                let end = if args.name() == "--from" { &mut o.window.from } else { &mut o.window.to };
                *end = Some(args.parsed("a time as 2026-10-10T13:55:36+13:00", moment)?)
            }),
            opt!("--window TIME": "One table for each hour (1h), day (1d) and so on, by the log's timestamps" =>
                |o, args| o.window.length = Some(args.time(TIMES)?)),
        ],
    ),
    (
        "Output\n",
        &[
            opt!("--group asn|country": "Group by network (default) or by country" =>
                |o, args| o.group = args.one_of(&[("asn", AsnGroup::Network), ("country", AsnGroup::Country)])?),
            opt!("--sort bytes|requests": "What the percentages refer to (default bytes)" =>
                |o, args| o.measure = args.one_of(&[("bytes", ShareMeasure::Bytes), ("requests", ShareMeasure::Requests)])?),
            opt!("--top N": "Show this many lines and sum up the others (default 40; 0: all)" =>
                |o, args| o.top = args.number(0..=u64::MAX)?),
            opt!("--format text|json|svg": "" =>
                |o, args| o.format = args.one_of(&[("text", AsnFormat::Text), ("json", AsnFormat::Json), ("svg", AsnFormat::Svg)])?),
        ],
    ),
    (
        "Other\n",
        &[
            opt!("--addresses": "Print only the clients' networks (/24, /48), as input for whois.cymru.com" =>
                |o, _| o.lists_addresses = true),
            Gathers::LIVE,
            Gathers::DURATION,
            Gathers::QUIET,
            Opt::HELP,
        ],
    ),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AsnFormat {
    #[default]
    Text,
    Json,
    Svg,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AsnGroup {
    #[default]
    Network,
    Country,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ShareMeasure {
    #[default]
    Bytes,
    Requests,
}

#[derive(Clone, Debug, Default)]
pub struct AsnOptions {
    pub databases: Vec<String>,
    pub names: Vec<String>,
    pub gathering: Gathering,
    pub countries: Vec<Country>,
    pub window: CountedWindow,
    pub group: AsnGroup,
    pub measure: ShareMeasure,
    /// Number of lines; 0: all.
    pub top: usize,
    pub format: AsnFormat,
    pub lists_addresses: bool,
}

impl Gathers for AsnOptions {
    fn gathering(&mut self) -> &mut Gathering {
        &mut self.gathering
    }
}

pub const TOOL: Tool<AsnOptions> = Tool { word: AsnOptions::file, ..Tool::new("lacquer asn", HELP) };

pub fn parse(words: &[String]) -> Result<Option<AsnOptions>, String> {
    let mut options = AsnOptions { top: 40, ..AsnOptions::default() };
    // A request that VCL restarts is answered by what it became.
    options.gathering.sources.with_caused = true;
    let Some(options) = TOOL.read(options, words)? else { return Ok(None) };
    if options.databases.is_empty() && !options.lists_addresses {
        return Err("--db is missing: a file that says which addresses belong to which network; docs/asn.md names three sources".into());
    }
    options.gathering.check()?;
    Ok(Some(options))
}

const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(1_000_000_000);

/// Seconds may be left out.
fn moment(value: &str) -> Option<NamedMoment> {
    let zone = value.char_indices().skip("2026-10-10T".len()).find(|(_, c)| "+-Z ".contains(*c));
    let (clock, zone) = value.split_at(zone.map_or(value.len(), |(at, _)| at));
    let stamp = EntryStamp::parse(value).or_else(|| EntryStamp::parse(&format!("{clock}:00{zone}")));
    stamp.map(|stamp| NamedMoment { ns: stamp.ns, has_zone: stamp.zone.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Option<AsnOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(Some(o)) = words("--db a --db=b --country nz --window 1h --group country --sort requests x.log -")
        else {
            panic!()
        };
        assert_eq!(
            (o.databases.len(), o.countries, o.group, o.measure),
            (2, vec![*b"NZ"], AsnGroup::Country, ShareMeasure::Requests)
        );
        assert_eq!(o.gathering.sources.files, ["x.log", "-"]);
        let Ok(Some(o)) = words("--db a --from 2012-09-06T12:00 x") else { panic!() };
        assert_eq!(o.window.from, Some(NamedMoment { ns: 1_346_932_800_000_000_000, has_zone: false }));
        for (text, has_zone) in [
            ("2012-09-07T00:00+12:00", true),
            ("2012-09-06T12:00:00", false),
            ("2012-09-06 12:00Z", true),
            ("06/Sep/2012:12:00:00 +0000", true),
        ] {
            assert_eq!(moment(text), Some(NamedMoment { ns: 1_346_932_800_000_000_000, has_zone }), "{text}");
        }
        assert!(matches!(words("--addresses x.log"), Ok(Some(o)) if o.lists_addresses));
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
