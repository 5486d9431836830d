// SPDX-License-Identifier: BSD-2-Clause
//! Where requests go: one address for all hosts, some hosts' own, or each host's own by its name.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use accesslog::AccessEntry;
use base::lookup;

use crate::head::Unsent;

/// Addresses in all: names that a log invents can't grow the list without bound.
pub const MAX_ADDRESSES: usize = 10_000;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ReplayAddress {
    Inet(SocketAddr),
    Unix(PathBuf),
    /// TLS over TCP, and the name that is asked for there; without one: the request's host.
    Tls(SocketAddr, String),
}

impl fmt::Display for ReplayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayAddress::Inet(address) => address.fmt(f),
            ReplayAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ReplayAddress::Tls(address, name) => write!(f, "tls:{name}@{address}"),
        }
    }
}

impl ReplayAddress {
    /// `host:port`, `host` (port 80), `[v6]:port`, `unix:/path` or `/path`; a URL's `http://` in front is passed over, `https://` says that
    /// TLS is spoken there (port 443).
    ///
    /// # Errors
    /// What is wrong with it; a name is looked up.
    pub fn parse(text: &str) -> Result<ReplayAddress, String> {
        let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path {
            return Ok(ReplayAddress::Unix(path.into()));
        }
        let (is_tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://").unwrap_or(text)),
        };
        let found = resolve(rest.trim_end_matches('/'), if is_tls { HTTPS } else { HTTP });
        let found = found.ok_or_else(|| format!("{text}: no such address"))?;
        Ok(if is_tls { ReplayAddress::Tls(found, String::new()) } else { ReplayAddress::Inet(found) })
    }

    /// Parses what [`fmt::Display`] has written; nothing is looked up.
    pub fn from_shown(text: &str) -> Option<ReplayAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Some(ReplayAddress::Unix(path.into()));
        }
        match text.strip_prefix("tls:") {
            Some(rest) => {
                let (name, address) = rest.rsplit_once('@')?;
                Some(ReplayAddress::Tls(address.parse().ok()?, name.to_owned()))
            }
            None => Some(ReplayAddress::Inet(text.parse().ok()?)),
        }
    }

    pub fn is_tls(&self) -> bool {
        matches!(self, ReplayAddress::Tls(..))
    }

    /// For the requests of a host: where TLS wants a name and none is given, it is theirs.
    fn for_host(&self, host: &[u8], sni: Option<&str>) -> ReplayAddress {
        match self {
            ReplayAddress::Tls(address, name) if name.is_empty() => {
                let own = || String::from_utf8_lossy(&name_of(host)).into_owned();
                ReplayAddress::Tls(*address, sni.map_or_else(own, str::to_owned))
            }
            other => other.clone(),
        }
    }

    /// True if it depends on the host.
    fn is_open(&self) -> bool {
        matches!(self, ReplayAddress::Tls(_, name) if name.is_empty())
    }
}

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Looks `host`, `host:port`, `[v6]:port` or a bare v6 address up; IPv4 first, as servers on loopback often have only that.
fn resolve(text: &str, default_port: u16) -> Option<SocketAddr> {
    if text.is_empty() {
        return None;
    }
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
    });
    let found = if has_port {
        lookup::addresses_of_text(text)
    } else {
        lookup::addresses(text.trim_start_matches('[').trim_end_matches(']'), default_port)
    };
    let found = found.ok()?;
    found.iter().find(|a| a.is_ipv4()).or(found.first()).copied()
}

#[derive(Clone, Debug, Default)]
pub struct TargetRules {
    pub to: Option<ReplayAddress>,
    /// `--map`, hosts in lower case.
    pub map: HashMap<Vec<u8>, ReplayAddress>,
    /// `--each-host`: those of neither are looked up.
    pub each_host: bool,
    /// With `--each-host`: TLS is spoken whatever the URL says.
    pub sealed: bool,
    /// `--sni`: the name that TLS asks for, whatever the host.
    pub sni: Option<String>,
}

