// SPDX-License-Identifier: BSD-2-Clause
//! The thread that follows the log, carries out what it says, and says what may be found in the cache.
//!
//! ```text
//! start ── Closed ── connected: judged by the rules, all carried out ──▶ Open ── connection lost ──▶ Open, later Capped ─┐
//!             │                                                           ▲   (connected again: Closed for a moment) ◀──┘
//!             └── waited long enough: all that is stored is given up ─────┘
//! ```

#[cfg(test)]
mod model;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::held::{Held, HeldForm, HeldRecord, Losses};
use super::{Gate, Outcome, Reach, Shared, Waiting};
use crate::rules::{FollowVerdict, Gap, OTHER_LOG, judge};
use crate::{
    Applier, Connect, FleetEntry, FleetLink, IncomingEntry, Invalidation, LinkFault, LogBounds, LogServer, NextEntries,
    Position, Read, mark,
};

const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// Entries carried out until the position is kept although more are there.
const STRETCH: u64 = 256;
/// Time after which entries that the log announced count as late.
const LATE: Duration = Duration::from_secs(5);
/// Entries at the end of a log that are searched for one that tells all of its loss.
const TOLD: u64 = 65_536;
/// Entries that are appended again together.
const AGAIN: usize = 64;

enum End {
    Fault(LinkFault),
    /// The position isn't one of this log: begin at its end.
    Gap(Gap),
    /// The log hasn't the entry by which it was to be recognised: an earlier one may be there.
    Unknown(Known),
}

impl From<LinkFault> for End {
    fn from(fault: LinkFault) -> End {
        End::Fault(fault)
    }
}

struct Followed {
    link: Box<dyn FleetLink>,
    epoch: String,
    /// Has to be asked for the entries from that number on.
    from: Option<u64>,
    /// The first entry must be this one ...
    known: Option<Known>,
    /// ... or one of these, the newest last.
    earlier: Vec<Known>,
    /// All that this node holds up to there was in the log before this connection was.
    held: u64,
    /// The position of before, while all that came is as it was then.
    stood: Option<u64>,
    last: Option<u64>,
    /// Entries before that one were in the log when everything was given up. They may tell of a loss that all know of.
    given_up: u64,
    /// The log's end when this node came to it, and when that was.
    end: u64,
    came: Instant,
}

/// The entry from which on a node looks for one that has told all nodes of a loss.
fn told_from(bounds: &LogBounds) -> u64 {
    bounds.first.max(bounds.last.saturating_sub(TOLD))
}

/// The entry by which a log is recognised.
#[derive(Clone, Copy, Debug)]
struct Known {
    seq: u64,
    mark: u64,
    /// The log's epoch is another one than before. Then the entry must be a node's: other programs may write the same one to two logs.
    has_new_epoch: bool,
}

impl Known {
    fn is(self, seq: u64, bytes: &[u8]) -> bool {
        let is_same =
            self.mark == mark(bytes) || base::failpoint::fault("an entry taken for another one by its number");
        (self.seq == seq && is_same) && (!self.has_new_epoch || matches!(FleetEntry::read(bytes), Read::Entry(_)))
    }

    /// The log isn't the one that it was, and holds nothing by which it is known.
    fn gap(self) -> Gap {
        match self.has_new_epoch {
            true => Gap::lost(OTHER_LOG, 0),
            false => Gap::lost(format!("entry {} is missing or has changed", self.seq), self.seq),
        }
    }
}

pub struct Follower {
    shared: Arc<Shared>,
    connect: Arc<dyn Connect>,
    applier: Arc<dyn Applier>,
    followed: Option<Followed>,
    turn: usize,
    pause: Duration,
    due: Instant,
    /// Position that stored objects have reached; `None`: nobody knows.
    position: Option<Position>,
    /// Reason why nobody knows, if it was known before.
    gap: Option<Gap>,
    begun: Instant,
    /// Since when the log isn't followed; `None`: it is, up to its end.
    lost: Option<Instant>,
    was_open: bool,
    /// The log was followed up to its end once.
    was_followed: bool,
    /// The log has lost entries, and this node tells all, unless another one has: by an entry from that number on.
    lost_before: Option<u64>,
    kept: Option<u64>,
}

