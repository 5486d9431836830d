// SPDX-License-Identifier: BSD-2-Clause
//! A node of a simulated fleet: a worker that dies as if by kill -9, and the one that follows it, which finds a copy of the store's
//! memory and of the journal as they were at that moment. The steps of the node's two threads are taken by tasks, late.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Clock;
use cache::{Digest, DigestBuilder};
use fleet::{Applier, FleetEntry, FleetSettings, Gate, HeldRecord, Invalidation, NodeStatus, Position};
use net::Address;
use tables::counters::Fleet as Counters;

use super::Happening;
use super::disk::SimDisk;
use super::log::SimLogServer;
use super::plan::{SimFleetPlan, URLS};
use testkit_engine::Ground;

use crate::dice::{NumberSpan, SimDice};
use crate::history::{SimAnswer, SimEvent, SimHistory};
use crate::plan::SimAsk;
use crate::script::SimScenario;
use crate::wire::SimWire;
use crate::world::{Birth, SimWorkerLine, SimWorld};

const HOST: &[u8] = b"example.com";

pub(crate) struct Common<'a> {
    pub scenario: &'a SimScenario,
    pub plan: &'a SimFleetPlan,
    pub seed: u64,
    /// The moment of the machine's that is the simulation's first.
    pub begin: Instant,
    pub clock: Clock,
    pub history: SimHistory,
    pub engine: SimLogServer,
}

pub(crate) struct SimNode<'a> {
    pub number: usize,
    pub clock: Clock,
    /// The node neither appends nor follows before that moment.
    paused: Rc<Cell<Duration>>,
    common: &'a Common<'a>,
    ground: &'a Ground,
    counters: &'static Counters,
    alive: RefCell<Option<Alive>>,
    left: RefCell<Option<Left>>,
    lives: Rc<Cell<u64>>,
}

/// A dead worker's remains.
struct Left {
    arena: Arc<File>,
    journal: SimDisk,
    /// The journal has all that was written into it.
    is_complete: bool,
}

struct Alive {
    world: Rc<SimWorld>,
    node: fleet::Node,
    arena: Arc<File>,
    journal: SimDisk,
    sessions: Vec<rt::JoinHandle<()>>,
}

impl<'a> SimNode<'a> {
    pub fn new(number: usize, common: &'a Common<'a>, ground: &'a Ground, counters: &'static Counters) -> Self {
        let (alive, left, lives, paused) = Default::default();
        let clock = common.clock.beside();
        SimNode { number, clock, paused, common, ground, counters, alive, left, lives }
    }

    /// The disk of its journal is full, as long as this worker lives.
    pub fn fill_disk(&self) {
        self.alive.borrow().iter().for_each(|alive| alive.journal.fill());
    }

    pub fn pause(&self, time: Duration) {
        self.paused.set(now(&self.clock) + time);
    }

    fn note(&self, what: Happening) {
        let Common { clock, history, .. } = self.common;
        let _ = history.add(now(clock), SimEvent::Fleet(what));
    }

    pub fn status(&self) -> Option<NodeStatus> {
        self.alive.borrow().as_ref().map(|alive| alive.node.status())
    }

