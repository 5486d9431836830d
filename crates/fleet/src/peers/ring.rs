// SPDX-License-Identifier: BSD-2-Clause
//! Who owns a key: rendezvous hashing. Each member has a score for each key, by its name; the one with the highest score owns it. So a
//! member that comes or goes moves its own keys and no others, and nodes that know the same members agree without a word.
//!
//! Loads are bounded: who was asked for more than [`Loads::FACTOR`] times its share lately is passed by for a while, in the order of scores.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::TierMember;

#[derive(Clone, Debug, Default)]
pub struct PeerRing {
    members: Vec<TierMember>,
    seeds: Vec<u64>,
    own: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nobody: this node owns it.
    Own,
    /// Ask that member, by its index in [`PeerRing::members`].
    Ask(usize),
    Nobody,
}

impl PeerRing {
    /// A ring of these members; `own` is the name of this node, which may be none of them.
    pub fn new(mut members: Vec<TierMember>, own: &str) -> PeerRing {
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members.dedup_by(|a, b| a.name == b.name);
        let seeds = members.iter().map(|member| seed(member.name.as_bytes())).collect();
        let own = members.iter().position(|member| member.name == own);
        PeerRing { members, seeds, own }
    }

    pub fn members(&self) -> &[TierMember] {
        &self.members
    }

    pub fn own(&self) -> Option<usize> {
        self.own
    }

    /// Members by their claim on the key, the highest first.
    pub fn ranking(&self, key: &[u8; 32]) -> impl Iterator<Item = usize> {
        let halves =
            [0, 8].map(|at| u64::from_le_bytes(key[at..at + 8].try_into().expect("eight bytes of thirty-two")));
        let score = |(at, member): (usize, &TierMember)| (score(halves, self.seeds[at], member.weight), at);
        let mut scored: Vec<(f64, usize)> = self.members.iter().enumerate().map(score).collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, at)| at)
    }

    /// The member to ask for the key. `may_ask` tells who is there and not too busy; of a hot key the first two own it,
    /// and each node has one of them that it asks. A member behind this node in the order isn't asked.
    pub fn route(&self, key: &[u8; 32], is_hot: bool, mut may_ask: impl FnMut(usize) -> bool) -> Route {
        let mut owners = self.ranking(key).filter(|at| Some(*at) == self.own || may_ask(*at));
        let Some(first) = owners.next() else { return Route::Nobody };
        let owner = match is_hot.then(|| owners.next()).flatten() {
            _ if Some(first) == self.own => first,
            // The second one fetches for itself, as the first does.
            Some(second) if Some(second) == self.own => second,
            Some(second) if self.is_of_second_half(key) => second,
            _ => first,
        };
        if Some(owner) == self.own { Route::Own } else { Route::Ask(owner) }
    }

    /// Half of the nodes are, for each key.
    fn is_of_second_half(&self, key: &[u8; 32]) -> bool {
        self.own.is_some_and(|own| mix(self.seeds[own] ^ u64::from(key[16])) & 1 == 1)
    }
}

/// The weighted score of rendezvous hashing: weight / -ln(h), h drawn from (0, 1) by key and member.
fn score(key: [u64; 2], seed: u64, weight: f64) -> f64 {
    let hash = mix(mix(key[0] ^ seed).wrapping_add(key[1]));
    // 53 bits, and never 0 or 1.
    let drawn = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    weight / -drawn.ln()
}

fn seed(name: &[u8]) -> u64 {
    mix(name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)))
}

/// A bijection of 64 bits in which each bit of the input moves about half of the output's (the finalizer of MurmurHash3).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Number of requests that this node gave each member lately: halved each second.
#[derive(Debug, Default)]
pub struct Loads(Vec<AtomicU32>);

impl Loads {
    /// Largest load of a member, relative to its share.
    pub const FACTOR: f64 = 1.25;
    /// A member that has less is never passed by: few draws of evenly spread keys stray far.
    pub const FLOOR: u32 = 512;

    pub fn new(count: usize) -> Loads {
        Loads((0..count).map(|_| AtomicU32::new(0)).collect())
    }

    /// True if the member may have one more, whose share of all is `share` (1/N with equal weights). `floor` as
    /// [`Loads::FLOOR`].
    pub fn may_take(&self, member: usize, share: f64, floor: u32) -> bool {
        let Some(own) = self.0.get(member).map(|load| load.load(Relaxed).saturating_add(1)) else { return true };
        if own <= floor {
            return true;
        }
        let all: u64 = self.0.iter().map(|load| u64::from(load.load(Relaxed))).sum();
        f64::from(own) <= (Self::FACTOR * share * (all + 1) as f64).ceil()
    }

    pub fn take(&self, member: usize) {
        if let Some(load) = self.0.get(member) {
            load.fetch_add(1, Relaxed);
        }
    }

