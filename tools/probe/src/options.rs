// SPDX-License-Identifier: BSD-2-Clause
//! The words after `lacquer probe`.

use std::ops::RangeInclusive;
use std::time::Duration;

use toolkit::args::{Arg, Args};
use toolkit::tool::{Tool, ToolInvocation};

const SYNOPSIS: &str = "\
Usage: lacquer probe [options] HOST[:PORT]...
";

const DETAILS: &str = "
Sends small requests at a steady rate, each on a new connection, and reports which responses are slow and whether packet
loss is the cause. With several hosts, or several addresses of a host, it cycles through them.

 --path PATH          Path to request (default /ping.html; may be repeated)
 --urls FILE          Read paths or URLs from a file, one per line (-: standard input)
 --host NAME          Host header (default: the host's name)
 --sni NAME           Name for TLS (SNI), also verified (default: the host's name)
 --ca FILE            Trust these authorities (PEM) instead of the system's
 --no-verify          Accept any certificate
 --no-resume          Make full TLS handshakes (default: resume sessions if the server allows it)
 --http2              Use HTTP/2: with TLS as the only ALPN offer, in clear text with prior knowledge
 --pause TIME         Time between two requests (default 100ms)
 -n N                 Exit after this many requests (default: at Ctrl-C)
 -d TIME              Exit after this time
 --slow TIME          Responses that take at least this long are slow (default 500ms)
 --timeout TIME       A request without a response after this time has failed (default 60s)
 --every N            Report after every N requests (default 1000; 0: only at the end)
 -4, -6               Only IPv4 or only IPv6 addresses
 --format text|json   Text for people (default), or one JSON report at the end
 -q                   Don't report each new slowest response
 -h                   Show this help

The kernel reports packet loss for each connection (TCP_INFO): SYNs, segments of the request, segments of the response
that arrived out of order. Where it doesn't, times near 1, 3, 7 and 15 s (3, 9, 21 and 45 s before Linux 3.1) indicate
retransmitted SYNs. The time of a request is measured from when it was due.

HOST may be a URL: https://www.example.com uses TLS, and handshakes are reported separately. Probe only servers that you
are allowed to probe.
";

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

pub const TOOL: Tool = Tool { name: "lacquer probe", synopsis: SYNOPSIS, details: DETAILS };

pub fn usage() -> String {
    TOOL.usage()
}

/// Reads the words.
///
/// # Errors
/// One line that names the wrong one.
pub fn parse(args: &[String]) -> Result<ToolInvocation<ProbeOptions>, String> {
    let mut options = ProbeOptions::default();
    let mut args = Args::new(args);
    while let Some(arg) = args.next()? {
        let name = match arg {
            Arg::Help => return Ok(ToolInvocation::Help),
            Arg::Word(host) => {
                options.hosts.push(host.to_owned());
                continue;
            }
            Arg::Option(name) => name,
        };
        match name {
            "-q" | "--quiet" => options.is_quiet = true,
            "-4" => options.family = ProbeFamily::V4,
            "-6" => options.family = ProbeFamily::V6,
            "--path" => options.paths.push(args.value()?.to_owned()),
            "--urls" => options.urls = Some(args.value()?.to_owned()),
            "--host" => options.host = Some(args.value()?.to_owned()),
            "--sni" => options.sni = Some(args.value()?.to_owned()),
            "--ca" => options.ca = Some(args.value()?.to_owned()),
            "--no-verify" => options.is_blind = true,
            "--no-resume" => options.is_fresh = true,
            "--http2" => options.is_http2 = true,
            "--http3" => return Err("--http3 isn't built: packets that were lost are seen on TCP alone".into()),
            "--pause" => options.pause = args.time(TIMES)?,
            "--slow" => options.slow = args.time(TIMES)?,
            "--timeout" => options.timeout = args.time(TIMES)?,
            "-d" | "--duration" => options.duration = Some(args.time(TIMES)?),
            "-n" | "--requests" => options.requests = Some(args.number(1..=u64::MAX)?),
            "--every" => options.every = args.number(0..=u64::MAX)?,
            "--format" => options.format = args.one_of(&[("text", ProbeFormat::Text), ("json", ProbeFormat::Json)])?,
            _ => return Err(args.unknown(&usage())),
        }
    }
    if options.hosts.is_empty() {
        return Err("which host?".into());
    }
    if options.is_blind && options.ca.is_some() {
        return Err("--no-verify or --ca, not both".into());
    }
    Ok(ToolInvocation::Run(options))
}

const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<ToolInvocation<ProbeOptions>, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Ok(ToolInvocation::Run(o)) = words("www.example.org --pause=20ms -n 5 --path /a --path /b -4 --http2")
        else {
            panic!()
        };
        assert_eq!((o.hosts, o.paths.len(), o.requests), (vec!["www.example.org".to_owned()], 2, Some(5)));
        assert_eq!((o.pause, o.family, o.is_http2), (Duration::from_millis(20), ProbeFamily::V4, true));
        assert!(matches!(words("--help"), Ok(ToolInvocation::Help)));
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
