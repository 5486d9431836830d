// SPDX-License-Identifier: BSD-2-Clause
//! A ban's expression: `[over=TIME] [rate=N/s] field operator value && ...`. Parsing, and testing an object.

mod stored;

use std::fmt;
use std::sync::OnceLock;

use base::Mono;
use base::text::parse_duration;
use storage::ObjectTimes;

use super::spread::SpreadPlan;
use crate::cache::CacheShared;
use crate::objcore::Objcore;
use crate::request::{CacheRegex, CacheRequest, Regexes};

/// Bytes that a ban without tests takes in Varnish's format.
pub(super) const HEAD_BYTES: u64 = 16;

/// Longest name of a header field.
const NAME_LIMIT: usize = 126;

const TEST_LIMIT: usize = 256;

/// Most tags of an `obj.tag`. Each is compared with each tag of an object.
const MOST_TAGS: usize = 256;

/// The facts about an object that a ban tests.
pub(crate) trait BanSubject {
    fn with_head<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R>;

    fn times(&self) -> ObjectTimes;

    fn last_use(&self) -> Option<Mono>;

    /// True if a purge by one of these keys means the object.
    fn has_key(&self, shared: &CacheShared, keys: &[Box<[u8]>]) -> bool;

    /// True if the object is of that tenant, or with `equal` false of another; true if it isn't known.
    fn is_of_tenant(&self, shared: &CacheShared, name: &str, equal: bool) -> bool;
}

pub(crate) fn are_meant(tags: &[Box<[u8]>], keys: &[Box<[u8]>]) -> bool {
    tags.iter().any(|tag| keys.iter().any(|key| message::tags::covers(key, tag)))
}

impl BanSubject for Objcore {
    fn with_head<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.with_head_block(|head_block| read(head_block.head()))
    }

    fn times(&self) -> ObjectTimes {
        self.times()
    }

    fn last_use(&self) -> Option<Mono> {
        self.last_use()
    }

    fn has_key(&self, shared: &CacheShared, keys: &[Box<[u8]>]) -> bool {
        shared.tags.has_one(self, keys)
    }

    fn is_of_tenant(&self, shared: &CacheShared, name: &str, equal: bool) -> bool {
        shared.tenants.is_meant(self.tenant(), name, equal)
    }
}

/// An object that is in no index yet, with its tags.
pub(crate) struct UnlistedObject<'a> {
    pub oc: &'a Objcore,
    pub tags: &'a [Box<[u8]>],
    pub tenant: Option<&'a str>,
}

impl BanSubject for UnlistedObject<'_> {
    fn with_head<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        BanSubject::with_head(self.oc, read)
    }

    fn times(&self) -> ObjectTimes {
        self.oc.times()
    }

    fn last_use(&self) -> Option<Mono> {
        self.oc.last_use()
    }

    fn has_key(&self, _shared: &CacheShared, keys: &[Box<[u8]>]) -> bool {
        are_meant(self.tags, keys)
    }

    fn is_of_tenant(&self, _shared: &CacheShared, name: &str, equal: bool) -> bool {
        crate::tenants::is_named(self.tenant, name, equal)
    }
}

/// A parsed ban. Its text form (`Display`) is that of `ban.list`.
#[derive(Default)]
pub struct BanSpec {
    tests: Vec<Test>,
    /// Matching objects become stale one after the other, instead of being removed at once.
    pub(super) spread: Option<SpreadPlan>,
}

struct Test {
    field: Field,
    oper: Oper,
    value: Value,
}

#[derive(PartialEq)]
enum Field {
    ReqUrl,
    ReqHttp(String),
    ObjStatus,
    ObjHttp(String),
    ObjTtl,
    ObjAge,
    ObjGrace,
    ObjKeep,
    ObjLastHit,
    ObjTag,
    ObjHost,
    ObjPrefix,
    ObjTenant,
}

#[derive(Clone, Copy, PartialEq)]
enum Oper {
    Eq,
    Neq,
    Match,
    NoMatch,
    Gt,
    Gte,
    Lt,
    Lte,
}

enum Value {
    Text(String),
    Pattern(Pattern),
    Seconds(f64),
    Keys { text: String, keys: Vec<Box<[u8]>> },
}

