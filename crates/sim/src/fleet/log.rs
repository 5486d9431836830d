// SPDX-License-Identifier: BSD-2-Clause
//! The log's server in a history, and connections to it, which break where it is drawn: before a question arrives, after it was
//! carried out and before the answer comes, and between two entries of a batch. What overtakes another on the way is noticed by a connection,
//! as NATS' is: it breaks. The log may lose what it has acknowledged, one replica may lack entries or return other bits, and the log may become two for a
//! while. What is delivered comes late, as nodes take their steps late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use base::Clock;
use base::lock::Mutex;
use fleet::{
    Connect, FleetEntry, FleetLink, IncomingEntry, LinkFault, LogBounds, LogServer, NextEntries, OutgoingEntry, Read,
};

use super::Happening;
use super::node::url_of;
use super::plan::{NODES, REPLICAS, SimFleetPlan};
use crate::dice::SimDice;
use crate::history::{SimEvent, SimHistory};

#[derive(Clone)]
pub(crate) struct SimLogServer {
    state: Arc<Mutex<SimLogState>>,
    history: SimHistory,
    clock: Clock,
}

struct SimLogState {
    dice: SimDice,
    knows_ids: bool,
    is_up: bool,
    is_cut: [bool; NODES],
    /// Connections of before the last cut or death are gone.
    lives: [u64; NODES],
    log: Log,
    /// The log of the nodes on the other side, while it is split.
    second: Option<(Log, [bool; NODES])>,
    saved: Option<Log>,
    epochs: u64,
    /// Moment of the history from which on a node's connection has given it all that there was.
    caught_up: [Option<usize>; NODES],
    /// The node was told that there is nothing more.
    is_idle: [bool; NODES],
    bells: [Arc<rt::Notify>; NODES],
}

#[derive(Clone, Default)]
struct Log {
    epoch: u64,
    trimmed: u64,
    entries: Vec<Logged>,
    holes: [BTreeSet<u64>; REPLICAS],
    /// Bits that a replica returns otherwise, by the entry's number.
    flips: [BTreeMap<u64, u64>; REPLICAS],
}

impl Log {
    fn kept(&self) -> impl Iterator<Item = &Logged> {
        self.entries.iter().skip(self.trimmed as usize)
    }

    /// An entry as a replica returns it.
    fn text(&self, replica: usize, seq: u64, entry: &Logged) -> Vec<u8> {
        let mut bytes = entry.bytes.clone();
        if let Some(bit) = self.flips[replica].get(&seq) {
            let at = bit % (bytes.len() as u64 * 8);
            bytes.iter_mut().skip((at / 8) as usize).take(1).for_each(|byte| *byte ^= 1 << (at % 8));
        }
        bytes
    }
}

#[derive(Clone)]
struct Logged {
    /// The id of this attempt to append it, by which the server recognises it.
    key: String,
    id: String,
    bytes: Vec<u8>,
}

impl SimLogServer {
    pub fn new(plan: &SimFleetPlan, seed: u64, history: SimHistory, clock: Clock) -> SimLogServer {
        let state = SimLogState {
            dice: SimDice::for_thing(seed, "log", 0),
            knows_ids: plan.knows_ids,
            is_up: true,
            is_cut: Default::default(),
            lives: Default::default(),
            log: Log::default(),
            second: None,
            saved: None,
            epochs: 1,
            caught_up: Default::default(),
            is_idle: Default::default(),
            bells: Default::default(),
        };
        SimLogServer { state: Arc::new(Mutex::new(state)), history, clock }
    }

    pub fn connector(&self, node: usize) -> Arc<dyn Connect> {
        Arc::new(Door { engine: self.clone(), node })
    }

    fn note(&self, what: Happening) -> usize {
        self.history.add(std::time::Duration::from_secs_f64(self.clock.mono().0), SimEvent::Fleet(what))
    }

    fn change(&self, change: impl FnOnce(&mut SimLogState)) {
        let bells = {
            let mut state = self.state.lock();
            change(&mut state);
            state.bells.clone()
        };
        bells.iter().for_each(|bell| bell.waker().wake());
    }

    pub fn die(&self) {
        self.change(|state| {
            state.is_up = false;
            state.lives.iter_mut().for_each(|life| *life += 1);
        });
    }

    pub fn start(&self) {
        self.change(|state| state.is_up = true);
    }

    pub fn cut(&self, node: usize, is_cut: bool) {
        self.change(|state| {
            state.is_cut[node] = is_cut;
            state.lives[node] += 1;
        });
    }

    pub fn forget(&self, node: usize) {
        self.change(|state| {
            state.lives[node] += 1;
            state.caught_up[node] = None;
        });
    }

    pub fn trim(&self, count: u64) {
        self.change(|state| {
            // docs/fleet.md promises nothing for what is trimmed while nodes that had read beyond it are cut off.
            if state.second.is_some() {
                return;
            }
            state.log.trimmed = (state.log.trimmed + count).min(state.log.entries.len() as u64);
        });
    }

