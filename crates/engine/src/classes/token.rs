// SPDX-License-Identifier: BSD-2-Clause
//! Tokens of the waiting room: a place, signed together with the name of its class by the manager's key (HMAC-SHA-256,
//! truncated to 128 bits). A place consists of the time of its visitor's first arrival in milliseconds and a number
//! that distinguishes those of the same millisecond.
//!
//! A token contains nothing that its owner couldn't know, and is good for one use of that place, since the room has a
//! list of its places. Only tokens from before this worker's start are accepted without being on the list, so that
//! nobody loses a place when a worker dies.

use base::{Real, hex};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bits of a place that distinguish those of the same millisecond.
const SERIAL_BITS: u32 = 20;
/// Seconds for which a token is valid after its visitor first came.
const LIFETIME_SECONDS: f64 = 6.0 * 3600.0;
const KEY_BYTES: usize = 8;
const MAC_BYTES: usize = 16;

/// A place in the order of arrival.
pub(super) fn key(came: Real, serial: u64) -> u64 {
    ((came.0 * 1e3).max(0.0) as u64) << SERIAL_BITS | (serial & ((1 << SERIAL_BITS) - 1))
}

fn seconds(key: u64) -> f64 {
    (key >> SERIAL_BITS) as f64 / 1e3
}

pub(super) struct Tokens {
    secret: [u8; 32],
    born: Real,
}

impl Tokens {
    pub fn new(secret: [u8; 32], born: Real) -> Self {
        Tokens { secret, born }
    }

    fn mac(&self, class: &str, key: u64) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(b"lacquer waiting room\0");
        mac.update(class.as_bytes());
        mac.update(&[0]);
        mac.update(&key.to_be_bytes());
        mac
    }

    pub fn write(&self, class: &str, key: u64) -> String {
        let mac = self.mac(class, key).finalize().into_bytes();
        hex::encode(&[&key.to_be_bytes(), &mac[..MAC_BYTES]].concat())
    }

    /// The place that a token is for, if it is one of ours and still good.
    pub fn read(&self, class: &str, token: &[u8], now: Real) -> Option<u64> {
        if token.len() != 2 * (KEY_BYTES + MAC_BYTES) {
            return None;
        }
        let bytes = hex::decode(token)?;
        let (key, mac) = bytes.split_first_chunk::<KEY_BYTES>()?;
        let key = u64::from_be_bytes(*key);
        if self.mac(class, key).verify_truncated_left(mac).is_err() {
            return None;
        }
        (seconds(key) + LIFETIME_SECONDS >= now.0).then_some(key)
    }

    /// True if the place is older than this worker.
    pub fn is_former(&self, key: u64) -> bool {
        seconds(key) < self.born.0
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Real = Real(1_800_000_000.0);

    fn tokens() -> Tokens {
        Tokens::new([7; 32], Real(1_800_000_000.5))
    }

    #[test]
    fn a_token_is_for_one_class_and_expires() {
        let (tokens, key) = (tokens(), key(NOW, 5));
        let token = tokens.write("dear", key);
        let read = |class, now| tokens.read(class, token.as_bytes(), now);
        assert_eq!((read("dear", NOW), read("dea", NOW), token.len()), (Some(key), None, 48));
        assert_eq!(read("dear", NOW.plus(LIFETIME_SECONDS)), Some(key));
        assert_eq!(read("dear", NOW.plus(LIFETIME_SECONDS + 1.0)), None);
        assert_eq!(Tokens::new([8; 32], NOW).read("dear", token.as_bytes(), NOW), None, "another key");
        assert!(tokens.is_former(key) && !tokens.is_former(super::key(NOW.plus(0.5), 0)));
    }

    #[test]
    fn places_are_in_the_order_of_time() {
        assert!(key(NOW, 9) < key(NOW, 10) && key(NOW, u64::MAX) < key(NOW.plus(0.001), 0));
    }

    proptest! {
        #[test]
        fn nothing_but_a_token_is_one(at in 0..48usize, to in "[0-9a-fA-F]", text in "[0-9a-f]{0,60}") {
            let (tokens, key) = (tokens(), key(NOW, 1));
            let mut token = tokens.write("dear", key);
            let changes = !token[at..=at].eq_ignore_ascii_case(&to);
            token.replace_range(at..=at, &to);
            prop_assert_eq!(tokens.read("dear", token.as_bytes(), NOW), (!changes).then_some(key));
            prop_assert_eq!(tokens.read("dear", text.as_bytes(), NOW), None);
        }
    }
}
