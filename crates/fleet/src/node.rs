// SPDX-License-Identifier: BSD-2-Clause
//! A node of a fleet: what others hand to it to be appended, and what its two threads have in common.

mod appender;
mod follower;
mod held;
mod reporter;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use base::hex;
use parking_lot::{Condvar, Mutex};
use sha2::{Digest, Sha256};

pub use appender::Appender;
pub use follower::Follower;
pub use held::{HELD, HeldRecord};
pub use reporter::{KnownNodes, Reporter};

use self::held::{Held, HeldForm, Losses};
use crate::{Connect, Deployed, FleetEntry, FleetSettings, Invalidation, Position, entry, mark};

/// Entries that wait for the log; with more, one is refused at once.
const MANY: usize = 16_384;
/// Own entries that are known again when they come back.
const OWN: usize = 65_536;

/// A node leaves entries of others that the log has lost to their makers for so long ...
const OTHERS_DELAY: Duration = Duration::from_secs(1);
/// ... and for a part of that, which depends on the node's name and the entry's id.
const OTHERS_SPREAD: Duration = Duration::from_secs(2);

/// Limits of what may be found in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Open,
    Closed,
    /// Only objects that are younger: the log has been away for too long.
    Capped(Duration),
}

impl Gate {
    pub fn word(self) -> &'static str {
        match self {
            Gate::Open => "all",
            Gate::Closed => "nothing",
            Gate::Capped(_) => "young",
        }
    }
}

/// Carries out what the log says. Called by the node's threads, and may block.
pub trait Applier: Send + Sync {
    /// Invalidates that.
    ///
    /// # Errors
    /// It can't be understood: everything is invalidated instead.
    fn apply(&self, entry: &FleetEntry) -> Result<(), String>;

    fn together(&self, work: &mut dyn FnMut()) {
        work();
    }

    fn apply_all(&self, why: &str);

    fn has_objects(&self) -> bool;

    /// All up to there is carried out: what is stored is to be kept together with that.
    fn keep(&self, position: &Position);

    /// The journal's records of entries that this node holds.
    fn held(&self) -> Vec<HeldRecord> {
        Vec::new()
    }

    /// Keeps a record in the place of an earlier one of that entry.
    fn hold(&self, _record: HeldRecord) {}

    fn set_gate(&self, gate: Gate);

    fn tell(&self, text: &str);

    fn show(&self, status: &NodeStatus);
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// Connected to this server.
    Up(String),
    /// Without a connection since then, for this reason.
    Away(Instant, String),
}

impl Reach {
    pub fn is_up(&self) -> bool {
        matches!(self, Reach::Up(_))
    }
}

#[derive(Clone, Debug)]
pub struct NodeStatus {
    pub append: Reach,
    pub follow: Reach,
    pub gate: Gate,
    pub epoch: String,
    /// Number of the newest entry of the log, as far as is known here.
    pub head: u64,
    /// Number of the newest that was carried out here.
    pub applied: u64,
    /// When the node was behind the log first; `None`: it isn't.
    pub behind_since: Option<Instant>,
    pub appended: u64,
    /// Entries that could not be, of which whoever made them was told.
    pub refused: u64,
    pub carried_out: u64,
    pub returned: u64,
    pub foreign: u64,
    /// Number of times that all stored objects had to go, as nobody knew which entries the node had missed.
    pub gaps: u64,
    pub restored: u64,
    /// Lost entries that this node has to append again.
    pub owed: u64,
}

#[derive(Clone)]
pub struct Node(Arc<Shared>);

type Now = Box<dyn Fn() -> Instant + Send + Sync>;

struct Shared {
    settings: FleetSettings,
    now: Now,
    /// Drawn for this process, and never told: what it is known by is made of it ([`Shared::word`]).
    draw: u64,
    entries: AtomicU64,
    /// Number of invalidations here that aren't known to be in the log yet or never to get there.
    pending: AtomicU64,
    newest_own: AtomicU64,
    queue: Mutex<Queue>,
    bell: Condvar,
    status: Mutex<NodeStatus>,
    own: Mutex<Own>,
    held: Mutex<Held>,
    /// Keeps what is held, once the node has begun.
    keeper: OnceLock<Weak<dyn Applier>>,
    desk: reporter::Desk,
    deployed: Mutex<Option<Deployed>>,
    /// True if the appender has found another log than the one that is followed: the follower has to look which one
    /// that is.
    is_doubted: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Entries that ever came, by which who waits knows whether there are new ones.
    count: u64,
    waker: Option<Waker>,
}

