// SPDX-License-Identifier: BSD-2-Clause
//! Requests that come back. A request that goes to one of this server's own listeners carries a mark in `CDN-Loop` (RFC 8586): this
//! worker's name and a keyed hash of the request as it came in. A request that comes in with the mark of a request like itself would go
//! round for ever, or wait for itself at a busy object: it is answered 508. A server that asks itself for something else isn't hindered.
//!
//! A client can't make a mark, and one that repeats a mark it was shown is refused itself. Requests to other servers carry none.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use backend::Conn;
use message::{Head, names};

/// The header field.
pub(crate) const CDN_LOOP: &str = "CDN-Loop";
/// Times that a request may pass through this server as another one each time.
const MAX_PASSES: usize = 8;

/// Recognises this worker's own requests.
pub struct Loops {
    keys: RandomState,
    /// `lacquer-<64 random bits>;k=`
    prefix: String,
    listeners: OnceLock<Vec<String>>,
    /// Whether any request was marked: else none can come back.
    has_marked: AtomicBool,
}

/// A request as it came in: listener, Host and URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival(u64);

impl Default for Loops {
    fn default() -> Self {
        let name = RandomState::new().hash_one(0_u8);
        Self {
            keys: RandomState::new(),
            prefix: format!("lacquer-{name:016x};k="),
            listeners: OnceLock::new(),
            has_marked: AtomicBool::new(false),
        }
    }
}

impl Loops {
    /// Names the listeners once, as `ListenerInfo::endpoint` does: `127.0.0.1:80`, `/path`.
    pub fn listen(&self, endpoints: impl Iterator<Item = String>) {
        self.listeners.get_or_init(|| endpoints.collect());
    }

    pub(crate) fn arrival(&self, listener: &str, head: &Head) -> Arrival {
        Arrival(self.keys.hash_one((listener, head.get(names::HOST), head.url())))
    }

    /// The field's value for a request that came in as `arrival` and goes out over `conn`, if that ends at one of our listeners.
    pub(crate) fn mark(&self, conn: &Conn, arrival: Arrival) -> Option<String> {
        let path = conn.backend().spec().endpoint.path.as_ref().map(|path| path.display().to_string());
        let is_own = match (path, conn.peer_here()) {
            (Some(path), _) => self.listeners().contains(&path),
            (None, Some(peer)) => self.listeners().iter().any(|endpoint| takes(endpoint, peer)),
            (None, None) => false,
        };
        is_own.then(|| {
            self.has_marked.store(true, Ordering::Relaxed);
            self.text(arrival)
        })
    }

    fn text(&self, arrival: Arrival) -> String {
        format!("{}{:016x}", self.prefix, arrival.0)
    }

    fn listeners(&self) -> &[String] {
        self.listeners.get().map_or(&[], |all| all)
    }

    /// Whether a request that comes in at the listener was here before.
    pub(crate) fn is_back(&self, listener: &str, head: &Head) -> bool {
        if !self.has_marked.load(Ordering::Relaxed) || !head.has(CDN_LOOP) {
            return false;
        }
        let own = self.text(self.arrival(listener, head));
        let values = head.iter().filter(|field| field.is(CDN_LOOP.as_bytes()));
        let marks = values.flat_map(|field| field.value().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let ours: Vec<&[u8]> = marks.filter(|mark| mark.starts_with(self.prefix.as_bytes())).collect();
        ours.len() >= MAX_PASSES || ours.contains(&own.as_bytes())
    }
}

/// Whether a listener gets the connections to an address of this host.
fn takes(endpoint: &str, peer: SocketAddr) -> bool {
    let Some((ip, port)) = endpoint.rsplit_once(':') else { return false };
    let Ok(ip) = ip.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    port.parse() == Ok(peer.port()) && (ip == peer.ip() || (ip.is_unspecified() && ip.is_ipv4() == peer.ip().is_ipv4()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str, url: &str, marks: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", url.as_bytes(), b"HTTP/1.1").unwrap();
        head.append(names::HOST, host).unwrap();
        marks.iter().for_each(|mark| head.append(CDN_LOOP, *mark).unwrap());
        head
    }

    #[test]
    fn only_the_same_request_has_come_back() {
        let loops = Loops::default();
        let mark = loops.text(loops.arrival("a0", &request("a", "/x", &[])));
        let other = Loops::default().text(Arrival(1));
        let is_back =
            |listener: &str, host: &str, url: &str, marks: &[&str]| loops.is_back(listener, &request(host, url, marks));
        assert!(!is_back("a0", "a", "/x", &[&mark]), "nothing was sent to a listener of ours");
        loops.has_marked.store(true, Ordering::Relaxed);
        assert!(is_back("a0", "a", "/x", &[&mark]));
        assert!(is_back("a0", "a", "/x", &[&format!("other.example, {mark} , x")]));
        assert!(is_back("a0", "a", "/x", &["other.example", &mark]));
        assert!(!is_back("inner", "a", "/x", &[&mark]), "another listener");
        assert!(!is_back("a0", "b", "/x", &[&mark]), "another site");
        assert!(!is_back("a0", "a", "/y", &[&mark]), "another page");
        assert!(!is_back("a0", "a", "/x", &[]));
        assert!(!is_back("a0", "a", "/x", &[&other, "lacquer", "lacquer-0;k=0"]), "marks of others");
        let many = vec![&*mark; MAX_PASSES];
        assert!(is_back("a0", "a", "/longer", &many), "another page each time");
        assert!(!is_back("a0", "a", "/longer", &many[1..]));
    }

    #[test]
    fn a_listener_takes_its_address_or_all_of_its_family() {
        let check =
            |endpoint, peer: &str, want| assert_eq!(takes(endpoint, peer.parse().unwrap()), want, "{endpoint} {peer}");
        check("127.0.0.1:80", "127.0.0.1:80", true);
        check("127.0.0.1:80", "127.0.0.1:81", false);
        check("127.0.0.1:80", "127.0.0.2:80", false);
        check("0.0.0.0:80", "10.1.2.3:80", true);
        check("0.0.0.0:80", "[::1]:80", false);
        check(":::80", "[::1]:80", true);
        check("[::]:80", "[::1]:80", true);
        check("/run/socket", "127.0.0.1:80", false);
    }
}
