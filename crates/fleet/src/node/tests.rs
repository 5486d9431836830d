// SPDX-License-Identifier: BSD-2-Clause
//! A node beside a log in memory: what is carried out, when the gate opens, and what becomes of who appends.

mod lost;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;

use testkit::block_on;

use super::*;
use crate::{FleetLink, IncomingEntry, LinkFault, LogBounds, LogServer, NextEntries, OutgoingEntry, mark};

/// A log in memory, which can be away, trimmed, and replaced.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<Kept>, AtomicBool)>);

#[derive(Clone, Default)]
struct Kept {
    epoch: u64,
    first: u64,
    entries: Vec<Vec<u8>>,
    /// Number of the newest entries that aren't delivered yet.
    held_back: usize,
    /// Entries are refused although they are in the log: too few replicas have them.
    lacks_replicas: bool,
}

impl Log {
    fn write(&self, bytes: &[u8]) -> u64 {
        let mut kept = self.0.0.lock();
        kept.entries.push(bytes.to_vec());
        kept.entries.len() as u64
    }

    fn entry(&self, what: Invalidation) -> u64 {
        self.write(&FleetEntry { id: "x".into(), node: "other".into(), at: 1.0, what }.encode().unwrap())
    }

    /// An entry of a node's, with an id.
    fn named(&self, why: &str) -> u64 {
        let (id, what) = (format!("id{why}"), Invalidation::All(why.to_owned()));
        self.write(&FleetEntry { id, node: "other".into(), at: 1.0, what }.encode().unwrap())
    }

    fn all(&self, why: &str) -> u64 {
        self.entry(Invalidation::All(why.to_owned()))
    }

    fn change(&self, change: impl FnOnce(&mut Kept)) {
        change(&mut self.0.0.lock());
    }

    fn set_away(&self, is_away: bool) {
        self.0.1.store(is_away, Relaxed);
    }

    fn look(&self) -> Result<Kept, LinkFault> {
        match self.0.1.load(Relaxed) {
            true => Err(LinkFault::new("away")),
            false => Ok(self.0.0.lock().clone()),
        }
    }

    fn position(&self, seq: u64) -> Position {
        let kept = self.0.0.lock();
        let mark = seq.checked_sub(1).and_then(|at| kept.entries.get(at as usize)).map(|bytes| mark(bytes));
        Position { epoch: kept.epoch.to_string(), seq, mark }
    }
}

impl Connect for Log {
    fn connect(&self, _server: &LogServer, _until: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
        self.look()?;
        Ok(Box::new(Session { log: self.clone(), from: 0 }))
    }
}

struct Session {
    log: Log,
    from: u64,
}

impl FleetLink for Session {
    fn bounds(&mut self) -> Result<LogBounds, LinkFault> {
        let kept = self.log.look()?;
        Ok(LogBounds { epoch: kept.epoch.to_string(), first: kept.first.max(1), last: kept.entries.len() as u64 })
    }

    fn append(&mut self, entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault> {
        let lacks_replicas = self.log.look()?.lacks_replicas;
        let refused = || LinkFault::new("0 of 1 replicas have it");
        let append = |entry: &OutgoingEntry<'_>| {
            let seq = self.log.write(entry.bytes);
            if lacks_replicas { Err(refused()) } else { Ok(seq) }
        };
        Ok(entries.iter().map(append).collect())
    }

    fn follow(&mut self, from: u64) -> Result<(), LinkFault> {
        self.from = from;
        Ok(())
    }

    fn next(&mut self) -> Result<NextEntries, LinkFault> {
        let kept = self.log.look()?;
        let seq = self.from.max(kept.first).max(1);
        let shown = &kept.entries[..kept.entries.len() - kept.held_back];
        let behind = shown.iter().enumerate().skip(seq as usize - 1).take(2);
        let entries: Vec<IncomingEntry> =
            behind.map(|(at, bytes)| IncomingEntry { seq: at as u64 + 1, bytes: bytes.clone() }).collect();
        let Some(last) = entries.last() else {
            sleep(Duration::from_millis(2));
            return Ok(NextEntries::Quiet);
        };
        self.from = last.seq + 1;
        let left = shown.len() as u64 - last.seq;
        Ok(NextEntries::Entries { entries, left })
    }
}

#[derive(Default)]
struct Witness {
    has_objects: bool,
    seen: Mutex<Vec<String>>,
    kept: Mutex<Option<Position>>,
    held: Mutex<BTreeMap<String, HeldRecord>>,
}

