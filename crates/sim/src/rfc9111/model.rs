// SPDX-License-Identifier: BSD-2-Clause
//! A shared cache by the text of RFC 9111 (with RFC 5861, 9213, 9875), slow and obvious: a map of stored responses and a
//! sequence of questions about them, each with the section that asks it. One exchange at a time.
//!
//! Where the RFC leaves a choice it has the one that `docs/rfc9111.md` tells of: what is kept for how long, what is guessed,
//! when what is stale takes the place of an error. It knows nothing of hit-for-miss, of objects, or of the code that it is
//! compared with.

use std::collections::BTreeMap;

use super::draw::{Answering, BEGIN, OriginAnswer};
use super::fields::{Directives, Fields, date, field, joined, members, parse_date, remove, seconds};
use crate::plan::Ask;

/// How long what is stale is kept to be validated (`rfc9111_keep`), in seconds.
const KEEP: f64 = 3600.0;
/// What is guessed of a lifetime: a part of the time since the last change, and no more than so many seconds.
const GUESS: f64 = 0.1;
const GUESS_MOST: f64 = 86_400.0;
/// The site's name.
const HOST: &str = "http://example.com";

/// What a client is to get.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub status: u16,
    pub fields: Fields,
    pub body: String,
    /// The connection breaks off before the body's end.
    pub is_cut: bool,
    /// Seconds; `None` where it isn't the cache's to say.
    pub age: Option<f64>,
    /// What the origin is asked, one after the other.
    pub asked: Vec<Asked>,
}

/// A request as the origin gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub method: String,
    pub if_none_match: Option<String>,
    pub if_modified_since: Option<String>,
    pub range: Option<String>,
    pub if_range: Option<String>,
}

/// A stored response.
#[derive(Clone, Debug)]
struct Stored {
    status: u16,
    fields: Fields,
    body: String,
    /// For each byte of the body whether it is there (3.3).
    held: Vec<bool>,
    /// `corrected_initial_age`, and `response_time` (4.2.3).
    initial_age: f64,
    received: f64,
    /// Whether the request lets anything be guessed.
    may_guess: bool,
    /// How old it was when an answer to HEAD told that it isn't good any more.
    outdated: Option<f64>,
    /// The strong validator of the response whose bytes these are, if not all are there: its field and value. What is stored of the
    /// fields may be updated by another, weak one (3.4).
    version: Option<(&'static str, String)>,
}

/// A request of the cache's and the origin's answer.
#[derive(Clone, Debug)]
struct Fetch<'a> {
    ask: &'a Ask,
    origin: &'a Answering,
    sent: f64,
    received: f64,
    asked: Asked,
    answer: OriginAnswer,
}

impl<'a> Fetch<'a> {
    fn new(sent: f64, ask: &'a Ask, asked: Asked, origin: &'a Answering) -> Self {
        let received = sent + origin.delay_ms() as f64 / 1000.0;
        let answer = origin.answer(&asked.fields(), received.floor() as i64);
        Fetch { ask, origin, sent, received, asked, answer }
    }

    /// The answer breaks off before its end.
    fn is_cut(&self) -> bool {
        self.origin.is_cut && self.answer.status != 304
    }

    /// What the client gets of `stored`.
    fn deliver(&self, stored: &Stored) -> Expected {
        stored.deliver(self.ask, vec![self.asked.clone()], self.received)
    }

    fn may_store(&self, new: &Stored) -> bool {
        new.may_be_stored(self.ask) && new.is_of_use()
    }
}

/// The cache.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// By URL, and by what the request has for the fields that its answers vary on (4.1).
    stored: BTreeMap<(Address, Vec<Option<String>>), Stored>,
    /// The fields that answers of a path vary on, as its answers have said.
    vary: BTreeMap<String, Vec<String>>,
    /// What the last answers of a path have said of queries, with a number.
    queries: BTreeMap<String, (u64, String)>,
    /// How often that has changed.
    changes: u64,
}

/// A URL as it is, with 0, or reduced to what matters, with the number of what says so: what is stored while something else is said
/// isn't found.
type Address = (u64, String);

/// Why no answer of the origin is there to be used (4.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Disconnected,
    ServerError,
}

