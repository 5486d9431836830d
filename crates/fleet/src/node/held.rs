// SPDX-License-Identifier: BSD-2-Clause
//! The newest entries that this node has seen in the log or appended. When the log loses some of them, this node
//! appends them again: a node that had never seen them would miss them.
//!
//! ```text
//! own entry ──▶ Queued ── acknowledged, or read ──▶ Logged ── another entry has its number, or none ──▶ Lost
//!                 ▲                                   ▲ read under a new number                          │
//!                 └───────────────────────────────────┴── appended again, unless another node was first ─┘
//! ```
//!
//! A process that begins finds in its journal what is logged, and takes the rest for lost until it reads it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::hex;

use super::PendingInvalidation;
use crate::rules::Gap;
use crate::{FleetEntry, Invalidation, LogBounds, Read, entry, mark};

/// Entries that a node holds. [`BYTES`] and [`AGE`] bound them, too.
pub const HELD: usize = 8192;
const BYTES: usize = 4 << 20;
const AGE: Duration = Duration::from_secs(24 * 3600);
/// Own entries that are appended again although all nodes are told to invalidate everything: another node may have told
/// that before the entry was acknowledged by a log that was split.
const RECENT: Duration = Duration::from_secs(600);
const LONGEST_ID: usize = 64;
/// Bytes of a held entry beside its text.
const COST: usize = 200;

/// A held entry as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRecord {
    pub id: String,
    /// Number in the log; 0: it isn't known to be there.
    pub seq: u64,
    /// Mark of the entry as the log has it ([`crate::mark`]).
    pub mark: u64,
    /// Empty: the entry isn't held any more.
    pub bytes: Arc<[u8]>,
    /// Time since it was held first.
    pub age: Duration,
}

/// An entry as it would be appended again.
#[derive(Clone)]
pub(super) struct HeldForm {
    pub id: String,
    pub mark: u64,
    pub bytes: Arc<[u8]>,
    pub is_own: bool,
    /// Nobody else appends the same text.
    is_unique: bool,
}

impl HeldForm {
    /// The form of what `node` has read from the log; `None` if it says nothing to a fleet.
    pub fn of(read: &Read, bytes: &[u8], node: &str) -> Option<HeldForm> {
        let mark = mark(bytes);
        let by_mark = || hex::encode(&mark.to_le_bytes());
        match read {
            Read::Entry(FleetEntry { id, node: maker, .. }) => {
                let is_unique =
                    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
                // Other programs may write any id there, and the same one into each entry.
                let is_name = is_unique && (is_word(id) || entry::is_again(bytes));
                let id = if is_name { id.clone() } else { by_mark() };
                Some(HeldForm { id, mark, bytes: bytes.into(), is_own: maker == node, is_unique })
            }
            // Such an entry did invalidate everything here. Nobody would know it again by an id of its own.
            Read::Unclear(_) => {
                let id = by_mark();
                let bytes = everything(&id, node, "an entry that can't be understood was lost");
                Some(HeldForm { id, mark, bytes, is_own: false, is_unique: false })
            }
            // Nodes that have read what it was hold that.
            Read::Foreign(_) | Read::Damaged(_) => None,
        }
    }
}

/// The record that deletes that of an entry.
fn gone(id: String) -> HeldRecord {
    HeldRecord { id, seq: 0, mark: 0, bytes: Arc::default(), age: Duration::ZERO }
}