impl Applier for Witness {
    fn apply(&self, entry: &FleetEntry) -> Result<(), String> {
        if let Invalidation::Ban(words) = &entry.what {
            return Err(format!("no ban: {}", words.join(" ")));
        }
        let what = match &entry.what {
            Invalidation::All(why) => why.clone(),
            other => format!("{other:?}"),
        };
        self.seen.lock().push(what);
        Ok(())
    }

    fn apply_all(&self, why: &str) {
        self.seen.lock().push(format!("ALL: {why}"));
    }

    fn has_objects(&self) -> bool {
        self.has_objects
    }

    fn keep(&self, position: &Position) {
        *self.kept.lock() = Some(position.clone());
    }

    fn held(&self) -> Vec<HeldRecord> {
        self.held.lock().values().cloned().collect()
    }

    fn hold(&self, record: HeldRecord) {
        let mut held = self.held.lock();
        match record.bytes.is_empty() {
            true => drop(held.remove(&record.id)),
            false => drop(held.insert(record.id.clone(), record)),
        }
    }

    fn set_gate(&self, gate: Gate) {
        self.seen.lock().push(format!("{gate:?}"));
    }

    fn tell(&self, _text: &str) {}

    fn show(&self, _status: &NodeStatus) {}
}

struct Bed {
    log: Log,
    node: Node,
    witness: Arc<Witness>,
}

impl Bed {
    fn new(log: &Log, settings: &str, has_objects: bool, position: Option<Position>) -> Bed {
        let node = Node::new(FleetSettings::parse(&format!("nats://x,{settings}")).unwrap());
        let witness = Arc::new(Witness { has_objects, ..Witness::default() });
        node.start(Arc::new(log.clone()), witness.clone(), position).unwrap();
        Bed { log: log.clone(), node, witness }
    }

    #[track_caller]
    fn wait(&self, what: impl Fn(&NodeStatus) -> bool) {
        let until = base::clock::now() + Duration::from_secs(20);
        while !what(&self.node.status()) {
            assert!(base::clock::now() < until, "{:?} {:?}", self.node.status(), self.witness.seen.lock());
            sleep(Duration::from_millis(2));
        }
    }

    #[track_caller]
    fn opened(&self, applied: u64) {
        self.wait(|status| status.gate == Gate::Open && status.applied == applied && status.follow.is_up());
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.witness.seen.lock())
    }

    fn append(&self, why: &str) -> Result<u64, String> {
        block_on(self.node.append(Invalidation::All(why.to_owned()), 1.0))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.node.end();
    }
}

#[test]
fn an_empty_node_begins_at_the_logs_end_and_carries_out_what_comes() {
    let log = Log::default();
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(0);
    assert_eq!(bed.seen(), ["Open"]);
    log.all("a");
    log.all("b");
    bed.opened(2);
    assert_eq!(bed.seen(), ["a", "b"]);
    bed.wait(|_| *bed.witness.kept.lock() == Some(log.position(2)));
}

#[test]
fn who_was_away_carries_out_all_it_has_missed_before_the_gate_opens() {
    let log = Log::default();
    ["a", "b", "c"].iter().for_each(|why| _ = log.all(why));
    let bed = Bed::new(&log, "node=me", true, Some(log.position(1)));
    bed.opened(3);
    assert_eq!(bed.seen(), ["b", "c", "Open"]);
    assert_eq!(bed.node.status().gaps, 0);
}

#[test]
fn what_cannot_be_caught_up_with_ends_all_that_is_stored() {
    let check = |change: &dyn Fn(&mut Kept), position: Option<u64>, wanted: &str| {
        let log = Log::default();
        ["a", "b", "c"].iter().for_each(|why| _ = log.all(why));
        let position = position.map(|seq| log.position(seq));
        log.change(change);
        let bed = Bed::new(&log, "node=me", true, position);
        bed.wait(|status| status.gate == Gate::Open && status.follow.is_up());
        let seen = bed.seen();
        assert!(seen[0].starts_with("ALL: ") && seen[0].contains(wanted) && seen.last().unwrap() == "Open", "{seen:?}");
        assert_eq!(bed.node.status().gaps, 1);
    };
    check(&|_| {}, None, "it is unknown which");
    let replaced = |kept: &mut Kept| (kept.epoch, kept.entries[2]) = (1, b"other".to_vec());
    check(&replaced, Some(3), "another one");
    check(&|kept| (kept.epoch, kept.first) = (1, 3), Some(2), "another one");
    check(&|kept| kept.first = 3, Some(1), "are missing");
    check(&|kept| kept.entries.truncate(2), Some(3), "lost entries");
    // An older state that has grown again.
    check(&|kept| kept.entries[2] = b"other".to_vec(), Some(3), "has changed");
}

