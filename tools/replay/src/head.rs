// SPDX-License-Identifier: BSD-2-Clause
//! The bytes that are sent for an entry of a source, and why some are not sent.

use accesslog::{AccessEntry, Skip};

/// Longest head that is sent; what a log holds beyond that is no request anybody would answer.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// Reasons why something in a source is not sent. Each is counted and reported at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsent {
    Unread(Skip),
    Method,
    /// The host isn't in the log and isn't given, or its address isn't known.
    NoAddress,
    /// No time in the line, and the log's timing was asked for.
    NoTime,
}

impl From<Skip> for Unsent {
    fn from(skip: Skip) -> Unsent {
        Unsent::Unread(skip)
    }
}

impl Unsent {
    pub const ALL: [Unsent; 9] = [
        Unsent::Unread(Skip::TooLong),
        Unsent::Unread(Skip::Cut),
        Unsent::Unread(Skip::NotALine),
        Unsent::Unread(Skip::NoRequest),
        Unsent::Unread(Skip::Ambiguous),
        Unsent::Method,
        Unsent::Unread(Skip::BadTarget),
        Unsent::NoAddress,
        Unsent::NoTime,
    ];

    pub fn place(self) -> usize {
        Unsent::ALL.iter().position(|own| *own == self).expect("all are in it")
    }

    pub const fn word(self) -> &'static str {
        match self {
            Unsent::Unread(skip) => skip.word(),
            Unsent::Method => "other_method",
            Unsent::NoAddress => "no_address",
            Unsent::NoTime => "no_time",
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            Unsent::Unread(skip) => skip.text(),
            Unsent::Method => "requests with other methods (--methods)",
            Unsent::NoAddress => "requests whose host has no address (--to, --map)",
            Unsent::NoTime => "lines without a time",
        }
    }
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

#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Fields to set; without a value: to leave out.
    pub fields: Vec<(String, Option<String>)>,
    pub host: Option<String>,
}

const USER_AGENT: &str = "lacquer-replay";

impl Extras {
    /// Writes a request's head, its empty line included.
    ///
    /// # Errors
    /// [`Skip::TooLong`], [`Skip::BadTarget`].
    pub fn encode(&self, entry: &AccessEntry<'_>, host: &[u8], out: &mut Vec<u8>) -> Result<(), Skip> {
        let begin = out.len();
        out.extend_from_slice(&entry.method);
        out.push(b' ');
        out.extend_from_slice(&entry.target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        let host = self.field("host").map_or(host, |set| set.as_deref().unwrap_or_default().as_bytes());
        put(out, b"Host", host);
        let mut has_agent = self.field("user-agent").is_some();
        for (name, value) in &entry.fields {
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
        if !matches!(&*entry.method, b"GET" | b"HEAD") {
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
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn a_head_has_what_the_log_and_the_options_say() {
        let mut entry =
            AccessEntry { method: Cow::Borrowed(b"GET"), target: Cow::Borrowed(b"/a"), ..AccessEntry::default() };
        entry.add_logged(b"Referer", Cow::Borrowed(b"-"));
        entry.add_logged(b"Cookie", Cow::Borrowed(b"a=b\r\nX: y"));
        entry.add_logged(b"Connection", Cow::Borrowed(b"close"));
        entry.add_logged(b"Accept-Encoding", Cow::Borrowed(b"gzip"));
        let extras =
            Extras { fields: vec![("accept-encoding".into(), None), ("X-A".into(), Some("1".into()))], host: None };
        let mut out = Vec::new();
        extras.encode(&entry, b"h", &mut out).unwrap();
        let want = "GET /a HTTP/1.1\r\nHost: h\r\nCookie: a=b  X: y\r\nUser-Agent: lacquer-replay\r\nX-A: 1\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
        entry.method = Cow::Borrowed(b"POST");
        entry.target = Cow::Owned(vec![b'/'; MAX_HEAD_BYTES]);
        assert_eq!(extras.encode(&entry, b"h", &mut Vec::new()), Err(Skip::TooLong));
    }
}