impl Follower {
    pub(super) fn new(
        shared: Arc<Shared>,
        connect: Arc<dyn Connect>,
        applier: Arc<dyn Applier>,
        position: Option<Position>,
    ) -> Follower {
        let now = shared.now();
        shared.set_keeper(&applier);
        Follower {
            shared,
            connect,
            applier,
            followed: None,
            turn: 0,
            pause: FIRST_PAUSE,
            due: now,
            position,
            gap: None,
            begun: now,
            lost: Some(now),
            was_open: false,
            was_followed: false,
            lost_before: None,
            kept: None,
        }
    }

    /// Follows until the node ends. What is stored has come as far as `position`.
    pub(super) fn run(mut self) {
        while !self.shared.is_over() {
            let until = self.step();
            let left = until.saturating_duration_since(self.shared.now());
            if !left.is_zero() && !self.shared.is_over() {
                std::thread::sleep(left);
            }
        }
    }

    /// One thing that has to be done, if there is any, which may wait for an entry: when the next one is due.
    pub fn step(&mut self) -> Instant {
        let now = self.shared.now();
        let done = match self.followed.take() {
            Some(followed) => self.follow(followed),
            None if now < self.due => {
                self.look();
                return self.due.min(now + LOOK);
            }
            None => self.come(),
        };
        match done {
            Ok(followed) => self.followed = Some(followed),
            Err(end) => self.ended(end),
        }
        self.shared.now().max(self.due.min(self.shared.now() + LOOK))
    }

    fn server(&self) -> &LogServer {
        let servers = &self.shared.settings.servers;
        &servers[self.turn % servers.len()]
    }

