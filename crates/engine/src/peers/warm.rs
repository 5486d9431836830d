// SPDX-License-Identifier: BSD-2-Clause
//! Warming a node whose cache is empty: it asks its peers which requests find their hottest objects, and makes these
//! requests itself, each of which is answered by a peer or not at all.
//!
//! * A list is a sequence of request heads, the hottest object first. A head has the URL, the Host and the headers in
//!   Vary. What else VCL hashes isn't known: such a request finds nothing at the peer, and is refused there.
//! * Each request runs `vcl_recv`, `vcl_hash` and a fetch, as one that a peer sends does (`req.is_peer`). The fetch
//!   asks that peer only, for what it has stored, so the rules for copies from peers and for purges hold.
//!
//! The worker decides when to warm and how much (`worker::warm`).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cache::HotObject;
use http1::{HeadProgress, Http1Limits, parse_request};
use message::{Head, HeadLimits, names};
use tables::close::SessClose;

use super::hop::{Hop, HopWants, LACQUER_PEER};
use super::{Peers, TierPeer};
use crate::engine::Engine;
use crate::req::Req;
use crate::req::nobody::{self, NullTransport};
use crate::sess::Sess;

/// The header of a response that is a list: the code by which it is a member's answer to this request.
pub const LACQUER_HOT_LIST: &str = "Lacquer-Hot-List";
/// The header of a listed request with the object's hits per second and the bytes of its body.
const LACQUER_USE: &str = "Lacquer-Use";
pub const MOST_LISTED: usize = 10_000;
pub const LONGEST_LIST: usize = 1 << 20;
/// Bytes of a listed request; a longer one is left out.
const LONGEST_HEAD: usize = 8 << 10;

#[derive(Debug)]
pub struct HotRequest {
    /// The request without a peer's own headers. Kept as bytes, because a parsed head takes several times its length.
    pub text: Box<[u8]>,
    pub rate: f64,
    pub body_bytes: u64,
}

impl HotRequest {
    fn new(head: &Head, rate: f64, body_bytes: u64) -> HotRequest {
        let mut text = [b"GET ", head.url(), b" HTTP/1.1\r\n"].concat();
        for field in head.iter() {
            text.extend([field.line(), b"\r\n"].concat());
        }
        text.extend(b"\r\n");
        HotRequest { text: text.into(), rate, body_bytes }
    }

    fn head(&self) -> Option<Head> {
        Some(parse_next(&self.text)?.0)
    }
}

pub struct ListRequest {
    pub bytes: Vec<u8>,
    field: String,
}

struct Listing(Arc<AtomicBool>);

impl Drop for Listing {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

pub(crate) async fn hot_list(engine: &Arc<Engine>) -> Result<Vec<u8>, &'static str> {
    let peers = engine.cluster.peers().ok_or("no member of a tier")?;
    if !engine.params.load().tag_urls {
        return Err("tag_urls is off, so its objects don't know their URLs");
    }
    if peers.is_listing.swap(true, Relaxed) {
        return Err("it lists its objects for another node");
    }
    let (right, cache) = (Listing(peers.is_listing.clone()), engine.cache.clone());
    let make = move || {
        // Held until the walk is over, also if the peer doesn't wait for it.
        let _right = right;
        list_of(&cache.hottest(MOST_LISTED))
    };
    rt::blocking(make).await.map_err(|_| "it has no thread for a list")
}

fn list_of(hottest: &[HotObject]) -> Vec<u8> {
    let mut list = Vec::new();
    for hot in hottest {
        let head = head_of(hot).unwrap_or_default();
        if list.len() + head.len() > LONGEST_LIST {
            break;
        }
        list.extend(head);
    }
    list
}

