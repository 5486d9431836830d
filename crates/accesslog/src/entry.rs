// SPDX-License-Identifier: BSD-2-Clause
//! What an entry of a log says of a request.

use std::borrow::Cow;
use std::time::Duration;

use logq::Handling;

/// The reason why a line or record gives no entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    TooLong,
    /// A line without its end: a quote or bracket that never closes.
    Cut,
    NotALine,
    /// A log line without a request in it (`-`, or what is no request line).
    NoRequest,
    /// A target with bytes that no request line can carry.
    BadTarget,
    /// The words don't tell for certain which is the client and which the host.
    Ambiguous,
}

/// A reading of a line that fits best, though its words don't prove it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineReading {
    HostFirst,
    HostSecond,
    /// The first word, a name, is the client's.
    NamedClient,
    /// A time without a zone is UTC.
    NoZone,
}

impl LineReading {
    pub const ALL: [LineReading; 4] =
        [LineReading::HostFirst, LineReading::HostSecond, LineReading::NamedClient, LineReading::NoZone];

    /// Words for this reading in a report, after the line's place.
    pub const fn text(self) -> &'static str {
        match self {
            LineReading::HostFirst => "the first word is taken as the host, the second as the client",
            LineReading::HostSecond => "the first word is taken as the client, the second as the host",
            LineReading::NamedClient => {
                r#"the first word, a name, is taken as the client; if it is the host: --log-format '%v %l %u %t "%r" %>s %b'"#
            }
            LineReading::NoZone => "times have no zone and are taken as UTC",
        }
    }
}

impl Skip {
    pub const ALL: [Skip; 6] =
        [Skip::TooLong, Skip::Cut, Skip::NotALine, Skip::NoRequest, Skip::BadTarget, Skip::Ambiguous];

    pub const fn word(self) -> &'static str {
        match self {
            Skip::TooLong => "too_long",
            Skip::Cut => "cut",
            Skip::NotALine => "unknown_format",
            Skip::NoRequest => "no_request",
            Skip::BadTarget => "bad_target",
            Skip::Ambiguous => "ambiguous",
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            Skip::TooLong => "lines too long",
            Skip::Cut => "lines cut off",
            Skip::NotALine => "lines in no known format",
            Skip::NoRequest => "lines without a request",
            Skip::BadTarget => "URLs that can't be sent",
            Skip::Ambiguous => "lines that can be read in two ways",
        }
    }
}

/// The time at which a source says that a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryStamp {
    /// Nanoseconds since 1 January 1970.
    pub ns: i64,
    pub is_whole_second: bool,
    /// Seconds by which the source's clock is ahead of UTC; `None`: it doesn't say.
    pub zone: Option<i32>,
}

impl EntryStamp {
    /// `10/Oct/2000:13:55:36 -0700`, `2000-10-10T13:55:36-07:00`, both with a fraction of the second or without; UTC without a zone.
    pub fn parse(text: &str) -> Option<EntryStamp> {
        crate::ncsa::parse_time(text.as_bytes())
    }
}

/// The place that an answer came from, as varnishncsa (`hit`, `miss`, `pass`, ...), nginx (`HIT`, `STALE`, `BYPASS`),
/// Squid (`TCP_MEM_HIT:HIER_NONE`), content networks' X-Cache (`Hit from ...`) and Cache-Status (`name; fwd=miss`) say
/// it; `None`: they say something else. Of several caches the one next to the client counts, which stands last.
pub fn handling_from_text(text: &[u8]) -> Option<Handling> {
    if text.contains(&b';') {
        return handling_from_cache_status(text);
    }
    text.rsplit(|b| *b == b',').find_map(from_words)
}

/// The same as a value of Cache-Status says it (RFC 9211), of the last cache in it.
pub fn handling_from_cache_status(value: &[u8]) -> Option<Handling> {
    let params = || pieces(last_member(value), b';').skip(1).map(<[u8]>::trim_ascii);
    let forwarded = params().find_map(|param| param.strip_prefix(b"fwd="));
    if let Some(why) = forwarded {
        return Some(if matches!(why, b"bypass" | b"method" | b"request") { Handling::Pass } else { Handling::Miss });
    }
    params().any(|param| param == b"hit" || param == b"hit=?1").then_some(Handling::Hit)
}

fn from_words(text: &[u8]) -> Option<Handling> {
    const WORDS: [(&[u8], Handling); 10] = [
        (b"miss", Handling::Miss),
        (b"expired", Handling::Miss),
        (b"pass", Handling::Pass),
        (b"hit", Handling::Hit),
        (b"stale", Handling::Hit),
        (b"updating", Handling::Hit),
        (b"revalidated", Handling::Hit),
        (b"pipe", Handling::Pipe),
        (b"synth", Handling::Synth),
        (b"error", Handling::Synth),
    ];
    // What follows is the cache's name, whatever that is.
    let end = text.windows(6).position(|w| w.eq_ignore_ascii_case(b" from "));
    let said = &text[..end.unwrap_or(text.len())];
    let has = |word: &[u8]| said.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    WORDS.iter().find(|(word, _)| has(word)).map(|(_, handling)| *handling)
}

