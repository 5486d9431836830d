// SPDX-License-Identifier: BSD-2-Clause
//! A shared cache by the text of RFC 9111 (with RFC 5861, 9213, 9875), slow and obvious: a map of stored responses and a
//! sequence of questions about them, each with the section that asks it. One exchange at a time.
//!
//! ```text
//! mod           4           which way a request goes
//! selected      4.1         which stored response it is about; No-Vary-Search
//! asked         4.3.1       what the origin is asked
//! received      3.2, 4.3    what comes of its answer: it is stored, renews what is, takes its place, is put together with it
//! stored        3, 4.2      as what it is stored, whether it may be, how long it is fresh
//! parts         3.3, 3.4    what is stored in part
//! answered      4.2.4, 5.2  what the client gets
//! invalidated   4.4         what is forgotten
//! ```
//!
//! Where the RFC leaves a choice it has the one that `docs/rfc9111.md` tells of: what is kept for how long, what is guessed,
//! when what is stale takes the place of an error. It knows nothing of hit-for-miss, of objects, or of the code that it is
//! compared with.

mod answered;
mod asked;
mod invalidated;
mod parts;
mod received;
mod selected;
mod stored;

use std::collections::BTreeMap;

pub(super) use self::answered::Expected;
use self::answered::pass;
pub(super) use self::asked::Asked;
use self::asked::Fetch;
use self::selected::Address;
use self::stored::Stored;
use super::draw::Answering;
use super::fields::{Directives, field, joined};
use crate::plan::SimAsk;

#[derive(Debug, Default)]
pub(super) struct Model {
    /// Responses by URL, and by the request's values of the fields that its answers vary on (4.1).
    stored: BTreeMap<(Address, Vec<Option<String>>), Stored>,
    /// The fields that answers of a path vary on, as its answers have said.
    vary: BTreeMap<String, Vec<String>>,
    /// Latest No-Vary-Search of each path's answers, with a number.
    queries: BTreeMap<String, (u64, String)>,
    /// Number of changes of that.
    changes: u64,
}

impl Model {
    /// The expected answer to a request at `now`, in seconds since 1970.
    pub fn exchange(&mut self, now: f64, ask: &SimAsk, origin: &Answering) -> Expected {
        self.stored.retain(|_, stored| stored.is_kept(now));
        if !matches!(&*ask.method, "GET" | "HEAD") {
            return self.unsafe_request(now, ask, origin);
        }
        if field(&ask.headers, "X-Pass").is_some() {
            return self.pass(now, ask, origin);
        }
        let wishes = joined(&ask.headers, "Cache-Control").map(|text| Directives::parse(&text)).unwrap_or_default();
        let key = self.key(ask);
        let stored = self.stored.get(&key).cloned();
        if let Some(stored) = stored.as_ref().filter(|stored| stored.has_what_is_asked(ask)) {
            if stored.is_fresh(now) && wishes.allow(stored, now) {
                return stored.reuse(now, ask, Vec::new());
            }
            if stored.is_within_stale_while_revalidate(now) && wishes.say_nothing_of_age() {
                let asked = self.revalidate_behind(now, ask, stored, origin);
                return stored.reuse(now, ask, asked);
            }
            if wishes.take_stale(stored, now) {
                return stored.reuse(now, ask, Vec::new());
            }
        }
        if wishes.has("only-if-cached") {
            return Expected::made(504, Vec::new());
        }
        if wishes.has("no-store") {
            return self.pass(now, ask, origin);
        }
        self.forward(now, ask, stored.as_ref(), origin)
    }

    fn pass(&mut self, now: f64, ask: &SimAsk, origin: &Answering) -> Expected {
        let expected = pass(now, ask, origin);
        if ask.method == "HEAD" && expected.status == 200 && !origin.is_dead {
            self.heed_head(&Fetch::new(now, ask, Asked::by_head(), origin));
        }
        expected
    }
}
