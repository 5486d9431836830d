// SPDX-License-Identifier: BSD-2-Clause
//! What several modules share, and no module itself: how a function fails (`args`), files that are read again once they
//! change (`files`), patterns compiled once (`pattern`), hashes by name (`hashing`), JSON values (`values`), whole bodies for
//! filters (`body_collector`); the HTTP client (`client`, over `talk` and `wire`), and backends without a connection (`local`).

pub(crate) mod args;
pub(crate) mod body_collector;
pub(crate) mod client;
pub(crate) mod files;
pub(crate) mod hashing;
pub(crate) mod local;
pub(crate) mod pattern;
pub(crate) mod talk;
pub(crate) mod values;
pub(crate) mod wire;
