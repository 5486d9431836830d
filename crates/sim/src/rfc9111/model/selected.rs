// SPDX-License-Identifier: BSD-2-Clause
//! Which of the stored responses a request is about: 4.1 (Vary), and what of a query matters (No-Vary-Search).

use super::Model;
use super::stored::Stored;
use crate::plan::SimAsk;
use crate::rfc9111::fields::{field, joined, members};

/// A URL as it is, with 0, or reduced to what matters, with the number of what says so: what is stored while something else is said
/// isn't found.
pub(super) type Address = (u64, String);

impl Model {
    /// The stored response that a request selects (4.1).
    pub(super) fn key(&self, ask: &SimAsk) -> (Address, Vec<Option<String>>) {
        let names = self.vary.get(path(&ask.url)).cloned().unwrap_or_default();
        (self.address(&ask.url), names.iter().map(|name| selecting(ask, name)).collect())
    }

    pub(super) fn address(&self, url: &str) -> Address {
        match self.queries.get(path(url)) {
            Some((number, said)) => (*number, reduced(url, said)),
            None => (0, url.to_owned()),
        }
    }

    /// Learns an answer's No-Vary-Search; true if it is what was known (No-Vary-Search, 6).
    pub(super) fn learn(&mut self, url: &str, answer: &Stored) -> bool {
        let said = field(&answer.fields, "No-Vary-Search").filter(|said| says_something(said)).map(str::to_owned);
        if self.queries.get(path(url)).map(|(_, said)| said) == said.as_ref() {
            return true;
        }
        if answer.status < 400 {
            self.changes += 1;
            match said {
                Some(said) => drop(self.queries.insert(path(url).to_owned(), (self.changes, said))),
                None => drop(self.queries.remove(path(url))),
            }
        }
        false
    }
}

/// A request's value of a field that answers vary on: lines joined, blanks around commas taken off (4.1).
fn selecting(ask: &SimAsk, name: &str) -> Option<String> {
    joined(&ask.headers, name).map(|text| members(&text).join(","))
}

pub(super) fn path(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// True if No-Vary-Search makes a difference, of those that are drawn.
pub(super) fn says_something(said: &str) -> bool {
    said != "params=?1"
}

/// A URL with what of its query matters, by those of No-Vary-Search that are drawn.
fn reduced(url: &str, said: &str) -> String {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.replace("i%64", "id"));
    let mut pairs: Vec<String> = pairs
        .filter(|pair| match said {
            "params=(\"u\")" => !pair.starts_with("u="),
            "except=(\"id\")" => pair.starts_with("id="),
            _ => true,
        })
        .collect();
    if said == "key-order" {
        pairs.sort();
    }
    format!("{}?{}", path(url), pairs.join("&"))
}
