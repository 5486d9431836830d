// SPDX-License-Identifier: BSD-2-Clause
//! The log as a stream of NATS JetStream (2.9 or newer): stream `LACQUER_NAME`, subject `lacquer.NAME`, an entry a message.
//!
//! It is followed by an ephemeral consumer that is asked to push from a number on, acknowledges nothing and lives as long as the connection:
//! where a node is it knows itself, so a node that is gone leaves nothing behind on the server. What such a consumer delivers is counted, so that
//! a message that is lost on the way is noticed.
//!
//! How safe an entry is that was acknowledged is the server's affair: `replicas=3` in a cluster of three, or its `sync_interval`.

mod board;
pub mod proto;
mod survey;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::clock;
use serde_json::{Value, json};

use self::proto::{Delivery, NatsLine, NatsMessage};
use crate::entry::LONGEST;
use crate::link::{BATCH, BATCH_BYTES, epoch_of};
use crate::survey::ServerFact;
use crate::wire::{self, LogWire};
use crate::{
    Board, Connect, FleetLink, FleetSettings, IncomingEntry, LinkFault, LogBounds, LogServer, NextEntries,
    OutgoingEntry,
};

/// Longest wait for an answer.
const TIME: Duration = Duration::from_secs(2);
/// The server is heard of so often.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A consumer whose connection is gone is forgotten after so long.
const IDLE: Duration = Duration::from_secs(10);
/// Time in which the server recognises an entry that is appended twice.
const DUPLICATES: Duration = Duration::from_secs(120);
/// Bytes that are held of what is delivered while an answer is awaited: more than a server sends without being asked whether that came. Each
/// message counts for more than its payload.
const MOST_DELIVERED: usize = 64 << 20;
const MESSAGE_COST: usize = 256;
/// The subscription by which answers come.
const ANSWERS: u64 = 1;
/// JetStream has no leader, or this server isn't it (any more).
const UNAVAILABLE: [i64; 2] = [10_008, 10_009];
const NO_STREAM: i64 = 10_059;

pub(crate) struct Nats {
    stream: String,
    subject: String,
    login: Vec<(&'static str, String)>,
    client: Option<Arc<tls::TlsClient>>,
    retention: u64,
    replicas: u32,
}

impl Nats {
    pub fn new(settings: &FleetSettings) -> Result<Nats, String> {
        let parts = [("user", &settings.user), ("pass", &settings.password), ("auth_token", &settings.token)];
        Ok(Nats {
            stream: format!("LACQUER_{}", settings.name),
            subject: format!("lacquer.{}", settings.name),
            login: parts.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect(),
            client: wire::client(settings)?,
            retention: settings.retention,
            replicas: settings.replicas,
        })
    }
}

impl Connect for Nats {
    fn connect(&self, server: &LogServer, until: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
        Ok(Box::new(self.open(server, until)?))
    }

    fn survey(&self, server: &LogServer, until: Instant) -> Result<Vec<ServerFact>, LinkFault> {
        Ok(self.open(server, until)?.survey())
    }

