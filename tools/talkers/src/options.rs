// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer talkers`.

use std::ops::RangeInclusive;
use std::time::Duration;

use accesslog::{Bits, Gathering, GroupBy, HittersMeasure};
use base::text;
use toolkit::args::{Arg, Args};
use toolkit::tool::{Tool, ToolInvocation};

use crate::FADE;

const SYNOPSIS: &str = "\
Usage: lacquer talkers [options] LOG...
       lacquer talkers [options] -n DIR
";

const DETAILS: &str = "
Lists the clients, networks, URLs, User-Agents and pages with most requests, bytes, misses or backend time. Reads logs of
web servers, varnishncsa or varnishlog, or the log of a running server. Memory is bounded for any number of entries; each
count is shown with its possible error.

LOG may be compressed with gzip; - is standard input. On a terminal the log of a running server (-n, --live) is shown
live; in a pipe it is read until Ctrl-C or -d. Logs of web servers have misses and times only if their format does.

Selection
 --by WORD,...        client, network, asn, url, path, host, agent, user-agent, page, status
                      (default client,network,url,agent,page)
 --only WORD=VALUE    Only requests of this client, page and so on (may be repeated)
 --prefix N           Prefix length of IPv4 networks (default 24)
 --prefix6 N          Prefix length of IPv6 networks (default 64)
 --query              Include the query in URLs
 --db FILE            Table of autonomous systems for --by asn, as for lacquer asn (may be repeated)
 --names FILE         Names of autonomous systems, as for lacquer asn
 --log-format FORMAT  Line format, in Apache's LogFormat syntax (default: detected)
Output
 --sort requests|bytes|misses|backend  Sort by (default requests)
 --top N              Entries to show in each table (default 10; 0: all)
 --least PERCENT      Only entries with at least this share
 --format text|json
 --acl NAME           Print the clients or networks as a VCL ACL instead of a table
 --every TIME         Print a report for each interval of this length (JSON: one line each)
 --fade TIME          Half-life of counts on the screen (default 30s; 0: they don't decay)
Other
 --memory SIZE        Memory for all counts (default 8m)
 -n DIR               Read the log of the server with this working directory (--live: the default one)
 -d TIME              Exit after this time
 -q                   Show no progress
 -h                   Show this help

Examples:
 lacquer talkers --live
 lacquer talkers --by page --top 20 access.log
 lacquer talkers --by url --only page=www.example.com/ access.log
 lacquer talkers --live -d 1m --acl flood --by network --least 5
";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TalkersFormat {
    #[default]
    Text,
    Json,
    Acl,
}

#[derive(Clone, Debug, Default)]
pub struct TalkersOptions {
    pub gathering: Gathering,
    pub by: Vec<GroupBy>,
    pub only: Vec<(GroupBy, Vec<u8>)>,
    pub bits: Bits,
    pub with_query: bool,
    pub databases: Vec<String>,
    pub names: Vec<String>,
    pub measure: HittersMeasure,
    /// Number of lines; 0: all.
    pub top: usize,
    /// Least share, of a hundred.
    pub least: f64,
    pub format: TalkersFormat,
    pub acl: Option<String>,
    pub every: Option<Duration>,
    /// In which counts on the screen fall to a half; none: never.
    pub fade: Option<Duration>,
    pub memory_bytes: usize,
}

impl TalkersOptions {
    pub fn is_live(&self) -> bool {
        self.gathering.sources.live.is_some()
    }
}

pub const TOOL: Tool = Tool { name: "lacquer talkers", synopsis: SYNOPSIS, details: DETAILS };

pub fn usage() -> String {
    TOOL.usage()
}

const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1_000_000_000);
const USUAL: [GroupBy; 5] = [GroupBy::Client, GroupBy::Network, GroupBy::Url, GroupBy::Agent, GroupBy::Page];
const MEASURES: [(&str, HittersMeasure); 4] = [
    (HittersMeasure::Requests.word(), HittersMeasure::Requests),
    (HittersMeasure::Bytes.word(), HittersMeasure::Bytes),
    (HittersMeasure::Misses.word(), HittersMeasure::Misses),
    (HittersMeasure::BackendTime.word(), HittersMeasure::BackendTime),
];

