// SPDX-License-Identifier: BSD-2-Clause
//! Files of certificates that change are read again, without anybody asking: who renews a certificate needn't tell the server.
//! A file that is of no use changes nothing: the certificate in use stays, and what is wrong is said in the log, in lists and by a
//! counter.

use std::time::Duration;

use super::files::Fresh;
use super::{Certs, Standing, files};
use crate::core::Manager;
use crate::jail::Jail;
use crate::report::{Severity, print};

/// Between looks.
pub const STEP: Duration = Duration::from_secs(1);
/// Certificates whose files are looked at in one step, at most: the manager has other things to do.
const MOST_AT_ONCE: usize = 500;

/// Looks that are passed over at most after a certificate couldn't be put in place: two to the power of this.
const MOST_DOUBLINGS: u32 = 6;

/// What became of a certificate whose files had changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// They were read.
    Read { id: String },
    /// They are of no use.
    Refused { id: String, reason: String },
}

impl Certs {
    /// Looks at the files of the next certificates, so that all have been looked at after `interval`. What has changed is read
    /// once it stays the same for two looks: who writes a file, or two, takes a while.
    pub fn look(&mut self, interval: Duration, jail: &Jail) -> Vec<Change> {
        let steps = (interval.as_secs_f64() / STEP.as_secs_f64()).max(1.0) as usize;
        let count = self.rows.len().div_ceil(steps).clamp(1, MOST_AT_ONCE).min(self.rows.len());
        let mut changes = Vec::new();
        jail.privileged(|| {
            for _ in 0..count {
                self.next_look = (self.next_look + 1) % self.rows.len();
                changes.extend(self.look_at(self.next_look));
            }
        });
        changes
    }

    fn look_at(&mut self, at: usize) -> Option<Change> {
        let row = &mut self.rows[at];
        if !row.is_from_files() || row.standing == Standing::Staged {
            return None;
        }
        if row.passes > 0 {
            row.passes -= 1;
            return None;
        }
        let now = row.paths().signatures();
        if now == row.seen && !row.is_unsure {
            row.changing = None;
            return None;
        }
        if row.changing != Some(now) {
            row.changing = Some(now);
            return None;
        }
        let id = row.entry.id.clone();
        let loaded = files::load(row.paths());
        let is_same = row.is_unsure && loaded.as_ref().is_ok_and(|(fresh, _)| self.is_in_use(at, fresh));
        let row = &mut self.rows[at];
        match loaded {
            Ok(_) if is_same => {
                (row.seen, row.changing, row.trouble, row.is_unsure) = (now, None, None, false);
                None
            }
            Ok(loaded) => {
                self.renew(at, now, loaded);
                Some(Change::Read { id })
            }
            Err(reason) => {
                (row.seen, row.changing, row.trouble) = (now, None, Some(reason.clone()));
                row.is_unsure = false;
                Some(Change::Refused { id, reason })
            }
        }
    }

    /// Whether workers have just that.
    fn is_in_use(&self, at: usize, fresh: &Fresh) -> bool {
        let Some(current) = &self.current else { return false };
        let Some(keyed) = self.rows[at].place.and_then(|place| current.bundle.keyed(place)) else { return false };
        let pair = &fresh.pair;
        pair.chain.iter().map(Vec::as_slice).eq(keyed.chain.iter().copied())
            && pair.form == keyed.form
            && pair.key[..] == *keyed.key
            && fresh.ocsp == keyed.ocsp
    }

    /// What was read again can't be put in place: it is tried again, each time after twice as many looks.
    pub(super) fn regret(&mut self, reason: &str) {
        let renewed: Vec<usize> = (0..self.rows.len())
            .filter(|at| self.rows[*at].fresh.is_some() && self.rows[*at].place.is_some())
            .collect();
        self.forget_fresh();
        for at in renewed {
            let row = &mut self.rows[at];
            row.trouble = Some(reason.to_owned());
            row.failed = (row.failed + 1).min(MOST_DOUBLINGS);
            row.passes = 1 << row.failed;
        }
    }
}

impl Manager {
    /// Looks whether files of certificates have changed, and puts those in place that have.
    pub(crate) fn watch_certificates(&mut self) {
        self.timers.certificates = self.now() + STEP;
        let interval = self.params.tls_watch;
        if interval.is_zero() {
            return;
        }
        self.watch_ticket_keys();
        if self.certs.rows().is_empty() {
            return;
        }
        let jail = self.jail.clone();
        let changes = self.certs.look(interval, &jail);
        let mut read = Vec::new();
        for change in changes {
            match change {
                Change::Read { id } => read.push(id),
                Change::Refused { id, reason } => self.certificate_stays(&id, &reason),
            }
        }
        if read.is_empty() {
            return;
        }
        match self.certs.without_staged().and_then(|candidate| self.put_in_place(candidate, false)) {
            Ok(()) => {
                self.count(|m| m.counters.certs_renewed.add(read.len() as u64));
                print(
                    Severity::Info,
                    &format!("Certificates were read again, as their files have changed: {}", read.join(", ")),
                );
            }
            Err(reason) => {
                self.certs.regret(&reason);
                read.iter().for_each(|id| self.certificate_stays(id, &reason));
            }
        }
    }

    fn certificate_stays(&self, id: &str, reason: &str) {
        self.count(|m| m.counters.certs_refused.inc());
        print(Severity::Error, &format!("Certificate {id} stays as it is, though its files have changed: {reason}"));
    }
}