/// Checks for an id as nodes draw it (`Shared::word`).
fn is_word(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The entry `id` that invalidates everything, for that reason.
pub(super) fn everything(id: &str, node: &str, why: &str) -> Arc<[u8]> {
    let what = Invalidation::All(why.to_owned());
    let entry = FleetEntry { id: id.to_owned(), node: node.to_owned(), at: 0.0, what };
    entry.encode().unwrap_or_default().into()
}

struct HeldEntry {
    form: HeldForm,
    state: HeldState,
    losses: u32,
    turn: u64,
    since: Instant,
    was_read: bool,
    /// Mark of the newest attempt to append it again that was refused: the log may have it all the same.
    refused: Option<u64>,
}

enum HeldState {
    Queued,
    Logged(u64),
    /// Due at that moment.
    Lost(Instant, PendingInvalidation),
}

pub(super) struct LostEntry {
    pub id: String,
    /// The id by which the log's server recognises this attempt: it may still know the former one.
    pub key: String,
    pub bytes: Arc<[u8]>,
    pub pending: PendingInvalidation,
}

/// When lost entries are appended again: own ones at once, so that other nodes needn't.
pub(super) struct Losses<'a> {
    pub now: Instant,
    /// The time that a node leaves an entry of that id to others.
    pub delay: &'a dyn Fn(&str) -> Duration,
    pub pending: &'a dyn Fn() -> PendingInvalidation,
}

impl Losses<'_> {
    fn lost(&self, form: &HeldForm) -> HeldState {
        let delay = if form.is_own { Duration::ZERO } else { (self.delay)(&form.id) };
        HeldState::Lost(self.now + delay, (self.pending)())
    }
}

pub(super) struct Held {
    entries: HashMap<String, HeldEntry>,
    places: BTreeMap<u64, String>,
    /// Number of the entry that was read last. What is behind it is own and unread, or to be read again.
    read_to: u64,
    /// Numbers and ids in the order in which they came. The number of an entry that is gone is nobody's.
    order: VecDeque<(u64, String)>,
    turns: u64,
    /// Entries that were lost and haven't been read again.
    owed: BTreeSet<String>,
    /// The entry that invalidates everything on all nodes, while it is owed.
    alarm: Option<String>,
    bytes: usize,
    most: usize,
}

impl Held {
    pub fn new(most: usize) -> Held {
        let (entries, places, order, owed, alarm) = Default::default();
        Held { entries, places, read_to: 0, order, turns: 0, owed, alarm, bytes: 0, most }
    }

