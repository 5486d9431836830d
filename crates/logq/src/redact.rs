// SPDX-License-Identifier: BSD-2-Clause
//! What is never shown unless it was asked for by name: cookies, credentials, and where VCL has put them elsewhere.
//!
//! It is taken out of records before anything looks at them, filters included: a filter can't be used to guess what is hidden. What a
//! client asks for (method, URL, Host) stays as it is: nobody hides that by a cookie of the same words.

use memchr::memmem;
use tables::Tag;

use crate::Txn;
use crate::record::{self, Rec, make_as, value_of, word};

const HIDDEN: [&str; 26] = [
    "authorization",
    "proxy-authorization",
    "authentication-info",
    "proxy-authentication-info",
    "cookie",
    "cookie2",
    "set-cookie",
    "set-cookie2",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-amz-security-token",
    "x-vault-token",
    "x-access-token",
    "x-id-token",
    "x-refresh-token",
    "x-session-token",
    "x-xsrf-token",
    "private-token",
    "job-token",
    "deploy-token",
    "x-gitlab-token",
    "x-token",
    "x-auth-key",
    "x-goog-iap-jwt-assertion",
];
pub const MARK: &[u8] = b"(hidden)";
/// Shorter values aren't looked for elsewhere: they would blot out ordinary words.
const SHORTEST: usize = 6;
const MOST_VALUES: usize = 64;

