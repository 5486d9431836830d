// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer asn`.

use std::ops::RangeInclusive;
use std::time::Duration;

use accesslog::{EntryStamp, Gathering};
use networks::{Country, country_of};
use toolkit::args::{Arg, Args};
use toolkit::tool::{Tool, ToolInvocation};

use crate::tally::{CountedWindow, NamedMoment};

const SYNOPSIS: &str = "\
Usage: lacquer asn --db FILE... [options] LOG...
       lacquer asn --db FILE... [options] -n DIR
       lacquer asn --addresses LOG...
";

const DETAILS: &str = "
Shows which networks (autonomous systems) a site's visitors come from: the share of requests and bytes by network. Reads
logs of web servers, varnishncsa or varnishlog, or the log of a running server. Makes no network requests. It needs a
table of networks: curl -LO https://iptoasn.com/data/ip2asn-combined.tsv.gz

LOG may be compressed with gzip; - is standard input. The log of a running server is read until Ctrl-C or -d.

Tables of networks
 --db FILE            Prefixes: `1.0.0.0/24 AS` (pyasn, RouteViews), `1.0.0.0 24 AS` (CAIDA), iptoasn's TSV,
                      `FIRST,LAST,AS,NAME` (CSV of ip-location-db and DB-IP), MaxMind's CSV (GeoLite2-ASN-Blocks),
                      .mmdb files (MaxMind's, ip-location-db's, IPinfo's), or a response of Team Cymru's whois. May be
                      compressed with gzip and repeated; the first file that has an address counts
 --names FILE         Names of networks: JSON, or one `AS NAME` per line (may be repeated)
Selection
 --log-format FORMAT  Line format, in Apache's LogFormat syntax (default: detected)
 --country CC         Only clients from this country (may be repeated)
 --from, --to TIME    Time range, such as 2026-10-10T13:55:36+13:00 (default zone: the log's)
 --window TIME        One table for each hour (1h), day (1d) and so on, by the log's timestamps
Output
 --group asn|country  Group by network (default) or by country
 --sort bytes|requests  What the percentages refer to (default bytes)
 --top N              Show this many lines and sum up the others (default 40; 0: all)
 --format text|json|svg
Other
 --addresses          Print only the clients' networks (/24, /48), as input for whois.cymru.com
 -n DIR               Read the log of the server with this working directory (--live: the default one)
 -d TIME              Exit after this time
 -q                   Show no progress
 -h                   Show this help
";

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

pub const TOOL: Tool = Tool { name: "lacquer asn", synopsis: SYNOPSIS, details: DETAILS };

pub fn usage() -> String {
    TOOL.usage()
}

/// Reads the words.
///
/// # Errors
/// One line that names the wrong one.
pub fn parse(args: &[String]) -> Result<ToolInvocation<AsnOptions>, String> {
    let mut options = AsnOptions { top: 40, ..AsnOptions::default() };
    // A request that VCL restarts is answered by what it became.
    options.gathering.sources.with_caused = true;
    let mut args = Args::new(args);
    while let Some(arg) = args.next()? {
        if options.gathering.take(arg, &mut args)? {
            continue;
        }
        let Arg::Option(name) = arg else { return Ok(ToolInvocation::Help) };
        match name {
            "--db" => options.databases.push(args.value()?.to_owned()),
            "--names" => options.names.push(args.value()?.to_owned()),
            "--country" => options.countries.push(args.parsed("two letters, as NZ", country_of)?),
            "--from" => options.window.from = Some(args.parsed(STAMP, moment)?),
            "--to" => options.window.to = Some(args.parsed(STAMP, moment)?),
            "--addresses" => options.lists_addresses = true,
            "--window" => options.window.length = Some(args.time(TIMES)?),
            "--top" => options.top = args.number(0..=u64::MAX)?,
            "--group" => options.group = args.one_of(&[("asn", AsnGroup::Network), ("country", AsnGroup::Country)])?,
            "--sort" => {
                options.measure =
                    args.one_of(&[("bytes", ShareMeasure::Bytes), ("requests", ShareMeasure::Requests)])?
            }
            "--format" => {
                options.format =
                    args.one_of(&[("text", AsnFormat::Text), ("json", AsnFormat::Json), ("svg", AsnFormat::Svg)])?;
            }
            _ => return Err(args.unknown(&usage())),
        }
    }
    if options.databases.is_empty() && !options.lists_addresses {
        return Err("--db is missing: a file that says which addresses belong to which network; docs/asn.md names three sources".into());
    }
    options.gathering.check()?;
    Ok(ToolInvocation::Run(options))
}

const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(1_000_000_000);
const STAMP: &str = "a time as 2026-10-10T13:55:36+13:00";

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

    fn words(line: &str) -> Result<ToolInvocation<AsnOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(ToolInvocation::Run(o)) =
            words("--db a --db=b --country nz --window 1h --group country --sort requests x.log -")
        else {
            panic!()
        };
        assert_eq!(
            (o.databases.len(), o.countries, o.group, o.measure),
            (2, vec![*b"NZ"], AsnGroup::Country, ShareMeasure::Requests)
        );
        assert_eq!(o.gathering.sources.files, ["x.log", "-"]);
        let Ok(ToolInvocation::Run(o)) = words("--db a --from 2012-09-06T12:00 x") else { panic!() };
        assert_eq!(o.window.from, Some(NamedMoment { ns: 1_346_932_800_000_000_000, has_zone: false }));
        for (text, has_zone) in [
            ("2012-09-07T00:00+12:00", true),
            ("2012-09-06T12:00:00", false),
            ("2012-09-06 12:00Z", true),
            ("06/Sep/2012:12:00:00 +0000", true),
        ] {
            assert_eq!(moment(text), Some(NamedMoment { ns: 1_346_932_800_000_000_000, has_zone }), "{text}");
        }
        assert!(matches!(words("--addresses x.log"), Ok(ToolInvocation::Run(o)) if o.lists_addresses));
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
