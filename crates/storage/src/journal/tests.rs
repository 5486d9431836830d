// SPDX-License-Identifier: BSD-2-Clause
//! What a journal says after its writer, or the machine, ended at any moment; and after damage.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::Context;

use base::lock::Mutex;
use proptest::prelude::*;

use super::*;

mod sites;

/// Blocks that a disk writes whole, in any order, as long as nobody has synced.
const BLOCK: usize = 4096;

/// A medium that remembers what a power cut may take back.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// Content of each block before a write that isn't synced.
    unsynced: Vec<(usize, Vec<u8>)>,
    // The same of blocks whose sync has failed: a later sync doesn't write them.
    doubtful: Vec<(usize, Vec<u8>)>,
    syncs: usize,
    /// All that is done, to be undone from the end by a kill.
    history: Vec<Vec<u8>>,
    keeps_history: bool,
    /// Writes fail from this offset on.
    full_at: Option<u64>,
}

impl State {
    fn change(&mut self, at: usize, bytes: &[u8]) {
        if self.keeps_history {
            // The writer may be killed with half of it written.
            for part in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
                let mut half = self.bytes.clone();
                half.resize(half.len().max(at + part), 0);
                half[at..at + part].copy_from_slice(&bytes[..part]);
                self.history.push(half);
            }
        }
        let end = at + bytes.len();
        self.bytes.resize(self.bytes.len().max(end.next_multiple_of(BLOCK)), 0);
        for block in at / BLOCK..end.div_ceil(BLOCK) {
            let old = self.bytes[block * BLOCK..(block + 1) * BLOCK].to_vec();
            self.unsynced.push((block, old));
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    // A sync has failed: what it was to write may or may not be there.
    fn lose_track(&mut self) {
        let State { unsynced, doubtful, .. } = self;
        doubtful.append(unsynced);
    }

    /// A power cut: blocks that weren't synced are new, old, or torn, as `draw` says.
    fn cut_power(&self, mut draw: impl FnMut() -> u8) -> Vec<u8> {
        let mut after = self.bytes.clone();
        for (block, old) in self.unsynced.iter().rev().chain(self.doubtful.iter().rev()) {
            let range = block * BLOCK..(block + 1) * BLOCK;
            let keep = match draw() % 4 {
                0 | 1 => continue,
                2 => 0,
                _ => usize::from(draw()) * BLOCK / 256,
            };
            after[range][keep..].copy_from_slice(&old[keep..]);
        }
        after
    }
}

impl Disk {
    fn of(bytes: &[u8]) -> Disk {
        Disk(Arc::new(Mutex::new(State { bytes: bytes.to_vec(), ..State::default() })))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }
}

impl Medium for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().bytes.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let from = state.bytes.get(at as usize..at as usize + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.full_at.is_some_and(|full| at + bytes.len() as u64 > full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.change(at as usize, bytes);
        Ok(())
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        let end = end.min(state.bytes.len() as u64);
        if at < end {
            state.change(at as usize, &vec![0; (end - at) as usize]);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        let written = std::mem::take(&mut state.unsynced);
        state.doubtful.retain(|(block, _)| !written.iter().any(|(other, _)| other == block));
        state.syncs += 1;
        Ok(())
    }
}

fn ban(seq: u64) -> JournalEntry {
    JournalEntry::Ban(JournalBan {
        seq,
        real: 1e9 + seq as f64,
        mono: seq as f64,
        spec: vec![seq as u8; 9],
        ..JournalBan::default()
    })
}

/// Entries of a journal behind the first, which tells the newest number.
fn reopen(bytes: &[u8]) -> Result<Vec<JournalEntry>, JournalError> {
    let (_, entries) = Journal::open(Disk::of(bytes))?;
    Ok(entries.into_iter().filter(|entry| !matches!(entry, JournalEntry::Newest { .. })).collect())
}

fn write(journal: &Journal, entry: &JournalEntry) {
    journal.commit(journal.append(entry)).unwrap();
}

fn entries() -> impl Strategy<Value = JournalEntry> {
    let seconds = || -1e9f64..1e10;
    let life = move || prop::option::of(seconds());
    prop_oneof![
        (any::<u64>(), seconds(), any::<bool>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(seq, mono, is_completed, successor, spec)| {
                JournalEntry::Ban(JournalBan { seq, real: mono + 1e9, mono, is_completed, successor, spec })
            }
        ),
        (any::<u64>(), any::<u64>()).prop_map(|(seq, successor)| JournalEntry::Completed { seq, successor }),
        any::<u64>().prop_map(|seq| JournalEntry::Oldest { seq }),
        (any::<u64>(), any::<[u8; 32]>(), seconds(), life(), life(), life()).prop_map(
            |(seq, digest, at, ttl, grace, keep)| JournalEntry::Purge(JournalPurge {
                seq,
                digest,
                at,
                ttl,
                grace,
                keep
            })
        ),
        (any::<u64>(), life(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(seq, soft, key)| JournalEntry::TagPurge(JournalTagPurge { seq, key, soft })),
        any::<u64>().prop_map(|seq| JournalEntry::Done { seq }),
        (any::<u64>(), any::<u64>(), seconds()).prop_map(|(number, boot, epoch)| JournalEntry::Life(JournalLife {
            number,
            boot,
            epoch
        })),
        any::<u64>().prop_map(|number| JournalEntry::Known { number }),
        Just(JournalEntry::Bound),
        any::<u64>().prop_map(|seq| JournalEntry::Reached { seq }),
        any::<u64>().prop_map(|seq| JournalEntry::KeysLost { seq }),
        (any::<Vec<u8>>(), any::<u64>(), any::<Option<u64>>())
            .prop_map(|(epoch, seq, mark)| JournalEntry::Followed(Followed { epoch, seq, mark })),
        (any::<u64>(), any::<u64>(), any::<u32>(), any::<String>(), any::<Vec<u8>>()).prop_map(
            |(seq, mark, since, id, bytes)| {
                JournalEntry::Held(JournalHeld { seq, mark, since: f64::from(since), id, bytes: bytes.into() })
            }
        ),
    ]
}

#[test]
fn the_first_open_says_that_nothing_is_there() {
    assert!(matches!(reopen(&[]), Err(JournalError::Foreign)));
    assert!(matches!(reopen(&[7; 20_000]), Err(JournalError::Foreign)));
    let disk = Disk::of(&[7; 20_000]);
    Journal::format(disk.clone()).unwrap();
    assert_eq!(reopen(&disk.bytes()).unwrap(), []);
}

#[test]
fn another_version_is_refused_by_name() {
    let disk = Disk::default();
    Journal::format(disk.clone()).unwrap();
    let mut bytes = disk.bytes();
    bytes[4096 + 8] = 9;
    assert_eq!(reopen(&bytes).unwrap_err().to_string(), "a journal of version 9, not 2");
}

#[test]
fn a_time_of_a_machine_that_was_started_again_is_translated() {
    let life = |boot, epoch| JournalLife { number: 1, boot, epoch };
    assert_eq!(life(7, 1e9).translate(50.0, &life(7, 1e9 + 3.0)), 50.0, "the wall clock was set");
    assert_eq!(life(7, 1e9).translate(50.0, &life(8, 1e9 + 60.0)), -10.0);
    assert_eq!(life(0, 1e9).translate(50.0, &life(0, 1e9 + 60.0)), -10.0, "nobody knows");
}

#[test]
fn a_file_in_memory_gives_back_what_a_new_log_replaces() {
    let file = sys::fd::memfd("journal").unwrap();
    let journal = Journal::format(JournalFile::in_memory(file.try_clone().unwrap())).unwrap();
    for seq in 0..20_000 {
        write(&journal, &ban(seq));
    }
    assert!(journal.is_oversized());
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
    let before = blocks();
    for _ in 0..2 {
        journal.cut().unwrap().finish(&[ban(7)]).unwrap();
        assert!(blocks() < before / 10, "{} of {before}", blocks());
        assert!(!journal.is_oversized());
    }
    drop(journal);
    let (_, entries) = Journal::open(JournalFile::in_memory(file)).unwrap();
    assert_eq!(entries, [ban(7)]);
}

#[test]
fn a_write_that_fails_makes_the_journal_incomplete_and_that_lasts() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    write(&journal, &ban(1));
    disk.0.lock().full_at = Some(8192);
    write(&journal, &ban(2));
    write(&journal, &ban(3));
    assert_eq!(journal.failure(), Some(JournalFailure { reason: "no storage space".to_owned(), is_written: true }));
    assert!(journal.cut().is_none(), "nothing mends it");
    assert!(matches!(reopen(&disk.bytes()), Err(JournalError::Incomplete)));
}

#[test]
fn where_nothing_can_be_written_nothing_is_acknowledged() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    write(&journal, &ban(1));
    disk.0.lock().full_at = Some(0);
    for seq in 2..4 {
        let ticket = journal.append(&ban(seq));
        assert!(journal.commit(ticket).is_err());
        assert!(!journal.failure().unwrap().is_written);
        assert!(!journal.is_stable(ticket));
    }
    assert_eq!(reopen(&disk.bytes()).unwrap(), [ban(1)]);
    disk.0.lock().full_at = None;
    write(&journal, &ban(4));
    assert!(matches!(reopen(&disk.bytes()), Err(JournalError::Incomplete)), "2 and 3 are missing");
}

#[test]
fn a_new_log_that_finds_no_room_leaves_the_old_one() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    write(&journal, &ban(1));
    let cut = journal.cut().unwrap();
    let ticket = journal.append(&ban(2));
    disk.0.lock().full_at = Some(8192);
    assert!(cut.finish(&[ban(1)]).is_err());
    disk.0.lock().full_at = None;
    assert!(!journal.is_stable(ticket));
    journal.commit(ticket).unwrap();
    assert_eq!(reopen(&disk.bytes()).unwrap(), [ban(1), ban(2)]);
}

