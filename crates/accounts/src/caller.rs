// SPDX-License-Identifier: BSD-2-Clause
//! The client of a request, with the keys of its accounts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::account::Level;
use crate::label::{Label, bits};

const AGENT_BYTES: usize = 256;
const AGENTS: usize = 64;
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

#[derive(Debug, PartialEq, Eq)]
struct Agent {
    text: Box<[u8]>,
    key: u64,
    /// The name by which it declares a robot, and that one's key; empty and 0 for a browser.
    bot: Box<[u8]>,
    bot_key: u64,
}

impl Agent {
    fn new(seed: u64, text: &[u8]) -> Self {
        let bot = declared_name(text).unwrap_or_default();
        let bot_key = if bot.is_empty() { 0 } else { bot_key(seed, bot, false) };
        Agent { text: text.into(), key: text_key(seed, Level::Agent, text), bot: bot.into(), bot_key }
    }
}

/// The User-Agents that clients of a thread came with lately. Those of browsers are few.
#[derive(Debug)]
pub struct Agents {
    seed: u64,
    known: [Option<Arc<Agent>>; AGENTS],
}

impl Agents {
    /// `seed` is secret, so that clients can't choose keys that collide.
    pub fn new(seed: u64) -> Self {
        Agents { seed, known: [const { None }; AGENTS] }
    }

    fn find(&mut self, text: &[u8]) -> Arc<Agent> {
        let text = &text[..text.len().min(AGENT_BYTES)];
        let place = &mut self.known[place_of(text)];
        match place {
            Some(agent) if *agent.text == *text => agent.clone(),
            _ => place.insert(Arc::new(Agent::new(self.seed, text))).clone(),
        }
    }
}

/// User-Agents differ in their length, in the version at their end, and in the system before it.
fn place_of(text: &[u8]) -> usize {
    let eight = |back: usize| {
        let end = text.len().saturating_sub(back);
        text[..end].last_chunk::<8>().map_or(0, |eight| u64::from_le_bytes(*eight))
    };
    let mixed = (eight(0) ^ eight(8).rotate_left(24) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % AGENTS
}

/// A client, hashed once for all its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Keys of its accounts by [`Level`]; 0: it has none.
    pub(crate) keys: [u64; Level::COUNT],
    /// The address as it was given, and in the form that accounts have.
    given: IpAddr,
    address: IpAddr,
    network: u32,
    tls: Box<[u8]>,
    agent: Arc<Agent>,
    verified: Box<[u8]>,
}

impl Caller {
    pub fn new(agents: &mut Agents, ids: &CallerIds<'_>) -> Self {
        let seed = agents.seed;
        let given = ids.address.unwrap_or(IpAddr::V4([0; 4].into()));
        let address = given.to_canonical();
        let (agent, network) = (agents.find(ids.agent), ids.network.unwrap_or(0));
        let bot_key = if ids.verified.is_empty() { agent.bot_key } else { bot_key(seed, ids.verified, true) };
        let keys = Level::ALL.map(|level| match level {
            Level::Client | Level::Prefix | Level::Wide => address_key(seed, level, masked(address, level)),
            Level::Network if network == 0 => 0,
            Level::Network => number_key(seed, level, 0, network.into()),
            Level::Tls if ids.tls.is_empty() => 0,
            Level::Tls => text_key(seed, level, ids.tls),
            Level::Agent => agent.key,
            Level::Bot => bot_key,
        });
        Caller { keys, given, address, network, tls: ids.tls.into(), agent, verified: ids.verified.into() }
    }

    /// True for the client with this address and network that says and proves to be this.
    #[inline]
    pub fn is(&self, ids: &CallerIds<'_>) -> bool {
        ids.address == Some(self.given)
            && self.network == ids.network.unwrap_or(0)
            && self.verified.len() == ids.verified.len()
            && *self.agent.text == ids.agent[..ids.agent.len().min(AGENT_BYTES)]
            && (ids.verified.is_empty() || *self.verified == *ids.verified)
    }

    /// True if both have the same accounts.
    #[inline]
    pub fn is_same(&self, other: &Caller) -> bool {
        std::ptr::eq(self, other) || self.keys == other.keys
    }

    pub fn is_verified(&self) -> bool {
        !self.verified.is_empty()
    }

    /// The name of the bot: the verified one, else the one that the client declares.
    pub fn bot(&self) -> Option<&[u8]> {
        let name = if self.is_verified() { &self.verified } else { &self.agent.bot };
        (!name.is_empty()).then_some(name)
    }

    pub(crate) fn label(&self, level: Level) -> Label {
        match level {
            Level::Client | Level::Prefix | Level::Wide => Label::of_address(level, masked(self.address, level)),
            Level::Network => Label::of_network(self.network),
            Level::Tls => Label::new(level, &self.tls),
            Level::Agent => Label::new(level, &self.agent.text),
            Level::Bot => Label::new(level, self.bot().unwrap_or_default()),
        }
    }
}

fn address_key(seed: u64, level: Level, address: IpAddr) -> u64 {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    number_key(seed, level, (bits >> 64) as u64, bits as u64)
}

/// A key of a few instructions. Nobody sees keys, so the seed can't be found from them.
fn number_key(seed: u64, level: Level, high: u64, low: u64) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let first = fold(seed ^ high ^ 0x9e37_79b9_7f4a_7c15, seed.rotate_left(32) ^ low ^ 0xd1b5_4a32_d192_ed03);
    fold(first ^ seed, (level as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ seed.rotate_left(17)) | 1 << 63
}

fn text_key(seed: u64, level: Level, text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, level as u8, text).hash(&mut hasher);
    hasher.finish() | 1 << 63
}

fn bot_key(seed: u64, name: &[u8], is_verified: bool) -> u64 {
    text_key(seed ^ u64::from(is_verified), Level::Bot, name)
}

fn masked(address: IpAddr, level: Level) -> IpAddr {
    let bits = u32::from(bits(address, level));
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX << (32 - bits)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX << (128 - bits)).into()),
    }
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
        Caller::new(&mut Agents::new(7), &ids)
    }

    fn label(address: &str, level: Level) -> String {
        caller(address, "a").label(level).to_string()
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

    #[test]
    fn no_user_agent_overflows_the_sum_of_its_bytes() {
        assert!(place_of(b"ztgjfslzmrleypdgcwmusrvc") < AGENTS);
    }

    #[test]
    fn a_user_agent_that_takes_the_place_of_another_is_read_anew() {
        let mut agents = Agents::new(7);
        let agents_alone = |agent: &str| caller("192.0.2.1", agent);
        for n in 0..3 * AGENTS {
            let agent = format!("Spider/{n}");
            let ids = CallerIds { agent: agent.as_bytes(), address: "192.0.2.1".parse().ok(), ..CallerIds::default() };
            assert_eq!(Caller::new(&mut agents, &ids), agents_alone(&agent), "{agent}");
        }
    }

    #[test]
    fn addresses_that_count_up_have_keys_all_over_the_table() {
        let mut sets = [0u32; 256];
        for n in 0..25_600u32 {
            let address = format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
            sets[caller(&address, "").keys[0] as usize % 256] += 1;
        }
        assert!(sets.iter().all(|count| (50..150).contains(count)), "{sets:?}");
    }
}
