// SPDX-License-Identifier: BSD-2-Clause
//! An owner of a connection for tests: keeps bodies to send, and notes events as words.
#![allow(dead_code)]

pub mod frame;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::clock::Mono;
use http2::{Connection, Http2AbuseLimits, Http2Config, Http2Event, Http2Scratch, Http2Settings, PREFACE};
use message::Head;

pub fn settings_config(settings: Http2Settings, limits: Http2AbuseLimits) -> Arc<Http2Config> {
    Arc::new(Http2Config { settings, limits, ..Http2Config::default() })
}

pub struct TestPeer {
    pub conn: Connection,
    pub now: Mono,
    head: Head,
    scratch: Http2Scratch,
    events: Vec<String>,
    /// Bytes to be sent of each stream, and whether these are all.
    bodies: BTreeMap<u32, (Vec<u8>, bool)>,
    pub received: BTreeMap<u32, Vec<u8>>,
}

impl TestPeer {
    pub fn server() -> TestPeer {
        TestPeer::new_server(Arc::new(Http2Config::default()))
    }

    pub fn new_server(config: Arc<Http2Config>) -> TestPeer {
        TestPeer::of(Connection::server(config, Mono(0.0)))
    }

    pub fn client() -> TestPeer {
        TestPeer::of(Connection::client(Arc::new(Http2Config::default()), Mono(0.0)))
    }

    pub fn of(conn: Connection) -> TestPeer {
        TestPeer {
            conn,
            now: Mono(0.0),
            head: Head::with_limits(message::HeadLimits::new(100, 64 * 1024)),
            scratch: Http2Scratch::default(),
            events: Vec::new(),
            bodies: BTreeMap::new(),
            received: BTreeMap::new(),
        }
    }

    pub fn greet(&mut self) {
        self.read(PREFACE);
        self.read(&hex("000000 04 00 00000000"));
        self.write(&mut Vec::new());
    }

    pub fn read(&mut self, input: &[u8]) {
        self.read_with(input, &mut |_, _| {});
    }

    /// Shows each event, and the head as it then is.
    pub fn read_with(&mut self, input: &[u8], each: &mut dyn FnMut(&Http2Event, &Head)) {
        let mut at = 0;
        loop {
            let step = self.conn.receive(&input[at..], self.now, &mut self.head, &mut self.scratch);
            if let Http2Event::Data { stream, body, .. } = &step.event {
                self.received.entry(*stream).or_default().extend_from_slice(&input[at..][body.clone()]);
            }
            at += step.consumed;
            each(&step.event, &self.head);
            self.note(&step.event);
            if at == input.len() && matches!(step.event, Http2Event::None) {
                return;
            }
        }
    }

    fn note(&mut self, event: &Http2Event) {
        let fields = |head: &Head| {
            let text = |field: message::Field<'_>| String::from_utf8_lossy(field.line()).into_owned();
            head.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let text = match event {
            Http2Event::None | Http2Event::Window { .. } => return,
            Http2Event::Head { stream, end, .. } => {
                let start = match self.head.status() {
                    0 => format!(
                        "{} {}",
                        String::from_utf8_lossy(self.head.method()),
                        String::from_utf8_lossy(self.head.url())
                    ),
                    status => status.to_string(),
                };
                let end = if *end { " end" } else { "" };
                format!("head {stream} {start}{end}: {}", fields(&self.head))
            }
            Http2Event::HeadTooLarge { stream, end, malformed } => {
                let status = malformed.status().unwrap();
                format!("HeadTooLarge {stream} {status} {end} {}", String::from_utf8_lossy(&malformed.record()))
            }
            Http2Event::Trailers { stream } => format!("trailers {stream}: {}", fields(&self.head)),
            Http2Event::Data { stream, body, end } => return self.note_data(*stream, body.len(), *end),
            Http2Event::Reset { stream, code } => format!("Reset {stream} {}", code.name()),
            Http2Event::Broken { stream, fault } => format!("Broken {stream} {} {}", fault.code.name(), fault.text),
            Http2Event::BadHead { stream, malformed } => {
                format!("BadHead {stream} {}", String::from_utf8_lossy(&malformed.record()))
            }
            Http2Event::Refused { stream } => format!("Refused {stream}"),
            Http2Event::Settings => "Settings".to_owned(),
            Http2Event::SettingsAck => "SettingsAck".to_owned(),
            Http2Event::PingAck(_) => return,
            Http2Event::GoAway { last, code } => format!("GoAway {last} {}", code.name()),
            Http2Event::Fault(fault) => format!("Fault {} {}", fault.code.name(), fault.text),
        };
        self.events.push(text);
    }

    /// Pieces of a body that follow each other are one.
    fn note_data(&mut self, stream: u32, len: usize, end: bool) {
        let begin = format!("data {stream} ");
        let before = self.events.last().and_then(|last| last.strip_prefix(&begin)?.parse::<usize>().ok());
        if before.is_some() {
            self.events.pop();
        }
        let end = if end { " end" } else { "" };
        self.events.push(format!("{begin}{}{end}", before.unwrap_or(0) + len));
    }

    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    pub fn body(&mut self, stream: u32, body: &[u8], end: bool) {
        self.queue(stream, body, end);
    }

    pub fn queue(&mut self, stream: u32, body: &[u8], end: bool) {
        self.bodies.insert(stream, (body.to_vec(), end));
        self.conn.offer(stream);
    }

    pub fn queued(&self, stream: u32) -> usize {
        self.bodies.get(&stream).map_or(0, |(body, _)| body.len())
    }

    /// The frames of all that can be sent now, as [`frame::list`] has them.
    pub fn written(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        self.write(&mut out);
        frame::list(&out)
    }

    pub fn write(&mut self, out: &mut Vec<u8>) {
        self.conn.flush();
        out.extend_from_slice(self.conn.output());
        self.conn.wrote(self.conn.output().len());
        while let Some(grant) = self.conn.next_send() {
            let Some((body, end)) = self.bodies.get_mut(&grant.stream) else {
                self.conn.withdraw(grant.stream);
                continue;
            };
            let len = body.len().min(grant.max);
            let is_last = len == body.len();
            let header = self.conn.send_data(grant.stream, len, is_last && *end).expect("it was granted");
            out.extend_from_slice(&header);
            out.extend(body.drain(..len));
            if is_last {
                self.conn.withdraw(grant.stream);
                self.bodies.remove(&grant.stream);
            }
        }
    }
}

pub struct PeerEnds {
    pub client: TestPeer,
    pub server: TestPeer,
    pub now: Mono,
}

impl PeerEnds {
    pub fn new() -> PeerEnds {
        PeerEnds { client: TestPeer::client(), server: TestPeer::server(), now: Mono(0.0) }
    }

    pub fn exchange(&mut self) {
        loop {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            self.client.write(&mut up);
            self.server.read(&up);
            self.server.write(&mut down);
            self.client.read(&down);
            if up.is_empty() && down.is_empty() {
                return;
            }
        }
    }
}

pub fn request(method: &str, url: &str, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_request(method.as_bytes(), url.as_bytes(), b"HTTP/1.1").unwrap();
    if !method.is_empty() {
        head.append("Host", "h").unwrap();
    }
    fields.iter().for_each(|(name, value)| head.append(name, value).unwrap());
    head
}

pub fn response(status: u16, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_response(b"HTTP/1.1", status).unwrap();
    fields.iter().for_each(|(name, value)| head.append(name, value).unwrap());
    head
}

/// Bytes of hexadecimal digits, blanks between them left out.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
