// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer migrate --compare OLD NEW FILE`: the same requests to the old server and to ours, and the differences between the responses. Only GET and
//! HEAD are sent, one after the other, with a bounded rate, number and time. Nothing is started.

mod verdict;

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use accesslog::{AccessEntry, AccessSources, SourceItem};
use serde_json::{Value, json};
use tls::{Over, Spoken, Trust};
use toolkit::print;
use toolkit::tool::{AfterError, Tool};
use webclient::{Timed, in_words, talk_to};

use crate::options::{TOOL, parse_compare};
use verdict::{BodySum, ComparedResponse, ResponseDifference, differences};

const RESPONSE_TIME: Duration = Duration::from_secs(20);

const MAX_TARGET: usize = 8 << 10;

#[derive(Debug)]
pub struct CompareOptions {
    pub names: [String; 2],
    pub sources: AccessSources,
    pub host: Option<String>,
    pub headers: Vec<String>,
    pub count: usize,
    pub rate: u32,
    pub time: Duration,
    pub is_json: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ComparedRequest {
    is_head: bool,
    host: String,
    target: String,
    is_tls: bool,
}

impl ComparedRequest {
    /// The request of an entry; None of another method, or of what can't be sent.
    fn of(entry: &AccessEntry<'_>, own: &str) -> Option<ComparedRequest> {
        let is_head = match &*entry.method {
            b"GET" | b"" => false,
            b"HEAD" => true,
            _ => return None,
        };
        let text = |bytes: &[u8]| {
            let is_sent = bytes.len() <= MAX_TARGET && bytes.iter().all(|byte| byte.is_ascii_graphic());
            is_sent.then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        let host = match entry.host.as_deref() {
            Some(host) if !host.is_empty() => text(host)?,
            _ => own.to_owned(),
        };
        let target = text(&entry.target).filter(|target| target.starts_with('/'))?;
        Some(ComparedRequest { is_head, host, target, is_tls: entry.is_tls })
    }

    fn method(&self) -> &'static str {
        if self.is_head { "HEAD" } else { "GET" }
    }

    fn name(&self) -> &str {
        crate::split_address(&self.host).map_or(self.host.as_str(), |(host, _)| host)
    }

    fn bytes(&self) -> String {
        let proto = if self.is_tls { "X-Forwarded-Proto: https\r\n" } else { "" };
        format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n{proto}User-Agent: lacquer-migrate\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            self.method(),
            self.target,
            self.host
        )
    }
}

/// The requests of all sources, each once, and how many lines gave none.
#[derive(Default)]
struct Requests {
    all: Vec<ComparedRequest>,
    skipped: usize,
    notes: Vec<String>,
}

#[derive(Default)]
struct Comparison {
    compared: usize,
    differing: Vec<(ComparedRequest, Vec<ResponseDifference>)>,
    /// Requests that got no response from one of the servers or from both, with the reason.
    failed: Vec<(ComparedRequest, String)>,
    /// Second responses by whether both servers tell if they are hits.
    told: usize,
    is_cut: bool,
}

fn plain(text: &str) -> &str {
    let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.unwrap_or(text).trim_end_matches('/')
}

#[derive(Clone)]
struct ComparedServer {
    address: SocketAddr,
    /// Client's settings for a server that speaks TLS. The certificate isn't checked: the server is asked by an address, for all hosts of the log.
    tls: Option<Arc<tls::TlsClient>>,
}

impl ComparedServer {
    /// `HOST:PORT`, also behind `http://` or `https://`.
    fn of(text: &str) -> Result<ComparedServer, String> {
        let is_tls = text.starts_with("https://");
        let plain = plain(text);
        let has_port = crate::split_address(plain).is_some();
        let whole = if has_port { plain.to_owned() } else { format!("{plain}:{}", if is_tls { 443 } else { 80 }) };
        let found = whole.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?.next();
        let address = found.ok_or_else(|| format!("{text}: no such address"))?;
        let trust = || Trust { is_blind: true, authorities: None, is_fresh: false, spoken: Spoken::Http1 };
        let tls = is_tls.then(|| trust().client()).transpose()?;
        Ok(ComparedServer { address, tls })
    }

    fn ask(&self, request: &ComparedRequest, headers: &[String]) -> io::Result<ComparedResponse> {
        let socket = TcpStream::connect_timeout(&self.address, RESPONSE_TIME)?;
        let stream = Timed::new(socket, Instant::now() + RESPONSE_TIME);
        let mut body = BodySum::default();
        let mut each = |piece: &[u8]| {
            body.add(piece);
            Ok(())
        };
        let bytes = request.bytes();
        let head = match &self.tls {
            None => talk_to(stream, bytes.as_bytes(), request.is_head, &mut each)?,
            Some(client) => {
                let sealed = Over::client(stream, client, request.name()).map_err(io::Error::other)?;
                talk_to(sealed, bytes.as_bytes(), request.is_head, &mut each)?
            }
        };
        Ok(ComparedResponse::of(&head, &body, headers))
    }
}

pub fn main(words: &[String]) -> i32 {
    let tool = Tool { after_error: AfterError::Nothing, ..TOOL };
    tool.main(words, parse_compare, |options| run(&options).map(|is_same| i32::from(!is_same)))
}