    fn ended(&mut self, end: End) {
        let now = self.shared.now();
        if self.lost.is_none() {
            self.pause = FIRST_PAUSE;
        }
        self.lost.get_or_insert(now);
        match end {
            End::Gap(gap) => self.lose_place(gap, now),
            End::Unknown(known) => self.lose_place(known.gap(), now),
            End::Fault(fault) => {
                self.away(format!("{}: {fault}", self.server()));
                self.turn += 1;
                self.due = now + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn lose_place(&mut self, gap: Gap, now: Instant) {
        (self.position, self.gap) = (None, Some(gap));
        self.due = now;
    }

    /// Comes to the log: what is to be done with it, by the rules.
    fn come(&mut self) -> Result<Followed, End> {
        let server = self.server().to_string();
        let mut link = self.connect.connect(self.server(), self.shared.now() + CONNECT_TIME)?;
        // In this order: what the log had by then it has lost if it ends before.
        self.shared.is_doubted.store(false, SeqCst);
        let held = self.shared.held.lock().newest();
        let bounds = link.bounds()?;
        let mut known = self.known(&bounds);
        let verdict = match self.gap.take() {
            Some(gap) => FollowVerdict::Begin { gap: Some(gap) },
            None => match known.last() {
                Some(known) => FollowVerdict::Replay { from: known.seq },
                None => judge(self.position.as_ref(), &bounds),
            },
        };
        // What is found from now on is what has stood all that the log has.
        self.gate(Gate::Closed);
        let stood = self.position.as_ref().map(|position| position.seq);
        let mut given_up = 0;
        let (from, first) = match verdict {
            FollowVerdict::Replay { from } => {
                let first = known.pop().or_else(|| self.known_position(from, &bounds));
                if first.is_none() {
                    self.lose_beyond(bounds.last, held);
                }
                (from, first)
            }
            FollowVerdict::Begin { gap } => {
                known.clear();
                self.begin(gap, bounds.last);
                // Another log counts anew; of this one all is behind the position.
                self.shared.newest_own.fetch_min(bounds.last, SeqCst);
                self.position = Some(Position { epoch: bounds.epoch.clone(), seq: bounds.last, mark: None });
                // The last one once more: by it the log is known again.
                given_up = bounds.last;
                let told = self.lost_before.map(|before| before.max(told_from(&bounds)).min(bounds.last));
                // The log may have other entries by now where this node holds some.
                let held = self.shared.held.lock().earliest(&bounds).map(|held| held.max(told_from(&bounds)));
                (told.into_iter().chain(held).min().unwrap_or(bounds.last).max(1), None)
            }
        };
        let applied = self.position.as_ref().map_or(0, |position| position.seq);
        self.shared.change(&*self.applier, |status| {
            status.follow = Reach::Up(server);
            (status.epoch, status.head, status.applied) = (bounds.epoch.clone(), bounds.last, applied);
        });
        let came = self.shared.now();
        let (epoch, end) = (bounds.epoch, bounds.last);
        Ok(Followed {
            link,
            epoch,
            from: Some(from),
            known: first,
            earlier: known,
            held,
            stood,
            last: None,
            given_up,
            end,
            came,
        })
    }

    fn known(&self, bounds: &LogBounds) -> Vec<Known> {
        let Some(position) = &self.position else { return Vec::new() };
        if base::failpoint::fault("a loss for which everything is given up") {
            return Vec::new();
        }
        let has_new_epoch = position.epoch != bounds.epoch;
        let probes = self.shared.held.lock().probes(position.seq, bounds);
        probes.into_iter().rev().map(|(seq, mark)| Known { seq, mark, has_new_epoch }).collect()
    }

    fn known_position(&self, from: u64, bounds: &LogBounds) -> Option<Known> {
        let position = self.position.as_ref().filter(|position| position.seq == from)?;
        Some(Known { seq: from, mark: position.mark?, has_new_epoch: position.epoch != bounds.epoch })
    }

    fn follow(&mut self, mut followed: Followed) -> Result<Followed, End> {
        if let Some(from) = followed.from.take() {
            followed.link.follow(from)?;
            return Ok(followed);
        }
        // While it looks for what it knows, it is about to find out.
        if followed.known.is_none() && self.shared.is_doubted.swap(false, SeqCst) {
            self.doubt(&mut followed)?;
        }
        match followed.link.next()? {
            NextEntries::Entries { entries, left } => {
                let mut done = Ok(());
                let applier = self.applier.clone();
                applier.together(&mut || done = self.carry_out_all(&mut followed, &entries));
                if let Err(End::Unknown(known)) = done {
                    return self.look_earlier(followed, known);
                }
                done?;
                if let Some(IncomingEntry { seq, bytes }) = entries.last() {
                    self.advance(&followed, *seq, mark(bytes), left);
                }
            }
            NextEntries::Quiet => {
                if let Some(known) = followed.known.take() {
                    return self.look_earlier(followed, known);
                }
                if self.has_reached(followed.end) {
                    self.caught_up();
                } else if self.shared.since(followed.came) >= LATE {
                    return Err(End::Gap(Gap::trimmed(format!(
                        "entries up to {} don't arrive, although the log announced them",
                        followed.end
                    ))));
                }
            }
        }
        self.append_again();
        Ok(followed)
    }

    /// The appender has found that the log isn't the followed one, or has lost something.
    fn doubt(&self, followed: &mut Followed) -> Result<(), LinkFault> {
        let newest = self.shared.held.lock().newest();
        let bounds = followed.link.bounds()?;
        match bounds {
            LogBounds { epoch, .. } if epoch != followed.epoch => {
                Err(LinkFault::new("the log has another epoch than before"))
            }
            LogBounds { last, .. } if last < newest => Err(LinkFault::new("the log has lost entries")),
            _ => Ok(()),
        }
    }

    fn look_earlier(&self, mut followed: Followed, known: Known) -> Result<Followed, End> {
        let earlier = followed.earlier.pop().ok_or(End::Unknown(known))?;
        (followed.known, followed.from, followed.last) = (Some(earlier), Some(earlier.seq), None);
        Ok(followed)
    }

    fn carry_out_all(&mut self, followed: &mut Followed, entries: &[IncomingEntry]) -> Result<(), End> {
        for (at, IncomingEntry { seq, bytes }) in entries.iter().enumerate() {
            if followed.last.is_some_and(|last| *seq <= last) {
                return Err(LinkFault::new(format!("it sends entry {seq} too late")).into());
            }
            match followed.known.take() {
                Some(known) if known.is(*seq, bytes) => self.recognise(followed, known),
                Some(_) if base::failpoint::fault("a log that was put back and is gone on with") => {}
                Some(known) => return Err(End::Unknown(known)),
                None if at + 1 < entries.len() && base::failpoint::fault("a batch but for its last entry") => {}
                None => self.take_entry(followed, *seq, bytes)?,
            }
            followed.last = Some(*seq);
        }
        Ok(())
    }

    fn recognise(&mut self, followed: &Followed, known: Known) {
        self.position = Some(Position { epoch: followed.epoch.clone(), seq: known.seq, mark: Some(known.mark) });
        self.lose_beyond(followed.end, followed.held);
    }

    fn lose_beyond(&self, end: u64, held: u64) {
        self.change_held(|all, losses| all.lose_between(end.saturating_add(1), held, losses));
    }

    fn take_entry(&mut self, followed: &mut Followed, seq: u64, bytes: &[u8]) -> Result<(), End> {
        let is_alarm = |read: &Read| matches!(read, Read::Entry(FleetEntry { what: Invalidation::All(_), .. }));
        if seq < followed.given_up {
            let is_told = is_alarm(&FleetEntry::read(bytes)) && self.lost_before.take_if(|from| seq >= *from).is_some();
            self.change_held(|held, losses| {
                let told = if is_told { held.is_told() } else { None };
                held.compare(seq, mark(bytes), losses).into_iter().chain(told).collect()
            });
            return Ok(());
        }
        let before = followed.last.max(self.position.as_ref().map(|position| position.seq)).unwrap_or(0);
        let is_known =
            followed.stood.is_some_and(|stood| seq <= stood) && self.shared.held.lock().is_at(seq, mark(bytes));
        let next = before.saturating_add(1);
        if seq > next && !is_known && !base::failpoint::fault("a log that was trimmed and is gone on with") {
            // A log that is trimmed faster than it is followed leaves out what is gone.
            return Err(End::Gap(Gap::trimmed(format!("entries from {next} on are missing"))));
        }
        self.change_held(|held, losses| held.lose_between(next, seq.saturating_sub(1), losses));
        if is_known {
            return Ok(());
        }
        if followed.stood.is_some_and(|stood| seq <= stood) {
            followed.stood = None;
        }
        let read = FleetEntry::read(bytes);
        let form = HeldForm::of(&read, bytes, &self.shared.settings.node);
        let is_told = is_alarm(&read) && self.lost_before.take_if(|from| seq >= *from).is_some();
        if form.as_ref().is_some_and(|form| self.shared.held.lock().is_refused(form)) {
            self.count(|status| status.restored += 1);
        }
        self.carry_out(seq, read);
        self.change_held(|held, losses| {
            let told = if is_told { held.is_told() } else { None };
            held.read(seq, form, losses).into_iter().chain(told).collect()
        });
        Ok(())
    }

    fn change_held(&self, change: impl FnOnce(&mut Held, &Losses<'_>) -> Vec<HeldRecord>) {
        let (unread, owed) = self.shared.change_held(|held, losses| {
            let before = held.owed();
            let changed = change(held, losses);
            let unread: Vec<String> = changed.iter().filter(|record| record.seq == 0).map(|r| r.id.clone()).collect();
            (changed, (unread, (before, held.owed())))
        });
        // An own entry that was lost is carried out like others' when it comes again: copies of peers may be older.
        unread.iter().for_each(|id| _ = self.shared.own.lock().take(id));
        let (before, now) = owed;
        if before != now {
            self.shared.change(&*self.applier, |status| status.owed = now);
        }
        if before == 0 && now > 0 {
            self.applier.tell(&format!("the log has lost entries: this node appends {now} of them again"));
        }
    }

    fn append_again(&self) {
        if self.lost.is_some() || base::failpoint::fault("a lost entry that isn't appended again") {
            return;
        }
        let (due, owed) = {
            let mut held = self.shared.held.lock();
            (held.due(self.shared.now(), AGAIN), held.owed())
        };
        // The appender and new entries change it, too.
        if self.shared.status.lock().owed != owed {
            self.shared.change(&*self.applier, |status| status.owed = owed);
        }
        for lost in due {
            let bytes = self.shared.once_more(&lost.id, &lost.bytes);
            let (outcome, pending) = (Arc::new(Outcome::default()), lost.pending);
            self.shared.enqueue(Waiting { id: lost.id, key: lost.key, bytes, until: None, outcome, pending }, None);
        }
    }

    fn begin(&mut self, gap: Option<Gap>, last: u64) {
        match gap {
            Some(gap) => self.forsake(&gap, last),
            None => {
                if self.applier.has_objects() {
                    self.give_up("it is unknown which entries of the log were missed");
                }
                self.change_held(|held, losses| held.forsake(None, last, String::new(), "", losses));
            }
        }
    }

    /// Gives up what is stored, and has other nodes do so where they may not notice: not for a position that is days
    /// old, as theirs isn't.
    fn forsake(&mut self, gap: &Gap, last: u64) {
        self.give_up(&gap.why);
        let is_recent = self.was_followed || self.shared.held.lock().newest() > 0;
        let gap = &Gap { lost_before: gap.lost_before.filter(|_| is_recent), ..gap.clone() };
        let alarm = self.shared.word("alarm", self.shared.entries.fetch_add(1, Relaxed));
        let node = &self.shared.settings.node;
        self.change_held(|held, losses| held.forsake(Some(gap), last, alarm.clone(), node, losses));
        if gap.lost_before.is_some() {
            self.lost_before = gap.lost_before;
            // The invalidation holds here already.
            self.shared.own.lock().add(&alarm);
        }
    }

    fn give_up(&self, why: &str) {
        self.applier.apply_all(why);
        self.shared.change(&*self.applier, |status| status.gaps += 1);
    }

    fn carry_out(&self, seq: u64, read: Read) {
        match read {
            Read::Entry(entry) if self.is_own(&entry) => self.count(|status| status.returned += 1),
            Read::Entry(entry) => {
                if let Err(why) = self.applier.apply(&entry) {
                    self.give_up(&format!("entry {seq}, of {}, can't be carried out: {why}", entry.node));
                }
                self.count(|status| status.carried_out += 1);
            }
            Read::Unclear(why) => {
                self.give_up(&format!("entry {seq} of the fleet's log can't be understood: {why}"));
            }
            Read::Damaged(why) => {
                self.give_up(&format!("entry {seq} of the fleet's log is damaged: {why}"));
            }
            Read::Foreign(why) => {
                self.count(|status| status.foreign += 1);
                let count = self.shared.status.lock().foreign;
                // Whoever writes many of them shan't fill the operator's log.
                if count.is_power_of_two() {
                    self.applier.tell(&format!(
                        "entry {seq} of the fleet's log is foreign and skipped: {why} ({count} so far)"
                    ));
                }
            }
        }
    }

    fn is_own(&self, entry: &FleetEntry) -> bool {
        let is_own = self.shared.own.lock().take(&entry.id);
        is_own || base::failpoint::fault("an entry of others taken for an own one")
    }

    /// Counts an entry; it is shown once all that came with it are carried out.
    fn count(&self, count: impl FnOnce(&mut super::NodeStatus)) {
        count(&mut self.shared.status.lock());
    }

    /// All up to that entry is carried out, and so many are left at least.
    fn advance(&mut self, followed: &Followed, seq: u64, mark: u64, left: u64) {
        if seq < followed.given_up {
            return;
        }
        self.position = Some(Position { epoch: followed.epoch.clone(), seq, mark: Some(mark) });
        self.shared.change(&*self.applier, |status| {
            (status.applied, status.head) = (seq, status.head.max(seq.saturating_add(left)));
        });
        match left {
            0 if self.has_reached(followed.end) => self.caught_up(),
            _ if self.kept.is_none_or(|kept| kept.saturating_add(STRETCH) <= seq || kept > seq) => self.keep(),
            _ => {}
        }
    }

    fn has_reached(&self, seq: u64) -> bool {
        self.position.as_ref().is_some_and(|position| position.seq >= seq)
    }

    fn keep(&mut self) {
        if let Some(position) = &self.position {
            self.kept = Some(position.seq);
            self.applier.keep(position);
        }
    }

    fn caught_up(&mut self) {
        if self.position.as_ref().map(|position| position.seq) != self.kept || self.lost.is_some() {
            self.keep();
        }
        self.shared.change(&*self.applier, |status| status.head = status.applied);
        (self.lost, self.was_followed) = (None, true);
        self.gate(Gate::Open);
    }

    fn away(&mut self, why: String) {
        let now = self.shared.now();
        self.shared.change(&*self.applier, |status| {
            let since = match &status.follow {
                Reach::Away(since, _) => *since,
                Reach::Up(_) => now,
            };
            status.follow = Reach::Away(since, why);
        });
        self.look();
    }

    fn look(&mut self) {
        let (wait, stale) = (self.shared.settings.wait, self.shared.settings.stale);
        if let Some(gap) = self.gap.take() {
            // Nobody knows when the log comes back: until then only what is fetched from now on may be found.
            self.forsake(&gap, u64::MAX);
        }
        if !self.was_open {
            if self.shared.since(self.begun) < wait {
                return;
            }
            self.give_up("the fleet's log can't be reached, and cached objects may have missed invalidations");
        }
        let lost = self.lost.map_or(Duration::ZERO, |lost| self.shared.since(lost));
        self.gate(match stale {
            Some(stale) if lost > stale => Gate::Capped(stale),
            Some(_) | None => Gate::Open,
        });
    }

    fn gate(&mut self, gate: Gate) {
        self.was_open |= gate != Gate::Closed;
        if self.shared.status.lock().gate != gate {
            self.applier.set_gate(gate);
            self.shared.change(&*self.applier, |status| status.gate = gate);
        }
    }
}
