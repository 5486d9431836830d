// SPDX-License-Identifier: BSD-2-Clause
//! HPACK (RFC 7541): field sections as they are sent.
//!
//! The decoder has the dynamic table that a peer compresses with, bounded by what we announced. The encoder has none: what it writes
//! depends on nothing that was written before, so that heads of many streams need no order and no memory.

mod decode;
mod dynamic;
mod encode;
mod statics;

pub use decode::{BadSection, HpackDecoder};
pub use encode::{HpackEncoder, field, status};
pub use statics::{FIRST_DYNAMIC, name_index, static_field};
