// SPDX-License-Identifier: BSD-2-Clause
//! The directories of agents, for the whole process: what they said last, and when each may be fetched again. No request waits for a
//! fetch. Directories that VCL names and those that clients name are kept apart, as only the former may be at any address.

use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use parking_lot::Mutex;
use vmod_support::bounded::{BoundedMap, Worth};

use super::agents::{Agent, Lane};
use super::cut;
use super::keys::{Key, KeySet, NoKey};
use super::turns::{Turn, TurnKind, Turns};

/// Directories of each lane.
const MAX_DIRECTORIES: usize = 1024;
/// Directories below one domain that clients name.
const MAX_OF_SITE: usize = 32;
/// A directory without the key that a request names is fetched again after this time at the earliest.
const MISSING_KEY: f64 = 60.0;
const FIRST_RETRY: f64 = 10.0;
const LAST_RETRY: f64 = 300.0;
/// Keys count for this time after their lifetime, if the directory can't be fetched.
const STALE: f64 = 7.0 * 86_400.0;
/// A directory makes room for no other for this time after it verified a request.
const OF_USE: f64 = 3600.0;

/// The answer of a directory about a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Key(Key),
    NoKey(NoKey),
    /// The directory is being fetched for the first time.
    Fetching,
    /// Too many others are being fetched or remembered.
    NoTurn,
    /// The directory has given no keys.
    Failed(String),
}

/// The end of a fetch.
#[derive(Debug, PartialEq)]
pub(super) enum Fetched {
    /// The keys, and how long they are fresh.
    Keys(KeySet, Duration),
    /// The agent's server says that there are none, and why not.
    Withdrawn(String),
    /// The server can't be asked, so the former keys stay.
    Failed(String),
}

#[derive(Default)]
pub(super) struct Directories(Mutex<Table>);

#[derive(Default)]
struct Table {
    listed: BoundedMap<Agent, Directory>,
    open: BoundedMap<Agent, Directory>,
    /// Domains of the open ones, each with a reference for each directory below it.
    sites: BoundedMap<String, Arc<()>>,
    turns: Turns,
}

struct Directory {
    keys: Option<Arc<KeySet>>,
    fresh_until: Mono,
    next_fetch: Mono,
    failures: i32,
    fault: String,
    is_fetching: bool,
    asked: Mono,
    verified: Mono,
    /// Counts this directory among those of its domain.
    _site: Option<Arc<()>>,
}

/// The duty to fetch a directory. Dropped unfulfilled it is a failure.
pub(super) struct FetchTurn {
    directories: Arc<Directories>,
    pub(super) agent: Agent,
    pub(super) lane: Lane,
    clock: base::Clock,
    turn: Turn,
    fetched: Option<Fetched>,
}

impl Directories {
    /// Looks a key up. The caller has to carry out the fetch, if one is due.
    pub(super) fn find(
        self: &Arc<Self>,
        agent: &Agent,
        lane: Lane,
        keyid: &str,
        clock: &base::Clock,
    ) -> (Found, Option<FetchTurn>) {
        let (now, real) = (clock.mono(), clock.real().0);
        let mut table = self.0.lock();
        let table = &mut *table;
        if !table.known(lane).contains_key(agent) && !table.admit(agent, lane, now) {
            return (Found::NoTurn, None);
        }
        let directory = table.known(lane).get_mut(agent).expect("it was admitted");
        directory.asked = now;
        let key = directory.current(now).map_or(Err(NoKey::Unknown), |keys| keys.find(keyid, real).cloned());
        let is_due = directory.is_due(key.is_ok(), now);
        let kind = directory.turn_kind(lane, now);
        let has_turn = is_due && table.turns.has(kind, now);
        let directory = table.known(lane).get_mut(agent).expect("it was there");
        directory.is_fetching |= has_turn;
        let found = match key {
            Ok(key) => Found::Key(key),
            Err(no_key) => directory.fault(no_key, now, is_due && !has_turn),
        };
        let turn = has_turn.then(|| {
            let turn = table.turns.take(kind, now);
            let (directories, agent, clock) = (self.clone(), agent.clone(), clock.clone());
            FetchTurn { directories, agent, lane, clock, turn, fetched: None }
        });
        (found, turn)
    }

    /// Notes that a key of the directory has verified a request.
    pub(super) fn note_verified(&self, agent: &Agent, lane: Lane, now: Mono) {
        if let Some(directory) = self.0.lock().known(lane).get_mut(agent) {
            directory.verified = now;
        }
    }

    fn finish(&self, turn: &FetchTurn, fetched: Fetched) {
        let now = turn.clock.mono();
        let mut table = self.0.lock();
        table.turns.end(turn.turn);
        // The call may have made room for others meanwhile.
        if let Some(directory) = table.known(turn.lane).get_mut(&turn.agent) {
            directory.settle(fetched, now);
        }
    }
}