/// A regular expression, compiled when the ban is made, or, of a ban that a former worker made, at its first use.
struct Pattern {
    text: String,
    regex: OnceLock<Option<Box<dyn CacheRegex>>>,
}

impl Pattern {
    fn regex(&self, shared: &CacheShared) -> Option<&dyn CacheRegex> {
        self.regex.get_or_init(|| shared.regexes.compile(&self.text).ok()).as_deref()
    }
}

/// The reason why an expression isn't a ban. The texts are varnishd's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BanError {
    /// The CLI got a number of words that can't be right.
    WordCount,
    /// A word between two tests of the CLI's ban.
    NotAnd(String),
    Empty,
    NoOperator,
    NoValue,
    /// A word between two tests of VCL's ban.
    NotAndBetween(String),
    UnknownField(String),
    BadOperator {
        expected: &'static str,
        got: String,
    },
    /// The regular expression, in its compiler's words.
    BadRegex(String),
    BadDuration(String),
    TooLong,
    /// A host or prefix that can't be one, or no tag.
    BadKey(String),
    BadTenant(String),
    TooManyTags(usize),
    /// The word, and what it has to be.
    BadSpread {
        word: String,
        expected: &'static str,
    },
    TooManySpreads(usize),
    NoTags,
}

impl fmt::Display for BanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WordCount => write!(f, "Wrong number of arguments"),
            Self::NotAnd(word) => write!(f, "Found \"{word}\" expected &&"),
            Self::Empty => write!(f, "No ban conditions found."),
            Self::NoOperator => write!(f, "Expected comparison operator."),
            Self::NoValue => write!(f, "Expected second operand."),
            Self::NotAndBetween(word) => write!(f, "Expected && between conditions, found \"{word}\""),
            Self::UnknownField(word) => write!(f, "Unknown or unsupported field \"{word}\""),
            Self::BadOperator { expected, got } => write!(f, "expected conditional ({expected}) got \"{got}\""),
            Self::BadRegex(text) => write!(f, "Regex compile error: {text}"),
            Self::BadDuration(word) => write!(f, "expected duration <n.nn>[ms|s|m|h|d|w|y] got \"{word}\""),
            Self::TooLong => write!(f, "more than {TEST_LIMIT} conditions"),
            Self::BadKey(word) => write!(
                f,
                "\"{word}\" names no object: obj.tag takes tags with commas between them, obj.host a host, obj.prefix HOST/PATH"
            ),
            Self::BadTenant(word) => write!(f, "\"{word}\" can't be a tenant's name"),
            Self::TooManyTags(count) => {
                write!(f, "obj.tag takes {MOST_TAGS} tags at most, got {count}: make several bans of them")
            }
            Self::BadSpread { word, expected } => write!(f, "expected {expected} got \"{word}\""),
            Self::TooManySpreads(most) => {
                write!(f, "{most} bans are being spread already: wait, or cancel one (ban.spreads, ban.cancel)")
            }
            Self::NoTags => write!(f, "No tags are kept: name fields in tag_fields, or give tags by VCL"),
        }
    }
}

impl std::error::Error for BanError {}

impl BanSpec {
    /// Parses the words of the CLI's `ban`.
    ///
    /// # Errors
    /// [`BanError`].
    pub fn from_words(words: &[&str], regexes: &dyn Regexes) -> Result<BanSpec, BanError> {
        let (spread, words) = spread_of(words)?;
        if words.len() % 4 != 3 {
            return Err(BanError::WordCount);
        }
        if let Some(word) = words.iter().skip(3).step_by(4).find(|word| **word != "&&") {
            return Err(BanError::NotAnd((*word).to_owned()));
        }
        let mut spec = BanSpec { spread, ..BanSpec::default() };
        words.chunks(4).try_for_each(|test| spec.add(test[0], test[1], test[2], regexes))?;
        Ok(spec)
    }

