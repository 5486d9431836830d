// SPDX-License-Identifier: BSD-2-Clause
//! Nonces that were used: each counts once, as long as its signature is valid. When there is no room, nothing is forgotten for a
//! new one. Each agent has a share of the room, so that none fills it for the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// Expired nonces that a call forgets at most.
const FEW: usize = 16;
/// Part of the room that one agent may have.
const SHARE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceUse {
    First,
    Again,
    NoRoom,
}

type Hash = [u8; 16];

pub(super) struct Nonces {
    most: usize,
    used: Mutex<UsedNonces>,
}

#[derive(Default)]
struct UsedNonces {
    /// Milliseconds since 1970 at which the signature has expired, by key and nonce.
    until: HashMap<Hash, u64>,
    /// The same, with the owners, in the order of the times.
    order: BinaryHeap<Reverse<(u64, Hash, Hash)>>,
    owners: HashMap<Hash, usize>,
}

impl Nonces {
    pub(super) fn new(most: usize) -> Self {
        Nonces { most, used: Mutex::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Uses a nonce of a key. `owner` is whose share it takes: an agent, or a key without one. Times are seconds since 1970.
    pub(super) fn spend(&self, owner: &str, keyid: &str, nonce: &str, expires: f64, now: f64) -> NonceUse {
        let (owner, hash) = (hash(owner, ""), hash(keyid, nonce));
        let (until, now) = ((expires * 1000.0).ceil() as u64, (now * 1000.0) as u64);
        let mut used = self.used.lock();
        used.forget_expired(now);
        if used.until.get(&hash).is_some_and(|until| now <= *until) {
            return NonceUse::Again;
        }
        let share = (self.most / SHARE).max(1);
        // More than the room are there for as long as expired ones are left.
        if used.order.len() >= self.most || used.owners.get(&owner).is_some_and(|count| *count >= share) {
            return NonceUse::NoRoom;
        }
        used.until.insert(hash, until);
        used.order.push(Reverse((until, hash, owner)));
        *used.owners.entry(owner).or_default() += 1;
        NonceUse::First
    }
}

impl UsedNonces {
    fn forget_expired(&mut self, now: u64) {
        for _ in 0..FEW {
            if self.order.peek().is_none_or(|Reverse((until, ..))| now <= *until) {
                return;
            }
            let Some(Reverse((until, hash, owner))) = self.order.pop() else { return };
            // The nonce may have been used again after it expired.
            if self.until.get(&hash) == Some(&until) {
                self.until.remove(&hash);
            }
            if let Some(count) = self.owners.get_mut(&owner) {
                *count -= 1;
                if *count == 0 {
                    self.owners.remove(&owner);
                }
            }
        }
    }
}

fn hash(one: &str, other: &str) -> Hash {
    let hash = Sha256::new().chain_update((one.len() as u64).to_be_bytes()).chain_update(one).chain_update(other);
    hash.finalize()[..16].try_into().expect("16 of 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_counts_once_while_its_signature_is_valid() {
        let nonces = Nonces::new(8);
        let spend = |keyid: &str, nonce: &str, expires, now| nonces.spend("a.test", keyid, nonce, expires, now);
        assert_eq!(spend("k", "a", 10.0, 1.0), NonceUse::First);
        assert_eq!(spend("k", "a", 10.0, 10.0), NonceUse::Again);
        assert_eq!(spend("ka", "", 10.0, 1.0), NonceUse::First);
        assert_eq!(spend("k", "b", 10.0, 2.0), NonceUse::NoRoom);
        assert_eq!(spend("k", "a", 10.0, 2.0), NonceUse::Again);
        assert_eq!(spend("k", "b", 30.0, 10.5), NonceUse::First);
        assert_eq!(spend("k", "a", 30.0, 10.5), NonceUse::First);
    }

    #[test]
    fn no_agent_takes_the_room_of_another() {
        let nonces = Nonces::new(8);
        let spend = |owner: &str, n: usize| nonces.spend(owner, owner, &n.to_string(), 10.0, 1.0);
        assert_eq!((0..100).filter(|n| spend("a", *n) == NonceUse::First).count(), 2);
        assert_eq!(["b", "c", "d", "e"].map(|owner| spend(owner, 0) == NonceUse::First), [true; 4]);
        assert_eq!([spend("b", 1), spend("c", 1), spend("d", 1)], [NonceUse::First, NonceUse::First, NonceUse::NoRoom]);
    }

    /// Expired nonces are found wherever they are.
    #[test]
    fn a_full_table_has_room_when_one_has_expired() {
        const MOST: usize = 4000;
        let nonces = Nonces::new(MOST);
        let spend = |n: usize, expires, now| nonces.spend(&(n % 8).to_string(), "k", &n.to_string(), expires, now);
        for n in 0..MOST {
            let expires = if n == MOST / 2 { 10.0 } else { 100.0 };
            assert_eq!(spend(n, expires, 1.0), NonceUse::First);
        }
        assert_eq!(spend(MOST, 100.0, 10.0), NonceUse::NoRoom);
        assert_eq!(spend(MOST, 100.0, 11.0), NonceUse::First);
        assert_eq!(spend(MOST + 8, 100.0, 11.0), NonceUse::NoRoom);
        assert_eq!(spend(MOST + 8, 200.0, 101.0), NonceUse::First);
    }
}
