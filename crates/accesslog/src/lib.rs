// SPDX-License-Identifier: BSD-2-Clause
//! What logs of requests say, whoever wrote them: web servers' access logs in any format, lists of URLs, varnishlog's
//! files and running logs. Nothing is sent here.
//!
//! [`AccessSources::read`] gives one [`AccessEntry`] after the other; what can't be read is told as a [`Skip`] and never stops it.
//! [`Gathering`] does that for a tool that only adds up; [`Hitters`] are those that have most, of any number, told apart by [`GroupBy`].

#![allow(clippy::disallowed_methods, reason = "beside the traffic: no simulation moves its time")]

mod agents;
mod by;
mod clock;
mod columns;
mod distinct;
mod entry;
mod format;
mod gather;
mod hitters;
mod input;
mod ncsa;
pub mod options;
#[cfg(test)]
mod recorded;
mod sources;
mod syslog;
mod urls;
mod vsl;

pub use by::{Bits, GroupBy, GroupKeys};
pub use clock::EntryClock;
pub use entry::{
    AccessEntry, AccessField, ClassUse, EntryStamp, LineReading, Skip, handling_from_cache_status, handling_from_text,
};
pub use format::LogFormat;
pub use gather::{GatherMoment, Gathered, Gathering, progress};
pub use hitters::{Hitter, Hitters, HittersMeasure, Ranking, Sums};
pub use logq::Handling;
pub use options::Gathers;
pub use sources::{AccessSources, SourceItem};
pub use vsl::{of_group, of_transaction};