    /// Parses the text of VCL's `ban()`: words between white space, without quoting.
    ///
    /// # Errors
    /// [`BanError`].
    pub fn from_text(text: &str, regexes: &dyn Regexes) -> Result<BanSpec, BanError> {
        let all: Vec<&str> = text.split_ascii_whitespace().collect();
        let (spread, words) = spread_of(&all)?;
        let mut words = words.iter().copied();
        let mut spec = BanSpec { spread, ..BanSpec::default() };
        loop {
            let field = words.next().ok_or(BanError::Empty)?;
            let oper = words.next().ok_or(BanError::NoOperator)?;
            let value = words.next().ok_or(BanError::NoValue)?;
            spec.add(field, oper, value, regexes)?;
            match words.next() {
                None => return Ok(spec),
                Some("&&") => {}
                Some(word) => return Err(BanError::NotAndBetween(word.to_owned())),
            }
        }
    }

    fn add(&mut self, field: &str, oper: &str, value: &str, regexes: &dyn Regexes) -> Result<(), BanError> {
        if self.tests.len() == TEST_LIMIT {
            return Err(BanError::TooLong);
        }
        let field = Field::parse(field).ok_or_else(|| BanError::UnknownField(field.to_owned()))?;
        let got = oper;
        let bad = || BanError::BadOperator { expected: field.operators(), got: got.to_owned() };
        let oper = Oper::parse(oper).filter(|&oper| field.takes(oper)).ok_or_else(bad)?;
        let value = match oper {
            _ if field.is_duration() => {
                Value::Seconds(parse_duration(value).ok_or_else(|| BanError::BadDuration(value.to_owned()))?)
            }
            Oper::Match | Oper::NoMatch => {
                let regex = regexes.compile(value).map_err(BanError::BadRegex)?;
                Value::Pattern(Pattern { text: value.to_owned(), regex: Some(regex).into() })
            }
            _ if field.is_key() => {
                let keys = field.keys(value).ok_or_else(|| BanError::BadKey(value.to_owned()))?;
                if keys.len() > MOST_TAGS {
                    return Err(BanError::TooManyTags(keys.len()));
                }
                Value::Keys { text: value.to_owned(), keys }
            }
            _ if field == Field::ObjTenant && !message::tenants::is_tenant_name(value.as_bytes()) => {
                return Err(BanError::BadTenant(value.to_owned()));
            }
            Oper::Eq | Oper::Neq | Oper::Gt | Oper::Gte | Oper::Lt | Oper::Lte => Value::Text(value.to_owned()),
        };
        self.tests.push(Test { field, oper, value });
        Ok(())
    }

    /// The words `over=` and `rate=`, which come before [`BanSpec::words`].
    pub fn spread_words(&self) -> Vec<String> {
        self.spread.map(|plan| plan.words()).unwrap_or_default()
    }

    /// The words from which [`BanSpec::from_words`] makes the same ban.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (at, Test { field, oper, value }) in self.tests.iter().enumerate() {
            if at > 0 {
                words.push("&&".to_owned());
            }
            let value = match value {
                Value::Text(text) | Value::Pattern(Pattern { text, .. }) | Value::Keys { text, .. } => text.clone(),
                Value::Seconds(seconds) => format!("{seconds}s"),
            };
            words.extend([field.to_string(), oper.text().to_owned(), value]);
        }
        words
    }

    /// True if a test needs a request, so that only lookups can make it.
    pub fn has_req(&self) -> bool {
        self.tests.iter().any(|test| test.field.is_req())
    }

    /// True if a test needs the tags of objects.
    pub fn has_key(&self) -> bool {
        self.tests.iter().any(|test| test.field.is_key())
    }

    /// True if a test needs the tags that objects have of their URLs.
    pub fn has_url_key(&self) -> bool {
        self.tests.iter().any(|test| matches!(test.field, Field::ObjHost | Field::ObjPrefix))
    }

    pub fn is_spread(&self) -> bool {
        self.spread.is_some()
    }

    pub fn has_obj(&self) -> bool {
        self.tests.iter().any(|test| !test.field.is_req())
    }

    /// Estimate of the bytes that the ban takes in Varnish's format.
    pub(super) fn bytes(&self) -> u64 {
        HEAD_BYTES + self.tests.iter().map(|test| 8 + test.to_string().len() as u64).sum::<u64>()
    }

    /// True if the other ban hits the same objects at any time. A ban on ttl, age or last
    /// hit never does: it depends on its own time.
    pub(super) fn says_the_same(&self, other: &BanSpec) -> bool {
        let is_timeless = |spec: &BanSpec| !spec.tests.iter().any(|test| test.field.is_relative());
        self.tests.len() == other.tests.len()
            && self.spread.is_none()
            && other.spread.is_none()
            && is_timeless(self)
            && self.tests.iter().zip(&other.tests).all(|(a, b)| a.says_the_same(b))
    }

    pub(super) fn matches<S: BanSubject>(
        &self,
        shared: &CacheShared,
        made: Mono,
        subject: &S,
        req: Option<&dyn CacheRequest>,
        tests: &mut u64,
    ) -> bool {
        self.tests.iter().all(|test| {
            *tests += 1;
            test.matches(shared, made, subject, req)
        })
    }

    /// True unless a test fails of what is known of the request that brought the object: its URL and host.
    pub(super) fn may_match<S: BanSubject + CacheRequest>(
        &self,
        shared: &CacheShared,
        made: Mono,
        subject: &S,
    ) -> bool {
        self.tests.iter().all(|test| !test.field.is_kept() || test.matches(shared, made, subject, Some(subject)))
    }
}

