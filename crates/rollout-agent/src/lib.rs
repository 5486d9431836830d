// SPDX-License-Identifier: BSD-2-Clause
//! The agent: a process beside the manager that does what is rolled out to its group. The manager starts it and ends it; it has no file and
//! no listener, reads the group's document from the fleet's board, and has the manager load and use what that says, by a CLI of its own.
//!
//! ```text
//! own, confirmed ── a trial names us ──▶ ready ── and wants us to use it ──▶ active ── it is confirmed ──▶ confirmed
//!        ▲                                 │ failed                             │
//!        └───────── the trial ends otherwise, or nobody tends it: back ◀────────┘
//! ```
//!
//! The log's server can hang or be away: then nothing is rolled out, and a trial that this node takes part in ends by itself. So it does when this
//! process dies in it: what was in use before is kept by the manager, and the next agent goes on from there ([`Inside::encode`]). Traffic never waits
//! for any of it, but for the first worker of all, which the manager holds back for a bounded time.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use admin::{AdminConnection, is_good};
use cli::CliDecoder;
use fleet::rollout::{OLD_TIME, PATIENCE, Release, Rollout, RolloutTrial, bundle_of, digest_of, document_of};
use fleet::{Board, Connect, Deployed, FleetSettings, NodeRole};
use serde_json::{Value, json};
use toolkit::print;

/// Between two looks at the document.
const PACE: Duration = Duration::from_millis(300);
const CONNECT_TIME: Duration = Duration::from_secs(2);
const CONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Time until what is confirmed and failed here is tried again.
const AGAIN: Duration = Duration::from_secs(30);
/// Time that the manager may take over a command: the checker has a minute.
const CLI_TIME: Duration = Duration::from_secs(120);
/// Probes of a VCL that was loaded have so long to find its backends well.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// Trials that are remembered as over.
const OVER: usize = 64;

/// Runs it, started by the manager: the exit status.
pub fn run(args: &[String]) -> i32 {
    match begin(args) {
        Ok(mut agent) => {
            agent.serve();
            0
        }
        Err(reason) => {
            say(&reason);
            1
        }
    }
}

fn say(text: &str) {
    print::foreign(format_args!("rollout: {}\n", text.trim_end().replace('\n', " | ")));
}

