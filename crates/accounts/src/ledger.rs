// SPDX-License-Identifier: BSD-2-Clause
//! The books: what each request changes in accounts and budgets, and the verdict about a client.

use std::collections::HashMap;

use base::Mono;

use crate::account::{Account, AccountTable, Level, LevelCosts};
use crate::asked::{AskedTable, Before};
use crate::budget::{Admission, CrawlBudget, Overdrawn};
use crate::caller::Caller;
use crate::pressure::{Pressure, PressureLimits};
use crate::shape::{Ask, Shape};
use crate::verdict::{BotClass, Crowd, KNOWN, LabeledGroup, Reason, USUAL_SHARE, Verdict};

/// Weight, in requests, of what is assumed of a client before its own requests, of a group, and of all newcomers.
const ASSUMED: (f32, f32, f32) = (6.0, 32.0, 64.0);
const NEWCOMERS: f32 = 512.0;
/// The groups of a newcomer by its address and by its software, from the widest to the narrowest.
const ADDRESSES: [Level; 3] = [Level::Network, Level::Wide, Level::Prefix];
const SOFTWARE: [Level; 2] = [Level::Tls, Level::Agent];
/// Shares are kept this far from 0 and 1.
const SURE: f32 = 0.02;
const CRAWLS: f32 = 0.5;
/// Newcomers are held only while they press, all together and those with requests of the same shape.
const PRESSED: PressureLimits = PressureLimits { begins: 0.5, ends: 0.25 };
const PRESSED_SHAPE: PressureLimits = PressureLimits { begins: 0.75, ends: 0.7 };
const WALKED: usize = 8;
/// Budgets of verified bots at most, how many of them get the full share, and seconds without use after which one may be forgotten.
const VERIFIED: (usize, usize, f64) = (64, 8, 600.0);

