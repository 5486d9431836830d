// SPDX-License-Identifier: BSD-2-Clause
//! What is stored in part: which requests it answers (3.3), what may be put together (3.4, RFC 9110 15.3.7.3), and which 206 is believed
//! (RFC 9110 14.4).

use super::stored::Stored;
use crate::plan::SimAsk;
use crate::rfc9111::draw::OriginAnswer;
use crate::rfc9111::fields::{field, parse_date, remove};

/// Place of a 206 in the whole.
pub(super) struct PartPlace {
    pub first: usize,
    /// Length of the whole, if that is known.
    pub total: Option<usize>,
}

impl Stored {
    pub fn is_incomplete(&self) -> bool {
        self.held.iter().any(|held| !held)
    }

    /// The range that a request is for, if it is for one of this version (RFC 9110 14.2, 13.1.5).
    pub fn range_for(&self, ask: &SimAsk) -> Option<(usize, usize)> {
        let range = field(&ask.headers, "Range").filter(|_| ask.method == "GET")?;
        let is_strong_tag = |tag: &str| !tag.starts_with("W/") && field(&self.fields, "ETag") == Some(tag);
        two_numbers(range.strip_prefix("bytes=")?).filter(|_| field(&ask.headers, "If-Range").is_none_or(is_strong_tag))
    }

    /// The bytes that a request is for: all, or those of its range.
    pub fn asked_bytes(&self, ask: &SimAsk) -> (usize, usize) {
        let end = self.body.len().saturating_sub(1);
        self.range_for(ask).map_or((0, end), |(first, last)| (first, last.min(end)))
    }

    /// 3.3: an incomplete response answers no request but for a range that lies within what is there.
    pub fn has_what_is_asked(&self, ask: &SimAsk) -> bool {
        let (first, last) = self.asked_bytes(ask);
        !self.is_incomplete() || self.range_for(ask).is_some() && self.held[first..=last].iter().all(|held| *held)
    }

    /// True if its validator is strong (RFC 9110 8.8.1, 8.8.2.2).
    pub fn is_strong(&self) -> bool {
        match field(&self.fields, "ETag") {
            Some(tag) => !tag.starts_with("W/"),
            None => {
                field(&self.fields, "Last-Modified").and_then(parse_date).is_some_and(|modified| modified < self.date())
            }
        }
    }

    fn validator(&self) -> Option<(&'static str, String)> {
        ["ETag", "Last-Modified"].into_iter().find_map(|name| Some((name, field(&self.fields, name)?.to_owned())))
    }

    /// True if the bytes of an answer are of the same version as these (3.4, RFC 9110 15.3.7.3).
    pub fn is_of_version_of(&self, other: &Stored) -> bool {
        self.validator().is_some() && self.validator() == other.version
    }

    /// True if a 304 says nothing of another version.
    pub fn is_confirmed_by(&self, answer: &OriginAnswer) -> bool {
        let (name, own) = self.version.as_ref().map_or(("", ""), |(name, value)| (name, value));
        match (field(&answer.fields, "ETag"), field(&answer.fields, "Last-Modified")) {
            (Some(tag), _) => name == "ETag" && tag == own,
            (None, Some(date)) => name == "ETag" || date == own,
            (None, None) => true,
        }
    }

    /// From now on some of its bytes may be missing: those that are there are of this version.
    fn note_version(&mut self) {
        if self.version.is_none() {
            self.version = self.validator();
        }
    }

    /// The response with these bytes of a body of `total` from the byte `first` on, and with those of `others`, which
    /// has the same version.
    pub fn with_part(mut self, first: usize, total: usize, bytes: &str, others: Option<&Stored>) -> Self {
        let mut body: Vec<u8> = others.map_or_else(|| vec![b'?'; total], |others| others.body.clone().into_bytes());
        let mut held = others.map_or_else(|| vec![false; total], |others| others.held.clone());
        for (at, byte) in (first..).zip(bytes.bytes()) {
            (body[at], held[at]) = (byte, true);
        }
        (self.status, self.body, self.held) = (200, String::from_utf8(body).expect("ASCII"), held);
        self.note_version();
        remove(&mut self.fields, "Content-Range");
        self
    }

    /// Nothing of it is there from the byte `end` on.
    pub fn cut_at(mut self, end: usize) -> Self {
        self.held[end..].fill(false);
        self.note_version();
        self
    }
}

impl OriginAnswer {
    /// The place, if it is valid, is the one asked for, and is as long as the body (RFC 9110 14.4).
    pub(super) fn believed(&self, asked: Option<&str>) -> Option<PartPlace> {
        let (place, total) = field(&self.fields, "Content-Range")?.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = two_numbers(place)?;
        let total: Option<usize> = total.parse().ok();
        let (asked_first, asked_last) = two_numbers(asked?.strip_prefix("bytes=")?)?;
        let is_sound = first <= last && total.is_none_or(|total| last < total);
        let is_asked = first == asked_first && last <= asked_last;
        (is_sound && is_asked && self.body.len() == last + 1 - first).then_some(PartPlace { first, total })
    }
}

fn two_numbers(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-')?;
    Some((first.parse().ok()?, if last.is_empty() { usize::MAX } else { last.parse().ok()? }))
}
