// SPDX-License-Identifier: BSD-2-Clause
//! The header by which a member of the tier recognizes another member's request. It has the names of both nodes, the
//! time, the position up to which the fleet's log must have been carried out, and a code over these and the request's
//! target that only a member can make (HMAC-SHA256 with the members' common secret).
//!
//! A list of addresses would be weaker: behind a proxy or on one machine clients and members share addresses. The
//! secret itself is never sent. Someone who intercepts a header can send the same request for the same target to the
//! same node for a minute, and no other.
//!
//! ```text
//! Lacquer-Peer: 1 from=a to=b at=1764260000.250 log=3f2a...:17 mac=9c..
//! Lacquer-Peer: 1 from=a to=b at=1764260000.250 log=- newer=12.500 mac=9c..
//! Lacquer-Peer: 1 from=a to=b at=1764260000.250 log=- wants=stored mac=9c..
//! ```

use ::fleet::LogPosition;
use base::{Real, hex};
use hmac::{Hmac, KeyInit, Mac};
use message::{Head, names};
use sha2::Sha256;

/// The request header that authenticates a peer's request.
pub(crate) const LACQUER_PEER: &str = "Lacquer-Peer";
/// Seconds by which the clocks of two members may differ, both ways.
const SKEW: f64 = 60.0;
const MAC_BYTES: usize = 16;
/// Length of the longest header value accepted.
const LONGEST: usize = 512;

/// The key that the members share.
pub(crate) struct TierSecret(Vec<u8>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hop {
    pub from: String,
    /// The asked node's name.
    pub to: String,
    /// When, by the asking node's clock.
    pub at: Real,
    /// Position up to which the answering node must have carried out the log; `None`: the asking node has no log.
    pub log: Option<LogPosition>,
    /// Seconds that the object may be old, as something was invalidated at the asking node then; `None`: any age will do.
    pub newer: Option<f64>,
    pub wants: HopWants,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HopWants {
    /// The object, which the answering node fetches if it has to.
    #[default]
    Object,
    /// The object if it is stored: the origin isn't asked for it.
    Stored,
    /// The requests for the hottest objects, whatever the URL is.
    HotList,
}

impl HopWants {
    fn word(self) -> &'static str {
        match self {
            HopWants::Object => "",
            HopWants::Stored => " wants=stored",
            HopWants::HotList => " wants=hot-list",
        }
    }
}

impl TierSecret {
    pub fn new(bytes: &[u8]) -> TierSecret {
        TierSecret(bytes.to_vec())
    }

    /// The field for a request that has its Host and URL already.
    pub fn field(&self, hop: &Hop, head: &Head) -> String {
        let said = hop.said();
        let mac = self.mac(&said, head).finalize().into_bytes();
        format!("{said} mac={}", hex::encode(&mac[..MAC_BYTES]))
    }

    /// The statements in the request's header, if a member made them for the node called `own`.
    ///
    /// # Errors
    /// The reason why the header doesn't count.
    pub fn read(&self, head: &Head, own: &str, now: Real) -> Result<Hop, &'static str> {
        if head.count(LACQUER_PEER) != 1 {
            return Err("several fields");
        }
        let value = head.get(LACQUER_PEER).and_then(|value| std::str::from_utf8(value).ok()).ok_or("no text")?;
        if value.len() > LONGEST {
            return Err("too long");
        }
        let (said, mac) = value.rsplit_once(" mac=").ok_or("no code")?;
        let mac = hex::decode(mac.as_bytes()).filter(|mac| mac.len() == MAC_BYTES).ok_or("no code")?;
        self.mac(said, head).verify_truncated_left(&mac).map_err(|_| "a wrong code")?;
        let hop = Hop::parse(said).ok_or("not understood")?;
        if hop.to != own {
            return Err("for a node of another name");
        }
        if hop.at.since(now).abs() > SKEW {
            return Err("of another time");
        }
        Ok(hop)
    }

    /// The code of a response with `body` to the request that had `field`, so that it fits no other request.
    pub fn response_code(&self, field: &[u8], body: &[u8]) -> String {
        hex::encode(&self.response_mac(field, body).finalize().into_bytes()[..MAC_BYTES])
    }

    pub fn is_response_of_member(&self, field: &[u8], body: &[u8], code: &[u8]) -> bool {
        let code = hex::decode(code).filter(|code| code.len() == MAC_BYTES);
        code.is_some_and(|code| self.response_mac(field, body).verify_truncated_left(&code).is_ok())
    }

    fn response_mac(&self, field: &[u8], body: &[u8]) -> Hmac<Sha256> {
        // The text of a request's code begins with its version, a digit.
        [b"response\n", field, b"\n", body].into_iter().fold(self.empty_mac(), Mac::chain_update)
    }

    fn empty_mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length")
    }

    fn mac(&self, said: &str, head: &Head) -> Hmac<Sha256> {
        let mut mac = self.empty_mac();
        // No part of a head that was parsed has a line feed in it.
        for part in [said.as_bytes(), head.method(), head.get(names::HOST).unwrap_or_default(), head.url()] {
            mac.update(part);
            mac.update(b"\n");
        }
        mac
    }
}

