// SPDX-License-Identifier: BSD-2-Clause
//! A verdict about a client that needs the origin, with its reason, and the thresholds that it depends on.

use std::fmt;

use crate::account::{Account, Level};

/// Requests after which a client is judged by its own, and counts for the crowd.
pub(crate) const KNOWN: f32 = 8.0;
/// Share of solo requests of a crowd that isn't known yet.
pub(crate) const USUAL_SHARE: f32 = 0.1;
/// Clients from which on there is a crowd.
const CROWD: u32 = 16;
/// Share of solo requests above which a client isn't a reader any more: at least, at most, and as a multiple of the crowd's.
const SUSPECT: (f32, f32, f32) = (0.2, 0.6, 3.0);
/// Share from which on it crawls for certain.
const CERTAIN: f32 = 0.9;
const BUCKETS: usize = 32;

/// A group with the name of its account.
pub type LabeledGroup = (Level, Box<[u8]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotClass {
    Reader,
    Crawl,
    Verified,
}

impl BotClass {
    pub fn word(self) -> &'static str {
        match self {
            BotClass::Reader => "reader",
            BotClass::Crawl => "crawl",
            BotClass::Verified => "verified",
        }
    }
}

/// The fact that decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Another client has asked for the object.
    Shared,
    /// The client's own requests.
    Own { solo: f32, requests: f32 },
    /// The client is new, and judged by the newcomers of its group; without a group, by all.
    Newcomer { group: Option<LabeledGroup>, share: f32 },
    /// The identity of the bot was verified.
    Verified(Box<[u8]>),
}

/// Where a client stands between a reader and a crawler.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// 0: a reader; 1: a crawler.
    pub degree: f32,
    pub class: BotClass,
    pub reason: Reason,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2}: ", self.class.word(), self.degree)?;
        match &self.reason {
            Reason::Shared => f.write_str("another client asked for this object"),
            Reason::Own { solo, requests } => {
                write!(f, "nobody else asked for what {solo:.0} of the latest {requests:.0} requests fetched")
            }
            Reason::Newcomer { group, share } => {
                f.write_str("new client; nobody else asked for what ")?;
                write!(f, "{:.0} % of requests of new clients", share * 100.0)?;
                if let Some((level, name)) = group {
                    write!(f, " ({} {})", level.word(), String::from_utf8_lossy(name))?;
                }
                f.write_str(" fetched")
            }
            Reason::Verified(name) => write!(f, "{}", String::from_utf8_lossy(name)),
        }
    }
}

/// The share of solo requests of the median client, found by a walk over the table in small steps.
#[derive(Debug)]
pub(crate) struct Crowd {
    at: usize,
    buckets: [u32; BUCKETS],
    share: f32,
}

impl Default for Crowd {
    fn default() -> Self {
        Crowd { at: 0, buckets: [0; BUCKETS], share: USUAL_SHARE }
    }
}

impl Crowd {
    /// Index of the next set of a table of `sets`.
    pub fn next(&mut self, sets: usize) -> usize {
        if self.at >= sets {
            self.end_walk();
        }
        self.at += 1;
        self.at - 1
    }

    pub fn see(&mut self, account: &Account) {
        if account.judged >= KNOWN {
            self.buckets[((account.solo_share() * BUCKETS as f32) as usize).min(BUCKETS - 1)] += 1;
        }
    }

    fn end_walk(&mut self) {
        let clients: u32 = self.buckets.iter().sum();
        let mut seen = 0;
        let median = self.buckets.iter().position(|count| {
            seen += count;
            seen * 2 >= clients
        });
        let median = median.unwrap_or_default() as f32 / BUCKETS as f32;
        *self = Crowd { share: if clients < CROWD { USUAL_SHARE } else { median }, ..Crowd::default() };
    }

    /// How much of a crawler a client with this share of solo requests is, from 0 to 1.
    pub fn degree(&self, share: f32) -> f32 {
        let (least, most, times) = SUSPECT;
        let suspect = (self.share * times).clamp(least, most);
        let certain = (suspect * 2.25).min(CERTAIN);
        ((share - suspect) / (certain - suspect)).clamp(0.0, 1.0)
    }
}
