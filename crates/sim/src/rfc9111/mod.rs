// SPDX-License-Identifier: BSD-2-Clause
//! Caching by RFC 9111 (`feature=+rfc9111`) against a model that is written from its text: random exchanges, one after the
//! other, between a client, the real engine and an origin. What the client gets and what the origin is asked must be what the model
//! says, each time. A history that differs is made as short as it can be.
//!
//! Time goes in such steps that nothing is ever exactly as old as it may be (`draw`), so that a rounding decides nothing.

mod draw;
mod fields;
mod model;
mod origin;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use rt::sim::SimLimits;
use testkit_net::memory::MemoryNetwork;

use self::draw::{BEGIN, Exchange};
use self::fields::joined;
use self::model::{Asked, Expected, Model};
use self::origin::Origin;
use testkit_engine::Ground;

use crate::FoundFault;
use crate::client::Asker;
use crate::history::{SimAnswer, SimEnd};
use crate::run::RunDraw;
use crate::script::SimScenario;
use crate::world::SimWorld;

/// Steps of a history, and how long it may take.
const LIMITS: SimLimits = SimLimits { steps: 1_000_000, time: Duration::from_secs(30 * 24 * 3600) };

const COMPARED: [&str; 14] = [
    "X-Rev",
    "X-Secret",
    "ETag",
    "Last-Modified",
    "Date",
    "Expires",
    "Cache-Control",
    "CDN-Cache-Control",
    "Vary",
    "No-Vary-Search",
    "Set-Cookie",
    "Location",
    "Cache-Groups",
    "Content-Range",
];

pub const EXCHANGES: u64 = draw::EXCHANGES as u64;

/// Draws a history for each of `count` seeds from `first` on, of forty exchanges each; how many exchanges those were.
///
/// # Errors
/// The first difference: the shortest history that shows one, with its seed.
pub fn draw_exchanges(first: u64, count: u64) -> Result<u64, String> {
    let mut ground = Ground::new();
    for seed in first..first + count {
        if seed % 1000 == 999 {
            ground = Ground::new();
        }
        let (draw, plan) = (RunDraw { seed, fault: None }, draw::history(seed));
        if let Err(difference) = attempt(&ground, draw, &plan) {
            return Err(shorten(&ground, draw, plan, difference).to_string());
        }
    }
    Ok(count * EXCHANGES)
}

/// Plants a fault and draws histories until one differs, at most so many.
pub(crate) fn find(fault: &'static str, most: u64) -> Option<FoundFault> {
    let ground = Ground::new();
    (0..most).find_map(|seed| {
        let draw = RunDraw { seed, fault: Some(fault) };
        let difference = attempt(&ground, draw, &draw::history(seed)).err()?;
        let said = shorten(&ground, draw, draw::history(seed), difference).difference.what;
        Some(FoundFault { seed, said: said.lines().next().unwrap_or_default().to_owned() })
    })
}

struct Difference {
    number: usize,
    what: String,
}

impl From<rt::sim::Endless> for Difference {
    fn from(endless: rt::sim::Endless) -> Self {
        Difference { number: 0, what: format!("it comes to no end: {endless:?}") }
    }
}

struct Failure {
    seed: u64,
    plan: Vec<Exchange>,
    difference: Difference,
}

/// Leaves out, or makes less of, what the difference doesn't need.
fn shorten(ground: &Ground, draw: RunDraw, plan: Vec<Exchange>, difference: Difference) -> Failure {
    let mut failure = Failure { seed: draw.seed, plan, difference };
    'again: loop {
        let at = failure.plan.iter().position(|exchange| exchange.number == failure.difference.number);
        failure.plan.truncate(at.map_or(failure.plan.len(), |at| at + 1));
        let shorter = (0..failure.plan.len()).map(|at| without(&failure.plan, at));
        let plans: Vec<_> = shorter.chain(simpler(&failure.plan)).collect();
        for plan in plans {
            if let Err(difference) = attempt(ground, draw, &plan) {
                failure = Failure { seed: draw.seed, plan, difference };
                continue 'again;
            }
        }
        return failure;
    }
}

fn without(plan: &[Exchange], at: usize) -> Vec<Exchange> {
    let mut plan = plan.to_vec();
    let wait = plan.remove(at).wait;
    plan[at..].iter_mut().take(1).for_each(|next| next.wait += wait);
    plan
}

/// Plans with a field less somewhere.
fn simpler(plan: &[Exchange]) -> impl Iterator<Item = Vec<Exchange>> {
    let asked =
        plan.iter().enumerate().flat_map(|(at, exchange)| (0..exchange.ask.headers.len()).map(move |i| (at, i)));
    let answered =
        plan.iter().enumerate().flat_map(|(at, exchange)| (0..exchange.answer.fields.len()).map(move |i| (at, i)));
    let without_asked = asked.map(|(at, i)| {
        let mut plan = plan.to_vec();
        plan[at].ask.headers.remove(i);
        plan
    });
    without_asked.chain(answered.map(|(at, i)| {
        let mut plan = plan.to_vec();
        plan[at].answer.fields.remove(i);
        plan
    }))
}

/// Runs a plan, on a thread of its own: what threads keep for the next request, another history must not find.
fn attempt(ground: &Ground, draw: RunDraw, plan: &[Exchange]) -> Result<(), Difference> {
    std::thread::scope(|scope| {
        let simulated = scope.spawn(|| simulate(ground, draw, plan)).join();
        simulated.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            Err(Difference { number: 0, what: format!("a panic: {text}") })
        })
    })
}

