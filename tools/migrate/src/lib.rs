// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer migrate`: what a configuration of nginx, Apache or squid asks of a cache, as VCL and a command line. What has no counterpart is
//! refused by its name and place, never left out in silence.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod account;
mod apache;
mod fates;
mod migrated;
mod nginx;
mod source;
mod squid;
mod vcl;

#[cfg(test)]
use ::vcl as vcl_compiler;

use migrated::{MigrateLevel, Migrated};
use source::{DiskFiles, FileSource};
use toolkit::args::{Arg, Args};
use toolkit::print;

pub const USAGE: &str = "\
Usage: lacquer migrate nginx|apache|squid FILE [options]

Reads a configuration with its included files and prints VCL that does the same. A comment at its top has the command
line for lacquer serve. Reports on standard error, with file and line, what behaves differently, what has no counterpart,
and what to change in the old server's files. nginx and Apache continue as the origin: let them listen on another
address (--origin).

  --origin HOST:PORT  address on which nginx or Apache will listen (default 127.0.0.1:8080)
  --out DIR           write files to this directory: default.vcl, varnishd.args, tls.conf if there are certificates, and
                      for Apache its changed configuration files
  --report            print a table of all directives instead of the VCL: how many are translated, how many have no meaning
                      here and how many are refused, with reasons and places, and the coverage
  --format text|json  output format (default text)
  -h, --help          show this help

Examples:
  lacquer migrate nginx /etc/nginx/nginx.conf > default.vcl
  lacquer migrate apache /etc/apache2/apache2.conf --origin 127.0.0.1:8081 --out new
  lacquer migrate squid /etc/squid/squid.conf --format json
  lacquer migrate nginx /etc/nginx/nginx.conf --report

The exit status is 0 if everything has a counterpart, 1 if something was refused, 2 if nothing could be read.
";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Nginx,
    Apache,
    Squid,
}

const FROM: [(&str, From); 4] =
    [("nginx", From::Nginx), ("apache", From::Apache), ("apache2", From::Apache), ("squid", From::Squid)];

#[derive(Debug, PartialEq, Eq)]
struct Options {
    from: From,
    file: String,
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
    let [from, file] = plain[..] else { return Err("whose configuration, and which file?".to_owned()) };
    let known = FROM.iter().find(|(name, _)| *name == from).map(|(_, from)| *from);
    let from = known.ok_or_else(|| {
        let near = base::spelling::nearest(from, FROM.iter().map(|(name, _)| *name), from.len() / 3 + 1);
        let near = near.map(|near| format!(": is {near:?} meant?")).unwrap_or_default();
        format!("nothing is known of {from:?}{near}; VCL before 4.0 is for `lacquer vcl migrate`")
    })?;
    Ok(Some(Options { from, file: file.to_owned(), origin, out, is_json, is_report }))
}

/// `HOST:PORT` or `[HOST]:PORT` in two.
fn split_address(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty() && port.parse::<u16>().is_ok()).then_some((host, port))
}

