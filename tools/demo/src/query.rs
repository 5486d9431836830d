// SPDX-License-Identifier: BSD-2-Clause
//! What the query of a URL asks the origin for: size, latency, status, fields, gzip, chunks.

use std::time::Duration;

const MAX_SIZE: u64 = 1 << 30;
const MAX_LATENCY: Duration = Duration::from_secs(60);
const MAX_FIELDS: usize = 20;

/// An answer made to measure. What the query doesn't say is None, empty or false.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResponseSpec {
    /// Octets of the body, before gzip.
    pub size: Option<u64>,
    pub latency: Duration,
    /// The status code, 200 to 599.
    pub status: Option<u16>,
    /// `max-age` in seconds; 0 is `no-store`.
    pub ttl: Option<u32>,
    /// Further fields, checked to be harmless.
    pub fields: Vec<(String, String)>,
    pub gzip: bool,
    pub chunked: bool,
}

impl ResponseSpec {
    /// Reads the part after `?`; an error says in one line which word is wrong. Words we don't know mean nothing.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut w = ResponseSpec::default();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "1"));
            let bad = || format!("wrong value: {pair}");
            match name {
                "size" => w.size = Some(value.parse().ok().filter(|&s| s <= MAX_SIZE).ok_or_else(bad)?),
                "latency" => {
                    let ms = value.parse().map(Duration::from_millis).ok();
                    w.latency = ms.filter(|&l| l <= MAX_LATENCY).ok_or_else(bad)?;
                }
                "status" => w.status = Some(value.parse().ok().filter(|s| (200..600).contains(s)).ok_or_else(bad)?),
                "ttl" => w.ttl = Some(value.parse().map_err(|_| bad())?),
                "gzip" => w.gzip = value != "0",
                "chunked" => w.chunked = value != "0",
                "header" if w.fields.len() < MAX_FIELDS => w.fields.push(field(value).ok_or_else(bad)?),
                "header" => return Err(format!("more than {MAX_FIELDS} headers")),
                _ => {}
            }
        }
        Ok(w)
    }
}

/// `Name:value`, percent-decoded; None when it is no field or would frame the message.
fn field(text: &str) -> Option<(String, String)> {
    let text = decode(text)?;
    let (name, value) = text.split_once(':')?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let framing = ["content-length", "transfer-encoding", "connection"].iter().any(|f| name.eq_ignore_ascii_case(f));
    let clean = value.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    let ok = !name.is_empty() && name.chars().all(token) && clean && !framing;
    ok.then(|| (name.to_owned(), value.trim().to_owned()))
}

/// Percent-decoding, `+` as a blank; None for what isn't UTF-8 afterwards.
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [a, b, after @ ..]) => {
                let digit = |c: &u8| char::from(*c).to_digit(16);
                out.push(u8::try_from(digit(a)? * 16 + digit(b)?).ok()?);
                rest = after;
            }
            (b'+', _) => out.push(b' '),
            (c, _) => out.push(*c),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expect: Result<ResponseSpec, &str>) {
        assert_eq!(ResponseSpec::parse(query), expect.map_err(str::to_owned), "{query}");
    }

    #[test]
    fn words() {
        check("", Ok(ResponseSpec::default()));
        check("x&y=2&&", Ok(ResponseSpec::default()));
        check("size=10&gzip", Ok(ResponseSpec { size: Some(10), gzip: true, ..ResponseSpec::default() }));
        check(
            "latency=250&chunked=0",
            Ok(ResponseSpec { latency: Duration::from_millis(250), ..ResponseSpec::default() }),
        );
        check("status=404&ttl=5", Ok(ResponseSpec { status: Some(404), ttl: Some(5), ..ResponseSpec::default() }));
        check("size=-1", Err("wrong value: size=-1"));
        check("size=99999999999", Err("wrong value: size=99999999999"));
        check("status=99", Err("wrong value: status=99"));
    }

    #[test]
    fn fields() {
        let one = |n: &str, v: &str| Ok(ResponseSpec { fields: vec![(n.into(), v.into())], ..ResponseSpec::default() });
        check("header=Vary:Accept-Language", one("Vary", "Accept-Language"));
        check("header=X-A:+b%20c", one("X-A", "b c"));
        check("header=X:a%0d%0aY:b", Err("wrong value: header=X:a%0d%0aY:b"));
        check("header=content-length:5", Err("wrong value: header=content-length:5"));
        check("header=%zz", Err("wrong value: header=%zz"));
    }
}