impl Hop {
    fn said(&self) -> String {
        let log = self.log.map_or("-".to_owned(), |log| format!("{:016x}:{}", log.log, log.seq));
        let newer = self.newer.map_or(String::new(), |seconds| format!(" newer={seconds:.3}"));
        format!("1 from={} to={} at={:.3} log={log}{newer}{}", self.from, self.to, self.at.0, self.wants.word())
    }

    fn parse(text: &str) -> Option<Hop> {
        let wants = [HopWants::Stored, HopWants::HotList].into_iter().find(|wants| text.ends_with(wants.word()));
        let wants = wants.unwrap_or_default();
        let mut words = text.strip_suffix(wants.word())?.split(' ');
        let mut word = |name: &str| words.next()?.strip_prefix(name);
        word("1")?;
        let hop = Hop {
            from: word("from=")?.to_owned(),
            to: word("to=")?.to_owned(),
            at: Real(word("at=")?.parse().ok().filter(|at: &f64| at.is_finite())?),
            log: match word("log=")? {
                "-" => None,
                log => {
                    let (log, seq) = log.split_once(':')?;
                    Some(LogPosition { log: u64::from_str_radix(log, 16).ok()?, seq: seq.parse().ok()? })
                }
            },
            newer: match words.next() {
                Some(last) => Some(last.strip_prefix("newer=")?.parse().ok().filter(|age: &f64| *age >= 0.0)?),
                None => None,
            },
            wants,
        };
        words.next().is_none().then_some(hop)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(url: &str) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", url.as_bytes(), b"HTTP/1.1").unwrap();
        head.append(names::HOST, "site").unwrap();
        head
    }

    fn hop() -> Hop {
        Hop {
            from: "a".to_owned(),
            to: "b".to_owned(),
            at: Real(1_764_260_000.25),
            log: Some(LogPosition { log: 7, seq: 17 }),
            newer: None,
            wants: HopWants::Object,
        }
    }

    fn signed(secret: &str, url: &str) -> Head {
        let mut head = request(url);
        let field = TierSecret::new(secret.as_bytes()).field(&hop(), &head);
        head.append(LACQUER_PEER, &*field).unwrap();
        head
    }

    fn read(head: &Head, own: &str, at: f64) -> Result<Hop, &'static str> {
        TierSecret::new(b"secret of all members").read(head, own, Real(at))
    }

    #[test]
    fn a_member_is_known_by_what_only_members_can_make() {
        const NOW: f64 = 1_764_260_001.0;
        let good = signed("secret of all members", "/x");
        assert_eq!(read(&good, "b", NOW), Ok(hop()));
        assert_eq!(read(&good, "c", NOW), Err("for a node of another name"));
        assert_eq!(read(&good, "b", NOW + 61.0), Err("of another time"));
        assert_eq!(read(&good, "b", NOW - 62.0), Err("of another time"));
        assert_eq!(read(&signed("another secret ......", "/x"), "b", NOW), Err("a wrong code"));
        let mut other = request("/y");
        other.append(LACQUER_PEER, good.get(LACQUER_PEER).unwrap()).unwrap();
        assert_eq!(read(&other, "b", NOW), Err("a wrong code"), "for another target");
        let mut twice = good;
        twice.append(LACQUER_PEER, "1").unwrap();
        assert_eq!(read(&twice, "b", NOW), Err("several fields"));
    }

    #[test]
    fn a_response_belongs_to_its_request() {
        let (ours, theirs) = (TierSecret::new(b"secret of all members"), TierSecret::new(b"another secret"));
        let code = ours.response_code(b"1 from=a", b"list");
        let is_good = |field: &[u8], body: &[u8], code: &str| ours.is_response_of_member(field, body, code.as_bytes());
        assert!(is_good(b"1 from=a", b"list", &code));
        assert!(!is_good(b"1 from=b", b"list", &code), "to another request");
        assert!(!is_good(b"1 from=a", b"lisT", &code), "of another body");
        assert!(!is_good(b"1 from=a", b"list", &theirs.response_code(b"1 from=a", b"list")));
        for bad in ["", "1", &code[2..], &format!("{code}00")] {
            assert!(!is_good(b"1 from=a", b"list", bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn anything_may_stand_in_the_field(value in "[ -~]{0,600}") {
            let mut head = request("/x");
            head.append(LACQUER_PEER, &*value).unwrap();
            prop_assert!(read(&head, "b", 1_764_260_001.0).is_err());
        }

        #[test]
        fn what_is_written_is_read(seq in any::<u64>(), log in any::<Option<u64>>(), newer in any::<Option<u16>>(),
                                   millis in 0_u64..4_000_000_000_000, wants in 0_usize..3) {
            let log = log.map(|log| LogPosition { log, seq });
            let newer = newer.map(|eighths| f64::from(eighths) / 8.0);
            let wants = [HopWants::Object, HopWants::Stored, HopWants::HotList][wants];
            let hop = Hop { at: Real(millis as f64 / 1000.0), log, newer, wants, ..hop() };
            prop_assert_eq!(Hop::parse(&hop.said()), Some(hop));
        }
    }
}