#[test]
fn what_comes_between_cut_and_finish_is_in_the_new_log_once() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    write(&journal, &ban(1));
    write(&journal, &ban(2));
    let cut = journal.cut().unwrap();
    assert!(journal.cut().is_none(), "one at a time");
    write(&journal, &ban(3));
    let later = journal.append(&ban(4));
    cut.finish(&[ban(2)]).unwrap();
    assert!(journal.is_stable(later));
    write(&journal, &ban(5));
    assert_eq!(reopen(&disk.bytes()).unwrap(), [ban(2), ban(3), ban(4), ban(5)]);
    drop(journal.cut());
    assert!(journal.cut().is_some(), "one that was given up");
}

/// Carries out what it is told, until it is gone.
#[derive(Clone, Debug, Default)]
struct Next(Arc<Mutex<(Vec<JournalEntry>, bool)>>);

impl JournalPeer for Next {
    fn carry_out(&mut self, entries: &[u8]) -> io::Result<()> {
        let mut next = self.0.lock();
        if next.1 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        next.0.extend(JournalEntry::decode_all(entries).unwrap());
        Ok(())
    }
}

#[test]
fn what_comes_after_the_hand_over_is_the_successors() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    write(&journal, &ban(1));
    let cut = journal.cut().unwrap();
    let before = journal.append(&ban(2));
    let next = Next::default();
    journal.hand_over(Box::new(next.clone())).unwrap();
    assert!(journal.is_stable(before));
    // From here on the log is another's.
    let log = disk.bytes();
    cut.finish(&[]).unwrap();
    assert!(journal.cut().is_none());
    write(&journal, &ban(3));
    let ticket = journal.append(&ban(4));
    assert!(!journal.is_stable(ticket));
    journal.commit(ticket).unwrap();
    assert!(disk.bytes() == log);
    assert_eq!(reopen(&log).unwrap(), [ban(1), ban(2)]);
    assert_eq!(next.0.lock().0, [ban(3), ban(4)]);
    next.0.lock().1 = true;
    let ticket = journal.append(&ban(5));
    assert!(journal.commit(ticket).is_err(), "nobody is told that it was done");
    assert!(!journal.is_stable(ticket));
}