impl TargetRules {
    pub fn may_need_tls(&self) -> bool {
        self.each_host || self.to.iter().chain(self.map.values()).any(ReplayAddress::is_tls)
    }
}

pub type TargetAddresses = Arc<Mutex<Vec<ReplayAddress>>>;

#[derive(Debug)]
pub struct Router {
    rules: TargetRules,
    /// Addresses by host: for plain URLs, and for those with `https:`.
    known: [HashMap<Vec<u8>, Option<u32>>; 2],
    numbers: HashMap<ReplayAddress, u32>,
    all: TargetAddresses,
    /// The number of `--to`, if that is the same for all hosts.
    to: Option<u32>,
}

impl Router {
    pub fn new(rules: TargetRules, all: TargetAddresses) -> Router {
        let mut router = Router { rules, known: Default::default(), numbers: HashMap::new(), all, to: None };
        router.to = router.rules.to.clone().filter(|to| !to.is_open()).and_then(|to| router.number(to));
        router
    }

    /// The number of the address that a request goes to.
    ///
    /// # Errors
    /// [`Unsent::NoAddress`].
    pub fn route(&mut self, entry: &AccessEntry<'_>, host: &[u8]) -> Result<u32, Unsent> {
        if self.rules.map.is_empty()
            && let Some(to) = self.to
        {
            return Ok(to);
        }
        let is_tls = entry.is_tls || self.rules.sealed;
        let kind = usize::from(is_tls);
        if let Some(found) = self.known[kind].get(host) {
            return found.ok_or(Unsent::NoAddress);
        }
        if self.known.iter().map(HashMap::len).sum::<usize>() >= MAX_ADDRESSES {
            return self.to.ok_or(Unsent::NoAddress);
        }
        let found = self.find(host, is_tls);
        self.known[kind].insert(host.to_vec(), found);
        found.ok_or(Unsent::NoAddress)
    }

    fn find(&mut self, host: &[u8], is_tls: bool) -> Option<u32> {
        let rules = &self.rules;
        let given = rules.map.get(&name_of(host)).or_else(|| rules.map.get(host)).or(rules.to.as_ref());
        let address = match given {
            Some(given) => given.for_host(host, rules.sni.as_deref()),
            None if rules.each_host => {
                let found = resolve(std::str::from_utf8(host).ok()?, if is_tls { HTTPS } else { HTTP })?;
                let own = if is_tls { ReplayAddress::Tls(found, String::new()) } else { ReplayAddress::Inet(found) };
                own.for_host(host, rules.sni.as_deref())
            }
            None => return None,
        };
        self.number(address)
    }

    fn number(&mut self, address: ReplayAddress) -> Option<u32> {
        if let Some(number) = self.numbers.get(&address) {
            return Some(*number);
        }
        let mut all = self.all.lock().ok()?;
        let number = u32::try_from(all.len()).ok()?;
        all.push(address.clone());
        self.numbers.insert(address, number);
        Some(number)
    }
}

