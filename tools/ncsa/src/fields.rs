// SPDX-License-Identifier: BSD-2-Clause
//! What the records of a transaction say, gathered for a line.

use logq::{Handling, Rec, Txn, TxnType, records};
use tables::Tag;
use tables::tags::TagKind;
use transactions::{RequestLine, View};

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
    FirstByte,
    HostHeader,
    Authorization,
}

/// The record that counts, of several with the same header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occurrence {
    First,
    Last,
    /// In logs of 7.1 the last one. In later logs the one that the peer sent or received: what VCL makes of it doesn't count.
    OfPeer,
}

/// A watched value, as the records so far have it.
#[derive(Clone, Copy, Debug, Default)]
enum FoundValue<'a> {
    #[default]
    Nothing,
    /// The header was removed.
    Removed,
    Value(&'a [u8]),
}

impl<'a> FoundValue<'a> {
    fn is_nothing(self) -> bool {
        matches!(self, FoundValue::Nothing)
    }
}

impl<'a> From<Option<&'a [u8]>> for FoundValue<'a> {
    fn from(value: Option<&'a [u8]>) -> FoundValue<'a> {
        value.map_or(FoundValue::Nothing, FoundValue::Value)
    }
}

/// A header line that was set or removed.
#[derive(Clone, Copy)]
struct HeaderRecord {
    is_request: bool,
    is_unset: bool,
}

impl HeaderRecord {
    fn of(tag: Tag) -> Option<HeaderRecord> {
        let (is_request, is_unset) = match tag {
            Tag::ReqHeader | Tag::BereqHeader => (true, false),
            Tag::RespHeader | Tag::BerespHeader => (false, false),
            Tag::ReqUnset | Tag::BereqUnset => (true, true),
            Tag::RespUnset | Tag::BerespUnset => (false, true),
            _ => return None,
        };
        Some(HeaderRecord { is_request, is_unset })
    }
}

/// A value that is looked for because the format names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchedValue {
    ReqHeader(String, Occurrence),
    RespHeader(String, Occurrence),
    VclLog(String),
    /// Any record: its tag, the text before the colon, and the number of the word (0: all).
    Record(Tag, Option<String>, usize),
}

/// Facts of one transaction, as varnishncsa prints them.
#[derive(Debug)]
pub struct NcsaFields<'a> {
    view: View<'a>,
    /// The log is one of 7.3 or later.
    is_later: bool,
    /// Behind it VCL changes what the peer sent: vcl_recv, or vcl_backend_response, has begun.
    is_received: bool,
    authorization: Option<&'a [u8]>,
    /// The status that a backend sent.
    beresp_status: Option<&'a [u8]>,
    /// HitMiss or HitPass, which the pass or miss came from.
    marker: Option<Tag>,
    /// A value for each of the format's watches.
    watched: Vec<FoundValue<'a>>,
}

fn is_space(b: &u8) -> bool {
    b.is_ascii_whitespace() || *b == 0x0b
}

fn trim(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|b| !is_space(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !is_space(b)).map_or(begin, |at| at + 1);
    &text[begin..end]
}

/// The word of this number, from 1.
fn word(text: &[u8], number: usize) -> Option<&[u8]> {
    text.split(is_space).filter(|w| !w.is_empty()).nth(number - 1)
}

/// The text after the prefix (in any case) and spaces.
fn after<'a>(text: &'a [u8], prefix: &str) -> Option<&'a [u8]> {
    let (first, rest) = text.split_at_checked(prefix.len())?;
    let spaces = rest.iter().take_while(|b| **b == b' ').count();
    first.eq_ignore_ascii_case(prefix.as_bytes()).then(|| &rest[spaces..])
}

