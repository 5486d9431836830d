// SPDX-License-Identifier: BSD-2-Clause
//! Options of `lacquer watch`.

use std::net::SocketAddr;
use std::path::PathBuf;

use base::text::bad_address;
use toolkit::args::{Arg, Args};

use crate::metrics::MetricNaming;
use crate::sealing::PemFiles;

pub const DEFAULT_ADDRESS: &str = "127.0.0.1:6085";

pub const USAGE: &str = "\
Usage: lacquer watch [options]

One place to look at a running server, Lacquer or Varnish 7: a page for browsers, metrics for Prometheus, health for load
balancers. It reads the server's shared memory and never slows it. The server starts it by itself with --watch ADDRESS.

 -n <dir>              The server's working directory, as varnishd's -n
 -a <address:port>     Where to listen (default: 127.0.0.1:6085). An address that isn't this machine's alone needs
                       --token-file or --client-ca
 --any-port            If the port is taken, listen on a free one and print it
 --token-file <file>   Require the token in this file (at least 16 characters): browsers log in with it, other clients
                       send `Authorization: Bearer TOKEN`
 --tls-cert <file>     Speak TLS with the certificate in this file (PEM): it, those that lead to it, and its key. It is
                       read again when it changes
 --tls-key <file>      The key, if it isn't in that file
 --client-ca <file>    Clients with a certificate from one of these authorities have access without a token; needs
                       --tls-cert
 --control             Allow purges, bans and VCL changes from the page, over the server's CLI; needs --token-file or
                       --client-ca
 --no-cli              Don't ask the server's CLI anything: no explain, no lists of VCLs and bans
 -S <file>             The CLI's secret file (default: the server's own)
 --show-header <name>  Show the values of this header, which are hidden by default (Cookie, Set-Cookie, Authorization
                       and similar); may be repeated
 --show-vcl            Show VCL source with its profile to everybody with access, also without a token
 --metrics <names>     own (default), or exporter: the names of prometheus_varnish_exporter. /metrics?names=... chooses
                       them for one request
 --ready <what>        When /readyz returns 200. vcl (default): a VCL is usable; backend: also a backend is healthy;
                       backend=NAME[,NAME...]: also one of these is
 -h, --help            This text

Paths: / the page, /metrics, /healthz, /readyz.

Examples:
 lacquer watch -n /var/lib/varnish/site
 lacquer watch -a 0.0.0.0:6085 --token-file /etc/varnish/watch-token --ready backend
 lacquer watch -a 0.0.0.0:443 --tls-cert watch.pem --client-ca operators.pem --control
";

/// The condition for `/readyz`, besides the processes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Ready {
    /// A VCL can be used.
    #[default]
    Vcl,
    /// A VCL can be used, and any backend is healthy.
    AnyBackend,
    /// A VCL can be used, and one of these backends is healthy.
    Backends(Vec<String>),
}

