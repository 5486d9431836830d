// SPDX-License-Identifier: BSD-2-Clause
//! This worker as a node of a fleet: carries out what the fleet's log says, keeps with the stores how far that has come, and shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::{Mono, Real};
use cache::{Cache, Digest, Purge};
use cli::handoff::FleetStart;
use engine::Engine;
use fleet::peers::MembershipProof;
use fleet::{
    Announced, Applier, FleetEntry, FleetSettings, Gate, HeldRecord, Invalidation, KnownNode, KnownNodes, Node,
    NodeReport, NodeRole, NodeStatus, Position, Reach, Reporter, StoreUse,
};
use shm::vsc::CounterMaker;
use storage::journal::{Followed, JournalHeld};
use tables::counters::Fleet as Counters;

use crate::worker::Worker;

/// Longest foreign error text that is printed, in bytes.
const WHY: usize = 500;
const WORD: usize = 64;
/// The ban that hits everything.
const EVERYTHING: [&str; 3] = ["obj.status", "!=", "0"];

/// Reads what the manager has handed over.
///
/// # Errors
/// What is wrong with it: the manager has read it before.
pub fn node(start: &FleetStart, identity: &str) -> Result<Node, String> {
    let mut settings = FleetSettings::parse(&start.spec)?;
    for (name, contents) in &start.files {
        let role = NodeRole::ALL.into_iter().find(|(known, _)| known == name).map(|(_, role)| role);
        settings.provide(role.ok_or_else(|| format!("no file is {name}"))?, contents)?;
    }
    if settings.node.is_empty() {
        settings.node = identity.to_owned();
    }
    Ok(Node::new(settings))
}

/// Shows counters, for as long as the process lives.
///
/// # Errors
/// There is no room for them.
pub fn counters(stats: &CounterMaker) -> Result<&'static Counters, String> {
    let set = stats.add::<Counters>("FLEET").map_err(|error| format!("counters: {error}"))?;
    Ok(Box::leak(Box::new(set)))
}

/// Begins to follow the log, once the journal of this worker's stores was read. A worker without a fleet does nothing.
pub fn start(worker: &Arc<Worker>) -> Result<(), String> {
    let Some((node, counters)) = worker.engine.cluster.node().cloned().zip(worker.fleet_counters) else {
        return Ok(());
    };
    let connector: Arc<dyn fleet::Connect> = fleet::connector(node.settings())?.into();
    let position = Carrier::position(&worker.engine);
    let carrier = Carrier::new(worker.engine.clone(), counters, |text| report_line!("fleet: {text}"));
    let failed = |error: std::io::Error| format!("thread for the fleet: {error}");
    node.start(connector.clone(), Arc::new(carrier), position).map_err(failed)?;
    let peer = worker.start.peers.as_ref().and_then(|start| crate::peers::joined(start, node.settings()));
    let teller = Teller { worker: worker.clone(), counters, started: worker.engine.clock.real(), peer };
    node.start_reporting(connector, Arc::new(teller)).map_err(failed)
}

struct Teller {
    worker: Arc<Worker>,
    counters: &'static Counters,
    started: Real,
    peer: Option<MembershipProof>,
}

impl Reporter for Teller {
    fn report(&self) -> Option<NodeReport> {
        let (engine, vcls) = (&self.worker.engine, &self.worker.vcls);
        if engine.sessions.drain.has_begun() || engine.cluster.gate.has_successor() {
            return None;
        }
        let stores = engine.cache.stores().all().iter().map(|store| StoreUse {
            name: store.name().to_owned(),
            used: store.used_bytes(),
            space: store.limit_bytes().unwrap_or(0),
        });
        let is_warming = engine.cluster.peers().is_some_and(|peers| peers.counters().warming.get() > 0);
        Some(NodeReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            vcl: vcls.active(),
            vcl_since: vcls.active_since().0,
            started: self.started.0,
            requests: engine.main.client_req.get(),
            hits: engine.main.cache_hit.get(),
            errors: engine.main.client_5xx.get(),
            panics: engine.main.req_panic.get(),
            stores: stores.collect(),
            // The other members of the tier ask it no more, or not yet.
            peer: self.peer.clone().filter(|_| !engine.sessions.drain.is_leaving() && !is_warming),
            ..NodeReport::default()
        })
    }

    fn show(&self, nodes: usize, away: usize) {
        self.counters.nodes.set(nodes as u64);
        self.counters.nodes_away.set(away as u64);
    }

    fn tell(&self, text: &str) {
        report_line!("fleet: {text}");
    }
}

/// Has the other nodes invalidate what was invalidated here at that time; `None`: there are none.
pub fn announce(worker: &Worker, what: impl FnOnce() -> Invalidation, at: Real) -> Option<Announced> {
    worker.engine.cluster.node().map(|node| node.append(what(), at.0))
}

