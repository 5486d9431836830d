// SPDX-License-Identifier: BSD-2-Clause
//! What the tools that read the log do alike: options, following a workdir or a file, grouping records into
//! transactions, queries (vsl-query(7)), filters and the text of records.
//!
//! All that is read, of a ring, a file or a query, may be nonsense: it costs a record or gives an error, never a crash.

#![allow(clippy::disallowed_methods, reason = "beside the traffic: no simulation moves its time")]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod getopt;
pub mod group;
mod handling;
pub mod live;
pub mod names;
pub mod number;
pub mod output;
pub mod print;
pub mod program;
pub mod query;
pub mod receiver;
pub mod record;
pub mod redact;
pub mod rows;
pub mod select;
pub mod source;
pub mod tool;
pub mod version;

pub use group::{BeginReason, Grouping, Txn, TxnType};
pub use handling::Handling;
pub use query::Query;
pub use record::{Rec, records};
pub use redact::Redaction;
pub use select::Select;
pub use tool::{Flow, LogTool, ToolSink};