#[test]
fn a_journal_that_is_taken_back_goes_on_behind_what_a_successor_left() {
    for writes in 0..4 {
        let disk = Disk::default();
        let journal = Journal::format(disk.clone()).unwrap();
        write(&journal, &ban(1));
        let next = Next::default();
        journal.hand_over(Box::new(next.clone())).unwrap();
        // Opening it begins the log anew, and it may have gone on from there.
        let (other, _) = Journal::open(disk.clone()).unwrap();
        (0..writes).for_each(|n| write(&other, &ban(100 + n)));
        drop(other);
        next.0.lock().1 = true;
        let lost = journal.append(&ban(2));
        assert!(journal.commit(lost).is_err());
        journal.take_back().unwrap();
        journal.cut().unwrap().finish(&[ban(1), ban(2)]).unwrap();
        write(&journal, &ban(3));
        assert_eq!(reopen(&disk.bytes()).unwrap(), [ban(1), ban(2), ban(3)], "{writes}");
        assert_eq!(journal.failure(), None);
    }
}

#[test]
fn a_journal_that_was_handed_over_is_renounced_by_nobody_but_its_successor() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    write(&journal, &ban(1));
    journal.hand_over(Box::new(Next::default())).unwrap();
    journal.renounce("too much");
    assert_eq!(reopen(&disk.bytes()).unwrap(), [ban(1)]);
}

