// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer talkers`.

use std::ops::RangeInclusive;
use std::time::Duration;

use accesslog::{Bits, Gathering, Gathers, GroupBy, HittersMeasure};
use base::text;
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

use crate::FADE;

const INTRODUCTION: &str = "\
Usage: lacquer talkers [options] LOG...
       lacquer talkers [options] -n DIR

Lists the clients, networks, URLs, User-Agents and pages with most requests, bytes, misses or backend time. Reads logs of
web servers, varnishncsa or varnishlog, or the log of a running server. Memory is bounded for any number of entries; each
count is shown with its possible error.

LOG may be compressed with gzip; - is standard input. On a terminal the log of a running server (-n, --live) is shown
live; in a pipe it is read until Ctrl-C or -d. Logs of web servers have misses and times only if their format does.

Selection
";

const EXAMPLES: &str = "
Examples:
 lacquer talkers --live
 lacquer talkers --live --accounts
 lacquer talkers --by page --top 20 access.log
 lacquer talkers --by url --only page=www.example.com/ access.log
 lacquer talkers --live -d 1m --acl flood --by network --least 5
";

const HELP: &[HelpPart<TalkersOptions>] = &[
    (
        INTRODUCTION,
        &[
            opt!("--by WORD,...": "client, network, asn, url, path, host, agent, user-agent, page, status\n\
                (default client,network,url,agent,page)" =>
                |o, args| o.by.extend(args.parsed(&words_of_by(), by)?)),
            opt!("--only WORD=VALUE": "Only requests of this client, page and so on (may be repeated)" =>
                |o, args| o.only.push(args.parsed("as client=192.0.2.1 or page=www.example.com/", only)?)),
            opt!("--prefix N": "Prefix length of IPv4 networks (default 24)" =>
                |o, args| o.bits.v4 = args.number(1..=32)?),
            opt!("--prefix6 N": "Prefix length of IPv6 networks (default 64)" =>
                |o, args| o.bits.v6 = args.number(1..=128)?),
            opt!("--query": "Include the query in URLs" => |o, _| o.with_query = true),
            opt!("--db FILE": "Table of autonomous systems for --by asn, as for lacquer asn (may be repeated)" =>
                |o, args| o.databases.push(args.text()?)),
            opt!("--names FILE": "Names of autonomous systems, as for lacquer asn" =>
                |o, args| o.names.push(args.text()?)),
            Gathers::LOG_FORMAT,
            opt!("--accounts": "The server's own accounts (parameter bots) instead of its log: who costs the origin most,\n\
                by client, prefix, AS, TLS fingerprint, User-Agent and bot, with the verdict" =>
                |o, _| o.is_of_accounts = true),
        ],
    ),
    (
        "Output\n",
        &[
            opt!("--sort requests|bytes|misses|backend": "Sort by (default requests)" =>
                |o, args| o.measure = args.one_of(&MEASURES)?),
            opt!("--top N": "Entries to show in each table (default 10; 0: all)" =>
                |o, args| o.top = args.number(0..=u64::MAX)?),
            opt!("--least PERCENT": "Only entries with at least this share" =>
                |o, args| o.least = args.parsed("a share of a hundred", percent)?),
            opt!("--format text|json": "" =>
                |o, args| o.format = args.one_of(&[("text", TalkersFormat::Text), ("json", TalkersFormat::Json)])?),
            opt!("--acl NAME": "Print the clients or networks as a VCL ACL instead of a table" =>
                |o, args| o.acl = Some(args.parsed("a name as VCL has them", acl_name)?)),
            opt!("--every TIME": "Print a report for each interval of this length (JSON: one line each)" =>
                |o, args| o.every = Some(args.time(TIMES)?)),
            opt!("--fade TIME": "Half-life of counts on the screen (default 30s; 0: they don't decay)" =>
                |o, args| o.fade = Some(args.time(Duration::ZERO..=*TIMES.end())?).filter(|time| !time.is_zero())),
        ],
    ),
    (
        "Other\n",
        &[
            opt!("--memory SIZE": "Memory for all counts (default 8m)" =>
                |o, args| o.memory_bytes = args.parsed("a size of 64k or more, as 8m", memory)?),
            Gathers::LIVE,
            Gathers::DURATION,
            Gathers::QUIET,
            Opt::HELP,
        ],
    ),
    (EXAMPLES, &[]),
];

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
    pub is_of_accounts: bool,
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

impl Gathers for TalkersOptions {
    fn gathering(&mut self) -> &mut Gathering {
        &mut self.gathering
    }
}

pub const TOOL: Tool<TalkersOptions> = Tool { word: TalkersOptions::file, ..Tool::new("lacquer talkers", HELP) };

const TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1_000_000_000);
const MEMORY: usize = 8 << 20;
const USUAL: [GroupBy; 5] = [GroupBy::Client, GroupBy::Network, GroupBy::Url, GroupBy::Agent, GroupBy::Page];
const MEASURES: [(&str, HittersMeasure); 4] = [
    (HittersMeasure::Requests.word(), HittersMeasure::Requests),
    (HittersMeasure::Bytes.word(), HittersMeasure::Bytes),
    (HittersMeasure::Misses.word(), HittersMeasure::Misses),
    (HittersMeasure::BackendTime.word(), HittersMeasure::BackendTime),
];

pub fn parse(words: &[String]) -> Result<Option<TalkersOptions>, String> {
    let mut options = TalkersOptions { top: 10, memory_bytes: MEMORY, fade: Some(FADE), ..TalkersOptions::default() };
    options.gathering.sources.with_caused = true;
    let Some(mut options) = TOOL.read(options, words)? else { return Ok(None) };
    options.gathering.check()?;
    settle(&mut options)?;
    Ok(Some(options))
}

/// Sets what follows from several options together.
fn settle(options: &mut TalkersOptions) -> Result<(), String> {
    if options.is_of_accounts {
        return match (options.is_live(), is_about_log(options)) {
            (false, _) => Err("--accounts needs a running server: -n DIR or --live".into()),
            (true, true) => Err("--accounts takes no other options than --top, --format and -n".into()),
            (true, false) => Ok(()),
        };
    }
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

fn is_about_log(options: &TalkersOptions) -> bool {
    let selects = !options.by.is_empty() || !options.only.is_empty() || options.gathering.sources.format.is_some();
    let groups = options.bits != Bits::default()
        || options.with_query
        || !options.databases.is_empty()
        || !options.names.is_empty();
    let shows = options.measure != HittersMeasure::default()
        || options.least > 0.0
        || options.acl.is_some()
        || options.every.is_some()
        || options.fade != Some(FADE);
    selects || groups || shows || options.memory_bytes != MEMORY || options.gathering.duration.is_some()
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

    fn words(line: &str) -> Result<Option<TalkersOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(Some(o)) = words(
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
        let Ok(Some(o)) = words("--acl flood x.log") else { panic!() };
        assert_eq!((o.by, o.format), (vec![GroupBy::Client], TalkersFormat::Acl));
        let Ok(Some(o)) = words("x.log") else { panic!() };
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
            ("--accounts x.log", "--live"),
            ("--accounts --live --by url", "no other options"),
            ("--accounts --live --sort bytes", "no other options"),
            ("--accounts --live --prefix 16", "no other options"),
            ("--accounts --live --fade 0", "no other options"),
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
            assert!(TOOL.usage().contains(word), "{word}");
        }
        assert!(TOOL.usage().lines().all(|line| line.len() <= 122));
    }
}
