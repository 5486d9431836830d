// SPDX-License-Identifier: BSD-2-Clause
//! The second tier of a fleet's caches: who its members are ([`Membership`]), and which of them owns a key ([`PeerRing`]).
//!
//! Nothing here asks anybody for an object, nor knows of requests.

mod hot;
mod joined;
mod membership;
mod ring;
mod settings;

pub use hot::HotKeys;
pub use joined::MembershipProof;
pub use membership::{Dns, Fixed, Membership, OfFleet};
pub use ring::{Loads, PeerRing, Route};
pub use settings::{PeerSettings, TierMember};
