// SPDX-License-Identifier: BSD-2-Clause
//! 103 (Early Hints, RFC 8297): who waits for a page that is fetched is told meanwhile what it will need.

use cache::ObjRef;
use message::head::StoredHead;
use message::{Head, HttpVersion, links};
use tables::tags::Tag;

use super::Req;
use crate::transport::Transport;

impl Req {
    /// Sends the links that the page had when it was here last, as far as `early_hints` says so. `stale` is a former one of the same
    /// variant.
    pub(super) fn send_hints(&mut self, stale: Option<&ObjRef>, transport: &mut dyn Transport) {
        if !self.takes_hints() {
            return;
        }
        let stored = stale.and_then(|stale| StoredHead::parse(stale.head()).ok().map(|head| links_of(&head)));
        let Some(links) = stored.or_else(|| self.engine().fetches.hints.of(&self.ask.digest)) else { return };
        if links.is_empty() {
            return;
        }
        let mut head = Head::with_limits(self.ask.head.limits());
        let fits = head.start_response(b"HTTP/1.1", 103).is_ok()
            && head.set_reason("Early Hints").is_ok()
            && head.append(links::LINK, &links).is_ok();
        if !fits {
            return;
        }
        self.engine().main.early_hints.inc();
        self.log.put_parts(Tag::Notice, &[b"lacquer: early hints: ", &links]);
        transport.send_interim(&head);
    }

    fn takes_hints(&self) -> bool {
        let version = self.ask.original.version();
        let is_spoken = match self.params.early_hints.as_str() {
            "h2" => version > HttpVersion::HTTP11,
            "all" => version >= HttpVersion::HTTP11,
            _ => false,
        };
        // What a script asks for isn't a page (Fetch Metadata): browsers heed hints of navigations alone.
        let is_page = self.ask.head.get("Sec-Fetch-Mode").is_none_or(|mode| mode == b"navigate");
        is_spoken && is_page && self.ask.original.method() == b"GET" && !self.esi.is_fragment()
    }
}

fn links_of(stored: &StoredHead<'_>) -> Vec<u8> {
    links::ahead(
        stored.fields().filter(|(name, _)| name.eq_ignore_ascii_case(links::LINK.as_bytes())).map(|(_, value)| value),
    )
}