#[test]
fn a_journal_that_is_incomplete_says_so_when_it_is_handed_over() {
    let disk = Disk::default();
    let journal = Journal::format(disk.clone()).unwrap();
    disk.0.lock().full_at = Some(8192);
    write(&journal, &ban(1));
    let _ = journal.hand_over(Box::new(Next::default()));
    assert!(matches!(reopen(&disk.bytes()), Err(JournalError::Incomplete)));
}

/// Lets each sync wait for a word.
#[derive(Debug)]
struct Gate {
    disk: Disk,
    is_shut: std::sync::atomic::AtomicBool,
    reached: Barrier,
    opened: Barrier,
}

impl Medium for Arc<Gate> {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(at, bytes)
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        self.disk.clear(at, end)
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_shut.swap(false, Relaxed) {
            self.reached.wait();
            self.opened.wait();
        }
        self.disk.sync()
    }

    fn takes_time(&self) -> bool {
        true
    }
}

/// A journal behind a gate, and the thread that writes it.
fn gated(run: impl FnOnce(&Gate, &Arc<Journal>)) {
    let gate = Arc::new(Gate {
        disk: Disk::default(),
        is_shut: Default::default(),
        reached: Barrier::new(2),
        opened: Barrier::new(2),
    });
    let journal = Arc::new(Journal::format(gate.clone()).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| journal.work(Duration::from_secs(60), &mut || {}));
        let _ending = Ending(&journal);
        run(&gate, &journal);
    });
}

/// Ends the journal's thread, also when a check fails: else nobody would hear of it.
struct Ending<'a>(&'a Journal);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Appends a ban: what is to be awaited, if it doesn't last already.
fn flushed(journal: &Arc<Journal>, seq: u64) -> Option<Unkept> {
    let ticket = journal.append(&ban(seq));
    journal.flush(ticket).unwrap();
    journal.unkept()
}

fn wait(unkept: Option<Unkept>) -> Result<(), String> {
    unkept.map_or(Ok(()), testkit::block_on)
}

#[test]
fn who_waits_hears_of_the_sync_that_includes_his_entry() {
    gated(|gate, journal| {
        let before = gate.disk.0.lock().syncs;
        gate.is_shut.store(true, Relaxed);
        // As long as the gate is shut, nothing lasts.
        let flushed = |seq| flushed(journal, seq).expect("it is to be awaited");
        let mut first = flushed(1);
        gate.reached.wait();
        let idle = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut first).poll(idle).is_pending());
        let later: Vec<Unkept> = (2..10).map(flushed).collect();
        drop(flushed(10));
        gate.opened.wait();
        assert_eq!(wait(Some(first)), Ok(()));
        later.into_iter().for_each(|unkept| assert_eq!(wait(Some(unkept)), Ok(())));
        assert_eq!(gate.disk.0.lock().syncs, before + 2);
        assert!(journal.unkept().is_none());
        assert!(journal.queue.lock().waiting.is_empty());
    });
}

