// SPDX-License-Identifier: BSD-2-Clause
//! What a fleet promises (docs/fleet.md), and whether a history keeps it. *Fetched* is the moment at which the origin was asked for
//! what is answered; all moments are places in the history, so that what is at the same time has an order.
//!
//! 1. Who asks a node after that has carried out an entry, or has given up all, gets nothing that was fetched before that moment, by
//!    that worker or by a later one.
//! 2. Who asks a node after that has acknowledged a purge or ban gets nothing that was fetched before that was asked for.
//! 3. Once a node's gate was opened because it had all that the log had when it came to it, the same holds for all acknowledged entries
//!    that the log had at that moment. Once all is healed it holds for all that was ever acknowledged, also for what the log has lost,
//!    unless every node that had it has lost its store, and so its journal, while the log hadn't it.
//! 4. While the gate is closed only what is fetched for the request itself is answered.
//! 5. While it is capped nothing older than the cap is.
//! 6. What was acknowledged was in the log before.
//! 7. Who asks for a page has an answer, whatever befalls the log.
//! 8. A node doesn't append entries of others that the log hasn't lost.
//! 9. A log that loses entries, but not all, empties no cache as long as nodes hold all that they have read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet::Gate;

use super::plan::{Deed, NODES, SimFleetPlan};
use super::{FleetTally, Happening};
use crate::history::{HistoryEntry, SimAnswer, SimEnd, SimEvent};
use crate::model::ModelFinding;

/// Timers go by whole milliseconds, and the cap is looked at each 50 of them.
const SLACK: Duration = Duration::from_millis(100);

struct Exchange<'a> {
    node: usize,
    method: &'a str,
    url: &'a str,
    asked: usize,
    answered: usize,
    answer: &'a SimAnswer,
}

/// An invalidation: its objects, and when it begins to hold on which node.
struct Hit<'a> {
    node: usize,
    /// The URL; `None`: all.
    url: Option<&'a str>,
    at: usize,
}

struct Acknowledged<'a> {
    node: usize,
    url: &'a str,
    asked: usize,
    acknowledged: usize,
    entries: Vec<EntryFate>,
}

#[derive(Clone, Default)]
struct EntryFate {
    /// Moments at which the log got the entry and lost it, in turn.
    turns: Vec<usize>,
    holders: BTreeSet<usize>,
    is_gone: bool,
}

impl EntryFate {
    fn is_logged(&self, at: usize) -> bool {
        self.turns.partition_point(|turn| *turn < at) % 2 == 1
    }

    fn is_in_log(&self) -> bool {
        self.turns.len() % 2 == 1
    }

    fn turn(&mut self, at: usize, is_in_log: bool) {
        if self.is_in_log() != is_in_log {
            self.turns.push(at);
        }
        self.look();
    }

    fn look(&mut self) {
        self.is_gone |= !self.is_in_log() && self.holders.is_empty();
    }
}

struct Change {
    at: usize,
    gate: Gate,
    since: Option<usize>,
}

#[derive(Default)]
struct Judge<'a> {
    exchanges: Vec<Exchange<'a>>,
    /// When the origin was asked for an answer, and when it gave it.
    fetched: BTreeMap<u64, (usize, Duration)>,
    hits: Vec<Hit<'a>>,
    acknowledged: Vec<Acknowledged<'a>>,
    gates: [Vec<Change>; NODES],
    killed: Vec<(usize, usize)>,
    agreed: Option<usize>,
}

/// Judges a whole history, and counts.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn judge(history: &[HistoryEntry], plan: &SimFleetPlan) -> Result<FleetTally, ModelFinding> {
    restraint(history, plan)?;
    let judge = Judge::new(history)?;
    judge.exchanges.iter().try_for_each(|exchange| judge.exchange(exchange, history[exchange.asked].at))?;
    let mut tally = tally(history, plan);
    (tally.histories, tally.answers) = (1, judge.exchanges.len() as u64);
    tally.acknowledged = judge.acknowledged.len() as u64;
    let is_gone = |ack: &&Acknowledged<'_>| ack.entries.iter().any(|entry| entry.is_gone);
    tally.held_by_nobody = judge.acknowledged.iter().filter(is_gone).count() as u64;
    Ok(tally)
}

fn tally(history: &[HistoryEntry], plan: &SimFleetPlan) -> FleetTally {
    let mut tally = FleetTally::default();
    for fault in plan.acts.iter().filter_map(|act| act.deed.fault()) {
        *tally.faults.entry(fault).or_default() += 1;
    }
    let mut known = BTreeSet::new();
    for entry in history {
        match &entry.event {
            SimEvent::Fleet(Happening::Lost { .. }) => tally.lost += 1,
            SimEvent::Fleet(Happening::Logged { id, .. }) if !known.insert(id) => tally.restored += 1,
            SimEvent::Fleet(Happening::GivenUp { why, .. }) => tally.give_up(why),
            _ => {}
        }
    }
    tally.without_loss = u64::from(tally.invalidated.is_empty());
    tally
}