#[derive(Clone, Debug, PartialEq)]
pub struct LedgerSettings {
    pub bytes: usize,
    pub half_life: f64,
    /// Crawlers' part of the origin's time, from 0 to below 1.
    pub share: f64,
    pub verified_share: f64,
    /// Seconds of the origin's time per second that crawlers may use as far as readers don't.
    pub least: f64,
    pub patience: f64,
    /// Seconds after the begin in which newcomers aren't held.
    pub learning: f64,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        LedgerSettings {
            bytes: 8_000_000,
            half_life: 1800.0,
            share: 0.05,
            verified_share: 0.05,
            least: 0.1,
            patience: 2.0,
            learning: 120.0,
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
    /// The same, with the requests that turned out to be of use to others, as groups count them.
    unpardoned: Newcomers,
    shapes: [Newcomers; Shape::COUNT],
    crowd: Crowd,
    pressure: Pressure,
    shape_pressure: [Pressure; Shape::COUNT],
    crawl: CrawlBudget,
    /// Budgets by the key of the bot's account, with the time of the latest use.
    verified: HashMap<u64, (CrawlBudget, Mono)>,
}

/// The latest requests of clients that have made few, all together.
#[derive(Clone, Copy, Default)]
struct Newcomers {
    requests: f32,
    solo: f32,
    at: f64,
}

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
            unpardoned: Newcomers::default(),
            shapes: Default::default(),
            crowd: Crowd::default(),
            pressure: Pressure::new(PRESSED, now),
            shape_pressure: std::array::from_fn(|_| Pressure::new(PRESSED_SHAPE, now)),
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
        self.share_among_verified();
    }

    /// All verified bots together get as much as a few, however many names there are.
    fn share_among_verified(&mut self) {
        let LedgerSettings { verified_share, least, patience, .. } = self.settings;
        let part = (VERIFIED.1 as f64 / self.verified.len() as f64).min(1.0);
        self.verified.values_mut().for_each(|(budget, _)| budget.set(verified_share * part, least * part, patience));
    }

    /// Memory of the tables, which never grow.
    pub fn bytes(&self) -> usize {
        self.accounts.bytes() + self.asked.bytes()
    }

    pub fn hits(&mut self, caller: &Caller, asks: &[impl Copy + Into<Ask>], now: Mono) {
        self.tell_time(now);
        for &ask in asks {
            let ask = ask.into();
            // A hit on what the client itself fetched says nothing about readers.
            let requests = self.ask(ask, caller, now).requests;
            self.count(caller, ask.shape, Evidence { requests, solo: 0.0 }, 0.0, now);
        }
    }

    pub fn miss(&mut self, caller: &Caller, ask: impl Into<Ask>, now: Mono) {
        self.tell_time(now);
        let ask = ask.into();
        let evidence = self.ask(ask, caller, now);
        self.count(caller, ask.shape, evidence, 1.0, now);
    }

    /// The client's request for the object was refused. This counts against its groups only, so a reader that asks again isn't blamed for it.
    pub fn refused(&mut self, caller: &Caller, ask: impl Into<Ask>, now: Mono) {
        self.tell_time(now);
        let ask = ask.into();
        let is_solo = self.ask(ask, caller, now).solo > 0.0;
        let mut news = NOTHING;
        for level in Level::ALL {
            let Some(account) = self.accounts.open(caller, level) else { continue };
            account.requests += 1.0;
            if level != Level::Client {
                account.judge_by(news.requests, news.solo);
            } else if is_solo && account.news_left() >= 1.0 && account.is_next_solo() {
                account.refused += 1.0;
                news = SOLO;
            }
        }
        self.add_news(news, ask.shape, now);
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
                self.verified.values_mut().for_each(|(budget, _)| budget.add_readers(origin_seconds, now));
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

    pub fn cancel(&mut self, caller: &Caller, admission: Admission, now: Mono) {
        self.budget(caller, now).cancel(admission.reserved);
    }

    /// Seconds of the origin's time that the client's budget has now; negative if they were used in advance.
    pub fn budget_level(&mut self, caller: &Caller, now: Mono) -> f64 {
        self.budget(caller, now).level(now)
    }

    pub fn judge(&mut self, caller: &Caller, ask: impl Into<Ask>, now: Mono) -> Verdict {
        let Ask { object, shape } = ask.into();
        self.tell_time(now);
        self.walk();
        if let Some(name) = caller.bot().filter(|_| caller.is_verified()) {
            return Verdict { degree: 1.0, class: BotClass::Verified, reason: Reason::Verified(name.into()) };
        }
        let client = caller.keys[Level::Client as usize];
        if matches!(self.asked.look(object, client), Before::Other(..) | Before::Shared) {
            return Verdict { degree: 0.0, class: BotClass::Reader, reason: Reason::Shared };
        }
        let is_new = self.is_newcomer(caller);
        let (mut share, group) = self.share_of_newcomers(caller, shape);
        let mut reason = Reason::Newcomer { group, share };
        let (mut was_crawl, mut known) = (false, 0.0);
        if let Some(account) = self.accounts.find(client) {
            was_crawl = account.is_crawl;
            share = blend(account, ASSUMED.0, share);
            known = (account.judged / KNOWN).min(1.0);
            if account.judged >= ASSUMED.0 {
                reason = Reason::Own { solo: account.solo, requests: account.judged };
            }
        }
        let degree = match is_new && caller.bot().is_none() {
            true if self.are_held(shape, now) => 1.0,
            true => 0.0,
            false => self.crowd.degree(share, known, self.most_reading_shape()),
        };
        let is_crawl = degree >= CRAWLS || (was_crawl && degree > 0.0);
        if let Some(account) = self.accounts.find(client) {
            account.is_crawl = is_crawl;
        }
        Verdict { degree, class: if is_crawl { BotClass::Crawl } else { BotClass::Reader }, reason }
    }

    pub fn top(&mut self, level: Level, most: usize, now: Mono) -> Vec<LevelCosts> {
        self.tell_time(now);
        self.accounts.top(level, most)
    }

    pub fn cost(&mut self, caller: &Caller, now: Mono) -> f64 {
        self.tell_time(now);
        self.accounts.find(caller.keys[Level::Client as usize]).map_or(0.0, |account| account.origin_seconds.into())
    }

    /// Share of solo requests that is assumed of a newcomer, and the narrowest group that is known.
    fn share_of_newcomers(&mut self, caller: &Caller, shape: Shape) -> (f32, Option<LabeledGroup>) {
        if caller.bot().is_some() {
            // A robot that says so is believed until its requests show otherwise.
            let (share, _) = self.share_of_groups(caller, &[Level::Bot], 1.0);
            return (share, Some((Level::Bot, caller.label(Level::Bot))));
        }
        let all = self.newcomers.share();
        let raw = self.unpardoned.share();
        let (by_address, known) = self.share_of_groups(caller, &ADDRESSES, raw);
        let (by_software, _) = self.share_of_groups(caller, &SOFTWARE, raw);
        let by_shape = self.shapes[shape.index()].share_from(ASSUMED.1, all);
        // Address, software and shape are taken as independent: each moves the odds by as much as its newcomers differ from all.
        let moved = odds(by_address) + odds(by_software) - 2.0 * odds(raw) + odds(by_shape);
        (1.0 / (1.0 + (-moved).exp()), known.map(|level| (level, caller.label(level))))
    }

    /// The share of solo requests of the newcomers' shape that has the fewest, of those that are known.
    fn most_reading_shape(&self) -> Option<f32> {
        let known = self.shapes.iter().filter(|newcomers| newcomers.requests >= ASSUMED.1);
        known.map(|newcomers| newcomers.solo / newcomers.requests).min_by(f32::total_cmp)
    }

    /// The share of the narrowest group, as far as the groups are known, and which one that is.
    fn share_of_groups(&mut self, caller: &Caller, groups: &[Level], all: f32) -> (f32, Option<Level>) {
        let (mut share, mut known) = (all, None);
        for &level in groups {
            let Some(account) = self.accounts.find(caller.keys[level as usize]) else { continue };
            share = blend(account, ASSUMED.1, share);
            if account.judged >= ASSUMED.1 {
                known = Some(level);
            }
        }
        (share, known)
    }

    /// Notes that the client asks for the object, and gives the one that fetched it first its due.
    fn ask(&mut self, Ask { object, shape }: Ask, caller: &Caller, now: Mono) -> Evidence {
        let is_new = self.is_newcomer(caller);
        // Only what was counted is pardoned later.
        let counts = self.accounts.find(caller.keys[Level::Client as usize]).is_none_or(|client| client.counts_solo());
        let note = shape.index() as u8 * 4 + u8::from(counts) * 2 + u8::from(is_new);
        let before = self.asked.ask(object, caller.keys[Level::Client as usize], note);
        // Asking again is no evidence, and a newcomer's solo request counts with the news.
        if before != Before::Own && !(is_new && before == Before::Never) {
            self.count_pressure(shape, false, now);
        }
        match before {
            Before::Never => SOLO,
            Before::Own => NOTHING,
            Before::Shared => READ,
            Before::Other(first, note) => {
                if let Some(account) = self.accounts.find_low(first) {
                    account.shared += 1.0;
                    account.judge_by(0.0, if note & 2 == 0 { 0.0 } else { -1.0 });
                }
                if note & 3 == 3 {
                    self.newcomers.pardon();
                    self.shapes[usize::from(note / 4) % Shape::COUNT].pardon();
                }
                READ
            }
        }
    }

    /// True if newcomers with requests of this shape are held when nobody else has asked for the object.
    fn are_held(&self, shape: Shape, now: Mono) -> bool {
        let has_learnt = now.since(self.born) >= self.settings.learning;
        has_learnt && self.pressure.is_on() && self.shape_pressure[shape.index()].is_on()
    }

    fn is_newcomer(&mut self, caller: &Caller) -> bool {
        self.accounts.find(caller.keys[Level::Client as usize]).is_none_or(|client| client.judged < KNOWN)
    }

    fn count(&mut self, caller: &Caller, shape: Shape, evidence: Evidence, misses: f32, now: Mono) {
        let mut news = NOTHING;
        for level in Level::ALL {
            let Some(account) = self.accounts.open(caller, level) else { continue };
            account.requests += 1.0;
            account.misses += misses;
            if level == Level::Client {
                let evidence = if evidence.solo > 0.0 && !account.is_next_solo() { NOTHING } else { evidence };
                news.requests = evidence.requests.min(account.news_left());
                news.solo = evidence.solo.min(news.requests);
                account.judge_by(evidence.requests, evidence.solo);
            } else {
                account.judge_by(news.requests, news.solo);
            }
        }
        self.add_news(news, shape, now);
    }

    fn count_pressure(&mut self, shape: Shape, is_solo: bool, now: Mono) {
        self.pressure.count(is_solo, now);
        self.shape_pressure[shape.index()].count(is_solo, now);
    }

    fn add_news(&mut self, news: Evidence, shape: Shape, now: Mono) {
        if news.solo > 0.0 {
            self.count_pressure(shape, true, now);
        }
        self.newcomers.add(news);
        self.unpardoned.add(news);
        self.shapes[shape.index()].add(news);
    }

    fn budget(&mut self, caller: &Caller, now: Mono) -> &mut CrawlBudget {
        if !caller.is_verified() {
            return &mut self.crawl;
        }
        let key = caller.keys[Level::Bot as usize];
        if !self.verified.contains_key(&key) {
            self.open_verified(key, now);
        }
        match self.verified.get_mut(&key) {
            Some((budget, used)) => {
                *used = now;
                budget
            }
            None => &mut self.crawl,
        }
    }

    fn open_verified(&mut self, key: u64, now: Mono) {
        self.verified.retain(|_, (_, used)| now.since(*used) < VERIFIED.2);
        let LedgerSettings { verified_share, least, patience, .. } = self.settings;
        let mut budget = CrawlBudget::new(verified_share, least, patience, now);
        if self.verified.len() >= VERIFIED.0 {
            let oldest =
                self.verified.iter().min_by(|(_, (_, a)), (_, (_, b))| a.0.total_cmp(&b.0)).map(|(key, _)| *key);
            oldest.and_then(|key| self.verified.remove(&key));
            // New names come with nothing saved, else each would be worth a burst.
            budget.empty();
        }
        self.verified.insert(key, (budget, now));
        self.share_among_verified();
    }

    fn tell_time(&mut self, now: Mono) {
        let seconds = now.since(self.born);
        self.accounts.tell_time(seconds);
        let half_life = self.settings.half_life;
        self.shapes
            .iter_mut()
            .chain([&mut self.newcomers, &mut self.unpardoned])
            .for_each(|newcomers| newcomers.fade(seconds, half_life));
    }

    fn walk(&mut self) {
        for _ in 0..WALKED {
            let set = self.crowd.next(self.accounts.sets());
            self.accounts.clients_of_set(set).for_each(|account| self.crowd.see(account));
        }
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

    fn pardon(&mut self) {
        self.solo = (self.solo - 1.0).max(0.0);
    }

    fn share(&self) -> f32 {
        self.share_from(ASSUMED.2, USUAL_SHARE)
    }

    /// The share of solo requests, of which `assumed` requests have the share `before`.
    fn share_from(&self, assumed: f32, before: f32) -> f32 {
        (self.solo + assumed * before) / (self.requests + assumed)
    }

    fn fade(&mut self, seconds: f64, half_life: f64) {
        let passed = seconds - self.at;
        if passed > 1.0 {
            let factor = (-passed / half_life).exp2() as f32;
            (self.requests, self.solo, self.at) = (self.requests * factor, self.solo * factor, seconds);
        }
    }
}

fn odds(share: f32) -> f32 {
    let share = share.clamp(SURE, 1.0 - SURE);
    (share / (1.0 - share)).ln()
}

/// The share of solo requests of an account, of which `assumed` requests have the share `before`.
fn blend(account: &Account, assumed: f32, before: f32) -> f32 {
    (account.solo + assumed * before) / (account.judged + assumed)
}
