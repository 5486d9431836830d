// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer doctor`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

use crate::rule::{Area, Rule};
use crate::rules;

const INTRODUCTION: &str = "\
Usage: lacquer doctor [options]
       lacquer doctor --list | --explain RULE

Checks this machine and the server that runs on it. Reports what is wrong, why it matters, and which command fixes it.
Reads /proc, /sys, /etc, the server's counters, log and CLI, and changes nothing. Works with varnishd, too.

";

const EPILOGUE: &str = "
Without --watch, counters cover the time since the machine or the server started, and the whole log is read. What can't
be checked (another user's process, no CLI, no log) is listed with the reason. Uses at most about 50 MB of memory.
Connects to backends whose fetches fail, at most 3 s in all, and sends nothing over these connections. Asks the server
that keeps a fleet's log (--fleet) for its settings, with the credentials of the node.

The JSON report has findings (each with id, area, severity, subject, what, evidence, why, type), sound (names of rules),
not_looked_at (each with id, why), about and remarks (texts). The names of rules and fields are stable.

The exit status is 0 if nothing worse than a notice was found, 1 if there was a warning or a fault, 2 if an option is
wrong, a named file or server doesn't exist, or the server went away meanwhile.
";

const HELP: &[HelpPart<DoctorWords>] = &[
    (
        INTRODUCTION,
        &[
            opt!("-n DIR": "Working directory of the server (default: the usual one, if a server runs there)" =>
                |o, args| o.options.name = Some(args.text()?)),
            opt!("-T HOST:PORT": "CLI address of the server, if its shared memory doesn't have it" =>
                |o, args| o.options.address = Some(args.text()?)),
            opt!("-S FILE": "CLI secret file" => |o, args| o.options.secret = Some(args.text()?)),
            opt!("-t SECONDS": "How long to wait for the CLI (default 5)" =>
                |o, args| o.options.timeout = args.time(TIMES)?),
            opt!("--watch TIME": "Check twice, this far apart: only what happens in between counts, in counters and in the log" =>
                |o, args| o.options.watch = Some(args.time(TIMES)?)),
            opt!("-r FILE": "Read a file written by varnishlog -w instead of the running log (-: standard input)" =>
                |o, args| o.options.log = Some(args.text()?)),
            opt!("--counters FILE": "Read the output of varnishstat -j instead of a running server's counters" =>
                |o, args| o.options.counters = Some(args.text()?)),
            opt!("--params FILE": "Read the output of varnishadm param.show -j, with --counters" =>
                |o, args| o.options.params = Some(args.text()?)),
            opt!("--nats-monitor HOST:PORT": "Monitoring address of the NATS server that keeps the fleet's log" =>
                |o, args| o.options.nats_monitor = Some(args.text()?)),
            opt!("--pid PID": "The serving process, if it is neither Lacquer nor varnishd, for its limits and cgroup" =>
                |o, args| o.options.pid = Some(args.number(1..=u64::from(u32::MAX))?)),
            opt!("--root DIR": "Check the files of another machine, copied or mounted there" =>
                |o, args| o.options.root = args.value()?.into()),
        ],
    ),
    (
        "Rules\n",
        &[
            opt!("--list": "List all rules" => |o, _| o.is_list = true),
            opt!("--explain RULE": "Show what a rule checks, its threshold, why it matters, and the fix" =>
                |o, args| o.explained = Some(rule("--explain", args.value()?)?.id)),
            opt!("--only WORD,...": "Only these rules: names, or the groups host, server and log" =>
                |o, args| words("--only", args.value()?, &mut o.options.only)?),
            opt!("--skip WORD,...": "Skip these rules" =>
                |o, args| words("--skip", args.value()?, &mut o.options.skip)?),
        ],
    ),
    (
        "Output\n",
        &[
            opt!("--format text|json": "Text for people (default), or JSON for programs" =>
                |o, args| o.options.format = args.one_of(&[("text", DoctorFormat::Text), ("json", DoctorFormat::Json)])?),
            opt!("-q" | "--quiet": "Show no progress" => |o, _| o.options.is_quiet = true),
            Opt::HELP,
        ],
    ),
    (EPILOGUE, &[]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DoctorFormat {
    #[default]
    Text,
    Json,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct DoctorOptions {
    pub name: Option<String>,
    pub address: Option<String>,
    pub secret: Option<String>,
    pub timeout: Duration,
    pub watch: Option<Duration>,
    pub log: Option<String>,
    pub counters: Option<String>,
    pub params: Option<String>,
    pub nats_monitor: Option<String>,
    pub pid: Option<u64>,
    pub root: PathBuf,
    /// Rules and areas to be used; empty: all.
    pub only: Vec<String>,
    pub skip: Vec<String>,
    pub format: DoctorFormat,
    pub is_quiet: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum DoctorInvocation {
    Run(Box<DoctorOptions>),
    List(DoctorFormat),
    Explain(&'static str),
}

/// The options, and those that ask for something else than a check.
pub struct DoctorWords {
    options: DoctorOptions,
    is_list: bool,
    explained: Option<&'static str>,
}

pub const TOOL: Tool<DoctorWords> = Tool {
    word: |_, word| Err(format!("{word}: only options are taken (--help shows the usage)")),
    ..Tool::new("lacquer doctor", HELP)
};

const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);

pub fn parse(words: &[String]) -> Result<Option<DoctorInvocation>, String> {
    let options = DoctorOptions { timeout: Duration::from_secs(5), root: "/".into(), ..DoctorOptions::default() };
    let words = TOOL.read(DoctorWords { options, is_list: false, explained: None }, words)?;
    let Some(DoctorWords { options, is_list, explained }) = words else { return Ok(None) };
    Ok(Some(match explained {
        Some(id) => DoctorInvocation::Explain(id),
        None if is_list => DoctorInvocation::List(options.format),
        None => DoctorInvocation::Run(Box::new(options.checked()?)),
    }))
}

impl DoctorOptions {
    fn checked(self) -> Result<DoctorOptions, String> {
        if self.params.is_some() && self.counters.is_none() {
            return Err("--params needs --counters: a running server is asked for its own".into());
        }
        if self.counters.is_some() && (self.name.is_some() || self.address.is_some() || self.watch.is_some()) {
            return Err("--counters is instead of a running server: without -n, -T and --watch".into());
        }
        if self.log.is_some() && self.watch.is_some() {
            return Err("--watch follows a running log: without -r".into());
        }
        Ok(self)
    }

    pub fn wants(&self, rule: &Rule) -> bool {
        let is_named = |words: &[String]| words.iter().any(|word| word == rule.id || word == rule.area.word());
        (self.only.is_empty() || is_named(&self.only)) && !is_named(&self.skip)
    }
}

fn rule(option: &str, id: &str) -> Result<&'static Rule, String> {
    rules::all().find(|rule| rule.id == id).ok_or_else(|| {
        let near = base::spelling::nearest(id, rules::all().map(|rule| rule.id));
        let near = near.map(|near| format!(" (is {near} meant?)")).unwrap_or_default();
        format!("{option} {id}: no such rule{near}; --list names them")
    })
}

fn words(option: &str, value: &str, to: &mut Vec<String>) -> Result<(), String> {
    for word in value.split(',').filter(|word| !word.is_empty()) {
        if !Area::ALL.iter().any(|area| area.word() == word) {
            rule(option, word)?;
        }
        to.push(word.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<DoctorInvocation>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(Some(DoctorInvocation::Run(o))) = read("-n a --watch=10s --only host,nuked --skip thp --format json")
        else {
            panic!()
        };
        assert_eq!(
            (o.name.as_deref(), o.watch, o.format),
            (Some("a"), Some(Duration::from_secs(10)), DoctorFormat::Json)
        );
        let wanted: Vec<&str> = rules::all().filter(|rule| o.wants(rule)).map(|rule| rule.id).collect();
        assert!(wanted.contains(&"nuked") && wanted.contains(&"conntrack-on") && !wanted.contains(&"thp"));
        assert!(!wanted.contains(&"worker-died"));
        assert_eq!(read("--explain nuked"), Ok(Some(DoctorInvocation::Explain("nuked"))));
        assert_eq!((read("--list"), read("--help")), (Ok(Some(DoctorInvocation::List(DoctorFormat::Text))), Ok(None)));
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("--explain nuke", "is nuked meant?"),
            ("--only hosts", "--only hosts"),
            ("--watch 0", "--watch 0"),
            ("--watch", "--watch needs a value"),
            ("--pid x", "--pid x"),
            ("--format xml", "--format xml"),
            ("--params a", "--counters"),
            ("--counters a -n b", "without -n"),
            ("-r a --watch 1s", "without -r"),
            ("--list=x", "--list takes no value"),
            ("host", "host: only options"),
            ("--fast", "--fast"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
