// SPDX-License-Identifier: BSD-2-Clause
//! Files of certificates that change are read again, without anybody asking: who renews a certificate needn't tell the server.
//! A file that is of no use changes nothing: the certificate in use stays, and what is wrong is said in the log, in lists and by a
//! counter.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use base::clock::Mono;

use super::draft::CertsDraft;
use super::files::{Fresh, Signature};
use super::{BundleCandidate, CertificateStanding, Certs, files};
use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};

pub const STEP: Duration = Duration::from_secs(1);
/// Longest time for which a step looks at files: the manager has other things to do. The rest is looked at in the next
/// one.
const LONGEST_STEP: Duration = Duration::from_millis(50);
/// With so many certificates changes are gathered for a while: each time all of them are written anew.
pub(super) const MANY: usize = 1000;
const GATHERED: Duration = Duration::from_secs(5);

/// Looks that are passed over at most after a certificate couldn't be put in place: two to the power of this.
const MOST_DOUBLINGS: u32 = 6;

const MOST_NAMED: usize = 20;

#[derive(Debug)]
pub struct Making {
    draft: CertsDraft,
    made: Receiver<Result<BundleCandidate, String>>,
    read: Vec<String>,
}

impl Making {
    /// Gives the certificates that the bundle is made for.
    pub(super) fn into_read(self) -> Vec<String> {
        self.read
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    Read { id: String },
    Refused { id: String, reason: String },
}

/// Files as they were when they were read, or when they were found to be of no use.
#[derive(Clone, Copy, Debug)]
pub struct WatchedFiles<const N: usize> {
    seen: [Option<Signature>; N],
    /// Signatures at the last look, if they differ from those that were read.
    changing: Option<[Option<Signature>; N]>,
    /// The files are read again, whether they changed or not: nobody knows whether they are what is in use.
    is_unsure: bool,
    /// Number of times in a row that files could be read and not be put in place, and looks still passed over for it.
    failed: u32,
    passes: u32,
}

impl<const N: usize> Default for WatchedFiles<N> {
    fn default() -> Self {
        WatchedFiles { seen: [None; N], changing: None, is_unsure: false, failed: 0, passes: 0 }
    }
}

impl<const N: usize> WatchedFiles<N> {
    /// Files that may differ from what is in use.
    pub fn unsure() -> Self {
        WatchedFiles { is_unsure: true, ..WatchedFiles::default() }
    }

    /// A look: whether they are to be read now. What has changed is read once it stays the same for two looks: who writes a file,
    /// or two, takes a while.
    pub fn look(&mut self, now: [Option<Signature>; N]) -> bool {
        if self.passes > 0 {
            self.passes -= 1;
            return false;
        }
        if now == self.seen && !self.is_unsure {
            self.changing = None;
            return false;
        }
        self.changing.replace(now) == Some(now)
    }

    /// Notes the signatures with which the files were read.
    pub fn saw(&mut self, now: [Option<Signature>; N]) {
        (self.seen, self.changing, self.is_unsure) = (now, None, false);
    }

    pub fn doubt(&mut self) {
        self.is_unsure = true;
    }

    /// Leaves the files alone for a while, as they couldn't be put in place: for twice as many looks each time.
    pub fn pass_over(&mut self) {
        self.failed = (self.failed + 1).min(MOST_DOUBLINGS);
        self.passes = 1 << self.failed;
    }

    pub fn succeed(&mut self) {
        (self.failed, self.passes) = (0, 0);
    }
}

impl Certs {
    /// Looks at the files of the next certificates, so that all have been looked at after `interval`.
    pub fn look(&mut self, interval: Duration, jail: &Jail) -> Vec<Change> {
        let steps = (interval.as_secs_f64() / STEP.as_secs_f64()).max(1.0) as usize;
        let count = self.rows.len().div_ceil(steps);
        let mut changes = self.look_at_lists(steps, jail);
        jail.privileged(|| {
            let begun = Instant::now();
            for _ in 0..count {
                // Each time: reading one takes far longer than asking the clock.
                if begun.elapsed() > LONGEST_STEP {
                    break;
                }
                self.next_look = (self.next_look + 1) % self.rows.len();
                changes.extend(self.look_at(self.next_look));
            }
        });
        changes
    }

    fn look_at(&mut self, at: usize) -> Option<Change> {
        let row = &mut self.rows_mut()[at];
        if !row.is_from_files() || row.standing == CertificateStanding::Staged {
            return None;
        }
        let now = row.paths().signatures();
        if !row.watched.look(now) {
            return None;
        }
        let id = row.entry.id.clone();
        let loaded = files::load(row.paths());
        let is_same = row.watched.is_unsure && loaded.as_ref().is_ok_and(|(fresh, _)| self.is_in_use(at, fresh));
        let row = &mut self.rows_mut()[at];
        match loaded {
            Ok((fresh, _)) if is_same => {
                row.watched.saw(now);
                (row.trouble, row.staple_trouble) = (None, fresh.staple.trouble);
                None
            }
            Ok(loaded) => {
                self.renew(at, now, loaded);
                Some(Change::Read { id })
            }
            Err(reason) => {
                row.watched.saw(now);
                row.trouble = Some(reason.clone());
                Some(Change::Refused { id, reason })
            }
        }
    }

