// SPDX-License-Identifier: BSD-2-Clause
//! The client of a request, with the keys of its accounts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use crate::account::{LABEL_BYTES, Level};

const AGENT_BYTES: usize = 256;
/// Parts of the names by which robots declare themselves, in small letters, besides "bot" at the end of a word.
const ROBOTS: [&[u8]; 4] = [b"crawl", b"spider", b"slurp", b"scrapy"];

#[derive(Clone, Copy, Debug, Default)]
pub struct CallerIds<'a> {
    pub address: Option<IpAddr>,
    pub network: Option<u32>,
    pub tls: &'a [u8],
    pub agent: &'a [u8],
    pub verified: &'a [u8],
}

/// A client, hashed once for all its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Keys of its accounts by [`Level`]; 0: it has none.
    pub(crate) keys: [u64; Level::COUNT],
    address: IpAddr,
    network: u32,
    tls: Box<[u8]>,
    agent: Box<[u8]>,
    bot: Box<[u8]>,
    is_verified: bool,
}

impl Caller {
    /// `seed` is secret, so that clients can't choose keys that collide.
    pub fn new(seed: u64, ids: &CallerIds<'_>) -> Self {
        let address = ids.address.unwrap_or(IpAddr::V4([0; 4].into())).to_canonical();
        let agent = &ids.agent[..ids.agent.len().min(AGENT_BYTES)];
        let bot = if ids.verified.is_empty() { declared_name(agent).unwrap_or_default() } else { ids.verified };
        let mut caller = Caller {
            keys: [0; Level::COUNT],
            address,
            network: ids.network.unwrap_or(0),
            tls: cut(ids.tls),
            agent: agent.into(),
            bot: bot.into(),
            is_verified: !ids.verified.is_empty(),
        };
        for level in Level::ALL {
            caller.keys[level as usize] = caller.key(seed, level);
        }
        caller
    }

    pub fn is(&self, address: IpAddr, agent: &[u8]) -> bool {
        self.address == address.to_canonical() && *self.agent == agent[..agent.len().min(AGENT_BYTES)]
    }

    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// The name of the bot: the verified one, else the one that the client declares.
    pub fn bot(&self) -> Option<&[u8]> {
        (!self.bot.is_empty()).then_some(&self.bot)
    }

    fn key(&self, seed: u64, level: Level) -> u64 {
        let mut hasher = DefaultHasher::new();
        (seed, level as u8).hash(&mut hasher);
        let is_known = match level {
            Level::Client | Level::Prefix | Level::Wide => {
                masked(self.address, level).hash(&mut hasher);
                true
            }
            Level::Network => {
                self.network.hash(&mut hasher);
                self.network != 0
            }
            Level::Tls => {
                self.tls.hash(&mut hasher);
                !self.tls.is_empty()
            }
            Level::Agent => {
                self.agent.hash(&mut hasher);
                true
            }
            Level::Bot => {
                (&self.bot, self.is_verified).hash(&mut hasher);
                !self.bot.is_empty()
            }
        };
        if is_known { hasher.finish() | 1 << 63 } else { 0 }
    }

    pub(crate) fn label(&self, level: Level) -> Box<[u8]> {
        match level {
            Level::Client | Level::Prefix | Level::Wide => {
                match (masked(self.address, level), bits(self.address, level)) {
                    (IpAddr::V4(address), 32) => cut(address.to_string().as_bytes()),
                    (address, bits) => cut(format!("{address}/{bits}").as_bytes()),
                }
            }
            Level::Network => cut(format!("AS{}", self.network).as_bytes()),
            Level::Tls => self.tls.clone(),
            Level::Agent => cut(&self.agent),
            Level::Bot => cut(&self.bot),
        }
    }
}