impl<'a> NcsaFields<'a> {
    /// Reads a transaction. `None` if there is no line for it.
    pub fn gather(txn: &Txn<'a>, format: &NcsaFormat) -> Option<NcsaFields<'a>> {
        if !matches!(txn.kind, TxnType::Req | TxnType::Bereq) {
            return None;
        }
        let watched = vec![FoundValue::Nothing; format.watches().len()];
        let mut fields = NcsaFields {
            view: View::new(txn),
            is_later: false,
            is_received: false,
            authorization: None,
            beresp_status: None,
            marker: None,
            watched,
        };
        for rec in records(txn.records) {
            let is_plain = rec.tag.kind() == TagKind::Plain;
            if !is_plain && !format.is_json() {
                continue;
            }
            match rec.tag {
                Tag::HttpGarbage => return None,
                // The transaction that it continues as has the line.
                Tag::VclReturn if rec.text() == b"restart" => return None,
                Tag::ReqHeader | Tag::BereqHeader => fields.header(rec.text()),
                Tag::BerespStatus if !fields.is_received => _ = fields.beresp_status.get_or_insert(rec.text()),
                Tag::HitMiss | Tag::HitPass => fields.marker = Some(rec.tag),
                Tag::VclCall if rec.text() == b"RECV" => (fields.is_received, fields.marker) = (true, None),
                Tag::VclCall if rec.text() == b"BACKEND_RESPONSE" => fields.is_received = true,
                _ => {}
            }
            fields.is_later = rec.format.is_wide();
            fields.view.add(&rec);
            fields.watch(format, &rec, is_plain);
        }
        Some(fields)
    }

    fn header(&mut self, text: &'a [u8]) {
        let basic = after(text, "Authorization:").and_then(|rest| after(rest, "basic "));
        self.authorization = match self.takes_last() {
            true => basic.or(self.authorization),
            false => self.authorization.or(basic),
        };
    }

    /// A request to a backend is logged as it is sent, when VCL has changed it.
    fn takes_last(&self) -> bool {
        self.is_later && self.view.txn.kind == TxnType::Bereq
    }

    /// True if a header of this record takes the place of what was found before, in a log of 7.3 or later.
    fn is_of_peer(&self, record: HeaderRecord, has_found: bool) -> bool {
        let is_client = self.view.txn.kind == TxnType::Req;
        match (record.is_request, is_client) {
            (true, false) => !self.is_received,
            (false, true) => true,
            (true, true) | (false, false) => !self.is_received && !has_found,
        }
    }

    fn choose(
        &self,
        which: Occurrence,
        record: HeaderRecord,
        found: FoundValue<'a>,
        value: &'a [u8],
    ) -> FoundValue<'a> {
        match which {
            Occurrence::OfPeer if !self.is_later && record.is_unset => found,
            Occurrence::OfPeer if self.is_later && !self.is_of_peer(record, !found.is_nothing()) => found,
            // A header that was removed before vcl_recv is none, even if it comes back, as Host does from an absolute target.
            Occurrence::OfPeer if self.is_later && record.is_unset => FoundValue::Removed,
            Occurrence::First if !found.is_nothing() => found,
            // A line that was removed counts as one of its name, too.
            Occurrence::OfPeer | Occurrence::First | Occurrence::Last => FoundValue::Value(value),
        }
    }

    fn watch(&mut self, format: &NcsaFormat, rec: &Rec<'a>, is_plain: bool) {
        let mut text = rec.raw;
        while is_plain && let Some(rest) = text.strip_suffix(b"\0") {
            text = rest;
        }
        let header = HeaderRecord::of(rec.tag);
        let mut watched = std::mem::take(&mut self.watched);
        for (watch, found) in format.watches().iter().zip(&mut watched) {
            match watch {
                WatchedValue::ReqHeader(key, which) | WatchedValue::RespHeader(key, which) => {
                    let is_request = matches!(watch, WatchedValue::ReqHeader(..));
                    if let Some(header) = header.filter(|header| header.is_request == is_request)
                        && let Some(value) = after(text, key)
                    {
                        *found = self.choose(*which, header, *found, trim(value));
                    }
                }
                WatchedValue::VclLog(key) if rec.tag == Tag::VclLog && found.is_nothing() => {
                    *found = text.strip_prefix(key.as_bytes()).map(trim).into();
                }
                WatchedValue::Record(wanted, prefix, number) if *wanted == rec.tag && found.is_nothing() => {
                    let rest = match prefix {
                        Some(prefix) => after(text, prefix),
                        None => Some(text),
                    };
                    let value = rest.and_then(|rest| if *number == 0 { Some(trim(rest)) } else { word(rest, *number) });
                    *found = value.into();
                }
                _ => {}
            }
        }
        self.watched = watched;
    }