/// The pieces between a separator that isn't within quotes.
fn pieces(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |&b| {
        let is_end = b == separator && !is_quoted;
        is_quoted ^= b == b'"' && !is_escaped;
        is_escaped = b == b'\\' && is_quoted && !is_escaped;
        is_end
    })
}

fn last_member(list: &[u8]) -> &[u8] {
    pieces(list, b',').last().unwrap_or_default()
}

pub type AccessField<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessEntry<'a> {
    /// The client: an address, or whatever the log has in its place.
    pub client: Option<Cow<'a, [u8]>>,
    pub method: Cow<'a, [u8]>,
    pub host: Option<Cow<'a, [u8]>>,
    /// Path and query, or `*`.
    pub target: Cow<'a, [u8]>,
    pub fields: Vec<AccessField<'a>>,
    pub time: Option<EntryStamp>,
    pub is_tls: bool,
    pub status: Option<u16>,
    /// Bytes of the answer's body; of the whole answer where the log counts those.
    pub bytes: Option<u64>,
    pub handling: Option<Handling>,
    /// Time from the request's arrival to the end of its answer.
    pub duration: Option<Duration>,
    /// Time that backends worked for it; nothing for a hit.
    pub backend_time: Option<Duration>,
    /// The classes that it or its parts needed a worker of, where the server has some.
    pub classes: Vec<ClassUse<'a>>,
    /// A bit for each of [`LineReading::ALL`] that was taken; see [`AccessEntry::readings`].
    pub assumed: u8,
}

/// The course of a request, or a part of one, in its class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassUse<'a> {
    pub name: Cow<'a, [u8]>,
    /// Times for which it waited for a worker and held one; nothing if it was refused.
    pub times: Option<(Duration, Duration)>,
}

impl<'a> ClassUse<'a> {
    /// Reads the records in which Lacquer tells it: `lacquer: class: NAME WAITED SERVICE`, `class NAME: full`.
    pub fn read(text: &'a [u8]) -> Option<ClassUse<'a>> {
        if let Some(rest) = text.strip_prefix(b"lacquer: class: ") {
            let mut words = rest.split(|b| *b == b' ');
            let name = words.next().filter(|name| !name.is_empty())?;
            let mut time = || Duration::try_from_secs_f64(std::str::from_utf8(words.next()?).ok()?.parse().ok()?).ok();
            let times = (time()?, time()?);
            return Some(ClassUse { name: Cow::Borrowed(name), times: Some(times) });
        }
        let rest = text.strip_prefix(b"class ")?;
        let name = rest.strip_suffix(b": full").or_else(|| rest.strip_suffix(b": late"))?;
        (!name.contains(&b' ')).then_some(ClassUse { name: Cow::Borrowed(name), times: None })
    }
}

impl<'a> AccessEntry<'a> {
    pub fn assume(&mut self, reading: LineReading) {
        self.assumed |= 1 << reading as u8;
    }

    pub fn readings(&self) -> impl Iterator<Item = LineReading> + use<> {
        let assumed = self.assumed;
        LineReading::ALL.into_iter().filter(move |reading| assumed & 1 << *reading as u8 != 0)
    }

    /// The value of a field, by its name in any case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| &**value)
    }

    /// Takes a target as it stands in a request line or a list: absolute or a path.
    ///
    /// # Errors
    /// [`Skip::BadTarget`].
    pub fn set_url(&mut self, url: Cow<'a, [u8]>) -> Result<(), Skip> {
        if url.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return Err(Skip::BadTarget);
        }
        let rest = match (strip_scheme(&url, b"http://"), strip_scheme(&url, b"https://")) {
            (Some(at), _) => at,
            (_, Some(at)) => {
                self.is_tls = true;
                at
            }
            _ if url.starts_with(b"/") || *url == *b"*" => {
                self.target = url;
                return Ok(());
            }
            _ => return Err(Skip::BadTarget),
        };
        let end = url[rest..].iter().position(|b| matches!(b, b'/' | b'?' | b'#')).map_or(url.len(), |n| rest + n);
        // A user and password before the host are for the client, not for the wire.
        let begin = url[rest..end].iter().rposition(|&b| b == b'@').map_or(rest, |n| rest + n + 1);
        if begin == end || url[begin] == b':' {
            return Err(Skip::BadTarget);
        }
        // varnishncsa puts the host before `*` as before any other target.
        let authority = &url[begin..end];
        if let (Some(host), true) = (authority.strip_suffix(b"*"), end == url.len()) {
            (self.host, self.target) = (Some(Cow::Owned(host.to_vec())), Cow::Borrowed(&b"*"[..]));
            return Ok(());
        }
        self.host = Some(Cow::Owned(authority.to_vec()));
        let path = &url[end..];
        let path = &path[..path.iter().position(|&b| b == b'#').unwrap_or(path.len())];
        self.target =
            if path.starts_with(b"/") { Cow::Owned(path.to_vec()) } else { Cow::Owned([b"/", path].concat()) };
        Ok(())
    }

    /// Adds a field of the log: `-` is how logs say that there was none.
    pub fn add_logged(&mut self, name: &'a [u8], value: Cow<'a, [u8]>) {
        if !value.is_empty() && *value != *b"-" {
            self.fields.push((Cow::Borrowed(name), value));
        }
    }
}