/// Fields that a ban can test, besides headers (`req.http.*`, `obj.http.*`).
pub const BAN_FIELDS: [&str; 11] = [
    "req.url",
    "obj.status",
    "obj.ttl",
    "obj.age",
    "obj.grace",
    "obj.keep",
    "obj.last_hit",
    "obj.tag",
    "obj.host",
    "obj.prefix",
    "obj.tenant",
];

/// Takes the words `over=` and `rate=` from the beginning.
fn spread_of<'a, 'w>(words: &'a [&'w str]) -> Result<(Option<SpreadPlan>, &'a [&'w str]), BanError> {
    let count = words.iter().take_while(|word| SpreadPlan::is_word(word)).count();
    let (settings, rest) = words.split_at(count);
    Ok((SpreadPlan::parse(settings)?, rest))
}

impl Field {
    fn parse(word: &str) -> Option<Field> {
        let name = |name: &str| (name.len() <= NAME_LIMIT).then(|| name.to_owned());
        if let Some(rest) = word.strip_prefix("req.http.") {
            return name(rest).map(Field::ReqHttp);
        }
        if let Some(rest) = word.strip_prefix("obj.http.") {
            return name(rest).map(Field::ObjHttp);
        }
        Some(match word {
            "req.url" => Field::ReqUrl,
            "obj.status" => Field::ObjStatus,
            "obj.ttl" => Field::ObjTtl,
            "obj.age" => Field::ObjAge,
            "obj.grace" => Field::ObjGrace,
            "obj.keep" => Field::ObjKeep,
            "obj.last_hit" => Field::ObjLastHit,
            "obj.tag" => Field::ObjTag,
            "obj.host" => Field::ObjHost,
            "obj.prefix" => Field::ObjPrefix,
            "obj.tenant" => Field::ObjTenant,
            _ => return None,
        })
    }

    fn is_key(&self) -> bool {
        matches!(self, Self::ObjTag | Self::ObjHost | Self::ObjPrefix)
    }

    /// The purges by key that a value stands for; `None` if the value is none of this field.
    fn keys(&self, value: &str) -> Option<Vec<Box<[u8]>>> {
        let place = value.split_once("://").map_or(value, |(_, place)| place);
        let keys: Vec<Box<[u8]>> = match self {
            Self::ObjHost => vec![message::tags::of_prefix(place.trim_end_matches('/').as_bytes(), b"").into()],
            Self::ObjTag => message::tags::words(value.as_bytes()).map(Box::from).collect(),
            Self::ObjPrefix => {
                let (host, _) = place.split_once('/').filter(|(host, _)| !host.is_empty())?;
                vec![message::tags::of_prefix(host.as_bytes(), &place.as_bytes()[host.len()..]).into()]
            }
            Self::ReqUrl | Self::ReqHttp(_) | Self::ObjStatus | Self::ObjHttp(_) => return None,
            Self::ObjTtl | Self::ObjAge | Self::ObjGrace | Self::ObjKeep | Self::ObjLastHit => return None,
            Self::ObjTenant => return None,
        };
        let is_host = !matches!(self, Self::ObjHost) || !place.is_empty() && !place.trim_end_matches('/').contains('/');
        (!keys.is_empty() && is_host).then_some(keys)
    }

