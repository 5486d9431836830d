// SPDX-License-Identifier: BSD-2-Clause
//! Certificates and ticket keys on their way to the worker: at its birth by inheritance, later over a socket of its own.

use std::fs::File;
use std::os::fd::OwnedFd;

use cli::handoff::HandoffSecret;
use tls::bundle::{BundleEntry, GLOBAL};

use super::files::{Fresh, Staple};
use super::{BundleCandidate, Row, files};
use crate::fatal::errno_text;
use crate::manager::Manager;
use crate::reply::ReplyExt;

impl Manager {
    /// Has the worker use another bundle, and keeps that for the next one.
    ///
    /// # Errors
    /// The worker can't be given it: then all is as it was.
    pub(crate) fn put_in_place(&mut self, candidate: BundleCandidate, commits: bool) -> Result<(), String> {
        let file = match self.teach_signer(candidate.file())? {
            true => candidate.keyless(),
            false => candidate.file().try_clone(),
        };
        let file = file.map_err(|e| errno_text(&e))?;
        self.send_secret(HandoffSecret::Certificates, &file)?;
        self.tls.certs.accept(candidate, commits);
        Ok(())
    }

    /// Gives the worker a sealed file, if there is a worker, and hears whether it is of use there.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn send_secret(&mut self, kind: HandoffSecret, file: &File) -> Result<(), String> {
        let Some(socket) = self.tls.secrets.as_ref().filter(|_| self.worker.pid().is_some()) else { return Ok(()) };
        let unsent = |e: std::io::Error| format!("can't pass it to the worker: {}", errno_text(&e));
        sys::secret::send(socket, kind.letter(), file).map_err(unsent)?;
        let answer = self.worker.command("debug.secrets");
        if answer.is_ok() { Ok(()) } else { Err(answer.text().trim_end().to_owned()) }
    }

    /// A socket for a worker that is about to begin: its end.
    pub(crate) fn secrets_end(&mut self) -> std::io::Result<OwnedFd> {
        let (ours, theirs) = sys::fd::socket_pair()?;
        self.tls.secrets = Some(ours);
        Ok(theirs)
    }

    /// Installs or replaces a certificate that comes from no file that was named, in the global scope, at once: what is staged
    /// stays so.
    ///
    /// # Errors
    /// In words; then all is as it was.
    pub(crate) fn put_certificate(&mut self, id: &str, pem: &[u8]) -> Result<(), String> {
        if !self.tls.certs.is_on() {
            return Err("there is no listener for TLS that could use it".to_owned());
        }
        let pair = tls::pem::read(pem).and_then(tls::pem::Contents::pair).map_err(|e| e.to_string())?;
        let facts = files::of_pair(&pair)?;
        let at = self.tls.certs.rows.iter().position(|row| row.entry.id == id);
        let at = at.unwrap_or_else(|| {
            let entry = BundleEntry { id: id.to_owned(), scope: GLOBAL, ..BundleEntry::default() };
            self.tls.certs.rows_mut().push(Row::of(entry));
            self.tls.certs.rows.len() - 1
        });
        let batch = self.tls.certs.next_batch();
        let row = &mut self.tls.certs.rows_mut()[at];
        let former = (row.fresh.take(), std::mem::replace(&mut row.entry.facts, facts), row.entry.batch);
        (row.fresh, row.entry.batch) = (Some(Fresh { pair, staple: Staple::default() }), batch);
        let done = self.tls.certs.without_staged().and_then(|candidate| self.put_in_place(candidate, false));
        if done.is_err() {
            let row = &mut self.tls.certs.rows_mut()[at];
            (row.fresh, row.entry.facts, row.entry.batch) = former;
            if row.place.is_none() && row.fresh.is_none() {
                self.tls.certs.rows_mut().remove(at);
            }
        }
        done
    }
}
