// SPDX-License-Identifier: BSD-2-Clause
//! The second tier of a fleet's caches: who its members are ([`Membership`]), and which of them owns a key ([`Ring`]).
//!
//! Nothing here asks anybody for an object, nor knows of requests.

mod hot;
mod joined;
mod membership;
mod ring;
mod settings;

pub use hot::HotKeys;
pub use joined::Joined;
pub use membership::{Dns, Fixed, Membership, OfFleet};
pub use ring::{Loads, Ring, Route};
pub use settings::{Member, PeerSettings};