    /// A second has passed.
    pub fn halve(&self) {
        self.0.iter().for_each(|load| _ = load.try_update(Relaxed, Relaxed, |load| Some(load / 2)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LogServer;

    fn members(count: usize) -> Vec<TierMember> {
        let server = LogServer { host: "h".to_owned(), port: 1 };
        (0..count).map(|n| TierMember { name: format!("node-{n}"), server: server.clone(), weight: 1.0 }).collect()
    }

    /// Keys as digests are: evenly drawn.
    fn keys(count: u64) -> impl Iterator<Item = [u8; 32]> {
        (0..count).map(|n| {
            let mut key = [0; 32];
            for part in 0..4 {
                key[part * 8..part * 8 + 8].copy_from_slice(&mix(n * 4 + part as u64 + 1).to_le_bytes());
            }
            key
        })
    }

    fn owner<'a>(ring: &'a PeerRing, key: &[u8; 32]) -> &'a str {
        &ring.members()[ring.ranking(key).next().unwrap()].name
    }

    #[test]
    fn a_node_more_or_less_moves_its_own_keys_and_no_others() {
        const KEYS: u64 = 1_000_000;
        let (ten, eleven) = (PeerRing::new(members(10), ""), PeerRing::new(members(11), ""));
        let mut counts = std::collections::HashMap::<&str, u64>::new();
        let mut moved = 0;
        for key in keys(KEYS) {
            let (before, after) = (owner(&ten, &key), owner(&eleven, &key));
            *counts.entry(before).or_default() += 1;
            if before != after {
                assert_eq!(after, "node-10", "a key goes to the node that has come, or stays");
                moved += 1;
            }
        }
        // One more: 1/11 of the keys; one less is the same the other way round, from eleven to ten.
        let share = moved as f64 / KEYS as f64 * 11.0;
        assert!((0.9..=1.1).contains(&share), "{share} of 1/N were moved");
        let most = *counts.values().max().unwrap() as f64 / (KEYS as f64 / 10.0);
        assert!(most <= 1.25, "{most} of the mean");
    }

    #[test]
    fn bounded_loads_stay_within_their_bound_however_uneven_keys_are() {
        let ring = PeerRing::new(members(10), "");
        let loads = Loads::new(10);
        let keys: Vec<_> = keys(1000).collect();
        let mut counts = [0_u32; 10];
        for n in 0..1_000_000_u64 {
            // Half of all requests are for the first three keys.
            let key = if n % 2 == 0 { &keys[(n / 2 % 3) as usize] } else { &keys[(mix(n) % 1000) as usize] };
            let Route::Ask(at) = ring.route(key, false, |at| loads.may_take(at, 0.1, 0)) else {
                panic!("somebody is there")
            };
            loads.take(at);
            counts[at] += 1;
        }
        let most = f64::from(*counts.iter().max().unwrap()) / 100_000.0;
        assert!(most <= 1.2501, "{most} of the mean");
    }

    #[test]
    fn weights_are_shares() {
        let mut some = members(2);
        some[0].weight = 3.0;
        let ring = PeerRing::new(some, "");
        let of_first = keys(100_000).filter(|key| owner(&ring, key) == "node-0").count();
        assert!((0.74..0.76).contains(&(of_first as f64 / 100_000.0)), "{of_first}");
    }

    #[test]
    fn a_hot_key_has_two_owners_and_all_ask_one_of_these() {
        for key in keys(1000) {
            let all = PeerRing::new(members(8), "");
            let two: Vec<usize> = all.ranking(&key).take(2).collect();
            let mut asked = [0, 0];
            for node in 0..8 {
                let ring = PeerRing::new(members(8), &format!("node-{node}"));
                match ring.route(&key, true, |_| true) {
                    Route::Own => assert!(two.contains(&node)),
                    Route::Ask(at) => asked[two.iter().position(|one| *one == at).unwrap()] += 1,
                    Route::Nobody => panic!("all are there"),
                }
            }
            assert_eq!(asked[0] + asked[1], 6);
        }
    }

    proptest! {
        /// Whoever is away: nobody asks a member that has a lesser claim than its own, so no two ask each other.
        #[test]
        fn two_nodes_never_ask_each_other(number in any::<u64>(), away in any::<[u8; 2]>(), hot in any::<bool>()) {
            let key = keys(number % 1000 + 1).last().unwrap();
            let route = |node: usize, away: u8| {
                let ring = PeerRing::new(members(8), &format!("node-{node}"));
                ring.route(&key, hot, |at| away >> at & 1 == 0)
            };
            let rank = |node: usize| PeerRing::new(members(8), "").ranking(&key).position(|at| at == node);
            for node in 0..8 {
                if let Route::Ask(at) = route(node, away[0]) {
                    if !hot {
                        prop_assert!(rank(at) < rank(node));
                    }
                    if route(at, away[1]) == Route::Ask(node) {
                        // Only where they differ in who is away, of a hot key's two owners: what a node does then is its engine's affair.
                        prop_assert!(hot && away[0] != away[1]);
                    }
                }
            }
        }
    }
}