impl Table {
    fn known(&mut self, lane: Lane) -> &mut BoundedMap<Agent, Directory> {
        match lane {
            Lane::Listed => &mut self.listed,
            Lane::Open => &mut self.open,
        }
    }

    /// Makes an entry for a new directory, if it may be fetched now.
    fn admit(&mut self, agent: &Agent, lane: Lane, now: Mono) -> bool {
        let directory = match lane {
            Lane::Listed if self.turns.has(TurnKind::Listed, now) => Directory::new(None),
            Lane::Open if self.turns.has(TurnKind::New, now) => {
                let Some(site) = self.site(agent.site(), now) else { return false };
                Directory::new(Some(site))
            }
            Lane::Listed | Lane::Open => return false,
        };
        let known = self.known(lane);
        known.make_room(MAX_DIRECTORIES, |directory| directory.worth(now));
        if lane == Lane::Open && known.len() >= MAX_DIRECTORIES {
            return false;
        }
        known.insert(agent.clone(), directory);
        true
    }

    /// A place among the directories of a domain.
    fn site(&mut self, name: &str, now: Mono) -> Option<Arc<()>> {
        // One reference is the table's own.
        let is_full = |sites: &BoundedMap<String, Arc<()>>| {
            sites.get(name).is_some_and(|site| Arc::strong_count(site) > MAX_OF_SITE)
        };
        if is_full(&self.sites) {
            self.open.retain(|directory| directory.worth(now) != Worth::Nothing);
        }
        if is_full(&self.sites) {
            return None;
        }
        if let Some(site) = self.sites.get(name) {
            return Some(site.clone());
        }
        let worth = |site: &Arc<()>| if Arc::strong_count(site) == 1 { Worth::Nothing } else { Worth::Kept };
        self.sites.make_room(MAX_DIRECTORIES, worth);
        Some(self.sites.insert(name.to_owned(), Arc::default()).clone())
    }
}

impl Directory {
    fn new(site: Option<Arc<()>>) -> Self {
        let never = Mono(f64::NEG_INFINITY);
        Directory {
            keys: None,
            fresh_until: never,
            next_fetch: never,
            failures: 0,
            fault: String::new(),
            is_fetching: false,
            asked: never,
            verified: never,
            _site: site,
        }
    }

    fn current(&self, now: Mono) -> Option<&KeySet> {
        self.keys.as_deref().filter(|_| now.since(self.fresh_until) < STALE)
    }

    fn is_due(&self, has_key: bool, now: Mono) -> bool {
        !self.is_fetching && now.since(self.next_fetch) >= 0.0 && (!has_key || now.since(self.fresh_until) >= 0.0)
    }

    fn turn_kind(&self, lane: Lane, now: Mono) -> TurnKind {
        match (lane, self.current(now)) {
            (Lane::Listed, _) => TurnKind::Listed,
            (Lane::Open, Some(_)) => TurnKind::Known,
            (Lane::Open, None) => TurnKind::New,
        }
    }

    /// The reason why a key isn't known.
    fn fault(&self, no_key: NoKey, now: Mono, lacks_turn: bool) -> Found {
        match self.current(now) {
            Some(_) => Found::NoKey(no_key),
            None if self.is_fetching && self.failures == 0 => Found::Fetching,
            None if lacks_turn && self.failures == 0 => Found::NoTurn,
            None => Found::Failed(self.fault.clone()),
        }
    }

    fn settle(&mut self, fetched: Fetched, now: Mono) {
        self.is_fetching = false;
        let reason = match fetched {
            Fetched::Keys(keys, life) => {
                self.keys = Some(Arc::new(keys));
                self.fresh_until = now.plus(life.as_secs_f64());
                self.next_fetch = now.plus(MISSING_KEY);
                self.failures = 0;
                return;
            }
            Fetched::Withdrawn(reason) => {
                self.keys = None;
                reason
            }
            Fetched::Failed(reason) => reason,
        };
        let wait = FIRST_RETRY * f64::from(2).powi(self.failures.min(10));
        self.next_fetch = now.plus(wait.min(LAST_RETRY));
        self.failures += 1;
        self.fault = cut(&reason).to_owned();
    }

    /// Directories that have keys stay longest.
    fn worth(&self, now: Mono) -> Worth {
        const RANK: f64 = 1e12;
        if self.is_fetching || now.since(self.verified) < OF_USE {
            return Worth::Kept;
        }
        match self.current(now) {
            Some(_) => Worth::Some(RANK + self.asked.0),
            None if now.since(self.next_fetch) >= 0.0 => Worth::Nothing,
            None => Worth::Some(self.asked.0),
        }
    }
}

impl FetchTurn {
    pub(super) fn finish(mut self, fetched: Fetched) {
        self.fetched = Some(fetched);
    }
}

impl Drop for FetchTurn {
    fn drop(&mut self) {
        let given_up = || Fetched::Failed("the fetch was given up".to_owned());
        let fetched = self.fetched.take().unwrap_or_else(given_up);
        self.directories.finish(self, fetched);
    }
}

#[cfg(test)]
mod tests;
