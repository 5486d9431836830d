// SPDX-License-Identifier: BSD-2-Clause
//! HTTP messages as data: ordered, case-keeping header lists; dates, Cache-Control, codings, ranges, conditionals, Vary, freshness,
//! and caching by the letter of RFC 9111.
//!
//! Nothing here knows a socket or a clock: times come in as [`base::clock::Real`].

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]
#![warn(missing_docs)]

pub mod authority;
pub mod cache_control;
pub mod chars;
pub mod coding;
pub mod conditional;
pub mod cookies;
pub mod date;
pub mod dictionary;
pub mod digest;
pub mod encoding;
pub mod forwarded;
pub mod freshness;
pub mod head;
pub mod hop;
pub mod incremental;
pub mod liked;
pub mod links;
pub mod list;
pub mod name_list;
pub mod names;
pub mod query;
pub mod range;
pub mod rfc9111;
pub mod signature;
pub mod status;
mod structured;
pub mod tag_fields;
pub mod tags;
pub mod tenants;
pub mod trace_context;
pub mod ttl_rules;
pub mod url_pattern;
pub mod vary;

pub use coding::{Coding, Codings};
pub use head::{Field, Fields, Head, HeadLimits, HttpVersion, LostHeader};
pub use liked::Liked;
