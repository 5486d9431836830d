// SPDX-License-Identifier: BSD-2-Clause
//! VSL: the log, a ring of records in shared memory. [`LogRing`] is the ring, [`TxnLog`] gathers the records of one
//! transaction and writes them as a batch.

pub mod format;
mod gather;
pub mod layout;
pub mod num;
mod ring;
mod txn;

pub use format::{FormatStamp, LogFormat, LogNote, RecordParts};
pub use gather::{flush_gathered, gather_here};
pub use layout::{Marker, Record};
pub use ring::LogRing;
pub use txn::{RecordWriter, TxnLog};

#[cfg(test)]
mod tests;
