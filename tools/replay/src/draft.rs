// SPDX-License-Identifier: BSD-2-Clause
//! A request as a source tells it, and the bytes that are sent for it.

use std::borrow::Cow;

/// Longest head that is sent; what a log holds beyond that is no request anybody would answer.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// Why something in a source is not sent. Each is counted and told at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skip {
    /// A line longer than the bound.
    TooLong,
    /// A line without its end: a quote or bracket that never closes.
    Cut,
    /// No log line, no URL.
    NotALine,
    /// A log line without a request in it (`-`, or what is no request line).
    NoRequest,
    /// A method that wasn't asked for.
    Method,
    /// A target with bytes that no request line can carry.
    BadTarget,
    /// The host isn't in the log and isn't given, or its address isn't known.
    NoAddress,
    /// An `https:` URL whose host would have to be asked itself.
    Tls,
    /// No time in the line, and the log's timing was asked for.
    NoTime,
}

impl Skip {
    /// All of them.
    pub const ALL: [Skip; 9] = [
        Skip::TooLong,
        Skip::Cut,
        Skip::NotALine,
        Skip::NoRequest,
        Skip::Method,
        Skip::BadTarget,
        Skip::NoAddress,
        Skip::Tls,
        Skip::NoTime,
    ];

    /// Its name in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Skip::TooLong => "too_long",
            Skip::Cut => "cut",
            Skip::NotALine => "unknown_format",
            Skip::NoRequest => "no_request",
            Skip::Method => "other_method",
            Skip::BadTarget => "bad_target",
            Skip::NoAddress => "no_address",
            Skip::Tls => "https",
            Skip::NoTime => "no_time",
        }
    }

    /// What the report says.
    pub const fn text(self) -> &'static str {
        match self {
            Skip::TooLong => "lines too long",
            Skip::Cut => "lines cut off",
            Skip::NotALine => "lines in no known format",
            Skip::NoRequest => "lines without a request",
            Skip::Method => "requests with other methods (--methods)",
            Skip::BadTarget => "URLs that can't be sent",
            Skip::NoAddress => "requests whose host has no address (--to, --map)",
            Skip::Tls => "https URLs, which need --to or --map",
            Skip::NoTime => "lines without a time",
        }
    }
}

/// When a source says that a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub ns: i64,
    /// The source knows whole seconds only.
    pub is_whole_second: bool,
}

/// A field's name and value.
pub type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A request as told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Draft<'a> {
    /// GET and the like.
    pub method: Cow<'a, [u8]>,
    /// The host, if the source knows.
    pub host: Option<Cow<'a, [u8]>>,
    /// Path and query, or `*`.
    pub target: Cow<'a, [u8]>,
    /// Further fields.
    pub fields: Vec<Field<'a>>,
    /// When.
    pub time: Option<Stamp>,
    /// The URL was `https:`.
    pub is_tls: bool,
}

impl<'a> Draft<'a> {
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
        if begin == end {
            return Err(Skip::BadTarget);
        }
        self.host = Some(Cow::Owned(url[begin..end].to_vec()));
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

/// Fields that belong to one connection or to a body, neither of which is the log's.
const NOT_SENT: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What every request gets, from the options.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Fields to set; without a value: to leave out.
    pub fields: Vec<(String, Option<String>)>,
    /// The host of requests whose source knows none.
    pub host: Option<String>,
}

/// The User-Agent of requests whose source knows none.
const USER_AGENT: &str = "lacquer-replay";

impl Extras {
    /// Writes a request's head, its empty line included.
    ///
    /// # Errors
    /// [`Skip::TooLong`], [`Skip::BadTarget`].
    pub fn encode(&self, draft: &Draft<'_>, host: &[u8], out: &mut Vec<u8>) -> Result<(), Skip> {
        let begin = out.len();
        out.extend_from_slice(&draft.method);
        out.push(b' ');
        out.extend_from_slice(&draft.target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let host = self.field("host").map_or(host, |set| set.as_deref().unwrap_or_default().as_bytes());
        put(out, b"Host", host);
        let mut has_agent = self.field("user-agent").is_some();
        for (name, value) in &draft.fields {
            if self.fields.iter().any(|(set, _)| set.as_bytes().eq_ignore_ascii_case(name))
                || NOT_SENT.iter().any(|not| not.as_bytes().eq_ignore_ascii_case(name))
            {
                continue;
            }
            has_agent |= name.eq_ignore_ascii_case(b"user-agent");
            put(out, name, value);
        }
        if !has_agent {
            put(out, b"User-Agent", USER_AGENT.as_bytes());
        }
        for (name, value) in &self.fields {
            if let Some(value) = value
                && !name.eq_ignore_ascii_case("host")
            {
                put(out, name.as_bytes(), value.as_bytes());
            }
        }
        if !matches!(&*draft.method, b"GET" | b"HEAD") {
            // No log holds bodies.
            put(out, b"Content-Length", b"0");
        }
        out.extend_from_slice(b"\r\n");
        if out.len() - begin > MAX_HEAD_BYTES {
            out.truncate(begin);
            return Err(Skip::TooLong);
        }
        Ok(())
    }

    fn field(&self, name: &str) -> Option<&Option<String>> {
        self.fields.iter().find(|(set, _)| set.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A field whose value can't break the head: control characters become blanks.
fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend(value.iter().map(|&b| if (b < b' ' && b != b'\t') || b == 0x7f { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> String {
        let mut draft = Draft::default();
        match draft.set_url(Cow::Borrowed(text.as_bytes())) {
            Ok(()) => {
                let host = draft.host.as_deref().map(|h| String::from_utf8_lossy(h).into_owned());
                format!("{:?} {} {}", host, String::from_utf8_lossy(&draft.target), draft.is_tls)
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
        for bad in ["", "a", "/a b", "/\0", "http:///x", "ftp://a/"] {
            assert_eq!(url(bad), "BadTarget", "{bad}");
        }
    }

    #[test]
    fn a_head_has_what_the_log_and_the_options_say() {
        let mut draft = Draft { method: Cow::Borrowed(b"GET"), target: Cow::Borrowed(b"/a"), ..Draft::default() };
        draft.add_logged(b"Referer", Cow::Borrowed(b"-"));
        draft.add_logged(b"Cookie", Cow::Borrowed(b"a=b\r\nX: y"));
        draft.add_logged(b"Connection", Cow::Borrowed(b"close"));
        draft.add_logged(b"Accept-Encoding", Cow::Borrowed(b"gzip"));
        let extras =
            Extras { fields: vec![("accept-encoding".into(), None), ("X-A".into(), Some("1".into()))], host: None };
        let mut out = Vec::new();
        extras.encode(&draft, b"h", &mut out).unwrap();
        let want = "GET /a HTTP/1.1\r\nHost: h\r\nCookie: a=b  X: y\r\nUser-Agent: lacquer-replay\r\nX-A: 1\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
        draft.method = Cow::Borrowed(b"POST");
        draft.target = Cow::Owned(vec![b'/'; MAX_HEAD_BYTES]);
        assert_eq!(extras.encode(&draft, b"h", &mut Vec::new()), Err(Skip::TooLong));
    }
}
