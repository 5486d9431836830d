// SPDX-License-Identifier: BSD-2-Clause
//! The books: what each request changes in accounts and budgets, and the verdict about a client.

use std::collections::HashMap;

use base::Mono;

use crate::account::{Account, AccountTable, Level, LevelCosts};
use crate::asked::{AskedTable, Before};
use crate::budget::{Admission, CrawlBudget, Overdrawn};
use crate::caller::Caller;
use crate::verdict::{BotClass, Crowd, KNOWN, LabeledGroup, Reason, USUAL_SHARE, Verdict};

/// Weight, in requests, of what is assumed of a client before its own requests, of a group, and of all newcomers.
const ASSUMED: (f32, f32, f32) = (6.0, 32.0, 64.0);
/// Newcomers' requests that are remembered.
const NEWCOMERS: f32 = 512.0;
/// The groups of a newcomer, from the widest to the narrowest.
const GROUPS: [Level; 5] = [Level::Network, Level::Tls, Level::Agent, Level::Wide, Level::Prefix];
/// Degree from which on a client is in the class `crawl`.
const CRAWLS: f32 = 0.5;
/// Verified bots that have a budget of their own.
const VERIFIED: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct LedgerSettings {
    /// Memory of all accounts.
    pub bytes: usize,
    /// Seconds after which a charge counts half.
    pub half_life: f64,
    /// Crawlers' part of the origin's time, from 0 to below 1.
    pub share: f64,
    /// Part of each verified bot.
    pub verified_share: f64,
    /// Seconds of the origin's time per second that crawlers may use as far as readers don't.
    pub least: f64,
    /// Longest wait in seconds for the budget.
    pub patience: f64,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        LedgerSettings {
            bytes: 8_000_000,
            half_life: 1800.0,
            share: 0.05,
            verified_share: 0.05,
            least: 0.1,
            patience: 5.0,
        }
    }
}

/// Accounts, budgets and verdicts; see the crate.
pub struct Ledger {
    settings: LedgerSettings,
    born: Mono,
    accounts: AccountTable,
    asked: AskedTable,
    newcomers: Newcomers,
    crowd: Crowd,
    crawl: CrawlBudget,
    verified: HashMap<Box<[u8]>, CrawlBudget>,
}

/// The latest requests of clients that have made few, all together.
#[derive(Default)]
struct Newcomers {
    requests: f32,
    solo: f32,
    at: f64,
}

/// The part of some requests that counts for a verdict.
#[derive(Clone, Copy)]
struct Evidence {
    requests: f32,
    solo: f32,
}

const READ: Evidence = Evidence { requests: 1.0, solo: 0.0 };
const SOLO: Evidence = Evidence { requests: 1.0, solo: 1.0 };
const NOTHING: Evidence = Evidence { requests: 0.0, solo: 0.0 };

impl Ledger {
    pub fn new(settings: LedgerSettings, now: Mono) -> Self {
        let LedgerSettings { share, least, patience, .. } = settings;
        Ledger {
            born: now,
            accounts: AccountTable::new(settings.bytes / 8 * 3, settings.half_life),
            asked: AskedTable::new(settings.bytes / 8 * 5),
            newcomers: Newcomers::default(),
            crowd: Crowd::default(),
            crawl: CrawlBudget::new(share, least, patience, now),
            verified: HashMap::new(),
            settings,
        }
    }

    /// Changes shares, least and patience. Memory and half-life stay as they are.
    pub fn set_budgets(&mut self, settings: &LedgerSettings) {
        self.settings =
            LedgerSettings { bytes: self.settings.bytes, half_life: self.settings.half_life, ..settings.clone() };
        self.crawl.set(settings.share, settings.least, settings.patience);
        for budget in self.verified.values_mut() {
            budget.set(settings.verified_share, settings.least, settings.patience);
        }
    }

    /// Memory of the tables, which never grow.
    pub fn bytes(&self) -> usize {
        self.accounts.bytes() + self.asked.bytes()
    }

    /// The client got these objects without a fetch of its own.
    pub fn hits(&mut self, caller: &Caller, objects: &[u64], now: Mono) {
        self.tell_time(now);
        let mut evidence = NOTHING;
        for &object in objects {
            // A hit on what the client itself fetched says nothing about readers.
            evidence.requests += self.ask(object, caller).requests;
        }
        let own = objects.len() as f32 - evidence.requests;
        self.count(caller, Evidence { requests: evidence.requests, solo: 0.0 }, own, 0.0);
    }