    /// False for what is only known of an object that is in the cache, and of a request for it.
    fn is_kept(&self) -> bool {
        match self {
            Self::ReqHttp(name) => name.eq_ignore_ascii_case("host"),
            Self::ObjLastHit => false,
            Self::ObjTag | Self::ObjHost | Self::ObjPrefix | Self::ObjTenant => true,
            Self::ReqUrl | Self::ObjStatus | Self::ObjHttp(_) => true,
            Self::ObjTtl | Self::ObjAge | Self::ObjGrace | Self::ObjKeep => true,
        }
    }

    fn is_req(&self) -> bool {
        matches!(self, Self::ReqUrl | Self::ReqHttp(_))
    }

    fn is_duration(&self) -> bool {
        matches!(self, Self::ObjTtl | Self::ObjAge | Self::ObjGrace | Self::ObjKeep | Self::ObjLastHit)
    }

    fn is_relative(&self) -> bool {
        matches!(self, Self::ObjTtl | Self::ObjAge | Self::ObjLastHit)
    }

    /// True if the value is a name as a whole, for which no pattern is taken.
    fn is_name(&self) -> bool {
        self.is_key() || *self == Self::ObjTenant
    }

    fn operators(&self) -> &'static str {
        match (self.is_duration(), self.is_name()) {
            (true, _) => "==, !=, >, >=, < or <=",
            (false, true) => "== or !=",
            (false, false) => "==, !=, ~ or !~",
        }
    }

    fn takes(&self, oper: Oper) -> bool {
        match oper {
            Oper::Eq | Oper::Neq => true,
            Oper::Match | Oper::NoMatch => !self.is_duration() && !self.is_name(),
            Oper::Gt | Oper::Gte | Oper::Lt | Oper::Lte => self.is_duration(),
        }
    }
}

impl Oper {
    const ALL: [Oper; 8] = [Oper::Eq, Oper::Neq, Oper::Match, Oper::NoMatch, Oper::Gt, Oper::Gte, Oper::Lt, Oper::Lte];

    fn text(self) -> &'static str {
        match self {
            Oper::Eq => "==",
            Oper::Neq => "!=",
            Oper::Match => "~",
            Oper::NoMatch => "!~",
            Oper::Gt => ">",
            Oper::Gte => ">=",
            Oper::Lt => "<",
            Oper::Lte => "<=",
        }
    }

    fn parse(word: &str) -> Option<Oper> {
        Oper::ALL.into_iter().find(|oper| oper.text() == word)
    }

    fn compare(self, a: f64, b: f64) -> bool {
        match self {
            Oper::Eq => a == b,
            Oper::Neq => a != b,
            Oper::Gt => a > b,
            Oper::Gte => a >= b,
            Oper::Lt => a < b,
            Oper::Lte => a <= b,
            Oper::Match | Oper::NoMatch => false,
        }
    }
}

