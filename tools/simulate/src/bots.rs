// SPDX-License-Identifier: BSD-2-Clause
//! `--bots`: what `--bots=on` would have done to a log's requests. The server's own accounts and budgets judge each request that needs the
//! origin; nothing is sent.
//!
//! A log doesn't say who reads. Clients that load parts of pages, or send a cookie, are taken for readers, which the accounts don't look at.

mod copies;
mod report;
mod witness;

use std::borrow::Cow;
use std::time::Duration;

use accesslog::{AccessEntry, EntryClock, Handling};
use accounts::{
    Agents, Ask, BotClass, Caller, CallerIds, FetchEnd, Ledger, LedgerSettings, Origin, Payer, Shape, Verdict,
};
use base::Mono;

use crate::case::{CacheRules, Pass};
use copies::{Copies, CopyState};
pub use report::BotsReport;
use witness::{HeldGroups, Witness};

const SEED: u64 = 1;
const UNNOTICED: f64 = 0.01;

#[derive(Clone, Debug, PartialEq)]
pub struct BotsPlan {
    pub rules: CacheRules,
    /// Seconds for which a response is fresh.
    pub ttl: f64,
    /// Seconds of the origin's work for a fetch of which the log has no time.
    pub fetch_seconds: f64,
}

pub const USUAL_TTL: Duration = Duration::from_secs(120);
pub const USUAL_FETCH: Duration = Duration::from_millis(100);

/// The course of a request that needs the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BotsStep {
    Served,
    /// A copy is delivered that is no longer fresh.
    Stale,
    Waited,
    Refused,
}

impl BotsStep {
    pub const ALL: [BotsStep; 4] = [BotsStep::Served, BotsStep::Stale, BotsStep::Waited, BotsStep::Refused];

    pub const fn word(self) -> &'static str {
        match self {
            BotsStep::Served => "served",
            BotsStep::Stale => "stale",
            BotsStep::Waited => "waited",
            BotsStep::Refused => "refused",
        }
    }
}

/// Signals that a log may lack.
#[derive(Clone, Copy, Debug, Default)]
pub struct BotsSignals {
    pub addresses: u64,
    pub agents: u64,
    pub handlings: u64,
    pub backend_times: u64,
}

#[derive(Default)]
pub struct BotsTally {
    plan: Option<BotsPlan>,
    ledger: Option<Ledger>,
    agents: Option<Box<Agents>>,
    copies: Copies,
    pub clock: EntryClock,
    begin: Option<i64>,
    pub requests: u64,
    pub fetches: u64,
    pub origin_seconds: f64,
    /// Origin time of requests that would have been refused, or delivered a copy.
    pub spared_seconds: f64,
    pub signals: BotsSignals,
    pub witness: Witness,
    pub held: HeldGroups,
    pub seconds: f64,
}

impl BotsTally {
    pub fn new(plan: BotsPlan) -> BotsTally {
        let ledger = Ledger::new(LedgerSettings::default(), Mono(0.0));
        let agents = Some(Box::new(Agents::new(SEED)));
        BotsTally { plan: Some(plan), ledger: Some(ledger), agents, ..BotsTally::default() }
    }

    pub fn add(&mut self, entry: &AccessEntry<'_>) {
        let time = self.clock.at(entry.time.map(|time| time.ns));
        let begin = *self.begin.get_or_insert(time);
        let now = Mono((time - begin).max(0) as f64 / 1e9);
        self.seconds = self.seconds.max(now.0);
        self.requests += 1;
        let address = entry.client.as_deref().and_then(networks::address);
        let agent = entry.field("User-Agent").unwrap_or_default();
        let Some(agents) = &mut self.agents else { return };
        let caller = Caller::new(agents, &CallerIds { address, agent, ..CallerIds::default() });
        let client = self.witness.see(entry, agent);
        self.note_signals(entry, address.is_some(), !agent.is_empty());
        self.decide(entry, &caller, client, now);
    }