/// Reads the words.
///
/// # Errors
/// One line that names the wrong one.
pub fn parse(words: &[String]) -> Result<ToolInvocation<TalkersOptions>, String> {
    let mut options = TalkersOptions { top: 10, memory_bytes: 8 << 20, fade: Some(FADE), ..TalkersOptions::default() };
    options.gathering.sources.with_caused = true;
    let mut args = Args::new(words);
    while let Some(arg) = args.next()? {
        if options.gathering.take(arg, &mut args)? {
            continue;
        }
        let Arg::Option(name) = arg else { return Ok(ToolInvocation::Help) };
        match name {
            "--db" => options.databases.push(args.value()?.to_owned()),
            "--names" => options.names.push(args.value()?.to_owned()),
            "--by" => options.by.extend(args.parsed(&words_of_by(), by)?),
            "--only" => options.only.push(args.parsed("as client=192.0.2.1 or page=www.example.com/", only)?),
            "--prefix" => options.bits.v4 = args.number(1..=32)?,
            "--prefix6" => options.bits.v6 = args.number(1..=128)?,
            "--query" => options.with_query = true,
            "--sort" => options.measure = args.one_of(&MEASURES)?,
            "--top" => options.top = args.number(0..=u64::MAX)?,
            "--least" => options.least = args.parsed("a share of a hundred", percent)?,
            "--format" => {
                options.format = args.one_of(&[("text", TalkersFormat::Text), ("json", TalkersFormat::Json)])?
            }
            "--acl" => options.acl = Some(args.parsed("a name as VCL has them", acl_name)?),
            "--every" => options.every = Some(args.time(TIMES)?),
            "--fade" => options.fade = Some(args.time(Duration::ZERO..=*TIMES.end())?).filter(|time| !time.is_zero()),
            "--memory" => options.memory_bytes = args.parsed("a size of 64k or more, as 8m", memory)?,
            _ => return Err(args.unknown(&usage())),
        }
    }
    options.gathering.check()?;
    settle(&mut options)?;
    Ok(ToolInvocation::Run(options))
}

/// Sets what follows from several options together.
fn settle(options: &mut TalkersOptions) -> Result<(), String> {
    if options.by.is_empty() {
        options.by = if options.acl.is_some() { vec![GroupBy::Client] } else { USUAL.to_vec() };
    }
    if options.acl.is_some() {
        if options.format == TalkersFormat::Json {
            return Err("--acl and --format json exclude each other".into());
        }
        if options.by.len() > 1 || !matches!(options.by[0], GroupBy::Client | GroupBy::Network) {
            return Err("--acl needs --by client or --by network".into());
        }
        options.format = TalkersFormat::Acl;
    }
    let asn = options.by.iter().chain(options.only.iter().map(|(by, _)| by)).any(|by| *by == GroupBy::System);
    if asn && options.databases.is_empty() {
        return Err("asn needs --db: a file that says which addresses belong to which network".into());
    }
    Ok(())
}

fn words_of_by() -> String {
    let words: Vec<&str> = GroupBy::all().map(|(_, word, _)| word).collect();
    format!("some of {}", words.join(","))
}

fn by(value: &str) -> Option<Vec<GroupBy>> {
    value.split(',').map(GroupBy::from_word).collect()
}

fn only(value: &str) -> Option<(GroupBy, Vec<u8>)> {
    let (word, value) = value.split_once('=')?;
    Some((GroupBy::from_word(word)?, value.as_bytes().to_vec()))
}

fn percent(value: &str) -> Option<f64> {
    value.trim_end_matches('%').parse().ok().filter(|share| (0.0..=100.0).contains(share))
}

fn acl_name(value: &str) -> Option<String> {
    let is_first = value.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_name = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    (is_first && is_name).then(|| value.to_owned())
}

fn memory(value: &str) -> Option<usize> {
    text::parse_bytes(value).and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes >= 64 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<ToolInvocation<TalkersOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(ToolInvocation::Run(o)) = words(
            "--by client,page --only=page=a.nz/?x=1 --sort backend --top 3 --least 2.5% --memory 1m --fade 0 x.log",
        ) else {
            panic!()
        };
        assert_eq!(
            (o.by, o.only),
            (vec![GroupBy::Client, GroupBy::Page], vec![(GroupBy::Page, b"a.nz/?x=1".to_vec())])
        );
        assert_eq!(
            (o.measure, o.top, o.least, o.memory_bytes, o.fade),
            (HittersMeasure::BackendTime, 3, 2.5, 1 << 20, None)
        );
        let Ok(ToolInvocation::Run(o)) = words("--acl flood x.log") else { panic!() };
        assert_eq!((o.by, o.format), (vec![GroupBy::Client], TalkersFormat::Acl));
        let Ok(ToolInvocation::Run(o)) = words("x.log") else { panic!() };
        assert_eq!(o.by, USUAL);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("", "which log"),
            ("--live x", "not both"),
            ("--by who x", "some of client,network"),
            ("--by asn x", "--db"),
            ("--only page x", "--only page"),
            ("--acl 1x x", "--acl 1x"),
            ("--acl a --by url x", "--by client or --by network"),
            ("--acl a --by client,network x", "--by client or --by network"),
            ("--acl a --format json x", "exclude each other"),
            ("--memory 1k x", "--memory 1k"),
            ("--prefix 33 x", "--prefix 33"),
            ("--fast", "--fast"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_what_there_is() {
        for (_, word, _) in GroupBy::all() {
            assert!(usage().contains(word), "{word}");
        }
        assert!(usage().lines().all(|line| line.len() <= 122));
    }
}