impl Model {
    /// What comes of a request at `now`, in seconds since 1970.
    pub fn exchange(&mut self, now: f64, ask: &Ask, origin: &Answering) -> Expected {
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

    /// Which of the stored responses a request selects (4.1).
    fn key(&self, ask: &Ask) -> (Address, Vec<Option<String>>) {
        let names = self.vary.get(path(&ask.url)).cloned().unwrap_or_default();
        (self.address(&ask.url), names.iter().map(|name| selecting(ask, name)).collect())
    }

    fn address(&self, url: &str) -> Address {
        match self.queries.get(path(url)) {
            Some((number, said)) => (*number, reduced(url, said)),
            None => (0, url.to_owned()),
        }
    }

    /// What an answer says of queries; whether it is what was known (No-Vary-Search, 6).
    fn learn(&mut self, url: &str, answer: &Stored) -> bool {
        let said = field(&answer.fields, "No-Vary-Search").filter(|said| says_something(said)).map(str::to_owned);
        if self.queries.get(path(url)).map(|(_, said)| said) == said.as_ref() {
            return true;
        }
        if answer.status < 400 {
            self.changes += 1;
            match said {
                Some(said) => drop(self.queries.insert(path(url).to_owned(), (self.changes, said))),
                None => drop(self.queries.remove(path(url))),
            }
        }
        false
    }

    /// A request that goes past the cache.
    fn pass(&mut self, now: f64, ask: &Ask, origin: &Answering) -> Expected {
        let expected = pass(now, ask, origin);
        if ask.method == "HEAD" && expected.status == 200 && !origin.is_dead {
            self.heed_head(&Fetch::new(now, ask, Asked::by_head(), origin));
        }
        expected
    }

    /// A 200 to HEAD tells of what is stored (4.3.5).
    fn heed_head(&mut self, fetch: &Fetch) {
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

    /// Its fields take the place of the stored ones (3.2).
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

    fn store(&mut self, ask: &Ask, new: Stored) {
        let names = joined(&new.fields, "Vary").map(|text| members(&text)).unwrap_or_default();
        self.vary.insert(path(&ask.url).to_owned(), names);
        let key = self.key(ask);
        self.stored.insert(key, new);
    }

    /// Invalidation (4.4), and that of groups (RFC 9875 3).
    fn unsafe_request(&mut self, now: f64, ask: &Ask, origin: &Answering) -> Expected {
        let expected = pass(now, ask, origin);
        if (200..400).contains(&expected.status) {
            self.forget(&ask.url);
            for name in ["Location", "Content-Location"] {
                if let Some(url) = field(&expected.fields, name).and_then(of_same_origin) {
                    self.forget(&url);
                }
            }
            let groups = groups(&expected.fields, "Cache-Group-Invalidation");
            self.stored.retain(|_, stored| {
                !self::groups(&stored.fields, "Cache-Groups").iter().any(|group| groups.contains(group))
            });
        }
        expected
    }

    fn forget(&mut self, url: &str) {
        let addresses = [(0, url.to_owned()), self.address(url)];
        self.stored.retain(|(other, _), _| !addresses.contains(other));
    }

    /// Asks the origin on behalf of a client.
    fn forward(&mut self, now: f64, ask: &Ask, stored: Option<&Stored>, origin: &Answering) -> Expected {
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

    /// What is stale in the place of an error. Fields that mustn't be sent without a validation are gone with it (5.2.2.4).
    fn stand_in(&mut self, now: f64, fetch: &Fetch, mut stored: Stored) -> Expected {
        let key = self.key(fetch.ask);
        stored.leave_unshared_out();
        let expected = stored.reuse(now, fetch.ask, vec![fetch.asked.clone()]);
        self.stored.insert(key, stored);
        expected
    }

    /// Asks the origin while the client has its answer already (RFC 5861 3): what, one after the other.
    fn revalidate_behind(&mut self, now: f64, ask: &Ask, stored: &Stored, origin: &Answering) -> Vec<Asked> {
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
}

/// A request that goes through, with its own conditions.
fn pass(now: f64, ask: &Ask, origin: &Answering) -> Expected {
    let of = |name| field(&ask.headers, name).map(str::to_owned);
    let (if_none_match, if_modified_since) = (of("If-None-Match"), of("If-Modified-Since"));
    let (range, if_range) = (of("Range"), of("If-Range"));
    let asked = Asked { method: ask.method.clone(), if_none_match, if_modified_since, range, if_range };
    if origin.is_dead {
        return Expected::made(503, vec![asked]);
    }
    let received = now + origin.delay_ms() as f64 / 1000.0;
    let OriginAnswer { status, mut fields, body } = origin.answer(&asked.fields(), received.floor() as i64);
    if field(&fields, "Date").is_none() {
        fields.push(("Date".to_owned(), date(received.floor() as i64)));
    }
    remove(&mut fields, "Age");
    let answer = OriginAnswer { status, fields, body };
    if status == 206 && answer.believed(asked.range.as_deref()).is_none() {
        return Expected::made(503, vec![asked]);
    }
    let OriginAnswer { status, fields, body } = answer;
    let (held, length) = (vec![true; body.len()], body.len());
    let (initial_age, may_guess) = (0.0, false);
    let got = Stored { status, fields, body, held, initial_age, received, may_guess, outdated: None, version: None };
    let mut expected = Expected { age: None, ..got.deliver(ask, vec![asked], received) };
    if origin.is_cut && status != 304 && !expected.body.is_empty() {
        let cut = got.cut_at(length / 2);
        expected.is_cut = !(status == 200 && expected.status == 206 && cut.has_what_is_asked(ask));
    }
    expected
}

/// What a request has for a field that answers vary on: lines joined, blanks around commas taken off (4.1).
fn selecting(ask: &Ask, name: &str) -> Option<String> {
    joined(&ask.headers, name).map(|text| members(&text).join(","))
}

fn path(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// Whether No-Vary-Search makes a difference, of those that are drawn.
fn says_something(said: &str) -> bool {
    said != "params=?1"
}

/// A URL with what of its query matters, by those of No-Vary-Search that are drawn.
fn reduced(url: &str, said: &str) -> String {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.replace("i%64", "id"));
    let mut pairs: Vec<String> = pairs
        .filter(|pair| match said {
            "params=(\"u\")" => !pair.starts_with("u="),
            "except=(\"id\")" => pair.starts_with("id="),
            _ => true,
        })
        .collect();
    if said == "key-order" {
        pairs.sort();
    }
    format!("{}?{}", path(url), pairs.join("&"))
}

/// The path of a reference to the same site.
fn of_same_origin(reference: &str) -> Option<String> {
    let reference = reference.strip_prefix(HOST).unwrap_or(reference);
    match reference {
        _ if reference.contains("//") => None,
        _ if reference.starts_with('/') => Some(reference.to_owned()),
        // All URLs are files of one directory.
        _ => Some(format!("/{}", reference.trim_start_matches("../"))),
    }
}

/// A list of strings (RFC 9875 2).
fn groups(fields: &[(String, String)], name: &str) -> Vec<String> {
    joined(fields, name).map(|text| members(&text)).unwrap_or_default()
}

impl Directives {
    /// Whether a request takes what is fresh by itself (5.2.1).
    fn allow(&self, stored: &Stored, now: f64) -> bool {
        let age = stored.age(now);
        let is_young = self.strict_seconds("max-age").is_none_or(|most| age <= most);
        let least = self.strict_seconds("min-fresh").unwrap_or(0.0);
        !self.has("no-cache") && is_young && stored.lifetime() - age >= least
    }

    /// Who says how old an answer may be takes nothing that is older.
    fn say_nothing_of_age(&self) -> bool {
        let is_said = |name| self.strict_seconds(name).is_some();
        !(self.has("no-cache") || is_said("max-age") || is_said("min-fresh"))
    }

    /// `max-stale` (5.2.1.2)
    fn take_stale(&self, stored: &Stored, now: f64) -> bool {
        let Some(most) = self.strict_seconds("max-stale") else { return false };
        let is_young = self.strict_seconds("max-age").is_none_or(|most| stored.age(now) <= most);
        let directives = stored.directives();
        let is_forbidden = stored.forbids_stale() || directives.has("s-maxage");
        let staleness = stored.age(now) - stored.lifetime();
        let is_refused = self.has("no-cache") || self.strict_seconds("min-fresh").is_some();
        is_young && !is_forbidden && !is_refused && staleness <= most
    }
}

impl Stored {
    /// What an answer would be stored as.
    fn of(fetch: &Fetch) -> Self {
        let Fetch { ask, sent, received, .. } = *fetch;
        let OriginAnswer { status, mut fields, body } = fetch.answer.clone();
        if field(&fields, "Date").is_none() {
            // RFC 9110 6.6.1
            fields.push(("Date".to_owned(), date(received.floor() as i64)));
        }
        // Of the response that has just come, whose Age isn't stored (4.2.3).
        let age_value = field(&fields, "Age").map(str::to_owned);
        remove(&mut fields, "Age");
        let apparent_age =
            field(&fields, "Date").and_then(parse_date).map_or(0.0, |date| (received - date as f64).max(0.0));
        let age_value = age_value.as_deref().and_then(|text| seconds(text.split(',').next()?.trim())).unwrap_or(0.0);
        let initial_age = apparent_age.max(age_value + (received - sent));
        // Who says nothing of caching may have answered for one user.
        let may_guess = field(&ask.headers, "Cookie").is_none() && field(&fields, "Set-Cookie").is_none();
        let held = vec![true; body.len()];
        Stored { status, fields, body, held, initial_age, received, may_guess, outdated: None, version: None }
    }

    /// What is stored once its fields are updated by an answer: each takes the place of the stored one, and the body stays (3.2).
    fn renewed(fetch: &Fetch, stored: &Stored) -> Self {
        let mut new = Stored::of(fetch);
        let old = stored.fields.iter().filter(|(name, _)| field(&new.fields, name).is_none());
        let old: Vec<_> = old.cloned().collect();
        new.fields.extend(old);
        new.may_guess &= field(&new.fields, "Set-Cookie").is_none();
        let Stored { status, body, held, version, .. } = stored.clone();
        Stored { status, body, held, version, ..new }
    }

    fn is_incomplete(&self) -> bool {
        self.held.iter().any(|held| !held)
    }

    /// The range that a request is for, if it is for one of this version (RFC 9110 14.2, 13.1.5).
    fn range_for(&self, ask: &Ask) -> Option<(usize, usize)> {
        let range = field(&ask.headers, "Range").filter(|_| ask.method == "GET")?;
        let is_strong_tag = |tag: &str| !tag.starts_with("W/") && field(&self.fields, "ETag") == Some(tag);
        two_numbers(range.strip_prefix("bytes=")?).filter(|_| field(&ask.headers, "If-Range").is_none_or(is_strong_tag))
    }

    /// The bytes that a request is for: all, or those of its range.
    fn asked_bytes(&self, ask: &Ask) -> (usize, usize) {
        let end = self.body.len().saturating_sub(1);
        self.range_for(ask).map_or((0, end), |(first, last)| (first, last.min(end)))
    }

    /// 3.3: an incomplete response answers no request but for a range that lies within what is there.
    fn has_what_is_asked(&self, ask: &Ask) -> bool {
        let (first, last) = self.asked_bytes(ask);
        !self.is_incomplete() || self.range_for(ask).is_some() && self.held[first..=last].iter().all(|held| *held)
    }

    /// The request for what is missing of what is asked, and for nothing of another version (RFC 9110 13.1.5).
    fn rest(&self, ask: &Ask) -> Asked {
        let (first, last) = self.asked_bytes(ask);
        let missing = || (first..=last).filter(|at| !self.held[*at]);
        let (first, last) =
            (missing().next().expect("some of it is missing"), missing().next_back().expect("as before"));
        let last = if last + 1 == self.body.len() { String::new() } else { last.to_string() };
        let if_range = self.version.as_ref().map(|(_, validator)| validator.clone());
        Asked { range: Some(format!("bytes={first}-{last}")), if_range, ..Asked::plain() }
    }

    /// Whether its validator is strong (RFC 9110 8.8.1, 8.8.2.2).
    fn is_strong(&self) -> bool {
        match field(&self.fields, "ETag") {
            Some(tag) => !tag.starts_with("W/"),
            None => {
                field(&self.fields, "Last-Modified").and_then(parse_date).is_some_and(|modified| modified < self.date())
            }
        }
    }

    fn validator(&self) -> Option<(&'static str, String)> {
        ["ETag", "Last-Modified"].into_iter().find_map(|name| Some((name, field(&self.fields, name)?.to_owned())))
    }

    /// Whether the bytes of an answer are of the same version as these (3.4, RFC 9110 15.3.7.3).
    fn is_of_version_of(&self, other: &Stored) -> bool {
        self.validator().is_some() && self.validator() == other.version
    }

    /// Whether a 304 says nothing of another version.
    fn is_confirmed_by(&self, answer: &OriginAnswer) -> bool {
        let (name, own) = self.version.as_ref().map_or(("", ""), |(name, value)| (name, value));
        match (field(&answer.fields, "ETag"), field(&answer.fields, "Last-Modified")) {
            (Some(tag), _) => name == "ETag" && tag == own,
            (None, Some(date)) => name == "ETag" || date == own,
            (None, None) => true,
        }
    }

    /// From now on some of its bytes may be missing: those that are there are of this version.
    fn note_version(&mut self) {
        if self.version.is_none() {
            self.version = self.validator();
        }
    }

    /// It is, from the byte `first` on, these bytes of a body of `total`, with those of `others`, which has the same.
    fn with_part(mut self, first: usize, total: usize, bytes: &str, others: Option<&Stored>) -> Self {
        let mut body: Vec<u8> = others.map_or_else(|| vec![b'?'; total], |others| others.body.clone().into_bytes());
        let mut held = others.map_or_else(|| vec![false; total], |others| others.held.clone());
        for (at, byte) in (first..).zip(bytes.bytes()) {
            (body[at], held[at]) = (byte, true);
        }
        (self.status, self.body, self.held) = (200, String::from_utf8(body).expect("ASCII"), held);
        self.note_version();
        remove(&mut self.fields, "Content-Range");
        self
    }

    /// Nothing of it is there from the byte `end` on.
    fn cut_at(mut self, end: usize) -> Self {
        self.held[end..].fill(false);
        self.note_version();
        self
    }

    /// Those of a targeted field, if there is one that can be read (RFC 9213 2.2), else Cache-Control's.
    fn targeted(&self) -> Option<Directives> {
        joined(&self.fields, "CDN-Cache-Control").and_then(|text| Directives::parse_targeted(&text))
    }

    fn directives(&self) -> Directives {
        let plain = || joined(&self.fields, "Cache-Control").map(|text| Directives::parse(&text)).unwrap_or_default();
        self.targeted().unwrap_or_else(plain)
    }

    /// 4.2.1: what is said. A targeted field leaves Expires without a say.
    fn explicit_lifetime(&self) -> Option<f64> {
        let directives = self.directives();
        if let Some(seconds) = directives.seconds("s-maxage").or(directives.seconds("max-age")) {
            return Some(seconds);
        }
        let expires = field(&self.fields, "Expires").filter(|_| self.targeted().is_none())?;
        // What is no date is in the past (5.3).
        Some(parse_date(expires).map_or(0.0, |expires| (expires - self.date()).max(0) as f64))
    }

    /// 4.2.2: what is guessed.
    fn guessed_lifetime(&self) -> Option<f64> {
        let modified = field(&self.fields, "Last-Modified").and_then(parse_date)?;
        let may_be = self.may_guess && (self.directives().has("public") || is_heuristically_cacheable(self.status));
        may_be.then(|| ((self.date() - modified) as f64 * GUESS).clamp(0.0, GUESS_MOST))
    }

    fn date(&self) -> i64 {
        field(&self.fields, "Date").and_then(parse_date).unwrap_or(BEGIN)
    }

    /// `freshness_lifetime`; what mustn't be used without a validation is never fresh (5.2.2.4).
    fn lifetime(&self) -> f64 {
        if self.directives().has_whole("no-cache") {
            return 0.0;
        }
        let lifetime = self.explicit_lifetime().or_else(|| self.guessed_lifetime()).unwrap_or(0.0);
        self.outdated.map_or(lifetime, |age| lifetime.min(age))
    }

    /// Whether a 200 to HEAD is about something else (4.3.5).
    fn differs_from(&self, answer: &OriginAnswer) -> bool {
        let is_other_tag = field(&answer.fields, "ETag").is_some_and(|new| {
            field(&self.fields, "ETag").is_none_or(|old| old.trim_start_matches("W/") != new.trim_start_matches("W/"))
        });
        let modified = field(&answer.fields, "Last-Modified");
        let is_other_date = modified.is_some() && modified != field(&self.fields, "Last-Modified");
        is_other_tag || is_other_date || self.body.len() != answer.body.len()
    }

    /// `current_age` (4.2.3)
    fn age(&self, now: f64) -> f64 {
        self.initial_age + (now - self.received)
    }

    fn is_fresh(&self, now: f64) -> bool {
        self.lifetime() > self.age(now)
    }

    /// 5.2.2.2, 5.2.2.4, 5.2.2.8. (s-maxage, 5.2.2.10, where that is asked.)
    fn forbids_stale(&self) -> bool {
        let directives = self.directives();
        directives.has_whole("no-cache") || directives.has("must-revalidate") || directives.has("proxy-revalidate")
    }

    /// Seconds for which it may be served stale while it is validated (RFC 5861 3).
    fn grace(&self) -> f64 {
        if self.forbids_stale() || self.outdated.is_some() {
            0.0
        } else {
            self.directives().seconds("stale-while-revalidate").unwrap_or(0.0)
        }
    }

    fn is_within_stale_while_revalidate(&self, now: f64) -> bool {
        self.grace() > 0.0 && self.age(now) <= self.lifetime() + self.grace()
    }

    fn is_kept(&self, now: f64) -> bool {
        self.age(now) < self.lifetime() + self.grace() + KEEP
    }

    /// Whether it may take the place of an error (4.2.4, RFC 5861 4).
    fn may_stand_in(&self, now: f64, trouble: Trouble) -> bool {
        let directives = self.directives();
        let staleness = self.age(now) - self.lifetime();
        let granted = directives.seconds("stale-if-error").map(|most| staleness <= most);
        let is_allowed = match trouble {
            Trouble::ServerError => granted == Some(true),
            Trouble::Disconnected => granted.unwrap_or(!directives.has("s-maxage")),
        };
        is_allowed && !self.forbids_stale() && self.is_kept(now)
    }

    /// Section 3, one sentence after the other.
    fn may_be_stored(&self, ask: &Ask) -> bool {
        let directives = self.directives();
        let is_understood =
            matches!(self.status, 200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505);
        let is_final = !matches!(self.status, 206 | 304) && (is_understood || !directives.has("must-understand"));
        let is_no_store = directives.has("no-store") && !directives.has("must-understand");
        let has = |name: &String| field(&self.fields, name).is_some();
        let is_private = directives.has_whole("private") || directives.names("private").iter().any(has);
        let is_for_others = ["public", "s-maxage", "must-revalidate"].iter().any(|name| directives.has(name));
        let is_authorized = field(&ask.headers, "Authorization").is_none() || is_for_others;
        let is_said =
            directives.has("public") || self.explicit_lifetime().is_some() || is_heuristically_cacheable(self.status);
        let is_star = joined(&self.fields, "Vary").is_some_and(|text| members(&text).iter().any(|name| name == "*"));
        is_final && !is_no_store && !is_private && is_authorized && is_said && !is_star
    }

    /// Whether any request could ever be answered with it.
    fn is_of_use(&self) -> bool {
        let can_be_served = self.lifetime() + self.grace() > self.initial_age;
        self.has_validator() || can_be_served || self.directives().has("stale-if-error")
    }

    fn has_validator(&self) -> bool {
        self.status == 200 && ["ETag", "Last-Modified"].iter().any(|name| field(&self.fields, name).is_some())
    }

    /// The request that validates it (4.3.1).
    fn conditions(&self) -> Asked {
        if self.status != 200 {
            return Asked::plain();
        }
        let of = |name| field(&self.fields, name).map(str::to_owned);
        Asked { if_none_match: of("ETag"), if_modified_since: of("Last-Modified"), ..Asked::plain() }
    }

    /// `no-cache="names"` (5.2.2.4)
    fn leave_unshared_out(&mut self) {
        for name in self.directives().names("no-cache") {
            remove(&mut self.fields, &name);
        }
    }

    /// Serves it without a validation.
    fn reuse(&self, now: f64, ask: &Ask, asked: Vec<Asked>) -> Expected {
        let mut stored = self.clone();
        stored.leave_unshared_out();
        stored.deliver(ask, asked, now)
    }

    /// The answer to a client, whose conditions and range are looked at (RFC 9110 13.2, 14.2).
    fn deliver(&self, ask: &Ask, asked: Vec<Asked>, now: f64) -> Expected {
        let age = self.age(now);
        let mut expected = Expected {
            status: self.status,
            fields: self.fields.clone(),
            body: self.body.clone(),
            is_cut: false,
            age: Some(age),
            asked,
        };
        if self.status != 200 {
            return expected.without_body_for(ask);
        }
        let is_not_modified = match field(&ask.headers, "If-None-Match") {
            Some(tag) => field(&self.fields, "ETag").is_some_and(|own| own.trim_start_matches("W/") == tag),
            None => field(&ask.headers, "If-Modified-Since").and_then(parse_date).is_some_and(|since| {
                field(&self.fields, "Last-Modified").and_then(parse_date).is_some_and(|modified| modified <= since)
            }),
        };
        if is_not_modified {
            expected.status = 304;
            expected.body.clear();
        } else if self.range_for(ask).is_some() {
            let ((first, last), length) = (self.asked_bytes(ask), self.body.len());
            expected.status = 206;
            expected.fields.push(("Content-Range".to_owned(), format!("bytes {first}-{last}/{length}")));
            expected.body = self.body[first..=last].to_owned();
        }
        expected.without_body_for(ask)
    }
}

/// What a 206 says that it is.
struct Place {
    first: usize,
    /// Of the whole, if that is known.
    total: Option<usize>,
}

fn two_numbers(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-')?;
    Some((first.parse().ok()?, if last.is_empty() { usize::MAX } else { last.parse().ok()? }))
}

impl OriginAnswer {
    /// Its place, if that is sound, what was asked for, and as long as the body (RFC 9110 14.4).
    fn believed(&self, asked: Option<&str>) -> Option<Place> {
        let (place, total) = field(&self.fields, "Content-Range")?.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = two_numbers(place)?;
        let total: Option<usize> = total.parse().ok();
        let (asked_first, asked_last) = two_numbers(asked?.strip_prefix("bytes=")?)?;
        let is_sound = first <= last && total.is_none_or(|total| last < total);
        let is_asked = first == asked_first && last <= asked_last;
        (is_sound && is_asked && self.body.len() == last + 1 - first).then_some(Place { first, total })
    }
}

/// RFC 9110 15.1
fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

impl Asked {
    fn plain() -> Self {
        Asked { method: "GET".to_owned(), if_none_match: None, if_modified_since: None, range: None, if_range: None }
    }

    fn by_head() -> Self {
        Asked { method: "HEAD".to_owned(), ..Asked::plain() }
    }

    /// VCL keeps HEAD where it asks for no part; a HEAD asks for no bytes (RFC 9110 14.2).
    fn or_by_head(self, ask: &Ask) -> Self {
        match field(&ask.headers, "X-Keep").is_some() && field(&ask.headers, "X-Part").is_none() {
            true => Asked { method: "HEAD".to_owned(), range: None, if_range: None, ..self },
            false => self,
        }
    }

    /// What VCL asks for where nothing else is asked: no more than the client wants.
    fn or_part_of(mut self, ask: &Ask) -> Self {
        if self == Asked::plain() {
            self.range = field(&ask.headers, "X-Part").map(str::to_owned);
        }
        self
    }

    fn fields(&self) -> Fields {
        let fields = [
            ("If-None-Match", &self.if_none_match),
            ("If-Modified-Since", &self.if_modified_since),
            ("Range", &self.range),
            ("If-Range", &self.if_range),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }
}

impl Expected {
    /// An answer of the cache's own.
    fn made(status: u16, asked: Vec<Asked>) -> Self {
        Expected { status, fields: Vec::new(), body: String::new(), is_cut: false, age: None, asked }
    }

    fn without_body_for(mut self, ask: &Ask) -> Self {
        if ask.method == "HEAD" {
            self.body.clear();
        }
        self
    }
}
