// SPDX-License-Identifier: BSD-2-Clause
//! Certificates on demand: for names that a list allows, or VCL, once a client has asked for one. Its handshake fails, or gets another
//! certificate; a few seconds later there is one.
//!
//! Anybody can ask for any name. So VCL is asked about few names at a time and about each of them seldom, and few orders a minute are begun.

use std::collections::BTreeMap;
use std::time::Duration;

use acme::AcmeName;
use acme::schedule::draw;
use acme::talk::{AcmeCommand, Managed, NameStanding, line};
use base::clock::Mono;

use super::{DEMAND_STEP, Held, MOST_ON_DEMAND};
use crate::manager::Manager;
use crate::reply::ReplyExt;
use crate::report::{ReportSeverity, print};
use crate::worker::WorkerState;

/// Number of names, on average, that VCL is asked about in one step.
const QUESTIONS_A_STEP: usize = 8;
/// Time for which VCL's answer about a name holds.
const QUESTION_STANDS: Duration = Duration::from_secs(60);
/// Most names that begin to get a certificate within [`MINUTE`].
const MOST_BEGUN: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct DemandBounds {
    /// Names that VCL was asked about, and the time until which it isn't asked again.
    asked: BTreeMap<AcmeName, Mono>,
    begun: Vec<Mono>,
}

impl DemandBounds {
    /// Chooses the names that VCL is to be asked about now, at random: a client that asks for many names keeps nobody
    /// else's out.
    fn choose(&mut self, mut names: Vec<AcmeName>, now: Mono, draw: f64) -> Vec<AcmeName> {
        self.asked.retain(|_, until| *until > now);
        names.retain(|name| !self.asked.contains_key(name));
        // A draw is 1 at most, so that no name is left out.
        let first = (names.len() as f64 * draw) as usize;
        names.rotate_left(first);
        names.truncate(QUESTIONS_A_STEP);
        self.asked.extend(names.iter().map(|name| (name.clone(), now + QUESTION_STANDS)));
        names
    }

    /// Takes one of the places in [`MINUTE`] for another name; false if there is none.
    fn begin(&mut self, now: Mono) -> bool {
        self.begun.retain(|at| *at + MINUTE > now);
        let may = self.begun.len() < MOST_BEGUN;
        if may {
            self.begun.push(now);
        }
        may
    }
}

impl Manager {
    /// Asks the worker which names clients asked for, and begins to get certificates for those that are allowed.
    pub(crate) fn look_for_demand(&mut self) {
        let now = self.now();
        let Some(acme) = self.tls.acme.as_mut().filter(|acme| !acme.settings.on_demand.is_empty()) else { return };
        acme.demand = Some(now + DEMAND_STEP);
        if self.worker.state != WorkerState::Running {
            return;
        }
        let wanted = self.names_of_worker("debug.acme wanted names");
        let Some(acme) = &self.tls.acme else { return };
        let (on_demand, held) = (&acme.settings.on_demand, &acme.held);
        let new = wanted.into_iter().filter(|name| !held.contains_key(name));
        let (mut allowed, others): (Vec<AcmeName>, Vec<AcmeName>) = new.partition(|name| on_demand.allows(name));
        if on_demand.asks_vcl() {
            allowed.extend(self.allowed_by_vcl());
            self.ask_vcl(others);
        }
        allowed.into_iter().for_each(|name| self.get_on_demand(name));
    }

    fn names_of_worker(&mut self, command: &str) -> Vec<AcmeName> {
        let answer = self.worker.command(command);
        let text = if answer.is_ok() { answer.text() } else { "".into() };
        text.lines().filter_map(|name| AcmeName::parse(name).ok()).collect()
    }

    fn allowed_by_vcl(&mut self) -> Vec<AcmeName> {
        let mut allowed = self.names_of_worker("debug.acme wanted allowed");
        let Some(acme) = &self.tls.acme else { return Vec::new() };
        allowed.retain(|name| acme.bounds.asked.contains_key(name) && !acme.held.contains_key(name));
        allowed
    }

    fn ask_vcl(&mut self, names: Vec<AcmeName>) {
        let now = self.now();
        let Some(acme) = &mut self.tls.acme else { return };
        for name in acme.bounds.choose(names, now, draw()) {
            // Who asks again after a while has VCL asked again, whatever became of this question.
            let _ = self.worker.command(cli::client::encode(&["debug.acme", "ask", name.as_str()]));
        }
    }

    fn get_on_demand(&mut self, name: AcmeName) {
        let now = self.now();
        let Some(acme) = &mut self.tls.acme else { return };
        if acme.held.len() >= MOST_ON_DEMAND || !acme.bounds.begin(now) {
            return;
        }
        print(ReportSeverity::Info, &format!("ACME: {name}: requested by a client"));
        // What has failed before isn't begun anew by who asks again.
        let standing = self.jail.privileged(|| acme.store.standing(&name));
        acme.held.insert(name.clone(), Held { until: None, standing: standing.clone() });
        if let Some(process) = &acme.process {
            let managed = Managed { name, chain: None, standing: NameStanding { renew_at: None, ..standing } };
            // A process that is gone gets all names again.
            let _ = sys::fd::write_all(&process.socket, &line(&AcmeCommand::Add(Box::new(managed))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: std::ops::Range<usize>) -> Vec<AcmeName> {
        numbers.map(|n| AcmeName::parse(&format!("n{n:03}.example")).unwrap()).collect()
    }

    #[test]
    fn vcl_is_asked_about_few_names_and_about_each_once_a_minute() {
        let (mut bounds, begin) = (DemandBounds::default(), Mono(1000.0));
        assert_eq!(bounds.choose(names(0..100), begin, 0.0), names(0..8));
        assert_eq!(bounds.choose(names(0..12), begin + DEMAND_STEP, 0.0), names(8..12));
        assert!(bounds.choose(names(0..12), begin + DEMAND_STEP, 0.0).is_empty());
        assert_eq!(bounds.choose(names(0..12), begin + QUESTION_STANDS, 0.0), names(0..8));
        assert!(bounds.choose(Vec::new(), begin, 1.0).is_empty());
    }

    #[test]
    fn where_the_first_name_stands_is_drawn() {
        for (draw, first) in [(0.5, 50), (0.999, 99), (1.0, 0)] {
            assert_eq!(DemandBounds::default().choose(names(0..100), Mono(1.0), draw)[..1], names(first..first + 1));
        }
    }

    #[test]
    fn few_names_begin_within_a_minute() {
        let (mut bounds, begin) = (DemandBounds::default(), Mono(1000.0));
        assert!((0..MOST_BEGUN).all(|_| bounds.begin(begin)));
        assert!(!bounds.begin(begin) && !bounds.begin(begin.plus(59.0)));
        assert!(bounds.begin(begin + MINUTE));
    }
}
