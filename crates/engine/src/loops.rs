// SPDX-License-Identifier: BSD-2-Clause
//! Detects requests that come back. A request to one of this server's own listeners carries a mark in `CDN-Loop` (RFC
//! 8586): this worker's name and a keyed hash of the request as it came in. A request that comes in with its own mark
//! would wait for itself at a busy object, so it gets a 508. A server may ask itself for other objects, and VCL may
//! pass a request to the same server: nobody waits for a pass, so only the number of passes is bounded.
//!
//! A client can't make a mark, and one that repeats a mark that it has seen is refused itself. Requests to other
//! servers carry none.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use backend::Conn;
use message::{Head, names};

pub(crate) const CDN_LOOP: &str = "CDN-Loop";
/// Times that a request may pass through this server as another one each time, or as a pass.
const MAX_PASSES: usize = 8;

/// Recognises this worker's own requests.
pub struct Loops {
    keys: RandomState,
    /// The start of this worker's marks: `lacquer-<64 random bits>;k=`.
    prefix: String,
    listeners: OnceLock<Vec<Listener>>,
    /// Set once a request was marked. Before that none can come back.
    has_marked: AtomicBool,
}

/// The place at which a listener takes connections.
#[derive(Debug)]
enum Listener {
    /// An address, or all of this host's of one family.
    Address(SocketAddr),
    Socket(PathBuf),
}

/// A request as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Keyed hash of listener, Host and URL.
    hash: u64,
    /// Number of earlier passes through this server, by the request's marks.
    passes: usize,
}

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
        self.listeners.get_or_init(|| endpoints.map(|endpoint| Listener::new(&endpoint)).collect());
    }

    pub(crate) fn arrival(&self, listener: &str, head: &Head) -> Arrival {
        let passes = if self.may_be_back(head) { self.marks(head).count() } else { 0 };
        Arrival { hash: self.keys.hash_one((listener, head.get(names::HOST), head.url())), passes }
    }

    /// The value of the header for a request that came in as `arrival` and goes out over `conn`, if that ends at one of
    /// our listeners.
    pub(crate) fn mark(&self, conn: &Conn, arrival: Arrival, is_pass: bool) -> Option<String> {
        let path = conn.backend().spec().endpoint.path.as_deref();
        let peer = if path.is_none() { Some(conn.peer_here()?) } else { None };
        let listeners = self.listeners.get()?;
        listeners.iter().any(|listener| listener.takes(path, peer)).then(|| {
            self.has_marked.store(true, Ordering::Relaxed);
            self.text(arrival, is_pass)
        })
    }

    fn text(&self, arrival: Arrival, is_pass: bool) -> String {
        if is_pass {
            format!("{}pass-{}", self.prefix, arrival.passes)
        } else {
            format!("{}{:016x}", self.prefix, arrival.hash)
        }
    }

    fn may_be_back(&self, head: &Head) -> bool {
        self.has_marked.load(Ordering::Relaxed) && head.has(CDN_LOOP)
    }

    /// This worker's marks on a request.
    fn marks<'a>(&'a self, head: &'a Head) -> impl Iterator<Item = &'a [u8]> {
        let values = head.iter().filter(|field| field.is(CDN_LOOP.as_bytes()));
        let marks = values.flat_map(|field| field.value().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        marks.filter(|mark| mark.starts_with(self.prefix.as_bytes()))
    }

    /// True if a request that comes in at the listener was here before.
    pub(crate) fn is_back(&self, listener: &str, head: &Head) -> bool {
        if !self.may_be_back(head) {
            return false;
        }
        let arrival = self.arrival(listener, head);
        let own = self.text(arrival, false);
        arrival.passes >= MAX_PASSES || self.marks(head).any(|mark| mark == own.as_bytes())
    }
}

impl Listener {
    fn new(endpoint: &str) -> Self {
        let parts = endpoint.rsplit_once(':').and_then(|(ip, port)| {
            let ip: IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
            Some(SocketAddr::new(ip, port.parse().ok()?))
        });
        parts.map_or_else(|| Self::Socket(endpoint.into()), Self::Address)
    }

    /// True if the listener takes connections to a socket, or to an address of this host.
    fn takes(&self, path: Option<&Path>, peer: Option<SocketAddr>) -> bool {
        match self {
            Self::Socket(own) => path == Some(own),
            Self::Address(own) => peer.is_some_and(|peer| {
                let is_any = own.ip().is_unspecified() && own.is_ipv4() == peer.is_ipv4();
                own.port() == peer.port() && (is_any || own.ip() == peer.ip())
            }),
        }
    }
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
        let mark = loops.text(loops.arrival("a0", &request("a", "/x", &[])), false);
        let other = Loops::default().text(Arrival { hash: 1, passes: 0 }, false);
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
    fn passes_are_counted() {
        let loops = Loops::default();
        let mut marks: Vec<String> = Vec::new();
        loops.has_marked.store(true, Ordering::Relaxed);
        while !loops.is_back("a0", &request("a", "/x", &marks.iter().map(|mark| &**mark).collect::<Vec<_>>())) {
            let head = request("a", "/x", &marks.iter().map(|mark| &**mark).collect::<Vec<_>>());
            let mark = loops.text(loops.arrival("a0", &head), true);
            assert!(!marks.contains(&mark), "{marks:?}");
            marks.push(mark);
        }
        assert_eq!(marks.len(), MAX_PASSES);
    }

    #[test]
    fn a_listener_takes_its_address_or_all_of_its_family() {
        let check = |endpoint, peer: &str, want| {
            assert_eq!(Listener::new(endpoint).takes(None, Some(peer.parse().unwrap())), want, "{endpoint} {peer}")
        };
        check("127.0.0.1:80", "127.0.0.1:80", true);
        check("127.0.0.1:80", "127.0.0.1:81", false);
        check("127.0.0.1:80", "127.0.0.2:80", false);
        check("0.0.0.0:80", "10.1.2.3:80", true);
        check("0.0.0.0:80", "[::1]:80", false);
        check(":::80", "[::1]:80", true);
        check("[::]:80", "[::1]:80", true);
        check("/run/socket", "127.0.0.1:80", false);
        assert!(Listener::new("/run/socket").takes(Some(Path::new("/run/socket")), None));
        assert!(!Listener::new("127.0.0.1:80").takes(Some(Path::new("/run/socket")), None));
    }
}
