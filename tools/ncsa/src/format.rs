// SPDX-License-Identifier: BSD-2-Clause
//! The format of a line (-F): parsed once, then written per transaction.

use logq::names::{self, NameError};
use tables::tags::TagKind;

use crate::fields::{NcsaField, NcsaFields, Occurrence, WatchedValue};
use crate::quote::{decode_base64, quote};

/// The combined format of web servers.
pub const DEFAULT: &str = "%h %l %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-agent}i\"";
const TIME: &str = "[%d/%b/%Y:%T %z]";
/// The longest text in braces.
const LONGEST: usize = 254;

#[derive(Debug)]
enum Item {
    Text(Vec<u8>),
    /// A field, and its replacement when missing.
    Field(NcsaField, &'static str),
    /// The value of the watch of this number, and its replacement when missing.
    Watched(usize, &'static str),
    Hitmiss,
    Handling,
    Side,
    Vxid,
    RequestLine,
    User,
    Time(Time),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Time {
    /// strftime(3) of the beginning.
    Local(String),
    /// The beginning in seconds, ms, us since 1970; its fraction in ms, us.
    Seconds,
    Millis,
    Micros,
    MillisFraction,
    MicrosFraction,
    /// Duration of the transaction in seconds; then in ms, us.
    TookSeconds,
    TookMillis,
    TookMicros,
}

#[derive(Debug)]
pub struct NcsaFormat {
    items: Vec<Item>,
    watches: Vec<WatchedValue>,
    json: bool,
}

impl NcsaFormat {
    /// Parses a format. With `json` (-j) missing texts are empty and missing numbers 0.
    ///
    /// # Errors
    /// The fault in the format.
    pub fn parse(text: &str, json: bool) -> Result<NcsaFormat, String> {
        let mut format = NcsaFormat { items: Vec::new(), watches: Vec::new(), json };
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let tail = &rest[c.len_utf8()..];
            match (c, tail.chars().next()) {
                ('\\', Some(escaped)) => {
                    let byte = match escaped {
                        't' => '\t',
                        'n' => '\n',
                        other => other,
                    };
                    plain.extend(byte.to_string().bytes());
                    rest = &tail[escaped.len_utf8()..];
                }
                ('%', Some('l')) => {
                    plain.push(b'-');
                    rest = &tail[1..];
                }
                ('%', _) => {
                    if !plain.is_empty() {
                        format.items.push(Item::Text(std::mem::take(&mut plain)));
                    }
                    rest = format.specifier(rest)?;
                }
                _ => {
                    plain.extend(c.to_string().bytes());
                    rest = tail;
                }
            }
        }
        if !plain.is_empty() {
            format.items.push(Item::Text(plain));
        }
        Ok(format)
    }

    pub fn watches(&self) -> &[WatchedValue] {
        &self.watches
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    fn missing_text(&self) -> &'static str {
        if self.json { "" } else { "-" }
    }

    fn missing_number(&self) -> &'static str {
        if self.json { "0" } else { "-" }
    }

    /// Takes the specifier at the beginning of `rest` off it.
    fn specifier<'a>(&mut self, rest: &'a str) -> Result<&'a str, String> {
        let unknown = || Err(format!("Unknown format specifier at: {rest}"));
        let Some(letter) = rest[1..].chars().next() else { return unknown() };
        let item = match letter {
            'b' => Item::Field(NcsaField::BodyBytes, self.missing_number()),
            'D' => Item::Time(Time::TookMicros),
            'h' => Item::Field(NcsaField::Host, self.missing_text()),
            'H' => Item::Field(NcsaField::Protocol, "HTTP/1.0"),
            'I' => Item::Field(NcsaField::BytesIn, self.missing_number()),
            'm' => Item::Field(NcsaField::Method, self.missing_text()),
            'O' => Item::Field(NcsaField::BytesOut, self.missing_number()),
            'q' => Item::Field(NcsaField::Query, ""),
            'r' => Item::RequestLine,
            's' => Item::Field(NcsaField::Status, self.missing_number()),
            't' => Item::Time(Time::Local(TIME.to_owned())),
            'T' => Item::Time(Time::TookSeconds),
            'u' => Item::User,
            'U' => Item::Field(NcsaField::Url, self.missing_text()),
            '{' => return self.braces(rest),
            _ => return unknown(),
        };
        self.items.push(item);
        Ok(&rest[1 + letter.len_utf8()..])
    }

    /// `%{...}i` and its like.
    fn braces<'a>(&mut self, rest: &'a str) -> Result<&'a str, String> {
        let inside = &rest[2..];
        let mut depth = 1;
        let end = inside.bytes().position(|b| {
            depth += i32::from(b == b'{') - i32::from(b == b'}');
            depth == 0
        });
        let Some(end) = end else { return Err(format!("Unmatched bracket at: {rest}")) };
        let (name, after) = (&inside[..end], &inside[end + 1..]);
        if name.len() > LONGEST {
            return Err(format!("Too long in brackets at: {rest}"));
        }
        let item = match after.as_bytes().first() {
            Some(letter @ (b'i' | b'o')) => self.header(name, *letter == b'i')?,
            Some(b't') => Item::Time(match name {
                "sec" => Time::Seconds,
                "msec" => Time::Millis,
                "usec" => Time::Micros,
                "msec_frac" => Time::MillisFraction,
                "usec_frac" => Time::MicrosFraction,
                format => Time::Local(format.to_owned()),
            }),
            Some(b'T') => Item::Time(match name {
                "s" => Time::TookSeconds,
                "ms" => Time::TookMillis,
                "us" => Time::TookMicros,
                _ => return Err(format!("Unknown specifier: %{{{name}}}T")),
            }),
            Some(b'x') if own_name(name) == Some("default_format") => {
                let standard = NcsaFormat::parse(DEFAULT, self.json)?;
                self.append(standard);
                return Ok(&after[1..]);
            }
            Some(b'x') => self.extension(name)?,
            _ => return Err(format!("Unknown format specifier at: {rest}")),
        };
        self.items.push(item);
        Ok(&after[1..])
    }

    /// Parses the name of `%{X}i` and `%{X}o`, with `:first` or `:last` behind it.
    fn header(&mut self, name: &str, is_request: bool) -> Result<Item, String> {
        let (name, which) = match name.split_once(':') {
            None | Some((_, "")) => (name.trim_end_matches(':'), Occurrence::OfPeer),
            Some((name, "first")) => (name, Occurrence::First),
            Some((name, "last")) => (name, Occurrence::Last),
            Some((_, word)) => return Err(format!("Unknown specifier: {word} (a header has first and last)")),
        };
        let key = format!("{name}:");
        let watch = match is_request {
            true => WatchedValue::ReqHeader(key, which),
            false => WatchedValue::RespHeader(key, which),
        };
        Ok(self.watch(watch, self.missing_text()))
    }

    fn append(&mut self, other: NcsaFormat) {
        let shift = self.watches.len();
        self.watches.extend(other.watches);
        self.items.extend(other.items.into_iter().map(|item| match item {
            Item::Watched(number, missing) => Item::Watched(number + shift, missing),
            item => item,
        }));
    }

    fn watch(&mut self, watch: WatchedValue, missing: &'static str) -> Item {
        self.watches.push(watch);
        Item::Watched(self.watches.len() - 1, missing)
    }

    fn extension(&mut self, name: &str) -> Result<Item, String> {
        Ok(match own_name(name) {
            Some("time_firstbyte") => Item::Field(NcsaField::FirstByte, self.missing_number()),
            Some("hitmiss") => Item::Hitmiss,
            Some("handling") => Item::Handling,
            Some("side") => Item::Side,
            Some("vxid") => Item::Vxid,
            _ => {
                if let Some(key) = name.strip_prefix("VCL_Log:") {
                    self.watch(WatchedValue::VclLog(format!("{key}:")), "")
                } else if let Some(record) = name.strip_prefix("VSL:") {
                    self.record(record)?
                } else {
                    return Err(format!("Unknown formatting extension: {name}"));
                }
            }
        })
    }

    /// Parses the name after `VSL:`, of the form `tag[:prefix][[field]]`.
    fn record(&mut self, text: &str) -> Result<Item, String> {
        if text.is_empty() {
            return Err("Missing tag in VSL:".into());
        }
        let (text, number) = match text.strip_suffix(']') {
            None => (text, 0),
            Some(open) => {
                let (name, number) = open
                    .rsplit_once('[')
                    .filter(|(name, number)| !name.is_empty() && !number.is_empty())
                    .ok_or_else(|| format!("Syntax error: VSL:{text}"))?;
                let n = number.parse::<i64>().map_err(|_| format!("Syntax error: VSL:{text}"))?;
                let n = usize::try_from(n).ok().filter(|n| (1..=255).contains(n));
                let range = || format!("Syntax error. Field specifier must be between 1 and 255: {text}");
                (name, n.ok_or_else(range)?)
            }
        };
        let (name, prefix) = match text.split_once(':') {
            Some((name, prefix)) => (name, Some(format!("{prefix}:"))),
            None => (text, None),
        };
        let tag = names::tag(name).map_err(|error| match error {
            NameError::Ambiguous => format!("Tag not unique: {text}"),
            NameError::None | NameError::Syntax => format!("Unknown log tag: {text}"),
        })?;
        if tag.kind() != TagKind::Plain && !self.json {
            return Err(format!("Tag {} can contain control characters", tag.name()));
        }
        Ok(self.watch(WatchedValue::Record(tag, prefix, number), self.missing_text()))
    }

    pub fn line(&self, fields: &NcsaFields<'_>, out: &mut Vec<u8>) -> bool {
        for item in &self.items {
            match item {
                Item::Text(text) => out.extend(text),
                Item::Field(field, missing) => {
                    quote(out, fields.get(*field).unwrap_or(missing.as_bytes()), self.json);
                }
                Item::Watched(number, missing) => {
                    quote(out, fields.watched(*number).unwrap_or(missing.as_bytes()), self.json);
                }
                Item::Hitmiss => out.extend(fields.hitmiss().bytes()),
                Item::Handling => out.extend(fields.handling().bytes()),
                Item::Side => out.extend(fields.side().bytes()),
                Item::Vxid => out.extend(fields.vxid().to_string().bytes()),
                Item::RequestLine => self.request_line(fields, out),
                Item::User => {
                    let decoded = fields.get(NcsaField::Authorization).and_then(decode_base64);
                    let user = decoded.as_deref().and_then(|d| d.split(|b| matches!(b, b':' | 0)).next());
                    quote(out, user.unwrap_or(b"-"), self.json);
                }
                // Without its beginning a transaction has no line.
                Item::Time(time) => match time_text(time, fields) {
                    Some(text) => out.extend(text.bytes()),
                    None => return false,
                },
            }
        }
        out.push(b'\n');
        true
    }

    fn request_line(&self, fields: &NcsaFields<'_>, out: &mut Vec<u8>) {
        quote(out, fields.get(NcsaField::Method).unwrap_or(b"-"), self.json);
        out.push(b' ');
        let host = fields.get(NcsaField::HostHeader).unwrap_or(b"localhost");
        if !host.starts_with(b"http://") && !host.starts_with(b"https://") {
            quote(out, fields.get(NcsaField::Scheme).unwrap_or(b"http"), self.json);
            out.extend(b"://");
        }
        quote(out, host, self.json);
        quote(out, fields.get(NcsaField::Url).unwrap_or_default(), self.json);
        quote(out, fields.get(NcsaField::Query).unwrap_or_default(), self.json);
        out.push(b' ');
        quote(out, fields.get(NcsaField::Protocol).unwrap_or(b"HTTP/1.0"), self.json);
    }
}