fn strip_scheme(url: &[u8], scheme: &[u8]) -> Option<usize> {
    url.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)).then_some(scheme.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_came_from() {
        use Handling::*;
        for (text, handling) in [
            ("hit", Some(Hit)),
            ("miss", Some(Miss)),
            ("hitmiss", Some(Miss)),
            ("pass", Some(Pass)),
            ("synth", Some(Synth)),
            ("HIT", Some(Hit)),
            ("EXPIRED", Some(Miss)),
            ("STALE", Some(Hit)),
            ("BYPASS", Some(Pass)),
            ("TCP_MEM_HIT:HIER_NONE", Some(Hit)),
            ("TCP_MISS", Some(Miss)),
            ("Hit from cloudfront", Some(Hit)),
            ("Error from cloudfront", Some(Synth)),
            ("hitpass", Some(Pass)),
            ("compass.nz; hit; ttl=3", Some(Hit)),
            ("a.nz; fwd=uri-miss; stored", Some(Miss)),
            ("a.nz; fwd=method", Some(Pass)),
            ("a.nz;fwd=bypass", Some(Pass)),
            ("a.nz; fwd=request; fwd-status=304", Some(Pass)),
            ("a.nz; fwd=stale; fwd-status=304", Some(Miss)),
            ("a.nz; fwd=partial", Some(Miss)),
            ("a; fwd=miss, b; hit", Some(Hit)),
            ("a; hit, b; fwd=miss", Some(Miss)),
            ("a; hit, b; fwd=miss; detail=\"x, c; hit\"", Some(Miss)),
            ("\"a \\\", b\"; hit", Some(Hit)),
            ("a; hit=?0", None),
            ("a; hit, b; ttl=3", None),
            ("MISS, HIT", Some(Hit)),
            ("HIT from a.nz, MISS from hit.nz", Some(Miss)),
            ("HIT from compass.nz", Some(Hit)),
            ("-", None),
            ("\0", None),
        ] {
            assert_eq!(handling_from_text(text.as_bytes()), handling, "{text}");
        }
    }

    fn url(text: &str) -> String {
        let mut entry = AccessEntry::default();
        match entry.set_url(Cow::Borrowed(text.as_bytes())) {
            Ok(()) => {
                let host = entry.host.as_deref().map(|h| String::from_utf8_lossy(h).into_owned());
                format!("{:?} {} {}", host, String::from_utf8_lossy(&entry.target), entry.is_tls)
            }
            Err(skip) => format!("{skip:?}"),
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(url("/a?b#c"), "None /a?b#c false");
        assert_eq!(url("http://a/b"), r#"Some("a") /b false"#);
        assert_eq!(url("HTTP://u:p@a:81?q#f"), r#"Some("a:81") /?q false"#);
        assert_eq!(url("https://a"), r#"Some("a") / true"#);
        assert_eq!(url("*"), "None * false");
        assert_eq!(url("http://a*"), r#"Some("a") * false"#);
        for bad in ["", "a", "/a b", "/\0", "http:///x", "http://:80*", "ftp://a/"] {
            assert_eq!(url(bad), "BadTarget", "{bad}");
        }
    }

    #[test]
    fn what_records_say_of_classes() {
        let read = |text: &'static str| {
            ClassUse::read(text.as_bytes()).map(|it| (String::from_utf8_lossy(&it.name).into_owned(), it.times))
        };
        let ms = Duration::from_millis;
        assert_eq!(read("lacquer: class: dear 0.500000 1.250000"), Some(("dear".into(), Some((ms(500), ms(1250))))));
        assert_eq!(read("class dear: full"), Some(("dear".into(), None)));
        assert_eq!(read("class dear: late"), Some(("dear".into(), None)));
        for text in [
            "lacquer: class: dear 0.5",
            "lacquer: class: ",
            "lacquer: no hit: x",
            "class dear",
            "class a b: full",
            "lacquer: class: a -1 1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
