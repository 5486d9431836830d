// SPDX-License-Identifier: BSD-2-Clause
//! `Upgrade: h2c` (RFC 7540 3.2): a request of HTTP/1.1 whose answer is the first stream. As varnishd takes it, without a body; otherwise
//! than there only if it was meant for us: a front proxy that passes Upgrade on alone would hand its client a tunnel.

use engine::Req;
use engine::httplog::REQ;
use http2::Http2Settings;
use message::{Head, HttpVersion, list, names};
use params::{DebugBit, FeatureBit};
use tables::tags::Tag;

use super::PROTOCOL;

pub(crate) const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

/// The request that asked, and what its client announced.
pub(crate) struct Upgraded {
    pub(crate) req: Req,
    pub(crate) head_bytes: u64,
    pub(super) settings: Http2Settings,
}

pub(crate) fn is_wanted(req: &mut Req, has_body: bool) -> bool {
    if !req.ask.head.get(names::UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case(b"h2c")) {
        return false;
    }
    if !req.params().feature.has(FeatureBit::Http2) {
        req.log.put(Tag::Debug, b"H2 upgrade attempt");
        return false;
    }
    if !req.params().http_lenient && !is_for_us(&req.ask.head) {
        req.log.put(Tag::Debug, b"H2 upgrade attempt without Connection");
        return false;
    }
    if has_body {
        req.log.put(Tag::Debug, b"H2 upgrade attempt has body");
        return false;
    }
    true
}

/// True if the Upgrade is one of this connection (RFC 9110 7.8), which goes on, and there is one HTTP2-Settings (RFC
/// 7540 3.2.1).
fn is_for_us(head: &Head) -> bool {
    let says = |option| head.get_all(names::CONNECTION.as_bytes()).any(|value| list::has(value, option));
    head.version() == HttpVersion::HTTP11
        && says(b"upgrade")
        && !says(b"close")
        && head.count(names::HTTP2_SETTINGS) == 1
}

/// Makes the request a stream's. `Err`: its settings are none.
pub(crate) fn upgrade(mut req: Req, head_bytes: u64) -> Result<Box<Upgraded>, Box<Req>> {
    req.log.put(Tag::Debug, b"H2 Optimistic Upgrade");
    let is_lax = req.params().debug.has(DebugBit::H2Nocheck);
    let field = req.ask.head.get(names::HTTP2_SETTINGS);
    let settings = field.and_then(|field| Http2Settings::from_upgrade(field, is_lax));
    if let Some(field) = field.map(<[u8]>::to_vec) {
        req.log.put_parts(Tag::Debug, &[b"H2CS ", &field]);
    }
    let Some(settings) = settings else { return Err(Box::new(req)) };
    REQ.unset(&mut req.ask.head, &mut req.log, names::UPGRADE);
    REQ.unset(&mut req.ask.head, &mut req.log, names::HTTP2_SETTINGS);
    if req.ask.head.set_proto(PROTOCOL).is_err() {
        return Err(Box::new(req));
    }
    req.log.put(Tag::ReqProtocol, PROTOCOL.as_bytes());
    Ok(Box::new(Upgraded { req, head_bytes, settings }))
}
