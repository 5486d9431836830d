// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer fleet deploy`: rolls a VCL and parameters out to a group of nodes in stages. It speaks with the CLI of one node only, so it needs no
//! way to the log's server and no other right than that; what is to be done is written on the fleet's board, and each node reports what it did.
//!
//! A stage: its nodes make ready, then use it, then are watched. What fails, panics, or answers more errors than before by more than
//! is allowed ends the trial, and all nodes go back. If this program ends they do so by themselves, as nobody tends the trial any more.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::thread::sleep;
use std::time::{Duration, Instant};

use admin::{AdminConnection, is_good};
use base::text::{parse_duration, printable};
use fleet::board::LONGEST_DOCUMENT;
use fleet::rollout::{OLD_TIME, Release, Rollout, RolloutTrial, RolloutVcl, bundle_of, digest_of, document_of, stage};
use fleet::{Deployed, NodeReport};
use serde_json::Value;
use toolkit::print;

use crate::words::AdmWords;

/// Between two looks at the nodes. Each tends the trial.
const PACE: Duration = Duration::from_secs(1);
/// Nodes have so long to make ready, and to use what they are ready for.
const READY_TIME: Duration = Duration::from_secs(120);
/// Least time for which the share of errors before is measured.
const BEFORE: Duration = Duration::from_secs(3);
/// The node that is asked looks at all nodes once a second: until it does so again, and between two questions whether it has.
const LOOK_TIME: Duration = Duration::from_secs(10);
const LOOK_PACE: Duration = Duration::from_millis(100);
/// The board may be away for so long; nodes follow a trial for longer than that without a word ([`fleet::rollout::PATIENCE`]).
const BOARD_TIME: Duration = Duration::from_secs(22);
/// Nodes that aren't heard of have so long to be back.
const BACK_TIME: Duration = Duration::from_secs(5);
/// Nodes that are left out and named.
const SHOWN: usize = 20;
/// Fewer errors than that are no sign of anything.
const FEW: u64 = 3;

struct Order {
    file: Option<String>,
    group: String,
    stages: Vec<String>,
    watch: Duration,
    /// The share of errors, of one.
    most_errors: f64,
    params: BTreeMap<String, String>,
}

impl Order {
    fn read(words: &AdmWords) -> Result<Order, String> {
        let file = match &words.rest[1..] {
            [] => None,
            [file] => Some(file.clone()),
            [_, other, ..] => return Err(format!("only one file is accepted, not also {other}")),
        };
        let mut params = BTreeMap::new();
        for param in words.all("--param") {
            let (name, value) =
                param.split_once('=').ok_or_else(|| format!("--param requires NAME=VALUE, not {param}"))?;
            params.insert(name.to_owned(), value.to_owned());
        }
        if file.is_none() && params.is_empty() {
            return Err("nothing to roll out: give FILE or --param NAME=VALUE".to_owned());
        }
        let stages: Vec<String> = words.last("--stages").unwrap_or("1,10%,all").split(',').map(str::to_owned).collect();
        if let Some(bad) = stages.iter().find(|text| stage(text, 1000).is_none()) {
            return Err(format!("\"{bad}\" is not a stage: give a number of nodes, a percentage such as 10%, or all"));
        }
        if stages.last().is_none_or(|last| last != "all" && last != "100%") {
            return Err("the last stage must be all: a confirmed release is for all nodes".to_owned());
        }
        let watch =
            parse_duration(words.last("--watch").unwrap_or("30s")).filter(|seconds| (0.0..=86_400.0).contains(seconds));
        let share = words.last("--max-5xx").unwrap_or("1%");
        let share = share.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
        let share =
            share.filter(|share| (0.0..=100.0).contains(share)).ok_or("--max-5xx requires a percentage such as 1%")?;
        Ok(Order {
            file,
            group: words.last("--group").unwrap_or("all").to_owned(),
            stages,
            watch: Duration::from_secs_f64(watch.ok_or("--watch requires a duration such as 30s")?),
            most_errors: share / 100.0,
            params,
        })
    }
}

/// Reports of nodes: what each reported last, unless it is away.
type Nodes = BTreeMap<String, NodeReport>;