    fn decide(&mut self, entry: &AccessEntry<'_>, caller: &Caller, client: u64, now: Mono) {
        let (Some(plan), Some(ledger)) = (&self.plan, &mut self.ledger) else { return };
        let object = plan.rules.scheme.identify(entry).object;
        let ask = Ask {
            object,
            shape: shape(entry, |page| {
                self.copies.look(plan.rules.scheme.identify(page).object, 0.0) != CopyState::None
            }),
        };
        let pass = plan.rules.pass(entry);
        let copy = self.copies.look(object, now.0);
        let is_hit = match entry.handling {
            Some(Handling::Synth) => return,
            Some(handling) => handling == Handling::Hit,
            None => pass.is_none() && copy == CopyState::Fresh,
        };
        if is_hit {
            ledger.hits(caller, [ask], now);
            return;
        }
        let seconds = fetch_seconds(entry, plan.fetch_seconds);
        self.fetches += 1;
        self.origin_seconds += seconds;
        let verdict = ledger.judge(caller, ask, now);
        let (step, payer) = step(ledger, &verdict, caller, copy, now);
        self.witness.count(client, step, seconds);
        match step {
            BotsStep::Stale => ledger.hits(caller, [ask], now),
            BotsStep::Refused => ledger.refused(caller, ask, now),
            BotsStep::Served | BotsStep::Waited => {
                ledger.miss(caller, ask, payer, now);
                let end = FetchEnd { waited: seconds, bytes: entry.bytes.unwrap_or(0), has_failed: false };
                ledger.charge(caller, end, payer, now);
                if pass.is_none_or(|pass| pass == Pass::Status) {
                    self.copies.keep(object, now.0 + plan.ttl);
                }
            }
        }
        if matches!(step, BotsStep::Stale | BotsStep::Refused) {
            self.spared_seconds += seconds;
        }
        if verdict.class != BotClass::Reader {
            self.held.add(entry, &verdict, step, seconds);
        }
    }

    fn note_signals(&mut self, entry: &AccessEntry<'_>, has_address: bool, has_agent: bool) {
        self.signals.addresses += u64::from(has_address);
        self.signals.agents += u64::from(has_agent);
        self.signals.handlings += u64::from(entry.handling.is_some());
        self.signals.backend_times += u64::from(entry.backend_time.is_some());
    }

    /// Accounts that cost the origin most, with what they would have been served.
    pub fn top(&mut self, level: accounts::Level, most: usize) -> Vec<accounts::LevelCosts> {
        let now = Mono(self.seconds);
        self.ledger.as_mut().map(|ledger| ledger.top(level, most, now)).unwrap_or_default()
    }
}

fn step(ledger: &mut Ledger, verdict: &Verdict, caller: &Caller, copy: CopyState, now: Mono) -> (BotsStep, Payer) {
    let payer = verdict.payer();
    if let CopyState::Stale(seconds) = copy
        && verdict.takes_stale(seconds)
    {
        return (BotsStep::Stale, payer);
    }
    if verdict.class == BotClass::Reader {
        return (BotsStep::Served, payer);
    }
    match ledger.reserve(caller, &verdict.reason, now) {
        Ok(admission) if admission.wait <= UNNOTICED => (BotsStep::Served, Payer::Budget(admission)),
        Ok(admission) => (BotsStep::Waited, Payer::Budget(admission)),
        Err(_) => (BotsStep::Refused, payer),
    }
}

/// The shape of a request as far as the log has it. `is_known` tells whether the log has a page.
fn shape(entry: &AccessEntry<'_>, is_known: impl Fn(&AccessEntry<'_>) -> bool) -> Shape {
    let referer = entry.field("Referer").and_then(|referer| {
        let mut page = AccessEntry::default();
        page.set_url(Cow::Borrowed(referer)).is_ok().then_some(page)
    });
    let referer = referer.map_or(Origin::Unnamed, |mut page| {
        // A log without hosts doesn't say which one is its own, but has the page.
        let is_own = match &entry.host {
            Some(host) => page.host.as_deref().is_some_and(|other| other.eq_ignore_ascii_case(host)),
            None => {
                page.host = None;
                is_known(&page)
            }
        };
        if is_own { Origin::Own } else { Origin::Other }
    });
    Shape {
        referer,
        has_cookie: entry.field("Cookie").is_some(),
        has_language: entry.field("Accept-Language").is_some(),
        has_metadata: entry.field("Sec-Fetch-Site").or(entry.field("Sec-Fetch-Dest")).is_some(),
    }
}

fn fetch_seconds(entry: &AccessEntry<'_>, usual: f64) -> f64 {
    entry.backend_time.filter(|time| !time.is_zero()).map_or(usual, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests;
