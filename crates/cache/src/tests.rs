// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the cache as a whole.

mod adopt;
mod bans;
mod dictionaries;
mod evict_by;
mod fills;
mod forms;
mod homes;
mod journal;
mod kept;
mod kit;
mod line;
mod lookups;
mod model;
mod outgrow;
mod purges;
mod rooms;
mod spread;
mod stress;
mod succession;
mod tags;
mod tenants;