/// Waits until that is in the log, on the CLI's thread; the node bounds how long.
///
/// # Errors
/// Why it isn't.
pub fn wait(announced: Announced) -> Result<(), String> {
    match rt::run(announced) {
        Ok(result) => result.map(drop),
        Err(error) => Err(error.to_string()),
    }
}

/// The log was away when the operator was told last; or was followed.
const AWAY: u64 = 0;
const FOLLOWED: u64 = 1;

/// Carries out what a fleet's log says, in an engine and its cache.
pub struct Carrier {
    engine: Arc<Engine>,
    counters: &'static Counters,
    /// State of the log when the operator was told last.
    was: AtomicU64,
    tell: fn(&str),
}

impl Carrier {
    /// In this engine, shown by these counters; `tell` tells the operator.
    pub fn new(engine: Arc<Engine>, counters: &'static Counters, tell: fn(&str)) -> Carrier {
        Carrier { engine, counters, was: AtomicU64::new(AWAY), tell }
    }

    /// Position in the log up to which stored objects have stood it, by the journal.
    pub fn position(engine: &Engine) -> Option<Position> {
        engine.cache.followed().map(|place| Position {
            epoch: String::from_utf8_lossy(&place.epoch).into_owned(),
            seq: place.seq,
            mark: place.mark,
        })
    }

    /// A moment of another node's clock, which may be ahead.
    fn moment(&self, at: f64) -> Mono {
        let now = self.engine.clock.mono();
        Mono(self.engine.clock.mono_of(Real(at)).0.min(now.0))
    }
}

/// Returns `false` if it isn't spread as its words say.
fn ban<'w>(cache: &Cache, words: impl Iterator<Item = &'w String>, at: f64) -> Result<bool, String> {
    let words: Vec<&str> = words.map(String::as_str).collect();
    let spec = cache.ban_of_words(&words).map_err(|error| error.to_string())?;
    Ok(cache.ban_made_at(spec, Real(at)))
}

impl Applier for Carrier {
    fn apply(&self, entry: &FleetEntry) -> Result<(), String> {
        let (engine, cache) = (&self.engine, &self.engine.cache);
        match &entry.what {
            Invalidation::Ban(words) => _ = ban(cache, words.iter(), entry.at)?,
            Invalidation::SpreadBan { spread, words } => {
                if !ban(cache, spread.iter().chain(words), entry.at)? {
                    let node = fleet::one_line(&entry.node, WHY);
                    self.tell(&format!(
                        "a spread ban of {node} makes its objects stale at once: too many are running (ban.spreads)"
                    ));
                }
            }
            Invalidation::Purge { digest, ttl, grace, keep } => {
                let purge = Purge { ttl: *ttl, grace: *grace, keep: *keep };
                engine.purge(None, &Digest(*digest), self.moment(entry.at), purge);
            }
            Invalidation::Tags { tags, is_soft } => {
                let keys = tags.iter().map(Vec::as_slice);
                let mut purge = cache.purge_tags(keys, self.moment(entry.at), *is_soft);
                while purge.step().is_none() {}
            }
            Invalidation::All(why) => self.apply_all(&format!("{} says so: {why}", entry.node)),
        }
        tables::counters::flush();
        Ok(())
    }

    fn together(&self, work: &mut dyn FnMut()) {
        self.engine.cache.invalidate_together(work);
    }

    fn apply_all(&self, why: &str) {
        self.tell(&format!("the whole cache is invalidated: {}", fleet::one_line(why, WHY)));
        let cache = &self.engine.cache;
        match cache.ban_words(&EVERYTHING) {
            Ok(()) => {}
            Err(error) => crate::panic::die(&format!("Panic: the ban of everything is none: {error}\n")),
        }
        tables::counters::flush();
    }

    fn has_objects(&self) -> bool {
        let cache = &self.engine.cache;
        cache.census().0 > 0 || cache.is_adopting() || cache.stores().homes().next().is_some()
    }

    fn keep(&self, position: &Position) {
        let Position { epoch, seq, mark } = position;
        self.engine.cache.set_followed(Followed { epoch: epoch.clone().into_bytes(), seq: *seq, mark: *mark });
    }

    fn held(&self) -> Vec<HeldRecord> {
        let now = self.engine.clock.real();
        let age = |since: f64| Duration::try_from_secs_f64((now.0 - since).max(0.0)).unwrap_or(Duration::MAX);
        let record = |JournalHeld { seq, mark, since, id, bytes }| HeldRecord { id, seq, mark, bytes, age: age(since) };
        self.engine.cache.held().into_iter().map(record).collect()
    }

