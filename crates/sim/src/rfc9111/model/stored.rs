// SPDX-License-Identifier: BSD-2-Clause
//! What is stored: as what (3.1, 3.2), whether it may be (3, 3.5), and how long it is fresh and may be served stale (4.2, 5.2.2, 5.3, RFC
//! 5861, RFC 9213).

use super::asked::Fetch;
use crate::plan::SimAsk;
use crate::rfc9111::draw::{BEGIN, OriginAnswer};
use crate::rfc9111::fields::{Directives, Fields, date, field, joined, members, parse_date, remove, seconds};

/// Seconds for which a stale response is kept to be validated (`rfc9111_keep`).
const KEEP: f64 = 3600.0;

/// Heuristic lifetime: a part of the time since the last change, and no more than so many seconds.
const GUESS: f64 = 0.1;
const GUESS_MOST: f64 = 86_400.0;

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub status: u16,
    pub fields: Fields,
    pub body: String,
    /// True for each byte of the body that is there (3.3).
    pub held: Vec<bool>,
    /// `corrected_initial_age`, and `response_time` (4.2.3).
    pub initial_age: f64,
    pub received: f64,
    /// True if the request allows a heuristic lifetime.
    pub may_guess: bool,
    /// Age at which an answer to HEAD showed that it isn't good any more.
    pub outdated: Option<f64>,
    /// The strong validator of the response whose bytes these are, if not all are there: its field and value. What is stored of the
    /// fields may be updated by another, weak one (3.4).
    pub version: Option<(&'static str, String)>,
}

impl Stored {
    /// The response that would be stored for an answer.
    pub fn of(fetch: &Fetch) -> Self {
        let Fetch { ask, sent, received, .. } = *fetch;
        let OriginAnswer { status, mut fields, body } = fetch.answer.clone();
        if field(&fields, "Date").is_none() {
            // RFC 9110 6.6.1
            fields.push(("Date".to_owned(), date(received.floor() as i64)));
        }
        // Of the response that has just come, whose Age isn't stored (4.2.3).
        let age_value = field(&fields, "Age").map(str::to_owned);
        remove(&mut fields, "Age");
        let apparent_age =
            field(&fields, "Date").and_then(parse_date).map_or(0.0, |date| (received - date as f64).max(0.0));
        let age_value = age_value.as_deref().and_then(|text| seconds(text.split(',').next()?.trim())).unwrap_or(0.0);
        let initial_age = apparent_age.max(age_value + (received - sent));
        // Who says nothing of caching may have answered for one user.
        let may_guess = field(&ask.headers, "Cookie").is_none() && field(&fields, "Set-Cookie").is_none();
        let held = vec![true; body.len()];
        Stored { status, fields, body, held, initial_age, received, may_guess, outdated: None, version: None }
    }

    /// The stored response with its fields updated by an answer: each takes the place of the stored one, and the body
    /// stays (3.2).
    pub fn renewed(fetch: &Fetch, stored: &Stored) -> Self {
        let mut new = Stored::of(fetch);
        let old = stored.fields.iter().filter(|(name, _)| field(&new.fields, name).is_none());
        let old: Vec<_> = old.cloned().collect();
        new.fields.extend(old);
        new.may_guess &= field(&new.fields, "Set-Cookie").is_none();
        let Stored { status, body, held, version, .. } = stored.clone();
        Stored { status, body, held, version, ..new }
    }

    /// Section 3, one sentence after the other.
    pub fn may_be_stored(&self, ask: &SimAsk) -> bool {
        let directives = self.directives();
        let is_understood =
            matches!(self.status, 200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505);
        let is_final = !matches!(self.status, 206 | 304) && (is_understood || !directives.has("must-understand"));
        let is_no_store = directives.has("no-store") && !directives.has("must-understand");
        let has = |name: &String| field(&self.fields, name).is_some();
        let is_private = directives.has_whole("private") || directives.names("private").iter().any(has);
        let is_for_others = ["public", "s-maxage", "must-revalidate"].iter().any(|name| directives.has(name));
        let is_authorized = field(&ask.headers, "Authorization").is_none() || is_for_others;
        let is_said =
            directives.has("public") || self.explicit_lifetime().is_some() || is_heuristically_cacheable(self.status);
        let is_star = joined(&self.fields, "Vary").is_some_and(|text| members(&text).iter().any(|name| name == "*"));
        is_final && !is_no_store && !is_private && is_authorized && is_said && !is_star
    }