fn restraint(history: &[HistoryEntry], plan: &SimFleetPlan) -> Result<(), ModelFinding> {
    let is_beyond = |deed: &Deed| match deed {
        Deed::Trim(_) | Deed::Replace | Deed::Stranger | Deed::Hole { .. } | Deed::Flip { .. } => true,
        Deed::ClockJump { .. } | Deed::DiskFull(_) => true,
        Deed::Start { with_store, .. } => !with_store,
        _ => false,
    };
    let until = plan.acts.iter().find(|act| is_beyond(&act.deed)).map_or(Duration::MAX, |act| act.at);
    let mut until = if plan.held == fleet::HELD && plan.knows_ids { until } else { Duration::ZERO };
    let mut left = BTreeSet::new();
    // A replica without an entry, or with another one, looks like a log that has lost it.
    let has_holes = plan.acts.iter().any(|act| matches!(act.deed, Deed::Hole { .. } | Deed::Flip { .. }));
    let (mut makers, mut lost, mut twice) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for (at, entry) in history.iter().enumerate() {
        let SimEvent::Fleet(happening) = &entry.event else { continue };
        match happening {
            Happening::Logged { node, id, .. } => {
                // A node that read the one of two that the log has lost knows of no other.
                let was_twice = twice.contains(id);
                if makers.contains_key(id) {
                    twice.insert(id);
                }
                let maker = *makers.entry(id).or_insert(*node);
                left.insert(id);
                // Entries of strangers are named by their marks.
                let is_known = id.len() == 32 && !has_holes;
                if is_known && maker != *node && !lost.contains(id) && !was_twice {
                    let what = format!("node {node} appends {id} of node {maker} at {at}");
                    return Err(ModelFinding::new("what the log hasn't lost isn't appended again", what));
                }
            }
            Happening::Lost { id } => {
                lost.insert(id);
                left.remove(id);
                if left.iter().all(|id| twice.contains(id)) {
                    // Nothing identifies a log without entries, before a node has read one, or once all are lost. Of an entry that
                    // was appended twice, nodes know the second one.
                    until = Duration::ZERO;
                }
            }
            Happening::Found { id } => _ = left.insert(id),
            Happening::GivenUp { node, why } if entry.at < until => {
                let allowed = ["says so", "can't be reached", "it is unknown which", "nobody knows whether"];
                if !allowed.iter().any(|allowed| why.contains(allowed)) {
                    let what = format!("node {node} at {at}: {why}");
                    return Err(ModelFinding::new("nothing is given up for what nodes hold", what));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

impl<'a> Judge<'a> {
    fn new(history: &'a [HistoryEntry]) -> Result<Self, ModelFinding> {
        let mut judge = Judge::default();
        // What nobody has answered yet; entries of the log and of whom they are.
        let mut open = BTreeMap::new();
        let (mut logged, mut fates) = (Vec::new(), BTreeMap::<&str, EntryFate>::new());
        for (at, entry) in history.iter().enumerate() {
            match &entry.event {
                SimEvent::Fetched { number, .. } => drop(judge.fetched.insert(*number, (at, Duration::MAX))),
                SimEvent::Served { number, .. } => {
                    judge.fetched.entry(*number).and_modify(|(_, served)| *served = entry.at);
                }
                SimEvent::Fleet(happening) => match happening {
                    Happening::Asked { node, method, url } => drop(open.insert(at, (*node, *method, *url))),
                    Happening::Answered { number, answer: Some(answer) } => {
                        let (node, method, url) = open[number];
                        judge.exchanges.push(Exchange { node, method, url, asked: *number, answered: at, answer });
                    }
                    Happening::Answered { answer: None, .. } => {}
                    Happening::Started { node, has_store } => {
                        if !has_store {
                            fates.values_mut().for_each(|fate| {
                                fate.holders.remove(node);
                                fate.look();
                            });
                        }
                        judge.gates[*node].push(Change { at, gate: Gate::Closed, since: None });
                    }
                    Happening::Killed { node } => judge.killed.push((*node, at)),
                    Happening::Logged { node, id, what, .. } => {
                        let fate = fates.entry(id).or_default();
                        fate.turn(at, true);
                        fate.holders.insert(*node);
                        logged.push((at, id.as_str(), *what));
                    }
                    Happening::Lost { id } => fates.entry(id).or_default().turn(at, false),
                    Happening::Found { id } => fates.entry(id).or_default().turn(at, true),
                    Happening::CarriedOut { node, id, url } => {
                        fates.entry(id).and_modify(|fate| _ = fate.holders.insert(*node));
                        judge.hits.extend(url.map(|url| Hit { node: *node, url: Some(url), at }));
                    }
                    Happening::GivenUp { node, .. } => judge.hits.push(Hit { node: *node, url: None, at }),
                    Happening::Gate { node, gate, since } => {
                        judge.gates[*node].push(Change { at, gate: *gate, since: *since });
                    }
                    Happening::Agreed => judge.agreed = Some(at),
                },
                SimEvent::Asked { .. } | SimEvent::Answered { .. } | SimEvent::Ended { .. } => {}
            }
        }
        for exchange in judge.exchanges.iter().filter(|exchange| exchange.is_acknowledgement()) {
            let Exchange { node, url, asked, answered, .. } = *exchange;
            // Two may be under way for one URL: either is as good.
            let entries: Vec<&str> = logged
                .iter()
                .filter(|(at, _, what)| asked < *at && *at < answered && *what == Some((node, url)))
                .map(|(_, id, _)| *id)
                .collect();
            if entries.is_empty() {
                let what = format!("what was asked of node {node} at {asked} for {url} never was");
                return Err(ModelFinding::new("what is acknowledged is in the log", what));
            }
            let entries = entries.iter().filter_map(|id| fates.get(id).cloned()).collect();
            judge.acknowledged.push(Acknowledged { node, url, asked, acknowledged: answered, entries });
        }
        Ok(judge)
    }

    fn exchange(&self, exchange: &Exchange<'a>, asked_at: Duration) -> Result<(), ModelFinding> {
        let Exchange { node, url, asked, answered, answer, .. } = exchange;
        if exchange.method != "GET" {
            return Ok(());
        }
        let who = || format!("what was asked of node {node} at {asked} for {url} has {answer}");
        let wrong = |check, what: String| Err(ModelFinding::new(check, format!("{}: {what}", who())));
        let was_killed = self.killed.iter().any(|(dead, at)| dead == node && asked < at && at < answered);
        let Some(number) = answer.number("X-Number").filter(|_| answer.status == 200) else {
            return match was_killed {
                true => Ok(()),
                false => wrong("whoever asks has an answer", "for no reason".to_owned()),
            };
        };
        let Some(&(fetched, served_at)) = self.fetched.get(&number) else {
            return wrong("answers are the origin's", "there is no such answer".to_owned());
        };
        let is_hit = |hit: &&Hit<'_>| hit.node == *node && hit.url.is_none_or(|hit| hit == *url);
        if let Some(hit) = self.hits.iter().filter(is_hit).find(|hit| fetched < hit.at && hit.at < *asked) {
            return wrong(
                "what a node has carried out holds there",
                format!("fetched at {fetched}, hit at {}", hit.at),
            );
        }
        for ack in self.acknowledged.iter().filter(|ack| ack.url == *url && fetched < ack.asked) {
            let is_own = ack.node == *node && ack.acknowledged < *asked;
            let is_known = self.is_known(ack, *node, *asked);
            if is_own || is_known {
                let what = format!("fetched at {fetched}, purged at {} on node {}", ack.asked, ack.node);
                return wrong("what was acknowledged holds on who has come so far", what);
            }
        }
        let gates = &self.gates[*node];
        let at = gates.partition_point(|change| change.at < *asked);
        let stays = gates.get(at).is_none_or(|next| next.at > *answered);
        match at.checked_sub(1).map(|at| gates[at].gate).filter(|_| stays) {
            Some(Gate::Closed) if fetched < *asked => wrong("a closed gate lets nothing old through", String::new()),
            Some(Gate::Capped(cap)) if served_at.saturating_add(cap + SLACK) < asked_at => {
                wrong("nothing older than the cap is served", format!("served at {served_at:?}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn is_known(&self, ack: &Acknowledged<'_>, node: usize, asked: usize) -> bool {
        let is_agreed = self.agreed.is_some_and(|agreed| ack.acknowledged < agreed && agreed < asked);
        if is_agreed && ack.entries.iter().all(|entry| !entry.is_gone) {
            return true;
        }
        let opened = self.gates[node].iter().filter(|change| change.at < asked && change.gate == Gate::Open);
        let mut known = opened.filter_map(|change| change.since).filter(|known| ack.acknowledged < *known);
        known.any(|known| ack.entries.iter().all(|entry| entry.is_logged(known)))
    }
}

impl Exchange<'_> {
    fn is_acknowledgement(&self) -> bool {
        self.method != "GET" && self.answer.status == 200 && self.answer.end == SimEnd::Whole
    }
}
