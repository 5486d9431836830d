// SPDX-License-Identifier: BSD-2-Clause
//! The accounts: a table of fixed size. In each set of the table, the account that has read least makes room for a new one. So a flood of
//! clients that come once replaces accounts of its own kind, not those of readers.

use std::ops::Range;

use crate::caller::Caller;
use crate::label::Label;
use crate::verdict::{BotClass, KNOWN};

const WAYS: usize = 8;
/// Parts of a second in which accounts note times.
const TICKS: f64 = 16.0;
/// Solo requests of a page's parts that don't count at once, and the ticks until one more doesn't.
const PARTS: (u32, u32) = (16, 8);
/// Weight of a solo request beside one that reads, when an account has to make room.
const SOLO_VALUE: f32 = 0.25;
/// Requests after which an account's share of solo requests forgets half: a client's, and a group's.
const WINDOW: (f32, f32) = (64.0, 4096.0);

/// The things that requests are charged to, each an account of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One IPv4 address, or a /64 of IPv6.
    Client,
    /// A /24 of IPv4, or a /56 of IPv6.
    Prefix,
    /// A /16 of IPv4, or a /32 of IPv6.
    Wide,
    Network,
    Tls,
    Agent,
    Bot,
}

impl Level {
    pub const COUNT: usize = 7;
    pub const ALL: [Level; Level::COUNT] =
        [Level::Client, Level::Prefix, Level::Wide, Level::Network, Level::Tls, Level::Agent, Level::Bot];

    pub fn word(self) -> &'static str {
        match self {
            Level::Client => "client",
            Level::Prefix => "prefix",
            Level::Wide => "wide",
            Level::Network => "network",
            Level::Tls => "ja4",
            Level::Agent => "agent",
            Level::Bot => "bot",
        }
    }
}

/// The charges of one account. All numbers fade with the half-life.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelCosts {
    pub name: Label,
    /// The latest verdict about a client, or `Verified` for a verified bot. Groups have none.
    pub class: Option<BotClass>,
    pub requests: f64,
    pub misses: f64,
    pub origin_seconds: f64,
    pub bytes_missed: f64,
    /// Times that another client was first to use what this one had fetched.
    pub shared: f64,
    /// Share of solo requests in the latest ones.
    pub solo_share: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// Ticks at which the numbers were last faded, and at which the account was last used.
    faded: u32,
    touched: u32,
    pub requests: f32,
    pub misses: f32,
    pub origin_seconds: f32,
    pub bytes: f32,
    pub shared: f32,
    /// The requests that count for the verdict, and how many of these are solo.
    pub judged: f32,
    pub solo: f32,
    /// Refused requests that counted against the client's groups.
    pub refused: f32,
    /// Hits of a client that its groups haven't been charged with.
    pub uncharged: f32,
    pub is_crawl: bool,
    is_verified: bool,
    /// Ticks until which no other solo request counts.
    solo_until: u32,
    /// Ticks at which all of [`PARTS`] are free again.
    parts_until: u32,
    label: Label,
}

const FREE: Account = Account {
    faded: 0,
    touched: 0,
    requests: 0.0,
    misses: 0.0,
    origin_seconds: 0.0,
    bytes: 0.0,
    shared: 0.0,
    judged: 0.0,
    solo: 0.0,
    refused: 0.0,
    uncharged: 0.0,
    is_crawl: false,
    is_verified: false,
    solo_until: 0,
    parts_until: 0,
    label: Label::EMPTY,
};

impl Account {
    /// Counts `requests` for the verdict, of which `solo` were solo.
    pub fn judge_by(&mut self, requests: f32, solo: f32) {
        let window = if self.label.level() == Level::Client { WINDOW.0 } else { WINDOW.1 };
        self.judged += requests;
        self.solo = (self.solo + solo).clamp(0.0, self.judged);
        if self.judged > window {
            let factor = window / 2.0 / self.judged;
            self.judged *= factor;
            self.solo *= factor;
        }
    }

    /// True if a solo request counts now. A browser asks for all parts of a page at once, so one within a second counts, and those that are
    /// more than a page has.
    pub fn is_next_solo(&mut self) -> bool {
        let counts = self.counts_solo();
        if self.touched >= self.solo_until {
            self.solo_until = self.touched + TICKS as u32;
        } else if !counts {
            self.parts_until = self.parts_until.max(self.touched) + PARTS.1;
        }
        counts
    }

    /// Requests that may still count as those of a newcomer. A client's first ones do, so that no client decides about its groups alone.
    pub fn news_left(&self) -> f32 {
        (KNOWN - self.judged - self.refused).max(0.0)
    }

    /// True if [`Account::is_next_solo`] will be.
    pub fn counts_solo(&self) -> bool {
        self.touched >= self.solo_until
            || self.parts_until.max(self.touched) + PARTS.1 > self.touched + PARTS.0 * PARTS.1
    }

    pub fn solo_share(&self) -> f32 {
        if self.judged > 0.0 { self.solo / self.judged } else { 0.0 }
    }

    fn fade(&mut self, ticks: u32, half_life: f64) {
        self.touched = ticks;
        let passed = f64::from(ticks.saturating_sub(self.faded)) / TICKS;
        // Seldom, as the result of a short time is lost in the rounding.
        if passed * 64.0 < half_life {
            return;
        }
        let factor = (-passed / half_life).exp2() as f32;
        let numbers =
            [&mut self.requests, &mut self.misses, &mut self.origin_seconds, &mut self.bytes, &mut self.shared];
        numbers
            .into_iter()
            .chain([&mut self.judged, &mut self.solo, &mut self.refused, &mut self.uncharged])
            .for_each(|number| *number *= factor);
        self.faded = ticks;
    }

