// SPDX-License-Identifier: BSD-2-Clause
//! A fleet: three nodes, each with the real engine, cache, store and journal, and the real logic of `fleet`'s appender and follower; the
//! log's server, the network between and all deaths are simulated (`log`, `node`). A seed draws what clients ask and what befalls whom
//! (`plan`); what came of it is judged by what docs/fleet.md promises (`model`). When all is healed the nodes must agree.
//!
//! The simulation leaves out threads, the protocols of NATS and Redis (`tests/e2e/cluster/fleet` has real servers of them), stores on disks, power cuts of a
//! node (what a killed process has written stays).

mod disk;
mod log;
mod model;
mod node;
mod plan;
mod tally;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::Clock;
use fleet::Gate;
use rt::sim::SimLimits;
use tables::counters::Fleet as Counters;
use testkit_net::memory::MemoryNetwork;

use self::log::SimLogServer;
use self::node::{Common, SimNode};
use self::plan::{Act, Deed, NODES, SimFleetPlan, URLS};
use testkit_engine::{Ground, leaked};

pub(crate) use self::disk::SimDisk;
pub use self::tally::FleetTally;

use crate::FoundFault;
use crate::history::{HistoryEntry, SimAnswer, SimEvent, SimHistory};
use crate::model::ModelFinding;
use crate::origin::SimOrigin;
use crate::plan::SimAsk;
use crate::run::RunDraw;
use crate::script::SimScenario;

/// Steps of a history, and how long it may take.
const LIMITS: SimLimits = SimLimits { steps: 1_000_000, time: Duration::from_secs(3600) };

/// The origin's answers and what nodes do with them, as a scenario's file says it.
const SCENARIO: &str = "store 1m
vcl {
    sub vcl_recv {
        if (req.method == \"PURGE\") { return (purge); }
        if (req.method == \"BAN\") { ban(\"obj.http.x-url == \" + req.url); return (synth(200)); }
    }
}
origin /a
    delay 0..1s
    lines 1..20
    pieces 1..2 pause 0..300ms
    ttl 3600s
origin /b
    delay 0..3s
    ttl 3600s
origin /c
    ttl 3600s
";

#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Asked {
        node: usize,
        method: &'static str,
        url: &'static str,
    },
    Answered {
        number: usize,
        answer: Option<SimAnswer>,
    },
    Started {
        node: usize,
        has_store: bool,
    },
    Killed {
        node: usize,
    },
    /// The log has an entry of that node: whose it is and what it hits, if it is new.
    Logged {
        node: usize,
        id: String,
        seq: u64,
        what: Option<(usize, &'static str)>,
    },
    /// The log has an entry no more, though it wasn't trimmed.
    Lost {
        id: String,
    },
    /// An older state of the log has an entry that was lost.
    Found {
        id: String,
    },
    CarriedOut {
        node: usize,
        id: String,
        url: Option<&'static str>,
    },
    GivenUp {
        node: usize,
        why: String,
    },
    /// Limit of what may be found on a node; `since`: it has all that the log had at that moment of the history.
    Gate {
        node: usize,
        gate: Gate,
        since: Option<usize>,
    },
    Agreed,
}

/// Draws a history of each seed, and sums them up.
///
/// # Errors
/// The first that isn't as it should be, as short as it can be.
pub fn draw_fleets(seeds: Range<u64>) -> Result<FleetTally, String> {
    let (fleet, mut all) = (Fleet::new(), FleetTally::default());
    for seed in seeds {
        all.add(&fleet.history(RunDraw { seed, fault: None }).map_err(|failure| failure.to_string())?);
    }
    Ok(all)
}

/// One history as text.
///
/// # Errors
/// What is wrong with it, shortened.
pub fn again(seed: u64) -> Result<String, String> {
    let (fleet, draw) = (Fleet::new(), RunDraw { seed, fault: None });
    fleet.history(draw).map_err(|failure| failure.to_string())?;
    let plan = SimFleetPlan::draw(seed);
    let (_, history) = fleet.simulate(draw, &plan);
    Ok(history.iter().enumerate().fold(plan.to_string(), |text, (at, entry)| format!("{text}{at:>4} {entry}\n")))
}

/// Plants a fault and draws histories until one fails, at most so many.
pub(crate) fn find(fault: &'static str, most: u64) -> Option<FoundFault> {
    let fleet = Fleet::new();
    (0..most).find_map(|seed| {
        let draw = RunDraw { seed, fault: Some(fault) };
        let (finding, _) = fleet.attempt(draw, &SimFleetPlan::draw(seed));
        let ModelFinding { check, what } = finding.err()?;
        Some(FoundFault { seed, said: format!("{check}: {what}") })
    })
}

struct Fleet {
    grounds: [Ground; NODES],
    counters: [&'static Counters; NODES],
    scenario: SimScenario,
}

struct Failure {
    seed: u64,
    finding: ModelFinding,
    plan: SimFleetPlan,
    history: Vec<HistoryEntry>,
}

impl Fleet {
    fn new() -> Fleet {
        let scenario = SimScenario::parse("fleet", SCENARIO).unwrap_or_else(|error| panic!("{error:?}"));
        Fleet { grounds: std::array::from_fn(|_| Ground::new()), counters: std::array::from_fn(|_| leaked()), scenario }
    }

    fn history(&self, draw: RunDraw) -> Result<FleetTally, Box<Failure>> {
        let plan = SimFleetPlan::draw(draw.seed);
        let (finding, history) = self.attempt(draw, &plan);
        finding.map_err(|finding| self.shorten(draw, Failure { seed: draw.seed, finding, plan, history }))
    }

    fn shorten(&self, draw: RunDraw, mut failure: Failure) -> Box<Failure> {
        'again: loop {
            for plan in failure.plan.clone().shorter() {
                let (finding, history) = self.attempt(draw, &plan);
                match finding {
                    Err(finding) if finding.check == failure.finding.check => {
                        failure = Failure { seed: draw.seed, finding, plan, history };
                        continue 'again;
                    }
                    Err(_) | Ok(_) => {}
                }
            }
            return Box::new(failure);
        }
    }

    /// Runs a plan, on a thread of its own, and judges what came of it.
    fn attempt(&self, draw: RunDraw, plan: &SimFleetPlan) -> (Result<FleetTally, ModelFinding>, Vec<HistoryEntry>) {
        let (done, history) = std::thread::scope(|scope| {
            let simulated = scope.spawn(|| self.simulate(draw, plan)).join();
            simulated.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                (Err(ModelFinding::new("nothing panics", text)), Vec::new())
            })
        });
        let finding = done.and_then(|()| model::judge(&history, plan));
        (finding, history)
    }

    fn simulate(&self, draw: RunDraw, plan: &SimFleetPlan) -> (Result<(), ModelFinding>, Vec<HistoryEntry>) {
        base::failpoint::plant(draw.fault);
        let RunDraw { seed, .. } = draw;
        let (network, clock, history) = (MemoryNetwork::install(), Clock::manual(), SimHistory::default());
        let engine = SimLogServer::new(plan, seed, history.clone(), clock.clone());
        let scenario = &self.scenario;
        let begin = Instant::now();
        let common = Common { scenario, plan, seed, begin, clock: clock.clone(), history: history.clone(), engine };
        let nodes: Vec<SimNode<'_>> = self
            .grounds
            .iter()
            .enumerate()
            .map(|(number, ground)| SimNode::new(number, &common, ground, self.counters[number]))
            .collect();
        let main = run(&network, &common, &nodes);
        let done = rt::sim::run(seed, LIMITS, &clock, || Ok::<(), ModelFinding>(()), main);
        (done.and_then(|done| done), history.take())
    }
}

