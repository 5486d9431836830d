// SPDX-License-Identifier: BSD-2-Clause
//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use shm::reader::CounterReader;

use crate::export::Export;

pub const HELP: &str = "\
Usage: lacquer statsd CONFIG
       lacquer statsd --check CONFIG
       lacquer statsd --export TARGET [-n NAME] [-i SECONDS] [--prefix TEXT]

A metrics server that replaces statsd for Node.js and its Perl port: same protocol, same configuration files, same names
and values in Graphite. CONFIG is a configuration file of either. It is reloaded when it changes and on SIGHUP. SIGTERM
flushes a last time and exits.

  --check CONFIG    check the configuration file and exit
  --export TARGET   send a cache's counters to a statsd: HOST, HOST:PORT, [IPv6]:PORT or a socket's path
  -n NAME           the cache's instance name or working directory, as varnishd's -n
  -i SECONDS        seconds between two exports (default 1)
  --prefix TEXT     prefix of each name (default lacquer.)
  -h, --help        show this help

Examples:

  A server that sends to Graphite every ten seconds:
    echo '{ graphiteHost: \"graphite.example.com\", backends: [\"./backends/graphite\"] }' > statsd.js
    lacquer statsd statsd.js

  Print incoming metrics, without Graphite:
    echo '{ flushInterval: 1000, backends: [\"./backends/console\"] }' > look.js
    lacquer statsd look.js
    echo 'site.logins:1|c' | nc -u -w0 127.0.0.1 8125

  Query it on the management port:
    printf 'stats\\nquit\\n' | nc 127.0.0.1 8126

  Export the cache's counters as lacquer.MAIN.cache_hit and so on:
    lacquer statsd --export 127.0.0.1:8125
";

/// The shortest time between two readings.
const SHORTEST: f64 = 0.01;

#[derive(Clone, Debug, PartialEq)]
pub enum StatsdCommand {
    Help,
    Serve(PathBuf),
    Check(PathBuf),
    Export(Export),
}

/// Reads the command line. As with node, what follows the configuration's name is passed over.
pub fn parse(args: &[String]) -> Result<StatsdCommand, String> {
    match args.first().map(String::as_str) {
        None => Err("which configuration?".to_owned()),
        Some("-h" | "--help" | "help" | "-?") => Ok(StatsdCommand::Help),
        Some("--check") => {
            args.get(1).map(|path| StatsdCommand::Check(path.into())).ok_or("--check which file?".to_owned())
        }
        Some("--export") => export(&args[1..]),
        Some(option) if option.starts_with("--") => Err(format!("no option {option}")),
        Some(path) => Ok(StatsdCommand::Serve(path.into())),
    }
}

fn export(args: &[String]) -> Result<StatsdCommand, String> {
    let (target, options) = args.split_first().ok_or("--export to which statsd?")?;
    let target = target.parse().map_err(|error: statsd_client::TargetError| error.to_string())?;
    let (mut name, mut seconds, mut prefix) = (None, 1.0, "lacquer.".to_owned());
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "-n" => name = Some(value.as_str()),
            "-i" => {
                let parsed = value.parse().ok().filter(|s: &f64| (SHORTEST..=86_400.0).contains(s));
                seconds = parsed.ok_or("-i: seconds from 0.01 to 86400")?;
            }
            "--prefix" => prefix = value.clone(),
            other => return Err(format!("no option {other}")),
        }
    }
    let workdir = CounterReader::workdir_of(name);
    Ok(StatsdCommand::Export(Export { target, workdir, interval: Duration::from_secs_f64(seconds), prefix }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: &str) {
        let args: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        assert_eq!(format!("{:?}", parse(&args)), expected, "{words}");
    }

    #[test]
    fn command_lines() {
        check("", "Err(\"which configuration?\")");
        check("--help", "Ok(Help)");
        check("x.js 2>&1", "Ok(Serve(\"x.js\"))");
        check("--check x.js", "Ok(Check(\"x.js\"))");
        check("--what", "Err(\"no option --what\")");
        check("--export", "Err(\"--export to which statsd?\")");
        check("--export h -n", "Err(\"-n needs a value\")");
        check("--export h -i 0", "Err(\"-i: seconds from 0.01 to 86400\")");
        check(
            "--export h:1 -n /w -i 0.5 --prefix a.",
            "Ok(Export(Export { target: Udp(\"h\", 1), workdir: \"/w\", interval: 500ms, prefix: \"a.\" }))",
        );
    }
}