    /// The client's fetch of the object begins.
    pub fn miss(&mut self, caller: &Caller, object: u64, now: Mono) {
        self.tell_time(now);
        let evidence = self.ask(object, caller);
        let own = if evidence.requests > 0.0 { 0.0 } else { 1.0 };
        self.count(caller, evidence, own, 1.0);
    }

    /// The client's request for the object was refused. This counts against its groups only, so a reader that asks again isn't blamed for it.
    pub fn refused(&mut self, caller: &Caller, now: Mono) {
        self.tell_time(now);
        let is_new = self.accounts.find(caller.keys[Level::Client as usize]).is_none_or(|client| client.judged < KNOWN);
        for level in Level::ALL {
            let Some(account) = self.accounts.open(caller, level) else { continue };
            account.requests += 1.0;
            if is_new && level != Level::Client {
                account.judge_by(SOLO.requests, SOLO.solo);
            }
        }
        if is_new {
            self.newcomers.add(SOLO);
        }
    }

    /// A fetch for the client has ended. `admission` is the one that it began by, if it was in a budget.
    pub fn charge(
        &mut self,
        caller: &Caller,
        origin_seconds: f64,
        bytes: u64,
        admission: Option<Admission>,
        now: Mono,
    ) {
        self.tell_time(now);
        for level in Level::ALL {
            let Some(account) = self.accounts.open(caller, level) else { continue };
            account.origin_seconds += origin_seconds as f32;
            account.bytes += bytes as f32;
        }
        match admission {
            Some(admission) => self.budget(caller, now).settle(admission.reserved, origin_seconds),
            None => {
                self.crawl.add_readers(origin_seconds, now);
                self.verified.values_mut().for_each(|budget| budget.add_readers(origin_seconds, now));
            }
        }
    }

    /// Asks for a fetch of a client that isn't a reader.
    ///
    /// # Errors
    /// The budget is used up for longer than a request may wait.
    pub fn reserve(&mut self, caller: &Caller, now: Mono) -> Result<Admission, Overdrawn> {
        self.budget(caller, now).reserve(now)
    }

    /// The client has gone before its fetch began.
    pub fn cancel(&mut self, caller: &Caller, admission: Admission, now: Mono) {
        self.budget(caller, now).cancel(admission.reserved);
    }

    /// Seconds of the origin's time that the client's budget has now; negative if they were used in advance.
    pub fn budget_level(&mut self, caller: &Caller, now: Mono) -> f64 {
        self.budget(caller, now).level(now)
    }

    /// Judges a client that needs the origin for this object.
    pub fn judge(&mut self, caller: &Caller, object: u64, now: Mono) -> Verdict {
        self.tell_time(now);
        self.walk();
        if let Some(name) = caller.bot().filter(|_| caller.is_verified()) {
            return Verdict { degree: 1.0, class: BotClass::Verified, reason: Reason::Verified(name.into()) };
        }
        let client = caller.keys[Level::Client as usize];
        if matches!(self.asked.look(object, client), Before::Other(_) | Before::Shared) {
            return Verdict { degree: 0.0, class: BotClass::Reader, reason: Reason::Shared };
        }
        let (mut share, group) = self.share_of_newcomers(caller);
        let mut reason = Reason::Newcomer { group, share };
        let mut was_crawl = false;
        if let Some(account) = self.accounts.find(client) {
            was_crawl = account.is_crawl;
            share = blend(account, ASSUMED.0, share);
            if account.judged >= ASSUMED.0 {
                reason = Reason::Own { solo: account.solo, requests: account.judged };
            }
        }
        let degree = self.crowd.degree(share);
        let is_crawl = degree >= CRAWLS || (was_crawl && degree > 0.0);
        if let Some(account) = self.accounts.find(client) {
            account.is_crawl = is_crawl;
        }
        Verdict { degree, class: if is_crawl { BotClass::Crawl } else { BotClass::Reader }, reason }
    }

    /// The accounts of a level that cost the origin most.
    pub fn top(&mut self, level: Level, most: usize, now: Mono) -> Vec<LevelCosts> {
        self.tell_time(now);
        self.accounts.top(level, most)
    }

    /// Origin seconds that the client was charged with.
    pub fn cost(&mut self, caller: &Caller, now: Mono) -> f64 {
        self.tell_time(now);
        self.accounts.find(caller.keys[Level::Client as usize]).map_or(0.0, |account| account.origin_seconds.into())
    }

