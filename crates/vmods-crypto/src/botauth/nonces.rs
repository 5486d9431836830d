// SPDX-License-Identifier: BSD-2-Clause
//! Nonces that were used: each counts once, as long as its signature is valid. When there is no room, nothing is forgotten for a
//! new one.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use vmod_support::bounded::{BoundedMap, Worth};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceUse {
    First,
    Again,
    NoRoom,
}

pub(super) struct Nonces {
    most: usize,
    /// The time at which the signature has expired, in seconds since 1970, by keyid and nonce.
    used: Mutex<BoundedMap<[u8; 16], f64>>,
}

impl Nonces {
    pub(super) fn new(most: usize) -> Self {
        Nonces { most, used: Mutex::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.most > 0
    }

    pub(super) fn spend(&self, keyid: &str, nonce: &str, expires: f64, now: f64) -> NonceUse {
        let hash =
            Sha256::new().chain_update((keyid.len() as u64).to_be_bytes()).chain_update(keyid).chain_update(nonce);
        let key: [u8; 16] = hash.finalize()[..16].try_into().expect("16 of 32 bytes");
        let mut used = self.used.lock();
        if used.get(&key).is_some_and(|until| now <= *until) {
            return NonceUse::Again;
        }
        used.make_room(self.most, |until| if now > *until { Worth::Nothing } else { Worth::Kept });
        if used.len() >= self.most && !used.contains_key(&key) {
            return NonceUse::NoRoom;
        }
        used.insert(key, expires);
        NonceUse::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_counts_once_while_its_signature_is_valid() {
        let nonces = Nonces::new(2);
        assert_eq!(nonces.spend("k", "a", 10.0, 1.0), NonceUse::First);
        assert_eq!(nonces.spend("k", "a", 10.0, 10.0), NonceUse::Again);
        assert_eq!(nonces.spend("ka", "", 10.0, 1.0), NonceUse::First);
        assert_eq!(nonces.spend("k", "b", 10.0, 2.0), NonceUse::NoRoom);
        assert_eq!(nonces.spend("k", "a", 10.0, 2.0), NonceUse::Again);
        assert_eq!(nonces.spend("k", "b", 30.0, 10.5), NonceUse::First);
        assert_eq!(nonces.spend("k", "a", 30.0, 10.5), NonceUse::First);
    }
}