    fn board(&self, server: &LogServer, until: Instant) -> Result<Box<dyn Board>, LinkFault> {
        Ok(Box::new(board::NatsBoard::open(self.open(server, until)?, self)?))
    }
}

impl Nats {
    fn open(&self, server: &LogServer, until: Instant) -> Result<Session, LinkFault> {
        let mut wire = LogWire::connect(server, until)?;
        let info = match said(&mut wire)? {
            NatsLine::Info(info) => serde_json::from_slice::<Value>(&info).unwrap_or_default(),
            _ => return Err(misread()),
        };
        match &self.client {
            Some(client) => wire.seal(client, &server.host)?,
            None if info["tls_required"] == json!(true) => return Err(LinkFault::new("it wants TLS: tls://")),
            None => {}
        }
        let drawn = || RandomState::new().hash_one(clock::now());
        let inbox = format!("_INBOX.{:016x}{:016x}", drawn(), drawn());
        let mut session = Session {
            wire,
            version: info["version"].as_str().unwrap_or_default().to_owned(),
            stream: self.stream.clone(),
            subject: self.subject.clone(),
            retention: self.retention,
            replicas: self.replicas,
            inbox,
            asked: 0,
            delivered: VecDeque::new(),
            delivered_bytes: 0,
            consumer: None,
            is_quiet: false,
        };
        session.login(&self.login)?;
        Ok(session)
    }
}

struct Session {
    wire: LogWire,
    /// The server's version, in its own words.
    version: String,
    stream: String,
    subject: String,
    retention: u64,
    replicas: u32,
    /// Prefix of our subjects: answers come below its `a`, what is followed below its `d`.
    inbox: String,
    asked: u64,
    delivered: VecDeque<NatsMessage>,
    delivered_bytes: usize,
    consumer: Option<Consumer>,
    /// True if the consumer had nothing when it was made, which wasn't reported yet.
    is_quiet: bool,
}

struct Consumer {
    /// The subscription by which it delivers.
    sid: u64,
    /// Messages that came of it.
    count: u64,
}

/// The server's next message.
fn said(wire: &mut LogWire) -> Result<NatsLine, LinkFault> {
    loop {
        match said_already(wire)? {
            Some(said) => return Ok(said),
            None => wire.more()?,
        }
    }
}

/// The next message among those that have come.
fn said_already(wire: &mut LogWire) -> Result<Option<NatsLine>, LinkFault> {
    let Some((said, used)) = proto::read(wire.input()).map_err(LinkFault::new)? else { return Ok(None) };
    wire.take(used);
    Ok(Some(said))
}

impl Session {
    fn login(&mut self, login: &[(&str, String)]) -> Result<(), LinkFault> {
        let mut words = json!({
            "verbose": false, "pedantic": false, "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "name": "lacquer",
            "protocol": 1, "headers": true, "no_responders": true, "echo": true,
        });
        login.iter().for_each(|(name, value)| words[*name] = json!(value));
        let text = format!("CONNECT {words}\r\nSUB {}.a.* {ANSWERS}\r\nPING\r\n", self.inbox);
        self.wire.send(text.as_bytes())?;
        loop {
            match said(&mut self.wire)? {
                NatsLine::Pong => return Ok(()),
                NatsLine::Error(reason) => return Err(LinkFault::new(reason)),
                NatsLine::Ping => self.wire.send(b"PONG\r\n")?,
                NatsLine::Info(_) | NatsLine::Message(_) | NatsLine::Ok => {}
            }
        }
    }

    fn message(&mut self) -> Result<NatsMessage, LinkFault> {
        loop {
            let said = said(&mut self.wire)?;
            if let Some(message) = self.heed(said)? {
                return Ok(message);
            }
        }
    }

    /// Something that was said, if it is a message.
    fn heed(&mut self, said: NatsLine) -> Result<Option<NatsMessage>, LinkFault> {
        match said {
            NatsLine::Message(message) => return Ok(Some(message)),
            NatsLine::Ping => self.wire.send(b"PONG\r\n")?,
            NatsLine::Error(reason) => return Err(LinkFault::new(reason)),
            NatsLine::Pong | NatsLine::Ok | NatsLine::Info(_) => {}
        }
        Ok(None)
    }

    fn reply_subject(&mut self) -> String {
        self.asked += 1;
        format!("{}.a.{}", self.inbox, self.asked)
    }

    fn answer(&mut self, to: &str) -> Result<NatsMessage, LinkFault> {
        loop {
            let message = self.message()?;
            if message.subject == to {
                return Ok(message);
            }
            if self.is_delivered(&message) {
                self.delivered_bytes += message.payload.len() + MESSAGE_COST;
                if self.delivered_bytes > MOST_DELIVERED {
                    return Err(LinkFault::new("it sends more of the log than was requested"));
                }
                self.delivered.push_back(message);
            }
        }
    }

    fn ask(&mut self, what: &str, question: &Value) -> Result<Value, LinkFault> {
        self.wire.until(clock::now() + TIME);
        let (reply, mut out) = (self.reply_subject(), Vec::new());
        let question = if question.is_null() { String::new() } else { question.to_string() };
        proto::publish(&mut out, &format!("$JS.API.{what}"), &reply, question.as_bytes());
        self.wire.send(&out)?;
        let answer = self.answer(&reply)?;
        if answer.status == Some(503) {
            return Err(LinkFault::new("JetStream isn't enabled there, or not for this user"));
        }
        serde_json::from_slice(&answer.payload).map_err(|_| misread())
    }