    fn hold(&self, record: HeldRecord) {
        let HeldRecord { id, seq, mark, bytes, age } = record;
        let since = self.engine.clock.real().0 - age.as_secs_f64();
        self.engine.cache.hold(JournalHeld { seq, mark, since, id, bytes });
    }

    fn set_gate(&self, gate: Gate) {
        self.engine.cluster.gate.set(gate);
    }

    fn tell(&self, text: &str) {
        (self.tell)(text);
    }

    fn show(&self, status: &NodeStatus) {
        let (to, is) = (self.counters, |flag: bool| u64::from(flag));
        to.reachable.set(is(status.append.is_up()));
        to.followed.set(is(status.follow.is_up()));
        to.gate_closed.set(is(status.gate == Gate::Closed));
        to.capped.set(is(matches!(status.gate, Gate::Capped(_))));
        to.head.set(status.head);
        to.applied.set(status.applied);
        to.lag.set(status.head.saturating_sub(status.applied));
        to.lag_seconds.set(status.behind_since.map_or(0, |since| since.elapsed().as_secs()));
        to.appended.set(status.appended);
        to.refused.set(status.refused);
        to.carried_out.set(status.carried_out);
        to.returned.set(status.returned);
        to.foreign.set(status.foreign);
        to.gaps.set(status.gaps);
        to.restored.set(status.restored);
        to.owed.set(status.owed);
        let now = is(status.follow.is_up() && status.gate == Gate::Open);
        match &status.follow {
            Reach::Up(server) if now == FOLLOWED && self.was.swap(FOLLOWED, Relaxed) == AWAY => {
                self.tell(&format!("follows the log at {server}, up to entry {}", status.applied));
            }
            Reach::Away(_, why) if self.was.swap(AWAY, Relaxed) == FOLLOWED => {
                self.tell(&format!("can't follow the log: {why}"));
            }
            Reach::Up(_) | Reach::Away(..) => {}
        }
    }
}

/// State of this node, as `fleet.status` prints it.
pub fn status_text(node: &Node) -> String {
    let (status, settings) = (node.status(), node.settings());
    let servers: Vec<String> = settings.servers.iter().map(|server| server.to_string()).collect();
    let rows = [
        ("node", settings.node.clone()),
        ("log", format!("{} at {}, named {}", settings.kind.name(), servers.join(", "), settings.name)),
        ("appends", reach(&status.append)),
        ("follows", reach(&status.follow)),
        ("serves", gate_text(status.gate).to_owned()),
        ("position", format!("{} of {}", status.applied, status.head)),
        ("lag", lag(&status)),
        ("appended here", format!("{}, refused {}", status.appended, status.refused)),
        ("carried out", format!("{} of others, {} own came back", status.carried_out, status.returned)),
        ("not ours", status.foreign.to_string()),
        ("given up all", format!("{} times", status.gaps)),
        ("restored", format!("{} entries that the log had lost, {} to come", status.restored, status.owed)),
        ("group", settings.group.clone()),
        ("nodes", nodes_in_words(&node.members())),
    ];
    rows.iter().map(|(name, value)| format!("{name:<14} {value}\n")).collect()
}

/// The same as members of a JSON object.
pub fn status_json(node: &Node) -> serde_json::Value {
    let (status, settings) = (node.status(), node.settings());
    let reach = |reach: &Reach| match reach {
        Reach::Up(server) => serde_json::json!({ "up": true, "server": server }),
        Reach::Away(since, why) => {
            serde_json::json!({ "up": false, "for_seconds": since.elapsed().as_secs_f64(), "why": why })
        }
    };
    serde_json::json!({
        "node": settings.node, "kind": settings.kind.name(), "name": settings.name, "epoch": status.epoch,
        "servers": settings.servers.iter().map(|server| server.to_string()).collect::<Vec<_>>(),
        "append": reach(&status.append), "follow": reach(&status.follow), "serves": status.gate.word(),
        "head": status.head, "applied": status.applied, "lag": status.head.saturating_sub(status.applied),
        "lag_seconds": lag_seconds(&status), "appended": status.appended, "refused": status.refused,
        "group": settings.group, "address": settings.address,
        "carried_out": status.carried_out, "returned": status.returned, "foreign": status.foreign, "gaps": status.gaps,
        "restored": status.restored, "owed": status.owed,
    })
}

fn reach(reach: &Reach) -> String {
    match reach {
        Reach::Up(server) => format!("by {server}"),
        Reach::Away(since, why) => format!("not, for {:.0} s: {why}", since.elapsed().as_secs_f64()),
    }
}

fn gate_text(gate: Gate) -> &'static str {
    match gate {
        Gate::Open => "all that is stored",
        Gate::Closed => "no cached objects: this node hasn't caught up with the log",
        Gate::Capped(_) => "only young objects: the log has been unreachable for too long",
    }
}

