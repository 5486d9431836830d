// SPDX-License-Identifier: BSD-2-Clause
//! The significance of URLs' queries, as origins declare it (No-Vary-Search, `message::rfc9111::QueryVariance`), by
//! host and path, and bounded. Only requests by RFC 9111 use it.
//!
//! Objects of such a path are found under an alias: the digest of the URL reduced to its significant part, with a
//! number that is drawn when the declaration is learned. So only requests under the declaration of an object's own
//! response find it under an alias. And no object that a purge couldn't reach comes back when an origin changes its
//! declaration, or after a restart.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::lock::Mutex;
use cache::{Digest, DigestBuilder};
use message::rfc9111::{self, QueryVariance};

const MAX_PATHS: usize = 4096;
/// Longest host and path together.
const MAX_BYTES: usize = 2048;

/// The significance of queries as origins declared it, by path; see the module.
#[derive(Debug, Default)]
pub struct Queries {
    /// Number of paths known, which is mostly 0.
    count: AtomicUsize,
    paths: Mutex<Paths>,
}

#[derive(Debug, Default)]
struct Paths {
    known: HashMap<Box<[u8]>, Arc<Learned>>,
    /// Oldest first; each once.
    order: VecDeque<Box<[u8]>>,
    numbers: RandomState,
    drawn: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Learned {
    pub variance: QueryVariance,
    number: u64,
}

impl Learned {
    /// The digest under which an object is found; `reduced` is the digest of the reduced URL.
    pub fn alias(&self, reduced: &Digest) -> Digest {
        let mut builder = DigestBuilder::new();
        builder.add(Some(b"no-vary-search"));
        builder.add(Some(&self.number.to_le_bytes()));
        builder.add(Some(&reduced.0));
        builder.finish()
    }
}

impl Queries {
    pub(crate) fn of(&self, host: &[u8], url: &[u8]) -> Option<Arc<Learned>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.paths.lock().known.get(&key(host, url)[..]).cloned()
    }

    /// A response for a URL has said that, or nothing.
    pub(crate) fn learn(&self, host: &[u8], url: &[u8], said: Option<QueryVariance>) {
        let key = key(host, url);
        if key.len() > MAX_BYTES || (said.is_none() && self.count.load(Relaxed) == 0) {
            return;
        }
        let mut paths = self.paths.lock();
        match said {
            Some(variance) => paths.put(key.into(), variance),
            None => paths.remove(&key),
        }
        self.count.store(paths.known.len(), Relaxed);
    }
}

impl Paths {
    fn put(&mut self, key: Box<[u8]>, variance: QueryVariance) {
        if self.known.get(&key).is_some_and(|known| known.variance == variance) {
            return;
        }
        self.drawn += 1;
        let number = self.numbers.hash_one(self.drawn);
        if self.known.insert(key.clone(), Arc::new(Learned { variance, number })).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_PATHS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if self.known.remove(key).is_some() {
            self.order.retain(|other| **other != *key);
        }
    }
}

/// Host and path, without the query.
fn key(host: &[u8], url: &[u8]) -> Vec<u8> {
    [&host.to_ascii_lowercase(), &b" "[..], rfc9111::path(url)].concat()
}

#[cfg(test)]
mod tests {
    use message::Head;

    use super::*;

    fn variance(field: &str) -> Option<QueryVariance> {
        let mut head = Head::new();
        head.append("No-Vary-Search", field).unwrap();
        QueryVariance::from_head(&head)
    }

    #[test]
    fn what_is_said_is_known_of_the_path_until_something_else_is_said() {
        let queries = Queries::default();
        let of = |url: &str| queries.of(b"A", url.as_bytes());
        queries.learn(b"a", b"/x?b=1", None);
        assert_eq!(of("/x"), None);
        queries.learn(b"a", b"/x?b=1", variance("params=(\"b\")"));
        let first = of("/x?c").expect("it was learned");
        queries.learn(b"a", b"/x?d", variance("params=(\"b\")"));
        assert_eq!(of("/x"), Some(first.clone()), "the same again is nothing new");
        assert_eq!((of("/y"), queries.of(b"b", b"/x")), (None, None));
        queries.learn(b"a", b"/x", variance("key-order"));
        queries.learn(b"a", b"/x", variance("params=(\"b\")"));
        let again = of("/x").expect("it was learned");
        let digest = Digest([1; 32]);
        assert_eq!(again.variance, first.variance);
        assert_ne!(again.alias(&digest), first.alias(&digest), "what was stored before isn't found");
        queries.learn(b"a", b"/x", None);
        assert_eq!(of("/x"), None);
    }

    #[test]
    fn paths_are_bounded() {
        let queries = Queries::default();
        for n in 0..MAX_PATHS + 2 {
            queries.learn(b"a", format!("/{n}").as_bytes(), variance("key-order"));
        }
        queries.learn(b"a", "/x".repeat(MAX_BYTES).as_bytes(), variance("key-order"));
        assert_eq!(queries.count.load(Relaxed), MAX_PATHS);
        assert!(queries.of(b"a", b"/1").is_none() && queries.of(b"a", b"/2").is_some());
    }
}
