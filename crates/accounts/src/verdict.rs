// SPDX-License-Identifier: BSD-2-Clause
//! A verdict about a client that needs the origin, with its reason, and the thresholds that it depends on.

use std::fmt;

use crate::account::Account;
use crate::label::Label;
use crate::ledger::Payer;

/// Requests after which a client is judged by its own, and counts for the crowd.
pub(crate) const KNOWN: f32 = 8.0;
/// Degree from which on a client is in the class `crawl`.
pub(crate) const CRAWLS: f32 = 0.5;
/// Seconds for which a shared object that has expired is good enough for clients that crawl, or that look like crawlers.
const SHARED_STALE: f64 = 600.0;
/// Share of solo requests that is assumed of newcomers before there are any.
pub(crate) const USUAL_SHARE: f32 = 0.1;
/// Clients from which on there is a crowd.
const CROWD: u32 = 16;
/// Share of solo requests above which a client isn't a reader any more: at least, at most, and as a multiple of the crowd's.
const SUSPECT: (f32, f32, f32) = (0.2, 0.6, 3.0);
/// Share from which on it crawls for certain: as a multiple of that, and at most.
const CERTAIN: (f32, f32) = (2.25, 0.9);
/// Both while there is no crowd.
const UNKNOWN: (f32, f32) = (0.45, 0.8);
const BUCKETS: usize = 32;

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

#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    Shared,
    /// Others asked for the object as well, and were refused like this one would be.
    Crowd,
    Own {
        solo: f32,
        requests: f32,
    },
    /// The client is new, and held while new clients ask for more of what nobody else wants than others ask for anything: both numbers, and of how many
    /// seconds they are.
    Pressure((f64, f64, f64)),
    /// The client names itself a robot or has become known, and is judged by the newcomers of its group; without a group, by all.
    Newcomer {
        group: Option<Label>,
        share: f32,
    },
    Verified(Label),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// 0: a reader; 1: a crawler. A crawler's request for a shared object is served as a reader's, so its class says less.
    pub degree: f32,
    pub class: BotClass,
    pub reason: Reason,
}

impl Verdict {
    /// True if an object that expired so many seconds ago is good enough for the client. A crawler takes any; but of an object that readers
    /// want, too, only one that they would soon have refreshed.
    pub fn takes_stale(&self, seconds: f64) -> bool {
        self.class == BotClass::Crawl
            || (self.reason == Reason::Shared && self.degree >= CRAWLS && seconds <= SHARED_STALE)
    }

    /// The payer of a fetch that isn't in a budget.
    pub fn payer(&self) -> Payer {
        match self.reason {
            Reason::Shared | Reason::Own { .. } => Payer::Readers,
            Reason::Crowd | Reason::Pressure(_) | Reason::Newcomer { .. } | Reason::Verified(_) => Payer::Nobody,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.class.word(), Hundredths(self.degree))?;
        match &self.reason {
            Reason::Shared => f.write_str("another client asked for this object"),
            Reason::Crowd => f.write_str("several refused clients asked for this object"),
            Reason::Own { solo, requests } => {
                let (solo, requests) = (whole((*solo).into()), whole((*requests).into()));
                write!(f, "nobody else asked for what {solo} of the latest {requests} requests fetched")
            }
            Reason::Pressure((solo, others, seconds)) => {
                let [solo, others, seconds] = [solo, others, seconds].map(|number| whole(*number));
                write!(
                    f,
                    "new client; new clients made {solo} requests for what nobody else asked for, beside {others} others, in {seconds} s"
                )
            }
            Reason::Newcomer { group, share } => {
                f.write_str("new client; nobody else asked for what ")?;
                write!(f, "{} % of requests of new clients", whole(f64::from(share * 100.0)))?;
                if let Some(group) = group {
                    write!(f, " ({} {group})", group.level().word())?;
                }
                f.write_str(" fetched")
            }
            Reason::Verified(name) => write!(f, "{name}"),
        }
    }
}

/// The log has a verdict for each request of a crawler, and texts of floating-point numbers cost thousands of instructions.
fn whole(number: f64) -> u64 {
    number.round() as u64
}

struct Hundredths(f32);

impl fmt::Display for Hundredths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = whole(f64::from(self.0) * 100.0);
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

/// The share of solo requests of the median client, found by a walk over the table in small steps.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    at: usize,
    buckets: [u32; BUCKETS],
    share: Option<f32>,
}

impl Crowd {
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
        *self = Crowd { share: (clients >= CROWD).then_some(median), ..Crowd::default() };
    }

    /// Degree of a client with this share of solo requests. `known` is the weight of its own requests, from 0 to 1.
    pub fn degree(&self, share: f32, known: f32) -> f32 {
        let (own, new) = (thresholds(self.share), UNKNOWN);
        let suspect = own.0 * known + new.0 * (1.0 - known);
        let certain = own.1 * known + new.1 * (1.0 - known);
        ((share - suspect) / (certain - suspect)).clamp(0.0, 1.0)
    }
}

/// The shares above which a client is suspected and crawls for certain, where `usual` is that of readers.
fn thresholds(usual: Option<f32>) -> (f32, f32) {
    let (least, most, times) = SUSPECT;
    usual.map_or(UNKNOWN, |usual| {
        let suspect = (usual * times).clamp(least, most);
        (suspect, (suspect * CERTAIN.0).min(CERTAIN.1))
    })
}
