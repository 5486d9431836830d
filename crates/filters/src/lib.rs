// SPDX-License-Identifier: BSD-2-Clause
//! What happens to a body between backend and storage (fetch) and between storage and client (deliver).
//!
//! Sans-IO: a [`Chain`] takes slices and fills slices, a bounded amount of work per call; the caller yields every few
//! calls ([`Chain::take_micros`]). A body that unpacks to a million times its size is therefore just many calls. Knows no socket, clock or head:
//! what a filter changes in the head is handed out as [`Edit`]s.
//!
//! What modules inject ([`InjectedFilters`]) runs in the same chain, by its name in the list ([`FilterList`]).
//!
//! To add a filter: add a file and a [`FilterName`] variant. One that makes or undoes a further coding also needs the arms
//! of [`message::Coding`] in `fetch`, `deliver` and `list`.
//!
//! ```text
//! fetch:    list = default_fetch(..) or beresp.filters; open_fetch(list, ..) -> edits, chain
//!           loop chain.step(input, is_end, storage space) -> consumed, produced, state
//! deliver:  list = default_deliver(..) or resp.filters; open_deliver(list, ..) -> edits, length, chain
//! ```

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod chain;
mod codec;
mod deliver;
mod error;
mod esi_fetch;
mod fetch;
mod gunzip;
mod gzip;
mod inflate;
mod injected;
mod list;
mod packer;
mod range;
mod recode;
mod room;
mod scan;
mod step;
pub mod stitch;
mod test_gunzip;

pub use chain::{Chain, FilterAcct};
pub use codec::{PackParams, Packed, RawDictionary, memory_held, memory_refused, pack_against, set_memory_limit};
pub use deliver::{DeliverFacts, DeliverInput, DeliverOpened, RangeVerdict, default_deliver, open_deliver};
pub use error::{ChainOpenError, FilterError};
pub use fetch::{FetchFacts, FetchInput, FetchOpened, Recode, default_fetch, open_fetch};
pub use gunzip::Gunzip;
pub use gzip::{Gzip, GzipParams};
pub use injected::{CacheSide, InjectedFilters};
pub use list::{FilterList, FilterName, FilterNames};
pub use range::{Multipart, PartHeads, RangeFilter, RangePart};
pub use recode::{Check, Pack, Unpack};
pub use room::with_room;
pub use scan::GzipScan;
pub use step::{Edit, Filter, FilterNote, FilterState, FilterStep, GzipBits, SLICE, Subrequest, UNPACKED_A_MICRO};
pub use test_gunzip::TestGunzip;

pub fn trim() {
    packer::trim();
    inflate::trim();
    room::trim();
}

#[cfg(test)]
mod tests;
