// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer migrate`.

use std::time::Duration;

use accesslog::{AccessSources, LogFormat};
use toolkit::args::Args;
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

use crate::compare::CompareOptions;

const INTRODUCTION: &str = "\
Usage: lacquer migrate nginx|apache|squid|hitch FILE [options]
       lacquer migrate varnish FILE... [options]
       lacquer migrate --compare OLD NEW FILE... [options]

Reads a configuration with its included files and prints VCL that does the same. A comment at its top has the command
line for lacquer serve. Reports on standard error, with file and line, what behaves differently, what has no counterpart,
and what to change in the old server's files. nginx and Apache continue as the origin: let them listen on another
address (--origin).

Of Varnish's own files (/etc/default/varnish, /etc/sysconfig/varnish, varnish.params, a unit followed by its drop-ins)
prints the start line, with today's names of options and parameters; of hitch.conf, the option that reads it.

--compare sends the same requests (GET and HEAD, each twice) to the old server and to the new one, and prints how the
responses differ: status, Location, Content-Type, Cache-Control, Vary, names of cookies, body, and whether the second
one was a hit. OLD and NEW are HOST:PORT, or https://HOST:PORT for a server that speaks TLS (its certificate isn't
checked); FILE is an access log or a list of URLs.

";

const EPILOGUE: &str = "
Examples:
  lacquer migrate nginx /etc/nginx/nginx.conf > default.vcl
  lacquer migrate apache /etc/apache2/apache2.conf --origin 127.0.0.1:8081 --out new
  lacquer migrate squid /etc/squid/squid.conf --format json
  lacquer migrate nginx /etc/nginx/nginx.conf --report
  lacquer migrate varnish /etc/default/varnish
  lacquer migrate --compare 127.0.0.1:80 127.0.0.1:6081 /var/log/nginx/access.log
  lacquer migrate varnish /lib/systemd/system/varnish.service /etc/systemd/system/varnish.service.d/*.conf

The exit status is 0 if everything has a counterpart, 1 if something was refused, 2 if nothing could be read.
With --compare it is 0 if no response differs, 1 if one does, 2 if there is nothing to compare.
";

const HELP: &[HelpPart<MigrateWords>] = &[
    (
        INTRODUCTION,
        &[
            opt!("--origin HOST:PORT": "address on which nginx or Apache will listen (default 127.0.0.1:8080)" => |o, args| {
                let address = |text: &str| crate::split_address(text).map(|_| text.to_owned());
                o.converting(args)?;
                o.origin = args.parsed("HOST:PORT is wanted", address)?
            }),
            opt!("--out DIR": "write files to this directory: default.vcl, varnishd.args, tls.conf if there are certificates, and\n\
            for Apache its changed configuration files" => |o, args| {
                o.converting(args)?;
                o.out = Some(args.text()?)
            }),
            opt!("--report": "print a table of all directives instead of the VCL: how many are translated, how many have no\n\
            meaning here and how many are refused, with reasons and places, and the coverage" => |o, args| {
                o.converting(args)?;
                o.is_report = true
            }),
            opt!("--format text|json": "output format (default text)" =>
                |o, args| o.is_json = args.one_of(&[("text", false), ("json", true)])?),
            opt!("--header NAME": "with --compare: compare this header, too, such as one in which origins name themselves" => |o, args| {
                o.comparing(args)?;
                o.headers.push(args.parsed("the name of a header is wanted", header)?)
            }),
            opt!("--host NAME": "with --compare: the Host of requests whose log line has none (default OLD)" => |o, args| {
                o.comparing(args)?;
                o.host = Some(args.text()?)
            }),
            opt!("--log-format FORMAT": "with --compare: the format of the log, in Apache's letters" => |o, args| {
                o.comparing(args)?;
                o.format = Some(LogFormat::parse(args.value()?)?)
            }),
            opt!("--count N": "with --compare: the most requests, each counted once (default 1000)" => |o, args| {
                o.comparing(args)?;
                o.count = args.number(1..=100_000)?
            }),
            opt!("--rate N": "with --compare: requests per second to each server (default 20)" => |o, args| {
                o.comparing(args)?;
                o.rate = args.number(1..=1000)?
            }),
            opt!("--time TIME": "with --compare: end after this time (default 600s)" => |o, args| {
                o.comparing(args)?;
                o.time = args.time(Duration::from_secs(1)..=Duration::from_secs(86_400))?
            }),
            Opt::line("-h, --help", "show this help"),
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: Tool<MigrateWords> = Tool {
    indent: 2,
    word: |o, word| {
        o.plain.push(word.to_owned());
        Ok(())
    },
    ..Tool::new("lacquer migrate", HELP)
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    Nginx,
    Apache,
    Squid,
    Varnish,
    Hitch,
}

const FROM: [(&str, From); 6] = [
    ("nginx", From::Nginx),
    ("apache", From::Apache),
    ("apache2", From::Apache),
    ("squid", From::Squid),
    ("varnish", From::Varnish),
    ("hitch", From::Hitch),
];

#[derive(Debug, PartialEq, Eq)]
pub struct MigrateOptions {
    pub from: From,
    pub file: String,
    /// Further files: a unit's drop-ins.
    pub more: Vec<String>,
    pub origin: String,
    pub out: Option<String>,
    pub is_json: bool,
    pub is_report: bool,
}

/// The words, of a conversion or of a comparison.
pub struct MigrateWords {
    is_compare: bool,
    plain: Vec<String>,
    origin: String,
    out: Option<String>,
    is_json: bool,
    is_report: bool,
    host: Option<String>,
    headers: Vec<String>,
    format: Option<LogFormat>,
    count: usize,
    rate: u32,
    time: Duration,
}

impl MigrateWords {
    fn new(is_compare: bool) -> MigrateWords {
        MigrateWords {
            is_compare,
            plain: Vec::new(),
            origin: "127.0.0.1:8080".to_owned(),
            out: None,
            is_json: false,
            is_report: false,
            host: None,
            headers: Vec::new(),
            format: None,
            count: 1000,
            rate: 20,
            time: Duration::from_secs(600),
        }
    }

    /// Checks that the option in hand is one of a conversion.
    fn converting(&self, args: &Args<'_>) -> Result<(), String> {
        if self.is_compare { Err(args.unknown(&TOOL.usage())) } else { Ok(()) }
    }

    /// Checks that the option in hand is one of a comparison.
    fn comparing(&self, args: &Args<'_>) -> Result<(), String> {
        if self.is_compare { Ok(()) } else { Err(args.unknown(&TOOL.usage())) }
    }
}

/// The options of a conversion that the words ask for; `None`: the help.
pub fn parse(words: &[String]) -> Result<Option<MigrateOptions>, String> {
    let Some(words) = TOOL.read(MigrateWords::new(false), words)? else { return Ok(None) };
    let [from, file, more @ ..] = &words.plain[..] else {
        return Err("whose configuration, and which file?".to_owned());
    };
    let known = FROM.iter().find(|(name, _)| *name == from).map(|(_, from)| *from);
    let from = known.ok_or_else(|| {
        let near = base::spelling::nearest(from, FROM.iter().map(|(name, _)| *name));
        let near = near.map(|near| format!(": is {near:?} meant?")).unwrap_or_default();
        format!("nothing is known of {from:?}{near}; VCL before 4.0 is for `lacquer vcl migrate`")
    })?;
    if let Some(second) = more.first().filter(|_| from != From::Varnish) {
        return Err(format!("one file is read, with what it includes, and not {second} besides"));
    }
    let (file, more) = (file.clone(), more.to_vec());
    let MigrateWords { origin, out, is_json, is_report, .. } = words;
    Ok(Some(MigrateOptions { from, file, more, origin, out, is_json, is_report }))
}

/// The options of a comparison that the words beside `--compare` ask for; `None`: the help.
pub fn parse_compare(words: &[String]) -> Result<Option<CompareOptions>, String> {
    let Some(words) = TOOL.read(MigrateWords::new(true), words)? else { return Ok(None) };
    let MigrateWords { plain, format, host, headers, count, rate, time, is_json, .. } = words;
    let [old, new, files @ ..] = &plain[..] else {
        return Err("--compare wants the old server's address, ours, and a log or a list of URLs".to_owned());
    };
    if files.is_empty() {
        return Err("which log or list of URLs?".to_owned());
    }
    let sources = AccessSources { files: files.to_vec(), format, ..AccessSources::default() };
    Ok(Some(CompareOptions { names: [old.clone(), new.clone()], sources, host, headers, count, rate, time, is_json }))
}

fn header(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
    is_name.then(|| text.to_owned())
}
