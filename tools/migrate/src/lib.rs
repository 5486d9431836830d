// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer migrate`: what a configuration of nginx, Apache or squid asks of a cache, as VCL and a command line; and the start lines of
//! Varnish's own files. What has no counterpart is refused by its name and place, never left out in silence.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod apache;
mod compare;
mod fates;
mod hitch;
mod migrated;
mod nginx;
mod regex;
mod source;
mod squid;
mod varnish;
mod vcl;

use ::vcl as vcl_compiler;

use migrated::{MigrateLevel, Migrated};
use source::{BoundedFiles, DiskFiles, FileSource};
use toolkit::args::{Arg, Args};
use toolkit::print;

pub const USAGE: &str = "\
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

  --origin HOST:PORT  address on which nginx or Apache will listen (default 127.0.0.1:8080)
  --out DIR           write files to this directory: default.vcl, varnishd.args, tls.conf if there are certificates, and
                      for Apache its changed configuration files
  --report            print a table of all directives instead of the VCL: how many are translated, how many have no
                      meaning here and how many are refused, with reasons and places, and the coverage
  --format text|json  output format (default text)
  --header NAME       with --compare: compare this header, too, such as one in which origins name themselves
  --host NAME         with --compare: the Host of requests whose log line has none (default OLD)
  --log-format FORMAT with --compare: the format of the log, in Apache's letters
  --count N           with --compare: the most requests, each counted once (default 1000)
  --rate N            with --compare: requests per second to each server (default 20)
  --time TIME         with --compare: end after this time (default 600s)
  -h, --help          show this help

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
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
struct Options {
    from: From,
    file: String,
    /// Further files: a unit's drop-ins.
    more: Vec<String>,
    origin: String,
    out: Option<String>,
    is_json: bool,
    is_report: bool,
}

/// The options that the words ask for; None: the help.
fn parse(words: &[String]) -> Result<Option<Options>, String> {
    let (mut plain, mut origin, mut out) = (Vec::new(), "127.0.0.1:8080".to_owned(), None);
    let (mut is_json, mut is_report) = (false, false);
    let mut args = Args::new(words);
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Help => return Ok(None),
            Arg::Option("--origin") => {
                origin = args.parsed("HOST:PORT is wanted", |text| split_address(text).map(|_| text.to_owned()))?;
            }
            Arg::Option("--out") => out = Some(args.value()?.to_owned()),
            Arg::Option("--report") => is_report = true,
            Arg::Option("--format") => is_json = args.one_of(&[("text", false), ("json", true)])?,
            Arg::Option(_) => return Err(args.unknown(USAGE)),
            Arg::Word(word) => plain.push(word),
        }
    }
    let [from, file, more @ ..] = &plain[..] else { return Err("whose configuration, and which file?".to_owned()) };
    let (from, file) = (*from, *file);
    let known = FROM.iter().find(|(name, _)| *name == from).map(|(_, from)| *from);
    let from = known.ok_or_else(|| {
        let near = base::spelling::nearest(from, FROM.iter().map(|(name, _)| *name));
        let near = near.map(|near| format!(": is {near:?} meant?")).unwrap_or_default();
        format!("nothing is known of {from:?}{near}; VCL before 4.0 is for `lacquer vcl migrate`")
    })?;
    if let Some(second) = more.first().filter(|_| from != From::Varnish) {
        return Err(format!("one file is read, with what it includes, and not {second} besides"));
    }
    let more = more.iter().map(|file| (*file).to_owned()).collect();
    Ok(Some(Options { from, file: file.to_owned(), more, origin, out, is_json, is_report }))
}

/// `HOST:PORT` or `[HOST]:PORT` in two.
fn split_address(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty() && port.parse::<u16>().is_ok()).then_some((host, port))
}

pub fn main(args: &[String]) -> i32 {
    if let Some(at) = args.iter().position(|arg| arg == "--compare") {
        return compare::main(&[&args[..at], &args[at + 1..]].concat(), USAGE);
    }
    let options = match parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print::out(USAGE);
            return 0;
        }
        Err(error) => {
            print::err(format_args!("lacquer migrate: {error}\n{}", USAGE.split("\n\n").next().unwrap_or_default()));
            print::err("\n");
            return 2;
        }
    };
    let migrated = match migrate(&options, &DiskFiles).and_then(|migrated| verified(&options, migrated)) {
        Ok(migrated) => migrated,
        Err(error) => {
            print::foreign_err(format_args!("lacquer migrate: {error}\n"));
            return 2;
        }
    };
    if let Some(dir) = &options.out
        && let Err(error) = migrated.write(dir)
    {
        print::err(format_args!("lacquer migrate: {dir}: {error}\n"));
        return 2;
    }
    match (options.is_report, options.is_json) {
        (true, true) => print::out(format_args!("{:#}\n", migrated.account.json())),
        (true, false) => print::foreign(migrated.account.text()),
        (false, true) => print::out(format_args!("{:#}\n", migrated.json())),
        (false, false) => {
            if options.out.is_none() {
                print::foreign(migrated.text());
            }
            migrated.notes.iter().for_each(|note| print::foreign_err(format_args!("{note}\n")));
            print::err(format_args!("{}; --report lists them\n", migrated.account.summary()));
        }
    }
    i32::from(migrated.notes.iter().any(|note| note.level == MigrateLevel::Refused))
}

fn migrate(options: &Options, files: &dyn FileSource) -> Result<Migrated, String> {
    let files = &BoundedFiles::new(files);
    let (host, port) = split_address(&options.origin).ok_or_else(|| format!("--origin {}", options.origin))?;
    let mut migrated = match options.from {
        From::Nginx => nginx::migrate(&options.file, (host, port), files),
        From::Apache => apache::migrate(&options.file, (host, port), files),
        From::Squid => squid::migrate(&options.file, files),
        From::Varnish => varnish::migrate(&[std::slice::from_ref(&options.file), &options.more].concat(), files),
        From::Hitch => hitch::migrate(&options.file, files),
    }?;
    migrated.sources = files.seen();
    migrated.close();
    Ok(migrated)
}

/// The result, once its VCL has compiled.
fn verified(options: &Options, migrated: Migrated) -> Result<Migrated, String> {
    if migrated.is_start_line {
        return Ok(migrated);
    }
    compile(&migrated.vcl).map_err(|errors| {
        let first = errors.lines().next().unwrap_or_default();
        format!("{}: the VCL that came of it doesn't compile: {first}", options.file)
    })?;
    Ok(migrated)
}

/// Compiles VCL as the server does.
fn compile(vcl: &str) -> Result<(), String> {
    let options = vcl_compiler::CompileOptions {
        check_regex: Some(vcl_regex::check),
        modules: vmods::MODULES,
        lazy_hosts: true,
        ..vcl_compiler::CompileOptions::default()
    };
    let compiled = vcl_compiler::compile("migrated", vcl.as_bytes(), &vcl_compiler::NoSources, &options);
    compiled.map(|_| ()).map_err(|errors| errors.to_string())
}

#[cfg(test)]
mod tests;
