// SPDX-License-Identifier: BSD-2-Clause
//! Parts of the manager that go over to the next program: each saves itself as a record and comes back from it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use base::clock::Mono;
use cli::record::Fd;

use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::options::ManagerOptions;

pub(crate) trait Carried: Sized {
    type Record: Default;

    fn save(&self, now: Mono) -> Self::Record;

    /// The part as the program before had it; what isn't in the record is made anew.
    ///
    /// # Errors
    /// In words.
    fn restore(record: &Self::Record, by: &Successor<'_>) -> Result<Self, String>;
}

#[derive(Clone, Copy)]
pub(crate) struct Successor<'a> {
    pub options: &'a ManagerOptions,
    pub jail: &'a Jail,
    pub now: Mono,
}

impl Successor<'_> {
    /// There are keys from here on. An exec has allowed cores again.
    ///
    /// # Errors
    /// In words.
    pub fn forbid_cores(&self) -> Result<(), String> {
        self.jail.forbid_cores().map_err(|e| format!("can't disable core dumps: {}", errno_text(&e)))
    }
}

/// A descriptor of our own beside the inherited one, which stays open for a way back.
///
/// # Errors
/// In words.
pub(crate) fn copy(Fd(number): Fd) -> Result<OwnedFd, String> {
    sys::fd::duplicate_inherited(number).map_err(|e| format!("descriptor {number}: {}", errno_text(&e)))
}

pub(crate) fn copy_file(fd: Option<Fd>) -> Result<Option<File>, String> {
    Ok(fd.map(copy).transpose()?.map(File::from))
}

pub(crate) fn elapsed(since: Mono, now: Mono) -> Duration {
    Duration::try_from_secs_f64(now.since(since).max(0.0)).unwrap_or(Duration::MAX)
}

pub(crate) fn begun(time: Duration, now: Mono) -> Mono {
    now.plus(-time.as_secs_f64())
}
