// SPDX-License-Identifier: BSD-2-Clause
//! What the records of a transaction say, gathered for a line.

use logq::{Rec, Txn, TxnType, records};
use tables::Tag;
use tables::tags::TagKind;

use crate::format::NcsaFormat;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NcsaField {
    /// The protocol version, for `%H`.
    Protocol,
    /// The URL without its query, for `%U`.
    Url,
    /// The query with its `?`, for `%q`.
    Query,
    /// Body bytes sent, for `%b`.
    BodyBytes,
    /// The peer's address, for `%h`.
    Host,
    /// `http` or `https`, where the log says so.
    Scheme,
    /// The request's method, for `%m`.
    Method,
    /// The response's status, for `%s`.
    Status,
    /// Bytes received, headers included, for `%I`.
    BytesIn,
    /// Bytes sent, headers included, for `%O`.
    BytesOut,
    Start,
    End,
    /// Time until the first byte, in seconds.
    FirstByte,
    HostHeader,
    /// The Authorization header's word.
    Authorization,
}

const FIELDS: usize = NcsaField::Authorization as usize + 1;

/// A value that is looked for because the format names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchedValue {
    /// A header of the request, with its colon.
    ReqHeader(String),
    RespHeader(String),
    VclLog(String),
    /// Any record: its tag, the text before the colon, and the number of the word (0: all).
    Record(Tag, Option<String>, usize),
}

/// Gathered of one transaction. The buffers are kept from one to the next.
#[derive(Debug)]
pub struct NcsaFields {
    fields: [Option<Vec<u8>>; FIELDS],
    watches: Vec<(WatchedValue, Option<Vec<u8>>)>,
    /// The value of `%{Varnish:hitmiss}x`.
    pub hitmiss: &'static str,
    /// The value of `%{Varnish:handling}x`.
    pub handling: &'static str,
    /// The value of `%{Varnish:side}x`.
    pub side: &'static str,
    /// The value of `%{Varnish:vxid}x`.
    pub vxid: u32,
}

fn trim(text: &[u8]) -> &[u8] {
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    let begin = text.iter().position(|b| !is_space(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !is_space(b)).map_or(begin, |at| at + 1);
    &text[begin..end]
}

/// The word of this number, from 1.
fn word(text: &[u8], number: usize) -> Option<&[u8]> {
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    text.split(is_space).filter(|w| !w.is_empty()).nth(number - 1)
}

/// The text after the prefix (in any case) and spaces.
fn after<'a>(text: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let (first, rest) = text.split_at_checked(prefix.len())?;
    let spaces = rest.iter().take_while(|b| **b == b' ').count();
    first.eq_ignore_ascii_case(prefix.as_bytes()).then(|| &rest[spaces..])
}

impl NcsaFields {
    pub fn new(format: &NcsaFormat) -> NcsaFields {
        NcsaFields {
            fields: Default::default(),
            watches: format.watches().iter().map(|watch| (watch.clone(), None)).collect(),
            hitmiss: "-",
            handling: "-",
            side: "-",
            vxid: 0,
        }
    }

    pub fn get(&self, field: NcsaField) -> Option<&[u8]> {
        self.fields[field as usize].as_deref()
    }

    pub fn watched(&self, number: usize) -> Option<&[u8]> {
        self.watches.get(number).and_then(|(_, found)| found.as_deref())
    }

    fn first(&mut self, field: NcsaField, value: &[u8]) {
        self.fields[field as usize].get_or_insert_with(|| trim(value).to_vec());
    }

    fn last(&mut self, field: NcsaField, value: &[u8]) {
        self.fields[field as usize] = Some(trim(value).to_vec());
    }

    fn first_word(&mut self, field: NcsaField, text: &[u8], number: usize) {
        if let Some(word) = word(text, number) {
            self.first(field, word);
        }
    }

