// SPDX-License-Identifier: BSD-2-Clause
//! The board beside the log: what nodes tell each other that isn't an entry of the log. It is kept by the same server, and is of two kinds:
//!
//! * **reports**: how each node fares, one a node, written anew every second. A report that isn't is old: its age is told by the server's
//!   clock alone, so that clocks of nodes needn't agree. The server forgets it after [`FORGOTTEN`].
//! * **documents**: what was decided for all, a few, which last. One is only ever replaced by who has seen what it replaces.
//!
//! Nothing of the log depends on it.

use std::time::Duration;

use crate::LinkFault;

/// A node whose report is older is away.
pub const LEASE: Duration = Duration::from_secs(5);
/// A report that is older is forgotten: the node isn't of the fleet any more.
pub const FORGOTTEN: Duration = Duration::from_secs(600);
pub const LONGEST_REPORT: usize = 16 << 10;
/// The longest document, in bytes: servers of NATS take messages of a megabyte unless told otherwise.
pub const LONGEST_DOCUMENT: usize = 768 << 10;
pub const MOST_REPORTS: usize = 4096;
/// The longest name of a node, in bytes. Whoever may write to the board may write any.
pub const LONGEST_NAME: usize = 255;

/// A node's report, and its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub node: String,
    pub bytes: Vec<u8>,
    pub age: Duration,
}

/// A connection to the server that keeps the board. Every call ends within a few seconds.
pub trait Board: Send {
    /// Writes this node's report, in the place of its last one: what stood there, as far as the server tells, which may be another's of the
    /// same name. `None`: nothing that is known.
    ///
    /// # Errors
    /// It may not be there.
    fn report(&mut self, node: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, LinkFault>;

    /// The reports of all nodes that aren't forgotten, one's own last one among them, in the order of their names.
    ///
    /// # Errors
    /// The server is gone or hangs.
    fn reports(&mut self) -> Result<Vec<Posted>, LinkFault>;

    /// A document; `None`: there is none of that name. It may be some moments old where several servers keep it.
    ///
    /// # Errors
    /// The server is gone or hangs.
    fn document(&mut self, name: &str) -> Result<Option<Vec<u8>>, LinkFault>;

    /// Writes a document in the place of one that says `was`, or of none; whether it did: `false`, if another one is there.
    ///
    /// # Errors
    /// It may be there or not.
    fn replace(&mut self, name: &str, was: Option<&[u8]>, bytes: &[u8]) -> Result<bool, LinkFault>;
}

/// A name in letters that may stand in subjects and keys: others are written as `=2E`.
#[cfg(any(feature = "fleet-nats", feature = "fleet-redis"))]
pub(crate) fn token(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => out.push(byte.into()),
            _ => out.push_str(&format!("={byte:02X}")),
        }
    }
    out
}

/// The name that was written so; `None`: none was.
#[cfg(any(feature = "fleet-nats", feature = "fleet-redis"))]
pub(crate) fn name_of(token: &str) -> Option<String> {
    let name = base::hex::unescape(token.as_bytes(), b'=').filter(|name| (1..=LONGEST_NAME).contains(&name.len()));
    String::from_utf8(name?).ok()
}

#[cfg(all(test, any(feature = "fleet-nats", feature = "fleet-redis")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_in_subjects() {
        assert_eq!(token("web-1.example org"), "web-1=2Eexample=20org");
        assert_eq!(["", "a=", "a=2", "a=zz", "=FF"].map(name_of), [None, None, None, None, None]);
        assert_eq!(name_of(&"a".repeat(LONGEST_NAME)).map(|name| name.len()), Some(LONGEST_NAME));
        assert_eq!(name_of(&"a".repeat(LONGEST_NAME + 1)), None);
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in ".{1,40}") {
            let token = token(&name);
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte)));
            prop_assert_eq!(name_of(&token), Some(name));
        }
    }
}
