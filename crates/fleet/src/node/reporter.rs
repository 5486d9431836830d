// SPDX-License-Identifier: BSD-2-Clause
//! The thread that reports how this node fares, and knows by the others' reports which nodes there are. Between two reports it reads and
//! writes documents for who asks. It has a connection of its own, and nothing of the log waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use base::clock;
use parking_lot::{Condvar, Mutex};

use super::Shared;
use crate::board::LEASE;
use crate::{Board, Connect, KnownNode, LinkFault, NodeReport};

const PACE: Duration = Duration::from_secs(1);
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts to connect, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Questions for documents that wait.
const MANY: usize = 16;
/// A node that is behind the log for longer has fallen behind.
const BEHIND: Duration = Duration::from_secs(2);
/// Most changes of nodes between two looks that are logged.
const SOME: usize = 8;
/// Number of reports of another in the place of ours before that is logged.
const TWINS: u32 = 4;

/// Source of a node's report. Called by the node's threads.
pub trait Reporter: Send + Sync {
    /// The present report; `None`: another worker reports in its place. Facts that the node has itself (position,
    /// group, ...) are filled in behind it.
    fn report(&self) -> Option<NodeReport>;

    /// Shows the number of nodes that have reported, this one among them, and how many of these are away.
    fn show(&self, nodes: usize, away: usize);

    fn tell(&self, text: &str);
}

#[derive(Clone, Debug)]
pub struct KnownNodes {
    pub members: Vec<KnownNode>,
    /// Time since they were looked at.
    pub looked: Duration,
    /// Time since which they aren't known any more, and why; `None`: they are.
    pub away: Option<(Instant, String)>,
}

enum Question {
    Read(String),
    Replace { name: String, was: Option<Vec<u8>>, bytes: Vec<u8> },
}

type Answer = Result<Option<Vec<u8>>, String>;

pub(super) struct Desk {
    known: Mutex<Known>,
    questions: Mutex<VecDeque<(Question, SyncSender<Answer>)>>,
    is_hurried: AtomicBool,
    /// Something was asked, or the node ends.
    bell: Condvar,
}

struct Known {
    members: Vec<KnownNode>,
    standings: Standings,
    /// Number of times that another's report was found in the place of ours.
    twins: u32,
    at: Instant,
    away: Option<(Instant, String)>,
}

impl Desk {
    pub fn new() -> Desk {
        let now = clock::now();
        let away = Some((now, "no connection yet".to_owned()));
        Desk {
            known: Mutex::new(Known { members: Vec::new(), standings: Standings::default(), twins: 0, at: now, away }),
            questions: Mutex::default(),
            is_hurried: AtomicBool::new(false),
            bell: Condvar::new(),
        }
    }

    /// All nodes. While the server is away their reports grow old.
    pub fn members(&self) -> KnownNodes {
        let known = self.known.lock();
        let since = known.at.elapsed();
        let grown = known.members.iter().map(|member| KnownNode { age: member.age + since, ..member.clone() });
        KnownNodes { members: grown.collect(), looked: since, away: known.away.clone() }
    }

    pub fn ring(&self) {
        self.bell.notify_all();
    }

    pub fn hurry(&self) {
        self.is_hurried.store(true, Relaxed);
        self.ring();
    }

    pub fn document(&self, name: &str, patience: Duration) -> Answer {
        self.ask(Question::Read(name.to_owned()), patience)
    }

    pub fn replace(&self, name: &str, was: Option<&[u8]>, bytes: &[u8], patience: Duration) -> Result<bool, String> {
        let (name, was) = (name.to_owned(), was.map(<[u8]>::to_vec));
        let answer = self.ask(Question::Replace { name, was, bytes: bytes.to_vec() }, patience)?;
        Ok(answer.is_some())
    }

    fn ask(&self, question: Question, patience: Duration) -> Answer {
        let (to, answer): (_, Receiver<Answer>) = sync_channel(1);
        {
            let mut questions = self.questions.lock();
            if questions.len() >= MANY {
                return Err("too many requests for the fleet's board".to_owned());
            }
            questions.push_back((question, to));
        }
        self.ring();
        answer.recv_timeout(patience).map_err(|_| match &self.known.lock().away {
            Some((_, why)) => format!("the fleet's board can't be reached: {why}"),
            None => "the fleet's board doesn't respond in time".to_owned(),
        })?
    }
}