    /// Reads a transaction; false when there is no line for it.
    pub fn gather(&mut self, txn: &Txn<'_>, json: bool) -> bool {
        self.side = match txn.kind {
            TxnType::Req => "c",
            TxnType::Bereq => "b",
            TxnType::Unknown | TxnType::Sess | TxnType::Raw => return false,
        };
        self.fields.fill(None);
        self.watches.iter_mut().for_each(|(_, found)| *found = None);
        (self.hitmiss, self.handling, self.vxid) = ("-", "-", txn.vxid);
        for rec in records(txn.records) {
            let is_plain = rec.tag.kind() == TagKind::Plain;
            if !is_plain && !json {
                continue;
            }
            let mut text = rec.raw;
            while is_plain && let Some(rest) = text.strip_suffix(b"\0") {
                text = rest;
            }
            let goes_on = self.record(&rec, text);
            self.watch(rec.tag, text);
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn record(&mut self, rec: &Rec<'_>, text: &[u8]) -> bool {
        match rec.tag {
            Tag::HttpGarbage => return false,
            Tag::PipeAcct => {
                self.first_word(NcsaField::BytesIn, text, 3);
                self.first_word(NcsaField::BytesOut, text, 4);
            }
            Tag::BackendOpen => {
                if let Some(word) = word(text, 3) {
                    self.last(NcsaField::Host, word);
                }
            }
            Tag::ReqStart => {
                self.first_word(NcsaField::Host, text, 1);
                self.first_word(NcsaField::Scheme, text, 4);
            }
            Tag::BereqMethod | Tag::ReqMethod => self.first(NcsaField::Method, text),
            Tag::BereqUrl | Tag::ReqUrl => {
                let (url, query) = text.split_at(text.iter().position(|b| *b == b'?').unwrap_or(text.len()));
                self.first(NcsaField::Url, url);
                self.first(NcsaField::Query, query);
            }
            Tag::BereqProtocol | Tag::ReqProtocol => self.first(NcsaField::Protocol, text),
            Tag::BerespStatus | Tag::RespStatus => self.last(NcsaField::Status, text),
            Tag::BereqAcct | Tag::ReqAcct => {
                self.first_word(NcsaField::BytesIn, text, 3);
                self.first_word(NcsaField::BodyBytes, text, 5);
                self.first_word(NcsaField::BytesOut, text, 6);
            }
            Tag::Timestamp => self.timestamp(text),
            Tag::BereqHeader | Tag::ReqHeader => {
                if let Some(basic) = after(text, "Authorization:").and_then(|v| after(v, "basic ")) {
                    self.first(NcsaField::Authorization, basic);
                } else if let Some(host) = after(text, "Host:") {
                    self.first(NcsaField::HostHeader, host);
                }
            }
            Tag::VclCall => self.call(rec.text()),
            Tag::VclReturn if rec.text().eq_ignore_ascii_case(b"pipe") => {
                (self.hitmiss, self.handling) = ("miss", "pipe");
            }
            Tag::VclReturn => return !rec.text().eq_ignore_ascii_case(b"restart"),
            _ => {}
        }
        true
    }

    fn timestamp(&mut self, text: &[u8]) {
        let any = |labels: &[&str]| labels.iter().find_map(|label| after(text, label));
        if let Some(rest) = any(&["Start:"]) {
            self.first_word(NcsaField::Start, rest, 1);
        } else if let Some(rest) = any(&["Resp:", "PipeSess:", "BerespBody:"]) {
            self.first_word(NcsaField::End, rest, 1);
        } else if let Some(rest) = any(&["Process:", "Pipe:", "Beresp:"]) {
            self.first_word(NcsaField::FirstByte, rest, 2);
        }
    }

    fn call(&mut self, sub: &[u8]) {
        let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
        let verdicts: &[(&str, &'static str, &'static str)] = &[
            ("recv", "-", "-"),
            ("hit", "hit", "hit"),
            ("miss", "miss", "miss"),
            ("pass", "miss", "pass"),
            ("synth", "miss", "synth"),
        ];
        if let Some((_, hitmiss, handling)) = verdicts.iter().find(|(name, ..)| is(name)) {
            (self.hitmiss, self.handling) = (hitmiss, handling);
        }
    }

    fn watch(&mut self, tag: Tag, text: &[u8]) {
        for (watch, found) in &mut self.watches {
            match watch {
                WatchedValue::ReqHeader(key) if matches!(tag, Tag::ReqHeader | Tag::BereqHeader) => {
                    if let Some(value) = after(text, key) {
                        *found = Some(trim(value).to_vec());
                    }
                }
                WatchedValue::RespHeader(key) if matches!(tag, Tag::RespHeader | Tag::BerespHeader) => {
                    if let Some(value) = after(text, key) {
                        *found = Some(trim(value).to_vec());
                    }
                }
                WatchedValue::VclLog(key) if tag == Tag::VclLog && found.is_none() => {
                    if let Some(value) = text.strip_prefix(key.as_bytes()) {
                        *found = Some(trim(value).to_vec());
                    }
                }
                WatchedValue::Record(wanted, prefix, number) if *wanted == tag && found.is_none() => {
                    let rest = match prefix {
                        Some(prefix) => after(text, prefix),
                        None => Some(text),
                    };
                    *found = match (rest, *number) {
                        (Some(rest), 0) => Some(trim(rest).to_vec()),
                        (Some(rest), number) => word(rest, number).map(<[u8]>::to_vec),
                        (None, _) => None,
                    };
                }
                _ => {}
            }
        }
    }
}
