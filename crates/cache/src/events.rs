// SPDX-License-Identifier: BSD-2-Clause
//! What happened to objects on the side, for the log.

use std::fmt;

use base::Vxid;
use tables::Compat;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventTag {
    /// An object went for its age or for room.
    ExpKill,
    /// An object went for a ban.
    ExpBan,
}

/// Something that happened to an object other than the one asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CacheEvent {
    /// The object's time was over; `ttl_left` in seconds is mostly negative.
    Expired {
        xid: Vxid,
        ttl_left: f64,
        hits: u32,
        /// A purge ended it before its time.
        is_purged: bool,
    },
    Evicted(Vxid),
    NothingToEvict,
    NukeLimit,
    BannedByLookup(Vxid),
    /// A lookup would have had to test it against more bans than `ban_lookup_limit`.
    KilledByLookupLimit(Vxid),
    BannedByLurker(Vxid),
    /// The lurker killed it because its ban is further down than `ban_cutoff`.
    KilledByCutoff(Vxid),
}

impl CacheEvent {
    pub fn tag(&self) -> EventTag {
        match self {
            Self::Expired { .. } | Self::Evicted(_) | Self::NothingToEvict | Self::NukeLimit => EventTag::ExpKill,
            Self::BannedByLookup(_)
            | Self::KilledByLookupLimit(_)
            | Self::BannedByLurker(_)
            | Self::KilledByCutoff(_) => EventTag::ExpBan,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct EventText(CacheEvent, Compat);

impl CacheEvent {
    pub fn text(self, compat: Compat) -> EventText {
        EventText(self, compat)
    }
}

impl fmt::Display for EventText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CacheEvent::Expired { xid, ttl_left, hits, is_purged } => {
                let word = if is_purged && self.1.is_9() { "EXP_Removed" } else { "EXP_Expired" };
                write!(f, "{word} x={xid} t={ttl_left:.0}")?;
                if self.1.is_9() { write!(f, " h={hits}") } else { Ok(()) }
            }
            CacheEvent::Evicted(xid) => write!(f, "LRU x={xid}"),
            CacheEvent::NothingToEvict => write!(f, "LRU_Fail"),
            CacheEvent::NukeLimit => write!(f, "LRU reached nuke_limit"),
            CacheEvent::BannedByLookup(xid) => write!(f, "{xid} banned lookup"),
            CacheEvent::KilledByLookupLimit(xid) => write!(f, "{xid} killed for ban_lookup_limit"),
            CacheEvent::BannedByLurker(xid) => write!(f, "{xid} banned by lurker"),
            CacheEvent::KilledByCutoff(xid) => write!(f, "{xid} killed for lurker cutoff"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_9_says_more_of_expiry() {
        let event = |is_purged| CacheEvent::Expired { xid: Vxid(7), ttl_left: -0.6, hits: 3, is_purged };
        let both = |event: CacheEvent| Compat::ALL.map(|compat| event.text(compat).to_string());
        assert_eq!(both(event(false)), ["EXP_Expired x=7 t=-1", "EXP_Expired x=7 t=-1 h=3"]);
        assert_eq!(both(event(true)), ["EXP_Expired x=7 t=-1", "EXP_Removed x=7 t=-1 h=3"]);
        assert_eq!(both(CacheEvent::Evicted(Vxid(7))), ["LRU x=7", "LRU x=7"]);
    }
}