    pub fn start(&self, with_store: bool) {
        if self.alive.borrow().is_some() {
            return;
        }
        let Common { scenario, plan, seed, begin, history, engine, .. } = self.common;
        let clock = &self.clock;
        let nothing = || {
            let journal = SimDisk::new(in_memory("journal")).expect("a descriptor");
            Left { arena: Arc::new(in_memory("arena")), journal, is_complete: false }
        };
        let left = self.left.take().filter(|_| with_store);
        let Left { arena, journal, is_complete: has_store } = left.unwrap_or_else(nothing);
        let draw = SimDice::for_thing(*seed, "process", self.number as u64 * 1000 + self.lives.get()).next();
        let node = fleet::Node::simulated(settings(plan, self.number), draw, plan.held, moments(*begin, clock));
        let line = SimWorkerLine { arena: arena.clone(), journal: journal.clone(), node: node.clone() };
        let birth = Birth { clock: clock.clone(), history: history.clone(), line: Some(line) };
        self.lives.set(self.lives.get() + 1);
        let world = Rc::new(SimWorld::born(self.ground, scenario, *seed ^ self.lives.get(), birth));
        self.note(Happening::Started { node: self.number, has_store });
        let carrier = worker::Carrier::new(world.engine.clone(), self.counters, |_| ());
        let position = worker::Carrier::position(&world.engine);
        let witness = Witness {
            inner: carrier,
            node: self.number,
            history: history.clone(),
            clock: clock.clone(),
            engine: engine.clone(),
        };
        let witness: Arc<dyn Applier> = Arc::new(witness);
        let door = engine.connector(self.number);
        let appender = node.appender(door.clone(), witness.clone());
        let follower = node.follower(door, witness, position);
        let dice = |thing| SimDice::for_thing(*seed, thing, self.number as u64 * 1000 + self.lives.get());
        let (all, paused) = (self.lives.clone(), self.paused.clone());
        let life = Life { now: self.lives.get(), all, paused, begin: *begin, clock: clock.clone() };
        drop(rt::spawn(follow(life.clone(), follower, dice("follower"), engine.clone(), self.number)));
        drop(rt::spawn(append(life.clone(), appender, dice("appender"), node.clone())));
        drop(rt::spawn(keep_house(life, world.clone())));
        *self.alive.borrow_mut() = Some(Alive { world, node, arena, journal, sessions: Vec::new() });
    }

    pub fn kill(&self) {
        let Some(alive) = self.alive.borrow_mut().take() else { return };
        self.note(Happening::Killed { node: self.number });
        self.lives.set(self.lives.get() + 1);
        let journal = SimDisk::new(copy(alive.journal.bytes())).expect("a descriptor");
        let is_complete = !alive.journal.has_refused();
        *self.left.borrow_mut() = Some(Left { arena: Arc::new(copy(&alive.arena)), journal, is_complete });
        alive.sessions.iter().for_each(rt::JoinHandle::abort);
        alive.node.end();
        self.common.engine.forget(self.number);
    }

    /// Asks it over a new connection; `None`: it isn't there.
    pub async fn ask(&self, ask: &SimAsk) -> Option<SimAnswer> {
        let mut wire = {
            let mut alive = self.alive.borrow_mut();
            let alive = alive.as_mut()?;
            let peer = Address::inet(([192, 0, 2, 1], 40_000).into());
            let local = Address::inet(([10, 0, 0, 2 + self.number as u8], 80).into());
            let (theirs, ours) = testkit_net::memory::pair(local, peer);
            alive.sessions.push(alive.world.accept(theirs, peer, local));
            SimWire::new(ours)
        };
        let answer = RefCell::new(SimAnswer::default());
        let _ = crate::client::exchange(&mut wire, ask, &answer).await;
        Some(answer.into_inner())
    }
}

fn settings(plan: &SimFleetPlan, number: usize) -> FleetSettings {
    let stale = plan.stale.map_or(String::new(), |stale| format!(",stale={}s", stale.as_secs()));
    let text = format!("nats://log,node=n{number},wait=4s,patience=2s{stale}");
    FleetSettings::parse(&text).unwrap_or_else(|reason| panic!("{text}: {reason}"))
}

fn now(clock: &Clock) -> Duration {
    Duration::from_secs_f64(clock.mono().0)
}

fn moments(begin: Instant, clock: &Clock) -> impl Fn() -> Instant + Send + Sync + 'static {
    let clock = clock.clone();
    move || begin + now(&clock)
}

fn in_memory(name: &str) -> File {
    sys::fd::memfd(name).expect("room in memory")
}

/// A copy of what a death leaves: the bytes as they are, the holes of a long file aside.
fn copy(file: &File) -> File {
    let into = in_memory("left");
    let length = file.metadata().and_then(|known| into.set_len(known.len()).map(|()| known.len())).expect("a length");
    let (mut page, mut at) = ([0; 4096], 0);
    while let Some(data) = sys::fd::next_data(file, at).expect("where data is").filter(|data| *data < length) {
        at = data - data % 4096;
        let count = file.read_at(&mut page, at).expect("what is there");
        into.write_all_at(&page[..count], at).expect("room in memory");
        at += 4096;
    }
    into
}

/// One worker of a node: its tasks end with it.
#[derive(Clone)]
struct Life {
    now: u64,
    all: Rc<Cell<u64>>,
    paused: Rc<Cell<Duration>>,
    begin: Instant,
    clock: Clock,
}

