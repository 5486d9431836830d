// SPDX-License-Identifier: BSD-2-Clause
//! The books: what each request changes in accounts and budgets, and the verdict about a client.

use std::collections::HashMap;

use base::Mono;

use crate::account::{Account, AccountTable, Level, LevelCosts};
use crate::asked::{AskedTable, Before, Course};
use crate::budget::{Admission, CrawlBudget, Overdrawn};
use crate::caller::Caller;
use crate::label::Label;
use crate::pace::OriginPace;
use crate::pressure::{Pressure, PressureLimits};
use crate::shape::{Ask, Shape};
use crate::verdict::{BotClass, CRAWLS, Crowd, KNOWN, Reason, USUAL_SHARE, Verdict};

/// The most that groups add to the share of solo requests that is assumed of a client with requests of its own. While crawlers press, nearly all
/// requests of the groups are theirs, and a reader who has just become known would be taken for one of them.
const ASSUMED_SHARE: f32 = 0.2;
/// Weight, in requests, of what is assumed of a client before its own requests, of a group, and of all newcomers.
const ASSUMED: (f32, f32, f32) = (6.0, 32.0, 64.0);
const NEWCOMERS: f32 = 512.0;
/// The groups that a client is compared with before its own requests are known, from the widest to the narrowest.
const GROUPS: [Level; 5] = [Level::Agent, Level::Tls, Level::Network, Level::Wide, Level::Prefix];
/// Hits of a known client after which its groups are charged with them.
const UNCHARGED: f32 = 64.0;
/// Newcomers are held only while they press, all together and those with requests of the same shape.
const PRESSED: PressureLimits = PressureLimits { begins: 0.5, ends: 0.25 };
const PRESSED_SHAPE: PressureLimits = PressureLimits { begins: 0.75, ends: 0.7 };
/// Fetches in progress that no reader is known to want, from which on a crawl crowds the origin: so many, and a multiple of those of readers.
const CROWDED: (f64, f64) = (8.0, 2.0);
const WALKED: usize = 8;
/// Sets of accounts of one step of a search for the most expensive ones.
const TOP_STEP: usize = 64;
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
            share: 0.04,
            verified_share: 0.04,
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
    total: Total,
    crowd: Crowd,
    pressure: Pressure,
    shape_pressure: [Pressure; Shape::COUNT],
    pace: OriginPace,
    /// Fetches in progress that no reader is known to want.
    unproven: u32,
    crawl: CrawlBudget,
    /// Fetches of objects that several refused clients wanted, so that a crowd doesn't queue behind crawlers.
    crowds: CrawlBudget,
    /// Budgets by the key of the bot's account, with the time of the latest use.
    verified: HashMap<u64, (CrawlBudget, Mono)>,
}

/// A search for the most expensive accounts of each level, in steps between which others may use the books.
#[derive(Debug)]
pub struct TopAccounts {
    next: usize,
    most: usize,
    pub best: [Vec<LevelCosts>; Level::COUNT],
}

impl TopAccounts {
    pub fn new(most: usize) -> Self {
        TopAccounts { next: 0, most, best: Default::default() }
    }
}

/// The latest requests of clients that have made few, all together.
#[derive(Clone, Copy, Default)]
struct Newcomers {
    requests: f32,
    solo: f32,
    at: f64,
}

/// The account that the origin's time of a fetch is taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payer {
    /// Crawlers get a share of this time.
    Readers,
    /// A newcomer's fetch of an object that nobody else wants. It would let a crawl that begins pay for itself.
    Nobody,
    /// The budget of crawlers or of a verified bot, by this permission.
    Budget(Admission),
    /// The same budget, for a part of a response that has had its permission: a fragment or a slice.
    Part,
}

impl Payer {
    /// True for a fetch that [`Ledger::miss`] counted as one that no reader is known to want.
    fn is_unproven(self) -> bool {
        matches!(self, Payer::Nobody | Payer::Budget(_))
    }
}

/// The end of a fetch.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchEnd {
    /// Seconds of waiting for the origin.
    pub waited: f64,
    pub bytes: u64,
    /// The origin couldn't be reached, or its response was an error of the server (5xx).
    pub has_failed: bool,
}

