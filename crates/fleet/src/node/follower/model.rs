// SPDX-License-Identifier: BSD-2-Clause
//! Drawn histories of a log and of a node that follows it: connections break at any step, the node dies at any step and comes back with
//! what it has stored and the position that it kept, the log is trimmed, replaced, or put back to an older state and grows again. Whenever the
//! gate opens nothing is stored any more that an acknowledged entry had overtaken, but for entries that the log itself has lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::{FleetSettings, IncomingEntry, Invalidation, LogBounds, Node, NodeStatus, OutgoingEntry};

/// Entries of the log: entry n hits object n.
#[derive(Clone, Default)]
struct Log {
    epoch: u64,
    first: u64,
    entries: Vec<u64>,
}

#[derive(Default)]
struct World {
    log: Log,
    saved: Log,
    acknowledged: u64,
    /// Those that no log has any more and that the node hadn't carried out: nobody can know of them.
    unknowable: BTreeSet<u64>,
    stored: BTreeSet<u64>,
    kept: Option<Position>,
    gate: Option<Gate>,
    /// Steps until the connection breaks, and entries that others append meanwhile.
    steps: u32,
    others: u32,
    at_once: usize,
    /// The node has been given all that the log has, over this connection.
    is_caught_up: bool,
    /// The first fault found.
    stale: Option<String>,
}

impl World {
    fn append(&mut self) {
        self.acknowledged += 1;
        let n = self.acknowledged;
        // Stored before it was changed at the origin, and so hit.
        if self.gate != Some(Gate::Closed) {
            self.stored.insert(n);
        }
        self.log.entries.push(n);
    }

    fn step(&mut self) -> Result<(), LinkFault> {
        self.is_caught_up = false;
        self.steps = self.steps.checked_sub(1).ok_or_else(|| LinkFault::new("broken"))?;
        if self.others > 0 {
            self.others -= 1;
            self.append();
        }
        Ok(())
    }

    fn replace(&mut self, log: Log) {
        let gone: Vec<u64> = self.log.entries.iter().copied().filter(|n| !log.entries.contains(n)).collect();
        // A node that had come farther than the log now says knows that something is missing.
        self.unknowable.extend(gone);
        self.log = log;
    }

    fn look(&mut self) {
        let hit = |n: &&u64| **n <= self.acknowledged && !self.unknowable.contains(n);
        let stale: Vec<u64> = self.stored.iter().filter(hit).copied().collect();
        if !stale.is_empty() {
            self.stale = Some(format!("{stale:?} of {}", self.acknowledged));
        }
    }
}

#[derive(Clone, Default)]
struct Bed(Arc<Mutex<World>>);

struct Session {
    world: Bed,
    from: u64,
}

impl FleetLink for Session {
    fn bounds(&mut self) -> Result<LogBounds, LinkFault> {
        let mut world = self.world.0.lock();
        world.step()?;
        let log = &world.log;
        Ok(LogBounds { epoch: log.epoch.to_string(), first: log.first + 1, last: log.entries.len() as u64 })
    }

    fn append(&mut self, _entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault> {
        unreachable!("others append here")
    }

    fn follow(&mut self, from: u64) -> Result<(), LinkFault> {
        self.from = from;
        self.world.0.lock().step()
    }

    fn next(&mut self) -> Result<NextEntries, LinkFault> {
        let mut world = self.world.0.lock();
        world.step()?;
        let seq = self.from.max(world.log.first + 1);
        let mut entries = Vec::new();
        for (at, n) in world.log.entries.iter().enumerate().skip(seq as usize - 1).take(world.at_once) {
            let what = Invalidation::Tags { tags: vec![n.to_string().into_bytes()], is_soft: false };
            let entry = FleetEntry { id: n.to_string(), node: "other".into(), at: 1.0, what };
            entries.push(IncomingEntry { seq: at as u64 + 1, bytes: entry.encode().map_err(LinkFault::new)? });
        }
        let last = entries.last().map_or(world.log.entries.len() as u64, |entry| entry.seq);
        let left = world.log.entries.len() as u64 - last;
        world.is_caught_up = left == 0;
        if entries.is_empty() {
            return Ok(NextEntries::Quiet);
        }
        self.from = last + 1;
        Ok(NextEntries::Entries { entries, left })
    }
}

impl Connect for Bed {
    fn connect(&self, _server: &LogServer, _until: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
        self.0.lock().step()?;
        Ok(Box::new(Session { world: self.clone(), from: 0 }))
    }
}

impl Applier for Bed {
    fn apply(&self, entry: &FleetEntry) -> Result<(), String> {
        let n = entry.id.parse().map_err(|_| "no number".to_owned())?;
        self.0.lock().stored.remove(&n);
        Ok(())
    }