/// The name behind `Varnish:`, or behind `Vinyl:` as Vinyl Cache's vinylncsa has it.
fn own_name(name: &str) -> Option<&str> {
    ["Varnish:", "Vinyl:"].into_iter().find_map(|prefix| name.strip_prefix(prefix))
}

fn seconds(text: Option<&[u8]>) -> Option<f64> {
    std::str::from_utf8(text?).ok()?.parse::<f64>().ok().filter(|s| s.is_finite())
}

fn time_text(time: &Time, fields: &NcsaFields<'_>) -> Option<String> {
    let start = seconds(fields.get(NcsaField::Start))?;
    let took = seconds(fields.get(NcsaField::End)).unwrap_or(start) - start;
    Some(match time {
        Time::Local(format) => sys::localtime::format(format, start.floor() as i64)?,
        Time::Seconds => (start as i64).to_string(),
        Time::Millis => ((start * 1e3) as i64).to_string(),
        Time::Micros => ((start * 1e6) as i64).to_string(),
        Time::MillisFraction => format!("{:03}", (start.fract() * 1e3) as i64),
        Time::MicrosFraction => format!("{:06}", (start.fract() * 1e6) as i64),
        Time::TookSeconds => (took as i64).to_string(),
        Time::TookMillis => ((took * 1e3) as i64).to_string(),
        Time::TookMicros => ((took * 1e6) as i64).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use logq::{BeginReason, Txn, TxnType, record};
    use shm::vsl::{LogFormat, Marker};
    use tables::Tag;

    use super::*;

    fn line(format: &str, records: &[(Tag, &str)]) -> String {
        line_of(LogFormat::Seven, TxnType::Req, format, records)
    }

    fn line_of(release: LogFormat, kind: TxnType, format: &str, records: &[(Tag, &str)]) -> String {
        let format = NcsaFormat::parse(format, false).expect("a format");
        let make = |(tag, text): &(Tag, &str)| record::make_as(release, *tag, 2, Marker::Client, text.as_bytes());
        let bytes: Vec<u8> = records.iter().flat_map(make).collect();
        let txn = Txn { vxid: 2, level: 1, parent: 1, kind, reason: BeginReason::Unknown, records: &bytes };
        let fields = NcsaFields::gather(&txn, &format).expect("a line");
        let mut out = Vec::new();
        assert!(format.line(&fields, &mut out));
        String::from_utf8(out).expect("text")
    }

    /// varnishncsa 7.1 prints the same, except that it never says `https`.
    #[test]
    fn which_of_several_records_counts() {
        const FORMAT: &str = "%m %U%q %H %h %u \"%r\" %s %b %I %O %{us}T %{Varnish:time_firstbyte}x \
                              %{Varnish:handling}x %{Cookie}i %{X}o %{VSL:VCL_Error}x %{VSL:Storage[2]}x";
        let of = |vxid| {
            let all = testkit::recorded::repeated().into_iter().filter(|rec| rec.vxid == vxid);
            let records: Vec<_> = all.map(|rec| (Tag::from_name(rec.tag).expect("a tag"), rec.text)).collect();
            line(FORMAT, &records)
        };
        assert_eq!(
            [of(3), of(4)],
            [
                "GET /asked?q=1 HTTP/1.0 192.0.2.1 a \"GET https://asked.test/asked?q=1 HTTP/1.0\" 200 1000 85 1200 \
                 800000 0.700000 pass b=2 y first -\n",
                "GET /rewritten?utm_source=x HTTP/1.0 192.0.2.11 - \"GET http://rewritten.test/rewritten?utm_source=x \
                 HTTP/1.0\" 200 1000 100 1150 299999 0.100000 - - - - s0\n",
            ]
        );
    }

    #[test]
    fn a_header_is_the_first_or_the_last_of_its_name() {
        let records = [
            (Tag::ReqHeader, "X: 1"),
            (Tag::ReqHeader, "Y: a"),
            (Tag::ReqHeader, "x: 2"),
            (Tag::ReqUnset, "x: 2"),
            (Tag::RespHeader, "Z: 3"),
            (Tag::RespHeader, "Z: 4"),
        ];
        let format = "%{X}i %{X:first}i %{x:last}i %{Y:first}i %{Z}o %{Z:first}o %{Z:last}o %{N:first}i";
        assert_eq!(line(format, &records), "2 1 2 a 4 3 4 -\n");
        let error = NcsaFormat::parse("%{X:second}i", false).expect_err("no such word");
        assert_eq!(error, "Unknown specifier: second (a header has first and last)");
    }

    /// varnishncsa 9.0.2 prints the same.
    #[test]
    fn in_later_logs_the_peer_s_records_count() {
        let client = [
            (Tag::ReqHeader, "X: came"),
            (Tag::VclCall, "RECV"),
            (Tag::ReqUnset, "X: came"),
            (Tag::ReqHeader, "X: changed"),
            (Tag::HitPass, "5 1.0"),
            (Tag::VclCall, "PASS"),
            (Tag::RespHeader, "Y: 1"),
            (Tag::RespHeader, "Z: 1"),
            (Tag::RespUnset, "Y: 1"),
        ];
        let format = "%{X}i %{Y}o %{Z}o %{Varnish:handling}x";
        let of_client = |release| line_of(release, TxnType::Req, format, &client);
        assert_eq!(of_client(LogFormat::Nine), "came - 1 hitpass\n");
        assert_eq!(of_client(LogFormat::Seven), "changed 1 1 pass\n");
        // An absolute target takes the place of Host before vcl_recv.
        let absolute = [(Tag::ReqUnset, "X: a"), (Tag::ReqHeader, "X: b"), (Tag::VclCall, "RECV")];
        let of_absolute = |release| line_of(release, TxnType::Req, "%{X}i %{X:first}i %{X:last}i", &absolute);
        assert_eq!(of_absolute(LogFormat::Nine), "- a b\n");
        assert_eq!(of_absolute(LogFormat::Seven), "b a b\n");
        let fetch = [
            (Tag::BereqProtocol, "HTTP/1.0"),
            (Tag::BereqHeader, "X: came"),
            (Tag::BereqUnset, "X: came"),
            (Tag::BereqProtocol, "HTTP/1.1"),
            (Tag::BereqHeader, "X: sent"),
            (Tag::BerespStatus, "503"),
            (Tag::BerespHeader, "Y: came"),
            (Tag::VclCall, "BACKEND_RESPONSE"),
            (Tag::BerespStatus, "200"),
            (Tag::BerespHeader, "Y: changed"),
        ];
        let of_fetch = |release| line_of(release, TxnType::Bereq, "%H %s %{X}i %{Y}o", &fetch);
        assert_eq!(of_fetch(LogFormat::Eight), "HTTP/1.1 503 sent came\n");
        assert_eq!(of_fetch(LogFormat::Seven), "HTTP/1.0 200 sent changed\n");
    }

    #[test]
    fn the_default_format_is_a_part_of_another() {
        let records = [
            (Tag::Timestamp, "Start: 1.0 0.0 0.0"),
            (Tag::ReqStart, "192.0.2.1 4711 a0"),
            (Tag::ReqMethod, "GET"),
            (Tag::ReqUrl, "/a"),
            (Tag::ReqHeader, "Referer: r"),
            (Tag::ReqHeader, "X: 1"),
        ];
        for name in ["Varnish:default_format", "Vinyl:default_format"] {
            let whole = line(&format!("%{{X}}i %{{{name}}}x %{{X:first}}i"), &records);
            assert_eq!(whole, format!("1 {} 1\n", line(DEFAULT, &records).trim_end()));
        }
    }

    #[test]
    fn a_request_that_came_by_tls_says_https() {
        let request = |start, host| {
            let host = format!("Host: {host}");
            line("%r", &[(Tag::ReqStart, start), (Tag::ReqMethod, "GET"), (Tag::ReqUrl, "/a"), (Tag::ReqHeader, &host)])
        };
        assert_eq!(request("192.0.2.1 4711 a0 https", "a.nz"), "GET https://a.nz/a HTTP/1.0\n");
        assert_eq!(request("192.0.2.1 4711 a0", "a.nz"), "GET http://a.nz/a HTTP/1.0\n");
        assert_eq!(request("192.0.2.1 4711 a0 http", "a.nz"), "GET http://a.nz/a HTTP/1.0\n");
        assert_eq!(request("192.0.2.1 4711 a0", "https://a.nz"), "GET https://a.nz/a HTTP/1.0\n");
        let bare = line("%r", &[(Tag::ReqStart, "192.0.2.1 4711 a0 https"), (Tag::ReqMethod, "GET")]);
        assert_eq!(bare, "GET https://localhost HTTP/1.0\n");
    }
}
