// SPDX-License-Identifier: BSD-2-Clause
//! The directories of agents, for the whole process: what they said last, and when each may be fetched again. No request waits for a
//! fetch. Number, rate and concurrency are bounded, as clients may name directories.

use std::sync::Arc;
use std::time::Duration;

use base::Mono;
use parking_lot::Mutex;
use vmod_support::bounded::{BoundedMap, Worth};

use super::agents::{Agent, Lane};
use super::keys::{Key, KeySet};

const MAX_DIRECTORIES: usize = 1024;
/// Fetches at the same time, of each lane.
const MAX_FETCHES: usize = 4;
/// Fetches of directories that clients name: so many at once, and then one in so many seconds.
const BURST: f64 = 32.0;
const SECONDS_PER_FETCH: f64 = 1.0;
/// A directory without the key that a request names is fetched again after this time at the earliest.
const MISSING_KEY: f64 = 60.0;
const FIRST_RETRY: f64 = 10.0;
const LAST_RETRY: f64 = 300.0;
/// Keys count for this time after their lifetime, if the directory can't be fetched.
const STALE: f64 = 7.0 * 86_400.0;

/// The answer of a directory about a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Key(Key),
    NoSuchKey,
    /// The directory is being fetched for the first time.
    Fetching,
    /// Too many others are being fetched.
    NoTurn,
    Failed(String),
}

/// The keys of a directory, and how long they are fresh.
pub(super) type Fetched = Result<(KeySet, Duration), String>;

#[derive(Default)]
pub(super) struct Directories(Mutex<Table>);

struct Table {
    known: BoundedMap<Agent, Directory>,
    fetches: [usize; 2],
    tokens: f64,
    filled: Mono,
}

impl Default for Table {
    fn default() -> Self {
        Table { known: BoundedMap::default(), fetches: [0; 2], tokens: BURST, filled: Mono::default() }
    }
}

struct Directory {
    keys: Option<Arc<KeySet>>,
    fresh_until: Mono,
    next_fetch: Mono,
    failures: i32,
    fault: String,
    is_fetching: bool,
    lane: Lane,
    asked: Mono,
}

/// The duty to fetch a directory. Dropped unfulfilled it is a failure.
pub(super) struct FetchTurn {
    directories: Arc<Directories>,
    pub(super) agent: Agent,
    pub(super) lane: Lane,
    clock: base::Clock,
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
        if !table.known.contains_key(agent) {
            if !table.has_turn(lane, now) {
                return (Found::NoTurn, None);
            }
            table.known.make_room(MAX_DIRECTORIES, |directory| directory.worth(now));
            table.known.insert(agent.clone(), Directory::new(lane));
        }
        let has_turn = table.has_turn(lane, now);
        let directory = table.known.get_mut(agent).expect("it was inserted");
        (directory.lane, directory.asked) = (lane, now);
        let key = directory.current(now).and_then(|keys| keys.find(keyid, real).cloned());
        let is_due = directory.is_due(key.is_some(), now);
        directory.is_fetching |= is_due && has_turn;
        let found = match key {
            Some(key) => Found::Key(key),
            None => directory.fault(now, is_due && !has_turn),
        };
        let turn = (is_due && has_turn).then(|| {
            table.take_turn(lane);
            let (directories, agent, clock) = (self.clone(), agent.clone(), clock.clone());
            FetchTurn { directories, agent, lane, clock, fetched: None }
        });
        (found, turn)
    }

    fn finish(&self, turn: &FetchTurn, fetched: Fetched) {
        let now = turn.clock.mono();
        let mut table = self.0.lock();
        table.fetches[turn.lane as usize] -= 1;
        // It may have made room for others meanwhile.
        if let Some(directory) = table.known.get_mut(&turn.agent) {
            directory.settle(fetched, now);
        }
    }
}

impl Table {
    fn has_turn(&mut self, lane: Lane, now: Mono) -> bool {
        self.tokens = BURST.min(self.tokens + now.since(self.filled).max(0.0) / SECONDS_PER_FETCH);
        self.filled = now;
        self.fetches[lane as usize] < MAX_FETCHES && (lane == Lane::Listed || self.tokens >= 1.0)
    }

    fn take_turn(&mut self, lane: Lane) {
        self.fetches[lane as usize] += 1;
        if lane == Lane::Open {
            self.tokens -= 1.0;
        }
    }
}

impl Directory {
    fn new(lane: Lane) -> Self {
        let never = Mono(f64::NEG_INFINITY);
        Directory {
            keys: None,
            fresh_until: never,
            next_fetch: never,
            failures: 0,
            fault: String::new(),
            is_fetching: false,
            lane,
            asked: never,
        }
    }

    fn current(&self, now: Mono) -> Option<&KeySet> {
        self.keys.as_deref().filter(|_| now.since(self.fresh_until) < STALE)
    }

    fn is_due(&self, has_key: bool, now: Mono) -> bool {
        !self.is_fetching && now.since(self.next_fetch) >= 0.0 && (!has_key || now.since(self.fresh_until) >= 0.0)
    }

    /// The reason why a key isn't known.
    fn fault(&self, now: Mono, lacks_turn: bool) -> Found {
        match self.current(now) {
            Some(_) => Found::NoSuchKey,
            None if self.is_fetching && self.failures == 0 => Found::Fetching,
            None if lacks_turn && self.failures == 0 => Found::NoTurn,
            None => Found::Failed(self.fault.clone()),
        }
    }

    fn settle(&mut self, fetched: Fetched, now: Mono) {
        self.is_fetching = false;
        match fetched {
            Ok((keys, life)) => {
                self.keys = Some(Arc::new(keys));
                self.fresh_until = now.plus(life.as_secs_f64());
                self.next_fetch = now.plus(MISSING_KEY);
                self.failures = 0;
            }
            Err(reason) => {
                let wait = FIRST_RETRY * f64::from(2).powi(self.failures.min(10));
                self.next_fetch = now.plus(wait.min(LAST_RETRY));
                self.failures += 1;
                self.fault = reason;
            }
        }
    }

    /// Listed ones stay longest, then those that have keys.
    fn worth(&self, now: Mono) -> Worth {
        const RANK: f64 = 1e12;
        if self.is_fetching {
            return Worth::Kept;
        }
        let rank = match (self.lane, self.current(now)) {
            (Lane::Listed, _) => 2.0,
            (Lane::Open, Some(_)) => 1.0,
            (Lane::Open, None) if now.since(self.next_fetch) >= 0.0 => return Worth::Nothing,
            (Lane::Open, None) => 0.0,
        };
        Worth::Some(rank * RANK + self.asked.0)
    }
}

impl FetchTurn {
    pub(super) fn finish(mut self, fetched: Fetched) {
        self.fetched = Some(fetched);
    }
}

impl Drop for FetchTurn {
    fn drop(&mut self) {
        let fetched = self.fetched.take().unwrap_or_else(|| Err("the fetch was given up".to_owned()));
        self.directories.finish(self, fetched);
    }
}

#[cfg(test)]
mod tests;
