// SPDX-License-Identifier: BSD-2-Clause
//! Challenge and response: who knows the secret file's content proves it without sending it.

use sha2::{Digest, Sha256};

use crate::reply::{CliReply, CliStatus};

pub const CHALLENGE_LEN: usize = 32;
pub const SECRET_LEN: usize = 256;

/// A challenge: 32 lower-case letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CliChallenge([u8; CHALLENGE_LEN]);

impl CliChallenge {
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; CHALLENGE_LEN];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self::from_random(bytes))
    }

    pub fn from_random(bytes: [u8; CHALLENGE_LEN]) -> Self {
        Self(bytes.map(|b| b'a' + b % 26))
    }

    /// The one in the body of a 107 reply.
    pub fn from_reply(body: &[u8]) -> Option<Self> {
        body.get(..CHALLENGE_LEN)?.try_into().ok().map(Self)
    }

    pub fn reply(&self) -> CliReply {
        let mut body = self.0.to_vec();
        body.extend_from_slice(b"\n\nAuthentication required.\n");
        CliReply::new(CliStatus::Auth, body)
    }

    /// The answer that proves knowledge of `secret`, the whole content of the file: 64 hex digits.
    pub fn answer(&self, secret: &[u8]) -> String {
        let mut hash = Sha256::new();
        for part in [&self.0[..], b"\n", secret, &self.0[..], b"\n"] {
            hash.update(part);
        }
        base::hex::encode(&hash.finalize())
    }

    /// True if `answer` proves it. Takes as long for a wrong answer as for a right one.
    pub fn is_answered_by(&self, answer: &[u8], secret: &[u8]) -> bool {
        let right = self.answer(secret);
        let differences = right.bytes().zip(answer).fold(0, |d, (r, a)| d | (r ^ a.to_ascii_lowercase()));
        answer.len() == right.len() && differences == 0
    }
}

pub fn new_secret() -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; SECRET_LEN];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        // sha256sum of "a..a\nfoo\na..a\n" with 32 letters each.
        let challenge = CliChallenge::from_random([0; 32]);
        let reply = challenge.reply();
        assert!(reply.body.starts_with(&[b'a'; 32]) && reply.body.ends_with(b"\n\nAuthentication required.\n"));
        assert_eq!(CliChallenge::from_reply(&reply.body), Some(challenge));
        let answer = challenge.answer(b"foo\n");
        assert_eq!(answer, EXAMPLE);
        assert!(challenge.is_answered_by(answer.to_uppercase().as_bytes(), b"foo\n"));
        assert!(!challenge.is_answered_by(answer.as_bytes(), b"bar\n"));
        assert!(
            !challenge.is_answered_by(b"", b"foo\n") && !challenge.is_answered_by(&answer.as_bytes()[..63], b"foo\n")
        );
        assert_eq!(new_secret().unwrap().len(), 256);
        assert!(CliChallenge::random().unwrap().0.iter().all(u8::is_ascii_lowercase));
    }

    const EXAMPLE: &str = "6b75a2ffc6d8171e81174de948a4756b2940c0087c8a32df4efad2bf6a120db5";
}