impl Test {
    fn says_the_same(&self, other: &Test) -> bool {
        let same_value = match (&self.value, &other.value) {
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Pattern(a), Value::Pattern(b)) => a.text == b.text,
            (Value::Seconds(a), Value::Seconds(b)) => a == b,
            (Value::Keys { keys: a, .. }, Value::Keys { keys: b, .. }) => a == b,
            (Value::Text(_) | Value::Pattern(_) | Value::Seconds(_) | Value::Keys { .. }, _) => false,
        };
        same_value && self.field == other.field && self.oper == other.oper
    }

    fn matches<S: BanSubject>(
        &self,
        shared: &CacheShared,
        made: Mono,
        subject: &S,
        req: Option<&dyn CacheRequest>,
    ) -> bool {
        match &self.field {
            Field::ReqUrl => req.is_some_and(|req| self.matches_text(shared, Some(req.url()))),
            Field::ReqHttp(name) => req.is_some_and(|req| self.matches_text(shared, req.header(name))),
            Field::ObjHttp(name) => {
                subject.with_head(|head| self.matches_text(shared, shared.heads.header(head, name))).unwrap_or(false)
            }
            Field::ObjStatus => subject
                .with_head(|head| {
                    let status = shared.heads.status(head);
                    self.matches_text(shared, Some(status.to_string().as_bytes()))
                })
                .unwrap_or(false),
            Field::ObjTtl | Field::ObjAge | Field::ObjGrace | Field::ObjKeep | Field::ObjLastHit => {
                self.matches_time(made, subject)
            }
            Field::ObjTag | Field::ObjHost | Field::ObjPrefix => {
                let Value::Keys { keys, .. } = &self.value else { return false };
                subject.has_key(shared, keys) == (self.oper == Oper::Eq)
            }
            Field::ObjTenant => {
                let Value::Text(name) = &self.value else { return false };
                subject.is_of_tenant(shared, name, self.oper == Oper::Eq)
            }
        }
    }

    /// A field that isn't there equals nothing, differs from everything, and neither matches nor fails to match.
    fn matches_text(&self, shared: &CacheShared, text: Option<&[u8]>) -> bool {
        match (&self.value, self.oper, text) {
            (Value::Text(value), Oper::Eq, text) => text == Some(value.as_bytes()),
            (Value::Text(value), Oper::Neq, text) => text != Some(value.as_bytes()),
            (Value::Pattern(pattern), Oper::Match | Oper::NoMatch, Some(text)) => {
                // What can't be compiled any more hits everything: nobody knows what it would spare.
                pattern.regex(shared).is_none_or(|regex| regex.is_match(text) == (self.oper == Oper::Match))
            }
            (Value::Text(_) | Value::Pattern(_) | Value::Seconds(_) | Value::Keys { .. }, _, _) => false,
        }
    }

    /// TTL, age and the time since the last use are those of the moment when the ban was made. A use that isn't known hits
    /// nothing.
    fn matches_time<S: BanSubject>(&self, made: Mono, subject: &S) -> bool {
        let Value::Seconds(seconds) = self.value else { return false };
        let times = subject.times();
        let (a, b) = match self.field {
            Field::ObjTtl => (times.t_origin.0 + times.ttl, made.0 + seconds),
            Field::ObjAge => (-times.t_origin.0, seconds - made.0),
            Field::ObjGrace => (times.grace, seconds),
            Field::ObjKeep => (times.keep, seconds),
            Field::ObjLastHit => match subject.last_use() {
                Some(at) => (-at.0, seconds - made.0),
                None => return false,
            },
            Field::ReqUrl | Field::ReqHttp(_) | Field::ObjStatus | Field::ObjHttp(_) => return false,
            Field::ObjTag | Field::ObjHost | Field::ObjPrefix | Field::ObjTenant => return false,
        };
        self.oper.compare(a, b)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReqUrl => write!(f, "req.url"),
            Self::ReqHttp(name) => write!(f, "req.http.{name}"),
            Self::ObjStatus => write!(f, "obj.status"),
            Self::ObjHttp(name) => write!(f, "obj.http.{name}"),
            Self::ObjTtl => write!(f, "obj.ttl"),
            Self::ObjAge => write!(f, "obj.age"),
            Self::ObjGrace => write!(f, "obj.grace"),
            Self::ObjKeep => write!(f, "obj.keep"),
            Self::ObjLastHit => write!(f, "obj.last_hit"),
            Self::ObjTag => write!(f, "obj.tag"),
            Self::ObjHost => write!(f, "obj.host"),
            Self::ObjPrefix => write!(f, "obj.prefix"),
            Self::ObjTenant => write!(f, "obj.tenant"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.field, self.oper.text())?;
        match &self.value {
            Value::Text(text) | Value::Pattern(Pattern { text, .. }) | Value::Keys { text, .. } => write!(f, "{text}"),
            Value::Seconds(seconds) => write!(f, "{}", super::show::duration(*seconds)),
        }
    }
}

impl fmt::Display for BanSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plan) = &self.spread {
            write!(f, "{plan} ")?;
        }
        for (at, test) in self.tests.iter().enumerate() {
            let and = if at == 0 { "" } else { " && " };
            write!(f, "{and}{test}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BanSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BanSpec({self})")
    }
}
