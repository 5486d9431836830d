// SPDX-License-Identifier: BSD-2-Clause
//! What comes of an answer of the origin: it is stored (3), put together with what there is (3.4), renews that (4.3.4) or takes its place
//! (4.3.3), or what is stale takes the place of it (4.2.4). What an answer to HEAD tells (4.3.5), what is done behind an answer (RFC 5861 3).

use super::Model;
use super::answered::{Expected, Trouble};
use super::asked::{Asked, Fetch};
use super::selected::{path, says_something};
use super::stored::Stored;
use crate::plan::SimAsk;
use crate::rfc9111::draw::Answering;
use crate::rfc9111::fields::{Directives, field, joined, members};

impl Model {
    pub(super) fn forward(&mut self, now: f64, ask: &SimAsk, stored: Option<&Stored>, origin: &Answering) -> Expected {
        let missing = stored.filter(|stored| !stored.has_what_is_asked(ask));
        let asked = match (missing, stored) {
            (Some(stored), _) => stored.rest(ask),
            (None, Some(stored)) => stored.conditions(),
            (None, None) => Asked::plain(),
        };
        let fetch = Fetch::new(now, ask, asked.or_part_of(ask).or_by_head(ask), origin);
        let received = fetch.received;
        let usable = stored.filter(|stored| stored.has_what_is_asked(ask));
        let stands_in = |at: f64, trouble| usable.filter(|stored| stored.may_stand_in(at, trouble));
        if origin.is_dead {
            return match stands_in(now, Trouble::Disconnected) {
                Some(stored) => self.stand_in(now, &fetch, stored.clone()),
                None => Expected::made(503, vec![fetch.asked]),
            };
        }
        let is_error = matches!(fetch.answer.status, 500 | 502 | 503 | 504);
        if is_error && let Some(stored) = stands_in(received, Trouble::ServerError) {
            return self.stand_in(received, &fetch, stored.clone());
        }
        let is_denied = |stored: &Stored| stored.is_incomplete() && !stored.is_confirmed_by(&fetch.answer);
        if fetch.answer.status == 304 && stored.is_some_and(is_denied) {
            // Of what is there nothing can be said.
            let key = self.key(ask);
            self.stored.remove(&key);
            return self.ask_again(&fetch, None);
        }
        match fetch.answer.status {
            206 => self.take_part(&fetch, stored),
            _ => self.take_whole(&fetch, stored),
        }
    }

    /// The whole is asked for, as what `first` has brought is of no use.
    fn ask_again(&mut self, first: &Fetch, stored: Option<&Stored>) -> Expected {
        let ask = first.ask;
        let fetch = Fetch::new(first.received, ask, Asked::plain().or_by_head(ask), first.origin);
        let mut expected = self.take_whole(&fetch, stored);
        expected.asked.insert(0, first.asked.clone());
        expected
    }

    /// A 206: stored as incomplete, or combined with the incomplete response that is stored (3.3, 3.4).
    fn take_part(&mut self, fetch: &Fetch, stored: Option<&Stored>) -> Expected {
        match stored.filter(|stored| !stored.has_what_is_asked(fetch.ask)) {
            Some(rest) => self.combine(fetch, rest),
            None => self.take_first_part(fetch, stored),
        }
    }

    fn take_first_part(&mut self, fetch: &Fetch, stored: Option<&Stored>) -> Expected {
        let Some(part) = fetch.answer.believed(fetch.asked.range.as_deref()) else {
            // It is no answer to what was asked.
            let stand_in = stored.filter(|stored| stored.may_stand_in(fetch.received, Trouble::Disconnected));
            return match stand_in {
                Some(stored) => self.stand_in(fetch.received, fetch, stored.clone()),
                None => Expected::made(503, vec![fetch.asked.clone()]),
            };
        };
        let own = Stored::of(fetch);
        if let Some(total) = part.total.filter(|_| own.is_strong()) {
            let new = own.clone().with_part(part.first, total, &fetch.answer.body, None);
            if fetch.may_store(&new) && new.has_what_is_asked(fetch.ask) {
                return self.keep(fetch, new, part.first);
            }
        }
        if own.range_for(fetch.ask).is_none() {
            // The client has asked for all, or has a part of another version.
            return self.ask_again(fetch, stored);
        }
        // It is for this client alone. There may be less of it than was asked for (RFC 9110 15.3.7).
        if !fetch.is_cut() {
            let key = self.key(fetch.ask);
            self.stored.remove(&key);
        }
        Expected { is_cut: fetch.is_cut(), ..fetch.deliver(&own) }
    }

    /// A part that was asked for beside those of `rest`.
    fn combine(&mut self, fetch: &Fetch, rest: &Stored) -> Expected {
        let ask = fetch.ask;
        let part = fetch.answer.believed(fetch.asked.range.as_deref());
        let Some((first, total)) = part.and_then(|part| Some((part.first, part.total?))) else {
            return self.ask_again(fetch, Some(rest));
        };
        if total != rest.body.len() || !Stored::of(fetch).is_of_version_of(rest) {
            let key = self.key(ask);
            self.stored.remove(&key);
            return self.ask_again(fetch, None);
        }
        let new = Stored::renewed(fetch, rest).with_part(first, total, &fetch.answer.body, Some(rest));
        if fetch.may_store(&new) && new.has_what_is_asked(ask) {
            return self.keep(fetch, new, first);
        }
        self.ask_again(fetch, Some(rest))
    }