/// A group as a node knows it.
#[derive(Debug)]
struct View {
    nodes: Nodes,
    /// Nodes of the group that take no part, and why, in words.
    left_out: Vec<String>,
    /// Age of this view in seconds.
    looked: f64,
}

impl View {
    /// The view in the reply to `fleet.nodes -j`.
    fn of(said: &Value, group: &str) -> View {
        let mut view =
            View { nodes: Nodes::new(), left_out: Vec::new(), looked: said["looked_seconds"].as_f64().unwrap_or(0.0) };
        for node in said["nodes"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let (Some(name), Some(report)) = (node["node"].as_str(), NodeReport::read(node.to_string().as_bytes()))
            else {
                continue;
            };
            let age = node["age_seconds"].as_f64().unwrap_or(0.0);
            match node["away"] == Value::Bool(false) {
                _ if report.group != group => {}
                _ if !report.takes_deployments => {
                    view.left_out.push(format!("{}: it was started without deploy=on", printable(name)));
                }
                false => view.left_out.push(format!(
                    "{}: it has been away for {age:.0} s; it loads the confirmed release when it comes back",
                    printable(name)
                )),
                true => _ = view.nodes.insert(name.to_owned(), report),
            }
        }
        view
    }
}

/// Counts of nodes since a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    requests: u64,
    errors: u64,
}

impl Counts {
    /// Both together. Nodes may say any number.
    fn and(self, more: Counts) -> Counts {
        Counts {
            requests: self.requests.saturating_add(more.requests),
            errors: self.errors.saturating_add(more.errors),
        }
    }

    fn share(self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }
}

/// The counts of these nodes between two looks.
///
/// # Errors
/// A node was lost, began anew, or had a panic.
fn counted(of: &BTreeSet<String>, before: &Nodes, after: &Nodes) -> Result<Counts, String> {
    let mut counts = Counts::default();
    for name in of {
        let Some(then) = before.get(name) else { continue };
        let now = after.get(name).ok_or_else(|| format!("{name} is away"))?;
        if now.instance != then.instance {
            return Err(format!("the worker of {name} has died"));
        }
        if now.panics > then.panics {
            return Err(format!("{name} has had {} panics", now.panics - then.panics));
        }
        counts = counts.and(Counts {
            requests: now.requests.saturating_sub(then.requests),
            errors: now.errors.saturating_sub(then.errors),
        });
    }
    Ok(counts)
}

/// The same before anything was changed, of those nodes of which it is known.
fn usual(before: &Nodes, after: &Nodes) -> Counts {
    let of = |name: &String| counted(&[name.clone()].into(), before, after).unwrap_or_default();
    before.keys().map(of).fold(Counts::default(), Counts::and)
}

/// True if there are more errors than before by more than is allowed.
fn is_worse(before: Counts, after: Counts, most: f64) -> bool {
    after.errors >= FEW && after.share() > before.share() + most
}

/// Runs it: the exit status. 1: nothing was rolled out, or it was taken back; 2: it wasn't tried.
pub(super) fn run(connection: AdminConnection, words: &AdmWords) -> Result<i32, String> {
    let order = Order::read(words)?;
    let mut deployer = Deployer { connection, order, rollout: Rollout::default(), written: Vec::new() };
    Ok(match deployer.deploy() {
        Ok(()) => 0,
        Err(reason) => {
            print::foreign_err(format!("lacquer fleet: {}\n", reason.trim_end()));
            1
        }
    })
}

fn tell(text: &str) {
    print::foreign(format_args!("{text}\n"));
}

struct Deployer {
    connection: AdminConnection,
    order: Order,
    rollout: Rollout,
    written: Vec<u8>,
}

impl Deployer {
    fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>, String> {
        let reply = self.connection.ask(&cli::client::encode(words));
        let reply = reply.map_err(|_| "the server's CLI doesn't respond".to_owned())?;
        if is_good(reply.status) { Ok(reply.body) } else { Err(admin::refusal(&reply)) }
    }

    /// The nodes of the group that take part in roll-outs and aren't away.
    fn nodes(&mut self) -> Result<Nodes, String> {
        Ok(self.view()?.nodes)
    }

