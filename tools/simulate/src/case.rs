// SPDX-License-Identifier: BSD-2-Clause
//! A cache to simulate: what it keeps, by which key, for how long; and the requests of a log as such caches see them.

use std::collections::BTreeSet;

use accesslog::{AccessEntry, EntryClock, Handling};

use crate::cache::SimulatedLives;
use crate::duplicates::Duplicates;
use crate::scheme::Scheme;
use crate::trace::Trace;

#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// The words that asked for it; nothing for the first.
    pub words: String,
    pub rules: CacheRules,
    pub lives: SimulatedLives,
    /// Bytes kept beside each body.
    pub beside: u64,
    /// Bytes of a body whose length the log doesn't tell.
    pub body: Option<u64>,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            words: String::new(),
            rules: CacheRules::default(),
            lives: SimulatedLives::default(),
            beside: 400,
            body: None,
        }
    }
}

/// The answers that are kept, and the keys that they are kept by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheRules {
    pub scheme: Scheme,
    pub passes_cookies: bool,
    /// Beginnings of paths; requests for those are passed, too.
    pub passes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    Method,
    Status,
    Authorization,
    Cookie,
    Path,
    /// The log says that the server passed it, or made the answer itself.
    Log,
}

impl Pass {
    pub const ALL: [Pass; 6] = [Pass::Method, Pass::Status, Pass::Authorization, Pass::Cookie, Pass::Path, Pass::Log];

    pub const fn word(self) -> &'static str {
        match self {
            Pass::Method => "method",
            Pass::Status => "status",
            Pass::Authorization => "authorization",
            Pass::Cookie => "cookie",
            Pass::Path => "path",
            Pass::Log => "log",
        }
    }
}

/// Answers that varnishd's and our built-in VCL keep; 206 and 416 come of whole objects, too.
const KEPT: [u16; 11] = [200, 203, 204, 206, 300, 301, 304, 404, 410, 414, 416];
/// Answers whose body isn't the object's.
const PARTS: [u16; 3] = [206, 304, 416];

impl CacheRules {
    /// Fields of requests that they look at, and the options that asked for it.
    fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let vary = self.scheme.vary.iter().map(|vary| ("--vary", vary.field.as_str()));
        vary.chain(self.passes_cookies.then_some(("--pass-cookies", "Cookie")))
    }

    pub fn pass(&self, entry: &AccessEntry<'_>) -> Option<Pass> {
        let has = |name: &[u8]| entry.fields.iter().any(|field| field.0.eq_ignore_ascii_case(name));
        if *entry.method != *b"GET" && *entry.method != *b"HEAD" {
            Some(Pass::Method)
        } else if entry.status.is_some_and(|status| !KEPT.contains(&status)) {
            Some(Pass::Status)
        } else if has(b"authorization") {
            Some(Pass::Authorization)
        } else if self.passes_cookies && has(b"cookie") {
            Some(Pass::Cookie)
        } else if self.passes.iter().any(|path| entry.target.starts_with(path.as_bytes())) {
            Some(Pass::Path)
        } else if entry.handling.is_some_and(|how| !matches!(how, Handling::Hit | Handling::Miss)) {
            Some(Pass::Log)
        } else {
            None
        }
    }
}

#[derive(Debug, Default)]
pub struct CaseTally {
    pub requests: u64,
    pub bytes: u64,
    /// Requests of which the log says how they were answered, and those that were hits.
    pub told: u64,
    pub told_hits: u64,
    /// Requests that the first case passes, in the order of [`Pass::ALL`].
    pub passed: [u64; Pass::ALL.len()],
    pub clock: EntryClock,
    /// One for each set of rules.
    pub kept: Vec<KeptAnswers>,
    pub duplicates: Duplicates,
}

#[derive(Debug)]
pub struct KeptAnswers {
    pub rules: CacheRules,
    pub requests: u64,
    pub bytes: u64,
    /// Number of requests that had each of [`CacheRules::fields`], also of those that aren't kept.
    pub told: Vec<u64>,
    pub trace: Trace,
}

impl CaseTally {
    pub fn new(cases: &[Case], most: usize) -> CaseTally {
        let mut tally = CaseTally::default();
        for case in cases {
            if tally.of(&case.rules).is_none() {
                let rules = case.rules.clone();
                let told = vec![0; rules.fields().count()];
                tally.kept.push(KeptAnswers { rules, requests: 0, bytes: 0, told, trace: Trace::new(most) });
            }
        }
        tally
    }

    pub fn of(&self, rules: &CacheRules) -> Option<&KeptAnswers> {
        self.kept.iter().find(|kept| kept.rules == *rules)
    }

    /// Options that look at a field which no request had, and that field.
    pub fn untold(&self) -> BTreeSet<(&str, &str)> {
        let fields = self.kept.iter().flat_map(|kept| kept.rules.fields().zip(&kept.told));
        fields.filter(|(_, told)| **told == 0).map(|(field, _)| field).collect()
    }

