// SPDX-License-Identifier: BSD-2-Clause
//! One history of a scenario: drawn, run, judged, and if it fails made as short as it can be.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::current::TransactionKind;
use rt::sim::{Endless, SimLimits};
use testkit_net::memory::MemoryNetwork;

use testkit_engine::Ground;

use crate::history::HistoryEntry;
use crate::model::{self, ModelFinding};
use crate::origin::SimOrigin;
use crate::plan::{GivenUp, SimPlan};
use crate::quic::SimQuic;
use crate::script::SimScenario;
use crate::world::SimWorld;
use crate::{client, logbook};

/// A history takes some thousand steps; all times in scenarios are below an hour.
const LIMITS: SimLimits = SimLimits { steps: 1_000_000, time: Duration::from_secs(24 * 3600) };

const TICK: Duration = Duration::from_millis(100);

/// Clients that aren't done by then wait for ever.
const PATIENCE: Duration = Duration::from_secs(900);

/// The whole cache is looked at each so many steps.
const AUDIT_EVERY: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunDraw {
    pub seed: u64,
    pub fault: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct RunFailure {
    pub scenario: String,
    pub seed: u64,
    pub finding: ModelFinding,
    pub plan: SimPlan,
    pub history: Vec<HistoryEntry>,
}

impl From<Endless> for ModelFinding {
    fn from(endless: Endless) -> Self {
        match endless {
            Endless::Busy => ModelFinding::new("everything comes to rest", "tasks run in a circle"),
            Endless::Waiting => ModelFinding::new("every request is answered", "clients wait for ever"),
        }
    }
}

/// Draws a history and runs it; a failing one comes back as short as it can be.
///
/// # Errors
/// The failure.
pub(crate) fn history(ground: &Ground, scenario: &SimScenario, draw: RunDraw) -> Result<(), Box<RunFailure>> {
    let plan = SimPlan::draw(scenario, draw.seed);
    attempt(ground, scenario, draw, plan).map_err(|failure| shorten(ground, scenario, draw, failure))
}

/// The same as [`history`], with the events as text.
///
/// # Errors
/// The failure.
pub(crate) fn shown(ground: &Ground, scenario: &SimScenario, draw: RunDraw) -> Result<String, Box<RunFailure>> {
    history(ground, scenario, draw)?;
    let plan = SimPlan::draw(scenario, draw.seed);
    let (_, entries) = simulate(ground, scenario, draw, &plan);
    Ok(entries.iter().fold(plan.to_string(), |text, entry| format!("{text}{entry}\n")))
}

/// Leaves out what the failure doesn't need: what is left fails the same check.
fn shorten(ground: &Ground, scenario: &SimScenario, draw: RunDraw, mut failure: Box<RunFailure>) -> Box<RunFailure> {
    'again: loop {
        for plan in failure.plan.shorter() {
            match attempt(ground, scenario, draw, plan) {
                Err(shorter) if shorter.finding.check == failure.finding.check => {
                    failure = shorter;
                    continue 'again;
                }
                Err(_) | Ok(()) => {}
            }
        }
        return failure;
    }
}

/// Runs a plan, on a thread of its own: what threads keep for the next request, another history must not find.
fn attempt(ground: &Ground, scenario: &SimScenario, draw: RunDraw, plan: SimPlan) -> Result<(), Box<RunFailure>> {
    let (finding, history) = std::thread::scope(|scope| {
        let simulated = scope.spawn(|| simulate(ground, scenario, draw, &plan)).join();
        simulated.unwrap_or_else(|panic| (Err(ModelFinding::new("nothing panics", text_of(&*panic))), Vec::new()))
    });
    let finding = finding.and_then(|()| model::judge(scenario, &history));
    let name = scenario.name.clone();
    finding.map_err(|finding| Box::new(RunFailure { scenario: name, seed: draw.seed, finding, plan, history }))
}

