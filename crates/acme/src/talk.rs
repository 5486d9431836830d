// SPDX-License-Identifier: BSD-2-Clause
//! What manager and process say to each other over a socket pair: a line of JSON each. Both trust the other as much as themselves,
//! and bound what they read all the same.

use std::io;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::name::AcmeName;

/// Bytes of the longest line.
pub const LONGEST: usize = 64 << 20;

/// The proof by which a CA convinces itself that a name is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeKind {
    /// A request on port 80 (RFC 8555 8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// A handshake on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeKind {
    pub fn word(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// An answer that the worker has to show to the CA. Not a secret: anybody may ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeChallenge {
    pub kind: ChallengeKind,
    pub name: AcmeName,
    pub token: String,
    /// Token and thumbprint of the account's key.
    pub answer: String,
}

impl AcmeChallenge {
    /// True if its texts are of the characters that RFC 8555 8.1 allows, and of a sane length: they go into a command
    /// line.
    pub fn is_sane(&self) -> bool {
        let is_text = |text: &str, more: &[u8]| {
            (1..=512).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
        };
        is_text(&self.token, b"-_") && is_text(&self.answer, b"-_.")
    }
}

/// A name's standing. Kept beside its certificate, so that a restart begins no series of attempts anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NameStanding {
    /// Failures in a row.
    pub failures: u32,
    /// When it was tried last, in seconds since 1970.
    pub tried_at: Option<f64>,
    /// No attempt before then.
    pub next_at: Option<f64>,
    pub renew_at: Option<f64>,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Managed {
    pub name: AcmeName,
    /// The chain that there is, without the key.
    pub chain: Option<String>,
    pub standing: NameStanding,
}

/// Binding of the account to one that is there already (RFC 8555 7.3.4).
#[derive(Clone, Serialize, Deserialize)]
pub struct Binding {
    pub kid: String,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Binding({})", self.kid)
    }
}

/// All that the process needs to begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begin {
    pub directory: String,
    /// Certificates that are trusted for the way to it, in PEM; none: the system's.
    pub trusted: Option<String>,
    pub mail: Option<String>,
    pub binding: Option<Binding>,
    pub profile: Option<String>,
    /// Challenges that can be answered, the better one first.
    pub kinds: Vec<ChallengeKind>,
    pub retry: Duration,
    /// The account, as an earlier [`AcmeReport::Account`] gave it.
    pub account: Option<String>,
    pub names: Vec<Managed>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AcmeCommand {
    Begin(Box<Begin>),
    /// The thing asked for under that number is done, or couldn't be.
    Done {
        number: u64,
        error: Option<String>,
    },
    Renew(AcmeName),
    Add(Box<Managed>),
}

#[derive(Clone, Serialize, Deserialize)]
pub enum AcmeReport {
    /// Keep the account's credentials; a secret.
    Account(String),
    /// Have the worker answer this; [`AcmeCommand::Done`] is expected.
    Challenge(u64, AcmeChallenge),
    Over(AcmeChallenge),
    /// Store and use this one; [`AcmeCommand::Done`] is expected.
    Issued {
        number: u64,
        name: AcmeName,
        /// Key and chain in PEM; a secret.
        pem: String,
    },
    Standing(AcmeName, NameStanding),
    /// The CA can't be reached or doesn't work, or (`None`) does again.
    Ca(Option<String>),
}

impl std::fmt::Debug for AcmeReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No secret gets into a message by a slip.
        match self {
            AcmeReport::Account(_) => f.write_str("Account"),
            AcmeReport::Challenge(number, challenge) => write!(f, "Challenge({number}, {challenge:?})"),
            AcmeReport::Over(challenge) => write!(f, "Over({challenge:?})"),
            AcmeReport::Issued { number, name, .. } => write!(f, "Issued({number}, {name})"),
            AcmeReport::Standing(name, standing) => write!(f, "Standing({name}, {standing:?})"),
            AcmeReport::Ca(error) => write!(f, "Ca({error:?})"),
        }
    }
}

pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("our messages have text for keys");
    line.push(b'\n');
    line
}

#[derive(Debug, Default)]
pub struct TalkLines {
    bytes: Vec<u8>,
    seen: usize,
}

impl TalkLines {
    /// More was read.
    ///
    /// # Errors
    /// A line without an end.
    pub fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next message that is whole.
    ///
    /// # Errors
    /// It isn't one of ours.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(at) = self.bytes[self.seen..].iter().position(|&c| c == b'\n') else {
            self.seen = self.bytes.len();
            return Ok(None);
        };
        let end = self.seen + at;
        let message = serde_json::from_slice(&self.bytes[..end]).map_err(io::Error::other);
        self.bytes.drain(..=end);
        self.seen = 0;
        message.map(Some)
    }
}

/// The seconds since 1970.
pub fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

pub fn time(seconds: f64) -> SystemTime {
    let distance = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    SystemTime::UNIX_EPOCH.checked_add(distance).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn challenge() -> AcmeChallenge {
        let (token, answer) = ("abc_-1".to_owned(), "abc_-1.xyz".to_owned());
        AcmeChallenge { kind: ChallengeKind::Http01, name: AcmeName::parse("a.example").unwrap(), token, answer }
    }

    #[test]
    fn messages_come_out_as_they_went_in_whatever_the_pieces() {
        let sent = [AcmeReport::Challenge(7, challenge()), AcmeReport::Account("{\n}".into()), AcmeReport::Ca(None)];
        let bytes: Vec<u8> = sent.iter().flat_map(line).collect();
        for piece in 1..40 {
            let (mut lines, mut got) = (TalkLines::default(), Vec::new());
            for part in bytes.chunks(piece) {
                lines.feed(part).unwrap();
                while let Some(report) = lines.take::<AcmeReport>().unwrap() {
                    got.push(format!("{report:?}"));
                }
            }
            assert_eq!(got, sent.iter().map(|report| format!("{report:?}")).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_answer_that_could_be_more_than_one_word_is_not_sane() {
        assert!(challenge().is_sane());
        for token in ["", "a b", "a\nb", "a\"", "ä", "../x"] {
            assert!(!AcmeChallenge { token: token.into(), ..challenge() }.is_sane(), "{token}");
        }
        assert!(!AcmeChallenge { answer: "a".repeat(513), ..challenge() }.is_sane());
    }

    #[test]
    fn secrets_are_not_shown() {
        let issued = AcmeReport::Issued { number: 1, name: challenge().name, pem: "KEY".into() };
        assert_eq!(format!("{issued:?} {:?}", AcmeReport::Account("KEY".into())), "Issued(1, a.example) Account");
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut lines = TalkLines::default();
            lines.feed(&bytes).unwrap();
            while let Ok(Some(_)) = lines.take::<AcmeReport>() {}
        }
    }
}
