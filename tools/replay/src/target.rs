// SPDX-License-Identifier: BSD-2-Clause
//! Where requests go: one address for all hosts, some hosts' own, or each host's own by its name.

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use accesslog::Entry;

use crate::head::Unsent;

/// Addresses in all: names that a log invents can't grow the list without bound.
pub const MAX_ADDRESSES: usize = 10_000;

/// Something to connect to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// TCP.
    Inet(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// `host:port`, `host` (port 80), `[v6]:port`, `unix:/path` or `/path`; a URL's `http://` in front is passed over.
    ///
    /// # Errors
    /// What is wrong with it; a name is looked up.
    pub fn parse(text: &str) -> Result<Address, String> {
        let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path {
            return Ok(Address::Unix(path.into()));
        }
        let plain = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        resolve(plain).ok_or_else(|| format!("{text}: no such address"))
    }
}

/// Looks `host`, `host:port`, `[v6]:port` or a bare v6 address up; IPv4 first, as servers on loopback often have only that.
fn resolve(text: &str) -> Option<Address> {
    if text.is_empty() {
        return None;
    }
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
    });
    let found: Vec<SocketAddr> = if has_port {
        text.to_socket_addrs().ok()?.collect()
    } else {
        (text.trim_start_matches('[').trim_end_matches(']'), 80u16).to_socket_addrs().ok()?.collect()
    };
    found.iter().find(|a| a.is_ipv4()).or(found.first()).copied().map(Address::Inet)
}

/// What the options say.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `--to`
    pub to: Option<Address>,
    /// `--map`, hosts in lower case.
    pub map: HashMap<Vec<u8>, Address>,
    /// `--each-host`: those of neither are looked up.
    pub each_host: bool,
}

/// All addresses met so far; a request names its by number.
pub type Addresses = Arc<Mutex<Vec<Address>>>;

/// Finds the address of a request, and remembers.
#[derive(Debug)]
pub struct Router {
    rules: Rules,
    known: HashMap<Vec<u8>, Option<u32>>,
    numbers: HashMap<Address, u32>,
    all: Addresses,
    to: Option<u32>,
}

impl Router {
    /// One that has looked nothing up yet.
    pub fn new(rules: Rules, all: Addresses) -> Router {
        let mut router = Router { rules, known: HashMap::new(), numbers: HashMap::new(), all, to: None };
        router.to = router.rules.to.clone().and_then(|to| router.number(to));
        router
    }

    /// The number of the address that a request goes to.
    ///
    /// # Errors
    /// [`Unsent::NoAddress`], [`Unsent::Tls`].
    pub fn route(&mut self, entry: &Entry<'_>, host: &[u8]) -> Result<u32, Unsent> {
        if self.rules.map.is_empty()
            && let Some(to) = self.to
        {
            return Ok(to);
        }
        if !self.known.contains_key(host) {
            if self.known.len() >= MAX_ADDRESSES {
                return self.to.ok_or(Unsent::NoAddress);
            }
            let found = self.find(host, entry.is_tls);
            self.known.insert(host.to_vec(), found);
        }
        let found = self.known.get(host).copied().flatten();
        let is_tls = entry.is_tls && self.to.is_none() && !self.rules.map.contains_key(&name_of(host));
        if is_tls { Err(Unsent::Tls) } else { found.ok_or(Unsent::NoAddress) }
    }

    fn find(&mut self, host: &[u8], is_tls: bool) -> Option<u32> {
        if let Some(mapped) = self.rules.map.get(&name_of(host)).or_else(|| self.rules.map.get(host)) {
            return self.number(mapped.clone());
        }
        if self.to.is_some() || !self.rules.each_host || is_tls {
            return self.to;
        }
        let address = std::str::from_utf8(host).ok().and_then(resolve)?;
        self.number(address)
    }

    fn number(&mut self, address: Address) -> Option<u32> {
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
        let shown = |text: &str| Address::parse(text).map_or_else(|e| e, |a| a.to_string());
        assert_eq!(shown("127.0.0.1:6081"), "127.0.0.1:6081");
        assert_eq!(shown("http://127.0.0.1/"), "127.0.0.1:80");
        assert_eq!(shown("[::1]:8080"), "[::1]:8080");
        assert_eq!(shown("::1"), "[::1]:80");
        assert_eq!(shown("/run/x.sock"), "unix:/run/x.sock");
        assert_eq!(shown("unix:a"), "unix:a");
        assert_eq!(shown("127.0.0.1:99999"), "127.0.0.1:99999: no such address");
        assert_eq!(shown(""), ": no such address");
    }

    #[test]
    fn hosts_find_their_address() {
        let one = |n: u16| Address::Inet(([127, 0, 0, 1], n).into());
        let rules = Rules { to: Some(one(1)), map: HashMap::from([(b"b.nz".to_vec(), one(2))]), each_host: false };
        let mut router = Router::new(rules.clone(), Addresses::default());
        let plain = Entry::default();
        assert_eq!(router.route(&plain, b"a.nz"), Ok(0));
        assert_eq!(router.route(&plain, b"B.nz:80"), Ok(1));
        assert_eq!(router.route(&Entry { is_tls: true, ..Entry::default() }, b"a.nz"), Ok(0));
        let mut router = Router::new(Rules { to: None, each_host: true, ..rules }, Addresses::default());
        assert_eq!(router.route(&plain, b"127.0.0.1:8"), Ok(0));
        assert_eq!(router.route(&Entry { is_tls: true, ..Entry::default() }, b"127.0.0.1:8"), Err(Unsent::Tls));
        assert_eq!(router.route(&plain, b"\xff"), Err(Unsent::NoAddress));
    }
}
