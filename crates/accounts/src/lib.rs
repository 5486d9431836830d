// SPDX-License-Identifier: BSD-2-Clause
//! Cost accounts of clients and their groups, and the verdict whether a client reads or crawls. No HTTP, no clock and no thread: requests and
//! times come in, verdicts go out, so that the server, the simulator and the tools decide alike.
//!
//! Two things tell a crawler from a reader when it copies a browser's headers and changes its address. A reader asks for objects that others
//! ask for, too, so most of its requests are hits, or fetches that others use later. A crawler asks for URLs that nobody else wants. So one
//! share is measured: *solo* requests (fetches of objects that no other client has asked for) of all requests. A fetch stops to count as solo
//! once another client asks for the object.
//!
//! A client with few requests of its own is judged by its groups, from its prefix to all newcomers ([`Ledger::judge`]). Only a request that
//! needs the origin, for an object that nobody else has asked for, is ever held up. A flash crowd, a company behind one address and a fleet of
//! feed readers therefore pass: their objects are shared.
//!
//! [`CrawlBudget`] says how much of the origin's time crawlers may use.

mod account;
mod asked;
mod budget;
mod caller;
mod label;
mod ledger;
mod pace;
mod pressure;
mod shape;
mod verdict;

pub use account::{Level, LevelCosts};
pub use budget::{Admission, CrawlBudget, Overdrawn};
pub use caller::{Agents, Caller, CallerIds};
pub use label::Label;
pub use ledger::{FetchEnd, Ledger, LedgerSettings, Payer, TopAccounts};
pub use shape::{Ask, Origin, Shape};
pub use verdict::{BotClass, Reason, Verdict};

#[cfg(test)]
mod tests;
