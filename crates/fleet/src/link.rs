// SPDX-License-Identifier: BSD-2-Clause
//! What a fleet asks of the server that keeps its log: four questions over one connection. Nobody above knows which server it is.

use std::time::Instant;

use crate::survey::ServerFact;
use crate::{Board, FleetSettings, LogServer};

/// The reason for a failure, in words for the operator. The connection isn't used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFault(pub String);

impl LinkFault {
    pub fn new(words: impl Into<String>) -> LinkFault {
        LinkFault(words.into())
    }
}

impl std::fmt::Display for LinkFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity and extent of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBounds {
    /// Changes when the log is made anew.
    pub epoch: String,
    /// Number of the oldest entry that is left; one more than `last` when none is.
    pub first: u64,
    /// Number of the newest entry there ever was; 0: none yet.
    pub last: u64,
}

#[cfg(any(feature = "fleet-nats", feature = "fleet-redis"))]
const LONGEST_EPOCH: usize = 100;

/// The epoch that a server names: each position that is kept has it, and people are shown it.
#[cfg(any(feature = "fleet-nats", feature = "fleet-redis"))]
pub(crate) fn epoch_of(said: &str) -> Result<String, LinkFault> {
    match !said.is_empty() && said.len() <= LONGEST_EPOCH && said.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(said.to_owned()),
        false => Err(LinkFault::new("what it says the log to be known by isn't what a node of ours has written there")),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct OutgoingEntry<'a> {
    /// Id by which the server recognises an entry that comes again.
    pub id: &'a str,
    pub bytes: &'a [u8],
}

/// Entries that a [`FleetLink`] gives at once, at most.
#[cfg(feature = "fleet-nats")]
pub(crate) const BATCH: usize = 256;
/// Bytes of entries after which no more are given at once.
#[cfg(feature = "fleet-nats")]
pub(crate) const BATCH_BYTES: usize = BATCH_OF_LONGEST * crate::LONGEST;
/// Entries that are given at once where they come together in one answer, however long each is.
#[cfg(any(feature = "fleet-nats", feature = "fleet-redis"))]
pub(crate) const BATCH_OF_LONGEST: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingEntry {
    /// Number: higher than that before, by one unless something between them is gone.
    pub seq: u64,
    /// Bytes of the entry; of one that is longer than [`crate::LONGEST`] the beginning, which is longer than that, too.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextEntries {
    /// The next entries, one at least: as many as are there without waiting for more.
    Entries {
        entries: Vec<IncomingEntry>,
        /// Least number of entries that the server has behind them; 0: these are the last.
        left: u64,
    },
    Quiet,
}

/// A connection to the server that keeps the log. Every call ends within a few seconds.
pub trait FleetLink: Send {
    /// Identity and extent of the log; makes it if there is none.
    ///
    /// # Errors
    /// The server can't say, or what is there isn't a fleet's log.
    fn bounds(&mut self) -> Result<LogBounds, LinkFault>;

    /// Appends these, in this order: for each its number once it is as safe as the server keeps anything, or why it was refused.
    ///
    /// # Errors
    /// Nobody knows which of them were appended. They may be appended again.
    fn append(&mut self, entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault>;

    /// Has [`FleetLink::next`] give the entries from that number on; those that are gone are left out.
    ///
    /// # Errors
    /// The server won't.
    fn follow(&mut self, from: u64) -> Result<(), LinkFault>;

    /// The next entries; waits a second or so for the first.
    ///
    /// # Errors
    /// The server is gone or hangs, or something between two entries was lost.
    fn next(&mut self) -> Result<NextEntries, LinkFault>;
}

pub trait Connect: Send + Sync {
    fn connect(&self, server: &LogServer, until: Instant) -> Result<Box<dyn FleetLink>, LinkFault>;

    /// The server's settings by which it may lose entries. Changes nothing.
    ///
    /// # Errors
    /// The server can't be used.
    fn survey(&self, _server: &LogServer, _until: Instant) -> Result<Vec<ServerFact>, LinkFault> {
        Err(LinkFault::new("it has no settings"))
    }

    /// One to the board that this server keeps beside the log, ready to be used; makes it if there is none.
    ///
    /// # Errors
    /// Why there is none.
    fn board(&self, _server: &LogServer, _until: Instant) -> Result<Box<dyn Board>, LinkFault> {
        Err(LinkFault::new("it keeps no board"))
    }
}

/// The maker of connections for the kind of servers in the settings.
///
/// # Errors
/// This program was built without it, or certificates can't be used.
pub fn connector(settings: &FleetSettings) -> Result<Box<dyn Connect>, String> {
    match settings.kind {
        #[cfg(feature = "fleet-nats")]
        crate::FleetLogKind::Nats => Ok(Box::new(crate::nats::Nats::new(settings)?)),
        #[cfg(feature = "fleet-redis")]
        crate::FleetLogKind::Redis => Ok(Box::new(crate::redis::Redis::new(settings)?)),
        #[allow(unreachable_patterns, reason = "of builds that have all kinds")]
        kind => Err(format!("this program was built without {}", kind.name())),
    }
}

#[cfg(all(test, any(feature = "fleet-nats", feature = "fleet-redis")))]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_may_be_known_by() {
        assert_eq!(epoch_of("2026-11-28T05:00:00.1Z"), Ok("2026-11-28T05:00:00.1Z".to_owned()));
        for bad in ["", "a b", "\u{1b}[2J", "é", &"a".repeat(LONGEST_EPOCH + 1)] {
            assert!(epoch_of(bad).is_err(), "{bad:?}");
        }
    }
}
