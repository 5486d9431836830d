// SPDX-License-Identifier: BSD-2-Clause
//! The thread that reports how this node fares, and knows by the others' reports which nodes there are. Between two reports it reads and
//! writes documents for who asks. It has a connection of its own, and nothing of the log waits for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Shared;
use crate::{Board, Connect, Fault, Member, Report};

/// Between two reports.
const PACE: Duration = Duration::from_secs(1);
/// For a connection.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts to connect, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Questions for documents that wait.
const MANY: usize = 16;
/// So often another's report is found in the place of ours until that is told.
const TWINS: u32 = 4;

/// Who says how this node fares. Called by the node's threads.
pub trait Reporter: Send + Sync {
    /// How it fares now; `None`: another worker reports in its place. What the node knows itself (position, group, ...) is filled in
    /// behind it.
    fn report(&self) -> Option<Report>;

    /// So many nodes have reported, this one among them, of which so many are away.
    fn show(&self, nodes: usize, away: usize);

    /// Tells the operator.
    fn tell(&self, text: &str);
}

/// All nodes as they are known here.
#[derive(Clone, Debug)]
pub struct Members {
    /// By name.
    pub members: Vec<Member>,
    /// Why they aren't known any more, and since when; `None`: they are.
    pub away: Option<(Instant, String)>,
}

/// What is asked of the board.
enum Question {
    Read(String),
    Replace { name: String, was: Option<Vec<u8>>, bytes: Vec<u8> },
}

type Answer = Result<Option<Vec<u8>>, String>;

/// What the thread shares with others.
pub(super) struct Desk {
    known: Mutex<Known>,
    questions: Mutex<VecDeque<(Question, SyncSender<Answer>)>>,
    /// There is something to report that others wait for.
    is_hurried: AtomicBool,
    /// Something was asked, or the node ends.
    bell: Condvar,
}

struct Known {
    members: Vec<Member>,
    /// How often another one's report was found in the place of ours.
    twins: u32,
    /// When they were.
    at: Instant,
    away: Option<(Instant, String)>,
}

impl Desk {
    pub fn new() -> Desk {
        let now = Instant::now();
        let away = Some((now, "no connection yet".to_owned()));
        Desk {
            known: Mutex::new(Known { members: Vec::new(), twins: 0, at: now, away }),
            questions: Mutex::default(),
            is_hurried: AtomicBool::new(false),
            bell: Condvar::new(),
        }
    }

    /// All nodes. While the server is away their reports grow old.
    pub fn members(&self) -> Members {
        let known = self.known.lock();
        let since = known.at.elapsed();
        let grown = known.members.iter().map(|member| Member { age: member.age + since, ..member.clone() });
        Members { members: grown.collect(), away: known.away.clone() }
    }

    /// Has the thread look up at once.
    pub fn ring(&self) {
        self.bell.notify_all();
    }

    /// Has it report at once.
    pub fn hurry(&self) {
        self.is_hurried.store(true, Relaxed);
        self.ring();
    }

    /// A document, within that time.
    pub fn document(&self, name: &str, patience: Duration) -> Answer {
        self.ask(Question::Read(name.to_owned()), patience)
    }

    /// Whether it replaced a document.
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
                return Err("too much is asked of the fleet's board".to_owned());
            }
            questions.push_back((question, to));
        }
        self.ring();
        answer.recv_timeout(patience).map_err(|_| match &self.known.lock().away {
            Some((_, why)) => format!("the fleet's board can't be reached: {why}"),
            None => "the fleet's board doesn't answer in time".to_owned(),
        })?
    }
}

