// SPDX-License-Identifier: BSD-2-Clause
//! Stores: where bodies and stored heads live, accounted to the byte. Knows bytes, never what a header is.
//!
//! * [`StoreSpec`] says what a store is to be (one `-s` of the command line); [`Stores`] are all of a worker's, Transient included.
//! * [`Store::block`] makes one right-sized allocation, accounted before it is made; [`Buf`] is a counted handle on a
//!   range of it (owned, `Send`). Its bytes stay accounted until the last handle is gone.
//! * [`BodyBlocks`] is the list of a body's blocks while it grows; [`Store::compact`] compacts it once it is whole.
//! * A store with an arena keeps records of its objects, which survive the worker ([`Store::keep`]).
//! * [`Record`] has all facts about an object beside its bytes. An arena keeps them as words, which [`Facts`] reads, a
//!   [`Home`] in its own format; an object without either has words of its own ([`OwnFacts`]).
//! * [`Home`] is the door to objects that aren't in memory; the memory of a store with a home is its front.
//! * [`journal`] keeps what invalidated objects, for a worker that finds those of a former one.
//!
//! A store that is full answers [`NoSpace`]; making room (eviction) is the business of `cache`.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]
#![warn(missing_docs)]

mod body;
mod buf;
mod compact;
pub mod home;
pub mod journal;
mod record;
mod records;
mod spec;
mod store;
mod stores;
mod tally;
mod times;

pub use body::{BodyBlocks, BodyPiece, piece_at};
pub use buf::Buf;
pub use compact::{Compact, HomeRest, Rest, SMALL_BODY};
pub use home::{CopyJudge, Home, HomeId, LoadFuture, StoreError, Stored, StoredBody, Writing};
pub use record::{Cursor, HeadLengths, Record, RecordId, StoreOpening, Survivor, Suspect};
pub use records::{Facts, OwnFacts};
pub use spec::StoreSpec;
pub use store::{MAX_BLOCK, NoSpace, Store, StoreId};
pub use stores::Stores;
pub use tally::StoreTally;
pub use times::ObjectTimes;

#[cfg(test)]
mod tests;
