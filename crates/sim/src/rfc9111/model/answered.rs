// SPDX-License-Identifier: BSD-2-Clause
//! What a client gets: what a request says of what it takes (5.2.1), what is stale in the place of an error (4.2.4, RFC 5861 4), what is
//! made of what is stored for this one client (RFC 9110 13.2, 14.2), and what goes past the cache.

use super::asked::Asked;
use super::stored::Stored;
use crate::plan::SimAsk;
use crate::rfc9111::draw::{Answering, OriginAnswer};
use crate::rfc9111::fields::{Directives, Fields, date, field, parse_date, remove};

#[derive(Clone, Debug)]
pub(in crate::rfc9111) struct Expected {
    pub status: u16,
    pub fields: Fields,
    pub body: String,
    /// The connection breaks off before the body's end.
    pub is_cut: bool,
    /// Seconds; `None` where it isn't the cache's to say.
    pub age: Option<f64>,
    pub asked: Vec<Asked>,
}

/// Reasons why the origin has no usable answer (4.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Disconnected,
    ServerError,
}

impl Directives {
    /// True if a request takes a response that is fresh by itself (5.2.1).
    pub(super) fn allow(&self, stored: &Stored, now: f64) -> bool {
        let age = stored.age(now);
        let is_young = self.strict_seconds("max-age").is_none_or(|most| age <= most);
        let least = self.strict_seconds("min-fresh").unwrap_or(0.0);
        !self.has("no-cache") && is_young && stored.lifetime() - age >= least
    }

    /// True unless the request limits the age of its answer.
    pub(super) fn say_nothing_of_age(&self) -> bool {
        let is_said = |name| self.strict_seconds(name).is_some();
        !(self.has("no-cache") || is_said("max-age") || is_said("min-fresh"))
    }

    /// Evaluates `max-stale` (RFC 9111, 5.2.1.2).
    pub(super) fn take_stale(&self, stored: &Stored, now: f64) -> bool {
        let Some(most) = self.strict_seconds("max-stale") else { return false };
        let is_young = self.strict_seconds("max-age").is_none_or(|most| stored.age(now) <= most);
        let directives = stored.directives();
        let is_forbidden = stored.forbids_stale() || directives.has("s-maxage");
        let staleness = stored.age(now) - stored.lifetime();
        let is_refused = self.has("no-cache") || self.strict_seconds("min-fresh").is_some();
        is_young && !is_forbidden && !is_refused && staleness <= most
    }
}

impl Stored {
    /// True if it may take the place of an error (4.2.4, RFC 5861 4).
    pub fn may_stand_in(&self, now: f64, trouble: Trouble) -> bool {
        let directives = self.directives();
        let staleness = self.age(now) - self.lifetime();
        let granted = directives.seconds("stale-if-error").map(|most| staleness <= most);
        let is_allowed = match trouble {
            Trouble::ServerError => granted == Some(true),
            Trouble::Disconnected => granted.unwrap_or(!directives.has("s-maxage")),
        };
        is_allowed && !self.forbids_stale() && self.is_kept(now)
    }

    pub fn reuse(&self, now: f64, ask: &SimAsk, asked: Vec<Asked>) -> Expected {
        let mut stored = self.clone();
        stored.leave_unshared_out();
        stored.deliver(ask, asked, now)
    }

    /// The answer to a client, whose conditions and range are looked at (RFC 9110 13.2, 14.2).
    pub fn deliver(&self, ask: &SimAsk, asked: Vec<Asked>, now: f64) -> Expected {
        let age = self.age(now);
        let mut expected = Expected {
            status: self.status,
            fields: self.fields.clone(),
            body: self.body.clone(),
            is_cut: false,
            age: Some(age),
            asked,
        };
        if self.status != 200 {
            return expected.without_body_for(ask);
        }
        let is_not_modified = match field(&ask.headers, "If-None-Match") {
            Some(tag) => field(&self.fields, "ETag").is_some_and(|own| own.trim_start_matches("W/") == tag),
            None => field(&ask.headers, "If-Modified-Since").and_then(parse_date).is_some_and(|since| {
                let modified = ["Last-Modified", "Date"].into_iter().find_map(|name| field(&self.fields, name));
                modified.and_then(parse_date).is_some_and(|modified| modified <= since)
            }),
        };
        if is_not_modified {
            expected.status = 304;
            expected.body.clear();
        } else if self.range_for(ask).is_some() {
            let ((first, last), length) = (self.asked_bytes(ask), self.body.len());
            expected.status = 206;
            expected.fields.push(("Content-Range".to_owned(), format!("bytes {first}-{last}/{length}")));
            expected.body = self.body[first..=last].to_owned();
        }
        expected.without_body_for(ask)
    }
}

impl Expected {
    pub(super) fn made(status: u16, asked: Vec<Asked>) -> Self {
        Expected { status, fields: Vec::new(), body: String::new(), is_cut: false, age: None, asked }
    }

    fn without_body_for(mut self, ask: &SimAsk) -> Self {
        if ask.method == "HEAD" {
            self.body.clear();
        }
        self
    }
}

/// A request that goes through, with its own conditions.
pub(super) fn pass(now: f64, ask: &SimAsk, origin: &Answering) -> Expected {
    let of = |name| field(&ask.headers, name).map(str::to_owned);
    let (if_none_match, if_modified_since) = (of("If-None-Match"), of("If-Modified-Since"));
    let (range, if_range) = (of("Range"), of("If-Range"));
    let asked = Asked { method: ask.method.clone(), if_none_match, if_modified_since, range, if_range };
    if origin.is_dead {
        return Expected::made(503, vec![asked]);
    }
    let received = now + origin.delay_ms() as f64 / 1000.0;
    let OriginAnswer { status, mut fields, body } = origin.answer(&asked.fields(), received.floor() as i64);
    if field(&fields, "Date").is_none() {
        fields.push(("Date".to_owned(), date(received.floor() as i64)));
    }
    remove(&mut fields, "Age");
    let answer = OriginAnswer { status, fields, body };
    if status == 206 && answer.believed(asked.range.as_deref()).is_none() {
        return Expected::made(503, vec![asked]);
    }
    let OriginAnswer { status, fields, body } = answer;
    let (held, length) = (vec![true; body.len()], body.len());
    let (initial_age, may_guess) = (0.0, false);
    let got = Stored { status, fields, body, held, initial_age, received, may_guess, outdated: None, version: None };
    let mut expected = Expected { age: None, ..got.deliver(ask, vec![asked], received) };
    if origin.is_cut && status != 304 && !expected.body.is_empty() {
        let cut = got.cut_at(length / 2);
        expected.is_cut = !(status == 200 && expected.status == 206 && cut.has_what_is_asked(ask));
    }
    expected
}
