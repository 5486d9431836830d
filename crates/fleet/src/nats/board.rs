// SPDX-License-Identifier: BSD-2-Clause
//! The board as two streams of JetStream that keep the last message of each subject: reports in `LACQUER-NODES_NAME`, in memory, where messages
//! end with their age; documents in `LACQUER-BOARD_NAME`, in a file. Fleets' names hold no dots, and the logs' streams begin with `LACQUER_`: so
//! no two are in each other's way.
//!
//! Reports are followed by a consumer as the log is, and kept here: a look at them asks the server nothing. Their age is that of the newest
//! message, which is our own report, less theirs, both by the server's clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base::clock;
use serde_json::{Value, json};

use super::proto::{self, Delivery, NatsMessage};
use super::{DUPLICATES, NO_STREAM, Nats, Session, TIME, acknowledged, misread, unless_error};
use crate::board::{FORGOTTEN, LONGEST_DOCUMENT, LONGEST_REPORT, MOST_REPORTS, name_of, token};
use crate::{Board, LinkFault, Posted};

/// The subject has another last message than was expected.
const WRONG_LAST: i64 = 10_071;
/// Documents that are kept.
const MANY: u64 = 1000;

#[derive(Debug)]
struct Last {
    bytes: Vec<u8>,
    /// Time by the server's clock, in nanoseconds since 1970.
    at: u64,
}

pub(super) struct NatsBoard {
    session: Session,
    documents: String,
    /// Subject of documents, without the name.
    document_subject: String,
    reports: BTreeMap<String, Last>,
    /// The newest report's time by the server's clock, and when it came.
    newest: Option<(u64, Instant)>,
    /// Number of the newest report that came, and of our own last one.
    seen: u64,
    own: u64,
    /// The name under which we report, and what another one has reported by it since we did.
    own_name: String,
    other: Option<Vec<u8>>,
}

impl NatsBoard {
    pub fn open(mut session: Session, nats: &Nats) -> Result<NatsBoard, LinkFault> {
        let subject = session.subject.clone();
        let documents = nats.stream.replacen("LACQUER_", "LACQUER-BOARD_", 1);
        session.stream = nats.stream.replacen("LACQUER_", "LACQUER-NODES_", 1);
        session.subject = format!("{subject}.node");
        let mut board = NatsBoard {
            session,
            documents,
            document_subject: format!("{subject}.board"),
            reports: BTreeMap::new(),
            newest: None,
            seen: 0,
            own: 0,
            own_name: String::new(),
            other: None,
        };
        let (stream, subject) = (board.session.stream.clone(), board.session.subject.clone());
        let replicas = nats.replicas;
        board.open_stream(&stream, &subject, json!({
            "storage": "memory", "max_age": FORGOTTEN.as_nanos() as u64, "max_msgs": MOST_REPORTS, "num_replicas": replicas,
            "max_msg_size": 2 * LONGEST_REPORT, "description": "Lacquer: how nodes fare",
        }))?;
        let (stream, subject) = (board.documents.clone(), board.document_subject.clone());
        board.open_stream(
            &stream,
            &subject,
            json!({
                "storage": "file", "max_age": 0, "max_msgs": MANY, "num_replicas": replicas, "allow_direct": true,
                "max_msg_size": -1, "description": "Lacquer: what is decided for all nodes",
            }),
        )?;
        Ok(board)
    }

    fn open_stream(&mut self, stream: &str, subject: &str, special: Value) -> Result<(), LinkFault> {
        let subjects = json!([format!("{subject}.>")]);
        let info = self.session.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)?;
        let info = if info["error"]["err_code"].as_i64() == Some(NO_STREAM) {
            let mut config = json!({
                "name": stream, "subjects": subjects, "retention": "limits", "discard": "old", "max_msgs_per_subject": 1,
                "max_bytes": -1, "max_consumers": -1, "duplicate_window": DUPLICATES.as_nanos() as u64,
            });
            if let (Some(config), Some(special)) = (config.as_object_mut(), special.as_object()) {
                config.extend(special.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            let made = self.session.ask(&format!("STREAM.CREATE.{stream}"), &config)?;
            // Another node may have been first.
            match unless_error(made) {
                Ok(made) => made,
                Err(fault) => {
                    let info = self.session.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)?;
                    unless_error(info).map_err(|_| fault)?
                }
            }
        } else {
            unless_error(info)?
        };
        let config = &info["config"];
        if config["subjects"] != subjects || config["max_msgs_per_subject"] != json!(1) {
            let text = format!("the stream {stream} is somebody else's: its subjects are {}", config["subjects"]);
            return Err(LinkFault::new(base::text::printable(&text)));
        }
        Ok(())
    }

    fn publish(
        &mut self,
        subject: &str,
        stream: &str,
        last: Option<&str>,
        bytes: &[u8],
    ) -> Result<NatsMessage, LinkFault> {
        let (reply, mut out) = (self.session.reply_subject(), Vec::new());
        let mut lines = vec![("Nats-Expected-Stream", stream)];
        lines.extend(last.map(|last| ("Nats-Expected-Last-Subject-Sequence", last)));
        proto::publish_with(&mut out, subject, &reply, &lines, bytes);
        self.session.wire.until(clock::now() + TIME);
        self.session.wire.send(&out)?;
        self.session.answer(&reply)
    }

