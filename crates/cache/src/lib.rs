// SPDX-License-Identifier: BSD-2-Clause
//! The cache core: digest, objhead, objcore, boc, lookup, waitinglist, vary, expiry, eviction, bans, purge.
//!
//! Knows neither HTTP versions nor VCL: what it must know of a request, a stored head or a regular expression comes in
//! through [`CacheRequest`], [`HeadReader`] and [`Regexes`]. It wakes through `std::task::Waker` only.
//!
//! ```text
//! Search::look -> Pending                await it, then Search::look_again
//!              |  Ready:
//!                 Hit(ObjRef)            a fresh object (it may still be streaming: ObjRef::reader follows it)
//!              |  Grace{stale, busy}     stale within grace; whoever gets `busy` fetches in the background
//!              |  Miss(Busy)             the right, and duty, to fetch
//!              |  MissStale{busy, stale} the same, with an older object to revalidate
//!              |  HitForMiss{busy, ..}   fetch, others don't wait for it
//!              |  HitForPass{..}         pass
//!              |  Refused                too many requests wait already
//! Busy: set_head -> start_stream -> append* -> [set_aux_attrs] -> finish | fail          (dropped = failed)
//! ```
//!
//! Lock order: shard -> { store's eviction list, ban list, tags } -> a home's locks; boc and waiter locks are leaves. No lock is held while a
//! regular expression runs, an object's memory is freed or a waker is called.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod admit;
mod adopt;
mod attrs;
mod audit;
mod ban;
mod boc;
mod busy;
mod cache;
mod dictionaries;
mod digest;
mod events;
mod evict;
mod expire;
mod footprint;
mod forms;
mod heap;
mod homes;
mod hottest;
mod journal;
mod lookup;
mod objcore;
mod objhead;
mod objref;
mod pending;
mod pressure;
mod purge;
mod request;
mod rows;
mod scan;
mod search;
mod succession;
mod tags;
mod tenants;
mod tombstones;
mod trace;
mod waiting;
mod worth;

pub use attrs::{Attrs, ObjectFlags, Reuse, VaryKey};
pub use audit::Audit;
pub use ban::{BAN_FIELDS, BanError, BanSpec, SpreadPlan, SpreadRow};
pub use boc::{BocState, FetchFailed};
pub use busy::{Busy, Unwanted, WrongLength};
pub use cache::{Cache, CacheConfig, CacheParams};
pub use dictionaries::{Dictionary, DictionaryMiss, DictionaryReader, DictionarySource, NoDictionary};
pub use digest::{Digest, DigestBuilder};
pub use events::{CacheEvent, EventTag, EventText};
pub use footprint::Footprint;
pub use forms::{Form, FormCoding, FormRight, NoForm};
pub use hottest::HotObject;
pub use journal::Replay;
pub use lookup::Found;
pub use objref::{BodyReadError, BodyReader, Finished, Headers, ObjRef};
pub use pending::{Awaits, Pending};
pub use purge::Purge;
pub use request::{CacheRegex, CacheRequest, HeadReader, NoRequest, Regexes};
pub use search::{Lookup, LookupOptions, Search, SearchReport};
pub use storage::ObjectTimes;
pub use tags::TagPurge;
pub use tenants::{Tenant, TenantCounterSet, TenantPublisher};
pub use tombstones::TombstoneCause;
pub use trace::{HashVariants, LookupTrace, VariantSummary};
pub use waiting::Followed;

#[cfg(test)]
mod tests;