pub(super) fn run(shared: &Shared, connect: &dyn Connect, reporter: &dyn Reporter) {
    let (desk, mut pause, mut turn) = (&shared.desk, FIRST_PAUSE, 0);
    while !shared.is_over() {
        let server = &shared.settings.servers[turn % shared.settings.servers.len()];
        let fault = match connect.board(server, clock::now() + CONNECT_TIME) {
            Ok(mut board) => {
                let begun = clock::now();
                let fault = serve(shared, &mut *board, reporter);
                if begun.elapsed() > PACE {
                    pause = FIRST_PAUSE;
                }
                fault
            }
            Err(fault) => fault,
        };
        if shared.is_over() {
            break;
        }
        turn += 1;
        {
            let mut known = desk.known.lock();
            let since = known.away.as_ref().map_or_else(clock::now, |(since, _)| *since);
            known.away = Some((since, format!("{server}: {fault}")));
            known.standings.since = None;
        }
        show(desk, reporter);
        // Who asked has given up, or will.
        let until = clock::now() + pause;
        let mut questions = desk.questions.lock();
        questions.clear();
        while !shared.is_over() && !desk.bell.wait_until(&mut questions, until).timed_out() {}
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn serve(shared: &Shared, board: &mut dyn Board, reporter: &dyn Reporter) -> LinkFault {
    let mut next = clock::now();
    loop {
        if shared.is_over() {
            return LinkFault::new("this node ends");
        }
        if shared.desk.is_hurried.swap(false, Relaxed) || next <= clock::now() {
            if let Err(fault) = report(shared, board, reporter) {
                return fault;
            }
            next = clock::now() + PACE;
        }
        let question = {
            let mut questions = shared.desk.questions.lock();
            if questions.is_empty() {
                shared.desk.bell.wait_until(&mut questions, next);
            }
            questions.pop_front()
        };
        let Some((question, to)) = question else { continue };
        let done = match &question {
            Question::Read(name) => board.document(name),
            Question::Replace { name, was, bytes } => {
                board.replace(name, was.as_deref(), bytes).map(|done| done.then(Vec::new))
            }
        };
        let fault = done.as_ref().err().cloned();
        // Who asked may have given up.
        let _ = to.try_send(done.map_err(|fault| fault.0));
        if let Some(fault) = fault {
            return fault;
        }
    }
}

fn report(shared: &Shared, board: &mut dyn Board, reporter: &dyn Reporter) -> Result<(), LinkFault> {
    let (settings, instance) = (&shared.settings, shared.word("instance", 0));
    if let Some(report) = reporter.report() {
        let mut own = NodeReport { instance: instance.clone(), ..report };
        {
            let status = shared.status.lock();
            (own.epoch, own.applied, own.head) = (status.epoch.clone(), status.applied, status.head);
            own.lag_seconds = status.behind_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
            own.serves = status.gate.word().to_owned();
        }
        (own.address, own.group) = (settings.address.clone(), settings.group.clone());
        own.takes_deployments = settings.deploys;
        own.deployed = shared.deployed.lock().clone();
        let former = board.report(&settings.node, &own.encode())?;
        look_for_twin(shared, reporter, former.as_deref(), &instance);
    }
    let members: Vec<KnownNode> = board.reports()?.iter().filter_map(KnownNode::of).collect();
    let (away, events) = {
        let mut known = shared.desk.known.lock();
        let away = known.away.take().filter(|_| !known.members.is_empty());
        let events = known.standings.look(&members, &settings.node, clock::now());
        (known.members, known.at) = (members, clock::now());
        (away, events)
    };
    if let Some((since, _)) = away {
        reporter.tell(&format!("the fleet's nodes are known again after {:.0} s", since.elapsed().as_secs_f64()));
    }
    events.iter().take(SOME).for_each(|event| reporter.tell(event));
    if events.len() > SOME {
        reporter.tell(&format!("{} more messages of this kind", events.len() - SOME));
    }
    show(&shared.desk, reporter);
    Ok(())
}

/// State of a node towards the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    There,
    Behind,
    Away,
}

impl Standing {
    fn of(member: &KnownNode) -> Standing {
        match member.report.lag_seconds > BEHIND.as_secs_f64() {
            _ if member.is_away() => Standing::Away,
            true => Standing::Behind,
            false => Standing::There,
        }
    }
}

/// State of the other nodes at the last look, by which changes are found.
#[derive(Default)]
struct Standings {
    of: BTreeMap<String, Standing>,
    /// Time since which they are known without a break. A server that has just come back may have no report yet of
    /// nodes that are there.
    since: Option<Instant>,
    is_begun: bool,
}

impl Standings {
    /// Changes of nodes since the last look, in words.
    fn look(&mut self, members: &[KnownNode], own: &str, now: Instant) -> Vec<String> {
        let is_fresh = now.duration_since(*self.since.get_or_insert(now)) < LEASE;
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let others = members.iter().filter(|member| member.name != own);
        let mut events = Vec::new();
        let mut next: BTreeMap<String, Standing> = if is_fresh { self.of.clone() } else { BTreeMap::new() };
        for member in others {
            let (name, was, is) = (&member.name, self.of.get(&member.name), Standing::of(member));
            if is_fresh && is == Standing::Away && was.is_some() {
                continue;
            }
            next.insert(name.clone(), is);
            let age = member.age.as_secs();
            match (was, is) {
                (None, Standing::Away) => {}
                (None, Standing::There | Standing::Behind) => events.push(format!("node {name} has come")),
                (Some(Standing::Away), Standing::There | Standing::Behind) => {
                    events.push(format!("node {name} is back"))
                }
                (Some(Standing::There | Standing::Behind), Standing::Away) => {
                    events.push(format!("node {name} is away: it hasn't reported for {age} s"));
                }
                (Some(Standing::There), Standing::Behind) => {
                    let left = member.report.head.saturating_sub(member.report.applied);
                    events.push(format!("node {name} has fallen behind the log by {left} entries"));
                }
                (Some(Standing::Behind), Standing::There) => {
                    events.push(format!("node {name} has caught up with the log"))
                }
                (Some(Standing::There), Standing::There)
                | (Some(Standing::Behind), Standing::Behind)
                | (Some(Standing::Away), Standing::Away) => {}
            }
        }
        let forgotten = self.of.keys().filter(|name| !next.contains_key(*name));
        events.extend(forgotten.map(|name| format!("node {name} is forgotten")));
        self.of = next;
        if is_first { Vec::new() } else { events }
    }
}

/// Another server of our name writes its reports in the place of ours: `former` is what stood there. The worker before this one did so, too,
/// but doesn't any more.
fn look_for_twin(shared: &Shared, reporter: &dyn Reporter, former: Option<&[u8]>, own: &str) {
    let name = &shared.settings.node;
    let is_there = former.and_then(NodeReport::read).is_some_and(|report| report.instance != own);
    let twins = {
        let mut known = shared.desk.known.lock();
        known.twins += u32::from(is_there);
        known.twins
    };
    if is_there && twins == TWINS {
        reporter.tell(&format!(
            "another server of the fleet also has the name {name}: give each a unique name (node=NAME)"
        ));
    }
}

fn show(desk: &Desk, reporter: &dyn Reporter) {
    let KnownNodes { members, .. } = desk.members();
    reporter.show(members.len(), members.iter().filter(|member| member.is_away()).count());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::thread::sleep;

    use super::super::Node;
    use super::*;
    use crate::{FleetLink, FleetSettings, LogServer, Posted};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Kept>>);

    #[derive(Default)]
    struct Kept {
        is_away: bool,
        looks: u32,
        reports: BTreeMap<String, Vec<u8>>,
        documents: BTreeMap<String, Vec<u8>>,
    }

    impl Connect for Memory {
        fn connect(&self, _: &LogServer, _: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
            Err(LinkFault::new("no log"))
        }

        fn board(&self, _: &LogServer, _: Instant) -> Result<Box<dyn Board>, LinkFault> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Memory {
        fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> Result<T, LinkFault> {
            let mut kept = self.0.lock();
            if kept.is_away { Err(LinkFault::new("away")) } else { Ok(what(&mut kept)) }
        }
    }

    impl Board for Memory {
        fn report(&mut self, node: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, LinkFault> {
            self.with(|kept| kept.reports.insert(node.to_owned(), bytes.to_vec()))
        }

        fn reports(&mut self) -> Result<Vec<Posted>, LinkFault> {
            self.with(|kept| kept.looks += 1)?;
            let posted = |(node, bytes): (&String, &Vec<u8>)| Posted {
                node: node.clone(),
                bytes: bytes.clone(),
                age: Duration::ZERO,
            };
            self.with(|kept| kept.reports.iter().map(posted).collect())
        }

        fn document(&mut self, name: &str) -> Result<Option<Vec<u8>>, LinkFault> {
            self.with(|kept| kept.documents.get(name).cloned())
        }

        fn replace(&mut self, name: &str, was: Option<&[u8]>, bytes: &[u8]) -> Result<bool, LinkFault> {
            self.with(|kept| {
                let is_it = kept.documents.get(name).map(Vec::as_slice) == was;
                if is_it {
                    kept.documents.insert(name.to_owned(), bytes.to_vec());
                }
                is_it
            })
        }
    }

    #[derive(Default)]
    struct Teller(Mutex<Vec<String>>);

    impl Reporter for Teller {
        fn report(&self) -> Option<NodeReport> {
            Some(NodeReport { vcl: "boot".to_owned(), ..NodeReport::default() })
        }

        fn show(&self, _: usize, _: usize) {}

        fn tell(&self, text: &str) {
            self.0.lock().push(text.to_owned());
        }
    }

    fn node(board: &Memory, name: &str) -> (Node, Arc<Teller>) {
        let settings = FleetSettings::parse(&format!("nats://a,node={name},group=g,patience=20s")).unwrap();
        let (node, teller) = (Node::new(settings), Arc::new(Teller::default()));
        node.start_reporting(Arc::new(board.clone()), teller.clone()).unwrap();
        (node, teller)
    }

    #[track_caller]
    fn until(what: impl Fn() -> bool) {
        let begun = clock::now();
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn nodes_know_each_other_and_what_they_knew() {
        let board = Memory::default();
        let (a, _) = node(&board, "a");
        let (b, teller) = node(&board, "b");
        let names = |node: &Node| node.members().members.iter().map(|member| member.name.clone()).collect::<Vec<_>>();
        until(|| names(&a) == ["a", "b"] && names(&b) == ["a", "b"]);
        let known = &a.members().members[1];
        assert_eq!((&known.report.group[..], &known.report.vcl[..], known.is_away()), ("g", "boot", false));
        board.0.lock().is_away = true;
        until(|| b.members().away.is_some());
        assert_eq!(names(&b), ["a", "b"]);
        assert!(b.document("x").is_err());
        board.0.lock().is_away = false;
        until(|| b.members().away.is_none());
        assert!(teller.0.lock().iter().any(|text| text.contains("known again")));
        a.end();
        b.end();
    }

    #[test]
    fn a_document_is_replaced_by_who_has_seen_it() {
        let board = Memory::default();
        let (a, _) = node(&board, "a");
        assert_eq!(a.document("x"), Ok(None));
        assert_eq!(a.replace("x", None, b"1"), Ok(true));
        assert_eq!(a.replace("x", None, b"2"), Ok(false));
        assert_eq!(a.replace("x", Some(b"1"), b"3"), Ok(true));
        assert_eq!(a.document("x"), Ok(Some(b"3".to_vec())));
        a.end();
    }

    #[test]
    fn two_nodes_of_one_name_are_told() {
        let board = Memory::default();
        let ((a, first), (b, second)) = (node(&board, "a"), node(&board, "a"));
        let is_told = |teller: &Teller| teller.0.lock().iter().any(|text| text.contains("also has the name a"));
        for _ in 0..2 * TWINS {
            // They report by turns.
            for (node, state) in [(&a, "x"), (&b, "y"), (&a, "z"), (&b, "u")] {
                let reported = board.0.lock().looks;
                node.set_deployed(crate::Deployed { state: state.to_owned(), ..Default::default() });
                until(|| board.0.lock().looks > reported);
            }
        }
        until(|| is_told(&first) && is_told(&second));
        a.end();
        b.end();
    }

    fn member(name: &str, age: u64, lag_seconds: f64) -> KnownNode {
        let report = NodeReport { lag_seconds, head: 9, applied: 2, ..NodeReport::default() };
        KnownNode { name: name.to_owned(), age: Duration::from_secs(age), report }
    }

    #[test]
    fn what_befalls_nodes_is_told_once() {
        let (mut standings, begun) = (Standings::default(), clock::now());
        let mut look = |seconds: u64, members: &[KnownNode]| {
            standings.look(members, "own", begun + Duration::from_secs(seconds)).join("; ")
        };
        let (own, a, b) = (member("own", 0, 0.0), member("a", 0, 0.0), member("b", 0, 0.0));
        let (late, lost) = (member("a", 0, 3.0), member("b", 6, 0.0));
        assert_eq!(look(0, &[own.clone(), a.clone()]), "");
        assert_eq!(look(1, &[own.clone(), a.clone(), b.clone()]), "node b has come");
        assert_eq!(look(7, &[late.clone(), b.clone()]), "node a has fallen behind the log by 7 entries");
        assert_eq!(look(8, &[late, lost.clone()]), "node b is away: it hasn't reported for 6 s");
        assert_eq!(look(9, &[a.clone(), lost]), "node a has caught up with the log");
        assert_eq!(look(10, &[a.clone(), b.clone()]), "node b is back");
        assert_eq!(look(11, std::slice::from_ref(&a)), "node b is forgotten");
    }

    #[test]
    fn a_server_that_came_back_without_reports_makes_nobody_go() {
        let (mut standings, begun) = (Standings::default(), clock::now());
        let (a, b) = (member("a", 0, 0.0), member("b", 0, 0.0));
        standings.look(&[a.clone(), b.clone()], "own", begun);
        standings.look(&[a.clone(), b.clone()], "own", begun + 2 * LEASE);
        standings.since = None;
        let back = begun + 4 * LEASE;
        assert_eq!(standings.look(&[member("a", 60, 0.0)], "own", back), [""; 0]);
        assert_eq!(standings.look(&[a, b], "own", back + 2 * LEASE), [""; 0]);
    }

    #[test]
    fn what_an_agent_says_is_reported() {
        let board = Memory::default();
        let (a, _) = node(&board, "a");
        a.set_deployed(crate::Deployed { state: "ready".to_owned(), ..Default::default() });
        until(|| a.members().members.iter().any(|member| member.report.deployed.is_some()));
        a.end();
    }
}