#[test]
fn a_log_that_is_told_by_another_epoch_is_known_by_its_entries() {
    let log = Log::default();
    ["a", "b", "c"].iter().for_each(|why| _ = log.all(why));
    let position = log.position(2);
    log.change(|kept| kept.epoch = 1);
    let bed = Bed::new(&log, "node=me", true, Some(position));
    bed.opened(3);
    assert_eq!((bed.seen(), bed.node.status().gaps), (vec!["c".to_owned(), "Open".to_owned()], 0));
}

#[test]
fn an_entry_that_others_may_write_twice_is_no_sign_of_a_log() {
    let log = Log::default();
    log.change(|kept| kept.entries.push(b"{}".to_vec()));
    let position = log.position(1);
    log.change(|kept| kept.epoch = 1);
    let bed = Bed::new(&log, "node=me", true, Some(position));
    bed.wait(|status| status.gate == Gate::Open && status.follow.is_up());
    assert!(bed.seen()[0].starts_with("ALL: the log is another one than before") && bed.node.status().gaps == 1);
}

#[test]
fn what_is_appended_is_in_the_log_and_not_carried_out_again() {
    let log = Log::default();
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(0);
    bed.wait(|status| status.append.is_up());
    assert_eq!((bed.append("a"), bed.append("b")), (Ok(1), Ok(2)));
    bed.opened(2);
    assert_eq!(bed.seen(), ["Open"]);
    let status = bed.node.status();
    assert_eq!((status.appended, status.returned, status.carried_out), (2, 2, 0));
}

#[test]
fn nobody_is_told_that_it_is_done_while_the_log_is_away() {
    let log = Log::default();
    log.set_away(true);
    let bed = Bed::new(&log, "patience=2s,wait=1h", false, None);
    assert_eq!(bed.node.check(), Ok(()), "it may come in time");
    assert!(bed.append("a").unwrap_err().contains("can't be reached: x:4222: away"));
    assert_eq!((bed.node.status().gate, bed.node.status().refused), (Gate::Closed, 1));
    assert!(bed.node.check().is_err(), "nobody waits any more");
    log.set_away(false);
    bed.wait(|status| status.append.is_up());
    assert_eq!((bed.node.check(), bed.append("b")), (Ok(()), Ok(1)));
}

#[test]
fn who_waits_while_the_log_comes_back_is_served() {
    let log = Log::default();
    let bed = Bed::new(&log, "node=me", false, None);
    bed.wait(|status| status.append.is_up());
    log.set_away(true);
    let announced = bed.node.append(Invalidation::All("a".into()), 1.0);
    sleep(Duration::from_millis(20));
    log.set_away(false);
    assert_eq!(block_on(announced), Ok(1));
}

#[test]
fn a_node_that_cannot_reach_the_log_at_its_start_gives_up_what_is_stored_and_serves() {
    let log = Log::default();
    log.all("a");
    let position = log.position(1);
    log.set_away(true);
    let bed = Bed::new(&log, "wait=100ms", true, Some(position));
    bed.wait(|status| status.gate == Gate::Open);
    let seen = bed.seen();
    assert!(seen[0].starts_with("ALL: ") && seen[1] == "Open", "{seen:?}");
    // What came meanwhile it still carries out.
    log.all("b");
    log.set_away(false);
    bed.opened(2);
    assert_eq!(bed.seen(), ["Closed", "b", "Open"]);
}

#[test]
fn what_is_old_is_not_served_once_the_log_is_away_for_too_long() {
    let log = Log::default();
    let bed = Bed::new(&log, "stale=2s", false, None);
    bed.opened(0);
    log.set_away(true);
    bed.wait(|status| !status.follow.is_up());
    assert_eq!(bed.node.status().gate, Gate::Open);
    let stale = Duration::from_secs(2);
    bed.wait(|status| status.gate == Gate::Capped(stale));
    log.set_away(false);
    bed.opened(0);
    assert_eq!(bed.seen(), ["Open", "Capped(2s)", "Closed", "Open"]);
}

