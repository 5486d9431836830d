// SPDX-License-Identifier: BSD-2-Clause
//! Parts that several modules of this crate use, and no module itself: patterns compiled once (`pattern`), files that are read again (`reloaded`), JSON values
//! (`values`), whole bodies for filters (`body_collector`); the HTTP client (`client`, over `talk`, `wire`, `sealed` and `tunnel`), and backends
//! without a connection (`local`). What modules of `vmods-crypto` need as well lies in `vmod-support`.

pub(crate) mod body_collector;
pub(crate) mod client;
pub(crate) mod local;
pub(crate) mod pattern;
pub(crate) mod reloaded;
pub(crate) mod sealed;
pub(crate) mod talk;
pub(crate) mod tunnel;
pub(crate) mod values;
pub(crate) mod wire;