#[test]
fn who_waits_hears_that_nothing_can_be_written() {
    gated(|gate, journal| {
        gate.disk.0.lock().full_at = Some(0);
        assert_eq!(wait(flushed(journal, 1)), Err("no storage space".to_owned()));
        gate.disk.0.lock().full_at = None;
        assert_eq!(wait(flushed(journal, 2)), Ok(()), "it lasts that the journal is incomplete");
        assert!(matches!(reopen(&gate.disk.bytes()), Err(JournalError::Incomplete)));
    });
}

#[test]
fn a_medium_that_stands_still_does_not_fill_the_memory() {
    gated(|gate, journal| {
        gate.is_shut.store(true, Relaxed);
        let first = flushed(journal, 1);
        gate.reached.wait();
        let long = JournalEntry::Ban(JournalBan { seq: 2, spec: vec![0; 1 << 20], ..JournalBan::default() });
        let cut = journal.cut();
        (0..100).for_each(|_| _ = journal.append(&long));
        {
            let queue = journal.queue.lock();
            assert!(queue.pending.is_empty() && queue.since_cut.is_none());
        }
        gate.opened.wait();
        assert_eq!(wait(first), Ok(()));
        drop(cut);
        assert_eq!(wait(flushed(journal, 3)), Ok(()), "it lasts that the journal is incomplete");
        assert_eq!(journal.failure().unwrap().reason, "too much waits to be written");
    });
}

#[test]
fn what_was_appended_before_the_end_is_written() {
    let disk = Disk::default();
    gated(|gate, journal| {
        journal.append(&ban(1));
        journal.end();
        // The next look is the last one.
        while journal.unkept().is_some() {
            std::thread::yield_now();
        }
        disk.0.lock().bytes = gate.disk.bytes();
    });
    assert_eq!(reopen(&disk.bytes()).unwrap(), [ban(1)]);
}

#[test]
fn those_who_wait_for_a_sync_share_the_next_one() {
    const WAITING: u64 = 8;
    let gate = Arc::new(Gate {
        disk: Disk::default(),
        is_shut: Default::default(),
        reached: Barrier::new(2),
        opened: Barrier::new(2),
    });
    let journal = Journal::format(gate.clone()).unwrap();
    let before = gate.disk.0.lock().syncs;
    gate.is_shut.store(true, Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&journal, &ban(0)));
        gate.reached.wait();
        let tickets: Vec<_> = (1..=WAITING).map(|seq| journal.append(&ban(seq))).collect();
        for ticket in tickets {
            assert!(!journal.is_stable(ticket));
            let journal = &journal;
            scope.spawn(move || journal.commit(ticket).unwrap());
        }
        gate.opened.wait();
    });
    assert_eq!(gate.disk.0.lock().syncs - before, 2);
    let all: Vec<_> = (0..=WAITING).map(ban).collect();
    assert_eq!(reopen(&gate.disk.bytes()).unwrap(), all);
}

#[derive(Clone, Debug)]
enum Step {
    Write(JournalEntry),
    /// Appended and not committed.
    Append(JournalEntry),
    /// The log is begun anew, with all entries so far.
    Replace,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => entries().prop_map(Step::Write),
        1 => entries().prop_map(Step::Append),
        1 => Just(Step::Replace),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..12)
}

struct Doing<M> {
    medium: M,
    journal: Journal,
    all: Vec<JournalEntry>,
    written: usize,
}

impl<M: Medium + Clone + 'static> Doing<M> {
    fn begin(medium: M) -> Doing<M> {
        Doing { journal: Journal::format(medium.clone()).unwrap(), medium, all: Vec::new(), written: 0 }
    }

    /// Does it; how many entries were acknowledged before.
    fn step(&mut self, step: &Step) -> usize {
        let before = self.written;
        match step {
            Step::Write(entry) => {
                self.all.push(entry.clone());
                write(&self.journal, entry);
                self.written = self.all.len();
            }
            Step::Append(entry) => {
                self.all.push(entry.clone());
                self.journal.append(entry);
            }
            Step::Replace => {
                self.journal.cut().unwrap().finish(&self.all).unwrap();
                self.written = self.all.len();
            }
            Step::Reopen => {
                self.all.truncate(self.written);
                self.journal = Journal::open(self.medium.clone()).unwrap().0;
            }
        }
        before
    }
}