    /// True if workers have just that.
    fn is_in_use(&self, at: usize, fresh: &Fresh) -> bool {
        let Some(current) = &self.current else { return false };
        let Some(keyed) = self.rows[at].place.and_then(|place| current.bundle.keyed(place)) else { return false };
        let pair = &fresh.pair;
        pair.chain.iter().map(Vec::as_slice).eq(keyed.chain.iter().copied())
            && pair.form == keyed.form
            && pair.key[..] == *keyed.key
            && fresh.staple.answer == keyed.ocsp
    }

    pub(super) fn gather(&mut self, read: Vec<String>, now: Mono) {
        (self.gathered, self.gathered_since) = (read, Some(now));
    }

    /// Tries certificates that couldn't be put in place later again, each time after twice as many looks.
    pub(super) fn regret(&mut self, reason: &str) {
        let renewed: Vec<usize> = (0..self.rows.len())
            .filter(|at| self.rows[*at].fresh.is_some() && self.rows[*at].place.is_some())
            .collect();
        let lists = self.forget_fresh_lists();
        self.regret_lists(&lists, reason);
        self.forget_fresh();
        for at in renewed {
            let row = &mut self.rows_mut()[at];
            row.trouble = Some(reason.to_owned());
            row.watched.pass_over();
        }
    }
}

/// The first of the ids, and how many more there are.
fn some_of(ids: &[String]) -> String {
    match ids.split_at_checked(MOST_NAMED) {
        Some((first, [_, ..])) => format!("{}, and {} more", first.join(", "), ids.len() - MOST_NAMED),
        _ => ids.join(", "),
    }
}

impl Manager {
    /// Looks whether files of certificates have changed, and puts those in place that have.
    pub(crate) fn watch_certificates(&mut self) {
        if self.tls.certs.is_at_work() {
            return;
        }
        if let Some(making) = self.tls.certs.making.take() {
            // Nothing is looked at meanwhile: it would be another draft.
            self.tend_making(making);
            return;
        }
        self.survey_certificates();
        let interval = self.params.tls_watch;
        if interval.is_zero() {
            return;
        }
        self.watch_ticket_keys();
        if self.tls.certs.rows().is_empty() {
            return;
        }
        let jail = self.jail.clone();
        let changes = self.tls.certs.look(interval, &jail);
        let mut read = Vec::new();
        for change in changes {
            match change {
                Change::Read { id } => read.push(id),
                Change::Refused { id, reason } => self.certificate_stays(&id, &reason),
            }
        }
        let gathered = &mut self.tls.certs.gathered;
        gathered.extend(read);
        if gathered.is_empty() {
            return;
        }
        let now = self.clock.mono();
        let since = *self.tls.certs.gathered_since.get_or_insert(now);
        if self.tls.certs.rows.len() > MANY && now < since + GATHERED {
            return;
        }
        self.tls.certs.gathered_since = None;
        let read = std::mem::take(&mut self.tls.certs.gathered);
        if self.tls.certs.rows.len() <= MANY {
            let made = self.tls.certs.without_staged();
            self.put_renewed(made, &read);
            return;
        }
        let draft = CertsDraft::of(&self.tls.certs);
        let taken = draft.another();
        match sys::process::beside(move || taken.without_staged()) {
            Ok(made) => self.tls.certs.making = Some(Making { draft, made, read }),
            Err(error) => self.put_renewed(Err(format!("no thread: {}", errno_text(&error))), &read),
        }
    }

    /// Looks whether the bundle is made.
    fn tend_making(&mut self, making: Making) {
        let made = match making.made.try_recv() {
            Err(TryRecvError::Empty) => {
                self.tls.certs.making = Some(making);
                return;
            }
            Err(TryRecvError::Disconnected) => Err("the certificates couldn't be put together".to_owned()),
            Ok(made) => made,
        };
        let Making { draft, read, .. } = making;
        if !draft.is_of(&self.tls.certs) {
            // A command was quicker: the next bundle has what both have changed.
            self.tls.certs.gather(read, self.clock.mono());
            return;
        }
        // Before the rows are changed: they needn't be copied then.
        drop(draft);
        self.put_renewed(made, &read);
    }

    /// Puts a bundle in place that has what was read again.
    fn put_renewed(&mut self, made: Result<BundleCandidate, String>, read: &[String]) {
        match made.and_then(|candidate| self.put_in_place(candidate, false)) {
            Ok(()) => {
                self.count(|m| m.counters.certs_renewed.add(read.len() as u64));
                let text = format!("Certificates reloaded because their files changed: {}", some_of(read));
                print(ReportSeverity::Info, &text);
            }
            Err(reason) => {
                self.tls.certs.regret(&reason);
                read.iter().for_each(|id| self.certificate_stays(id, &reason));
            }
        }
    }

    fn certificate_stays(&self, id: &str, reason: &str) {
        self.count(|m| m.counters.certs_refused.inc());
        print(
            ReportSeverity::Error,
            &format!("Certificate {id} stays as it is, because its changed files are invalid: {reason}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_some_of_many() {
        let ids = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(some_of(&ids(3)), "0, 1, 2");
        assert!(some_of(&ids(MOST_NAMED)).ends_with(", 19"));
        assert!(some_of(&ids(100_000)).ends_with(", 19, and 99980 more"));
    }
}