/// True if there is no difference.
fn run(options: &CompareOptions) -> Result<bool, String> {
    let requests = read(options);
    requests.notes.iter().for_each(|note| print::foreign_err(format_args!("{note}\n")));
    if requests.all.is_empty() {
        return Err(format!("{}: there is no GET or HEAD in it", options.sources.files.join(", ")));
    }
    let [old, new] = &options.names;
    let servers = [ComparedServer::of(old)?, ComparedServer::of(new)?];
    for (name, server) in options.names.iter().zip(&servers) {
        let tried = TcpStream::connect_timeout(&server.address, RESPONSE_TIME);
        tried.map_err(|error| format!("{name}: {}", in_words(&error)))?;
    }
    let comparison = compare(options, &servers, &requests.all);
    match options.is_json {
        true => print::out(format_args!("{:#}\n", comparison.json(&requests))),
        false => print::foreign(comparison.text(&requests)),
    }
    match comparison.compared {
        0 => Err("no request got a response from both".to_owned()),
        _ => Ok(comparison.differing.is_empty() && comparison.failed.is_empty()),
    }
}

fn read(options: &CompareOptions) -> Requests {
    let own = options.host.clone().unwrap_or_else(|| plain(&options.names[0]).to_owned());
    let mut known = BTreeSet::new();
    let mut requests = Requests::default();
    options.sources.read(&Arc::default(), &mut |item| {
        match item {
            SourceItem::Entry(entry) => match ComparedRequest::of(&entry, &own) {
                Some(request) if known.insert(request.clone()) => requests.all.push(request),
                Some(_) => {}
                None => requests.skipped += 1,
            },
            SourceItem::Skipped(_) => requests.skipped += 1,
            SourceItem::Note(note) => requests.notes.push(note),
            SourceItem::Idle => {}
        }
        requests.all.len() < options.count
    });
    requests
}

/// Sends each request twice to each server, in turn.
fn compare(options: &CompareOptions, servers: &[ComparedServer; 2], requests: &[ComparedRequest]) -> Comparison {
    let begin = Instant::now();
    let pause = Duration::from_secs(1) / options.rate;
    let mut out = Comparison::default();
    let mut due = begin;
    for request in requests {
        let mut responses: [Vec<ComparedResponse>; 2] = [Vec::new(), Vec::new()];
        let mut error = None;
        for _ in 0..2 {
            due += pause;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            for (at, server) in servers.iter().enumerate() {
                match server.ask(request, &options.headers) {
                    Ok(response) => responses[at].push(response),
                    Err(failed) => error = Some(format!("{}: {}", options.names[at], in_words(&failed))),
                }
            }
        }
        // A slow server isn't asked faster afterwards.
        due = due.max(Instant::now());
        let [old, new] = responses.map(|all| <[ComparedResponse; 2]>::try_from(all).ok());
        match (old, new, error) {
            (Some(old), Some(new), None) => {
                out.compared += 1;
                out.told += usize::from(old[1].is_hit.is_some() && new[1].is_hit.is_some());
                let found = differences(&old, &new);
                if !found.is_empty() {
                    out.differing.push((request.clone(), found));
                }
            }
            (_, _, error) => out.failed.push((request.clone(), error.unwrap_or_default())),
        }
        if begin.elapsed() > options.time {
            out.is_cut = out.compared + out.failed.len() < requests.len();
            break;
        }
    }
    out
}

impl Comparison {
    fn text(&self, requests: &Requests) -> String {
        let mut out = String::new();
        for (request, found) in &self.differing {
            for difference in found {
                out.push_str(&format!(
                    "{} {}{}: {}: {} / {}\n",
                    request.method(),
                    request.host,
                    request.target,
                    difference.aspect,
                    difference.old,
                    difference.new
                ));
            }
        }
        for (request, error) in &self.failed {
            out.push_str(&format!("{} {}{}: no response: {error}\n", request.method(), request.host, request.target));
        }
        let cut = if self.is_cut { ", the time is over" } else { "" };
        out.push_str(&format!(
            "{} of {} requests compared{cut}: {} differ, {} without a response; for {} both servers tell hits\n",
            self.compared,
            requests.all.len(),
            self.differing.len(),
            self.failed.len(),
            self.told
        ));
        if requests.skipped > 0 {
            out.push_str(&format!("{} lines gave no GET or HEAD\n", requests.skipped));
        }
        out
    }

    fn json(&self, requests: &Requests) -> Value {
        let head = |request: &ComparedRequest| json!({ "method": request.method(), "host": request.host, "url": request.target });
        let differing = |(request, found): &(ComparedRequest, Vec<ResponseDifference>)| {
            let all: Vec<Value> =
                found.iter().map(|d| json!({ "aspect": d.aspect, "old": d.old, "new": d.new })).collect();
            json!({ "request": head(request), "differences": all })
        };
        let failed = |(request, error): &(ComparedRequest, String)| json!({ "request": head(request), "error": error });
        json!({
            "requests": requests.all.len(), "skipped": requests.skipped, "compared": self.compared,
            "both_tell_hits": self.told, "is_cut": self.is_cut,
            "differing": self.differing.iter().map(differing).collect::<Vec<_>>(),
            "failed": self.failed.iter().map(failed).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests;