    /// The same, as the node that is asked has looked at them since now: what it knew before may lack one that has just come.
    fn view_from_now(&mut self) -> Result<View, String> {
        let begun = Instant::now();
        loop {
            let view = self.view()?;
            if view.looked <= begun.elapsed().as_secs_f64() {
                return Ok(view);
            }
            if begun.elapsed() > LOOK_TIME {
                return Err("the contacted node no longer follows the fleet's nodes".to_owned());
            }
            sleep(LOOK_PACE);
        }
    }

    fn view(&mut self) -> Result<View, String> {
        let reply = self.ask(&[b"fleet.nodes", b"-j"])?;
        let said: Value = serde_json::from_slice(&reply).map_err(|_| "the server's answer isn't as expected")?;
        let said = said.as_array().and_then(|members| members.last()).cloned().unwrap_or_default();
        if let Some(why) = said["unknown"]["why"].as_str() {
            return Err(format!("the fleet's nodes aren't known: {}", printable(why)));
        }
        Ok(View::of(&said, &self.order.group))
    }

    /// Writes what is to be done, unless somebody else has written meanwhile.
    fn write(&mut self, change: impl FnOnce(&mut Rollout)) -> Result<(), String> {
        let mut next = self.rollout.clone();
        change(&mut next);
        next.serial = self.rollout.next_serial();
        let bytes = next.encode();
        self.replace(&bytes)?;
        (self.rollout, self.written) = (next, bytes);
        Ok(())
    }

    /// Puts a document in the place of the one that we wrote. The board may be away for a moment, as when the servers that keep it choose
    /// another leader, and one of them may show for a moment what there was before: nodes wait for that as long as we do.
    fn replace(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (name, was, begun) = (document_of(&self.order.group), self.written.clone(), Instant::now());
        let mut changed = None;
        loop {
            let why = match self.ask(&[b"fleet.replace", name.as_bytes(), bytes, &was]) {
                Ok(_) => return Ok(()),
                Err(why) => why,
            };
            match self.ask(&[b"fleet.document", name.as_bytes()]) {
                // The answer was lost.
                Ok(is) if is == bytes => return Ok(()),
                Ok(is) if is != was => _ = changed.get_or_insert_with(Instant::now),
                Ok(_) | Err(_) => changed = None,
            }
            if changed.is_some_and(|since| since.elapsed() >= OLD_TIME) {
                return Err("another roll-out has replaced this one, or the nodes have rolled it back".to_owned());
            }
            if begun.elapsed() >= BOARD_TIME {
                return Err(why);
            }
            sleep(LOOK_PACE);
        }
    }