    pub fn save(&self) {
        self.change(|state| state.saved = Some(state.log.clone()));
    }

    pub fn put_back(&self) {
        let Some(saved) = self.state.lock().saved.clone() else { return };
        self.replace_by(saved);
    }

    pub fn replace(&self) {
        let epoch = self.state.lock().epochs;
        self.state.lock().epochs += 1;
        self.replace_by(Log { epoch, ..Log::default() });
    }

    pub fn lose_tail(&self, count: u64) {
        let mut log = self.state.lock().log.clone();
        let left = (log.entries.len() as u64).saturating_sub(count).max(log.trimmed);
        log.entries.truncate(left as usize);
        self.replace_by(log);
    }

    pub fn hole(&self, replica: usize, back: u64, count: u64) {
        self.change(|state| {
            let end = (state.log.entries.len() as u64).saturating_sub(back);
            state.log.holes[replica].extend(end.saturating_sub(count) + 1..=end);
            state.lives.iter_mut().for_each(|life| *life += 1);
        });
    }

    pub fn flip(&self, replica: usize, back: u64, bit: u64) {
        self.change(|state| {
            let end = state.log.entries.len() as u64;
            if let Some(seq) = end.checked_sub(back).filter(|seq| *seq > 0) {
                state.log.flips[replica].insert(seq, bit);
            }
            state.lives.iter_mut().for_each(|life| *life += 1);
        });
    }

    /// Splits the log: nodes whose bit is set write to another one, and read it.
    pub fn split(&self, sides: u64) {
        self.change(|state| {
            if state.second.is_none() {
                let log = state.log.clone();
                state.second = Some((log, std::array::from_fn(|node| sides >> node & 1 == 1)));
                state.lives.iter_mut().for_each(|life| *life += 1);
            }
        });
    }

    /// Ends the split: one of the two goes on, and the other one is discarded.
    pub fn unsplit(&self, keeps_second: bool) {
        let Some((second, _)) = self.state.lock().second.take() else { return };
        self.change(|state| {
            if keeps_second {
                state.log = second;
            }
            state.lives.iter_mut().for_each(|life| *life += 1);
        });
        // Also what an operator's backup of the other one lacked.
        let all = self.state.lock().log.clone();
        all.kept().for_each(|entry| _ = self.note(Happening::Found { id: entry.id.clone() }));
    }

    pub fn heal(&self) {
        self.unsplit(false);
        self.change(|state| {
            state.log.holes = Default::default();
            state.log.flips = Default::default();
            state.lives.iter_mut().for_each(|life| *life += 1);
        });
    }

    fn replace_by(&self, log: Log) {
        let (lost, found) = {
            let state = self.state.lock();
            (ids_beside(&state.log, &log), ids_beside(&log, &state.log))
        };
        lost.into_iter().for_each(|id| _ = self.note(Happening::Lost { id }));
        found.into_iter().for_each(|id| _ = self.note(Happening::Found { id }));
        self.change(|state| {
            state.log = log;
            state.lives.iter_mut().for_each(|life| *life += 1);
        });
    }

    pub fn stranger(&self) {
        self.change(|state| {
            if state.is_up {
                let bytes: &[u8] = if state.dice.one_in(2) { b"hello" } else { br#"{"lacquer":9,"new":1}"# };
                state.log.entries.push(Logged { key: String::new(), id: String::new(), bytes: bytes.to_vec() });
            }
        });
    }

    /// Moment since which a node has all that there was then.
    pub fn caught_up(&self, node: usize) -> Option<usize> {
        self.state.lock().caught_up[node]
    }

    /// True if the node was told that there is nothing more; told once.
    pub fn take_idle(&self, node: usize) -> bool {
        std::mem::take(&mut self.state.lock().is_idle[node])
    }

    pub fn bell(&self, node: usize) -> Arc<rt::Notify> {
        self.state.lock().bells[node].clone()
    }

    pub fn end(&self) -> (String, u64) {
        let state = self.state.lock();
        (state.log.epoch.to_string(), state.log.entries.len() as u64)
    }
}

/// Ids of what one log had, and the other hasn't, or not any more.
fn ids_beside(log: &Log, other: &Log) -> Vec<String> {
    let is_there = |id: &String| other.kept().any(|entry| entry.id == *id);
    log.entries.iter().map(|entry| entry.id.clone()).filter(|id| !is_there(id)).collect()
}

struct Door {
    engine: SimLogServer,
    node: usize,
}

impl Connect for Door {
    fn connect(&self, _server: &LogServer, _until: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
        let mut state = self.engine.state.lock();
        state.check(self.node, None)?;
        let (life, replica) = (state.lives[self.node], state.dice.below(REPLICAS as u64) as usize);
        drop(state);
        Ok(Box::new(Session { engine: self.engine.clone(), node: self.node, life, replica, seen: 0, from: 0 }))
    }
}

impl SimLogState {
    /// Checks that a question of that node's connection arrives.
    fn check(&mut self, node: usize, life: Option<u64>) -> Result<(), LinkFault> {
        let is_there = self.is_up && !self.is_cut[node] && life.is_none_or(|life| life == self.lives[node]);
        if is_there && !self.dice.one_in(60) {
            return Ok(());
        }
        Err(LinkFault::new("the connection is gone"))
    }