    pub fn get(&self, field: NcsaField) -> Option<&'a [u8]> {
        let (view, line) = (&self.view, self.line());
        match field {
            NcsaField::Protocol => line.protocol,
            NcsaField::Url => self.url().map(|(url, _)| url),
            NcsaField::Query => self.url().map(|(_, query)| query),
            NcsaField::BodyBytes => word(view.account?, 5),
            NcsaField::Host => view.peer().map(|peer| peer.address).filter(|address| !address.is_empty()),
            NcsaField::Scheme => Some(view.scheme()).filter(|scheme| !scheme.is_empty()),
            NcsaField::Method => line.method,
            NcsaField::Status => self.beresp_status.filter(|_| self.takes_last()).or(view.response.status),
            NcsaField::BytesIn => self.counted(3, 3),
            NcsaField::BytesOut => self.counted(6, 4),
            NcsaField::Start => self.stamped(&["Start:"], 1),
            NcsaField::End => self.stamped(&["Resp:", "PipeSess:", "BerespBody:"], 1),
            NcsaField::FirstByte => self.stamped(&["Process:", "Pipe:", "Beresp:"], 2),
            NcsaField::HostHeader => line.host,
            NcsaField::Authorization => self.authorization,
        }
        .map(trim)
    }

    pub fn watched(&self, number: usize) -> Option<&'a [u8]> {
        match self.watched.get(number)? {
            FoundValue::Value(value) => Some(value),
            FoundValue::Nothing | FoundValue::Removed => None,
        }
    }

    fn line(&self) -> &RequestLine<'a> {
        if self.is_later { self.view.request_line() } else { &self.view.came }
    }

    /// The URL and its query, from the `?` on.
    fn url(&self) -> Option<(&'a [u8], &'a [u8])> {
        let url = self.line().url?;
        Some(url.split_at(url.iter().position(|b| *b == b'?').unwrap_or(url.len())))
    }

    /// A word of the byte counts, or the one of the pipe's.
    fn counted(&self, number: usize, of_pipe: usize) -> Option<&'a [u8]> {
        let own = self.view.account.and_then(|text| word(text, number));
        own.or_else(|| word(self.view.pipe_account?, of_pipe))
    }

    /// A word of the first timestamp with one of these labels.
    fn stamped(&self, labels: &[&str], number: usize) -> Option<&'a [u8]> {
        let rest = |text| labels.iter().find_map(|label| after(text, label));
        self.view.stamps.iter().find_map(|stamp| word(rest(stamp.0)?, number))
    }

    pub fn hitmiss(&self) -> &'static str {
        match self.view.handling {
            None => "-",
            Some(Handling::Hit) => "hit",
            Some(Handling::Miss | Handling::Pass | Handling::Pipe | Handling::Synth) => "miss",
        }
    }

    pub fn handling(&self) -> &'static str {
        match (self.view.handling, self.marker.filter(|_| self.is_later)) {
            (Some(Handling::Miss), Some(Tag::HitMiss)) => "hitmiss",
            (Some(Handling::Pass), Some(Tag::HitPass)) => "hitpass",
            (handling, _) => handling.map_or("-", Handling::name),
        }
    }

    pub fn side(&self) -> &'static str {
        if self.view.txn.kind == TxnType::Bereq { "b" } else { "c" }
    }

    pub fn vxid(&self) -> u64 {
        self.view.txn.vxid
    }
}