pub fn main(args: &[String]) -> i32 {
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
    let migrated = match migrate(&options, &DiskFiles) {
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
    let (host, port) = split_address(&options.origin).ok_or_else(|| format!("--origin {}", options.origin))?;
    let mut migrated = match options.from {
        From::Nginx => nginx::migrate(&options.file, (host, port), files),
        From::Apache => apache::migrate(&options.file, (host, port), files),
        From::Squid => squid::migrate(&options.file, files),
    }?;
    migrated.close();
    Ok(migrated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A result as it is, once its VCL has compiled.
    pub fn compiled(migrated: Migrated) -> Migrated {
        let options = vcl_compiler::CompileOptions {
            check_regex: Some(vcl_regex::check),
            modules: vmods::MODULES,
            lazy_hosts: true,
            ..vcl_compiler::CompileOptions::default()
        };
        if let Err(errors) =
            vcl_compiler::compile("migrated", migrated.vcl.as_bytes(), &vcl_compiler::NoSources, &options)
        {
            panic!("{errors}\n{}", migrated.vcl);
        }
        migrated
    }

    fn check(words: &str, expect: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let got = match parse(&words) {
            Ok(Some(o)) => format!("{:?} {} {} {:?} {} {}", o.from, o.file, o.origin, o.out, o.is_json, o.is_report),
            Ok(None) => "help".to_owned(),
            Err(error) => error,
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn words() {
        check("nginx a.conf", "Nginx a.conf 127.0.0.1:8080 None false false");
        check("--format=json apache2 a --origin [::1]:81 --out d", "Apache a [::1]:81 Some(\"d\") true false");
        check("nginx --report a", "Nginx a 127.0.0.1:8080 None false true");
        check("nginx", "whose configuration, and which file?");
        check(
            "ngnix a",
            "nothing is known of \"ngnix\": is \"nginx\" meant?; VCL before 4.0 is for `lacquer vcl migrate`",
        );
        check("squid a --origin b", "--origin b: HOST:PORT is wanted");
        check("squid -h", "help");
    }

    struct Typed(String);

    impl FileSource for Typed {
        fn read(&self, path: &str) -> Result<String, String> {
            if path == "f" { Ok(self.0.clone()) } else { Err(format!("{path}: not there")) }
        }

        fn matching(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn no_line_is_too_short() {
        for from in [From::Nginx, From::Apache, From::Squid] {
            let source = match from {
                From::Nginx => concat!(
                    include_str!("nginx.rs"),
                    include_str!("nginx/known.rs"),
                    include_str!("nginx/leaf.rs"),
                    include_str!("nginx/location.rs"),
                    include_str!("nginx/response.rs"),
                    include_str!("nginx/script.rs"),
                    include_str!("nginx/table.rs"),
                    include_str!("nginx/site.rs"),
                    include_str!("nginx/upstream.rs")
                ),
                From::Apache => concat!(
                    include_str!("apache.rs"),
                    include_str!("apache/access.rs"),
                    include_str!("apache/cache.rs"),
                    include_str!("apache/known.rs"),
                    include_str!("apache/listen.rs"),
                    include_str!("apache/reader.rs"),
                    include_str!("apache/section.rs"),
                    include_str!("apache/settings.rs"),
                    include_str!("apache/unseen.rs")
                ),
                From::Squid => concat!(
                    include_str!("squid.rs"),
                    include_str!("squid/acl.rs"),
                    include_str!("squid/peer.rs"),
                    include_str!("squid/refresh.rs"),
                    include_str!("squid/rule.rs")
                ),
            };
            let is_name =
                |word: &&str| !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
            let names: BTreeSet<&str> = source.split('"').filter(is_name).collect();
            assert!(names.len() > 20);
            let mut seen = BTreeSet::new();
            for name in names {
                for words in
                    ["", " a", " \u{e9}", " a b", " a b c", " all allow", " $", " ~", " -i", " 1\u{e9}", " \"", " = ."]
                {
                    let line = match from {
                        From::Nginx => format!(
                            "{name}{words}; server {{ {name}{words}; location / {{ {name}{words}; }} }} upstream u {{ {name}{words}; }}"
                        ),
                        From::Apache | From::Squid => format!("{name}{words}\n<{name}{words}>\n</{name}>\n"),
                    };
                    translate(from, line, &mut seen);
                }
            }
        }
    }

    /// Translates a text; a program that isn't among those that were `seen` is compiled.
    fn translate(from: From, text: String, seen: &mut BTreeSet<String>) {
        let options =
            Options { from, file: "f".to_owned(), ..parse(&["squid".to_owned(), "f".to_owned()]).unwrap().unwrap() };
        // The output is VCL, whether lines were refused or not.
        if let Ok(migrated) = migrate(&options, &Typed(text))
            && seen.insert(migrated.vcl.clone())
        {
            compiled(migrated);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_configuration_or_none(
            from in proptest::sample::select(vec![From::Nginx, From::Apache, From::Squid]),
            text in "((acl|http_access|cache_peer|refresh_pattern|server|location|proxy_pass|expires|map|listen|<VirtualHost|CacheEnable|\\PC{0,4})[ \n;{}\"$~]{0,2}){0,12}",
        ) {
            translate(from, text, &mut BTreeSet::new());
        }
    }
}
