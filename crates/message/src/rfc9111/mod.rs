// SPDX-License-Identifier: BSD-2-Clause
//! HTTP caching by the letter of RFC 9111, for a shared cache: what may be stored, how long it is fresh, when it may be served
//! stale, what a request asks of the cache, what an unsafe request invalidates; with RFC 5861 (stale-while-revalidate,
//! stale-if-error), RFC 9213 (targeted fields), RFC 9875 (cache groups) and No-Vary-Search.
//!
//! This is the policy of `feature=+rfc9111`; what Varnish does without it is [`crate::freshness`]. Fields are read into types
//! once, and decisions are functions of those and of given times.

mod directives;
mod groups;
mod lifetime;
mod location;
mod query;
mod selecting;
mod stale;
mod storing;
mod updating;

pub use directives::{RequestDirectives, ResponseDirectives};
pub use groups::{group_tags, invalidated_group_tags};
pub use lifetime::{ExchangeTimes, Lifetime, initial_age, lenient_date, lifetime};
pub use location::{is_safe, location, locations, normal_host};
pub(crate) use query::decode_form;
pub use query::{QueryVariance, path};
pub use selecting::{key, matches, values};
pub use stale::{StaleCause, is_outdated, may_serve_stale};
pub use storing::{ResponseLives, Storing, StoringRefusal, StoringRules, judge};
pub use updating::updated;
