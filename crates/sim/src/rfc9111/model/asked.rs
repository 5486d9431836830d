// SPDX-License-Identifier: BSD-2-Clause
//! What the origin is asked, and what it answers: validation (4.3.1), the rest of what is stored in part (3.4), conditions and ranges of
//! the cache's own (RFC 9110 13.1, 14.2).

use super::answered::Expected;
use super::stored::Stored;
use crate::plan::SimAsk;
use crate::rfc9111::draw::{Answering, OriginAnswer};
use crate::rfc9111::fields::{Fields, field};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rfc9111) struct Asked {
    pub method: String,
    pub if_none_match: Option<String>,
    pub if_modified_since: Option<String>,
    pub range: Option<String>,
    pub if_range: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Fetch<'a> {
    pub ask: &'a SimAsk,
    pub origin: &'a Answering,
    pub sent: f64,
    pub received: f64,
    pub asked: Asked,
    pub answer: OriginAnswer,
}

impl<'a> Fetch<'a> {
    pub fn new(sent: f64, ask: &'a SimAsk, asked: Asked, origin: &'a Answering) -> Self {
        let received = sent + origin.delay_ms() as f64 / 1000.0;
        let answer = origin.answer(&asked.fields(), received.floor() as i64);
        Fetch { ask, origin, sent, received, asked, answer }
    }

    pub fn is_cut(&self) -> bool {
        self.origin.is_cut && self.answer.status != 304
    }

    pub fn deliver(&self, stored: &Stored) -> Expected {
        stored.deliver(self.ask, vec![self.asked.clone()], self.received)
    }

    pub fn may_store(&self, new: &Stored) -> bool {
        new.may_be_stored(self.ask) && new.is_of_use()
    }
}

impl Asked {
    pub(super) fn plain() -> Self {
        Asked { method: "GET".to_owned(), if_none_match: None, if_modified_since: None, range: None, if_range: None }
    }

    pub(super) fn by_head() -> Self {
        Asked { method: "HEAD".to_owned(), ..Asked::plain() }
    }

    /// VCL keeps HEAD where it asks for no part; a HEAD asks for no bytes (RFC 9110 14.2).
    pub(super) fn or_by_head(self, ask: &SimAsk) -> Self {
        match field(&ask.headers, "X-Keep").is_some() && field(&ask.headers, "X-Part").is_none() {
            true => Asked { method: "HEAD".to_owned(), range: None, if_range: None, ..self },
            false => self,
        }
    }

    /// The range that VCL asks for where nothing else is asked: no more than the client wants.
    pub(super) fn or_part_of(mut self, ask: &SimAsk) -> Self {
        if self == Asked::plain() {
            self.range = field(&ask.headers, "X-Part").map(str::to_owned);
        }
        self
    }

    pub(super) fn fields(&self) -> Fields {
        let fields = [
            ("If-None-Match", &self.if_none_match),
            ("If-Modified-Since", &self.if_modified_since),
            ("Range", &self.range),
            ("If-Range", &self.if_range),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }
}

impl Stored {
    /// The request that validates it (4.3.1).
    pub fn conditions(&self) -> Asked {
        if self.status != 200 {
            return Asked::plain();
        }
        let of = |name| field(&self.fields, name).map(str::to_owned);
        Asked { if_none_match: of("ETag"), if_modified_since: of("Last-Modified"), ..Asked::plain() }
    }

    /// The request for what is missing of what is asked, and for nothing of another version (RFC 9110 13.1.5).
    pub fn rest(&self, ask: &SimAsk) -> Asked {
        let (first, last) = self.asked_bytes(ask);
        let missing = || (first..=last).filter(|at| !self.held[*at]);
        let (first, last) =
            (missing().next().expect("some of it is missing"), missing().next_back().expect("as before"));
        let last = if last + 1 == self.body.len() { String::new() } else { last.to_string() };
        let if_range = self.version.as_ref().map(|(_, validator)| validator.clone());
        Asked { range: Some(format!("bytes={first}-{last}")), if_range, ..Asked::plain() }
    }
}