    fn describe(&mut self) -> Result<Value, LinkFault> {
        let stream = self.stream.clone();
        let info = self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)?;
        if info["error"]["err_code"].as_i64() != Some(NO_STREAM) {
            return unless_error(info);
        }
        let config = json!({
            "name": stream, "subjects": [self.subject], "retention": "limits", "discard": "old", "storage": "file",
            "max_msgs": self.retention, "max_bytes": -1, "max_age": 0, "max_consumers": -1, "max_msg_size": 4 * LONGEST,
            "num_replicas": self.replicas, "duplicate_window": DUPLICATES.as_nanos() as u64,
            "description": "Lacquer: what is banned and purged",
        });
        let made = unless_error(self.ask(&format!("STREAM.CREATE.{stream}"), &config)?);
        // Another node may have been first. In a cluster both are told that they were, each with a time of creation of its own: that of one of
        // them counts.
        let info = unless_error(self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)?);
        info.map_err(|fault| made.err().unwrap_or(fault))
    }

    /// Has a consumer of the stream deliver, from where `policy` says.
    fn consume(&mut self, policy: Value) -> Result<(), LinkFault> {
        self.asked += 1;
        let (sid, inbox) = (ANSWERS + self.asked, format!("{}.d.{}", self.inbox, self.asked));
        let former = self.consumer.replace(Consumer { sid, count: 0 });
        let former = former.map_or_else(String::new, |former| format!("UNSUB {}\r\n", former.sid));
        (self.delivered, self.delivered_bytes) = (VecDeque::new(), 0);
        self.wire.until(clock::now() + TIME);
        self.wire.send(format!("{former}SUB {inbox} {sid}\r\n").as_bytes())?;
        let mut config = json!({
            "deliver_subject": inbox, "ack_policy": "none",
            "max_deliver": 1, "replay_policy": "instant", "flow_control": true, "idle_heartbeat": HEARTBEAT.as_nanos() as u64,
            "mem_storage": true, "num_replicas": 1, "inactive_threshold": IDLE.as_nanos() as u64,
        });
        if let (Some(config), Value::Object(policy)) = (config.as_object_mut(), policy) {
            config.extend(policy);
        }
        let question = json!({ "stream_name": self.stream, "config": config });
        let made = unless_error(self.ask(&format!("CONSUMER.CREATE.{}", self.stream), &question)?)?;
        // What the server has sent already may still be on its way.
        let has_sent = made["delivered"]["consumer_seq"].as_u64().is_some_and(|sent| sent > 0);
        let pending = made["num_pending"].as_u64().ok_or_else(misread)?;
        self.is_quiet = pending == 0 && !has_sent && self.delivered.is_empty();
        Ok(())
    }

    /// The consumer's next message among those that have come; `None`: nothing has yet.
    fn delivery_already(&mut self) -> Result<Option<NatsMessage>, LinkFault> {
        loop {
            let message = match self.delivered.pop_front() {
                Some(message) => {
                    self.delivered_bytes -= message.payload.len() + MESSAGE_COST;
                    Some(message)
                }
                None => match said_already(&mut self.wire)? {
                    Some(said) => self.heed(said)?,
                    None => return Ok(None),
                },
            };
            if let Some(message) = message.filter(|message| self.is_delivered(message)) {
                return Ok(Some(message));
            }
        }
    }

    fn is_delivered(&self, message: &NatsMessage) -> bool {
        self.consumer.as_ref().is_some_and(|consumer| consumer.sid == message.sid)
    }

    /// A message of the server's own: a sign of life, or a question whether we keep up.
    /// Whether that says that there is nothing more.
    fn is_quiet_by(&mut self, message: &NatsMessage, status: u16) -> Result<bool, LinkFault> {
        let count = self.consumer.as_ref().map_or(0, |consumer| consumer.count);
        match status {
            100 if !message.reply.is_empty() => {
                let mut out = Vec::new();
                proto::publish(&mut out, &message.reply, "", b"");
                self.wire.send(&out)?;
                Ok(false)
            }
            100 if message.header("Nats-Consumer-Stalled").is_some() => {
                // It waits for the answer to a question that went lost.
                let (to, mut out) = (message.header("Nats-Consumer-Stalled").unwrap_or_default(), Vec::new());
                proto::publish(&mut out, to, "", b"");
                self.wire.send(&out)?;
                Ok(false)
            }
            100 => match message.header("Nats-Last-Consumer").map(str::parse) {
                Some(Ok(last)) if last == count => Ok(true),
                Some(Ok::<u64, _>(_)) => Err(LinkFault::new("a message from it was lost")),
                Some(Err(_)) | None => Err(misread()),
            },
            _ => Err(LinkFault::new(format!("it sends no more of the log (status {status})"))),
        }
    }
}