    fn apply_all(&self, _why: &str) {
        self.0.lock().stored.clear();
    }

    fn has_objects(&self) -> bool {
        !self.0.lock().stored.is_empty()
    }

    fn keep(&self, position: &Position) {
        self.0.lock().kept = Some(position.clone());
    }

    fn set_gate(&self, gate: Gate) {
        let mut world = self.0.lock();
        world.gate = Some(gate);
        // While the log is away a node that was open once serves what it has.
        if gate == Gate::Open && world.is_caught_up {
            world.look();
        }
    }

    fn tell(&self, _text: &str) {}

    fn show(&self, _status: &NodeStatus) {}
}

#[derive(Clone, Debug)]
enum Turn {
    Append(u32),
    /// The node is connected for so many steps, while others append so many.
    Follow(u32, u32),
    AtOnce(usize),
    /// The node dies, and its successor has what is kept.
    Die,
    Trim(u32),
    Save,
    /// The log is what it was when it was saved.
    PutBack,
    Replace,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        3 => (1..5u32).prop_map(Turn::Append),
        6 => (0..14u32, 0..4u32).prop_map(|(steps, others)| Turn::Follow(steps, others)),
        1 => (1..4usize).prop_map(Turn::AtOnce),
        3 => Just(Turn::Die),
        1 => (1..4u32).prop_map(Turn::Trim),
        1 => Just(Turn::Save),
        1 => Just(Turn::PutBack),
        1 => Just(Turn::Replace),
    ];
    proptest::collection::vec(turn, 1..40)
}

fn run(turns: &[Turn]) -> Option<String> {
    let bed = Bed::default();
    bed.0.lock().at_once = 1;
    let begun = base::clock::now();
    let time = Arc::new(Mutex::new(begun));
    let settings = || FleetSettings::parse("nats://x,wait=1000h").expect("settings");
    let mut turns = turns.iter().cloned().chain([Turn::Follow(100_000, 0)]);
    let mut dead = false;
    loop {
        let now = time.clone();
        let process = Node::simulated(settings(), 0, crate::HELD, move || *now.lock());
        let kept = bed.0.lock().kept.clone();
        let mut follower = process.follower(Arc::new(bed.clone()), Arc::new(bed.clone()), kept);
        // As a new process begins.
        bed.0.lock().gate = if dead { Some(Gate::Closed) } else { None };
        dead = false;
        for turn in turns.by_ref() {
            match turn {
                Turn::Append(count) => (0..count).for_each(|_| bed.0.lock().append()),
                Turn::Follow(steps, others) => {
                    let mut world = bed.0.lock();
                    (world.steps, world.others) = (steps.min(2000), others);
                    drop(world);
                    // Until the connection breaks, or all is carried out and quiet.
                    while bed.0.lock().steps > 0 {
                        let due = follower.step();
                        let mut now = time.lock();
                        *now = due.max(*now);
                    }
                    // What is left of it breaks now.
                    *time.lock() = follower.step();
                }
                Turn::AtOnce(count) => bed.0.lock().at_once = count,
                Turn::Die => {
                    dead = true;
                    break;
                }
                Turn::Trim(count) => {
                    let mut world = bed.0.lock();
                    world.log.first = (world.log.first + u64::from(count)).min(world.log.entries.len() as u64);
                }
                Turn::Save => {
                    let mut world = bed.0.lock();
                    world.saved = world.log.clone();
                }
                Turn::PutBack => {
                    let mut world = bed.0.lock();
                    let saved = world.saved.clone();
                    world.replace(saved);
                }
                Turn::Replace => {
                    let mut world = bed.0.lock();
                    let epoch = world.log.epoch.max(world.saved.epoch) + 1;
                    world.replace(Log { epoch, ..Log::default() });
                }
            }
        }
        if !dead {
            return bed.0.lock().stale.take();
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_found_that_an_acknowledged_entry_had_overtaken(turns in turns()) {
        prop_assert_eq!(run(&turns), None);
    }
}

#[test]
fn what_it_is_about() {
    use Turn::*;
    // Missed while it was dead, and carried out.
    assert_eq!(run(&[Follow(10, 0), Append(3), Die, Append(2), Follow(20, 2)]), None);
    // Trimmed beyond where it was.
    assert_eq!(run(&[Follow(10, 0), Append(3), Die, Trim(3), Follow(20, 2)]), None);
    // Put back, and grown again beyond where it was.
    assert_eq!(run(&[Append(1), Save, Append(2), Follow(20, 0), PutBack, Append(4), Die, Follow(20, 0)]), None);
}