fn begin(args: &[String]) -> Result<Agent, String> {
    let value =
        |flag: &str| args.iter().find_map(|arg| arg.strip_prefix(flag)).ok_or("it is started by the manager only");
    let bytes = fs::read(value("--settings=")?).map_err(|error| format!("settings: {error}"))?;
    let mut decoder = CliDecoder::trusted();
    decoder.feed(&bytes);
    let request = decoder.next_request().and_then(Result::ok).ok_or("no settings")?;
    let text =
        |at: usize| request.words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
    let mut settings = FleetSettings::parse(&text(1))?;
    if settings.node.is_empty() {
        settings.node = text(2);
    }
    for pair in request.words.get(3..).unwrap_or_default().chunks_exact(2) {
        let role = NodeRole::ALL.into_iter().find(|(name, _)| name.as_bytes() == pair[0]).map(|(_, role)| role);
        settings.provide(role.ok_or("a file of no role")?, &pair[1])?;
    }
    let number = value("--cli-channel=")?.parse().map_err(|_| "no channel")?;
    let socket: OwnedFd = sys::fd::inherit(number).map_err(|error| format!("the CLI's channel: {error}"))?;
    let connect = fleet::connector(&settings)?;
    Ok(Agent {
        document: document_of(&settings.group),
        cli: AdminConnection::given(socket, CLI_TIME)?,
        settings,
        connect,
        board: None,
        turn: 0,
        away: None,
        look: None,
        over: VecDeque::new(),
        inside: None,
        in_place: None,
        failed: None,
        said: Deployed { state: "own".to_owned(), since: now(), ..Deployed::default() },
        begun: Instant::now(),
        is_started: false,
    })
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The reason why a step failed.
enum Wrong {
    Manager,
    /// The log's server is away.
    Server(String),
}

/// The last look at the document.
struct Look {
    serial: u64,
    /// The time at which its number was seen to go up; or when it was seen first.
    at: Instant,
    has_moved: bool,
}

impl Look {
    /// True if a document of that number is one that was replaced, and not yet where it was read. A log's server that
    /// was put back to what it was before shows one for longer.
    fn is_ahead_of(&self, serial: u64) -> bool {
        serial < self.serial && self.at.elapsed() < OLD_TIME
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Inside {
    id: String,
    release: Release,
    is_active: bool,
    /// The VCL that was in use before.
    vcl: String,
    params: Vec<(String, String)>,
}

impl Inside {
    /// The bytes that the manager keeps for the next agent: the trial as a document's, and what was in use before.
    fn encode(&self) -> Vec<u8> {
        let activate = self.is_active.then(String::new);
        let trial = RolloutTrial {
            id: self.id.clone(),
            release: self.release.clone(),
            activate: activate.into_iter().collect::<BTreeSet<_>>(),
            ..RolloutTrial::default()
        };
        let document = Rollout { trial: Some(trial), ..Rollout::default() }.encode();
        let document = String::from_utf8_lossy(&document);
        json!({ "document": document, "vcl": self.vcl, "params": self.params }).to_string().into_bytes()
    }

    /// Reads the bytes that [`Inside::encode`] has written; `None`: nothing is kept.
    fn read(bytes: &[u8]) -> Option<Inside> {
        let said: Value = serde_json::from_slice(bytes).ok()?;
        let trial = Rollout::read(Some(said["document"].as_str()?.as_bytes())).ok()?.trial?;
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let params = said["params"].as_array()?.iter().map(|pair| Some((word(&pair[0])?, word(&pair[1])?)));
        Some(Inside {
            id: trial.id,
            release: trial.release,
            is_active: !trial.activate.is_empty(),
            vcl: word(&said["vcl"])?,
            params: params.collect::<Option<_>>()?,
        })
    }
}

struct Agent {
    settings: FleetSettings,
    document: String,
    cli: AdminConnection,
    connect: Box<dyn Connect>,
    board: Option<Box<dyn Board>>,
    turn: usize,
    /// The time since which the log's server is away.
    away: Option<Instant>,
    look: Option<Look>,
    over: VecDeque<String>,
    inside: Option<Inside>,
    /// The version of what was confirmed and is in place here.
    in_place: Option<String>,
    /// The version that can't be put in place, and when that was tried.
    failed: Option<(String, Instant)>,
    said: Deployed,
    begun: Instant,
    is_started: bool,
}

impl Agent {
    fn serve(&mut self) {
        if self.go_on().is_err() {
            return;
        }
        loop {
            match self.step() {
                Ok(()) => self.away = None,
                Err(Wrong::Manager) => return,
                Err(Wrong::Server(why)) => {
                    self.board = None;
                    self.turn += 1;
                    if self.away.is_none() {
                        self.away = Some(Instant::now());
                        say(&format!("the fleet's board can't be reached: {why}"));
                    }
                    let last = self.look.as_ref().map_or(self.begun, |look| look.at);
                    let is_late = last.elapsed() >= PATIENCE;
                    if is_late && self.leave("the log's server is away").is_err() {
                        return;
                    }
                    std::thread::sleep(CONNECT_PAUSE);
                }
            }
            if self.tell().is_err() {
                return;
            }
            std::thread::sleep(PACE);
        }
    }

    fn go_on(&mut self) -> Result<(), Wrong> {
        let kept = self.ask(&[b"fleet.kept"])?.unwrap_or_default();
        if let Some(inside) = Inside::read(kept.as_bytes()) {
            let state = if inside.is_active { "active" } else { "ready" };
            self.set(state, &inside.release.version(), &inside.id, "");
            self.inside = Some(inside);
        }
        Ok(())
    }

    /// Has the manager keep the trial that we are in, before anything is done of which the next agent has to know.
    fn keep(&mut self) -> Result<(), Wrong> {
        let state = self.inside.as_ref().map(Inside::encode).unwrap_or_default();
        self.ask(&[b"fleet.kept", &state]).map(drop)
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<Result<String, String>, Wrong> {
        let reply = self.cli.ask(&cli::client::encode(words)).map_err(|_| Wrong::Manager)?;
        let text = reply.text().into_owned();
        Ok(if is_good(reply.status) { Ok(text) } else { Err(text) })
    }

    fn ask_words(&mut self, words: &[&str]) -> Result<Result<String, String>, Wrong> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask(&words)
    }

    /// The members of a reply in JSON, behind what every one begins with.
    fn ask_json(&mut self, words: &[&str]) -> Result<Vec<Value>, Wrong> {
        let reply = self.ask_words(words)?.unwrap_or_default();
        let members = serde_json::from_str(&reply).ok();
        Ok(match members {
            Some(Value::Array(members)) => members.into_iter().skip(3).collect(),
            _ => Vec::new(),
        })
    }

    /// Our word on ourselves goes into the worker's report; a worker that begins anew is told again.
    fn tell(&mut self) -> Result<(), Wrong> {
        let text = self.said.json().to_string();
        // There may be no worker.
        self.ask_words(&["fleet.deployed", &text]).map(drop)
    }

    fn set(&mut self, state: &str, version: &str, trial: &str, why: &str) {
        let is_same = (&self.said.state[..], &self.said.version[..], &self.said.trial[..]) == (state, version, trial);
        if is_same && self.said.why == why {
            return;
        }
        if !is_same {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            say(&format!("{state} {version}{why}"));
        }
        self.said = Deployed {
            state: state.to_owned(),
            version: version.to_owned(),
            trial: trial.to_owned(),
            since: now(),
            why: why.to_owned(),
        };
    }

    fn board(&mut self) -> Result<&mut dyn Board, Wrong> {
        if self.board.is_none() {
            let server = &self.settings.servers[self.turn % self.settings.servers.len()];
            let board = self.connect.board(server, Instant::now() + CONNECT_TIME);
            self.board = Some(board.map_err(|fault| Wrong::Server(format!("{server}: {fault}")))?);
        }
        match &mut self.board {
            Some(board) => Ok(&mut **board),
            None => Err(Wrong::Server("no connection".to_owned())),
        }
    }

    fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, Wrong> {
        self.board()?.document(name).map_err(|fault| Wrong::Server(fault.to_string()))
    }

    /// One look at the document, and what it wants.
    fn step(&mut self) -> Result<(), Wrong> {
        let document = self.document.clone();
        let bytes = self.read(&document)?;
        let rollout = match Rollout::read(bytes.as_deref()) {
            Ok(rollout) => rollout,
            Err(why) => {
                self.leave(&why)?;
                self.set("failed", "", "", &why);
                return self.start();
            }
        };
        if self.look.as_ref().is_some_and(|look| look.is_ahead_of(rollout.serial)) {
            return Ok(());
        }
        let look = match self.look.take() {
            Some(look) if look.serial == rollout.serial => look,
            former => Look { serial: rollout.serial, at: Instant::now(), has_moved: former.is_some() },
        };
        let (idle, is_tended) = (look.at.elapsed(), look.has_moved && look.at.elapsed() < PATIENCE);
        self.look = Some(look);
        let node = &self.settings.node;
        match &rollout.trial {
            Some(trial) if idle >= PATIENCE => {
                // Nobody tends it: for us it is over, and whoever sees it first ends it for all.
                let id = trial.id.clone();
                self.abandon(&rollout, &id, bytes.as_deref())?;
            }
            Some(trial)
                if is_tended
                    && !self.over.contains(&trial.id)
                    && (trial.prepare.contains(node) || trial.activate.contains(node)) =>
            {
                let trial = trial.clone();
                if self.inside.as_ref().is_some_and(|inside| inside.id != trial.id) {
                    // What was tried before that has been confirmed meanwhile, or is over.
                    self.settle(&rollout)?;
                }
                self.take_part(&trial)?;
                return self.start();
            }
            Some(_) | None => {}
        }
        self.settle(&rollout)?;
        self.start()
    }

    fn start(&mut self) -> Result<(), Wrong> {
        if !self.is_started {
            self.is_started = true;
            // One that runs already is no error.
            let _ = self.ask_words(&["start"])?;
        }
        Ok(())
    }

    /// Makes ready for a trial, and uses what is tried once that wants it.
    fn take_part(&mut self, trial: &RolloutTrial) -> Result<(), Wrong> {
        let (version, wants) = (trial.release.version(), trial.activate.contains(&self.settings.node));
        if self.inside.as_ref().is_none_or(|inside| inside.id != trial.id) {
            self.leave("another trial")?;
            match self.load(&trial.release)? {
                Ok(()) => {}
                Err(why) => {
                    self.finish_trial(&trial.id);
                    self.set("failed", &version, &trial.id, &why);
                    return Ok(());
                }
            }
            let vcl = self.former(&trial.release)?;
            let (id, release) = (trial.id.clone(), trial.release.clone());
            self.inside = Some(Inside { id, release, is_active: false, vcl, params: Vec::new() });
            self.keep()?;
            self.set("ready", &version, &trial.id, "");
        }
        if wants && self.inside.as_ref().is_some_and(|inside| !inside.is_active) {
            let params = self.params_of(&trial.release)?;
            if let Some(inside) = &mut self.inside {
                (inside.is_active, inside.params) = (true, params);
            }
            self.keep()?;
            match self.activate(&trial.release)? {
                Ok(()) => self.set("active", &version, &trial.id, ""),
                Err(why) => {
                    self.leave(&why)?;
                    self.finish_trial(&trial.id);
                    self.set("failed", &version, &trial.id, &why);
                }
            }
        }
        Ok(())
    }

    fn finish_trial(&mut self, id: &str) {
        self.over.push_back(id.to_owned());
        while self.over.len() > OVER {
            self.over.pop_front();
        }
    }

    fn abandon(&mut self, rollout: &Rollout, id: &str, was: Option<&[u8]>) -> Result<(), Wrong> {
        self.leave("the roll-out isn't renewed")?;
        self.finish_trial(id);
        let next = Rollout {
            serial: rollout.next_serial(),
            trial: None,
            last: format!("abandoned: the roll-out wasn't renewed for {} s", PATIENCE.as_secs()),
            ..rollout.clone()
        };
        let (document, bytes) = (self.document.clone(), next.encode());
        // Another node may be first.
        self.board()?.replace(&document, was, &bytes).map_err(|fault| Wrong::Server(fault.to_string()))?;
        Ok(())
    }

    fn leave(&mut self, why: &str) -> Result<(), Wrong> {
        let Some(inside) = self.inside.clone() else { return Ok(()) };
        let version = inside.release.version();
        if inside.is_active {
            for (name, value) in &inside.params {
                let _ = self.ask_words(&["param.set", name, value])?;
            }
            if let Err(reason) = self.use_vcl(&inside.vcl)? {
                say(&format!("the VCL {} can't be used again: {reason}", inside.vcl));
            }
        }
        self.discard(&inside.release, &inside.vcl)?;
        self.finish_trial(&inside.id);
        self.inside = None;
        self.keep()?;
        self.set("back", &version, &inside.id, why);
        Ok(())
    }

    /// Outside of trials: what is confirmed is to be in place.
    fn settle(&mut self, rollout: &Rollout) -> Result<(), Wrong> {
        let confirmed = rollout.confirmed.clone().map(|release| (release.version(), release));
        if let Some(inside) = &self.inside {
            let is_this = confirmed.as_ref().is_some_and(|(version, _)| *version == inside.release.version());
            let is_over = rollout.trial.as_ref().is_none_or(|trial| trial.id != inside.id);
            match (is_this, is_over) {
                (true, _) if inside.is_active => {
                    let inside = self.inside.take();
                    self.keep()?;
                    if let Some((version, release)) = confirmed {
                        if let Some(inside) = inside {
                            self.discard_named(&inside.vcl, &release)?;
                        }
                        self.in_place = Some(version.clone());
                        self.set("confirmed", &version, "", "");
                    }
                    return Ok(());
                }
                (_, true) => self.leave(&rollout.last)?,
                // We are in it, and it is tended or not: that is seen to elsewhere.
                (_, false) => return Ok(()),
            }
        }
        let Some((version, release)) = confirmed else { return Ok(()) };
        let was_tried = self.failed.as_ref().is_some_and(|(of, at)| *of == version && at.elapsed() < AGAIN);
        if self.in_place.as_ref() == Some(&version) || was_tried {
            return Ok(());
        }
        let done = match self.load(&release)? {
            Ok(()) => self.activate(&release)?,
            Err(why) => Err(why),
        };
        match done {
            Ok(_) => {
                (self.in_place, self.failed) = (Some(version.clone()), None);
                self.set("confirmed", &version, "", "");
                self.discard_others(&release)?;
            }
            Err(why) => {
                self.failed = Some((version.clone(), Instant::now()));
                self.set("failed", &version, "", &why);
            }
        }
        Ok(())
    }

    /// Loads the VCL of a release, if it has one, and gives probes a moment.
    fn load(&mut self, release: &Release) -> Result<Result<(), String>, Wrong> {
        let Some(vcl) = &release.vcl else { return Ok(Ok(())) };
        let name = vcl.name();
        let bundle = self.read(&bundle_of(&self.settings.group, vcl.slot))?.unwrap_or_default();
        if digest_of(&bundle) != vcl.digest {
            return Ok(Err("its sources are no longer on the fleet's board".to_owned()));
        }
        let is_loaded = self.ask_json(&["vcl.list", "-j"])?.iter().any(|row| row["name"] == name[..]);
        if !is_loaded && let Err(why) = self.ask(&[b"fleet.load", name.as_bytes(), &bundle, b"auto"])? {
            return Ok(Err(why));
        }
        let until = Instant::now() + PROBE_TIME;
        while Instant::now() < until {
            let rows = self.ask_json(&["backend.list", "-j", &format!("{name}.*")])?;
            let is_well = |row: &Value| {
                row.as_object()
                    .is_none_or(|backends| backends.values().all(|backend| backend["probe_message"][2] != "sick"))
            };
            if rows.iter().all(is_well) {
                break;
            }
            std::thread::sleep(PACE);
        }
        Ok(Ok(()))
    }

    fn params_of(&mut self, release: &Release) -> Result<Vec<(String, String)>, Wrong> {
        let mut params = Vec::new();
        for name in release.params.keys() {
            let shown = self.ask_json(&["param.show", "-j", name])?;
            let is = shown.iter().find(|param| param["name"] == name[..]).map(|param| match &param["value"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            params.extend(is.map(|is| (name.clone(), is)));
        }
        Ok(params)
    }

    /// Sets parameters and uses the VCL. If it can't be done nothing is changed.
    fn activate(&mut self, release: &Release) -> Result<Result<(), String>, Wrong> {
        let mut former = self.params_of(release)?;
        let mut wrong = None;
        for (at, (name, value)) in release.params.iter().enumerate() {
            match self.ask_words(&["param.set", name, value])? {
                Ok(_) => {}
                Err(why) => {
                    let is_set =
                        |(former, _): &(String, String)| release.params.keys().take(at).any(|name| name == former);
                    former.retain(is_set);
                    wrong = Some(format!("{name}: {}", why.trim()));
                    break;
                }
            }
        }
        if let (None, Some(vcl)) = (&wrong, &release.vcl)
            && let Err(why) = self.use_vcl(&vcl.name())?
        {
            wrong = Some(why);
        }
        let Some(why) = wrong else { return Ok(Ok(())) };
        for (name, value) in &former {
            let _ = self.ask_words(&["param.set", name, value])?;
        }
        Ok(Err(why))
    }

    fn use_vcl(&mut self, name: &str) -> Result<Result<(), String>, Wrong> {
        if name.is_empty() {
            return Ok(Ok(()));
        }
        Ok(self.ask_words(&["vcl.use", name])?.map(drop))
    }

    /// The VCL that is in use; if that is one of a roll-out that is over, the first of the node's own.
    fn former(&mut self, next: &Release) -> Result<String, Wrong> {
        let rows = self.ask_json(&["vcl.list", "-j"])?;
        let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
        let active = rows.iter().find(|row| row["status"] == "active").map(name).unwrap_or_default();
        if self.in_place.is_some() || next.vcl.as_ref().is_none_or(|vcl| vcl.name() != active) {
            return Ok(active);
        }
        let own = rows.iter().find(|row| row["label"].is_null() && !name(row).starts_with("fleet_"));
        Ok(own.map(name).unwrap_or(active))
    }

    fn discard(&mut self, release: &Release, kept: &str) -> Result<(), Wrong> {
        match &release.vcl {
            Some(vcl) if vcl.name() != kept => self.ask_words(&["vcl.discard", &vcl.name()]).map(drop),
            Some(_) | None => Ok(()),
        }
    }

    fn discard_named(&mut self, name: &str, present: &Release) -> Result<(), Wrong> {
        if name.starts_with("fleet_") && present.vcl.as_ref().is_some_and(|vcl| vcl.name() != name) {
            let _ = self.ask_words(&["vcl.discard", name])?;
        }
        Ok(())
    }

    fn discard_others(&mut self, present: &Release) -> Result<(), Wrong> {
        let rows = self.ask_json(&["vcl.list", "-j"])?;
        for row in rows.iter().filter(|row| row["status"] == "available") {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            self.discard_named(&name, present)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::rollout::RolloutVcl;

    #[test]
    fn a_document_that_was_replaced_is_old_for_a_moment() {
        let before = |age: Duration| Instant::now().checked_sub(age).expect("the machine runs for longer");
        let look = |serial: u64, age: Duration| Look { serial, at: before(age), has_moved: true };
        let is_old = |look: Look, serial: u64| look.is_ahead_of(serial);
        assert!(is_old(look(7, Duration::ZERO), 6));
        assert!(!is_old(look(7, Duration::ZERO), 7) && !is_old(look(7, Duration::ZERO), 8));
        assert!(!is_old(look(7, OLD_TIME), 6), "it was put back");
    }

    #[test]
    fn a_trial_is_known_to_the_next_agent() {
        let vcl = RolloutVcl { digest: digest_of(b"x"), slot: 'a', origin: "site.vcl".to_owned() };
        let params =
            vec![("default_ttl".to_owned(), "120.000".to_owned()), ("vcc_feature".to_owned(), "a\"b\n".to_owned())];
        let release = Release { vcl: Some(vcl), params: params.iter().cloned().collect() };
        for is_active in [false, true] {
            let inside = Inside {
                id: "1".to_owned(),
                release: release.clone(),
                is_active,
                vcl: "boot".to_owned(),
                params: params.clone(),
            };
            assert_eq!(Inside::read(&inside.encode()), Some(inside));
        }
        assert_eq!(
            ["", "{}", "[]", "{\"document\":\"{}\",\"vcl\":\"\",\"params\":[]}"]
                .map(|text| Inside::read(text.as_bytes())),
            [None, None, None, None]
        );
    }
}
