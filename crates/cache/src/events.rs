// SPDX-License-Identifier: BSD-2-Clause
//! What happened to objects on the side, for the log.

use base::Vxid;

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

impl std::fmt::Display for CacheEvent {
    /// The record's text as varnish-7.1 writes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Expired { xid, ttl_left } => write!(f, "EXP_Expired x={xid} t={ttl_left:.0}"),
            Self::Evicted(xid) => write!(f, "LRU x={xid}"),
            Self::NothingToEvict => write!(f, "LRU_Fail"),
            Self::NukeLimit => write!(f, "LRU reached nuke_limit"),
            Self::BannedByLookup(xid) => write!(f, "{xid} banned lookup"),
            Self::KilledByLookupLimit(xid) => write!(f, "{xid} killed for ban_lookup_limit"),
            Self::BannedByLurker(xid) => write!(f, "{xid} banned by lurker"),
            Self::KilledByCutoff(xid) => write!(f, "{xid} killed for lurker cutoff"),
        }
    }
}