/// Bits of an address that name its client, prefix or wide prefix. An IPv6 client has a /64.
fn bits(address: IpAddr, level: Level) -> u8 {
    match (address, level) {
        (IpAddr::V4(_), Level::Client) => 32,
        (IpAddr::V4(_), Level::Prefix) => 24,
        (IpAddr::V4(_), _) => 16,
        (IpAddr::V6(_), Level::Client) => 64,
        (IpAddr::V6(_), Level::Prefix) => 56,
        (IpAddr::V6(_), _) => 32,
    }
}

fn masked(address: IpAddr, level: Level) -> IpAddr {
    let bits = u32::from(bits(address, level));
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX << (32 - bits)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX << (128 - bits)).into()),
    }
}

fn cut(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(LABEL_BYTES)].into()
}

/// The word of a User-Agent that is a robot's name, without its version. A word with a dot or colon is a link, which names an owner.
fn declared_name(agent: &[u8]) -> Option<&[u8]> {
    let words = agent.split(|b| matches!(b, b' ' | b';' | b'(' | b')' | b',' | b'+'));
    let names = words.filter_map(|word| word.split(|&b| b == b'/').next());
    names.into_iter().find(|name| {
        let is_link = name.iter().any(|b| matches!(b, b':' | b'.' | b'@'));
        !is_link
            && (has_bot(name)
                || ROBOTS.iter().any(|robot| name.windows(robot.len()).any(|part| part.eq_ignore_ascii_case(robot))))
    })
}

/// True for `Googlebot` and `Applebot-Extended`, not for `Botanic`, nor for CUBOT, a make of telephones.
fn has_bot(name: &[u8]) -> bool {
    let words = name.split(|b| !b.is_ascii_alphanumeric());
    words.into_iter().any(|word| {
        let word = word.to_ascii_lowercase();
        word.ends_with(b"bot") && word != b"cubot"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(address: &str, agent: &str) -> Caller {
        let ids = CallerIds { address: address.parse().ok(), agent: agent.as_bytes(), ..CallerIds::default() };
        Caller::new(7, &ids)
    }

    fn label(address: &str, level: Level) -> String {
        String::from_utf8_lossy(&caller(address, "a").label(level)).into_owned()
    }

    #[test]
    fn accounts_are_named_by_the_part_of_the_address_that_they_stand_for() {
        let names = |address| [Level::Client, Level::Prefix, Level::Wide].map(|level| label(address, level));
        assert_eq!(names("192.0.2.77"), ["192.0.2.77", "192.0.2.0/24", "192.0.0.0/16"]);
        assert_eq!(names("::ffff:192.0.2.77"), ["192.0.2.77", "192.0.2.0/24", "192.0.0.0/16"]);
        assert_eq!(names("2001:db8:1:234:5::6"), ["2001:db8:1:234::/64", "2001:db8:1:200::/56", "2001:db8::/32"]);
    }

    #[test]
    fn two_clients_share_the_accounts_of_what_they_have_in_common() {
        let (one, other) = (caller("192.0.2.1", "Firefox"), caller("192.0.2.2", "Firefox"));
        let same = |level: Level| one.keys[level as usize] == other.keys[level as usize];
        assert_eq!(Level::ALL.map(same), [false, true, true, true, true, true, true]);
        assert_eq!((one.keys[Level::Tls as usize], one.keys[Level::Network as usize]), (0, 0), "unknown: no account");
    }

    #[test]
    fn a_robot_declares_itself_by_one_word() {
        let bot = |agent| caller("192.0.2.1", agent).bot().map(|name| String::from_utf8_lossy(name).into_owned());
        let google = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/1";
        assert_eq!(bot(google).as_deref(), Some("Googlebot"));
        assert_eq!(bot("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), None);
        assert_eq!(bot("curl/8 (see http://example.org/crawler.html)"), None);
        assert_eq!(bot("Mozilla/5.0 (Linux; Android 13; CUBOT_X70 Build/TP1A) Chrome/141.0"), None);
        assert_eq!(bot("Botanic/2 (bottles)"), None);
        assert_eq!(bot("Applebot-Extended/1").as_deref(), Some("Applebot-Extended"));
        assert_eq!(bot(""), None);
    }
}