/// Reports until the node ends.
pub(super) fn run(shared: &Shared, connect: &dyn Connect, reporter: &dyn Reporter) {
    let (desk, mut pause, mut turn) = (&shared.desk, FIRST_PAUSE, 0);
    while !shared.is_over() {
        let server = &shared.settings.servers[turn % shared.settings.servers.len()];
        let fault = match connect.board(server, Instant::now() + CONNECT_TIME) {
            Ok(mut board) => {
                let begun = Instant::now();
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
            let since = known.away.as_ref().map_or_else(Instant::now, |(since, _)| *since);
            known.away = Some((since, format!("{server}: {fault}")));
        }
        show(desk, reporter);
        // Who asked has given up, or will.
        let until = Instant::now() + pause;
        let mut questions = desk.questions.lock();
        questions.clear();
        while !shared.is_over() && !desk.bell.wait_until(&mut questions, until).timed_out() {}
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reports over one connection until it fails.
fn serve(shared: &Shared, board: &mut dyn Board, reporter: &dyn Reporter) -> Fault {
    let mut next = Instant::now();
    loop {
        if shared.is_over() {
            return Fault::new("this node ends");
        }
        if shared.desk.is_hurried.swap(false, Relaxed) || next <= Instant::now() {
            if let Err(fault) = report(shared, board, reporter) {
                return fault;
            }
            next = Instant::now() + PACE;
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

fn report(shared: &Shared, board: &mut dyn Board, reporter: &dyn Reporter) -> Result<(), Fault> {
    let (settings, instance) = (&shared.settings, format!("{:016x}", shared.draw));
    if let Some(report) = reporter.report() {
        look_for_twin(shared, board, reporter, &instance)?;
        let mut own = Report { instance, ..report };
        {
            let status = shared.status.lock();
            (own.epoch, own.applied, own.head) = (status.epoch.clone(), status.applied, status.head);
            own.lag_seconds = status.behind_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
            own.serves = status.gate.word().to_owned();
        }
        (own.address, own.group) = (settings.address.clone(), settings.group.clone());
        own.takes_deployments = settings.deploys;
        own.deployed = shared.deployed.lock().clone();
        board.report(&settings.node, own.json().to_string().as_bytes())?;
    }
    let members = board.reports()?.iter().filter_map(Member::of).collect();
    let away = {
        let mut known = shared.desk.known.lock();
        let away = known.away.take().filter(|_| !known.members.is_empty());
        (known.members, known.at) = (members, Instant::now());
        away
    };
    if let Some((since, _)) = away {
        reporter.tell(&format!("the fleet's nodes are known again, after {:.0} s", since.elapsed().as_secs_f64()));
    }
    show(&shared.desk, reporter);
    Ok(())
}

/// Another server of our name writes its reports in the place of ours: told where the board shows it between two of ours, which that of NATS
/// mostly doesn't. The worker before this one did so, too, but doesn't any more.
fn look_for_twin(shared: &Shared, board: &mut dyn Board, reporter: &dyn Reporter, own: &str) -> Result<(), Fault> {
    let name = &shared.settings.node;
    let reports = board.reports()?;
    let is_twin = |member: &Member| member.report.instance != own && !member.is_away();
    let is_there = reports.iter().filter(|posted| posted.node == *name).filter_map(Member::of).any(|m| is_twin(&m));
    let twins = {
        let mut known = shared.desk.known.lock();
        known.twins += u32::from(is_there);
        known.twins
    };
    if is_there && twins == TWINS {
        reporter.tell(&format!("another server of the fleet has the name {name}, too: give each its own (node=NAME)"));
    }
    Ok(())
}

fn show(desk: &Desk, reporter: &dyn Reporter) {
    let Members { members, .. } = desk.members();
    reporter.show(members.len(), members.iter().filter(|member| member.is_away()).count());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::thread::sleep;

    use super::super::Node;
    use super::*;
    use crate::{Link, Posted, Server, Settings};

    /// A board in memory, which can be away.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Kept>>);

    #[derive(Default)]
    struct Kept {
        is_away: bool,
        reports: BTreeMap<String, Vec<u8>>,
        documents: BTreeMap<String, Vec<u8>>,
    }

    impl Connect for Memory {
        fn connect(&self, _: &Server, _: Instant) -> Result<Box<dyn Link>, Fault> {
            Err(Fault::new("no log"))
        }

        fn board(&self, _: &Server, _: Instant) -> Result<Box<dyn Board>, Fault> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Memory {
        fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> Result<T, Fault> {
            let mut kept = self.0.lock();
            if kept.is_away { Err(Fault::new("away")) } else { Ok(what(&mut kept)) }
        }
    }

    impl Board for Memory {
        fn report(&mut self, node: &str, bytes: &[u8]) -> Result<(), Fault> {
            self.with(|kept| _ = kept.reports.insert(node.to_owned(), bytes.to_vec()))
        }

        fn reports(&mut self) -> Result<Vec<Posted>, Fault> {
            let posted = |(node, bytes): (&String, &Vec<u8>)| Posted {
                node: node.clone(),
                bytes: bytes.clone(),
                age: Duration::ZERO,
            };
            self.with(|kept| kept.reports.iter().map(posted).collect())
        }

        fn document(&mut self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
            self.with(|kept| kept.documents.get(name).cloned())
        }

        fn replace(&mut self, name: &str, was: Option<&[u8]>, bytes: &[u8]) -> Result<bool, Fault> {
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
        fn report(&self) -> Option<Report> {
            Some(Report { vcl: "boot".to_owned(), ..Report::default() })
        }

        fn show(&self, _: usize, _: usize) {}

        fn tell(&self, text: &str) {
            self.0.lock().push(text.to_owned());
        }
    }

    fn node(board: &Memory, name: &str) -> (Node, Arc<Teller>) {
        let settings = Settings::parse(&format!("nats://a,node={name},group=g,patience=20s")).unwrap();
        let (node, teller) = (Node::new(settings), Arc::new(Teller::default()));
        node.start_reporting(Arc::new(board.clone()), teller.clone()).unwrap();
        (node, teller)
    }

    #[track_caller]
    fn until(what: impl Fn() -> bool) {
        let begun = Instant::now();
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
        assert!(teller.0.lock()[0].contains("known again"));
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
    fn what_an_agent_says_is_reported() {
        let board = Memory::default();
        let (a, _) = node(&board, "a");
        a.set_deployed(crate::Deployed { state: "ready".to_owned(), ..Default::default() });
        until(|| a.members().members.iter().any(|member| member.report.deployed.is_some()));
        a.end();
    }
}
