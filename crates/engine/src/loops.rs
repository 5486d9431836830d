// SPDX-License-Identifier: BSD-2-Clause
//! Detects requests that come back. A request to one of this server's own listeners carries a mark in `CDN-Loop` (RFC
//! 8586): this worker's name, a keyed hash of the digest of its lookup, and the round. A lookup of the same digest would
//! wait for the object that it was to fetch, so it gets a 508. A server may ask itself for other objects, and VCL may
//! pass a request to the same server, or have its lookup wait for nobody (`req.hash_ignore_busy`,
//! `req.hash_always_miss`): then only the number of rounds is bounded.
//!
//! A client can't make a mark, and one that repeats a mark that it has seen is refused itself. Requests to other
//! servers carry none, and nothing is hashed for them.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use backend::BackendConn;
use cache::Digest;
use message::Head;

pub(crate) const CDN_LOOP: &str = "CDN-Loop";
/// Times that a request may pass through this server, for another object each time or as a pass.
const MAX_ROUNDS: usize = 8;

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

    /// The number of times that a request was here before, by its marks.
    pub(crate) fn rounds(&self, head: &Head) -> usize {
        if self.may_be_back(head) { self.marks(head).count() } else { 0 }
    }

    /// The value of the header for a request for the object of `digest` that goes out over `conn`, if that ends at one
    /// of our listeners. `rounds` is of the request that came in.
    pub(crate) fn mark(&self, conn: &BackendConn, digest: &Digest, rounds: usize, is_pass: bool) -> Option<String> {
        let path = conn.backend().spec().endpoint.path.as_deref();
        let peer = if path.is_none() { Some(conn.peer_here()?) } else { None };
        let listeners = self.listeners.get()?;
        listeners.iter().any(|listener| listener.takes(path, peer)).then(|| {
            self.has_marked.store(true, Ordering::Relaxed);
            if is_pass { self.text("pass", rounds) } else { self.text(&self.name(digest), rounds) }
        })
    }

    /// A mark. The round tells apart the marks of one object, each of which counts.
    fn text(&self, what: &str, rounds: usize) -> String {
        format!("{}{what}-{rounds}", self.prefix)
    }

    /// The name of an object in marks.
    fn name(&self, digest: &Digest) -> String {
        format!("{:016x}", self.keys.hash_one(digest.0))
    }

    fn may_be_back(&self, head: &Head) -> bool {
        self.has_marked.load(Ordering::Relaxed) && head.has(CDN_LOOP)
    }

    fn marks<'a>(&'a self, head: &'a Head) -> impl Iterator<Item = &'a [u8]> {
        let values = head.iter().filter(|field| field.is(CDN_LOOP.as_bytes()));
        let marks = values.flat_map(|field| field.value().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        marks.filter(|mark| mark.starts_with(self.prefix.as_bytes()))
    }

    /// True if a request would go round for ever. `lookup` is the digest of its lookup; `None` if it waits for nobody.
    pub(crate) fn is_back(&self, head: &Head, lookup: Option<&Digest>) -> bool {
        if !self.may_be_back(head) {
            return false;
        }
        let waits_for_itself = |digest| {
            let own = self.name(digest);
            let name = |mark: &[u8]| mark[self.prefix.len()..].split(|c| *c == b'-').next() == Some(own.as_bytes());
            self.marks(head).any(name)
        };
        self.rounds(head) >= MAX_ROUNDS || lookup.is_some_and(waits_for_itself)
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
            Self::Address(own) => peer.is_some_and(|peer| sys::sock::takes(*own, peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: Digest = Digest([1; 32]);
    const OTHER: Digest = Digest([2; 32]);

    fn request(marks: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/x", b"HTTP/1.1").unwrap();
        marks.iter().for_each(|mark| head.append(CDN_LOOP, *mark).unwrap());
        head
    }

    #[test]
    fn only_a_lookup_of_the_same_object_has_come_back() {
        let loops = Loops::default();
        let of = |loops: &Loops, round| loops.text(&loops.name(&OBJECT), round);
        let (mark, others) = (of(&loops, 0), of(&Loops::default(), 0));
        let is_back = |digest, marks: &[&str]| loops.is_back(&request(marks), digest);
        assert!(!is_back(Some(&OBJECT), &[&mark]), "nothing was sent to a listener of ours");
        loops.has_marked.store(true, Ordering::Relaxed);
        assert!(is_back(Some(&OBJECT), &[&mark]));
        assert!(is_back(Some(&OBJECT), &[&format!("other.example, {mark} , x")]));
        assert!(is_back(Some(&OBJECT), &["other.example", &mark]));
        assert!(is_back(Some(&OBJECT), &[&of(&loops, 3)]), "of a later round");
        assert!(!is_back(Some(&OTHER), &[&mark]), "another object");
        assert!(!is_back(None, &[&mark]), "a pass, or a lookup that doesn't wait");
        assert!(!is_back(Some(&OBJECT), &[]));
        assert!(!is_back(Some(&OBJECT), &[&others, "lacquer", "lacquer-0;k=0"]), "marks of others");
        let many = vec![&*mark; MAX_ROUNDS];
        assert!(is_back(Some(&OTHER), &many), "another object each time");
        assert!(is_back(None, &many), "passed at last");
        assert!(!is_back(Some(&OTHER), &many[1..]));
    }

    #[test]
    fn rounds_are_counted() {
        let loops = Loops::default();
        loops.has_marked.store(true, Ordering::Relaxed);
        for what in ["pass", &loops.name(&OBJECT)] {
            let mut marks: Vec<String> = Vec::new();
            loop {
                let head = request(&marks.iter().map(|mark| &**mark).collect::<Vec<_>>());
                if loops.is_back(&head, None) {
                    break;
                }
                let mark = loops.text(what, loops.rounds(&head));
                assert!(!marks.contains(&mark), "{marks:?}");
                marks.push(mark);
            }
            assert_eq!(marks.len(), MAX_ROUNDS);
        }
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
