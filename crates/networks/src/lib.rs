// SPDX-License-Identifier: BSD-2-Clause
//! Addresses as logs write them, and which network and country they belong to, by files that people have. Nothing is asked
//! of the net.

mod address;
mod database;
mod published;
mod ranges;

pub use address::{address, masked};
pub use database::{AddressOrigin, Country, Database, country_of};
pub use published::PublishedRanges;
