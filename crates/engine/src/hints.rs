// SPDX-License-Identifier: BSD-2-Clause
//! The links of recently fetched pages, for clients that request such a page while it isn't in the cache: they receive
//! a 103 (Early Hints, RFC 8297). Links are found by digest and bounded: the page that was fetched longest ago makes
//! room. Only fetches use this.

use std::collections::{HashMap, VecDeque};

use base::lock::Mutex;
use cache::Digest;
use message::{Head, links, list, names};

/// Pages that are remembered. Most have a few hundred bytes of links, none more than `message::links` sends ahead.
const MAX_PAGES: usize = 4096;

#[derive(Debug, Default)]
pub struct Hints(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    links: HashMap<Digest, Box<[u8]>>,
    /// Oldest first; each once.
    order: VecDeque<Digest>,
}

impl Hints {
    pub fn remember(&self, digest: &Digest, response: &Head) {
        // Which variant the next client would get isn't known before the page is.
        let links = if varies(response) { Vec::new() } else { links::ahead_of(response) };
        if links.is_empty() && self.0.lock().links.is_empty() {
            return;
        }
        self.0.lock().put(digest, links);
    }

    pub fn of(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.0.lock().links.get(digest).map(|links| links.to_vec())
    }
}

impl Pages {
    fn put(&mut self, digest: &Digest, links: Vec<u8>) {
        if links.is_empty() {
            if self.links.remove(digest).is_some() {
                self.order.retain(|other| other != digest);
            }
            return;
        }
        if self.links.insert(*digest, links.into()).is_none() {
            self.order.push_back(*digest);
        }
        if self.order.len() > MAX_PAGES
            && let Some(oldest) = self.order.pop_front()
        {
            self.links.remove(&oldest);
        }
    }
}

/// True if other clients may receive another page. Vary: Accept-Encoding doesn't count.
fn varies(response: &Head) -> bool {
    response.get(names::VARY).is_some_and(|vary| !list::is(vary, b"accept-encoding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", 200).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head
    }

    fn digest(n: usize) -> Digest {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Digest(bytes)
    }

    const LINK: &str = "Link: </a.css>; rel=preload";

    #[test]
    fn the_last_answer_counts() {
        let hints = Hints::default();
        let check = |lines: &[&str], expected: Option<&str>| {
            hints.remember(&digest(1), &response(lines));
            assert_eq!(hints.of(&digest(1)).as_deref(), expected.map(str::as_bytes), "{lines:?}");
        };
        check(&[], None);
        check(&[LINK], Some("</a.css>; rel=preload"));
        check(&["Link: </b.css>; rel=preload", "Vary: Accept-Encoding"], Some("</b.css>; rel=preload"));
        check(&[LINK, "Vary: Accept-Language"], None);
        check(&[LINK], Some("</a.css>; rel=preload"));
        check(&["Link: </a>; rel=next"], None);
        let pages = hints.0.lock();
        assert_eq!((pages.order.len(), pages.links.len()), (0, 0));
    }

    #[test]
    fn pages_are_bounded() {
        let hints = Hints::default();
        (0..MAX_PAGES + 10).for_each(|n| hints.remember(&digest(n), &response(&[LINK])));
        assert_eq!((hints.of(&digest(9)), hints.of(&digest(10)).is_some()), (None, true));
        assert_eq!(hints.0.lock().links.len(), MAX_PAGES);
    }
}
