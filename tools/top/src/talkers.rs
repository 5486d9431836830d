// SPDX-License-Identifier: BSD-2-Clause
//! Who asks most: requests, bytes sent and hits by client, URL, host, user agent or autonomous system.

use std::collections::HashMap;

use logq::{Txn, TxnType, records};
use tables::Tag;

use crate::networks::Networks;

/// Different ones that are kept.
const MAX: usize = 1_000_000;

/// By what is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The client's address.
    Client,
    /// The URL without its query.
    Url,
    /// The Host header.
    Host,
    /// The User-Agent header.
    Agent,
    /// The autonomous system of the client's address.
    System,
}

impl By {
    /// By name.
    ///
    /// # Errors
    /// What can't be counted by.
    pub fn from_name(name: &str) -> Result<By, String> {
        match name {
            "client" => Ok(By::Client),
            "url" => Ok(By::Url),
            "host" => Ok(By::Host),
            "ua" => Ok(By::Agent),
            "asn" => Ok(By::System),
            _ => Err(format!("--by: Invalid value '{name}'")),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    bytes: u64,
    hits: u64,
}

/// The counts.
#[derive(Debug)]
pub struct Talkers {
    by: By,
    networks: Option<Networks>,
    counts: HashMap<Vec<u8>, Count>,
}

fn header<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (first, rest) = text.split_at_checked(name.len())?;
    first.eq_ignore_ascii_case(name.as_bytes()).then(|| rest.trim_ascii())
}

impl Talkers {
    /// No counts.
    pub fn new(by: By, networks: Option<Networks>) -> Talkers {
        Talkers { by, networks, counts: HashMap::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Counts a group's requests.
    pub fn add(&mut self, group: &[Txn<'_>]) {
        for txn in group.iter().filter(|txn| txn.kind == TxnType::Req) {
            let mut key: Option<&[u8]> = None;
            let mut count = Count { requests: 1, ..Count::default() };
            for rec in records(txn.records) {
                let text = rec.text();
                let mut words = text.split(|b| *b == b' ');
                let found = match (rec.tag, self.by) {
                    (Tag::ReqStart, By::Client | By::System) => words.next(),
                    (Tag::ReqUrl, By::Url) => text.split(|b| *b == b'?').next(),
                    (Tag::ReqHeader, By::Host) => header(text, "Host:"),
                    (Tag::ReqHeader, By::Agent) => header(text, "User-Agent:"),
                    _ => None,
                };
                // VCL may change it; what came in counts.
                key = key.or(found);
                match rec.tag {
                    Tag::Hit => count.hits = 1,
                    Tag::ReqAcct => {
                        let sent = words.nth(5).and_then(|w| std::str::from_utf8(w).ok()?.parse().ok());
                        count.bytes = sent.unwrap_or(0);
                    }
                    _ => {}
                }
            }
            let system = self.networks.as_ref().map(|table| key.and_then(|key| table.find(key)).unwrap_or_default());
            let key = system.as_ref().map(String::as_bytes).or(key).filter(|key| !key.is_empty()).unwrap_or(b"-");
            if self.counts.len() >= MAX && !self.counts.contains_key(key) {
                continue;
            }
            let sum = self.counts.entry(key.to_vec()).or_default();
            sum.requests += count.requests;
            sum.bytes = sum.bytes.saturating_add(count.bytes);
            sum.hits += count.hits;
        }
    }

    /// The first ones: requests, bytes, per cent of hits, who.
    pub fn lines(&self, lines: usize) -> Vec<String> {
        let mut all: Vec<_> = self.counts.iter().collect();
        all.sort_by(|(a, x), (b, y)| y.requests.cmp(&x.requests).then(y.bytes.cmp(&x.bytes)).then(a.cmp(b)));
        let line = |(key, count): (&Vec<u8>, &Count)| {
            let hits = 100.0 * count.hits as f64 / count.requests as f64;
            format!("{:>9} {:>14} {hits:>5.1}% {}", count.requests, count.bytes, String::from_utf8_lossy(key))
        };
        all.into_iter().take(lines).map(line).collect()
    }
}