/// Requests and charges of all clients, also of those whose accounts have made room.
#[derive(Clone, Copy, Default)]
struct Total {
    requests: f64,
    origin_seconds: f64,
    at: f64,
}

impl Total {
    fn fade(&mut self, seconds: f64, half_life: f64) {
        let passed = seconds - self.at;
        if passed > 1.0 {
            let factor = (-passed / half_life).exp2();
            (self.requests, self.origin_seconds) = (self.requests * factor, self.origin_seconds * factor);
            self.at = seconds;
        }
    }
}

#[derive(Clone, Copy)]
struct Evidence {
    requests: f32,
    solo: f32,
}

/// The client of a request, as its account is before it.
#[derive(Clone, Copy)]
struct KnownClient {
    is_new: bool,
    is_crawl: bool,
    counts_solo: bool,
}

impl KnownClient {
    /// Only a client that is known to read lets a shared object be remembered for longer.
    fn course(self) -> Course {
        if self.is_new || self.is_crawl { Course::Fetched } else { Course::Read }
    }

    /// Requests that newcomers' solo requests are compared with: asking again is no evidence, and a newcomer's solo request counts with the news.
    fn others(self, evidence: Evidence) -> f64 {
        if self.is_new && evidence.solo > 0.0 { 0.0 } else { evidence.requests.into() }
    }
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
            total: Total::default(),
            crowd: Crowd::default(),
            pressure: Pressure::new(PRESSED, now),
            shape_pressure: std::array::from_fn(|_| Pressure::new(PRESSED_SHAPE, now)),
            pace: OriginPace::new(now),
            unproven: 0,
            crawl: CrawlBudget::new(share, least, patience, now),
            crowds: CrawlBudget::new(share, least, patience, now),
            verified: HashMap::new(),
            settings,
        }
    }

    /// Changes shares, least and patience. Memory and half-life stay as they are.
    pub fn set_budgets(&mut self, settings: &LedgerSettings) {
        self.settings =
            LedgerSettings { bytes: self.settings.bytes, half_life: self.settings.half_life, ..settings.clone() };
        [&mut self.crawl, &mut self.crowds]
            .into_iter()
            .for_each(|budget| budget.set(settings.share, settings.least, settings.patience));
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

    pub fn hits(&mut self, caller: &Caller, asks: impl IntoIterator<Item = impl Into<Ask>>, now: Mono) {
        self.set_time(now);
        let client = self.client(caller);
        let course = client.course();
        let (mut requests, mut counted) = (0.0, 0.0);
        let mut others = [0.0; Shape::COUNT];
        for ask in asks.into_iter().map(Into::<Ask>::into) {
            let evidence = self.ask(ask.object, caller, client, course);
            requests += 1.0;
            // A hit on what the client itself fetched says nothing about readers.
            counted += evidence.requests;
            others[ask.shape.index()] += client.others(evidence);
        }
        for (shape, count) in others.into_iter().enumerate() {
            self.count_others(shape, count, now);
        }
        self.count(caller, requests, 0.0, Evidence { requests: counted, solo: 0.0 });
    }

    /// The client's request needs the origin, and is served. A fetch begins, which [`Ledger::charge`] or [`Ledger::cancel`] ends.
    pub fn miss(&mut self, caller: &Caller, ask: impl Into<Ask>, payer: Payer, now: Mono) {
        self.set_time(now);
        if payer.is_unproven() {
            self.unproven = self.unproven.saturating_add(1);
        }
        let (ask, client) = (ask.into(), self.client(caller));
        let evidence = self.ask(ask.object, caller, client, client.course());
        self.count_others(ask.shape.index(), client.others(evidence), now);
        if self.count(caller, 1.0, 1.0, evidence).solo > 0.0 {
            self.count_solo(ask.shape.index(), now);
        }
    }

    /// The client's request for the object was refused. This counts against its groups only, so a reader that asks again isn't blamed for it.
    pub fn refused(&mut self, caller: &Caller, ask: impl Into<Ask>, now: Mono) {
        self.set_time(now);
        let (ask, client) = (ask.into(), self.client(caller));
        let evidence = self.ask(ask.object, caller, client, Course::Refused);
        self.count_others(ask.shape.index(), client.others(evidence), now);
        let is_solo = evidence.solo > 0.0;
        let mut news = NOTHING;
        self.total.requests += 1.0;
        if let Some(account) = self.accounts.open(caller, Level::Client) {
            account.requests += 1.0;
            account.uncharged += 1.0;
            if is_solo && account.news_left() >= 1.0 && account.is_next_solo() {
                account.refused += 1.0;
                news = SOLO;
                self.count_solo(ask.shape.index(), now);
            }
        }
        self.charge_groups(caller, 0.0, news);
    }

    /// A fetch for the client has ended. Returns the seconds of the origin's time that it counts for.
    pub fn charge(&mut self, caller: &Caller, end: FetchEnd, payer: Payer, now: Mono) -> f64 {
        self.set_time(now);
        let origin_seconds = self.pace.count(end, payer, now);
        self.total.origin_seconds += origin_seconds;
        for level in Level::ALL {
            let Some(account) = self.accounts.open(caller, level) else { continue };
            account.origin_seconds += origin_seconds as f32;
            account.bytes += end.bytes as f32;
        }
        if payer.is_unproven() {
            self.unproven = self.unproven.saturating_sub(1);
        }
        match payer {
            Payer::Budget(admission) => {
                self.budget(caller, admission.is_of_crowd, now).settle(admission.reserved, origin_seconds);
            }
            Payer::Readers => {
                self.crawl.add_readers(origin_seconds, now);
                self.crowds.add_readers(origin_seconds, now);
                self.verified.values_mut().for_each(|(budget, _)| budget.add_readers(origin_seconds, now));
            }
            Payer::Part => self.budget(caller, false, now).debit(origin_seconds, now),
            Payer::Nobody => {}
        }
        origin_seconds
    }

    /// Asks for a fetch of a client that isn't a reader.
    ///
    /// # Errors
    /// The budget is used up for longer than a request may wait.
    pub fn reserve(&mut self, caller: &Caller, reason: &Reason, now: Mono) -> Result<Admission, Overdrawn> {
        let is_of_crowd = *reason == Reason::Crowd;
        let admission = self.budget(caller, is_of_crowd, now).reserve(now)?;
        Ok(Admission { is_of_crowd, ..admission })
    }

    /// A fetch that [`Ledger::miss`] was told of doesn't begin.
    pub fn cancel(&mut self, caller: &Caller, payer: Payer, now: Mono) {
        if payer.is_unproven() {
            self.unproven = self.unproven.saturating_sub(1);
        }
        if let Payer::Budget(admission) = payer {
            self.budget(caller, admission.is_of_crowd, now).cancel(admission.reserved);
        }
    }

    /// Seconds of the origin's time that the client's budget has now; negative if they were used in advance.
    /// A verified bot without a budget has what a new one would have: a question opens none.
    pub fn budget_level(&mut self, caller: &Caller, now: Mono) -> f64 {
        if !caller.is_verified() {
            return self.crawl.level(now);
        }
        match self.verified.get_mut(&caller.keys[Level::Bot as usize]) {
            Some((budget, _)) => budget.level(now),
            None => self.new_verified(now).level(now),
        }
    }

    /// Judges a request that needs the origin. The class is remembered: a client that crawls is taken for a reader later than it was for a crawler.
    pub fn judge(&mut self, caller: &Caller, ask: impl Into<Ask>, now: Mono) -> Verdict {
        self.walk();
        let verdict = self.look(caller, ask, now);
        let is_remembered = !matches!(verdict.reason, Reason::Shared | Reason::Crowd | Reason::Verified(_));
        if is_remembered && let Some(account) = self.accounts.find(caller.keys[Level::Client as usize]) {
            account.is_crawl = verdict.class == BotClass::Crawl;
        }
        verdict
    }

    /// The verdict that [`Ledger::judge`] would give. Nothing is changed, so a question about a client doesn't make it a crawler.
    pub fn look(&mut self, caller: &Caller, ask: impl Into<Ask>, now: Mono) -> Verdict {
        let Ask { object, shape } = ask.into();
        self.set_time(now);
        if caller.is_verified() {
            let reason = Reason::Verified(caller.label(Level::Bot));
            return Verdict { degree: 1.0, class: BotClass::Verified, reason };
        }
        let client = caller.keys[Level::Client as usize];
        let before = self.asked.look(object, client);
        let depends_on_pressure = self.client(caller).is_new && caller.bot().is_none();
        let is_held = depends_on_pressure && self.are_held(shape, now);
        let (mut share, mut reason) = match depends_on_pressure {
            true => (0.0, Reason::Pressure(self.pressure.counts(now))),
            false => {
                let (share, group) = self.share_of_newcomers(caller);
                (share, Reason::Newcomer { group, share })
            }
        };
        let (mut was_crawl, mut known) = (false, 0.0);
        if let Some(account) = self.accounts.find(client) {
            was_crawl = account.is_crawl;
            let assumed = if caller.bot().is_some() { share } else { share.min(ASSUMED_SHARE) };
            share = blend(account, ASSUMED.0, assumed);
            known = (account.judged / KNOWN).min(1.0);
            if account.judged >= ASSUMED.0 && !is_held {
                reason = Reason::Own { solo: account.solo, requests: account.judged };
            }
        }
        let degree = match depends_on_pressure {
            true if is_held => 1.0,
            true => 0.0,
            false => self.crowd.degree(share, known),
        };
        match before {
            Before::Other(..) | Before::Shared => {
                return Verdict { degree, class: BotClass::Reader, reason: Reason::Shared };
            }
            // Each of a crowd was refused, and so would this one be. Its fetch needs room in a budget of its own.
            Before::Crowd if degree > 0.0 => {
                return Verdict { degree: 1.0, class: BotClass::Crawl, reason: Reason::Crowd };
            }
            Before::Never | Before::Refused | Before::Crowd | Before::Own => {}
        }
        let is_crawl = degree >= CRAWLS || (was_crawl && degree > 0.0);
        Verdict { degree, class: if is_crawl { BotClass::Crawl } else { BotClass::Reader }, reason }
    }

    /// Goes on with the search for the most expensive accounts, at the place where it stopped. True once it is complete.
    pub fn go_on_with(&mut self, top: &mut TopAccounts, now: Mono) -> bool {
        self.set_time(now);
        let end = top.next + TOP_STEP;
        self.accounts.add_top(top.next..end, top.most, &mut top.best);
        top.next = end;
        end >= self.accounts.sets()
    }

    pub fn top(&mut self, level: Level, most: usize, now: Mono) -> Vec<LevelCosts> {
        let mut top = TopAccounts::new(most);
        while !self.go_on_with(&mut top, now) {}
        std::mem::take(&mut top.best[level as usize])
    }

    /// Requests of all clients, and the seconds of the origin's time that they were charged with.
    pub fn total(&mut self, now: Mono) -> (f64, f64) {
        self.set_time(now);
        (self.total.requests, self.total.origin_seconds)
    }

    pub fn cost(&mut self, caller: &Caller, now: Mono) -> f64 {
        self.set_time(now);
        self.accounts.find(caller.keys[Level::Client as usize]).map_or(0.0, |account| account.origin_seconds.into())
    }

    /// Share of solo requests that is assumed of a newcomer, and the narrowest group that is known.
    fn share_of_newcomers(&mut self, caller: &Caller) -> (f32, Option<Label>) {
        if caller.bot().is_some() {
            // A robot that says so is believed until its requests show otherwise.
            let (share, _) = self.share_of_groups(caller, &[Level::Bot], 1.0);
            return (share, Some(caller.label(Level::Bot)));
        }
        let (share, known) = self.share_of_groups(caller, &GROUPS, self.newcomers.share());
        (share, known.map(|level| caller.label(level)))
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
    fn ask(&mut self, object: u64, caller: &Caller, client: KnownClient, course: Course) -> Evidence {
        // Only what was counted is pardoned later.
        let note = u8::from(client.counts_solo) * 2 + u8::from(client.is_new);
        let before = self.asked.ask(object, caller.keys[Level::Client as usize], course, note);
        match before {
            Before::Never | Before::Refused => SOLO,
            // A refusal is no vote, so a crowd says neither that the client reads nor that it crawls.
            Before::Own | Before::Crowd => NOTHING,
            Before::Shared => READ,
            Before::Other(first, note) => {
                if let Some(account) = self.accounts.find_low(first) {
                    account.shared += 1.0;
                    account.judge_by(0.0, if note & 2 == 0 { 0.0 } else { -1.0 });
                }
                if note & 3 == 3 {
                    self.newcomers.pardon();
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

    fn client(&mut self, caller: &Caller) -> KnownClient {
        let new = KnownClient { is_new: true, is_crawl: false, counts_solo: true };
        self.accounts.find(caller.keys[Level::Client as usize]).map_or(new, |client| KnownClient {
            is_new: client.judged < KNOWN,
            is_crawl: client.is_crawl,
            counts_solo: client.counts_solo(),
        })
    }

    /// Counts requests that were served; those of them that count as a newcomer's come back. The groups of a known client are charged with
    /// many of its hits at once.
    fn count(&mut self, caller: &Caller, requests: f32, misses: f32, evidence: Evidence) -> Evidence {
        let Some(account) = self.accounts.open(caller, Level::Client) else { return NOTHING };
        self.total.requests += f64::from(requests);
        account.requests += requests;
        account.misses += misses;
        account.uncharged += requests;
        let evidence = if evidence.solo > 0.0 && !account.is_next_solo() { NOTHING } else { evidence };
        let counted = evidence.requests.min(account.news_left());
        let news = Evidence { requests: counted, solo: evidence.solo.min(counted) };
        account.judge_by(evidence.requests, evidence.solo);
        if account.uncharged >= UNCHARGED || misses > 0.0 || news.requests > 0.0 {
            self.charge_groups(caller, misses, news);
        }
        news
    }

    /// Charges the client's groups with the requests that they don't know yet, and with what its latest ones say about newcomers.
    fn charge_groups(&mut self, caller: &Caller, misses: f32, news: Evidence) {
        let client = self.accounts.find(caller.keys[Level::Client as usize]);
        let uncharged = client.map_or(0.0, |account| std::mem::take(&mut account.uncharged));
        for level in Level::ALL.into_iter().filter(|level| *level != Level::Client) {
            if let Some(account) = self.accounts.open(caller, level) {
                account.requests += uncharged;
                account.misses += misses;
                account.judge_by(news.requests, news.solo);
            }
        }
        self.newcomers.add(news);
    }

    fn count_solo(&mut self, shape: usize, now: Mono) {
        let is_crowded = self.is_crowded();
        for pressure in [&mut self.pressure, &mut self.shape_pressure[shape]] {
            pressure.count_solo(is_crowded, now);
        }
    }

    fn count_others(&mut self, shape: usize, count: f64, now: Mono) {
        if count > 0.0 {
            let is_crowded = self.is_crowded();
            for pressure in [&mut self.pressure, &mut self.shape_pressure[shape]] {
                pressure.count_others(count, is_crowded, now);
            }
        }
    }

    fn is_crowded(&self) -> bool {
        f64::from(self.unproven) >= CROWDED.0 + CROWDED.1 * self.crawl.readers_at_a_time()
    }

    fn budget(&mut self, caller: &Caller, is_of_crowd: bool, now: Mono) -> &mut CrawlBudget {
        if is_of_crowd {
            return &mut self.crowds;
        }
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
        let budget = self.new_verified(now);
        if self.verified.len() >= VERIFIED.0 {
            let oldest =
                self.verified.iter().min_by(|(_, (_, a)), (_, (_, b))| a.0.total_cmp(&b.0)).map(|(key, _)| *key);
            oldest.and_then(|key| self.verified.remove(&key));
        }
        self.verified.insert(key, (budget, now));
        self.share_among_verified();
    }

    fn new_verified(&self, now: Mono) -> CrawlBudget {
        let LedgerSettings { verified_share, least, patience, .. } = self.settings;
        let mut budget = CrawlBudget::new(verified_share, least, patience, now);
        let in_use = self.verified.values().filter(|(_, used)| now.since(*used) < VERIFIED.2).count();
        if in_use >= VERIFIED.0 {
            // New names come with nothing saved, else each would be worth a burst.
            budget.empty();
        }
        budget
    }

    fn set_time(&mut self, now: Mono) {
        let seconds = now.since(self.born);
        self.accounts.set_time(seconds);
        self.asked.set_time(seconds);
        self.newcomers.fade(seconds, self.settings.half_life);
        self.total.fade(seconds, self.settings.half_life);
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
        (self.solo + ASSUMED.2 * USUAL_SHARE) / (self.requests + ASSUMED.2)
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