#[derive(Debug)]
pub struct Clean(Vec<(Txn<'static>, Vec<u8>)>);

impl Clean {
    pub fn view(&self) -> Vec<Txn<'_>> {
        self.0.iter().map(|(head, records)| Txn { records, ..*head }).collect()
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Redaction {
    names: Vec<&'static str>,
}

impl Redaction {
    pub fn new(shown: &[String]) -> Redaction {
        let is_shown = |name: &str| shown.iter().any(|s| s.eq_ignore_ascii_case(name));
        Redaction { names: HIDDEN.into_iter().filter(|name| !is_shown(name)).collect() }
    }

    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The values to be hidden in these records, wherever they appear.
    pub fn secrets(&self, records: &[u8], into: &mut Vec<Vec<u8>>) {
        for rec in record::records(records).filter(|rec| is_field(rec.tag)) {
            let Some(value) = self.hidden_value(rec.text()) else { continue };
            for part in parts(rec.text(), value) {
                if part.len() >= SHORTEST && into.len() < MOST_VALUES && !into.iter().any(|known| known == part) {
                    into.push(part.to_vec());
                }
            }
        }
    }

    pub fn group(&self, group: &[Txn<'_>]) -> Clean {
        let mut secrets = Vec::new();
        group.iter().for_each(|txn| self.secrets(txn.records, &mut secrets));
        let head = |txn: &Txn<'_>| {
            let Txn { vxid, level, parent, kind, reason, .. } = *txn;
            Txn { vxid, level, parent, kind, reason, records: &[] as &'static [u8] }
        };
        Clean(group.iter().map(|txn| (head(txn), self.apply(txn.records, &secrets))).collect())
    }

    /// The records without them. `secrets` are those of all that belongs together.
    pub fn apply(&self, records: &[u8], secrets: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(records.len());
        // A client's request as it came, before VCL has its say.
        let mut is_clients = false;
        for rec in record::records(records) {
            match rec.tag {
                Tag::Begin => is_clients = word(rec.text(), 2) == b"rxreq",
                Tag::VclCall => is_clients = false,
                _ => {}
            }
            let is_asked = is_clients && is_what_is_asked(&rec);
            match self.without(&rec, if is_asked || is_ours(rec.tag) { &[] } else { secrets }) {
                Some(text) => out.extend(make_as(rec.format, rec.tag, rec.vxid, rec.marker, &text)),
                None => out.extend(rec.bytes),
            }
        }
        out
    }

    /// The text of a record without what is hidden; None: it has nothing of that.
    fn without(&self, rec: &Rec<'_>, secrets: &[Vec<u8>]) -> Option<Vec<u8>> {
        let text = rec.text();
        if is_field(rec.tag)
            && let Some(value) = self.hidden_value(text)
        {
            let name = &text[..text.len().saturating_sub(value.len())];
            let name = name.split_inclusive(|b| *b == b':').next().unwrap_or(name);
            return Some([name, b" ", MARK].concat());
        }
        if is_raw(rec.tag) && !self.names.is_empty() {
            return Some(MARK.to_vec());
        }
        let mut out = match rec.tag {
            Tag::Notice => self.without_varied(text),
            _ => None,
        };
        for secret in secrets {
            let now = out.as_deref().unwrap_or(text);
            if let Some(cleaned) = replace(now, secret) {
                out = Some(cleaned);
            }
        }
        out
    }

    /// Hides values in the reason why a variant was none, which quotes the field of two requests: `vary: Cookie: "a"
    /// here, "b" there`.
    fn without_varied(&self, text: &[u8]) -> Option<Vec<u8>> {
        const VARY: &[u8] = b"vary: ";
        let at = text.windows(VARY.len()).position(|window| window == VARY)? + VARY.len();
        let name = self.names.iter().find(|name| value_of(&text[at..], name.as_bytes()).is_some())?;
        Some([&text[..at + name.len()], b": ", MARK].concat())
    }

    /// A text for people, without the values of hidden fields: in each line, from the name of one of them on.
    pub fn clean_text(&self, text: &str) -> String {
        let clean = |line: &str| {
            let lower = line.to_ascii_lowercase();
            let found =
                self.names.iter().filter_map(|name| Some(lower.find(&format!("{name}: "))? + name.len() + 2)).min();
            match found {
                Some(at) => format!("{}{}", &line[..at], String::from_utf8_lossy(MARK)),
                None => line.to_owned(),
            }
        };
        text.lines().map(clean).collect::<Vec<_>>().join("\n")
    }

    fn hidden_value<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        self.names.iter().find_map(|name| value_of(line, name.as_bytes()))
    }
}

fn is_field(tag: Tag) -> bool {
    use Tag::*;
    matches!(
        tag,
        ReqHeader
            | ReqUnset
            | ReqLost
            | RespHeader
            | RespUnset
            | RespLost
            | BereqHeader
            | BereqUnset
            | BereqLost
            | BerespHeader
            | BerespUnset
            | BerespLost
            | ObjHeader
            | ObjUnset
            | ObjLost
            | LostHeader
    )
}

/// True if a record is in our own words alone: no value of a field can have come into it.
fn is_ours(tag: Tag) -> bool {
    use Tag::*;
    matches!(
        tag,
        Begin
            | End
            | Link
            | Timestamp
            | SessOpen
            | SessClose
            | ReqStart
            | ReqAcct
            | BereqAcct
            | PipeAcct
            | BackendOpen
            | BackendClose
            | VclUse
            | VclCall
            | VclReturn
            | RespStatus
            | BerespStatus
            | ObjStatus
            | Hit
            | HitMiss
            | HitPass
            | Ttl
            | Length
            | Storage
            | FetchBody
    )
}

/// True if the record says what a client asks for, which the client says openly.
fn is_what_is_asked(rec: &Rec<'_>) -> bool {
    match rec.tag {
        Tag::ReqMethod | Tag::ReqUrl => true,
        Tag::ReqHeader => value_of(rec.text(), b"host").is_some(),
        _ => false,
    }
}

/// True if a record has bytes of the connection as they came, or texts that may hold any field.
fn is_raw(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::HttpGarbage | Tag::BogoHeader | Tag::H2RxHdr | Tag::H2RxBody | Tag::H2TxHdr | Tag::H2TxBody | Tag::Hash
    )
}

/// The part of a value that is a secret by itself: the credentials after their scheme, the values of cookies. Of a
/// cookie that is set the rest are attributes: domains, dates.
fn parts<'a>(line: &[u8], value: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let is_set = line.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"set"));
    let end = value.iter().position(|b| *b == b';').filter(|_| is_set).unwrap_or(value.len());
    let words = value[..end].split(|b| b" ;,".contains(b)).map(|word| match word.iter().position(|b| *b == b'=') {
        // A name and its value; what ends with `=` is padding.
        Some(at) if at + 1 < word.len() && !word[at..].iter().all(|b| *b == b'=') => &word[at + 1..],
        _ => word,
    });
    std::iter::once(value).chain(words)
}

fn replace(text: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let mut found = memmem::find_iter(text, secret).peekable();
    found.peek()?;
    let (mut out, mut done) = (Vec::new(), 0);
    for at in found {
        out.extend(&text[done..at]);
        out.extend(MARK);
        done = at + secret.len();
    }
    out.extend(&text[done..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shm::vsl::Marker;

    use super::*;
    use crate::record::make;

    fn shown(hidden: &Redaction, records: &[(Tag, &str)]) -> Vec<String> {
        let bytes: Vec<u8> =
            records.iter().flat_map(|(tag, text)| make(*tag, 1, Marker::Client, text.as_bytes())).collect();
        let mut secrets = Vec::new();
        hidden.secrets(&bytes, &mut secrets);
        let out = hidden.apply(&bytes, &secrets);
        record::records(&out).map(|rec| String::from_utf8_lossy(rec.text()).into_owned()).collect()
    }

    #[test]
    fn nothing_but_cookies_and_credentials_is_hidden_in_what_servers_wrote() {
        for records in [testkit::recorded::lacquer(), testkit::recorded::varnish()] {
            let bytes = testkit::recorded::log(&records, |name| Tag::from_name(name).expect("a tag").number());
            let (hidden, mut secrets) = (Redaction::new(&[]), Vec::new());
            hidden.secrets(&bytes, &mut secrets);
            let out = hidden.apply(&bytes, &secrets);
            let text = |rec: &Rec<'_>| String::from_utf8_lossy(rec.text()).into_owned();
            let (before, after): (Vec<_>, Vec<_>) =
                (record::records(&bytes).collect(), record::records(&out).collect());
            assert_eq!((before.len(), after.len()), (records.len(), records.len()));
            let mut hidden_of_request = 0;
            // Whatever isn't HTTP may be anything.
            for (was, is) in before.iter().zip(&after).filter(|(was, _)| was.tag != Tag::HttpGarbage) {
                let (was, is) = (text(was), text(is));
                assert!(!is.contains("0123456789") && !is.contains("dTpw"), "{is}");
                match was.split_once(": ") {
                    Some((name @ ("Cookie" | "Set-Cookie" | "cookie" | "set-cookie" | "Authorization"), _)) => {
                        assert_eq!(is, format!("{name}: (hidden)"));
                        hidden_of_request += usize::from(was.ends_with("0123456789"));
                    }
                    _ => assert_eq!(was, is),
                }
            }
            assert!(hidden_of_request > 0);
        }
    }

    #[test]
    fn cookies_and_credentials_are_hidden_wherever_vcl_puts_them() {
        let hidden = Redaction::new(&[]);
        let got = shown(
            &hidden,
            &[
                (Tag::ReqHeader, "Cookie: sid=0123456789abcdef; lang=de"),
                (Tag::ReqHeader, "authorization: Bearer s3cr3tt0ken=="),
                (Tag::ReqHeader, "X-User: 0123456789abcdef"),
                (Tag::VclLog, "who: s3cr3tt0ken== and s3cr3tt0ken=="),
                (Tag::RespHeader, "Set-Cookie: a=zzzzzzzz; Path=/"),
                (Tag::HttpGarbage, "GET / HTTP/1.1%0d%0aCookie: x"),
                (Tag::ReqUrl, "/lang/de"),
            ],
        );
        assert_eq!(
            got,
            [
                "Cookie: (hidden)",
                "authorization: (hidden)",
                "X-User: (hidden)",
                "who: (hidden) and (hidden)",
                "Set-Cookie: (hidden)",
                "(hidden)",
                "/lang/de"
            ]
        );
    }

    #[test]
    fn what_is_asked_for_and_our_own_words_stay() {
        let hidden = Redaction::new(&[]);
        let records = [
            (Tag::Begin, "req 1 rxreq"),
            (Tag::ReqStart, "192.0.2.100 4711 a0 http"),
            (Tag::ReqUrl, "/secret-path"),
            (Tag::ReqHeader, "Host: www.example.com"),
            (Tag::ReqHeader, "Cookie: a=/secret-path; b=www.example.com; c=192.0.2.100; d=default"),
            (Tag::VclCall, "RECV"),
            (Tag::ReqUrl, "/x?/secret-path"),
            (Tag::BackendOpen, "24 default 127.0.0.1 80 127.0.0.1 4711 connect"),
            (Tag::RespHeader, "Set-Cookie: s=0123456; Domain=www.shop.test; Max-Age=31536000"),
            (Tag::RespHeader, "X: www.shop.test 31536000 0123456"),
        ];
        assert_eq!(
            shown(&hidden, &records),
            [
                "req 1 rxreq",
                "192.0.2.100 4711 a0 http",
                "/secret-path",
                "Host: www.example.com",
                "Cookie: (hidden)",
                "RECV",
                "/x?(hidden)",
                "24 default 127.0.0.1 80 127.0.0.1 4711 connect",
                "Set-Cookie: (hidden)",
                "X: www.shop.test 31536000 (hidden)",
            ]
        );
    }

    #[test]
    fn fields_of_other_requests_are_hidden_too() {
        let hidden = Redaction::new(&[]);
        let notice = "lacquer: no hit: vary: Cookie: \"sid=0123456789\" here, \"sid=9876543210\" there";
        assert_eq!(shown(&hidden, &[(Tag::Notice, notice)]), ["lacquer: no hit: vary: Cookie: (hidden)"]);
        assert_eq!(shown(&hidden, &[(Tag::Notice, "vary: X-A: \"1\" here")]), ["vary: X-A: \"1\" here"]);
        assert_eq!(
            hidden.clean_text("miss\n no variant: Cookie: \"x\" here\nend"),
            "miss\n no variant: Cookie: (hidden)\nend"
        );
    }

    #[test]
    fn who_asks_by_name_sees_it() {
        let hidden = Redaction::new(&["Cookie".to_owned()]);
        let got = shown(
            &hidden,
            &[(Tag::ReqHeader, "Cookie: sid=0123456789"), (Tag::ReqHeader, "Authorization: Basic YTpi")],
        );
        assert_eq!(got, ["Cookie: sid=0123456789", "Authorization: (hidden)"]);
    }

    proptest! {
        #[test]
        fn no_value_of_a_cookie_is_left(value in "[a-z0-9]{6,40}", before in "[a-z /]{0,20}", name in "[Cc]ookie|[aA]UTHORIZATION|[sS]et-Cookie") {
            let field = format!("{name}: k={value}");
            let other = format!("X: {before}{value}");
            let got = shown(&Redaction::new(&[]), &[(Tag::ReqHeader, &field), (Tag::RespHeader, &other), (Tag::VclLog, &value)]);
            prop_assert!(got.iter().all(|text| !text.contains(&value)), "{:?}", got);
        }
    }
}