/// Does all that the plan says, heals everything, and looks whether the nodes agree.
async fn run(network: &MemoryNetwork, common: &Common<'_>, nodes: &[SimNode<'_>]) -> Result<(), ModelFinding> {
    let origin = Rc::new(common.scenario.clone());
    SimOrigin::start(network, origin, common.seed, common.history.clone(), common.clock.clone());
    nodes.iter().for_each(|node| node.start(true));
    let mut asked = Vec::new();
    for Act { at, deed } in &common.plan.acts {
        let now = Duration::from_secs_f64(common.clock.mono().0);
        asked = beside(asked, rt::sleep(at.saturating_sub(now))).await;
        match deed {
            Deed::Ask { node, method, url } => asked.push(Box::pin(ask(common, &nodes[*node], method, url))),
            Deed::Kill(node) => nodes[*node].kill(),
            Deed::Start { node, with_store } => nodes[*node].start(*with_store),
            Deed::Cut(node) => common.engine.cut(*node, true),
            Deed::Join(node) => common.engine.cut(*node, false),
            Deed::EngineDies => common.engine.die(),
            Deed::EngineStarts => common.engine.start(),
            Deed::Trim(count) => common.engine.trim(*count),
            Deed::Save => common.engine.save(),
            Deed::PutBack => common.engine.put_back(),
            Deed::Replace => common.engine.replace(),
            Deed::Stranger => common.engine.stranger(),
            Deed::LoseTail(count) => common.engine.lose_tail(*count),
            Deed::Hole { replica, back, count } => common.engine.hole(*replica, *back, *count),
            Deed::Flip { replica, back, bit } => common.engine.flip(*replica, *back, *bit),
            Deed::Split(sides) => common.engine.split(*sides),
            Deed::Unsplit { keeps_second } => common.engine.unsplit(*keeps_second),
            Deed::ClockJump { node, seconds } => nodes[*node].clock.set_ahead(*seconds as f64),
            Deed::DiskFull(node) => nodes[*node].fill_disk(),
            Deed::Pause { node, time } => nodes[*node].pause(*time),
        }
    }
    common.engine.start();
    common.engine.heal();
    for node in nodes {
        common.engine.cut(node.number, false);
        node.pause(Duration::ZERO);
        node.start(true);
    }
    asked = beside(asked, rt::sleep(Duration::from_secs(30))).await;
    if !asked.is_empty() {
        return Err(ModelFinding::new("every request is answered", format!("{} aren't", asked.len())));
    }
    agree(common, nodes).await?;
    common.history.add(Duration::from_secs_f64(common.clock.mono().0), SimEvent::Fleet(Happening::Agreed));
    for node in nodes {
        for url in URLS {
            ask(common, node, "GET", url).await;
        }
    }
    Ok(())
}