fn scenario() -> SimScenario {
    let params = vec![("feature".to_owned(), "+rfc9111".to_owned())];
    let vcl = "sub vcl_recv { if (req.http.X-Pass) { return (pass); } }
        sub vcl_backend_fetch {
            if (bereq.http.X-Part && !bereq.http.X-Tried && !bereq.is_bgfetch && !bereq.uncacheable && !bereq.http.Range
                && !bereq.http.If-None-Match && !bereq.http.If-Modified-Since) {
                set bereq.http.Range = bereq.http.X-Part;
            }
            set bereq.http.X-Tried = \"yes\";
            if (bereq.http.X-Keep && !bereq.is_bgfetch && !bereq.http.X-Part) { set bereq.method = \"HEAD\"; }
        }"
    .to_owned();
    SimScenario { name: "rfc9111".to_owned(), params, vcl, ..SimScenario::default() }
}

fn simulate(ground: &Ground, draw: RunDraw, plan: &[Exchange]) -> Result<(), Difference> {
    base::failpoint::plant(draw.fault);
    let RunDraw { seed, .. } = draw;
    let network = MemoryNetwork::install();
    let world = Rc::new(SimWorld::new(ground, &scenario(), seed));
    world.engine.cache.enable_tags(ground.tags);
    let clock = world.clock.clone();
    let watch = || Ok::<(), Difference>(());
    rt::sim::run(seed, LIMITS, &clock, watch, follow(world, network, plan))?
}

/// All exchanges of a plan, each compared.
async fn follow(world: Rc<SimWorld>, network: MemoryNetwork, plan: &[Exchange]) -> Result<(), Difference> {
    let origin = Origin::start(&network, world.clock.clone());
    let mut asker = Asker::new(world.clone());
    let mut model = Model::default();
    let (mut second, mut least) = (0, 1);
    for (nth, exchange) in plan.iter().enumerate() {
        second += exchange.wait.max(least);
        least = exchange.answer.patience();
        let moment = Duration::from_secs(second) + Duration::from_millis(exchange.moment_ms());
        rt::sleep(moment.saturating_sub(world.now())).await;
        world.keep_house();
        let now = BEGIN as f64 + world.now().as_secs_f64();
        origin.begin(exchange.answer.clone());
        let answer = asker.ask(&exchange.ask).await;
        // What is done behind the answer is done before the next request.
        let pause = plan.get(nth + 1).map_or(least, |next| next.wait.max(least));
        let until = Duration::from_secs(second + pause) + Duration::from_millis(exchange.moment_ms() + 1);
        rt::sleep(until.saturating_sub(world.now())).await;
        let expected = model.exchange(now, &exchange.ask, &exchange.answer);
        compare(&expected, exchange.answer.is_cut, &answer, origin.asked())
            .map_err(|what| Difference { number: exchange.number, what: format!("{what}\n  expected {expected:?}") })?;
        if world.panics() > 0 {
            return Err(Difference { number: exchange.number, what: "a transaction panicked".to_owned() });
        }
    }
    Ok(())
}

fn compare(expected: &Expected, may_fail: bool, answer: &SimAnswer, asked: Vec<Asked>) -> Result<(), String> {
    let differs =
        |what: &str, expected: &dyn fmt::Debug, got: &dyn fmt::Debug| Err(format!("{what}: {got:?}, not {expected:?}"));
    if asked != expected.asked {
        return differs("the origin is asked", &expected.asked, &asked);
    }
    if may_fail && !asked.is_empty() && answer.status == 503 {
        // What breaks off before the client has heard of it is a failed fetch.
        return Ok(());
    }
    if answer.status != expected.status {
        return differs("status", &expected.status, &answer.status);
    }
    let end = if expected.is_cut { SimEnd::Cut } else { SimEnd::Whole };
    if answer.end != end {
        return differs("the end", &end, &answer.end);
    }
    // What the cache makes itself has fields of its own.
    let is_made = expected.fields.is_empty();
    if is_made {
        return Ok(());
    }
    for name in COMPARED {
        let (wanted, got) = (joined(&expected.fields, name), joined(&answer.headers, name));
        if wanted != got {
            return differs(name, &wanted, &got);
        }
    }
    let is_right = match expected.is_cut {
        false => answer.body == expected.body.as_bytes(),
        // How much of it came before is chance.
        true => expected.body.as_bytes().starts_with(&answer.body),
    };
    if !is_right {
        return differs("body", &expected.body, &String::from_utf8_lossy(&answer.body));
    }
    let Some(age) = expected.age else { return Ok(()) };
    // A whole number of seconds where times are compared by fractions.
    let is_right = |got: &f64| [age - 0.001, age + 0.001].iter().any(|age| age.floor().max(0.0) == *got);
    match answer.header("Age").and_then(|text| text.parse::<f64>().ok()) {
        Some(got) if is_right(&got) => Ok(()),
        got => differs("Age", &age, &got),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { number, what } = &self.difference;
        writeln!(f, "rfc9111, seed {}: in exchange {number}: {what}", self.seed)?;
        self.plan.iter().try_for_each(|exchange| writeln!(f, "{exchange}"))
    }
}