    fn log(&mut self, node: usize) -> &mut Log {
        match &mut self.second {
            Some((second, sides)) if sides[node] => second,
            Some(_) | None => &mut self.log,
        }
    }

    fn append(&mut self, node: usize, entry: &OutgoingEntry<'_>, id: &str) -> (u64, bool) {
        let knows_ids = self.knows_ids;
        let entries = &mut self.log(node).entries;
        let known = entries.iter().position(|known| known.key == entry.id).filter(|_| knows_ids);
        let seq = known.unwrap_or_else(|| {
            let (key, id) = (entry.id.to_owned(), id.to_owned());
            entries.push(Logged { key, id, bytes: entry.bytes.to_vec() });
            entries.len() - 1
        });
        (seq as u64 + 1, known.is_none())
    }
}

struct Session {
    engine: SimLogServer,
    node: usize,
    life: u64,
    replica: usize,
    /// The moment at which it looked at the log's bounds last.
    seen: usize,
    from: u64,
}

impl Session {
    fn check(&mut self) -> Result<(), LinkFault> {
        self.engine.state.lock().check(self.node, Some(self.life))
    }
}

impl FleetLink for Session {
    fn bounds(&mut self) -> Result<LogBounds, LinkFault> {
        self.check()?;
        self.seen = self.engine.history.len();
        let mut state = self.engine.state.lock();
        let log = state.log(self.node);
        Ok(LogBounds { epoch: log.epoch.to_string(), first: log.trimmed + 1, last: log.entries.len() as u64 })
    }

    fn append(&mut self, entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault> {
        self.check()?;
        let mut results = Vec::new();
        for entry in entries {
            if self.engine.state.lock().dice.one_in(40) {
                self.engine.change(|_| ());
                return Err(LinkFault::new("it died in the midst"));
            }
            if self.engine.state.lock().dice.one_in(60) {
                results.push(Err(LinkFault::new("no room")));
                continue;
            }
            let (id, url) = match FleetEntry::read(entry.bytes) {
                Read::Entry(entry) => (entry.id, url_of(&entry.what)),
                Read::Foreign(_) | Read::Unclear(_) | Read::Damaged(_) => (String::new(), None),
            };
            let (seq, is_new) = self.engine.state.lock().append(self.node, entry, &id);
            if is_new {
                let what = url.filter(|_| entry.id == id).map(|url| (self.node, url));
                self.engine.note(Happening::Logged { node: self.node, id: id.clone(), seq, what });
                // Not yet for all: it may be on the side that is discarded.
                if self.engine.state.lock().second.is_some() {
                    self.engine.note(Happening::Lost { id });
                }
            }
            results.push(Ok(seq));
        }
        self.engine.change(|_| ());
        match self.engine.state.lock().dice.one_in(12) {
            true => Err(LinkFault::new("the answer is lost")),
            false => Ok(results),
        }
    }

    fn follow(&mut self, from: u64) -> Result<(), LinkFault> {
        self.check()?;
        self.engine.state.lock().caught_up[self.node] = None;
        self.from = from;
        Ok(())
    }

    fn next(&mut self) -> Result<NextEntries, LinkFault> {
        let checked = self.check();
        let mut state = self.engine.state.lock();
        state.caught_up[self.node] = None;
        checked?;
        // One overtakes another, which is noticed.
        if state.dice.one_in(80) {
            return Err(LinkFault::new("something was lost on the way"));
        }
        let most = 1 + state.dice.below(4) as usize;
        let (replica, log) = (self.replica, state.log(self.node));
        let from = self.from.max(log.trimmed + 1).max(1);
        let there = (1..).zip(&log.entries).skip(from as usize - 1);
        let there = there.filter(|(seq, _)| !log.holes[replica].contains(seq)).take(most);
        let entries: Vec<IncomingEntry> =
            there.map(|(seq, entry)| IncomingEntry { seq, bytes: log.text(replica, seq, entry) }).collect();
        let end = entries.last().map_or(self.from.max(1), |entry| entry.seq + 1);
        let left = (log.entries.len() as u64 + 1).saturating_sub(end);
        if left == 0 {
            state.caught_up[self.node] = Some(self.seen);
        }
        if entries.is_empty() {
            state.is_idle[self.node] = true;
            return Ok(NextEntries::Quiet);
        }
        self.from = end;
        Ok(NextEntries::Entries { entries, left })
    }
}