    /// True if any request could ever be answered with it.
    pub fn is_of_use(&self) -> bool {
        let can_be_served = self.lifetime() + self.grace() > self.initial_age;
        self.has_validator() || can_be_served || self.directives().has("stale-if-error")
    }

    fn has_validator(&self) -> bool {
        self.status == 200 && ["ETag", "Last-Modified"].iter().any(|name| field(&self.fields, name).is_some())
    }

    /// Those of a targeted field, if there is one that can be read (RFC 9213 2.2), else Cache-Control's.
    fn targeted(&self) -> Option<Directives> {
        joined(&self.fields, "CDN-Cache-Control").and_then(|text| Directives::parse_targeted(&text))
    }

    pub fn directives(&self) -> Directives {
        let plain = || joined(&self.fields, "Cache-Control").map(|text| Directives::parse(&text)).unwrap_or_default();
        self.targeted().unwrap_or_else(plain)
    }

    /// 4.2.1: what is said. A targeted field leaves Expires without a say.
    fn explicit_lifetime(&self) -> Option<f64> {
        let directives = self.directives();
        if let Some(seconds) = directives.seconds("s-maxage").or(directives.seconds("max-age")) {
            return Some(seconds);
        }
        let expires = field(&self.fields, "Expires").filter(|_| self.targeted().is_none())?;
        // What is no date is in the past (5.3).
        Some(parse_date(expires).map_or(0.0, |expires| (expires - self.date()).max(0) as f64))
    }

    /// 4.2.2: what is guessed.
    fn guessed_lifetime(&self) -> Option<f64> {
        let modified = field(&self.fields, "Last-Modified").and_then(parse_date)?;
        let may_be = self.may_guess && (self.directives().has("public") || is_heuristically_cacheable(self.status));
        may_be.then(|| ((self.date() - modified) as f64 * GUESS).clamp(0.0, GUESS_MOST))
    }

    pub fn date(&self) -> i64 {
        field(&self.fields, "Date").and_then(parse_date).unwrap_or(BEGIN)
    }

    /// `freshness_lifetime`; what mustn't be used without a validation is never fresh (5.2.2.4).
    pub fn lifetime(&self) -> f64 {
        if self.directives().has_whole("no-cache") {
            return 0.0;
        }
        let lifetime = self.explicit_lifetime().or_else(|| self.guessed_lifetime()).unwrap_or(0.0);
        self.outdated.map_or(lifetime, |age| lifetime.min(age))
    }

    /// True if a 200 to HEAD is about something else (4.3.5).
    pub fn differs_from(&self, answer: &OriginAnswer) -> bool {
        let is_other_tag = field(&answer.fields, "ETag").is_some_and(|new| {
            field(&self.fields, "ETag").is_none_or(|old| old.trim_start_matches("W/") != new.trim_start_matches("W/"))
        });
        let modified = field(&answer.fields, "Last-Modified");
        let is_other_date = modified.is_some() && modified != field(&self.fields, "Last-Modified");
        is_other_tag || is_other_date || self.body.len() != answer.body.len()
    }

    /// The `current_age` of 4.2.3.
    pub fn age(&self, now: f64) -> f64 {
        self.initial_age + (now - self.received)
    }

    pub fn is_fresh(&self, now: f64) -> bool {
        self.lifetime() > self.age(now)
    }

    /// 5.2.2.2, 5.2.2.4, 5.2.2.8. (s-maxage, 5.2.2.10, where that is asked.)
    pub fn forbids_stale(&self) -> bool {
        let directives = self.directives();
        directives.has_whole("no-cache") || directives.has("must-revalidate") || directives.has("proxy-revalidate")
    }

    /// Seconds for which it may be served stale while it is validated (RFC 5861 3).
    fn grace(&self) -> f64 {
        if self.forbids_stale() || self.outdated.is_some() {
            0.0
        } else {
            self.directives().seconds("stale-while-revalidate").unwrap_or(0.0)
        }
    }

    pub fn is_within_stale_while_revalidate(&self, now: f64) -> bool {
        self.grace() > 0.0 && self.age(now) <= self.lifetime() + self.grace()
    }

    pub fn is_kept(&self, now: f64) -> bool {
        self.age(now) < self.lifetime() + self.grace() + KEEP
    }

    /// Implements `no-cache="names"` (RFC 9111, 5.2.2.4).
    pub fn leave_unshared_out(&mut self) {
        for name in self.directives().names("no-cache") {
            remove(&mut self.fields, &name);
        }
    }
}

/// Statuses of RFC 9110, 15.1.
fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
