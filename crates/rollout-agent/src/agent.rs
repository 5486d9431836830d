// SPDX-License-Identifier: BSD-2-Clause
//! The agent's work on the group's document: it takes part in trials, and puts in place what is confirmed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use base::Clock;
use base::clock;
use fleet::rollout::{PATIENCE, Release, Rollout, RolloutTrial, bundle_of, digest_of, document_of};
use fleet::{Board, Connect, Deployed, FleetSettings};

use crate::manager::ManagerCli;
use crate::trial::{Inside, Look};
use crate::{PACE, Wrong, say};

const CONNECT_TIME: Duration = Duration::from_secs(2);
const CONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Time until what is confirmed and failed here is tried again.
const AGAIN: Duration = Duration::from_secs(30);
/// Trials that are remembered as over.
const OVER: usize = 64;

pub(crate) struct Agent {
    settings: FleetSettings,
    document: String,
    manager: ManagerCli,
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
    pub fn new(settings: FleetSettings, connect: Box<dyn Connect>, manager: ManagerCli) -> Agent {
        Agent {
            document: document_of(&settings.group),
            settings,
            manager,
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
            begun: clock::now(),
            is_started: false,
        }
    }

    pub fn serve(&mut self) {
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
                        self.away = Some(clock::now());
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
        let kept = self.manager.ask(&[b"fleet.kept"])?.unwrap_or_default();
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
        self.manager.ask(&[b"fleet.kept", &state]).map(drop)
    }

    /// Our word on ourselves goes into the worker's report; a worker that begins anew is told again.
    fn tell(&mut self) -> Result<(), Wrong> {
        let text = self.said.json().to_string();
        // There may be no worker.
        self.manager.ask_words(&["fleet.deployed", &text]).map(drop)
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
            let board = self.connect.board(server, clock::now() + CONNECT_TIME);
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
            former => Look { serial: rollout.serial, at: clock::now(), has_moved: former.is_some() },
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
                    // Earlier trials have been confirmed meanwhile, or are over.
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
            let _ = self.manager.ask_words(&["start"])?;
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
            let vcl = self.manager.former(&trial.release, self.in_place.is_some())?;
            let (id, release) = (trial.id.clone(), trial.release.clone());
            self.inside = Some(Inside { id, release, is_active: false, vcl, params: Vec::new() });
            self.keep()?;
            self.set("ready", &version, &trial.id, "");
        }
        if wants && self.inside.as_ref().is_some_and(|inside| !inside.is_active) {
            let params = self.manager.params_of(&trial.release)?;
            if let Some(inside) = &mut self.inside {
                (inside.is_active, inside.params) = (true, params);
            }
            self.keep()?;
            match self.manager.activate(&trial.release)? {
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
                let _ = self.manager.ask_words(&["param.set", name, value])?;
            }
            if let Err(reason) = self.manager.use_vcl(&inside.vcl)? {
                say(&format!("the VCL {} can't be used again: {reason}", inside.vcl));
            }
        }
        self.manager.discard(&inside.release, &inside.vcl)?;
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
                            self.manager.discard_named(&inside.vcl, &release)?;
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
            Ok(()) => self.manager.activate(&release)?,
            Err(why) => Err(why),
        };
        match done {
            Ok(_) => {
                (self.in_place, self.failed) = (Some(version.clone()), None);
                self.set("confirmed", &version, "", "");
                self.manager.discard_others(&release)?;
            }
            Err(why) => {
                self.failed = Some((version.clone(), clock::now()));
                self.set("failed", &version, "", &why);
            }
        }
        Ok(())
    }

    fn load(&mut self, release: &Release) -> Result<Result<(), String>, Wrong> {
        let Some(vcl) = &release.vcl else { return Ok(Ok(())) };
        let bundle = self.read(&bundle_of(&self.settings.group, vcl.slot))?.unwrap_or_default();
        if digest_of(&bundle) != vcl.digest {
            return Ok(Err("its sources are no longer on the fleet's board".to_owned()));
        }
        self.manager.load(&vcl.name(), &bundle)
    }
}

fn now() -> f64 {
    Clock::system().real().0
}