    pub fn add(&mut self, entry: &AccessEntry<'_>) {
        let time = self.clock.at(entry.time.map(|time| time.ns));
        let sent = entry.bytes.unwrap_or(0);
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(sent);
        self.told += u64::from(entry.handling.is_some());
        self.told_hits += u64::from(entry.handling == Some(Handling::Hit));
        let is_body = *entry.method == *b"GET" && entry.status.is_none_or(|status| !PARTS.contains(&status));
        let body = entry.bytes.filter(|_| is_body);
        for (n, kept) in self.kept.iter_mut().enumerate() {
            kept.note_fields(entry);
            if let Some(pass) = kept.rules.pass(entry) {
                if n == 0 {
                    self.passed[pass as usize] += 1;
                }
                continue;
            }
            let id = kept.rules.scheme.identify(entry);
            kept.requests += 1;
            kept.bytes = kept.bytes.saturating_add(sent);
            kept.trace.add(id, time, sent, body);
            if let (0, Some(body)) = (n, body) {
                self.duplicates.add(entry, id.object, body);
            }
        }
    }
}

impl KeptAnswers {
    fn note_fields(&mut self, entry: &AccessEntry<'_>) {
        for ((_, field), told) in self.rules.fields().zip(&mut self.told) {
            *told += u64::from(entry.field(field).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::scheme::VaryScheme;

    fn entry<'a>(method: &'a str, status: u16, field: &'a str) -> AccessEntry<'a> {
        let mut entry =
            AccessEntry { method: Cow::Borrowed(method.as_bytes()), status: Some(status), ..AccessEntry::default() };
        entry.set_url(Cow::Borrowed(b"/admin/x?y")).expect("a URL");
        entry.fields.push((Cow::Borrowed(field.as_bytes()), Cow::Borrowed(b"x")));
        entry.bytes = Some(7);
        entry
    }

    #[test]
    fn some_answers_are_never_kept() {
        let rules = CacheRules { passes_cookies: true, ..CacheRules::default() };
        for (method, status, field, pass) in [
            ("GET", 200, "Host", None),
            ("HEAD", 304, "Host", None),
            ("POST", 200, "Host", Some(Pass::Method)),
            ("GET", 503, "Host", Some(Pass::Status)),
            ("GET", 302, "Host", Some(Pass::Status)),
            ("GET", 200, "authorization", Some(Pass::Authorization)),
            ("GET", 200, "COOKIE", Some(Pass::Cookie)),
        ] {
            assert_eq!(rules.pass(&entry(method, status, field)), pass, "{method} {status} {field}");
        }
        let rules = CacheRules { passes: vec!["/admin".into()], ..CacheRules::default() };
        assert_eq!(rules.pass(&entry("GET", 200, "Cookie")), Some(Pass::Path));
        assert_eq!(CacheRules::default().pass(&entry("GET", 200, "Cookie")), None);
        for (handling, pass) in [(Handling::Hit, None), (Handling::Miss, None), (Handling::Pass, Some(Pass::Log))] {
            let told = AccessEntry { handling: Some(handling), ..entry("GET", 200, "Host") };
            assert_eq!(CacheRules::default().pass(&told), pass, "{handling:?}");
        }
    }

    #[test]
    fn fields_that_no_request_has_are_known() {
        let vary = |field: &str| Case {
            rules: CacheRules {
                scheme: Scheme { vary: vec![VaryScheme::parse(field).expect("a field")], ..Scheme::default() },
                passes_cookies: true,
                ..CacheRules::default()
            },
            ..Case::default()
        };
        let mut tally = CaseTally::new(&[vary("User-Agent"), vary("accept-language:de|en"), vary("User-Agent")], 100);
        tally.add(&entry("GET", 200, "Accept-Language"));
        assert_eq!(
            tally.untold().into_iter().collect::<Vec<_>>(),
            [("--pass-cookies", "Cookie"), ("--vary", "User-Agent")]
        );
        tally.add(&entry("POST", 200, "COOKIE"));
        assert_eq!(tally.untold().into_iter().collect::<Vec<_>>(), [("--vary", "User-Agent")]);
    }

    #[test]
    fn cases_with_the_same_rules_share_what_is_kept() {
        let ttl = Case { lives: SimulatedLives { ttl: 5, grace: 0 }, ..Case::default() };
        let other = Case { rules: CacheRules { passes_cookies: true, ..CacheRules::default() }, ..Case::default() };
        let mut tally = CaseTally::new(&[Case::default(), ttl, other], 100);
        tally.add(&entry("GET", 200, "Cookie"));
        tally.add(&entry("GET", 304, "Host"));
        tally.add(&entry("PUT", 200, "Host"));
        let kept: Vec<(u64, u64)> = tally.kept.iter().map(|kept| (kept.requests, kept.bytes)).collect();
        assert_eq!((tally.requests, tally.bytes, kept), (3, 21, vec![(2, 14), (1, 7)]));
        assert_eq!(tally.passed, [1, 0, 0, 0, 0, 0]);
        assert_eq!(tally.kept[0].trace.bodies(None), Ok(vec![7]));
        assert_eq!(tally.kept[1].trace.unknown_bodies(), 1, "304 tells none");
    }
}