/// A host without its port, in lower case.
fn name_of(host: &[u8]) -> Vec<u8> {
    let end = match host.iter().rposition(|b| *b == b':') {
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) => at,
        _ => host.len(),
    };
    host[..end].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let shown = |text: &str| ReplayAddress::parse(text).map_or_else(|e| e, |a| a.to_string());
        assert_eq!(shown("127.0.0.1:6081"), "127.0.0.1:6081");
        assert_eq!(shown("http://127.0.0.1/"), "127.0.0.1:80");
        assert_eq!(shown("[::1]:8080"), "[::1]:8080");
        assert_eq!(shown("::1"), "[::1]:80");
        assert_eq!(shown("/run/x.sock"), "unix:/run/x.sock");
        assert_eq!(shown("unix:a"), "unix:a");
        assert_eq!(shown("https://127.0.0.1"), "tls:@127.0.0.1:443");
        assert_eq!(shown("https://[::1]:8443/"), "tls:@[::1]:8443");
        assert_eq!(shown("127.0.0.1:99999"), "127.0.0.1:99999: no such address");
        assert_eq!(shown(""), ": no such address");
    }

    #[test]
    fn hosts_find_their_address() {
        let one = |n: u16| ReplayAddress::Inet(([127, 0, 0, 1], n).into());
        let rules = TargetRules {
            to: Some(one(1)),
            map: HashMap::from([(b"b.nz".to_vec(), one(2))]),
            ..TargetRules::default()
        };
        let mut router = Router::new(rules.clone(), TargetAddresses::default());
        let plain = AccessEntry::default();
        assert_eq!(router.route(&plain, b"a.nz"), Ok(0));
        assert_eq!(router.route(&plain, b"B.nz:80"), Ok(1));
        assert_eq!(router.route(&AccessEntry { is_tls: true, ..AccessEntry::default() }, b"a.nz"), Ok(0));
        let mut router = Router::new(TargetRules { to: None, each_host: true, ..rules }, TargetAddresses::default());
        assert_eq!(router.route(&plain, b"127.0.0.1:8"), Ok(0));
        assert_eq!(router.route(&plain, b"\xff"), Err(Unsent::NoAddress));
    }

    #[test]
    fn tls_asks_for_the_hosts_name() {
        let secure = |n: u16, name: &str| ReplayAddress::Tls(([127, 0, 0, 1], n).into(), name.to_owned());
        let (plain, sealed) = (AccessEntry::default(), AccessEntry { is_tls: true, ..AccessEntry::default() });
        let routed = |rules: &TargetRules, entry: &AccessEntry<'_>, host: &[u8]| -> Result<ReplayAddress, Unsent> {
            let all = TargetAddresses::default();
            let number = Router::new(rules.clone(), all.clone()).route(entry, host)?;
            Ok(all.lock().unwrap()[number as usize].clone())
        };
        let mut rules = TargetRules { to: Some(secure(1, "")), ..TargetRules::default() };
        assert_eq!(routed(&rules, &plain, b"A.nz:81"), Ok(secure(1, "a.nz")));
        rules.sni = Some("x.nz".into());
        assert_eq!(routed(&rules, &sealed, b"a.nz"), Ok(secure(1, "x.nz")));
        rules = TargetRules { each_host: true, ..TargetRules::default() };
        assert_eq!(routed(&rules, &sealed, b"127.0.0.1"), Ok(secure(443, "127.0.0.1")));
        assert_eq!(routed(&rules, &plain, b"127.0.0.1"), Ok(ReplayAddress::Inet(([127, 0, 0, 1], 80).into())));
        rules.sealed = true;
        assert_eq!(routed(&rules, &plain, b"127.0.0.1"), Ok(secure(443, "127.0.0.1")));
        rules = TargetRules {
            to: Some(secure(1, "")),
            map: HashMap::from([(b"b.nz".to_vec(), secure(2, ""))]),
            ..TargetRules::default()
        };
        let all = TargetAddresses::default();
        let mut router = Router::new(rules, all.clone());
        let numbers = [&b"a.nz"[..], b"b.nz", b"c.nz", b"a.nz"].map(|host| router.route(&plain, host).unwrap());
        assert_eq!(numbers, [0, 1, 2, 0]);
        assert_eq!(all.lock().unwrap().last(), Some(&secure(1, "c.nz")));
    }

    #[test]
    fn what_is_shown_is_an_address() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/x.sock", "tls:a.nz@127.0.0.1:443", "tls:::1@[::1]:443"] {
            assert_eq!(ReplayAddress::from_shown(text).map(|address| address.to_string()).as_deref(), Some(text));
        }
        assert!(
            ["", "a", "tls:a", "tls:a@b", "127.0.0.1"].iter().all(|text| ReplayAddress::from_shown(text).is_none())
        );
    }
}