type Asking<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Goes on with what was asked until `until` ends: what isn't answered yet.
async fn beside<'a>(mut asked: Vec<Asking<'a>>, until: impl Future<Output = ()>) -> Vec<Asking<'a>> {
    let mut until = std::pin::pin!(until);
    std::future::poll_fn(|cx| {
        asked.retain_mut(|ask| ask.as_mut().poll(cx).is_pending());
        until.as_mut().poll(cx)
    })
    .await;
    asked
}

async fn ask(common: &Common<'_>, node: &SimNode<'_>, method: &'static str, url: &'static str) {
    let note = |what| common.history.add(Duration::from_secs_f64(common.clock.mono().0), SimEvent::Fleet(what));
    let number = note(Happening::Asked { node: node.number, method, url });
    let (body, slow, gone, dropped) = Default::default();
    let ask = SimAsk { method: method.to_owned(), url: url.to_owned(), headers: Vec::new(), body, slow, gone, dropped };
    let answer = node.ask(&ask).await;
    note(Happening::Answered { number, answer });
}

/// All nodes have what the log has, and serve, within a while.
async fn agree(common: &Common<'_>, nodes: &[SimNode<'_>]) -> Result<(), ModelFinding> {
    let mut said = String::new();
    for _ in 0..200 {
        let end = common.engine.end();
        let all: Vec<_> = nodes.iter().filter_map(SimNode::status).collect();
        let is_there = |status: &fleet::NodeStatus| {
            (&status.epoch, status.applied) == (&end.0, end.1)
                && status.gate == Gate::Open
                && status.follow.is_up()
                && status.owed == 0
        };
        if all.len() == NODES && all.iter().all(is_there) {
            return Ok(());
        }
        said = format!("{all:?} and not {end:?}");
        rt::sleep(Duration::from_millis(100)).await;
    }
    Err(ModelFinding::new("when all is healed nodes agree", said))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "fleet, seed {}: {}: {}", self.seed, self.finding.check, self.finding.what)?;
        write!(f, "{}", self.plan)?;
        self.history.iter().enumerate().try_for_each(|(at, entry)| writeln!(f, "{at:>4} {entry}"))
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happening::Asked { node, method, url } => write!(f, "node {node} is asked {method} {url}"),
            Happening::Answered { number, answer: Some(answer) } => {
                write!(f, "what was asked at {number} has {answer}")
            }
            Happening::Answered { number, answer: None } => write!(f, "what was asked at {number} finds nobody"),
            Happening::Started { node, has_store: true } => write!(f, "node {node} starts"),
            Happening::Started { node, has_store: false } => write!(f, "node {node} starts with nothing"),
            Happening::Killed { node } => write!(f, "node {node} is killed"),
            Happening::Logged { node, id, seq, what } => {
                write!(f, "the log has {} of node {node} as {seq}: {what:?}", short(id))
            }
            Happening::Found { id } => write!(f, "the log has {} again", short(id)),
            Happening::Lost { id } => write!(f, "the log has lost {}", short(id)),
            Happening::CarriedOut { node, id, url } => write!(f, "node {node} carries out {}: {url:?}", short(id)),
            Happening::GivenUp { node, why } => write!(f, "node {node} gives up all: {why}"),
            Happening::Gate { node, gate, since } => {
                write!(f, "node {node}'s gate is {gate:?}, caught up since {since:?}")
            }
            Happening::Agreed => write!(f, "all nodes agree"),
        }
    }
}

fn short(id: &str) -> String {
    let (first, last) = (id.get(..4).unwrap_or(""), id.get(28..).unwrap_or(""));
    format!("{first}..{last}")
}
