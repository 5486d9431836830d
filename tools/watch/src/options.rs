// SPDX-License-Identifier: BSD-2-Clause
//! Options of `lacquer watch`.

use std::net::SocketAddr;
use std::path::PathBuf;

use base::text::bad_address;
use toolkit::args::Args;
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::{AfterError, Tool};

use crate::metrics::MetricNaming;
use crate::sealing::PemFiles;

pub const DEFAULT_ADDRESS: &str = "127.0.0.1:6085";

const INTRODUCTION: &str = "\
Usage: lacquer watch [options]

One place to look at a running server, Lacquer or Varnish 6 to 9: a page for browsers, metrics for Prometheus, health for
load balancers. It reads the server's shared memory and never slows it. The server starts it by itself with
--watch ADDRESS.

";

const EPILOGUE: &str = "
Paths: / the page, /metrics, /healthz, /readyz.

Examples:
 lacquer watch -n /var/lib/varnish/site
 lacquer watch -a 0.0.0.0:6085 --token-file /etc/varnish/watch-token --ready backend
 lacquer watch -a 0.0.0.0:443 --tls-cert watch.pem --client-ca operators.pem --control
";

const HELP: &[HelpPart<WatchWords>] = &[
    (
        INTRODUCTION,
        &[
            opt!("-n <dir>": "The server's working directory, as varnishd's -n" =>
                |o, args| o.options.name = Some(args.text()?)),
            opt!("-a <address:port>": "Where to listen (default: 127.0.0.1:6085). An address that isn't this machine's alone needs\n\
                --token-file or --client-ca" =>
                |o, args| o.options.listen = args.text()?),
            opt!("--any-port": "If the port is taken, listen on a free one and print it" =>
                |o, _| o.options.any_port = true),
            opt!("--token-file <file>": "Require the token in this file (at least 16 characters): browsers log in with it, other clients\n\
                send `Authorization: Bearer TOKEN`" =>
                |o, args| o.options.token_file = Some(args.value()?.into())),
            opt!("--tls-cert <file>": "Speak TLS with the certificate in this file (PEM): it, those that lead to it, and its key. It is\n\
                read again when it changes" =>
                |o, args| o.chain = Some(args.value()?.into())),
            opt!("--tls-key <file>": "The key, if it isn't in that file" =>
                |o, args| o.key = Some(args.value()?.into())),
            opt!("--client-ca <file>": "Clients with a certificate from one of these authorities have access without a token; needs\n\
                --tls-cert" =>
                |o, args| o.authorities = Some(args.value()?.into())),
            opt!("--control": "Allow purges, bans and VCL changes from the page, over the server's CLI; needs --token-file or\n\
                --client-ca" =>
                |o, _| o.options.control = true),
            opt!("--no-cli": "Don't ask the server's CLI anything: no explain, no lists of VCLs and bans" =>
                |o, _| o.options.cli = false),
            opt!("-S <file>": "The CLI's secret file (default: the server's own)" =>
                |o, args| o.options.secret = Some(args.text()?)),
            opt!("--show-header <name>": "Show the values of this header, which are hidden by default (Cookie, Set-Cookie, Authorization\n\
                and similar); may be repeated" =>
                |o, args| o.options.show_headers.push(args.text()?)),
            opt!("--show-vcl": "Show VCL source with its profile to everybody with access, also without a token" =>
                |o, _| o.options.show_vcl = true),
            opt!("--metrics <names>": "own (default), or exporter: the names of prometheus_varnish_exporter. /metrics?names=... chooses\n\
                them for one request" =>
                |o, args| o.options.naming = args.one_of(&[("own", MetricNaming::Own), ("exporter", MetricNaming::Exporter)])?),
            opt!("--ready <what>": "When /readyz returns 200. vcl (default): a VCL is usable; backend: also a backend is healthy;\n\
                backend=NAME[,NAME...]: also one of these is" =>
                |o, args| o.options.ready = args.parsed("vcl, backend or backend=NAME,...", ready)?),
            Opt::line("-h, --help", "This text"),
            // The server gives these.
            opt!("" | "--cli-channel": "" => |o, args| o.options.cli_channel = Some(descriptor(args)?)),
            opt!("" | "--history": "" => |o, args| o.options.history = Some(descriptor(args)?)),
            opt!("" | "--child": "" => |o, args| {
                o.options.is_child = true;
                o.options.shown_workdir = args.joined_value().map(PathBuf::from)
            }),
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: Tool<WatchWords> =
    Tool { column: 23, after_error: AfterError::Nothing, failure: 1, ..Tool::new("lacquer watch", HELP) };

fn descriptor(args: &mut Args<'_>) -> Result<i32, String> {
    args.parsed("a descriptor", |text| text.parse().ok())
}

/// The options, and the files that make TLS only together.
#[derive(Default)]
pub struct WatchWords {
    options: WatchOptions,
    chain: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<PathBuf>,
}

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

impl WatchOptions {
    /// Parses the options; `None`: help was asked for. An error is one line that names the wrong option.
    pub fn parse(words: &[String]) -> Result<Option<WatchOptions>, String> {
        let Some(words) = TOOL.read(WatchWords::default(), words)? else { return Ok(None) };
        let WatchWords { mut options, chain, key, authorities } = words;
        options.tls = match chain {
            Some(chain) => Some(PemFiles { chain, key, authorities }),
            None if key.is_some() || authorities.is_some() => {
                return Err("--tls-key and --client-ca need --tls-cert".to_owned());
            }
            None => None,
        };
        options.check()?;
        Ok(Some(options))
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
            Ok(None) => "help".to_owned(),
            Ok(Some(o)) => match o.addresses() {
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
