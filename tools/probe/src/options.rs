// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer probe`.

use std::ops::RangeInclusive;
use std::time::Duration;

use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::tool::Tool;

const INTRODUCTION: &str = "\
Usage: lacquer probe [options] HOST[:PORT]...

Sends small requests at a steady rate, each on a new connection, and reports which responses are slow and whether packet
loss is the cause. With several hosts, or several addresses of a host, it cycles through them.

";

const EPILOGUE: &str = "
The kernel reports packet loss for each connection (TCP_INFO): SYNs, segments of the request, segments of the response
that arrived out of order. Where it doesn't, times near 1, 3, 7 and 15 s (3, 9, 21 and 45 s before Linux 3.1) indicate
retransmitted SYNs. The time of a request is measured from when it was due.

HOST may be a URL: https://www.example.com uses TLS, and handshakes are reported separately. Probe only servers that you
are allowed to probe.
";

const HELP: &[HelpPart<ProbeOptions>] = &[
    (
        INTRODUCTION,
        &[
            opt!("--path PATH": "Path to request (default /ping.html; may be repeated)" =>
                |o, args| o.paths.push(args.text()?)),
            opt!("--urls FILE": "Read paths or URLs from a file, one per line (-: standard input)" =>
                |o, args| o.urls = Some(args.text()?)),
            opt!("--host NAME": "Host header (default: the host's name)" => |o, args| o.host = Some(args.text()?)),
            opt!("--sni NAME": "Name for TLS (SNI), also verified (default: the host's name)" =>
                |o, args| o.sni = Some(args.text()?)),
            opt!("--ca FILE": "Trust these authorities (PEM) instead of the system's" =>
                |o, args| o.ca = Some(args.text()?)),
            opt!("--no-verify": "Accept any certificate" => |o, _| o.is_blind = true),
            opt!("--no-resume": "Make full TLS handshakes (default: resume sessions if the server allows it)" =>
                |o, _| o.is_fresh = true),
            opt!("--http2": "Use HTTP/2: with TLS as the only ALPN offer, in clear text with prior knowledge" =>
                |o, _| o.is_http2 = true),
            Opt::new("", &["--http3"], "", |_, _| {
                Err("--http3 isn't built: packets that were lost are seen on TCP alone".into())
            }),
            opt!("--pause TIME": "Time between two requests (default 100ms)" => |o, args| o.pause = args.time(TIMES)?),
            opt!("-n N" | "--requests": "Exit after this many requests (default: at Ctrl-C)" =>
                |o, args| o.requests = Some(args.number(1..=u64::MAX)?)),
            opt!("-d TIME" | "--duration": "Exit after this time" => |o, args| o.duration = Some(args.time(TIMES)?)),
            opt!("--slow TIME": "Responses that take at least this long are slow (default 500ms)" =>
                |o, args| o.slow = args.time(TIMES)?),
            opt!("--timeout TIME": "A request without a response after this time has failed (default 60s)" =>
                |o, args| o.timeout = args.time(TIMES)?),
            opt!("--every N": "Report after every N requests (default 1000; 0: only at the end)" =>
                |o, args| o.every = args.number(0..=u64::MAX)?),
            opt!("-4, -6": "Only IPv4 or only IPv6 addresses" =>
                |o, args| o.family = if args.name() == "-4" { ProbeFamily::V4 } else { ProbeFamily::V6 }),
            opt!("--format text|json": "Text for people (default), or one JSON report at the end" =>
                |o, args| o.format = args.one_of(&[("text", ProbeFormat::Text), ("json", ProbeFormat::Json)])?),
            opt!("-q" | "--quiet": "Don't report each new slowest response" => |o, _| o.is_quiet = true),
            Opt::HELP,
        ],
    ),
    (EPILOGUE, &[]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeFamily {
    Any,
    V4,
    V6,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ProbeOptions {
    /// `HOST`, `HOST:PORT`, `http://HOST[:PORT]` or `https://HOST[:PORT]`.
    pub hosts: Vec<String>,
    pub paths: Vec<String>,
    /// A file with more of them.
    pub urls: Option<String>,
    pub host: Option<String>,
    pub sni: Option<String>,
    pub ca: Option<String>,
    pub is_blind: bool,
    pub is_fresh: bool,
    pub is_http2: bool,
    pub pause: Duration,
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    pub slow: Duration,
    pub timeout: Duration,
    /// Requests between two reports; 0: none.
    pub every: u64,
    pub family: ProbeFamily,
    pub format: ProbeFormat,
    pub is_quiet: bool,
}

impl Default for ProbeOptions {
    fn default() -> ProbeOptions {
        ProbeOptions {
            hosts: Vec::new(),
            paths: Vec::new(),
            urls: None,
            host: None,
            sni: None,
            ca: None,
            is_blind: false,
            is_fresh: false,
            is_http2: false,
            pause: Duration::from_millis(100),
            requests: None,
            duration: None,
            slow: Duration::from_millis(500),
            timeout: Duration::from_mins(1),
            every: 1000,
            family: ProbeFamily::Any,
            format: ProbeFormat::Text,
            is_quiet: false,
        }
    }
}

pub const TOOL: Tool<ProbeOptions> = Tool {
    word: |o, host| {
        o.hosts.push(host.to_owned());
        Ok(())
    },
    ..Tool::new("lacquer probe", HELP)
};

pub fn parse(words: &[String]) -> Result<Option<ProbeOptions>, String> {
    let Some(options) = TOOL.read(ProbeOptions::default(), words)? else { return Ok(None) };
    if options.hosts.is_empty() {
        return Err("which host?".into());
    }
    if options.is_blind && options.ca.is_some() {
        return Err("--no-verify or --ca, not both".into());
    }
    Ok(Some(options))
}

const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Option<ProbeOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(Some(o)) = words("www.example.org --pause=20ms -n 5 --path /a --path /b -4 --http2") else { panic!() };
        assert_eq!((o.hosts, o.paths.len(), o.requests), (vec!["www.example.org".to_owned()], 2, Some(5)));
        assert_eq!((o.pause, o.family, o.is_http2), (Duration::from_millis(20), ProbeFamily::V4, true));
        assert!(matches!(words("--help"), Ok(None)));
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("", "which host"),
            ("a --pause", "--pause needs a value"),
            ("a --pause soon", "--pause soon"),
            ("a --pause 0", "--pause 0"),
            ("a --fast", "--fast"),
            ("a --http3", "--http3 isn't built"),
            ("a -n x", "-n x"),
            ("https://a --ca x --no-verify", "not both"),
            ("a --format xml", "--format xml"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