    /// Takes what came of the reports, until our own last one is among them.
    fn take(&mut self) -> Result<(), LinkFault> {
        if self.session.consumer.is_none() {
            // Who only reads documents is sent no reports.
            let every = format!("{}.>", self.session.subject);
            self.session.consume(json!({ "deliver_policy": "last_per_subject", "filter_subject": every }))?;
        }
        self.session.wire.until(clock::now() + 2 * TIME);
        loop {
            let Some(message) = self.session.delivery_already()? else {
                if self.seen >= self.own {
                    return Ok(());
                }
                self.session.wire.more()?;
                continue;
            };
            if let Some(status) = message.status {
                self.session.is_quiet_by(&message, status)?;
                continue;
            }
            let Delivery { seq, nth, time, .. } = Delivery::of(&message.reply).ok_or_else(misread)?;
            let consumer = self.session.consumer.as_mut().ok_or_else(misread)?;
            consumer.count += 1;
            if nth != consumer.count {
                return Err(LinkFault::new("a message from it was lost"));
            }
            self.seen = seq;
            if self.newest.is_none_or(|(at, _)| at < time) {
                self.newest = Some((time, clock::now()));
            }
            let token = message.subject.strip_prefix(&self.session.subject).and_then(|rest| rest.strip_prefix('.'));
            if let Some(node) = token.and_then(name_of)
                // The stream's own limits hold where it was made by us only.
                && message.payload.len() <= LONGEST_REPORT
                && (self.reports.len() < MOST_REPORTS || self.reports.contains_key(&node))
            {
                if node == self.own_name && seq != self.own {
                    self.other = Some(message.payload.clone());
                }
                self.reports.insert(node, Last { bytes: message.payload, at: time });
            }
        }
    }

    fn last(&mut self, name: &str) -> Result<Option<(u64, Vec<u8>)>, LinkFault> {
        let subject = format!("{}.{}", self.document_subject, token(name));
        let (reply, mut out) = (self.session.reply_subject(), Vec::new());
        let question = json!({ "last_by_subj": subject }).to_string();
        proto::publish(&mut out, &format!("$JS.API.DIRECT.GET.{}", self.documents), &reply, question.as_bytes());
        self.session.wire.until(clock::now() + TIME);
        self.session.wire.send(&out)?;
        let message = self.session.answer(&reply)?;
        match message.status {
            Some(404) => Ok(None),
            Some(503) => Err(LinkFault::new(
                "nobody answers for its documents: is it older than NATS 2.9, or may this user not ask?",
            )),
            Some(status) => Err(LinkFault::new(format!("it doesn't give a document (status {status})"))),
            None => {
                let seq = message.header("Nats-Sequence").and_then(|seq| seq.parse().ok()).ok_or_else(misread)?;
                Ok(Some((seq, message.payload)))
            }
        }
    }
}

impl Board for NatsBoard {
    fn report(&mut self, node: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, LinkFault> {
        let subject = format!("{}.{}", self.session.subject, token(node));
        let stream = self.session.stream.clone();
        node.clone_into(&mut self.own_name);
        self.own = acknowledged(&self.publish(&subject, &stream, None, bytes)?)??;
        Ok(self.other.take())
    }

    fn reports(&mut self) -> Result<Vec<Posted>, LinkFault> {
        self.take()?;
        let Some((newest, came)) = self.newest else { return Ok(Vec::new()) };
        let age = |at: u64| Duration::from_nanos(newest.saturating_sub(at)) + came.elapsed();
        self.reports.retain(|_, last| age(last.at) < FORGOTTEN);
        let posted = self.reports.iter();
        Ok(posted
            .map(|(node, last)| Posted { node: node.clone(), bytes: last.bytes.clone(), age: age(last.at) })
            .collect())
    }

    fn document(&mut self, name: &str) -> Result<Option<Vec<u8>>, LinkFault> {
        Ok(self.last(name)?.map(|(_, bytes)| bytes))
    }

    fn replace(&mut self, name: &str, was: Option<&[u8]>, bytes: &[u8]) -> Result<bool, LinkFault> {
        if bytes.len() > LONGEST_DOCUMENT {
            return Err(LinkFault::new(format!(
                "a document of {} bytes: {LONGEST_DOCUMENT} are the most",
                bytes.len()
            )));
        }
        let last = match (self.last(name)?, was) {
            (None, None) => 0,
            (Some((seq, is)), Some(was)) if is == was => seq,
            (Some(_), _) | (None, Some(_)) => return Ok(false),
        };
        let subject = format!("{}.{}", self.document_subject, token(name));
        let (stream, last) = (self.documents.clone(), last.to_string());
        let answer = self.publish(&subject, &stream, Some(&last), bytes)?;
        let said: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
        if said["error"]["err_code"].as_i64() == Some(WRONG_LAST) {
            return Ok(false);
        }
        acknowledged(&answer).map(|_| true)
    }
}
