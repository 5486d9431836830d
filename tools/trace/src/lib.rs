// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer trace`: requests of a running server, ours or a genuine varnishd, as traces for a collector of OpenTelemetry (OTLP over HTTP or
//! gRPC). What is told of whom is said in docs/traces.md.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod exporter;
mod otlp;
mod sampling;
mod spans;

use std::io;
use std::time::Duration;

use exporter::{Destination, ExportProtocol, Exporter};
use logq::getopt::{self, OptMatch, ToolOption};
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::tool::ToolFailure;
use logq::{Flow, Grouping, LogTool, Redaction, Select, ToolSink, Txn};
use sampling::Sampling;

pub const OPTIONS: &[ToolOption] = &[
    rows::TO_THE_END,
    ToolOption('D', "", "Run in the background"),
    rows::HELP,
    ToolOption('k', "num", "Exit after this many requests"),
    rows::MOST_INCOMPLETE,
    rows::SERVER,
    rows::PID_FILE,
    ToolOption('q', "query", "Only requests that match the query, see vsl-query(7)"),
    rows::LOG_FILE,
    rows::PATIENCE,
    ToolOption('T', "seconds", "Export incomplete transactions after this time (default: 120)"),
    rows::VERSION,
];

const LONG: &[&str] = &["to", "grpc", "ratio", "slow", "no-errors", "no-caller", "service", "attribute", "field", "ca"];
const VALUED: &[&str] = &["to", "ratio", "slow", "service", "attribute", "field", "ca"];

const MORE: &str = "
 --to <url>                The collector, such as http://127.0.0.1:4318, or http://127.0.0.1:4317 with --grpc
 --grpc                    OTLP over gRPC instead of HTTP
 --ratio <0..1>            Share of traces to send (default: 1)
 --slow <time>             Also send all requests that took at least this long: 500ms, 2s
 --no-errors               Don't send every failed request, only the share of --ratio
 --no-caller               Don't send every request whose traceparent is marked as sampled
 --service <name>          Name of this service (service.name; default: lacquer)
 --attribute <key=value>   Another resource attribute, such as deployment.environment.name=test
 --field <name:value>      A header for each request to the collector, such as an API key
 --ca <file>               Trust these certificates (PEM) instead of the system's
 --optstring               Print the options in getopt's notation

Examples:
 lacquer trace --to http://127.0.0.1:4318 --ratio 0.01 --slow 1s    1 % of the traces, and all slow and failed requests
 lacquer trace --to https://collector:4317 --grpc -D -P /run/lacquer-trace.pid
";

pub fn main(program: &str, args: &[String]) -> i32 {
    let cli = ToolCli { options: OPTIONS, long: LONG, valued: VALUED, more: MORE };
    let mut config = Config::default();
    config.tool.grouping = Grouping::Request;
    program::main(program, args, &cli, config)
}

pub fn usage() -> String {
    getopt::usage("lacquer trace", OPTIONS, MORE)
}

#[derive(Default)]
struct Config {
    tool: LogTool,
    url: Option<String>,
    grpc: bool,
    sampling: Sampling,
    service: Option<String>,
    resource: Vec<(String, String)>,
    fields: Vec<(String, String)>,
    trusted: Option<Vec<u8>>,
}

fn bad(name: &str, value: &str, expected: &str) -> ToolFailure {
    ToolFailure::new(format!("--{name}={value}: {expected}"))
}

/// Both sides of a sign, neither empty.
fn pair(name: &str, value: &str, sign: char, expected: &str) -> Result<(String, String), ToolFailure> {
    let pair = value.split_once(sign).map(|(key, value)| (key.trim(), value.trim()));
    let pair = pair.filter(|(key, value)| !key.is_empty() && !value.is_empty() && !value.contains(['\r', '\n']));
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| bad(name, value, expected))
}

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        let (name, value) = match option {
            OptMatch::Short(letter, value) => {
                return self.tool.option(letter, &value).map(drop).map_err(ToolFailure::new);
            }
            OptMatch::Long(name, value) => (name, value),
        };
        match name.as_str() {
            "to" => self.url = Some(value),
            "grpc" => self.grpc = true,
            "ratio" => {
                let ratio = value.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
                self.sampling.set_ratio(ratio.ok_or_else(|| bad(&name, &value, "a number from 0 to 1"))?);
            }
            "slow" => {
                let seconds = base::text::parse_duration(&value).filter(|seconds| *seconds >= 0.0 && *seconds < 3.2e7);
                let seconds = seconds.ok_or_else(|| bad(&name, &value, "a time such as 500ms or 2s"))?;
                self.sampling.slow = Some(Duration::from_secs_f64(seconds));
            }
            "no-errors" => self.sampling.errors = false,
            "no-caller" => self.sampling.follows_caller = false,
            "service" if !value.is_empty() => self.service = Some(value),
            "attribute" => self.resource.push(pair(&name, &value, '=', "write KEY=VALUE")?),
            "field" => {
                let (field, value) = pair(&name, &value, ':', "write NAME:VALUE")?;
                self.fields.push((field.to_ascii_lowercase(), value));
            }
            "ca" => self.trusted = Some(std::fs::read(&value).map_err(|error| bad(&name, &value, &error.to_string()))?),
            _ => return Err(bad(&name, &value, "a value is missing")),
        }
        Ok(())
    }

    fn run(self) -> Result<i32, ToolFailure> {
        let url =
            self.url.ok_or_else(|| ToolFailure::new("--to: which collector? For instance http://127.0.0.1:4318"))?;
        let protocol = if self.grpc { ExportProtocol::Grpc } else { ExportProtocol::Http };
        let target = Destination::parse_target(&url, protocol).map_err(|error| bad("to", &url, &error))?;
        let mut resource = vec![("service.name".to_owned(), self.service.unwrap_or_else(|| "lacquer".to_owned()))];
        resource.extend(self.resource);
        let to = Destination { target, protocol, fields: self.fields, trusted: self.trusted, resource };
        let mut sink = Traces { sampling: self.sampling, to: Some(to), exporter: None, redaction: Redaction::new(&[]) };
        self.tool.run(&mut sink)?;
        Ok(0)
    }
}

struct Traces {
    sampling: Sampling,
    /// Until the first request: a thread must not be there when the tool goes into the background.
    to: Option<Destination>,
    exporter: Option<Exporter>,
    redaction: Redaction,
}

impl Traces {
    fn exporter(&mut self) -> io::Result<&mut Exporter> {
        if let Some(to) = self.to.take() {
            self.exporter = Some(Exporter::start(to).map_err(io::Error::other)?);
        }
        self.exporter.as_mut().ok_or_else(|| io::Error::other("no exporter"))
    }
}

impl ToolSink for Traces {
    fn group(&mut self, _select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        // Of most requests no more than this is made.
        if !transactions::trees(group).iter().any(|request| self.sampling.keeps(request)) {
            return Ok(Flow::On);
        }
        for request in transactions::trees(&self.redaction.group(group).view()) {
            if self.sampling.keeps(&request) {
                let mut told = Vec::new();
                spans::of_request(&mut told, &request);
                self.exporter()?.send(told);
            }
        }
        Ok(Flow::On)
    }
}