    /// Stores what came, from the byte `first` on, or as much of it as came.
    fn keep(&mut self, fetch: &Fetch, new: Stored, first: usize) -> Expected {
        let mut expected = fetch.deliver(&new);
        if !fetch.is_cut() {
            self.store(fetch.ask, new);
            return expected;
        }
        // What was stored before the place where it broke off is there, too, and nothing behind it.
        let cut = new.cut_at(first + fetch.answer.body.len() / 2);
        if cut.held.iter().any(|held| *held) {
            expected.is_cut = !cut.has_what_is_asked(fetch.ask) && !expected.body.is_empty();
            self.store(fetch.ask, cut);
        } else {
            expected.is_cut = !expected.body.is_empty();
        }
        expected
    }

    /// An answer for the whole, which may break off.
    fn take_whole(&mut self, fetch: &Fetch, stored: Option<&Stored>) -> Expected {
        if fetch.asked.method == "HEAD" && fetch.answer.status != 304 {
            // No GET may be answered with it (4).
            if fetch.answer.status == 200 {
                self.heed_head(fetch);
            }
            return fetch.deliver(&Stored::of(fetch));
        }
        if !fetch.is_cut() {
            let new = self.take(fetch, stored);
            return fetch.deliver(&new);
        }
        let new = Stored::of(fetch);
        let is_kept = new.status == 200 && new.is_strong() && fetch.may_store(&new);
        let mut expected = fetch.deliver(&new);
        let cut = new.cut_at(fetch.answer.body.len() / 2);
        expected.is_cut = !(expected.body.is_empty() || expected.status == 206 && cut.has_what_is_asked(fetch.ask));
        if is_kept {
            self.store(fetch.ask, cut);
        }
        expected
    }

    /// The stale response in the place of an error. Fields that mustn't be sent without a validation are gone with it
    /// (5.2.2.4).
    fn stand_in(&mut self, now: f64, fetch: &Fetch, mut stored: Stored) -> Expected {
        let key = self.key(fetch.ask);
        stored.leave_unshared_out();
        let expected = stored.reuse(now, fetch.ask, vec![fetch.asked.clone()]);
        self.stored.insert(key, stored);
        expected
    }

    /// Asks the origin while the client has its answer already (RFC 5861 3): what, one after the other.
    pub(super) fn revalidate_behind(
        &mut self,
        now: f64,
        ask: &SimAsk,
        stored: &Stored,
        origin: &Answering,
    ) -> Vec<Asked> {
        let fetch = Fetch::new(now, ask, stored.conditions(), origin);
        let asked = vec![fetch.asked.clone()];
        // What it has is better than an error.
        if origin.is_dead || matches!(fetch.answer.status, 500 | 502 | 503 | 504) {
            return asked;
        }
        let key = self.key(ask);
        if stored.is_incomplete() && fetch.answer.status == 304 && !stored.is_confirmed_by(&fetch.answer) {
            self.stored.remove(&key);
            return self.ask_again(&fetch, None).asked;
        }
        if fetch.is_cut() && !fetch.may_store(&Stored::of(&fetch)) {
            // Nobody waits for the end of what isn't stored.
            self.stored.remove(&key);
            return asked;
        }
        self.take_whole(&fetch, Some(stored));
        asked
    }

    /// An answer of the origin: what was asked about is renewed by a 304 (4.3.4), and replaced by anything else (4.3.3) but a
    /// server's error that isn't to be stored. Gives what the client gets.
    fn take(&mut self, fetch: &Fetch, stored: Option<&Stored>) -> Stored {
        let ask = fetch.ask;
        let new = match stored.filter(|_| fetch.answer.status == 304) {
            Some(stored) => Stored::renewed(fetch, stored),
            None => Stored::of(fetch),
        };
        let is_stored = fetch.may_store(&new);
        if is_stored {
            let names = joined(&new.fields, "Vary").map(|text| members(&text)).unwrap_or_default();
            self.vary.insert(path(&ask.url).to_owned(), names);
        }
        let key = self.key(ask);
        // What says something else of queries than was known isn't found by those whom it may be for.
        if is_stored && self.learn(&ask.url, &new) {
            self.stored.insert(key, new.clone());
        } else if !matches!(new.status, 500 | 502 | 503 | 504) {
            self.stored.remove(&key);
        }
        new
    }

    /// A 200 to HEAD tells of what is stored (4.3.5).
    pub(super) fn heed_head(&mut self, fetch: &Fetch) {
        let key = self.key(fetch.ask);
        let Some(stored) = self.stored.get_mut(&key) else { return };
        if stored.differs_from(&fetch.answer) {
            let age = stored.age(fetch.received);
            stored.outdated = Some(stored.outdated.map_or(age, |before| before.min(age)));
        } else {
            let stored = stored.clone();
            self.update(fetch, &stored);
        }
    }

    fn update(&mut self, fetch: &Fetch, stored: &Stored) {
        let ask = fetch.ask;
        let wishes = joined(&ask.headers, "Cache-Control").map(|text| Directives::parse(&text)).unwrap_or_default();
        let updated = Stored::renewed(fetch, stored);
        let says = |fields: &[(String, String)]| {
            field(fields, "No-Vary-Search").filter(|said| says_something(said)).map(str::to_owned)
        };
        let is_known = self.queries.get(path(&ask.url)).map(|(_, said)| said) == says(&updated.fields).as_ref();
        // Of such a request nothing is stored (5.2.1.5), nor of what may be one user's (3.5).
        let is_open = is_known && field(&ask.headers, "Authorization").is_none() && !wishes.has("no-store");
        if stored.status != 200 || !is_open {
            return;
        }
        if fetch.may_store(&updated) {
            return self.store(ask, updated);
        }
        let key = self.key(ask);
        self.stored.remove(&key);
    }

    fn store(&mut self, ask: &SimAsk, new: Stored) {
        let names = joined(&new.fields, "Vary").map(|text| members(&text)).unwrap_or_default();
        self.vary.insert(path(&ask.url).to_owned(), names);
        let key = self.key(ask);
        self.stored.insert(key, new);
    }
}