    /// Takes over what the journal has; the records of what is too old by now, to be deleted there.
    pub fn load(&mut self, mut records: Vec<HeldRecord>, node: &str, losses: &Losses<'_>) -> Vec<HeldRecord> {
        records.sort_by_key(|record| if record.seq == 0 { u64::MAX } else { record.seq });
        let (old, young): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.age > AGE);
        for HeldRecord { id, seq, mark, bytes, age } in young {
            let Some(form) = HeldForm::of(&FleetEntry::read(&bytes), &bytes, node) else { continue };
            self.insert(HeldForm { id: id.clone(), mark, ..form }, losses.now.checked_sub(age).unwrap_or(losses.now));
            self.entries.entry(id.clone()).and_modify(|entry| entry.was_read = seq > 0);
            match seq {
                0 => self.lose(&id, losses),
                // Nobody knows which of two it is: both are looked for.
                seq if self.places.contains_key(&seq) => {
                    let other = self.places[&seq].clone();
                    [id, other].iter().for_each(|id| self.lose(id, losses));
                }
                seq => self.place(&id, seq),
            }
        }
        old.into_iter().map(|record| gone(record.id)).collect()
    }

    pub fn queue(&mut self, form: HeldForm, now: Instant) -> Vec<HeldRecord> {
        let id = form.id.clone();
        self.insert(form, now);
        let mut changed = self.prune(now);
        changed.extend(self.record(&id, now));
        changed
    }

    /// The log has acknowledged an entry under that number, when this node had read those up to `applied`.
    pub fn acknowledged(&mut self, id: &str, seq: u64, applied: u64, losses: &Losses<'_>) {
        let Some(entry) = self.entries.get(id) else { return };
        if !matches!(entry.state, HeldState::Queued) {
            return;
        }
        match seq <= applied || self.places.contains_key(&seq) {
            true => self.lose(id, losses),
            false => self.place(id, seq),
        }
    }

    pub fn refused(&mut self, id: &str) -> Option<HeldRecord> {
        let is_queued = self.entries.get(id).is_some_and(|entry| matches!(entry.state, HeldState::Queued));
        if is_queued { self.remove(id) } else { None }
    }

    /// An attempt to append it again was refused, with that mark if it was sent; true if the log has that attempt all the
    /// same. Redis refuses an entry that it has if too few replicas have it.
    pub fn refused_again(&mut self, id: &str, sent: Option<u64>, until: Instant, pending: PendingInvalidation) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        if matches!(entry.state, HeldState::Queued) {
            (entry.state, entry.refused) = (HeldState::Lost(until, pending), sent);
        }
        matches!(entry.state, HeldState::Logged(_)) && sent == Some(entry.form.mark)
    }

    /// True if this entry of the log is an attempt of this node that was refused.
    pub fn is_refused(&self, form: &HeldForm) -> bool {
        self.entries.get(&form.id).is_some_and(|entry| entry.refused == Some(form.mark))
    }

    pub fn newest(&self) -> u64 {
        self.places.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// Numbers at which a log can be recognised, up to `last`: the newest one, then ever larger steps back.
    pub fn probes(&self, last: u64, bounds: &LogBounds) -> Vec<(u64, u64)> {
        let last = last.min(bounds.last);
        if bounds.first > last {
            return Vec::new();
        }
        // An own entry that was acknowledged and not read tells nothing: another log may have acknowledged it.
        let known = |(seq, id): (&u64, &String)| {
            let HeldEntry { form, was_read, .. } = self.entries.get(id)?;
            (form.is_unique && *was_read).then_some((*seq, form.mark))
        };
        let all: Vec<(u64, u64)> = self.places.range(bounds.first..=last).rev().filter_map(known).collect();
        let mut at = 0;
        let mut probes = Vec::new();
        while let Some(probe) = all.get(at) {
            probes.push(*probe);
            at = at * 2 + 1;
        }
        // The oldest one, where the steps have passed it by.
        probes.extend(all.last().filter(|last| probes.last() != Some(last)));
        probes
    }

    pub fn is_at(&self, seq: u64, mark: u64) -> bool {
        let entry = self.places.get(&seq).and_then(|id| self.entries.get(id));
        entry.is_some_and(|entry| entry.form.mark == mark)
    }

    /// The number of the oldest entry here that a log of these bounds may have.
    pub fn earliest(&self, bounds: &LogBounds) -> Option<u64> {
        let mut places = self.places.range(bounds.first..);
        places.next().map(|(seq, _)| *seq).filter(|seq| *seq <= bounds.last)
    }

    /// The log has an entry with that mark under that number.
    pub fn compare(&mut self, seq: u64, mark: u64, losses: &Losses<'_>) -> Vec<HeldRecord> {
        match self.places.contains_key(&seq) && !self.is_at(seq, mark) {
            true => self.lose_between(seq, seq, losses),
            false => Vec::new(),
        }
    }

    pub fn lose_between(&mut self, from: u64, to: u64, losses: &Losses<'_>) -> Vec<HeldRecord> {
        if from > to || base::failpoint::fault("an entry that the log has lost and nobody misses") {
            return Vec::new();
        }
        let lost: Vec<String> = self.places.range(from..=to).map(|(_, id)| id.clone()).collect();
        lost.iter().for_each(|id| self.lose(id, losses));
        lost.iter().filter_map(|id| self.record(id, losses.now)).collect()
    }

    pub fn read(&mut self, seq: u64, form: Option<HeldForm>, losses: &Losses<'_>) -> Vec<HeldRecord> {
        self.read_to = seq;
        let id = form.as_ref().map(|form| form.id.clone());
        let is_other = self.places.get(&seq).is_some_and(|known| Some(known) != id.as_ref());
        let mut changed = if is_other { self.lose_between(seq, seq, losses) } else { Vec::new() };
        if let Some(form) = form {
            let id = form.id.clone();
            let losses_before = self.entries.get(&id).map_or(0, |entry| entry.losses);
            self.insert(form, losses.now);
            self.entries.entry(id.clone()).and_modify(|entry| (entry.losses, entry.was_read) = (losses_before, true));
            self.place(&id, seq);
            self.owed.remove(&id);
            changed.extend(self.record(&id, losses.now));
        }
        changed.extend(self.prune(losses.now));
        changed
    }

    /// Everything was invalidated on this node. If entries were lost that nobody may hold, all nodes have to do the same,
    /// and the numbers don't mean anything any more. Otherwise this node goes on holding what it has read: a log that was
    /// trimmed may yet be restored from a backup of before. Own entries that were never read are lost,
    /// and so are entries beyond `last`, where the log ends.
    pub fn forsake(
        &mut self,
        gap: Option<&Gap>,
        last: u64,
        alarm: String,
        node: &str,
        losses: &Losses<'_>,
    ) -> Vec<HeldRecord> {
        if gap.is_none_or(|gap| gap.lost_before.is_none()) {
            let is_forgotten = base::failpoint::fault("an entry that wasn't lost and is appended again");
            let was_read = |id: &String| self.entries.get(id).is_some_and(|entry| entry.was_read && !is_forgotten);
            let is_lost = |(seq, id): &(&u64, &String)| **seq > last || !was_read(id);
            let lost: Vec<String> = self.places.iter().filter(is_lost).map(|(_, id)| id.clone()).collect();
            lost.iter().for_each(|id| self.lose(id, losses));
            return lost.iter().filter_map(|id| self.record(id, losses.now)).collect();
        }
        let logged: Vec<String> = std::mem::take(&mut self.places).into_values().collect();
        let owed: Vec<String> = std::mem::take(&mut self.owed).into_iter().collect();
        let is_past = |held: &HeldEntry| !matches!(held.state, HeldState::Queued);
        let old = logged.into_iter().chain(owed).filter(|id| self.entries.get(id).is_some_and(is_past));
        let is_recent = |id: &String| {
            let since = self.entries.get(id).filter(|entry| entry.form.is_own).map(|entry| entry.since);
            since.is_some_and(|since| losses.now.saturating_duration_since(since) < RECENT)
        };
        let (recent, old): (Vec<String>, Vec<String>) = old.partition(is_recent);
        let mut changed: Vec<HeldRecord> = old.iter().filter_map(|id| self.remove(id)).collect();
        for id in &recent {
            self.lose(id, losses);
            self.owed.insert(id.clone());
            changed.extend(self.record(id, losses.now));
        }
        if base::failpoint::fault("a loss of which nobody is told") {
            return changed;
        }
        let bytes = everything(&alarm, node, "the log has lost entries that may be held by nobody");
        let form = HeldForm { id: alarm.clone(), mark: 0, bytes, is_own: false, is_unique: true };
        self.insert(form, losses.now);
        self.lose(&alarm, losses);
        changed.extend(self.record(&alarm, losses.now));
        self.alarm = Some(alarm);
        changed
    }

    /// Another node has told all what this one was going to tell.
    pub fn is_told(&mut self) -> Option<HeldRecord> {
        let alarm = self.alarm.take()?;
        let is_lost = self.entries.get(&alarm).is_some_and(|entry| matches!(entry.state, HeldState::Lost(..)));
        if is_lost { self.remove(&alarm) } else { None }
    }

    pub fn due(&mut self, now: Instant, most: usize) -> Vec<LostEntry> {
        let is_due = |id: &&String| {
            let state = self.entries.get(*id).map(|entry| &entry.state);
            matches!(state, Some(HeldState::Lost(due, _)) if *due <= now)
        };
        let due: Vec<String> = self.owed.iter().filter(is_due).take(most).cloned().collect();
        due.into_iter().filter_map(|id| self.take_lost(id)).collect()
    }

    /// Drops all without a change in the journal: the node ends.
    pub fn let_go(&mut self) {
        *self = Held::new(self.most);
    }

    pub fn owed(&self) -> u64 {
        self.owed.len() as u64
    }

    #[cfg(test)]
    pub fn ordered(&self) -> usize {
        self.order.len()
    }

    pub fn records(&self, now: Instant) -> Vec<HeldRecord> {
        self.entries.keys().filter_map(|id| self.record(id, now)).collect()
    }

    fn take_lost(&mut self, id: String) -> Option<LostEntry> {
        let entry = self.entries.get_mut(&id)?;
        match std::mem::replace(&mut entry.state, HeldState::Queued) {
            HeldState::Lost(_, pending) => {
                let key = format!("{id}.{}", entry.losses);
                Some(LostEntry { id, key, bytes: entry.form.bytes.clone(), pending })
            }
            state => {
                entry.state = state;
                None
            }
        }
    }

    fn insert(&mut self, form: HeldForm, now: Instant) {
        let (id, cost) = (form.id.clone(), form.bytes.len() + COST);
        let since = self.take(&id).map_or(now, |former| former.since);
        self.bytes += cost;
        // Anew with each reading: the oldest ones are to be those with the lowest numbers, or there would be a hole in what is held.
        let turn = self.line_up(&id);
        let (state, losses, was_read, refused) = (HeldState::Queued, 0, false, None);
        self.entries.insert(id, HeldEntry { form, state, losses, turn, since, was_read, refused });
    }

    fn line_up(&mut self, id: &str) -> u64 {
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|(turn, id)| entries.get(id).is_some_and(|entry| entry.turn == *turn));
        }
        self.turns += 1;
        self.order.push_back((self.turns, id.to_owned()));
        self.turns
    }

    fn place(&mut self, id: &str, seq: u64) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.state = HeldState::Logged(seq);
            self.places.insert(seq, id.to_owned());
        }
    }

    fn lose(&mut self, id: &str, losses: &Losses<'_>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if let HeldState::Logged(seq) = entry.state {
            self.places.remove(&seq);
        }
        if !matches!(entry.state, HeldState::Lost(..)) {
            entry.state = losses.lost(&entry.form);
            entry.losses += 1;
            // Where it comes again, nobody has read it yet.
            entry.was_read = false;
            self.owed.insert(id.to_owned());
        }
    }

    fn take(&mut self, id: &str) -> Option<HeldEntry> {
        let entry = self.entries.remove(id)?;
        self.bytes -= entry.form.bytes.len() + COST;
        if let HeldState::Logged(seq) = entry.state
            && self.places.get(&seq).is_some_and(|there| there == id)
        {
            self.places.remove(&seq);
        }
        Some(entry)
    }

    fn remove(&mut self, id: &str) -> Option<HeldRecord> {
        self.owed.remove(id);
        self.take(id).map(|_| gone(id.to_owned()))
    }

    fn record(&self, id: &str, now: Instant) -> Option<HeldRecord> {
        let HeldEntry { form, state, since, .. } = self.entries.get(id)?;
        let seq = if let HeldState::Logged(seq) = state { *seq } else { 0 };
        let age = now.saturating_duration_since(*since);
        Some(HeldRecord { id: id.to_owned(), seq, mark: form.mark, bytes: form.bytes.clone(), age })
    }

    /// Lets go of the oldest ones beyond the bounds. What isn't in the log, and what is to be read there, is kept beside as much of what was read:
    /// it may turn out to be lost.
    fn prune(&mut self, now: Instant) -> Vec<HeldRecord> {
        let mut gone = Vec::new();
        let mut to_be_read = self.places.range(self.read_to + 1..).count();
        for _ in 0..self.order.len() {
            let is_old = |(_, id): &(u64, String)| {
                self.entries.get(id).is_none_or(|entry| now.saturating_duration_since(entry.since) > AGE)
            };
            let most_bytes = if self.owed.is_empty() && to_be_read == 0 { BYTES } else { 2 * BYTES };
            let has_much = to_be_read > self.most || self.bytes > most_bytes;
            let has_many = has_much || self.places.len() - to_be_read > self.most;
            let is_first_old = self.order.front().is_some_and(is_old);
            if !has_many && !is_first_old {
                break;
            }
            let Some((turn, id)) = self.order.pop_front() else { break };
            match self.entries.get(&id).filter(|entry| entry.turn == turn).map(|entry| &entry.state) {
                Some(HeldState::Logged(seq)) if *seq <= self.read_to || has_much || is_first_old => {
                    to_be_read -= usize::from(*seq > self.read_to);
                    gone.extend(self.remove(&id));
                }
                Some(_) => self.order.push_back((turn, id)),
                None => {}
            }
        }
        gone
    }
}
