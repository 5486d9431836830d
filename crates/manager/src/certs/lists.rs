// SPDX-License-Identifier: BSD-2-Clause
//! Files that say which certificates of clients are good: CAs, and lists of what these have revoked. They are watched as
//! certificates are: an authority that is taken away, or a client that is shut out, stays so.

use tls::bundle::{List, ListKind};
use tls::revoked::{self, Revoked};
use tls::{pem, settings};

use super::watch::{Change, WatchedFiles};
use super::{Certs, files};
use crate::jail::Jail;

#[derive(Debug, Default)]
pub struct Listed {
    pub list: List,
    watched: WatchedFiles<1>,
    /// True if it was read again and isn't in use yet.
    is_fresh: bool,
    /// Reason why its file isn't in use.
    trouble: Option<String>,
}

impl Listed {
    /// Reads a file that nobody has named before.
    ///
    /// # Errors
    /// In words, with the path.
    pub fn read(kind: ListKind, path: &str, jail: &Jail) -> Result<Listed, String> {
        let list = List { kind, path: path.to_owned(), ders: Vec::new() };
        let mut out = Listed { list, ..Listed::default() };
        out.read_again(jail)?;
        Ok(out)
    }

    /// One that is in use, whose file may have changed since.
    pub fn resumed(list: List) -> Listed {
        Listed { list, watched: WatchedFiles::unsure(), ..Listed::default() }
    }

    /// Reads its file again.
    ///
    /// # Errors
    /// In words, with the path; it stays as it is.
    pub fn read_again(&mut self, jail: &Jail) -> Result<(), String> {
        // Before it is read: a change in between is found later.
        let seen = self.signatures(jail);
        let ders = read(self.list.kind, &self.list.path, jail)?;
        self.take(ders, seen);
        Ok(())
    }

    fn take(&mut self, ders: Vec<Vec<u8>>, seen: [Option<files::Signature>; 1]) {
        self.is_fresh |= self.list.ders != ders;
        (self.list.ders, self.trouble) = (ders, None);
        self.watched.saw(seen);
    }

    fn signatures(&self, jail: &Jail) -> [Option<files::Signature>; 1] {
        [jail.privileged(|| files::signature(&self.list.path))]
    }

    /// Goes back to the list in `used`, which workers have; true if something else was read.
    fn forget_fresh(&mut self, used: List) -> bool {
        let was_fresh = std::mem::take(&mut self.is_fresh);
        if was_fresh {
            (self.list, self.watched) = (used, WatchedFiles::unsure());
        }
        was_fresh
    }

    fn look(&mut self, jail: &Jail) -> Option<Change> {
        let seen = self.signatures(jail);
        if !self.watched.look(seen) {
            return None;
        }
        let id = format!("{} {}", self.list.kind.key(), self.list.path);
        match read(self.list.kind, &self.list.path, jail) {
            Ok(ders) => {
                self.take(ders, seen);
                self.is_fresh.then_some(Change::Read { id })
            }
            Err(reason) => {
                self.watched.saw(seen);
                self.trouble = Some(reason.clone());
                Some(Change::Refused { id, reason })
            }
        }
    }
}

impl Certs {
    /// Looks at the files of some lists, so that all have been looked at in that many steps.
    pub(super) fn look_at_lists(&mut self, steps: usize, jail: &Jail) -> Vec<Change> {
        let count = self.lists.len().div_ceil(steps);
        let mut changes = Vec::new();
        for _ in 0..count {
            self.next_list = (self.next_list + 1) % self.lists.len();
            changes.extend(self.lists[self.next_list].look(jail));
        }
        changes
    }

    /// Goes back to the lists that workers have: true for each of which something else was read.
    pub(super) fn forget_fresh_lists(&mut self) -> Vec<bool> {
        let Some(used) = self.current.as_ref().and_then(|current| current.bundle.lists()) else { return Vec::new() };
        // Those that were named since have come behind them.
        self.lists.iter_mut().zip(used).map(|(listed, used)| listed.forget_fresh(used)).collect()
    }

    /// These lists couldn't be put in place: they are tried again after a while.
    pub(super) fn regret_lists(&mut self, was_fresh: &[bool], reason: &str) {
        for (listed, _) in self.lists.iter_mut().zip(was_fresh).filter(|(_, was_fresh)| **was_fresh) {
            listed.trouble = Some(reason.to_owned());
            listed.watched.pass_over();
        }
    }

    pub(super) fn accept_lists(&mut self) {
        for listed in self.lists.iter_mut().filter(|listed| listed.is_fresh) {
            listed.is_fresh = false;
            listed.watched.succeed();
        }
    }

    pub(super) fn trouble_of_list(&self, number: Option<u32>) -> Option<&str> {
        self.lists.get(number? as usize)?.trouble.as_deref()
    }
}

/// Reads the DER elements of such a file.
fn read(kind: ListKind, path: &str, jail: &Jail) -> Result<Vec<Vec<u8>>, String> {
    let at = |reason: String| format!("{} {path}: {reason}", kind.key());
    let longest = match kind {
        ListKind::Authorities => pem::LONGEST_FILE,
        ListKind::Revoked => revoked::LONGEST_FILE,
    };
    let file = jail.privileged(|| files::read(path, kind.key(), longest))?;
    match kind {
        ListKind::Authorities => {
            let ders = pem::authorities(&file).map_err(|error| at(error.to_string()))?;
            settings::check_authorities(&ders).map_err(at)?;
            Ok(ders)
        }
        ListKind::Revoked => Ok(Revoked::from_file(&file).map_err(at)?.ders()),
    }
}