/// True if the journal holds all that was acknowledged, and of the rest a beginning.
fn is_sound(found: &[JournalEntry], acknowledged: &[JournalEntry], all: &[JournalEntry]) -> bool {
    found.starts_with(acknowledged) && all.starts_with(found)
}

proptest! {
    #[test]
    fn any_entries_come_back(entries in prop::collection::vec(entries(), 0..20)) {
        let disk = Disk::default();
        let journal = Journal::format(disk.clone()).unwrap();
        entries.iter().for_each(|entry| write(&journal, entry));
        prop_assert_eq!(reopen(&disk.bytes()).unwrap(), entries);
    }

    #[test]
    fn a_kill_at_any_write_takes_nothing_acknowledged(steps in steps()) {
        let disk = Disk::default();
        let mut doing = Doing::begin(disk.clone());
        disk.0.lock().keeps_history = true;
        for step in &steps {
            let acknowledged = doing.step(step);
            for bytes in disk.0.lock().history.drain(..) {
                let found = reopen(&bytes).unwrap();
                prop_assert!(is_sound(&found, &doing.all[..acknowledged], &doing.all), "{found:?} {:?}", doing.all);
            }
        }
    }

    #[test]
    fn a_power_cut_takes_nothing_acknowledged(
        steps in steps(),
        draws in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let watched = Watched::default();
        let mut doing = Doing::begin(watched.clone());
        let mut drawn = draws.iter().cycle();
        for step in &steps {
            watched.before.lock().clear();
            let acknowledged = doing.step(step);
            for state in watched.before.lock().iter() {
                let found = reopen(&state.cut_power(|| *drawn.next().unwrap())).unwrap();
                prop_assert!(is_sound(&found, &doing.all[..acknowledged], &doing.all), "{found:?} {:?}", doing.all);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_found_or_did_not_matter(
        entries in prop::collection::vec(entries(), 1..8),
        at in 0usize..10_000,
        flip in 1u8..,
    ) {
        let disk = Disk::default();
        let journal = Journal::format(disk.clone()).unwrap();
        entries.iter().for_each(|entry| write(&journal, entry));
        let mut bytes = disk.bytes();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if let Ok(found) = reopen(&bytes) {
            // The last may have been torn.
            prop_assert!(found == entries || found == entries[..entries.len() - 1]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        start in any::<bool>(),
        mut junk in prop::collection::vec((0usize..12_000, prop::collection::vec(any::<u8>(), 1..64)), 0..8),
        len in 0usize..12_000,
    ) {
        let disk = Disk::default();
        if start {
            let journal = Journal::format(disk.clone()).unwrap();
            (0..50).for_each(|seq| write(&journal, &ban(seq)));
        }
        let mut bytes = disk.bytes();
        for (at, some) in junk.drain(..) {
            bytes.resize(bytes.len().max(at + some.len()), 0);
            bytes[at..at + some.len()].copy_from_slice(&some);
        }
        bytes.truncate(len);
        let _ = reopen(&bytes);
    }

    #[test]
    fn any_entries_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(entries) = JournalEntry::decode_all(&bytes) {
            let mut again = Vec::new();
            entries.iter().for_each(|entry| entry.encode(&mut again));
            prop_assert_eq!(again.len(), bytes.len());
        }
    }
}

/// Notes what the disk is before each sync.
#[derive(Clone, Debug, Default)]
struct Watched {
    disk: Disk,
    before: Arc<Mutex<Vec<State>>>,
}

impl Medium for Watched {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(at, bytes)
    }

    fn clear(&self, at: u64, end: u64) -> io::Result<()> {
        self.disk.clear(at, end)
    }

    fn sync(&self) -> io::Result<()> {
        self.before.lock().push(self.disk.0.lock().clone());
        self.disk.sync()
    }
}
