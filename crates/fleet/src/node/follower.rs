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

use std::time::{Duration, Instant};

use super::{Gate, Reach, Shared};
use crate::rules::{Verdict, judge};
use crate::{Applier, Connect, Entry, Fault, Link, Next, Position, Read, mark};

/// For a connection.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Looks at the time while it waits.
const LOOK: Duration = Duration::from_millis(50);
/// Entries carried out until the position is kept although more are there.
const STRETCH: u64 = 256;

/// Why a connection isn't followed any more.
enum End {
    Fault(Fault),
    /// The position isn't one of this log: begin at its end.
    Gap(String),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> End {
        End::Fault(fault)
    }
}

/// Follows until the node ends. What is stored has come as far as `position`.
pub(super) fn run(shared: &Shared, connect: &dyn Connect, applier: &dyn Applier, position: Option<Position>) {
    let mut follower = Follower::new(shared, applier, position);
    let (mut pause, mut turn) = (FIRST_PAUSE, 0);
    while !shared.is_over() {
        let server = &shared.settings.servers[turn % shared.settings.servers.len()];
        let connected = connect.connect(server, Instant::now() + CONNECT_TIME);
        let end = match connected {
            Ok(mut link) => follower.follow(&mut *link, &server.to_string()),
            Err(fault) => End::Fault(fault),
        };
        if follower.lost.is_none() {
            pause = FIRST_PAUSE;
        }
        if let Some(fault) = follower.ended(end) {
            follower.away(format!("{server}: {fault}"));
            turn += 1;
            follower.wait(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

struct Follower<'a> {
    shared: &'a Shared,
    applier: &'a dyn Applier,
    /// How far what is stored has come; `None`: nobody knows.
    position: Option<Position>,
    /// Why nobody knows, if it was known before.
    gap: Option<String>,
    begun: Instant,
    /// Since when the log isn't followed; `None`: it is, up to its end.
    lost: Option<Instant>,
    /// The gate was opened once.
    was_open: bool,
    /// The position that is kept.
    kept: Option<u64>,
}

impl<'a> Follower<'a> {
    fn new(shared: &'a Shared, applier: &'a dyn Applier, position: Option<Position>) -> Follower<'a> {
        let now = Instant::now();
        Follower { shared, applier, position, gap: None, begun: now, lost: Some(now), was_open: false, kept: None }
    }

    /// A connection isn't followed any more: why, unless another one is wanted at once.
    fn ended(&mut self, end: End) -> Option<Fault> {
        self.lost.get_or_insert_with(Instant::now);
        match end {
            End::Gap(why) => {
                (self.position, self.gap) = (None, Some(why));
                None
            }
            End::Fault(fault) => Some(fault),
        }
    }

    /// Follows over one connection until that ends.
    fn follow(&mut self, link: &mut dyn Link, server: &str) -> End {
        match self.try_follow(link, server) {
            Ok(()) => End::Fault(Fault::new("this node ends")),
            Err(end) => end,
        }
    }

    fn try_follow(&mut self, link: &mut dyn Link, server: &str) -> Result<(), End> {
        let bounds = link.bounds()?;
        let verdict = match self.gap.take() {
            Some(why) => Verdict::Begin { gap: Some(why) },
            None => judge(self.position.as_ref(), &bounds),
        };
        // What is found from now on is what has stood all that the log has.
        self.gate(Gate::Closed);
        let (from, mut known) = match verdict {
            Verdict::Replay { from } => {
                let known = self.position.as_ref().and_then(|position| Some((position.seq, position.mark?)));
                (from, known)
            }
            Verdict::Begin { gap } => {
                self.begin(gap);
                self.position = Some(Position { epoch: bounds.epoch.clone(), seq: bounds.last, mark: None });
                // The last one once more: by it the log is known again.
                (bounds.last.max(1), None)
            }
        };
        let applied = self.position.as_ref().map_or(0, |position| position.seq);
        self.shared.change(self.applier, |status| {
            status.follow = Reach::Up(server.to_owned());
            (status.epoch, status.head, status.applied) = (bounds.epoch.clone(), bounds.last, applied);
        });
        link.follow(from)?;
        while !self.shared.is_over() {
            match link.next()? {
                Next::Entry { seq, bytes, left } => {
                    match known.take() {
                        Some(place) if place == (seq, mark(&bytes)) => {}
                        Some((seq, _)) => return Err(End::Gap(format!("entry {seq} is another one than it was"))),
                        None => self.carry_out(&bytes),
                    }
                    self.advance(&bounds.epoch, seq, mark(&bytes), left);
                }
                Next::Quiet => {
                    if let Some((seq, _)) = known.take() {
                        return Err(End::Gap(format!("entry {seq}, by which the log would be known, is gone")));
                    }
                    self.caught_up();
                }
            }
        }
        Ok(())
    }

    /// What is stored may have missed something.
    fn begin(&mut self, gap: Option<String>) {
        let is_gap = gap.is_some();
        if is_gap || self.applier.has_objects() {
            let why = gap.unwrap_or_else(|| "nobody knows what of the log it has missed".to_owned());
            self.applier.apply_all(&why);
            self.shared.change(self.applier, |status| status.gaps += 1);
        }
    }

    fn carry_out(&mut self, bytes: &[u8]) {
        let everything = |why: &str| {
            self.applier.apply_all(why);
            self.shared.change(self.applier, |status| status.gaps += 1);
        };
        match Entry::read(bytes) {
            Read::Entry(entry) if self.shared.own.lock().take(&entry.id) => {
                self.shared.change(self.applier, |status| status.returned += 1);
            }
            Read::Entry(entry) => {
                if let Err(why) = self.applier.apply(&entry) {
                    everything(&format!("an entry of {} can't be carried out: {why}", entry.node));
                }
                self.shared.change(self.applier, |status| status.carried_out += 1);
            }
            Read::Later(version) => {
                everything(&format!("an entry is of version {version}, of which nobody here knows what it means"));
            }
            Read::Foreign(why) => {
                self.shared.change(self.applier, |status| status.foreign += 1);
                let count = self.shared.status.lock().foreign;
                // Whoever writes many of them shan't fill the operator's log.
                if count.is_power_of_two() {
                    self.applier.tell(&format!("an entry of the fleet's log isn't ours: {why} ({count} so far)"));
                }
            }
        }
    }

    fn advance(&mut self, epoch: &str, seq: u64, mark: u64, left: u64) {
        self.position = Some(Position { epoch: epoch.to_owned(), seq, mark: Some(mark) });
        self.shared.change(self.applier, |status| {
            (status.applied, status.head) = (seq, status.head.max(seq + left));
        });
        match left {
            0 => self.caught_up(),
            _ if self.kept.is_none_or(|kept| kept + STRETCH <= seq || kept > seq) => self.keep(),
            _ => {}
        }
    }

    fn keep(&mut self) {
        if let Some(position) = &self.position {
            self.kept = Some(position.seq);
            self.applier.keep(position);
        }
    }

    /// All is carried out that the log has.
    fn caught_up(&mut self) {
        if self.position.as_ref().map(|position| position.seq) != self.kept || self.lost.is_some() {
            self.keep();
        }
        self.shared.change(self.applier, |status| status.head = status.applied);
        self.lost = None;
        self.gate(Gate::Open);
    }

    fn away(&mut self, why: String) {
        self.shared.change(self.applier, |status| {
            let since = match &status.follow {
                Reach::Away(since, _) => *since,
                Reach::Up(_) => Instant::now(),
            };
            status.follow = Reach::Away(since, why);
        });
        self.look();
    }

    fn wait(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.shared.is_over() && Instant::now() < until {
            std::thread::sleep(LOOK.min(pause));
            self.look();
        }
    }

    /// What may be found while the log is away.
    fn look(&mut self) {
        let settings = &self.shared.settings;
        if let Some(why) = self.gap.take() {
            // Nobody knows when the log comes back: until then only what is fetched from now on may be found.
            self.applier.apply_all(&why);
            self.shared.change(self.applier, |status| status.gaps += 1);
        }
        if !self.was_open {
            if self.begun.elapsed() < settings.wait {
                return;
            }
            self.applier.apply_all("the fleet's log can't be reached, and what is stored may have missed something");
            self.shared.change(self.applier, |status| status.gaps += 1);
        }
        let lost = self.lost.map_or(Duration::ZERO, |lost| lost.elapsed());
        self.gate(match settings.stale {
            Some(stale) if lost > stale => Gate::Capped(stale),
            Some(_) | None => Gate::Open,
        });
    }

    fn gate(&mut self, gate: Gate) {
        self.was_open |= gate != Gate::Closed;
        if self.shared.status.lock().gate != gate {
            self.applier.set_gate(gate);
            self.shared.change(self.applier, |status| status.gate = gate);
        }
    }
}