fn text_of(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn simulate(
    ground: &Ground,
    scenario: &SimScenario,
    draw: RunDraw,
    plan: &SimPlan,
) -> (Result<(), ModelFinding>, Vec<HistoryEntry>) {
    base::failpoint::plant(draw.fault);
    let RunDraw { seed, .. } = draw;
    let (network, scenario) = (MemoryNetwork::install(), Rc::new(scenario.clone()));
    let world = Rc::new(SimWorld::new(ground, &scenario, seed));
    let (history, watched) = (world.history.clone(), world.clone());
    let mut steps = 0;
    let watch = || {
        steps += 1;
        watched.check(steps % AUDIT_EVERY == 0)
    };
    let main = all(world.clone(), network, scenario.clone(), seed, plan.clone());
    let done = rt::sim::run(seed, LIMITS, &world.clock, watch, main);
    (done.and_then(|rest| rest), history.take())
}

/// All of a history: the clients do what they do, then everything comes to rest and goes.
async fn all(
    world: Rc<SimWorld>,
    network: MemoryNetwork,
    scenario: Rc<SimScenario>,
    seed: u64,
    plan: SimPlan,
) -> Result<(), ModelFinding> {
    SimOrigin::start(&network, scenario.clone(), seed, world.history.clone(), world.clock.clone());
    let house = rt::spawn(keep_house(world.clone()));
    let given_up = plan.given_up();
    let quic = world.tls.as_ref().zip(scenario.path).map(|(tls, path)| Rc::new(SimQuic::begin(&world, tls, path)));
    let at_work = Rc::new(AtWork { clients: Cell::new(plan.clients.len()), bell: Arc::default() });
    for client in plan.clients {
        let (world, at_work, quic) = (world.clone(), at_work.clone(), quic.clone());
        drop(rt::spawn(async move {
            client::run(world, quic, client).await;
            at_work.leave();
        }));
    }
    let done = rt::timeout(PATIENCE, at_work.end()).await;
    house.abort();
    match done {
        Ok(()) => come_to_rest(&world, given_up).await,
        // The judge says who waits.
        Err(rt::Elapsed) => Ok(()),
    }
}

struct AtWork {
    clients: Cell<usize>,
    bell: Arc<rt::Notify>,
}

impl AtWork {
    fn leave(&self) {
        self.clients.set(self.clients.get() - 1);
        self.bell.waker().wake();
    }

    async fn end(&self) {
        while self.clients.get() > 0 {
            self.bell.notified().await;
        }
    }
}

async fn keep_house(world: Rc<SimWorld>) {
    loop {
        rt::sleep(TICK).await;
        world.keep_house();
    }
}

/// When the clients have gone nothing is left of what was done for them, and in the end nothing at all.
async fn come_to_rest(world: &SimWorld, given_up: GivenUp) -> Result<(), ModelFinding> {
    /// Longer than any fetch and any timeout.
    const A_WHILE: Duration = Duration::from_secs(300);
    /// Longer than any life of an object.
    const FOR_GOOD: Duration = Duration::from_secs(10 * 3600);
    rt::sleep(A_WHILE).await;
    world.is_quiet(given_up)?;
    rt::sleep(FOR_GOOD).await;
    world.keep_house();
    world.is_empty()
}

impl SimWorld {
    fn check(&self, thoroughly: bool) -> Result<(), ModelFinding> {
        for store in self.engine.cache.stores().all() {
            if store.limit_bytes().is_some_and(|limit| store.used_bytes() > limit) {
                return Err(ModelFinding::new("a store keeps to its limit", format!("{store:?}")));
            }
        }
        if thoroughly {
            self.engine.cache.audit().map_err(|what| ModelFinding::new("the cache is whole", what))?;
        }
        Ok(())
    }

    /// Nobody does or awaits anything, and what is accounted is what objects hold.
    fn is_quiet(&self, given_up: GivenUp) -> Result<(), ModelFinding> {
        let wrong = |what: String| Err(ModelFinding::new("everything comes to rest", what));
        let audit = self.engine.cache.audit().map_err(|what| ModelFinding::new("the cache is whole", what))?;
        let turns = (self.engine.requests.admission.busy(), self.engine.requests.admission.waiting());
        if audit.waiting > 0 || audit.busy > 0 || turns != (0, 0) {
            return wrong(format!("{} parked, {} fetched, turns {turns:?}", audit.waiting, audit.busy));
        }
        if self.panics() > 0 {
            return Err(ModelFinding::new("nothing panics", format!("{} transactions did", self.panics())));
        }
        let work = engine::current::thread_work();
        let left = (self.sessions(), work.tally(TransactionKind::Request).0, work.tally(TransactionKind::Fetch).0);
        if left != (0, 0, 0) {
            return wrong(format!("sessions, requests, fetches left: {left:?}"));
        }
        for store in self.engine.cache.stores().all() {
            let held = audit.bytes.get(&store.id()).copied().unwrap_or(0);
            if store.used_bytes() != held {
                return Err(ModelFinding::new("bytes accounted are held", format!("{store:?}, objects hold {held}")));
            }
        }
        let whole = match self.engine.log.records() {
            (_, true) => Err("the log was too small".to_owned()),
            (records, false) => logbook::check(&records, given_up),
        };
        whole.map_err(|what| ModelFinding::new("the log is whole", what))
    }

    fn is_empty(&self) -> Result<(), ModelFinding> {
        let census = self.engine.cache.census();
        let used: u64 = self.engine.cache.stores().all().iter().map(|store| store.used_bytes()).sum();
        match (census, used) {
            ((0, 0, 0), 0) => Ok(()),
            _ => Err(ModelFinding::new(
                "bytes accounted are held",
                format!("{census:?} objects and {used} bytes for ever"),
            )),
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, seed {}: {}: {}", self.scenario, self.seed, self.finding.check, self.finding.what)?;
        write!(f, "{}", self.plan)?;
        self.history.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}