impl FleetLink for Session {
    fn bounds(&mut self) -> Result<LogBounds, LinkFault> {
        let info = self.describe()?;
        let config = &info["config"];
        if config["subjects"] != json!([self.subject]) || config["retention"] != json!("limits") {
            let text = format!(
                "the stream {} belongs to something else: its subjects are {}",
                self.stream, config["subjects"]
            );
            return Err(LinkFault::new(base::text::printable(&text)));
        }
        if config["discard"] != json!("old") {
            return Err(LinkFault::new(format!(
                "the stream {} takes no more when it is full: discard isn't old",
                self.stream
            )));
        }
        let number = |name: &str| info["state"][name].as_u64().ok_or_else(misread);
        let (messages, first, last) = (number("messages")?, number("first_seq")?, number("last_seq")?);
        let epoch = epoch_of(info["created"].as_str().ok_or_else(misread)?)?;
        Ok(LogBounds { epoch, first: if messages == 0 { last.saturating_add(1) } else { first }, last })
    }

    fn append(&mut self, entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault> {
        let mut out = Vec::new();
        let first = self.asked + 1;
        for entry in entries {
            let reply = self.reply_subject();
            let lines = [("Nats-Msg-Id", entry.id), ("Nats-Expected-Stream", &self.stream)];
            proto::publish_with(&mut out, &self.subject, &reply, &lines, entry.bytes);
        }
        self.wire.until(clock::now() + TIME);
        self.wire.send(&out)?;
        let mut results: Vec<Option<Result<u64, LinkFault>>> = vec![None; entries.len()];
        while results.iter().any(Option::is_none) {
            let message = self.message()?;
            let number = message.subject.strip_prefix(&self.inbox).and_then(|rest| rest.strip_prefix(".a."));
            let at = number.and_then(|number| number.parse::<u64>().ok()).and_then(|number| number.checked_sub(first));
            if let Some(result) = at.and_then(|at| results.get_mut(at as usize)) {
                *result = Some(acknowledged(&message)?);
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    fn follow(&mut self, from: u64) -> Result<(), LinkFault> {
        self.consume(json!({ "deliver_policy": "by_start_sequence", "opt_start_seq": from.max(1) }))
    }

    fn next(&mut self) -> Result<NextEntries, LinkFault> {
        if std::mem::take(&mut self.is_quiet) {
            return Ok(NextEntries::Quiet);
        }
        self.wire.until(clock::now() + 2 * HEARTBEAT + TIME);
        let (mut entries, mut left, mut bytes) = (Vec::new(), 0, 0);
        while entries.len() < BATCH && bytes < BATCH_BYTES {
            let Some(message) = self.delivery_already()? else {
                if entries.is_empty() {
                    self.wire.more()?;
                    continue;
                }
                break;
            };
            if let Some(status) = message.status {
                // What is said between entries tells nothing of those that follow.
                if self.is_quiet_by(&message, status)? && entries.is_empty() {
                    return Ok(NextEntries::Quiet);
                }
                continue;
            }
            let Delivery { seq, nth, pending, .. } = Delivery::of(&message.reply).ok_or_else(misread)?;
            let consumer = self.consumer.as_mut().ok_or_else(misread)?;
            consumer.count += 1;
            if nth != consumer.count {
                return Err(LinkFault::new("a message from it was lost"));
            }
            left = pending;
            bytes += message.payload.len();
            entries.push(IncomingEntry { seq, bytes: message.payload });
        }
        Ok(NextEntries::Entries { entries, left })
    }
}

/// The number that an entry was given, or why it was refused.
///
/// # Errors
/// There is nobody now who takes it: a cluster has no leader for a while after one is gone, or the stream was deleted.
fn acknowledged(message: &NatsMessage) -> Result<Result<u64, LinkFault>, LinkFault> {
    if message.status == Some(503) {
        return Err(LinkFault::new("no stream takes it"));
    }
    let answer: Value = serde_json::from_slice(&message.payload).map_err(|_| misread())?;
    let is_unavailable = answer["error"]["err_code"].as_i64().is_some_and(|code| UNAVAILABLE.contains(&code));
    let number = unless_error(answer).and_then(|answer| answer["seq"].as_u64().ok_or_else(misread));
    if is_unavailable { number.map(Ok) } else { Ok(number) }
}

fn unless_error(answer: Value) -> Result<Value, LinkFault> {
    match &answer["error"] {
        Value::Null => Ok(answer),
        error => {
            let words = error["description"].as_str().unwrap_or("an error without a description");
            Err(LinkFault::new(base::text::printable(words)))
        }
    }
}

fn misread() -> LinkFault {
    LinkFault::new("it doesn't respond like a NATS server")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    struct Asked {
        subject: String,
        reply: String,
    }

    fn asked(input: &mut BufReader<TcpStream>) -> Option<Asked> {
        loop {
            let mut line = String::new();
            input.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["PING"] => input.get_mut().write_all(b"PONG\r\n").unwrap(),
                ["PUB" | "HPUB", subject, reply, .., bytes] => {
                    let (subject, reply) = (subject.to_owned(), reply.to_owned());
                    let mut payload = vec![0; bytes.parse::<usize>().unwrap() + 2];
                    input.read_exact(&mut payload).unwrap();
                    return Some(Asked { subject, reply });
                }
                _ => {}
            }
        }
    }

    /// Reply for a subject without subscribers.
    const NOBODY: &str = "NATS/1.0 503\r\n\r\n";

    /// A connection to a server that answers so, each question with the next of these.
    fn session(answers: Vec<String>) -> (Session, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = LogServer { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let questions = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(b"INFO {}\r\n").unwrap();
            let (mut input, mut subjects) = (BufReader::new(socket), Vec::new());
            for answer in answers {
                let Some(Asked { subject, reply }) = asked(&mut input) else { break };
                subjects.push(subject);
                let bytes = answer.len();
                let head = match answer.as_str() {
                    NOBODY => format!("HMSG {reply} {ANSWERS} {bytes} {bytes}\r\n"),
                    answer if answer.starts_with("-ERR") => String::new(),
                    _ => format!("MSG {reply} {ANSWERS} {bytes}\r\n"),
                };
                input.get_mut().write_all(format!("{head}{answer}\r\n").as_bytes()).unwrap();
            }
            subjects
        });
        let nats = Nats::new(&FleetSettings::parse("nats://a").unwrap()).unwrap();
        (nats.open(&server, clock::now() + Duration::from_secs(20)).unwrap(), questions)
    }

    fn error(code: i64, words: &str) -> String {
        json!({ "error": { "code": 503, "err_code": code, "description": words } }).to_string()
    }

    #[test]
    fn where_nobody_takes_entries_now_they_are_sent_again_and_where_one_is_refused_it_isnt() {
        let entries = [OutgoingEntry { id: "1", bytes: b"a" }, OutgoingEntry { id: "2", bytes: b"b" }];
        let done = |seq: u64| json!({ "stream": "LACQUER_lacquer", "seq": seq }).to_string();
        for nobody in [
            NOBODY.to_owned(),
            error(10_008, "JetStream system temporarily unavailable"),
            error(10_009, "not the leader"),
        ] {
            let (mut session, _) = session(vec![done(7), nobody]);
            assert!(session.append(&entries).is_err());
        }
        let (mut session, _) = session(vec![error(10_023, "insufficient resources"), done(7)]);
        assert_eq!(session.append(&entries), Ok(vec![Err(LinkFault::new("insufficient resources")), Ok(7)]));
    }

    #[test]
    fn a_missing_right_is_named_and_nothing_else_is_taken_for_one() {
        let said = |answer: &str| session(vec![answer.to_owned()]).0.survey()[1].value.clone().unwrap_err();
        let refused = said("-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.LACQUER_a\"'");
        assert!(refused.contains("; allow the user to publish to $JS.API.STREAM.INFO."), "{refused}");
        let off = said(NOBODY);
        assert!(off.ends_with(": JetStream isn't enabled there, or not for this user"), "{off}");
    }

    #[test]
    fn of_two_who_made_the_log_at_once_both_know_it_by_what_it_says_then() {
        let name = FleetSettings::parse("nats://a").unwrap().name;
        let info = |created: &str| {
            let config = json!({ "subjects": [format!("lacquer.{name}")], "retention": "limits", "discard": "old" });
            let state = json!({ "messages": 0, "first_seq": 0, "last_seq": 0 });
            json!({ "config": config, "created": created, "state": state }).to_string()
        };
        let (mut session, questions) =
            session(vec![error(NO_STREAM, "stream not found"), info("mine"), info("theirs")]);
        assert_eq!(session.bounds(), Ok(LogBounds { epoch: "theirs".to_owned(), first: 1, last: 0 }));
        let subjects = questions.join().unwrap();
        let words: Vec<_> = subjects.iter().map(|subject| subject.split('.').nth(3).unwrap_or_default()).collect();
        assert_eq!(words, ["INFO", "CREATE", "INFO"]);
    }
}