struct Waiting {
    id: String,
    /// The id by which the log's server recognises it.
    key: String,
    bytes: Vec<u8>,
    /// `None`: it was in the log before, and nobody is told.
    until: Option<Instant>,
    outcome: Arc<Outcome>,
    pending: PendingInvalidation,
}

/// While it is there, something was invalidated here of which the log may not know.
pub struct PendingInvalidation(Arc<Shared>);

impl PendingInvalidation {
    fn new(shared: &Arc<Shared>) -> PendingInvalidation {
        shared.pending.fetch_add(1, SeqCst);
        PendingInvalidation(shared.clone())
    }
}

impl Drop for PendingInvalidation {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, SeqCst);
    }
}

/// Entries made here that haven't come back.
#[derive(Default)]
struct Own {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Own {
    fn add(&mut self, id: &str) {
        self.ids.insert(id.to_owned());
        self.order.push_back(id.to_owned());
        while self.order.len() > OWN {
            self.order.pop_front().iter().for_each(|oldest| _ = self.ids.remove(oldest));
        }
    }

    /// True if it was made here. One that comes twice is carried out the second time, which does no harm.
    fn take(&mut self, id: &str) -> bool {
        let is_own = self.ids.remove(id);
        while self.order.front().is_some_and(|oldest| !self.ids.contains(oldest)) {
            self.order.pop_front();
        }
        is_own
    }
}

#[derive(Default)]
struct Outcome(Mutex<Ending>);

#[derive(Default)]
struct Ending {
    result: Option<Result<u64, String>>,
    waker: Option<Waker>,
}

impl Outcome {
    fn set(&self, result: Result<u64, String>) {
        let waker = {
            let mut ending = self.0.lock();
            ending.result = Some(result);
            ending.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Ends when an entry is in the log: its number there, or why it isn't. May be dropped: the entry goes its way.
#[must_use = "nobody may be told of what isn't in the log"]
pub struct Announced(Arc<Outcome>);

impl Future for Announced {
    type Output = Result<u64, String>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ending = self.0.0.lock();
        match &ending.result {
            Some(result) => Poll::Ready(result.clone()),
            None => {
                ending.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Node {
    pub fn new(settings: FleetSettings) -> Node {
        Node::simulated(settings, RandomState::new().hash_one(std::process::id()), HELD, base::clock::now)
    }

    /// The same by another clock than the system's, with another bound of what is held, and with a number in the place of one that is drawn,
    /// which tells this process' entries from those of others: for a simulation.
    pub fn simulated(
        settings: FleetSettings,
        draw: u64,
        held: usize,
        now: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> Node {
        let away = Reach::Away(now(), "no connection yet".to_owned());
        let status = NodeStatus {
            append: away.clone(),
            follow: away,
            gate: Gate::Closed,
            epoch: String::new(),
            head: 0,
            applied: 0,
            behind_since: None,
            appended: 0,
            refused: 0,
            carried_out: 0,
            returned: 0,
            foreign: 0,
            gaps: 0,
            restored: 0,
            owed: 0,
        };
        Node(Arc::new(Shared {
            settings,
            now: Box::new(now),
            draw,
            entries: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            newest_own: AtomicU64::new(0),
            queue: Mutex::default(),
            bell: Condvar::new(),
            status: Mutex::new(status),
            own: Mutex::default(),
            held: Mutex::new(Held::new(held)),
            keeper: OnceLock::new(),
            desk: reporter::Desk::new(),
            deployed: Mutex::default(),
            is_doubted: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }))
    }

    /// Starts its threads. What is stored has come as far as `position`; `None`: nobody knows.
    ///
    /// # Errors
    /// There can't be a thread.
    pub fn start(
        &self,
        connect: Arc<dyn Connect>,
        applier: Arc<dyn Applier>,
        position: Option<Position>,
    ) -> io::Result<()> {
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let appender = self.appender(connect.clone(), applier.clone());
        thread("lacquer-fleet-a").spawn(move || appender.run())?;
        let follower = self.follower(connect, applier, position);
        thread("lacquer-fleet-f").spawn(move || follower.run())?;
        Ok(())
    }

    /// The appender, for a caller who takes its steps instead of [`Node::start`].
    pub fn appender(&self, connect: Arc<dyn Connect>, applier: Arc<dyn Applier>) -> Appender {
        Appender::new(self.0.clone(), connect, applier)
    }

    pub fn follower(
        &self,
        connect: Arc<dyn Connect>,
        applier: Arc<dyn Applier>,
        position: Option<Position>,
    ) -> Follower {
        Follower::new(self.0.clone(), connect, applier, position)
    }

    /// Ends when more than `count` entries were ever handed to it to be appended: how many those are.
    pub fn poll_queued(&self, count: u64, cx: &Context<'_>) -> Poll<u64> {
        let mut queue = self.0.queue.lock();
        if queue.count > count {
            return Poll::Ready(queue.count);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Starts the thread that reports this node to the others, and knows them.
    ///
    /// # Errors
    /// There can't be a thread.
    pub fn start_reporting(&self, connect: Arc<dyn Connect>, reporter: Arc<dyn Reporter>) -> io::Result<()> {
        let shared = self.0.clone();
        let thread = std::thread::Builder::new().name("lacquer-fleet-r".to_owned());
        thread.spawn(move || reporter::run(&shared, &*connect, &*reporter))?;
        Ok(())
    }

    /// All nodes of the fleet, as far as they are known; those that were away for longer than [`crate::board::FORGOTTEN`] are forgotten.
    pub fn members(&self) -> KnownNodes {
        self.0.desk.members()
    }

    pub fn set_deployed(&self, deployed: Deployed) {
        let is_new = self.0.deployed.lock().replace(deployed.clone()).as_ref() != Some(&deployed);
        if is_new {
            self.0.desk.hurry();
        }
    }

    /// A document of the fleet's board; `None`: there is none of that name.
    ///
    /// # Errors
    /// The board can't be reached within the settings' patience.
    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self.0.desk.document(name, self.0.settings.patience)
    }

    /// Writes a document in the place of one that says `was`, or of none; whether it did.
    ///
    /// # Errors
    /// The board can't be reached within the settings' patience: it may be written or not.
    pub fn replace(&self, name: &str, was: Option<&[u8]>, bytes: &[u8]) -> Result<bool, String> {
        self.0.desk.replace(name, was, bytes, self.0.settings.patience)
    }

    pub fn end(&self) {
        self.0.is_over.store(true, Relaxed);
        // They hold the node.
        self.0.held.lock().let_go();
        self.0.desk.ring();
        self.0.bell.notify_all();
    }

    pub fn settings(&self) -> &FleetSettings {
        &self.0.settings
    }

    pub fn status(&self) -> NodeStatus {
        self.0.status.lock().clone()
    }

    /// Checks if something can be appended, as far as is known: a caller who asks before needn't wait for a log that is
    /// away. One that is away for less than the settings' patience may come back in time.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self) -> Result<(), String> {
        match &self.0.status.lock().append {
            Reach::Up(_) => Ok(()),
            Reach::Away(since, _) if self.0.since(*since) < self.0.settings.patience => Ok(()),
            Reach::Away(_, why) => Err(self.0.away(why)),
        }
    }

    /// Appends that this was invalidated, which holds here already, and was made at `at` (seconds since 1970). Nobody may be told that it is
    /// done before [`Announced`] has ended.
    pub fn append(&self, what: Invalidation, at: f64) -> Announced {
        let shared = &self.0;
        let outcome = Arc::new(Outcome::default());
        let announced = Announced(outcome.clone());
        let number = shared.entries.fetch_add(1, Relaxed);
        let id = shared.word("entry", number);
        let entry = FleetEntry { id: id.clone(), node: shared.settings.node.clone(), at, what };
        match entry.encode() {
            Ok(bytes) => {
                let until = Some(shared.now() + shared.settings.patience);
                let pending = PendingInvalidation::new(shared);
                let form = HeldForm::of(&crate::Read::Entry(entry), &bytes, &shared.settings.node);
                shared.enqueue(Waiting { key: id.clone(), id, bytes, until, outcome, pending }, form);
            }
            Err(reason) => outcome.set(Err(reason)),
        }
        announced
    }
}

impl Node {
    /// Something is about to be invalidated here, and appended then: until it is dropped, behind [`Node::append`], nobody else's copies
    /// are to be taken ([`Node::position_needed`]).
    pub fn begin_invalidation(&self) -> PendingInvalidation {
        PendingInvalidation::new(&self.0)
    }

    pub fn log_position(&self) -> LogPosition {
        let status = self.0.status.lock();
        LogPosition { log: log_number(&status.epoch), seq: status.applied }
    }

    /// Position that another node must have reached for its copies to be worth what is fetched from the origin here and
    /// now: what has been invalidated here by now is invalidated there, too. `None`: nobody's copies are, as something
    /// isn't in the log yet, or as nobody knows where this node stands.
    pub fn position_needed(&self) -> Option<LogPosition> {
        // In this order: what ceases to be pending is counted as one's own before.
        if self.0.pending.load(SeqCst) > 0 {
            return None;
        }
        let own = self.0.newest_own.load(SeqCst);
        let position = self.log_position();
        let is_known = position.log != 0 && self.0.pending.load(SeqCst) == 0;
        is_known.then_some(LogPosition { seq: position.seq.max(own), ..position })
    }
}

/// A place in a log, as nodes tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Stands for the log's epoch; 0: none is known.
    pub log: u64,
    pub seq: u64,
}

impl LogPosition {
    /// True if all that was carried out at `other` is carried out here.
    pub fn has_reached(&self, other: &LogPosition) -> bool {
        self.log != 0 && self.log == other.log && self.seq >= other.seq
    }
}

fn log_number(epoch: &str) -> u64 {
    match epoch {
        "" => 0,
        epoch => mark(epoch.as_bytes()).max(1),
    }
}

impl Shared {
    fn enqueue(self: &Arc<Shared>, entry: Waiting, form: Option<HeldForm>) {
        if base::failpoint::fault("an acknowledgement before the log has it") {
            entry.outcome.set(Ok(0));
        }
        // Threads that come at the same time may exceed the bound by one entry each.
        if self.queue.lock().waiting.len() >= MANY {
            return self.refuse(entry);
        }
        // Before it can come back.
        if let Some(form) = form {
            self.own.lock().add(&entry.id);
            self.change_held(|held, losses| (held.queue(form, losses.now), ()));
        }
        let waker = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(entry);
            queue.count += 1;
            queue.waker.take()
        };
        self.bell.notify_one();
        waker.into_iter().for_each(Waker::wake);
    }

    fn refuse(&self, entry: Waiting) {
        match entry.until {
            None => _ = self.held.lock().refused_again(&entry.id, None, self.now() + OTHERS_DELAY, entry.pending),
            Some(_) => entry.outcome.set(Err(self.away("too much waits for it"))),
        }
    }

    fn now(&self) -> Instant {
        (self.now)()
    }

    fn set_keeper(self: &Arc<Shared>, keeper: &Arc<dyn Applier>) {
        if self.keeper.set(Arc::downgrade(keeper)).is_err() {
            return;
        }
        let records = keeper.held();
        self.change_held(|held, losses| {
            let mut changed = held.records(losses.now);
            changed.extend(held.load(records, &self.settings.node, losses));
            (changed, ())
        });
    }

    /// Changes what is held, and journals the records that `work` returns, in the order of these changes.
    fn change_held<T>(self: &Arc<Shared>, work: impl FnOnce(&mut Held, &Losses<'_>) -> (Vec<HeldRecord>, T)) -> T {
        let keeper = self.keeper.get().and_then(Weak::upgrade);
        let pending = || PendingInvalidation::new(self);
        // Nodes that notice the same don't all append the same at once: for each entry another one is first.
        let delay = |id: &str| {
            let spread = mark(format!("{} {id}", self.settings.node).as_bytes()) % OTHERS_SPREAD.as_millis() as u64;
            OTHERS_DELAY + Duration::from_millis(spread)
        };
        let losses = Losses { now: self.now(), delay: &delay, pending: &pending };
        let mut held = self.held.lock();
        let (changed, done) = work(&mut held, &losses);
        if let Some(keeper) = keeper.as_ref() {
            changed.into_iter().for_each(|record| keeper.hold(record));
        }
        done
    }

    fn once_more(&self, id: &str, bytes: &[u8]) -> Vec<u8> {
        let word = self.word("again", self.entries.fetch_add(1, Relaxed));
        let all = || {
            let bytes = held::everything(id, &self.settings.node, "an entry that can't be appended again was lost");
            entry::again(&bytes, id, &word)
        };
        entry::again(bytes, id, &word).or_else(all).unwrap_or_default()
    }

    /// A word by which this process names something of its own. Nobody who has seen some of these can guess the next
    /// one, and write an entry by the id of one that is to come, which the log would take for the same.
    fn word(&self, what: &str, number: u64) -> String {
        let digest = Sha256::digest(format!("{:016x} {what} {number}", self.draw));
        hex::encode(&digest[..16])
    }

    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }

    fn away(&self, why: &str) -> String {
        format!("the fleet's log can't be reached: {why}")
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn change(&self, applier: &dyn Applier, change: impl FnOnce(&mut NodeStatus)) {
        let now = self.now();
        let status = {
            let mut status = self.status.lock();
            change(&mut status);
            match status.applied < status.head {
                true => _ = status.behind_since.get_or_insert(now),
                false => status.behind_since = None,
            }
            status.clone()
        };
        applier.show(&status);
    }
}
