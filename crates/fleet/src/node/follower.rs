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
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::{Gate, Reach, Shared};
use crate::rules::{FollowVerdict, OTHER_LOG, judge};
use crate::{
    Applier, Connect, FleetEntry, FleetLink, IncomingEntry, LinkFault, LogServer, NextEntries, Position, Read, mark,
};

const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Looks at the time while it waits.
const LOOK: Duration = Duration::from_millis(50);
/// Entries carried out until the position is kept although more are there.
const STRETCH: u64 = 256;
/// Time after which entries that the log announced count as late.
const LATE: Duration = Duration::from_secs(5);

enum End {
    Fault(LinkFault),
    /// The position isn't one of this log: begin at its end.
    Gap(String),
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
    /// The first entry must be this one.
    known: Option<Known>,
    last: Option<u64>,
    /// The log's end when this node came to it, and when that was.
    end: u64,
    came: Instant,
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
        (self.seq, self.mark) == (seq, mark(bytes))
            && (!self.has_new_epoch || matches!(FleetEntry::read(bytes), Read::Entry(_)))
    }

    /// The log isn't the one that it was: it lacks the entry, or has another one in its place.
    fn lacks(self, what: &str) -> End {
        match self.has_new_epoch {
            true => End::Gap(OTHER_LOG.to_owned()),
            false => End::Gap(format!("entry {}{what}", self.seq)),
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
    gap: Option<String>,
    begun: Instant,
    /// Since when the log isn't followed; `None`: it is, up to its end.
    lost: Option<Instant>,
    was_open: bool,
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

    /// A connection isn't followed any more: another one is wanted, at once or after a while.
    fn ended(&mut self, end: End) {
        let now = self.shared.now();
        if self.lost.is_none() {
            self.pause = FIRST_PAUSE;
        }
        self.lost.get_or_insert(now);
        match end {
            End::Gap(why) => {
                (self.position, self.gap) = (None, Some(why));
                self.due = now;
            }
            End::Fault(fault) => {
                self.away(format!("{}: {fault}", self.server()));
                self.turn += 1;
                self.due = now + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Comes to the log: what is to be done with it, by the rules.
    fn come(&mut self) -> Result<Followed, End> {
        let server = self.server().to_string();
        let mut link = self.connect.connect(self.server(), self.shared.now() + CONNECT_TIME)?;
        let bounds = link.bounds()?;
        let verdict = match self.gap.take() {
            Some(why) => FollowVerdict::Begin { gap: Some(why) },
            None => judge(self.position.as_ref(), &bounds),
        };
        // What is found from now on is what has stood all that the log has.
        self.gate(Gate::Closed);
        let (from, known) = match verdict {
            FollowVerdict::Replay { from } => {
                let position = self.position.as_ref().filter(|position| position.seq == from);
                let known = |position: &Position| {
                    let has_new_epoch = position.epoch != bounds.epoch;
                    Some(Known { seq: position.seq, mark: position.mark?, has_new_epoch })
                };
                (from, position.and_then(known))
            }
            FollowVerdict::Begin { gap } => {
                self.begin(gap);
                // Another log counts anew; of this one all is behind the position.
                self.shared.newest_own.fetch_min(bounds.last, SeqCst);
                self.position = Some(Position { epoch: bounds.epoch.clone(), seq: bounds.last, mark: None });
                // The last one once more: by it the log is known again.
                (bounds.last.max(1), None)
            }
        };
        let applied = self.position.as_ref().map_or(0, |position| position.seq);
        self.shared.change(&*self.applier, |status| {
            status.follow = Reach::Up(server);
            (status.epoch, status.head, status.applied) = (bounds.epoch.clone(), bounds.last, applied);
        });
        let came = self.shared.now();
        Ok(Followed { link, epoch: bounds.epoch, from: Some(from), known, last: None, end: bounds.last, came })
    }

    fn follow(&mut self, mut followed: Followed) -> Result<Followed, End> {
        if let Some(from) = followed.from.take() {
            followed.link.follow(from)?;
            return Ok(followed);
        }
        if self.shared.is_doubted.swap(false, SeqCst) && followed.link.bounds()?.epoch != followed.epoch {
            return Err(LinkFault::new("the log has another epoch than before").into());
        }
        match followed.link.next()? {
            NextEntries::Entries { entries, left } => {
                let mut done = Ok(());
                let applier = self.applier.clone();
                applier.together(&mut || done = self.carry_out_all(&mut followed, &entries));
                done?;
                if let Some(IncomingEntry { seq, bytes }) = entries.last() {
                    self.advance(&followed, *seq, mark(bytes), left);
                }
            }
            NextEntries::Quiet => {
                if let Some(known) = followed.known.take() {
                    return Err(known.lacks(", which identifies the log, is missing"));
                }
                if self.has_reached(followed.end) {
                    self.caught_up();
                } else if self.shared.since(followed.came) >= LATE {
                    return Err(End::Gap(format!(
                        "entries up to {} don't arrive, although the log announced them",
                        followed.end
                    )));
                }
            }
        }
        Ok(followed)
    }

    fn carry_out_all(&self, followed: &mut Followed, entries: &[IncomingEntry]) -> Result<(), End> {
        for (at, IncomingEntry { seq, bytes }) in entries.iter().enumerate() {
            if followed.last.is_some_and(|last| *seq <= last) {
                return Err(LinkFault::new(format!("it sends entry {seq} too late")).into());
            }
            let before = followed.last.or(self.position.as_ref().map(|position| position.seq)).unwrap_or(0);
            if *seq > before.saturating_add(1) && !base::failpoint::fault("a log that was trimmed and is gone on with")
            {
                // A log that is trimmed faster than it is followed leaves out what is gone.
                return Err(End::Gap(format!("entries from {} on are missing", before.saturating_add(1))));
            }
            followed.last = Some(*seq);
            match followed.known.take() {
                Some(known) if known.is(*seq, bytes) => {}
                Some(_) if base::failpoint::fault("a log that was put back and is gone on with") => {}
                Some(known) => return Err(known.lacks(" has changed")),
                None if at + 1 < entries.len() && base::failpoint::fault("a batch but for its last entry") => {}
                None => self.carry_out(*seq, bytes),
            }
        }
        Ok(())
    }

    /// Begins at the log's end, as stored objects may have missed something.
    fn begin(&mut self, gap: Option<String>) {
        let is_gap = gap.is_some();
        if is_gap || self.applier.has_objects() {
            let why = gap.unwrap_or_else(|| "it is unknown which entries of the log were missed".to_owned());
            self.give_up(&why);
        }
    }

    /// Nothing of what is stored is to be found any more.
    fn give_up(&self, why: &str) {
        self.applier.apply_all(why);
        self.shared.change(&*self.applier, |status| status.gaps += 1);
    }

    fn carry_out(&self, seq: u64, bytes: &[u8]) {
        match FleetEntry::read(bytes) {
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
        self.lost = None;
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

    /// Sets the gate while the log is away.
    fn look(&mut self) {
        let settings = &self.shared.settings;
        if let Some(why) = self.gap.take() {
            // Nobody knows when the log comes back: until then only what is fetched from now on may be found.
            self.give_up(&why);
        }
        if !self.was_open {
            if self.shared.since(self.begun) < settings.wait {
                return;
            }
            self.give_up("the fleet's log can't be reached, and cached objects may have missed invalidations");
        }
        let lost = self.lost.map_or(Duration::ZERO, |lost| self.shared.since(lost));
        self.gate(match settings.stale {
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