fn head_of(hot: &HotObject) -> Option<Vec<u8>> {
    let mut head = [b"GET ", &*hot.url, b" HTTP/1.1\r\n"].concat();
    let uses = format!("{:.3} {}", hot.rate, hot.body_bytes);
    let own = [(names::HOST.as_bytes(), &*hot.host), (LACQUER_USE.as_bytes(), uses.as_bytes())];
    let is_own = |name: &[u8]| own.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let selecting = hot.selecting.iter().map(|(name, value)| (&**name, &**value)).filter(|(name, _)| !is_own(name));
    for (name, value) in own.into_iter().chain(selecting) {
        let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        if !is_plain || value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return None;
        }
        head.extend([name, b": ", value, b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    (head.len() <= LONGEST_HEAD).then_some(head)
}

/// Reads a peer's list, up to the first entry that is none.
fn read_list(mut list: &[u8]) -> Vec<HotRequest> {
    let mut found = Vec::new();
    while found.len() < MOST_LISTED {
        let Some((mut head, consumed)) = parse_next(list) else { break };
        list = &list[consumed..];
        let Some((rate, body_bytes)) = head.get(LACQUER_USE).and_then(read_use) else { break };
        if head.method() != b"GET" {
            break;
        }
        for name in [LACQUER_USE, LACQUER_PEER] {
            head.unset(name);
        }
        found.push(HotRequest::new(&head, rate, body_bytes));
    }
    found
}

fn parse_next(list: &[u8]) -> Option<(Head, usize)> {
    let mut head = Head::with_limits(HeadLimits::default());
    match parse_request(list, &Http1Limits::default(), &mut head) {
        Ok(HeadProgress::Complete(parsed)) => Some((head, parsed.consumed)),
        _ => None,
    }
}

fn read_use(value: &[u8]) -> Option<(f64, u64)> {
    let (rate, bytes) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let rate = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)?;
    Some((rate, bytes.parse().ok()?))
}

impl Peers {
    pub fn hot_list_request(&self, engine: &Engine, peer: &TierPeer) -> ListRequest {
        let mut head = Head::with_limits(HeadLimits::default());
        let hop = Hop {
            from: self.own_name().to_string(),
            to: peer.name().to_owned(),
            at: engine.clock.real(),
            log: None,
            newer: None,
            wants: HopWants::HotList,
        };
        let host = peer.server().to_string();
        let made = head.start_request(b"GET", b"/", b"HTTP/1.1").and_then(|()| head.append(names::HOST, &*host));
        assert!(made.is_ok(), "a head has room for a host");
        let field = self.secret().field(&hop, &head);
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{LACQUER_PEER}: {field}\r\nConnection: close\r\n\r\n");
        ListRequest { bytes: text.into_bytes(), field }
    }

    /// Reads a member's response to `request`; `None`: none of the members has made it.
    pub fn read_list_of(&self, request: &ListRequest, code: &[u8], list: &[u8]) -> Option<Vec<HotRequest>> {
        self.secret().is_response_of_member(request.field.as_bytes(), list, code).then(|| read_list(list))
    }
}

/// The session of the requests by which this node warms.
pub struct WarmSession(Rc<Sess>);

impl WarmSession {
    pub fn open(engine: &Arc<Engine>) -> WarmSession {
        // No client has that address, and no ACL names it.
        let (listener, connection) = nobody::place("warm", ([0, 0, 0, 0], 0).into());
        WarmSession(Sess::open(engine, &listener, &connection, "HTTP/1"))
    }

    /// Makes a request, which `peer` alone may answer. Returns the bytes of the body; `None`: no object came.
    pub async fn fetch(&self, peer: &Arc<TierPeer>, hot: &HotRequest) -> Option<u64> {
        let (engine, head) = (&self.0.engine, hot.head()?);
        let (now, mut transport) = (engine.clock.real(), NullTransport::default());
        let mut req = Req::with_new_id(&self.0, engine.params.load_full(), now);
        req.begin(now);
        req.ask.head.copy_from(&head);
        req.warm_from(peer);
        req.run(&mut transport).await;
        req.finish(&transport);
        let is_good = (1..500).contains(&transport.status);
        if !is_good && let Some(peers) = engine.cluster.peers() {
            peers.counters.warm_failed.inc();
        }
        is_good.then_some(transport.body_bytes)
    }
}

impl Drop for WarmSession {
    fn drop(&mut self) {
        self.0.close(SessClose::RespClose);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hot(url: &str, selecting: &[(&str, &str)]) -> HotObject {
        let boxed = |text: &str| text.as_bytes().into();
        HotObject {
            host: boxed("site"),
            url: boxed(url),
            selecting: selecting.iter().map(|(name, value)| (boxed(name), boxed(value))).collect(),
            rate: 2.5,
            body_bytes: 7,
        }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let long = format!("/{}", "x".repeat(LONGEST_HEAD));
        let all = [
            hot("/a?b", &[("Accept-Language", "de, en"), ("X-Empty", "")]),
            hot(&long, &[]),
            hot("/split", &[("X", "a\r\nY: b")]),
            hot("/host", &[("host", "other"), ("lacquer-use", "9 9")]),
            hot("/params", &[("Accept-Language;de", "1")]),
        ];
        let found = read_list(&list_of(&all));
        let heads: Vec<_> = found.iter().map(|hot| hot.head().unwrap()).collect();
        let urls: Vec<_> = heads.iter().map(|head| String::from_utf8_lossy(head.url()).into_owned()).collect();
        assert_eq!(urls, ["/a?b", "/host"]);
        assert_eq!((found[0].rate, found[0].body_bytes, heads[0].get("Lacquer-Use")), (2.5, 7, None));
        assert_eq!(heads[0].get("accept-language"), Some(&b"de, en"[..]));
        assert_eq!(heads[1].get("host"), Some(&b"site"[..]));
    }

    #[test]
    fn a_list_is_bounded() {
        let many: Vec<_> = (0..MOST_LISTED).map(|n| hot(&format!("/{n}/{}", "x".repeat(200)), &[])).collect();
        let list = list_of(&many);
        assert!(list.len() <= LONGEST_LIST && list.len() > LONGEST_LIST - 500, "{}", list.len());
        let found = read_list(&list);
        let read: usize = found.iter().map(|hot| hot.text.len()).sum();
        assert!(found.len() > 3000 && read < list.len(), "{} of {read} bytes", found.len());
    }

    proptest! {
        #[test]
        fn a_peer_may_send_anything(junk in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..200) {
            let mut list = list_of(&[hot("/a", &[]), hot("/b", &[("X", "y")])]);
            let at = at.min(list.len());
            list.splice(at..at, junk);
            let found = read_list(&list);
            prop_assert!(found.len() <= 20 && found.iter().all(|hot| hot.head().is_some()));
        }
    }
}
