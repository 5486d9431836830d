// SPDX-License-Identifier: BSD-2-Clause
//! The key of a WebSocket handshake over HTTP/1 and what it is answered with (RFC 6455 4.1, 4.2.2). Here because random bytes and hashes are.

use base::base64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Suffix that a server hashes with a key to show that it speaks the protocol (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY_BYTES: usize = 16;

/// A key for one handshake (Sec-WebSocket-Key); None when the system has no random numbers.
pub fn key() -> Option<String> {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(base64::encode(&bytes))
}

/// The server's reply to a key (Sec-WebSocket-Accept).
pub fn accept(key: &str) -> String {
    base64::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn each_key_is_another() {
        let (one, other) = (key().unwrap(), key().unwrap());
        assert_eq!((one.len(), one == other), (24, false));
    }
}