    fn value(&self) -> f32 {
        self.judged - self.solo * (1.0 - SOLO_VALUE)
    }

    fn class(&self) -> Option<BotClass> {
        match self.label.level() {
            Level::Client if self.is_crawl => Some(BotClass::Crawl),
            Level::Client => Some(BotClass::Reader),
            Level::Bot if self.is_verified => Some(BotClass::Verified),
            _ => None,
        }
    }

    fn costs(&self) -> LevelCosts {
        LevelCosts {
            name: self.label,
            class: self.class(),
            requests: self.requests.into(),
            misses: self.misses.into(),
            origin_seconds: self.origin_seconds.into(),
            bytes_missed: self.bytes.into(),
            shared: self.shared.into(),
            solo_share: self.solo_share().into(),
        }
    }
}

/// The keys lie together, so that a search reads one line of memory.
#[derive(Clone)]
struct AccountSet {
    /// 0: a free place.
    keys: [u64; WAYS],
    accounts: [Account; WAYS],
}

impl AccountSet {
    const FREE: AccountSet = AccountSet { keys: [0; WAYS], accounts: [FREE; WAYS] };

    fn used(&self) -> impl Iterator<Item = &Account> {
        self.keys.iter().zip(&self.accounts).filter(|(key, _)| **key != 0).map(|(_, account)| account)
    }

    fn used_mut(&mut self) -> impl Iterator<Item = &mut Account> {
        self.keys.iter().zip(&mut self.accounts).filter(|(key, _)| **key != 0).map(|(_, account)| account)
    }

    /// A free place, else that of the account that has read least.
    fn least(&self) -> usize {
        let value = |at: usize| if self.keys[at] == 0 { -1.0 } else { self.accounts[at].value() };
        (0..WAYS).min_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap_or_default()
    }
}

pub(crate) struct AccountTable {
    sets: Vec<AccountSet>,
    half_life: f64,
    ticks: u32,
}

impl AccountTable {
    /// A table of at most `bytes`; a power of two of sets, and at least one.
    pub fn new(bytes: usize, half_life: f64) -> Self {
        let sets = (bytes / size_of::<AccountSet>()).max(1);
        AccountTable { sets: vec![AccountSet::FREE; 1 << sets.ilog2()], half_life, ticks: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.sets.len() * size_of::<AccountSet>()
    }

    pub fn set_time(&mut self, seconds: f64) {
        self.ticks = self.ticks.max((seconds * TICKS) as u32);
    }

    pub fn find(&mut self, key: u64) -> Option<&mut Account> {
        let (ticks, half_life) = (self.ticks, self.half_life);
        let at = self.set_of(key);
        let set = &mut self.sets[at];
        let way = set.keys.iter().position(|known| *known == key && key != 0)?;
        let account = &mut set.accounts[way];
        account.fade(ticks, half_life);
        Some(account)
    }

    /// The account of a key of which the low 32 bits are known.
    pub fn find_low(&mut self, low: u32) -> Option<&mut Account> {
        let at = self.set_of(low.into());
        let set = &mut self.sets[at];
        let way = set.keys.iter().position(|known| *known as u32 == low && *known != 0)?;
        Some(&mut set.accounts[way])
    }

    /// The account of a caller, opened if there is none; `None` for a level at which nothing is known of the caller.
    pub fn open(&mut self, caller: &Caller, level: Level) -> Option<&mut Account> {
        let key = caller.keys[level as usize];
        if key == 0 {
            return None;
        }
        let (ticks, half_life) = (self.ticks, self.half_life);
        let at = self.set_of(key);
        let set = &mut self.sets[at];
        if let Some(way) = set.keys.iter().position(|known| *known == key) {
            set.accounts[way].fade(ticks, half_life);
            return Some(&mut set.accounts[way]);
        }
        set.used_mut().for_each(|account| account.fade(ticks, half_life));
        let least = set.least();
        set.keys[least] = key;
        let is_verified = level == Level::Bot && caller.is_verified();
        let label = caller.label(level);
        set.accounts[least] = Account { is_verified, label, faded: ticks, touched: ticks, ..FREE };
        Some(&mut set.accounts[least])
    }

    pub fn clients_of_set(&self, at: usize) -> impl Iterator<Item = &Account> {
        self.sets[at % self.sets.len()].used().filter(|account| account.label.level() == Level::Client)
    }

    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Merges the accounts of these sets into `best`, the most expensive of each level, the most expensive first. A caller goes on with the next sets after
    /// it has let others have the lock.
    pub fn add_top(&mut self, sets: Range<usize>, most: usize, best: &mut [Vec<LevelCosts>; Level::COUNT]) {
        let (ticks, half_life) = (self.ticks, self.half_life);
        let sets = sets.start.min(self.sets.len())..sets.end.min(self.sets.len());
        for account in self.sets[sets].iter_mut().flat_map(AccountSet::used_mut) {
            account.fade(ticks, half_life);
            let best = &mut best[account.label.level() as usize];
            let order = |costs: &LevelCosts| {
                let (seconds, requests) = (f64::from(account.origin_seconds), f64::from(account.requests));
                costs.origin_seconds.total_cmp(&seconds).then(costs.requests.total_cmp(&requests)).is_ge()
            };
            let place = best.partition_point(order);
            if place < most {
                best.truncate(most - 1);
                best.insert(place, account.costs());
            }
        }
    }

    fn set_of(&self, key: u64) -> usize {
        key as usize & (self.sets.len() - 1)
    }
}