    /// Share of solo requests that is assumed of a newcomer, and the narrowest group that is known.
    fn share_of_newcomers(&mut self, caller: &Caller) -> (f32, Option<LabeledGroup>) {
        let (declared, all) = ([Level::Bot], GROUPS);
        // A robot that says so is believed until its requests show otherwise.
        let (mut share, groups) = match caller.bot() {
            Some(_) => (1.0, &declared[..]),
            None => (self.newcomers.share(), &all[..]),
        };
        let mut known = None;
        for &level in groups {
            let Some(account) = self.accounts.find(caller.keys[level as usize]) else { continue };
            share = blend(account, ASSUMED.1, share);
            if account.judged >= ASSUMED.1 {
                known = Some(level);
            }
        }
        let named = known.or(caller.bot().map(|_| Level::Bot));
        (share, named.map(|level| (level, caller.label(level))))
    }

    /// Notes that the client asks for the object, and gives the one that fetched it first its due.
    fn ask(&mut self, object: u64, caller: &Caller) -> Evidence {
        match self.asked.ask(object, caller.keys[Level::Client as usize]) {
            Before::Never => SOLO,
            Before::Own => NOTHING,
            Before::Shared => READ,
            Before::Other(first) => {
                if let Some(account) = self.accounts.find_low(first) {
                    account.shared += 1.0;
                    if account.judged <= KNOWN && account.solo >= 1.0 {
                        self.newcomers.pardon();
                    }
                    account.judge_by(0.0, -1.0);
                }
                READ
            }
        }
    }

    /// Counts requests: those that are evidence, and others that aren't.
    fn count(&mut self, caller: &Caller, evidence: Evidence, others: f32, misses: f32) {
        let mut news = NOTHING;
        for level in Level::ALL {
            let Some(account) = self.accounts.open(caller, level) else { continue };
            account.requests += evidence.requests + others;
            account.misses += misses;
            if level == Level::Client {
                let evidence = if evidence.solo > 0.0 && !account.is_next_solo() { NOTHING } else { evidence };
                news.requests = evidence.requests.min((KNOWN - account.judged).max(0.0));
                news.solo = evidence.solo.min(news.requests);
                account.judge_by(evidence.requests, evidence.solo);
            } else {
                account.judge_by(news.requests, news.solo);
            }
        }
        self.newcomers.add(news);
    }

    fn budget(&mut self, caller: &Caller, now: Mono) -> &mut CrawlBudget {
        let name = caller.bot().filter(|_| caller.is_verified());
        let Some(name) = name.filter(|name| self.verified.len() < VERIFIED || self.verified.contains_key(*name)) else {
            return &mut self.crawl;
        };
        let LedgerSettings { verified_share, least, patience, .. } = self.settings;
        self.verified.entry(name.into()).or_insert_with(|| CrawlBudget::new(verified_share, least, patience, now))
    }

    fn tell_time(&mut self, now: Mono) {
        let seconds = now.since(self.born);
        self.accounts.tell_time(seconds);
        self.newcomers.fade(seconds, self.settings.half_life);
    }

    fn walk(&mut self) {
        let set = self.crowd.next(self.accounts.sets());
        self.accounts.clients_of_set(set).for_each(|account| self.crowd.see(account));
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Newcomers {
    fn add(&mut self, evidence: Evidence) {
        self.requests += evidence.requests;
        self.solo = (self.solo + evidence.solo).min(self.requests);
        if self.requests > NEWCOMERS {
            let factor = NEWCOMERS / 2.0 / self.requests;
            (self.requests, self.solo) = (self.requests * factor, self.solo * factor);
        }
    }

    /// What a newcomer fetched is of use to another client.
    fn pardon(&mut self) {
        self.solo = (self.solo - 1.0).max(0.0);
    }

    fn share(&self) -> f32 {
        (self.solo + USUAL_SHARE * ASSUMED.2) / (self.requests + ASSUMED.2)
    }

    fn fade(&mut self, seconds: f64, half_life: f64) {
        let passed = seconds - self.at;
        if passed > 1.0 {
            let factor = (-passed / half_life).exp2() as f32;
            (self.requests, self.solo, self.at) = (self.requests * factor, self.solo * factor, seconds);
        }
    }
}

/// The share of solo requests of an account, of which `assumed` requests have the share `before`.
fn blend(account: &Account, assumed: f32, before: f32) -> f32 {
    (account.solo + assumed * before) / (account.judged + assumed)
}