    /// Asks until it is known; as above.
    fn patiently<T>(&mut self, mut ask: impl FnMut(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let until = Instant::now() + BOARD_TIME;
        loop {
            match ask(self) {
                Err(_) if Instant::now() < until => sleep(LOOK_PACE),
                done => return done,
            }
        }
    }

    fn change_trial(&mut self, change: impl FnOnce(&mut RolloutTrial)) -> Result<(), String> {
        self.write(|rollout| {
            if let Some(trial) = &mut rollout.trial {
                change(trial);
            }
        })
    }

    /// Waits a moment, tends the trial, and looks at the nodes, until all of these have reported. Where the board itself was away none could.
    fn look(&mut self, of: &BTreeSet<String>) -> Result<Nodes, String> {
        let until = Instant::now() + BACK_TIME;
        loop {
            sleep(PACE);
            self.write(|_| ())?;
            let nodes = self.patiently(Self::nodes)?;
            if until <= Instant::now() || of.iter().all(|name| nodes.contains_key(name)) {
                return Ok(nodes);
            }
        }
    }

    fn deploy(&mut self) -> Result<(), String> {
        let group = self.order.group.clone();
        let View { nodes, left_out, .. } = self.view_from_now()?;
        if nodes.is_empty() {
            left_out.iter().take(SHOWN).for_each(|why| tell(&format!("  without {why}")));
            return Err(format!(
                "no node of the group {group} accepts roll-outs: start nodes with --fleet ...,group={group},deploy=on"
            ));
        }
        let document = self.ask(&[b"fleet.document", document_of(&group).as_bytes()])?;
        self.rollout = Rollout::read(Some(&document[..]).filter(|document| !document.is_empty()))?;
        self.written = document;
        if let Some(trial) = &self.rollout.trial {
            return Err(format!(
                "{} is already rolling out {}; it ends by itself if it isn't renewed",
                printable(&trial.by),
                trial.release.version()
            ));
        }
        let release = self.release()?;
        let version = release.version();
        if self.rollout.confirmed.as_ref() == Some(&release) {
            tell(&format!("the group {group} already runs {version}"));
            return Ok(());
        }
        let what = release.vcl.as_ref().map_or_else(|| "parameters".to_owned(), |vcl| printable(&vcl.origin));
        let names = nodes.keys().cloned().collect();
        tell(&format!("{version} ({what}) for {} nodes of the group {group}: {}", nodes.len(), names_of(&names)));
        left_out.iter().take(SHOWN).for_each(|why| tell(&format!("  without {why}")));
        if left_out.len() > SHOWN {
            tell(&format!("  and without {} more", left_out.len() - SHOWN));
        }
        let by = format!("{} of process {}", sys::process::host_name(), std::process::id());
        let id = format!("{:016x}", RandomState::new().hash_one(Instant::now()));
        self.write(|rollout| {
            let (prepare, activate) = (BTreeSet::new(), BTreeSet::new());
            rollout.trial = Some(RolloutTrial { id, release: release.clone(), by, prepare, activate });
        })?;
        match self.stages(&nodes) {
            Ok(()) => {
                self.write(|rollout| {
                    (rollout.confirmed, rollout.trial) = (Some(release), None);
                    rollout.last = format!("{version} was confirmed");
                })?;
                tell(&format!("{version} is confirmed"));
                Ok(())
            }
            Err(reason) => Err(self.take_back(&reason)),
        }
    }

    /// The release to roll out: what there is with what is asked for. Its sources are on the board then.
    fn release(&mut self) -> Result<Release, String> {
        let mut release = self.rollout.confirmed.clone().unwrap_or_default();
        release.params.extend(self.order.params.clone());
        let Some(file) = self.order.file.clone() else { return Ok(release) };
        // A file that is here is meant, wherever the server's vcl_path leads.
        let path =
            std::fs::canonicalize(&file).ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or(file.clone());
        let checked = self.ask(&[b"fleet.bundle", path.as_bytes()])?;
        let mut bundle = vcl::SourceBundle::from_bytes(&checked).ok_or("the server's answer isn't as expected")?;
        // Names, sockets and certificates are each node's affair.
        bundle.answers.retain(|(kind, _), _| matches!(kind, b'f' | b'g'));
        let bytes = bundle.to_bytes();
        if bytes.len() > LONGEST_DOCUMENT {
            return Err(format!(
                "{file} and its included files have {} bytes; at most {LONGEST_DOCUMENT} are possible",
                bytes.len()
            ));
        }
        let slot = match &release.vcl {
            Some(vcl) if vcl.digest == digest_of(&bytes) => return Ok(release),
            Some(vcl) if vcl.slot == 'a' => 'b',
            Some(_) | None => 'a',
        };
        self.ask(&[b"fleet.replace", bundle_of(&self.order.group, slot).as_bytes(), &bytes])?;
        release.vcl = Some(RolloutVcl { digest: digest_of(&bytes), slot, origin: file });
        Ok(release)
    }

    fn stages(&mut self, nodes: &Nodes) -> Result<(), String> {
        let names: Vec<&String> = nodes.keys().collect();
        // What is already broken isn't the new version's fault.
        let mut before = Counts::default();
        let (mut done, begun) = (BTreeSet::new(), Instant::now());
        let stages = self.order.stages.clone();
        for (at, text) in stages.iter().enumerate() {
            let count = stage(text, names.len()).unwrap_or(names.len());
            let of: BTreeSet<String> = names[..count].iter().map(|name| (*name).clone()).collect();
            if of.len() <= done.len() {
                continue;
            }
            tell(&format!("stage {} of {}: {}", at + 1, stages.len(), names_of(&of)));
            self.change_trial(|trial| trial.prepare = of.clone())?;
            self.wait_for(&of, &["ready", "active"])?;
            let mut now = self.patiently(Self::nodes)?;
            while done.is_empty() && begun.elapsed() < BEFORE {
                now = self.look(&of)?;
            }
            if done.is_empty() {
                before = usual(nodes, &now);
            }
            self.change_trial(|trial| trial.activate = of.clone())?;
            let from = self.wait_for(&of, &["active"])?;
            self.watch(&of, before, &from)?;
            done = of;
        }
        Ok(())
    }

    fn wait_for(&mut self, of: &BTreeSet<String>, states: &[&str]) -> Result<Nodes, String> {
        let until = Instant::now() + READY_TIME;
        loop {
            let nodes = self.look(of)?;
            let mut missing = BTreeSet::new();
            for name in of {
                let said = self.said_by(name, &nodes)?;
                if said.state == "failed" || said.state == "back" {
                    return Err(format!("{name}: {}", said.why));
                }
                if !states.contains(&&said.state[..]) {
                    missing.insert(name.clone());
                }
            }
            if missing.is_empty() {
                return Ok(nodes);
            }
            if until <= Instant::now() {
                return Err(format!("not {} in time: {}", states[0], names_of(&missing)));
            }
        }
    }

    /// A node's word on this trial; nothing as long as it says something of another one.
    fn said_by(&self, name: &str, nodes: &Nodes) -> Result<Deployed, String> {
        let report = nodes.get(name).ok_or_else(|| format!("{name} is away"))?;
        let trial = self.rollout.trial.as_ref().map(|trial| &trial.id);
        Ok(report.deployed.clone().filter(|said| Some(&said.trial) == trial).unwrap_or_default())
    }

    fn watch(&mut self, of: &BTreeSet<String>, before: Counts, from: &Nodes) -> Result<(), String> {
        let until = Instant::now() + self.order.watch;
        loop {
            let nodes = self.look(of)?;
            let counts = counted(of, from, &nodes)?;
            if is_worse(before, counts, self.order.most_errors) {
                return Err(format!(
                    "{} of {} requests had a status of 500 or more, {:.1}%; before it was {:.1}%",
                    counts.errors,
                    counts.requests,
                    counts.share() * 100.0,
                    before.share() * 100.0
                ));
            }
            if until <= Instant::now() {
                tell(&format!("  {} requests, {} with a status of 500 or more", counts.requests, counts.errors));
                return Ok(());
            }
        }
    }

    /// Ends the trial, and waits until its nodes have gone back: why.
    fn take_back(&mut self, reason: &str) -> String {
        let reason = reason.trim_end().to_owned();
        let Some(trial) = self.rollout.trial.clone() else { return reason };
        let last = format!("{} was rolled back: {reason}", trial.release.version());
        if let Err(why) = self.write(|rollout| (rollout.trial, rollout.last) = (None, last)) {
            return format!("{reason}\nIt can't be rolled back from here ({why}): the nodes roll back by themselves");
        }
        let until = Instant::now() + READY_TIME;
        loop {
            sleep(PACE);
            let Ok(nodes) = self.patiently(Self::nodes) else { return format!("{reason}\nThe nodes go back") };
            let is_inside = |report: &NodeReport| {
                let said = report.deployed.as_ref().filter(|said| said.trial == trial.id);
                said.is_some_and(|said| said.state == "ready" || said.state == "active")
            };
            let left: BTreeSet<String> =
                nodes.iter().filter(|(_, report)| is_inside(report)).map(|(name, _)| name.clone()).collect();
            if left.is_empty() {
                return format!("{reason}\nTaken back: all nodes run what they ran before");
            }
            if until <= Instant::now() {
                return format!("{reason}\nNot yet rolled back by {}", names_of(&left));
            }
        }
    }
}

fn names_of(names: &BTreeSet<String>) -> String {
    const SOME: usize = 8;
    let some: Vec<&str> = names.iter().take(SOME).map(String::as_str).collect();
    match names.len().saturating_sub(SOME) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(rows: &[(&str, &str, u64, u64, u64)]) -> Nodes {
        let node = |&(name, instance, requests, errors, panics): &(&str, &str, u64, u64, u64)| {
            let report =
                NodeReport { instance: instance.to_owned(), requests, errors, panics, ..NodeReport::default() };
            (name.to_owned(), report)
        };
        rows.iter().map(node).collect()
    }

    #[test]
    fn what_nodes_count_meanwhile() {
        let of: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
        let before = nodes(&[("a", "1", 100, 1, 0), ("b", "2", 50, 0, 0), ("c", "3", 1, 0, 0)]);
        let after = nodes(&[("a", "1", 150, 3, 0), ("b", "2", 60, 0, 0), ("c", "9", 9, 9, 9)]);
        assert_eq!(counted(&of, &before, &after), Ok(Counts { requests: 60, errors: 2 }));
        assert_eq!(usual(&before, &after), Counts { requests: 60, errors: 2 }, "c began anew");
        let wrong = |a, b| counted(&of, &before, &nodes(&[a, b])).unwrap_err();
        assert_eq!(wrong(("a", "5", 1, 0, 0), ("b", "2", 60, 0, 0)), "the worker of a has died");
        assert_eq!(wrong(("a", "1", 150, 0, 2), ("b", "2", 60, 0, 0)), "a has had 2 panics");
        assert_eq!(wrong(("a", "1", 150, 0, 0), ("c", "3", 60, 0, 0)), "b is away");
    }

    #[test]
    fn what_nodes_say_is_summed_whatever_it_is() {
        let of: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
        let (before, after) = (
            nodes(&[("a", "1", 0, 0, 0), ("b", "2", 0, 0, 0)]),
            nodes(&[("a", "1", u64::MAX, u64::MAX, 0), ("b", "2", 9, 9, 0)]),
        );
        let all = Counts { requests: u64::MAX, errors: u64::MAX };
        assert_eq!((counted(&of, &before, &after), usual(&before, &after)), (Ok(all), all));
    }

    #[test]
    fn who_takes_part_and_who_does_not() {
        let node = |name: &str, group: &str, deploy: bool, away: bool| {
            let report = NodeReport { group: group.to_owned(), takes_deployments: deploy, ..NodeReport::default() };
            let mut node = report.json();
            (node["node"], node["away"], node["age_seconds"]) = (name.into(), away.into(), 34.2_f64.into());
            node
        };
        let rows = vec![
            node("a", "web", true, false),
            node("b", "web", true, true),
            node("c", "web", false, false),
            node("d", "api", true, false),
        ];
        let view = View::of(&serde_json::json!({ "looked_seconds": 0.5, "nodes": rows }), "web");
        assert_eq!(view.nodes.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(view.looked, 0.5);
        assert_eq!(
            view.left_out,
            [
                "b: it has been away for 34 s; it loads the confirmed release when it comes back",
                "c: it was started without deploy=on"
            ]
        );
    }

    #[test]
    fn when_it_is_worse() {
        let counts = |requests, errors| Counts { requests, errors };
        assert!(is_worse(counts(1000, 0), counts(100, 3), 0.01));
        assert!(!is_worse(counts(1000, 0), counts(10, 2), 0.01), "few are no sign");
        assert!(!is_worse(counts(1000, 30), counts(1000, 39), 0.01), "it was so before");
        assert!(is_worse(counts(1000, 30), counts(1000, 41), 0.01));
        assert!(!is_worse(counts(0, 0), counts(0, 0), 0.0));
    }

    #[test]
    fn what_may_be_asked() {
        let read = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let words = super::super::TOOL.read(AdmWords::default(), &args).unwrap().unwrap();
            Order::read(&words).map(|order| (order.stages, order.watch.as_secs(), order.most_errors))
        };
        let usual = vec!["1".to_owned(), "10%".to_owned(), "all".to_owned()];
        assert_eq!(read("deploy a.vcl"), Ok((usual, 30, 0.01)));
        let asked = read("deploy --param default_ttl=5 --stages all --watch 1m --max-5xx 0.5%");
        assert_eq!(asked, Ok((vec!["all".to_owned()], 60, 0.005)));
        for (line, wanted) in [
            ("deploy", "nothing to roll out"),
            ("deploy a b", "not also b"),
            ("deploy a --stages 1,x", "not a stage"),
            ("deploy a --stages 1,2", "last stage"),
            ("deploy a --watch x", "duration"),
            ("deploy a --max-5xx 1", "percentage"),
            ("deploy --param x", "NAME=VALUE"),
        ] {
            assert!(read(line).unwrap_err().contains(wanted), "{line}");
        }
    }
}