fn lag_seconds(status: &NodeStatus) -> f64 {
    status.behind_since.map_or(0.0, |since: Instant| since.elapsed().as_secs_f64())
}

fn lag(status: &NodeStatus) -> String {
    format!("{} entries, {:.1} s", status.head.saturating_sub(status.applied), lag_seconds(status))
}

fn nodes_in_words(members: &KnownNodes) -> String {
    let (count, away) = (members.members.len(), members.members.iter().filter(|member| member.is_away()).count());
    match &members.away {
        Some((since, why)) => format!("not known, for {:.0} s: {why}", since.elapsed().as_secs_f64()),
        None => format!("{count}, {away} away"),
    }
}

/// All nodes, as `fleet.nodes` shows them: a line each.
pub fn nodes_text(node: &Node, now: Real) -> String {
    let known = node.members();
    let mut rows =
        vec![["node", "group", "state", "VCL", "for", "position", "lag", "requests", "hits", "5xx"].map(str::to_owned)];
    for member in &known.members {
        let report = &member.report;
        let hits = report.hits as f64 / report.requests.max(1) as f64 * 100.0;
        rows.push([
            fleet::one_line(&member.name, WORD),
            fleet::one_line(&report.group, WORD),
            state(member),
            fleet::one_line(&report.vcl, WORD),
            span(now.0 - report.vcl_since),
            report.applied.to_string(),
            report.head.saturating_sub(report.applied).to_string(),
            report.requests.to_string(),
            format!("{hits:.1}%"),
            report.errors.to_string(),
        ]);
    }
    let mut text = table(&rows);
    if let Some((since, why)) = &known.away {
        text.push_str(&format!("As it was {:.0} s ago: {why}\n", since.elapsed().as_secs_f64()));
    }
    text
}

/// Columns as wide as their widest field; the last five to the right, as they are numbers.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: Vec<usize> =
        (0..N).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let fields = row.iter().zip(&widths).enumerate().map(|(at, (field, width))| match at + 5 < N {
            true => format!("{field:<width$}"),
            false => format!("{field:>width$}"),
        });
        format!("{}\n", fields.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn state(member: &KnownNode) -> String {
    match &member.report.serves[..] {
        _ if member.is_away() => format!("away {}", span(member.age.as_secs_f64())),
        "all" => "serves".to_owned(),
        "young" => "serves young".to_owned(),
        _ => "catches up".to_owned(),
    }
}

/// A time in two figures or three.
fn span(seconds: f64) -> String {
    // Who says when it began may say anything.
    match seconds.clamp(0.0, 1e9) {
        seconds @ ..120.0 => format!("{seconds:.0}s"),
        seconds @ ..7200.0 => format!("{:.0}m", seconds / 60.0),
        seconds @ ..172_800.0 => format!("{:.0}h", seconds / 3600.0),
        seconds => format!("{:.0}d", seconds / 86_400.0),
    }
}

/// The same as a JSON object.
pub fn nodes_json(node: &Node) -> serde_json::Value {
    let (known, settings) = (node.members(), node.settings());
    let away = known
        .away
        .as_ref()
        .map(|(since, why)| serde_json::json!({ "for_seconds": since.elapsed().as_secs_f64(), "why": why }));
    let nodes = known.members.iter().map(|member| {
        let mut facts = member.report.json();
        facts["node"] = member.name.clone().into();
        facts["age_seconds"] = member.age.as_secs_f64().into();
        facts["away"] = member.is_away().into();
        facts
    });
    let nodes: Vec<_> = nodes.collect();
    serde_json::json!({
        "node": settings.node, "name": settings.name, "unknown": away, "looked_seconds": known.looked.as_secs_f64(), "nodes": nodes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_few_figures() {
        let spans = [-1.0, 3.4, 119.0, 600.0, 7300.0, 200_000.0, 1e300].map(span);
        assert_eq!(spans, ["0s", "3s", "119s", "10m", "2h", "2d", "11574d"]);
    }

    #[test]
    fn columns() {
        let rows =
            [["a", "b", "1", "2", "3", "4"], ["long", "c", "10", "20", "30", "40"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a     b   1   2   3   4\nlong  c  10  20  30  40\n");
    }

    #[test]
    fn who_is_away() {
        let member = |age: u64, serves: &str| KnownNode {
            name: "a".into(),
            age: Duration::from_secs(age),
            report: NodeReport { serves: serves.into(), ..NodeReport::default() },
        };
        assert_eq!(state(&member(1, "all")), "serves");
        assert_eq!(state(&member(1, "nothing")), "catches up");
        assert_eq!(state(&member(60, "all")), "away 60s");
    }
}
