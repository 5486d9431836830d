// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer demo`.

use std::path::PathBuf;

use base::args::{Arg, Args};

/// What `lacquer demo --help` prints.
pub const USAGE: &str = "\
Usage: lacquer demo [-a ADDRESS:PORT] [-s STORAGE] [--load[=RATE]] [--varnishd PATH]

Starts a built-in origin and the cache in front of it, and prints each second what the cache does, until Ctrl-C.

  -a ADDRESS:PORT   where the cache listens (default 127.0.0.1:6081, or a free port if that is taken)
  -s STORAGE        the cache's storage, as varnishd's -s (default malloc,256m)
  --load[=RATE]     also ask for pages, RATE requests a second (default 200)
  --varnishd PATH   the program to put in front instead of this one
  -h, --help        this text
";

/// Where the cache listens when nothing else is said and the port is free.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:6081";

/// Where its page is, unless the port is taken.
pub const WATCH_ADDRESS: &str = "127.0.0.1:6085";

const DEFAULT_RATE: u32 = 200;
const MAX_RATE: u32 = 100_000;

/// How the demo is to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// The cache's `-a`; None: the default address, or a free port.
    pub listen: Option<String>,
    /// The cache's `-s`.
    pub storage: String,
    /// Requests per second to make ourselves; 0: none but the few that measure latency.
    pub load: u32,
    /// The program in front; None: this very program, as `varnishd`.
    pub varnishd: Option<PathBuf>,
}

/// What the words ask for.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// To run.
    Run(Options),
    /// To print the usage.
    Help,
}

impl Options {
    /// Reads the words; an error is one line that names the wrong one.
    pub fn parse(args: &[String]) -> Result<Invocation, String> {
        let mut o = Options { listen: None, storage: "malloc,256m".into(), load: 0, varnishd: None };
        let mut words = Args::new(args);
        while let Some(word) = words.next()? {
            match word {
                Arg::Help => return Ok(Invocation::Help),
                Arg::Option("-a") => o.listen = Some(words.value()?.to_owned()),
                Arg::Option("-s") => o.storage = words.value()?.to_owned(),
                Arg::Option("--varnishd") => o.varnishd = Some(words.value()?.into()),
                Arg::Option("--load") => o.load = words.joined_value().map_or(Ok(DEFAULT_RATE), parse_rate)?,
                Arg::Option(_) => return Err(words.unknown()),
                Arg::Word(word) => return Err(format!("what is {word}? (--help shows the usage)")),
            }
        }
        Ok(Invocation::Run(o))
    }
}

fn parse_rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rate) if rate <= MAX_RATE => Ok(rate),
        _ => Err(format!("--load={text}: not a number from 0 to {MAX_RATE}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expect: &str) {
        let args: Vec<String> = args.iter().map(|&a| a.into()).collect();
        let got = match Options::parse(&args) {
            Ok(Invocation::Run(o)) => format!("{} {} {}", o.listen.as_deref().unwrap_or("-"), o.storage, o.load),
            Ok(Invocation::Help) => "help".into(),
            Err(e) => e,
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn words() {
        check(&[], "- malloc,256m 0");
        check(&["-a", ":80", "-s", "malloc,1m", "--load"], ":80 malloc,1m 200");
        check(&["--load=7"], "- malloc,256m 7");
        check(&["--load=x"], "--load=x: not a number from 0 to 100000");
        check(&["-a"], "-a needs a value");
        check(&["-z"], "no option -z (--help shows the usage)");
        check(&["-a", "x", "--help"], "help");
    }
}