#[test]
fn entries_of_others_are_left_out_and_those_that_are_unclear_hit_everything() {
    let log = Log::default();
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(0);
    log.write(b"hello");
    log.all("a");
    log.write(&vec![b'x'; crate::LONGEST + 1]);
    log.write(br#"{"lacquer":1,"at":1,"tags":"news"}"#);
    log.write(br#"{"lacquer":2}"#);
    log.entry(Invalidation::Ban(vec!["x".into()]));
    bed.opened(6);
    let seen = bed.seen();
    assert_eq!(seen[..2], ["Open", "a"]);
    let wanted = [
        ("entry 3 ", "longer than"),
        ("entry 4 ", "required member"),
        ("entry 5 ", "version 2"),
        ("entry 6,", "no ban: x"),
    ];
    let says = |(seen, (entry, why)): (&String, (&str, &str))| seen.contains(entry) && seen.contains(why);
    assert!(seen.len() == 6 && seen[2..].iter().zip(wanted).all(says), "{seen:?}");
    let status = bed.node.status();
    assert_eq!((status.foreign, status.gaps, status.carried_out), (1, 4, 2));
}

#[test]
fn a_log_that_is_trimmed_faster_than_it_is_followed_ends_all_that_is_stored() {
    let log = Log::default();
    log.all("a");
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(1);
    bed.seen();
    log.change(|kept| {
        kept.entries.extend([kept.entries[0].clone(), kept.entries[0].clone(), kept.entries[0].clone()]);
        kept.first = 4;
    });
    bed.opened(4);
    let seen = bed.seen();
    assert!(seen[1].starts_with("ALL: entries from 2 on are missing") && bed.node.status().gaps == 1, "{seen:?}");
}

/// Steps until then, by a clock of its own.
#[track_caller]
fn step_until(clock: &Mutex<Instant>, mut step: impl FnMut() -> Instant, what: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if what() {
            return;
        }
        let due = step();
        let mut now = clock.lock();
        *now = due.max(*now) + Duration::from_millis(50);
    }
    panic!("it never was so");
}

/// A node, what it does, and the clock by which it does it.
fn stepped(settings: &str) -> (Node, Arc<Witness>, Arc<Mutex<Instant>>) {
    let clock = Arc::new(Mutex::new(base::clock::now()));
    let now = clock.clone();
    let node = Node::simulated(FleetSettings::parse(settings).unwrap(), 1, HELD, move || *now.lock());
    (node, Arc::new(Witness { has_objects: true, ..Witness::default() }), clock)
}

#[test]
fn the_gate_is_closed_until_all_came_that_the_log_said_to_have() {
    let log = Log::default();
    ["a", "b", "c"].iter().for_each(|why| _ = log.all(why));
    log.change(|kept| kept.held_back = 1);
    let (node, witness, clock) = stepped("nats://x,wait=1h");
    let mut follower = node.follower(Arc::new(log.clone()), witness.clone(), Some(log.position(1)));
    step_until(&clock, || follower.step(), || node.status().applied == 2);
    (0..20).for_each(|_| _ = follower.step());
    assert_eq!((&witness.seen.lock()[..], node.status().gate), (&["b".to_owned()][..], Gate::Closed));
    log.change(|kept| kept.held_back = 0);
    step_until(&clock, || follower.step(), || node.status().gate == Gate::Open);
    assert_eq!(witness.seen.lock()[..], ["b", "c", "Open"]);
}

#[test]
fn what_never_comes_though_the_log_said_to_have_it_ends_all_that_is_stored() {
    let log = Log::default();
    ["a", "b", "c"].iter().for_each(|why| _ = log.all(why));
    log.change(|kept| kept.held_back = 1);
    let (node, witness, clock) = stepped("nats://x,wait=1h");
    let mut follower = node.follower(Arc::new(log.clone()), witness.clone(), Some(log.position(1)));
    step_until(&clock, || follower.step(), || node.status().gate == Gate::Open);
    let seen = std::mem::take(&mut *witness.seen.lock());
    assert!(seen.len() == 3 && seen[0] == "b" && seen[1].contains("up to 3 don't arrive"), "{seen:?}");
}

#[test]
fn nobody_is_told_that_it_is_done_by_another_log_than_the_one_that_is_followed() {
    let (one, other) = (Log::default(), Log::default());
    other.change(|kept| kept.epoch = 1);
    let (node, witness, clock) = stepped("nats://x,nats://y,patience=2s");
    let mut follower = node.follower(Arc::new(one.clone()), witness.clone(), None);
    let mut appender = node.appender(Arc::new(other.clone()), witness.clone());
    // Before the log is followed, and then.
    step_until(&clock, || appender.step(), || node.status().append.is_up());
    step_until(&clock, || follower.step(), || node.status().follow.is_up());
    let mut announced = std::pin::pin!(node.append(Invalidation::All("a".into()), 1.0));
    let mut outcome = || announced.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    step_until(&clock, || appender.step(), || node.status().refused == 1);
    let Poll::Ready(Err(why)) = outcome() else { panic!("it isn't refused") };
    assert!(why.contains("another log") && other.look().unwrap().entries.is_empty(), "{why}");
}

#[test]
fn a_log_that_was_taken_for_another_one_is_noticed_by_who_appends_to_it() {
    let log = Log::default();
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(0);
    bed.wait(|status| status.append.is_up());
    bed.seen();
    log.change(|kept| kept.epoch = 1);
    bed.wait(|status| status.epoch == "1" && status.append.is_up() && status.gate == Gate::Open);
    let seen = bed.seen();
    assert!(seen.contains(&"ALL: the log is another one than before".to_owned()), "{seen:?}");
    assert!(bed.append("a").is_ok() && bed.node.status().gaps == 1);
}

#[test]
fn a_log_that_is_followed_and_told_by_another_epoch_goes_on() {
    let log = Log::default();
    log.all("a");
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(1);
    log.all("b");
    bed.opened(2);
    bed.wait(|status| status.append.is_up());
    bed.seen();
    log.change(|kept| kept.epoch = 1);
    bed.wait(|status| status.epoch == "1" && status.append.is_up() && status.gate == Gate::Open);
    log.all("c");
    bed.opened(3);
    let seen = bed.seen();
    assert!(!seen.iter().any(|seen| seen.starts_with("ALL")) && bed.node.status().gaps == 0, "{seen:?}");
}

#[test]
fn a_log_that_is_replaced_while_it_is_followed_is_noticed_when_it_comes_back() {
    let log = Log::default();
    log.all("a");
    let bed = Bed::new(&log, "node=me", false, None);
    bed.opened(1);
    log.all("b");
    bed.opened(2);
    bed.seen();
    log.set_away(true);
    bed.wait(|status| !status.follow.is_up());
    bed.log.change(|kept| *kept = Kept { entries: vec![b"c".to_vec(), b"d".to_vec()], ..Kept::default() });
    log.set_away(false);
    bed.opened(2);
    let seen = bed.seen();
    assert!(seen.iter().any(|seen| seen.contains("entry 1 is missing or has changed")), "{seen:?}");
}

#[test]
fn nobodys_copies_are_taken_while_something_is_not_in_the_log_and_then_of_who_has_it() {
    let log = Log::default();
    let bed = Bed::new(&log, "node=me,patience=20s", false, None);
    bed.opened(0);
    let start = bed.node.position_needed().expect("it follows the log");
    assert_eq!(start.seq, 0);
    let pending = bed.node.begin_invalidation();
    assert_eq!(bed.node.position_needed(), None);
    log.set_away(true);
    bed.wait(|status| !status.append.is_up());
    let announced = bed.node.append(Invalidation::All("own".to_owned()), 1.0);
    drop(pending);
    assert_eq!(bed.node.position_needed(), None, "it waits for the log");
    log.set_away(false);
    assert_eq!(block_on(announced), Ok(1));
    bed.wait(|_| bed.node.position_needed().is_some());
    let needed = bed.node.position_needed().expect("it is there");
    assert_eq!(needed, LogPosition { seq: 1, ..start }, "whether it has come back or not");
    assert!(!start.has_reached(&needed) && needed.has_reached(&start) && needed.has_reached(&needed));
    assert!(!LogPosition { log: 7, ..needed }.has_reached(&needed), "another log");
}

#[test]
fn a_node_that_knows_no_log_takes_nobodys_copies() {
    let log = Log::default();
    log.set_away(true);
    let bed = Bed::new(&log, "node=me,wait=0s", false, None);
    bed.wait(|status| status.gate == Gate::Open);
    assert_eq!(bed.node.position_needed(), None);
}

#[test]
fn ids_of_entries_tell_nothing_of_the_next_ones() {
    let node = Node::new(FleetSettings::parse("nats://a").unwrap());
    let words: Vec<String> = (0..100).map(|number| node.0.word("entry", number)).collect();
    let parts: std::collections::HashSet<&str> = words.iter().flat_map(|word| [&word[..16], &word[16..]]).collect();
    assert_eq!(parts.len(), 200);
    assert!(words.iter().all(|word| !word.contains(&format!("{:016x}", node.0.draw))));
}