impl Life {
    async fn is_over(&self) -> bool {
        rt::sleep(self.paused.get().saturating_sub(now(&self.clock))).await;
        self.all.get() != self.now
    }
}

async fn dally(dice: &mut SimDice) {
    let most = if dice.one_in(10) { 400 } else { 20 };
    rt::sleep(Duration::from_millis(NumberSpan { least: 0, most }.draw(dice))).await;
}

async fn follow(life: Life, mut follower: fleet::Follower, mut dice: SimDice, engine: SimLogServer, number: usize) {
    let (moment, bell) = (moments(life.begin, &life.clock), engine.bell(number));
    loop {
        dally(&mut dice).await;
        if life.is_over().await {
            return;
        }
        let due = follower.step().saturating_duration_since(moment());
        if engine.take_idle(number) {
            // As the real connections do, it waits for an entry.
            let _ = rt::timeout(Duration::from_secs(1), bell.notified()).await;
        } else {
            rt::sleep(due).await;
        }
    }
}

async fn append(life: Life, mut appender: fleet::Appender, mut dice: SimDice, node: fleet::Node) {
    let moment = moments(life.begin, &life.clock);
    loop {
        if dice.one_in(2) {
            dally(&mut dice).await;
        }
        if life.is_over().await {
            return;
        }
        let (due, seen) = (appender.step().saturating_duration_since(moment()), appender.seen());
        if !due.is_zero() {
            let _ = rt::timeout(due, poll_fn(|cx| node.poll_queued(seen, cx))).await;
        }
    }
}

async fn keep_house(life: Life, world: Rc<SimWorld>) {
    const TICK: Duration = Duration::from_millis(500);
    loop {
        rt::sleep(TICK).await;
        if life.all.get() != life.now {
            return;
        }
        world.keep_house();
    }
}

struct Witness {
    inner: worker::Carrier,
    node: usize,
    history: SimHistory,
    clock: Clock,
    engine: SimLogServer,
}

impl Witness {
    fn note(&self, what: Happening) {
        let _ = self.history.add(now(&self.clock), SimEvent::Fleet(what));
    }
}

impl Applier for Witness {
    fn apply(&self, entry: &FleetEntry) -> Result<(), String> {
        self.inner.apply(entry)?;
        if let Invalidation::All(_) = &entry.what {
            self.note(Happening::GivenUp { node: self.node, why: format!("{} says so", entry.node) });
        }
        self.note(Happening::CarriedOut { node: self.node, id: entry.id.clone(), url: url_of(&entry.what) });
        Ok(())
    }

    fn together(&self, work: &mut dyn FnMut()) {
        self.inner.together(work);
    }

    fn apply_all(&self, why: &str) {
        self.inner.apply_all(why);
        self.note(Happening::GivenUp { node: self.node, why: why.to_owned() });
    }

    fn has_objects(&self) -> bool {
        self.inner.has_objects()
    }

    fn keep(&self, position: &Position) {
        self.inner.keep(position);
    }

    fn held(&self) -> Vec<HeldRecord> {
        self.inner.held()
    }

    fn hold(&self, record: HeldRecord) {
        self.inner.hold(record);
    }

    fn set_gate(&self, gate: Gate) {
        self.inner.set_gate(gate);
        let since = self.engine.caught_up(self.node);
        self.note(Happening::Gate { node: self.node, gate, since });
    }

    fn tell(&self, _text: &str) {}

    fn show(&self, status: &NodeStatus) {
        self.inner.show(status);
    }
}

pub(crate) fn url_of(what: &Invalidation) -> Option<&'static str> {
    match what {
        Invalidation::Purge { digest, .. } => URLS.into_iter().find(|url| digest_of(url).0 == *digest),
        Invalidation::Ban(words) | Invalidation::SpreadBan { words, .. } => {
            URLS.into_iter().find(|url| words.last().is_some_and(|last| last == url))
        }
        Invalidation::Tags { .. } | Invalidation::All(_) => None,
    }
}

fn digest_of(url: &str) -> Digest {
    let mut builder = DigestBuilder::new();
    // As hash_data() does, each part is followed by a NUL.
    for part in [Some(url.as_bytes()), None, Some(HOST), None] {
        builder.add(part);
    }
    builder.finish()
}