#[derive(Clone, PartialEq, Debug)]
pub struct WatchOptions {
    /// Value of the option `-n`.
    pub name: Option<String>,
    /// Value of the option `-a`.
    pub listen: String,
    pub any_port: bool,
    pub token_file: Option<PathBuf>,
    /// Values of `--tls-cert`, `--tls-key` and `--client-ca`.
    pub tls: Option<PemFiles>,
    pub control: bool,
    /// False if `--no-cli` is set.
    pub cli: bool,
    /// Value of the option `-S`.
    pub secret: Option<String>,
    pub show_headers: Vec<String>,
    pub show_vcl: bool,
    pub naming: MetricNaming,
    pub ready: Ready,
    /// True if the server has started this process. It then ends when its standard input closes.
    pub is_child: bool,
    /// Descriptor of the socket to the server's CLI, if the server has given one.
    pub cli_channel: Option<i32>,
    /// Descriptor of the file in which history and events outlive this process, if the server has given one.
    pub history: Option<i32>,
    /// The workdir to show, if `name` is only a path to it.
    pub shown_workdir: Option<PathBuf>,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions {
            name: None,
            listen: DEFAULT_ADDRESS.to_owned(),
            any_port: false,
            token_file: None,
            tls: None,
            control: false,
            cli: true,
            secret: None,
            show_headers: Vec::new(),
            show_vcl: false,
            naming: MetricNaming::Own,
            ready: Ready::Vcl,
            is_child: false,
            cli_channel: None,
            history: None,
            shown_workdir: None,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum WatchInvocation {
    Run(Box<WatchOptions>),
    Help,
}

impl WatchOptions {
    /// Parses the options. An error is one line that names the wrong option.
    pub fn parse(args: &[String]) -> Result<WatchInvocation, String> {
        let mut o = WatchOptions::default();
        let (mut chain, mut key, mut authorities) = (None, None, None);
        let mut words = Args::new(args);
        while let Some(word) = words.next()? {
            match word {
                Arg::Help => return Ok(WatchInvocation::Help),
                Arg::Option("-n") => o.name = Some(words.value()?.to_owned()),
                Arg::Option("-a") => o.listen = words.value()?.to_owned(),
                Arg::Option("--any-port") => o.any_port = true,
                Arg::Option("--token-file") => o.token_file = Some(words.value()?.into()),
                Arg::Option("--tls-cert") => chain = Some(PathBuf::from(words.value()?)),
                Arg::Option("--tls-key") => key = Some(PathBuf::from(words.value()?)),
                Arg::Option("--client-ca") => authorities = Some(PathBuf::from(words.value()?)),
                Arg::Option("--control") => o.control = true,
                Arg::Option("--no-cli") => o.cli = false,
                Arg::Option("-S") => o.secret = Some(words.value()?.to_owned()),
                Arg::Option("--show-header") => o.show_headers.push(words.value()?.to_owned()),
                Arg::Option("--show-vcl") => o.show_vcl = true,
                Arg::Option("--metrics") => {
                    o.naming = words.one_of(&[("own", MetricNaming::Own), ("exporter", MetricNaming::Exporter)])?;
                }
                Arg::Option("--ready") => o.ready = words.parsed("vcl, backend or backend=NAME,...", ready)?,
                Arg::Option("--cli-channel") => {
                    o.cli_channel = Some(words.parsed("a descriptor", |text| text.parse().ok())?)
                }
                Arg::Option("--history") => o.history = Some(words.parsed("a descriptor", |text| text.parse().ok())?),
                Arg::Option("--child") => {
                    o.is_child = true;
                    o.shown_workdir = words.joined_value().map(PathBuf::from);
                }
                Arg::Option(_) => return Err(words.unknown(USAGE)),
                Arg::Word(word) => return Err(format!("what is {word}? (--help shows the usage)")),
            }
        }
        o.tls = match chain {
            Some(chain) => Some(PemFiles { chain, key, authorities }),
            None if key.is_some() || authorities.is_some() => {
                return Err("--tls-key and --client-ca need --tls-cert".to_owned());
            }
            None => None,
        };
        o.check()?;
        Ok(WatchInvocation::Run(Box::new(o)))
    }

    /// True if clients must authenticate, by a token or a certificate.
    fn knows_who(&self) -> bool {
        self.token_file.is_some() || self.tls.as_ref().is_some_and(|files| files.authorities.is_some())
    }

    fn check(&self) -> Result<(), String> {
        if self.control && !self.knows_who() {
            return Err(
                "--control needs --token-file or --client-ca: else everybody on this machine could change the server"
                    .to_owned(),
            );
        }
        if self.control && !self.cli {
            return Err("--control needs the CLI, and --no-cli is without".to_owned());
        }
        Ok(())
    }

    /// The addresses to listen on.
    ///
    /// # Errors
    /// The address is invalid, or it requires a token and none is set.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let text = match self.listen.strip_prefix(':') {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.listen.clone(),
        };
        let all = base::lookup::addresses_of_text(&text)
            .map_err(|_| format!("-a {}: {}", self.listen, bad_address(&self.listen)))?;
        match all.iter().find(|address| !address.ip().is_loopback()) {
            _ if all.is_empty() => Err(format!("-a {}: no address:port", self.listen)),
            Some(address) if !self.knows_who() => Err(format!(
                "-a {}: others than this machine could see everything at {}; --token-file FILE or --client-ca FILE says who may, or listen on 127.0.0.1",
                self.listen,
                address.ip()
            )),
            _ => Ok(all),
        }
    }
}

fn ready(text: &str) -> Option<Ready> {
    match text {
        "vcl" => Some(Ready::Vcl),
        "backend" => Some(Ready::AnyBackend),
        _ => {
            let names: Vec<String> = text.strip_prefix("backend=")?.split(',').map(str::to_owned).collect();
            (!names.iter().any(String::is_empty)).then_some(Ready::Backends(names))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let got = match WatchOptions::parse(&args) {
            Ok(WatchInvocation::Help) => "help".to_owned(),
            Ok(WatchInvocation::Run(o)) => match o.addresses() {
                Ok(all) => format!("{} {:?} {:?} {}", all[0], o.ready, o.naming, o.show_headers.join(",")),
                Err(error) => error,
            },
            Err(error) => error,
        };
        assert_eq!(got.trim_end(), expected, "{line}");
    }

    #[test]
    fn words() {
        check("", "127.0.0.1:6085 Vcl Own");
        check("-a :81 --metrics exporter --ready backend", "127.0.0.1:81 AnyBackend Exporter");
        check(
            "--ready backend=a,b --show-header Cookie --show-header=x",
            "127.0.0.1:6085 Backends([\"a\", \"b\"]) Own Cookie,x",
        );
        check("--help", "help");
        check("-x", "no option -x (--help shows the usage)");
        check("-a nonsense", "-a nonsense: no address:port");
    }

    #[test]
    fn what_would_be_unsafe_is_refused() {
        check(
            "-a 0.0.0.0:6085",
            "-a 0.0.0.0:6085: others than this machine could see everything at 0.0.0.0; --token-file FILE or --client-ca FILE says who may, or listen on 127.0.0.1",
        );
        check("-a 0.0.0.0:6085 --token-file /t", "0.0.0.0:6085 Vcl Own");
        check(
            "--control",
            "--control needs --token-file or --client-ca: else everybody on this machine could change the server",
        );
        check("-a 0.0.0.0:6085 --client-ca /ca", "--tls-key and --client-ca need --tls-cert");
        check("-a 0.0.0.0:6085 --tls-cert /c --client-ca /ca --control", "0.0.0.0:6085 Vcl Own");
        assert!(
            matches!(WatchOptions::parse(&["--tls-cert=/c".to_owned(), "--control".to_owned()]), Err(e) if e.starts_with("--control"))
        );
        check("--control --token-file /t --no-cli", "--control needs the CLI, and --no-cli is without");
    }
}
