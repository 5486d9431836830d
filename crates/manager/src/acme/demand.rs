// SPDX-License-Identifier: BSD-2-Clause
//! Certificates on demand: for names that a list allows, once a client has asked for one. Its handshake fails, or gets another certificate;
//! a few seconds later there is one.

use acme::Name;
use acme::talk::{Command, Managed, Standing, line};

use super::{DEMAND_STEP, Held, MOST_ON_DEMAND};
use crate::core::Manager;
use crate::reply::ReplyExt;
use crate::report::{Severity, print};
use crate::worker::State;

impl Manager {
    /// Asks the worker which names clients asked for, and has those that are allowed got.
    pub(crate) fn look_for_demand(&mut self) {
        let now = self.now();
        let Some(acme) = self.acme.as_mut().filter(|acme| !acme.settings.on_demand.is_empty()) else { return };
        acme.demand = Some(now + DEMAND_STEP);
        if self.worker.state != State::Running {
            return;
        }
        let answer = self.worker.command("debug.acme wanted names");
        if !answer.is_ok() {
            return;
        }
        let text = answer.text().into_owned();
        let allowed: Vec<Name> = {
            let Some(acme) = &self.acme else { return };
            let names = text.lines().filter_map(|name| Name::parse(name).ok());
            let is_new = |name: &Name| acme.settings.on_demand.allows(name) && !acme.held.contains_key(name);
            names.filter(is_new).take(MOST_ON_DEMAND.saturating_sub(acme.held.len())).collect()
        };
        allowed.into_iter().for_each(|name| self.get_on_demand(name));
    }

    fn get_on_demand(&mut self, name: Name) {
        print(Severity::Info, &format!("ACME: {name}: a client asks for it"));
        let Some(acme) = &mut self.acme else { return };
        // What has failed before isn't begun anew by who asks again.
        let standing = self.jail.privileged(|| acme.store.standing(&name));
        acme.held.insert(name.clone(), Held { until: None, standing: standing.clone() });
        if let Some(process) = &acme.process {
            let managed = Managed { name, chain: None, standing: Standing { renew_at: None, ..standing } };
            // A process that is gone gets all names again.
            let _ = sys::fd::write_all(&process.socket, &line(&Command::Add(Box::new(managed))));
        }
    }
}
