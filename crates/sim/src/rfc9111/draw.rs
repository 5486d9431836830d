// SPDX-License-Identifier: BSD-2-Clause
//! Exchanges drawn from a seed: what a client asks, and what the origin would answer if it were asked.

use std::fmt;

use super::fields::{Fields, date, field, parse_date};
use crate::dice::SimDice;
use crate::plan::SimAsk;

/// Exchanges of a history. Fewer than fifty: see [`Exchange::moment_ms`].
pub(super) const EXCHANGES: usize = 40;

/// When a history begins, by the wall clock.
pub(super) const BEGIN: i64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// Number in the first plan, from 1.
    pub number: usize,
    /// Whole seconds since the one before.
    pub wait: u64,
    pub ask: SimAsk,
    pub answer: Answering,
}

#[derive(Clone, Debug)]
pub(super) struct Answering {
    pub number: usize,
    pub status: u16,
    pub is_dead: bool,
    /// The origin takes two seconds and a twentieth.
    pub is_slow: bool,
    pub version: u64,
    pub tag: Tag,
    pub has_modified: bool,
    /// Seconds between its clock's time and Date.
    pub date: Option<i64>,
    pub expires: Expires,
    pub fields: Fields,
    pub is_conditional: bool,
    /// A 304 says no more than it must.
    pub is_terse: bool,
    pub ranges: Ranges,
    pub heeds_if_range: bool,
    pub is_cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranges {
    None,
    /// The part that was asked for.
    Right,
    /// The right part, without the length of the whole.
    Unknown,
    /// A Content-Range that isn't true.
    Lie(Lie),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// Another length of the whole. Nobody can see that who has nothing to compare it with.
    Total,
    /// Bytes beyond the whole.
    Beyond,
    Reversed,
    /// One byte further on than what was asked for.
    Place,
    /// A byte less comes than it says.
    Short,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    Strong,
    Weak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expires {
    None,
    /// A date so many seconds from now.
    In(i64),
    Zero,
}

#[derive(Clone, Debug)]
pub(super) struct OriginAnswer {
    pub status: u16,
    pub fields: Fields,
    pub body: String,
}

impl Exchange {
    /// Millisecond within its second. Lifetimes are multiples of a tenth of a second; two of these moments, with or
    /// without the time that a slow origin takes, never differ by one: nothing is ever exactly as old as it may be.
    pub fn moment_ms(&self) -> u64 {
        11 * self.number as u64
    }
}

impl Answering {
    /// Whole seconds after which it has answered, though nobody waits for it.
    pub fn patience(&self) -> u64 {
        if self.is_slow { 6 } else { 1 }
    }

    pub fn delay_ms(&self) -> u64 {
        if self.is_slow { 2050 } else { 0 }
    }

    fn entity_tag(&self) -> Option<String> {
        match self.tag {
            Tag::None => None,
            Tag::Strong => Some(format!("\"v{}\"", self.version)),
            Tag::Weak => Some(format!("W/\"v{}\"", self.version)),
        }
    }

    fn modified(&self) -> i64 {
        BEGIN - 100 * (self.version as i64 + 1)
    }

    /// True if a request's conditions say that its sender has the present version.
    fn is_still_good(&self, request: &[(String, String)]) -> bool {
        if !self.is_conditional || self.status != 200 {
            return false;
        }
        if let Some(tags) = field(request, "If-None-Match") {
            let own = self.entity_tag();
            return own.is_some_and(|own| tags.trim_start_matches("W/") == own.trim_start_matches("W/"));
        }
        let since = field(request, "If-Modified-Since").and_then(parse_date);
        self.has_modified && since.is_some_and(|since| self.modified() <= since)
    }

    /// The answer to a request at this time, in whole seconds.
    pub fn answer(&self, request: &[(String, String)], now: i64) -> OriginAnswer {
        let mut fields = vec![("X-Rev".to_owned(), self.number.to_string())];
        fields.extend(self.entity_tag().map(|tag| ("ETag".to_owned(), tag)));
        let is_good = self.is_still_good(request);
        let part = if is_good { None } else { self.part(request) };
        if !(is_good && self.is_terse) {
            if self.has_modified {
                fields.push(("Last-Modified".to_owned(), date(self.modified())));
            }
            fields.extend(self.date.map(|offset| ("Date".to_owned(), date(now + offset))));
            match self.expires {
                Expires::None => {}
                Expires::In(seconds) => fields.push(("Expires".to_owned(), date(now + seconds))),
                Expires::Zero => fields.push(("Expires".to_owned(), "0".to_owned())),
            }
            fields.extend(self.fields.iter().cloned());
        }
        match is_good {
            true => OriginAnswer { status: 304, fields, body: String::new() },
            false => match part {
                Some((content_range, body)) => {
                    fields.push(("Content-Range".to_owned(), content_range));
                    OriginAnswer { status: 206, fields, body }
                }
                None => OriginAnswer { status: self.status, fields, body: self.body() },
            },
        }
    }

    /// Each answer has a body of its own, so that it can be told of which answers a body was put together; one version has one length.
    fn body(&self) -> String {
        format!("what {:02} has brought{}\n", self.number, "!".repeat(self.version as usize))
    }

    fn part(&self, request: &[(String, String)]) -> Option<(String, String)> {
        let (range, whole) = (field(request, "Range")?, self.body());
        if self.status != 200 || self.ranges == Ranges::None {
            return None;
        }
        let is_it = |validator: &str| {
            self.entity_tag().as_deref() == Some(validator) || self.has_modified && date(self.modified()) == validator
        };
        if field(request, "If-Range").is_some_and(|validator| self.heeds_if_range && !is_it(validator)) {
            return None;
        }
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first: usize = first.parse().ok()?;
        let (last, total) = (last.parse().unwrap_or(usize::MAX).min(whole.len() - 1), whole.len());
        let mut body = whole.get(first..=last)?.to_owned();
        let content_range = match self.ranges {
            Ranges::None => return None,
            Ranges::Right => format!("bytes {first}-{last}/{total}"),
            Ranges::Unknown => format!("bytes {first}-{last}/*"),
            Ranges::Lie(Lie::Total) => format!("bytes {first}-{last}/{}", total + 3),
            Ranges::Lie(Lie::Beyond) => format!("bytes {first}-{last}/{last}"),
            Ranges::Lie(Lie::Reversed) => format!("bytes {}-{first}/{total}", last + 1),
            Ranges::Lie(Lie::Place) => format!("bytes {}-{}/{}", first + 1, last + 1, total + 9),
            Ranges::Lie(Lie::Short) => {
                body.pop();
                format!("bytes {first}-{last}/{total}")
            }
        };
        Some((content_range, body))
    }
}

struct Site {
    /// Fields that each path's answers vary on.
    vary: Vec<Option<&'static str>>,
    /// Usual No-Vary-Search of the answers.
    queries: Vec<Option<&'static str>>,
}

const PATHS: [&str; 3] = ["/a", "/b", "/c"];

/// Those of No-Vary-Search that the model knows; the last says nothing.
const QUERIES: [Option<&str>; 5] =
    [None, Some("params=(\"u\")"), Some("key-order"), Some("except=(\"id\")"), Some("params=?1")];

pub(super) fn history(seed: u64) -> Vec<Exchange> {
    let mut dice = SimDice::for_thing(seed, "rfc9111", 0);
    let vary = PATHS.iter().map(|_| *dice.pick(&[None, None, Some("X-A"), Some("X-A, X-B")])).collect();
    // The first path has none: nothing of the rest shall depend on it.
    let queries = (0..PATHS.len()).map(|at| if at == 0 { None } else { *dice.pick(&QUERIES) }).collect();
    let site = Site { vary, queries };
    (1..=EXCHANGES)
        .map(|number| exchange(&site, number, &mut SimDice::for_thing(seed, "exchange", number as u64)))
        .collect()
}

fn exchange(site: &Site, number: usize, dice: &mut SimDice) -> Exchange {
    let at = if dice.one_in(2) { 0 } else { dice.below(PATHS.len() as u64) as usize };
    let mut answer = answering(site, at, number, dice);
    let wait = match dice.below(20) {
        0..=9 => dice.below(4),
        10..=15 => dice.below(20),
        16..=18 => dice.below(100),
        _ => 3000 + dice.below(5000),
    };
    let query = if at == 0 { "" } else { *dice.pick(&["", "?u=1", "?u=2&id=1", "?id=1&u=2", "?id=1", "?i%64=1&"]) };
    // Parts of the first path only, whose answers say nothing of queries.
    let ask = ask(&format!("{}{query}", PATHS[at]), at == 0, dice);
    // A client that has what it wants before the body breaks off may leave first, and then nobody hears of it.
    let has = |name| field(&ask.headers, name).is_some();
    let wants_all = !has("If-None-Match") && !has("If-Modified-Since") && (!has("Range") || has("X-Part"));
    answer.is_cut &= ask.method == "GET" && wants_all;
    Exchange { number, wait, ask, answer }
}

fn ask(url: &str, is_by_parts: bool, dice: &mut SimDice) -> SimAsk {
    let method = match dice.below(20) {
        0 => "POST",
        1 => *dice.pick(&["PUT", "DELETE"]),
        2 | 3 => "HEAD",
        _ => "GET",
    };
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if dice.one_in(4) {
        add("Cache-Control", request_directives(dice));
    }
    for name in ["X-A", "X-B"] {
        match dice.below(6) {
            0 => add(name, "1".to_owned()),
            1 => add(name, "1,2".to_owned()),
            2 => add(name, " 1 ,  2".to_owned()),
            3 => {
                add(name, "1".to_owned());
                add(name, "2".to_owned());
            }
            _ => {}
        }
    }
    if dice.one_in(10) {
        add("Authorization", "Basic YTpi".to_owned());
    }
    if dice.one_in(10) {
        add("Cookie", "a=b".to_owned());
    }
    if method == "GET" {
        match dice.below(16) {
            0 => add("If-None-Match", format!("\"v{}\"", dice.below(3))),
            1 => add("If-Modified-Since", date(BEGIN - 100 * (dice.below(3) as i64 + 1))),
            2 => add("Range", format!("bytes={}-{}", dice.below(4), 4 + dice.below(30))),
            3..=5 if is_by_parts => {
                let first = dice.below(20);
                let range = format!("bytes={first}-{}", first + dice.below(12));
                if dice.one_in(2) {
                    // VCL asks the origin for no more than that.
                    add("X-Part", range.clone());
                }
                add("Range", range);
                if dice.one_in(6) {
                    add("If-Range", format!("\"v{}\"", dice.below(3)));
                }
            }
            _ => {}
        }
    }
    let has_range = headers.iter().any(|(name, _)| name == "Range");
    if is_by_parts && !has_range && matches!(method, "GET" | "HEAD") && dice.one_in(16) {
        // VCL asks for a part that the client doesn't want.
        headers.push(("X-Part".to_owned(), format!("bytes={}-{}", dice.below(6), dice.below(30) + 6)));
    }
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if dice.one_in(if method == "HEAD" { 3 } else { 30 }) {
        add("X-Pass", "yes".to_owned());
    }
    if dice.one_in(20) {
        add("Pragma", "no-cache".to_owned());
    }
    if method == "HEAD" && dice.one_in(2) {
        // VCL asks the origin by HEAD, too.
        add("X-Keep", "yes".to_owned());
    }
    let (method, url) = (method.to_owned(), url.to_owned());
    SimAsk { method, url, headers, body: None, slow: None, gone: None, dropped: None }
}

fn request_directives(dice: &mut SimDice) -> String {
    let count = 1 + dice.below(2);
    let all: Vec<String> = (0..count)
        .map(|_| match dice.below(12) {
            0 | 1 => "no-cache".to_owned(),
            2 => "no-store".to_owned(),
            3 => "only-if-cached".to_owned(),
            4 => "max-age=0".to_owned(),
            5 | 6 => format!("max-age={}", dice.below(40)),
            7 => format!("min-fresh={}", dice.below(20)),
            8 => "max-stale".to_owned(),
            9 | 10 => format!("MAX-STALE={}", dice.below(40)),
            _ => "max-age=x".to_owned(),
        })
        .collect();
    all.join(", ")
}

fn answering(site: &Site, at: usize, number: usize, dice: &mut SimDice) -> Answering {
    let status = match dice.below(20) {
        0 => 404,
        1 => *dice.pick(&[500, 502, 503, 504]),
        2 => *dice.pick(&[301, 302, 410, 501, 299, 599]),
        _ => 200,
    };
    let mut fields: Fields = Vec::new();
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    if !dice.one_in(4) {
        add("Cache-Control", response_directives(dice));
        if dice.one_in(10) {
            add("Cache-Control", response_directives(dice));
        }
    }
    if dice.one_in(10) {
        let value = *dice.pick(&[
            "max-age=30",
            "max-age=5, must-revalidate",
            "no-store",
            "max-age=60, &&",
            "private",
            "no-cache",
        ]);
        add("CDN-Cache-Control", value.to_owned());
    }
    if dice.one_in(6) {
        add("Age", dice.pick(&["0", "3", "20", "90", "7, 50", "x"]).to_string());
    }
    match (dice.one_in(40), site.vary[at]) {
        (true, _) => add("Vary", "*".to_owned()),
        (false, Some(names)) => add("Vary", names.to_owned()),
        (false, None) => {}
    }
    let said = if at > 0 && dice.one_in(30) { *dice.pick(&QUERIES) } else { site.queries[at] };
    if let Some(said) = said {
        add("No-Vary-Search", said.to_owned());
    }
    if dice.one_in(3) {
        add("X-Secret", number.to_string());
    }
    if dice.one_in(20) {
        add("Set-Cookie", format!("n={number}"));
    }
    if dice.one_in(6) {
        let group = dice.below(2);
        add("Cache-Groups", format!("\"g{group}\""));
    }
    if dice.one_in(6) {
        add("Cache-Group-Invalidation", format!("\"g{}\"", dice.below(2)));
    }
    if dice.one_in(4) {
        let name = *dice.pick(&["Location", "Content-Location"]);
        add(name, dice.pick(&["/b", "c", "http://example.com/a", "http://other.com/a", "../c?x"]).to_string());
    }
    Answering {
        number,
        status,
        is_dead: dice.one_in(20),
        is_slow: dice.one_in(8),
        version: dice.below(3),
        tag: *dice.pick(&[Tag::None, Tag::Strong, Tag::Strong, Tag::Weak]),
        has_modified: dice.one_in(2),
        date: match dice.below(6) {
            0 => None,
            1 => Some(-20),
            2 => Some(5),
            _ => Some(0),
        },
        expires: match dice.below(10) {
            0 => Expires::In(dice.below(60) as i64),
            1 => Expires::In(-10),
            2 => Expires::Zero,
            _ => Expires::None,
        },
        fields,
        is_conditional: !dice.one_in(6),
        is_terse: dice.one_in(3),
        ranges: match dice.below(12) {
            _ if at > 0 => Ranges::None,
            0 => Ranges::None,
            1 => Ranges::Unknown,
            2 => Ranges::Lie(*dice.pick(&[Lie::Total, Lie::Beyond, Lie::Reversed, Lie::Place, Lie::Short])),
            _ => Ranges::Right,
        },
        heeds_if_range: !dice.one_in(4),
        is_cut: at == 0 && dice.one_in(8),
    }
}

fn response_directives(dice: &mut SimDice) -> String {
    let count = 1 + dice.below(3);
    let all: Vec<String> = (0..count)
        .map(|_| match dice.below(26) {
            0..=5 => format!("max-age={}", dice.below(60)),
            6 => format!("Max-Age=\"{}\"", dice.below(60)),
            7 => "max-age=1.5".to_owned(),
            8 | 9 => format!("s-maxage={}", dice.below(60)),
            10 => "no-cache".to_owned(),
            11 => "no-cache=\"X-Secret\"".to_owned(),
            12 => "no-store".to_owned(),
            13 => "private".to_owned(),
            14 => "private=\"x-secret, y\"".to_owned(),
            15 | 16 => "public".to_owned(),
            17 => "must-revalidate".to_owned(),
            18 => "proxy-revalidate".to_owned(),
            19 => "must-understand".to_owned(),
            20 | 21 => format!("stale-while-revalidate={}", dice.below(40)),
            22 | 23 => format!("stale-if-error={}", dice.below(200)),
            24 => "x-unknown=\"a, no-store\"".to_owned(),
            _ => "immutable".to_owned(),
        })
        .collect();
    all.join(", ")
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exchange { number, wait, ask, answer } = self;
        write!(f, "{number}: {wait} s later {} {}", ask.method, ask.url)?;
        ask.headers.iter().try_for_each(|(name, value)| write!(f, " | {name}: {value}"))?;
        if answer.is_dead {
            return write!(f, " -> the origin is dead");
        }
        write!(f, " -> {} v{}", answer.status, answer.version)?;
        let shown = answer.answer(&[], 0).fields;
        shown
            .iter()
            .filter(|(name, _)| name != "X-Rev" && name != "Date" && name != "Expires")
            .try_for_each(|(name, value)| write!(f, " | {name}: {value}"))?;
        write!(f, " | Date {:?} | Expires {:?}", answer.date, answer.expires)?;
        write!(f, " | {:?}", answer.ranges)?;
        for (is_so, word) in [
            (answer.is_slow, "slow"),
            (!answer.is_conditional, "unconditional"),
            (answer.is_terse, "terse 304"),
            (answer.is_cut, "cut"),
            (!answer.heeds_if_range, "no If-Range"),
        ] {
            if is_so {
                write!(f, " | {word}")?;
            }
        }
        Ok(())
    }
}
