// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer demo`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::{AfterError, Tool};

const INTRODUCTION: &str = "\
Usage: lacquer demo [-a ADDRESS:PORT] [-s STORAGE] [--watch ADDRESS:PORT] [--load[=RATE]] [--varnishd PATH]

Starts a small demo site and a cache in front of it, and prints a line of figures each second until Ctrl-C.

";

const HELP: &[HelpPart<DemoOptions>] = &[(
    INTRODUCTION,
    &[
        opt!("-a ADDRESS:PORT": "the cache's address (default 127.0.0.1:6081, or a free port if that is taken)" =>
            |o, args| o.listen = Some(args.text()?)),
        opt!("-s STORAGE": "the cache's storage, as for varnishd -s (default malloc,256m)" =>
            |o, args| o.storage = args.text()?),
        opt!("--watch ADDRESS:PORT": "\nthe dashboard's address (default 127.0.0.1:6085, or a free port if that is taken); '' for none" =>
            |o, args| o.watch = parse_watch(args.value()?)?),
        opt!("--load[=RATE]": "also send RATE requests per second (default 200)" =>
            |o, args| o.load = args.joined_value().map_or(Ok(DEFAULT_RATE), parse_rate)?),
        opt!("--varnishd PATH": "use this cache program instead of Lacquer" =>
            |o, args| o.varnishd = Some(args.value()?.into())),
        Opt::line("-h, --help", "this text"),
    ],
)];

pub const TOOL: Tool<DemoOptions> =
    Tool { indent: 2, column: 20, after_error: AfterError::Nothing, failure: 1, ..Tool::new("lacquer demo", HELP) };

/// The address on which the cache listens when nothing else is said and the port is free.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:6081";

/// The address of its page, unless the port is taken.
pub const WATCH_ADDRESS: &str = "127.0.0.1:6085";

const DEFAULT_RATE: u32 = 200;
const MAX_RATE: u32 = 100_000;

#[derive(Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// The cache's `-a`; None: the default address, or a free port.
    pub listen: Option<String>,
    /// The `-s` of the cache.
    pub storage: String,
    pub watch: WatchPage,
    /// Requests per second to make ourselves; 0: none but the few that measure latency.
    pub load: u32,
    /// The program in front; None: this very program, as `varnishd`.
    pub varnishd: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum WatchPage {
    /// At the usual address, or at another port when that is taken.
    Usual,
    At(SocketAddr),
    Nowhere,
}

impl Default for DemoOptions {
    fn default() -> DemoOptions {
        DemoOptions { listen: None, storage: "malloc,256m".into(), watch: WatchPage::Usual, load: 0, varnishd: None }
    }
}

fn parse_watch(text: &str) -> Result<WatchPage, String> {
    if text.is_empty() {
        return Ok(WatchPage::Nowhere);
    }
    let named = text.strip_prefix(':').map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    let address = named.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let address = address.ok_or_else(|| format!("--watch {text}: no ADDRESS:PORT"))?;
    // The page shows what clients send, and the demo has no token for it.
    if !address.ip().is_loopback() {
        return Err(format!(
            "--watch {text}: other machines could see everything; the demo's dashboard must listen on loopback"
        ));
    }
    Ok(WatchPage::At(address))
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
        let got = match TOOL.read(DemoOptions::default(), &args) {
            Ok(Some(o)) => format!("{} {} {}", o.listen.as_deref().unwrap_or("-"), o.storage, o.load),
            Ok(None) => "help".into(),
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
        check(&["--watch", "nowhere"], "--watch nowhere: no ADDRESS:PORT");
        check(
            &["--watch", "192.0.2.1:1"],
            "--watch 192.0.2.1:1: other machines could see everything; the demo's dashboard must listen on loopback",
        );
    }

    #[test]
    fn where_the_page_is() {
        assert_eq!(parse_watch(""), Ok(WatchPage::Nowhere));
        assert_eq!(parse_watch("127.0.0.2:7"), Ok(WatchPage::At(SocketAddr::from(([127, 0, 0, 2], 7)))));
        assert_eq!(parse_watch(":7"), Ok(WatchPage::At(SocketAddr::from(([127, 0, 0, 1], 7)))));
    }
}
