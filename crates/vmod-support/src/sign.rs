// SPDX-License-Identifier: BSD-2-Clause
//! AWS Signature Version 4 for S3 (header form), and Google's with its own words.

use std::collections::BTreeMap;
use std::fmt::Write;

use backend::OutgoingRequest;
use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// An access key of an account.
pub struct AccessKey {
    /// The secret that signs.
    pub secret: Vec<u8>,
    /// The provider's name for the key.
    pub id: String,
}

/// The provider whose rules are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// The rules of Amazon.
    Aws,
    /// The rules of Google.
    Gcp,
}

impl Provider {
    /// The names of the algorithm and the key; of the last key; of the fields.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Provider::Aws => ("AWS4", "aws4_request", "x-amz-"),
            Provider::Gcp => ("GOOG4", "goog4_request", "x-goog-"),
        }
    }
}

/// The scope that a signature is good for.
pub struct SigningScope<'a> {
    /// The region of the service.
    pub region: &'a str,
    /// The kind of service.
    pub service: &'a str,
    /// The provider whose rules hold.
    pub provider: Provider,
}

/// The part of the body that is signed.
pub enum Payload {
    /// The body's SHA-256 in hex.
    Hash(String),
    /// The body isn't signed.
    Unsigned,
}

impl Payload {
    /// The hash of a body in pieces.
    pub fn from_pieces(pieces: &[&[u8]]) -> Payload {
        let mut hash = Sha256::new();
        pieces.iter().for_each(|piece| hash.update(piece));
        Payload::Hash(hex::encode(&hash.finalize()))
    }

    fn text(&self) -> &str {
        match self {
            Payload::Hash(hash) => hash,
            Payload::Unsigned => "UNSIGNED-PAYLOAD",
        }
    }
}

/// The fields that a signed request gets. `also` says which are signed beside host and the provider's own.
pub fn fields(
    request: &OutgoingRequest<'_>,
    key: &AccessKey,
    scope: &SigningScope<'_>,
    payload: &Payload,
    also: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<(String, String)>, String> {
    let (brand, last, prefix) = scope.provider.words();
    let time = timestamp(request.now);
    let own = [(format!("{prefix}content-sha256"), payload.text().to_owned()), (format!("{prefix}date"), time.clone())];
    // By name; several of one name are one with commas.
    let mut signed: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &request.fields {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let is_signed = name == "host" || name.starts_with(prefix) || also(name.as_bytes());
        if !is_signed || name == "authorization" || own.iter().any(|(other, _)| *other == name) {
            continue;
        }
        let value = String::from_utf8_lossy(value).split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        signed.entry(name).and_modify(|old| *old = format!("{old},{value}")).or_insert(value);
    }
    if !signed.contains_key("host") {
        return Err("there is no Host to sign".to_owned());
    }
    signed.extend(own.iter().cloned());
    let names = signed.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let (path, query) = canonical(request.url);
    let method = String::from_utf8_lossy(request.method);
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{}", payload.text());
    let day = &time[..8];
    let credential = format!("{day}/{}/{}/{last}", scope.region, scope.service);
    let hash = hex::encode(&Sha256::digest(canonical.as_bytes()));
    let to_sign = format!("{brand}-HMAC-SHA256\n{time}\n{credential}\n{hash}");
    let mut derived = [brand.as_bytes(), &key.secret].concat();
    for part in [day, scope.region, scope.service, last] {
        derived = hmac(&derived, part);
    }
    let signature = hex::encode(&hmac(&derived, &to_sign));
    let authorization =
        format!("{brand}-HMAC-SHA256 Credential={}/{credential}, SignedHeaders={names}, Signature={signature}", key.id);
    let mut all: Vec<_> = own.into();
    all.push(("Authorization".to_owned(), authorization));
    Ok(all)
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The time, like `20130524T000000Z`.
fn timestamp(now: base::Real) -> String {
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let date = message::date::format(now);
    let date = String::from_utf8_lossy(&date);
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(&date[8..11]).map_or(0, |at| at / 3 + 1);
    format!("{}{month:02}{}T{}Z", &date[12..16], &date[5..7], date[17..25].replace(':', ""))
}

/// Path and query as they are signed: decoded, and encoded in one way.
fn canonical(url: &[u8]) -> (String, String) {
    let (path, query) = match url.iter().position(|byte| *byte == b'?') {
        Some(at) => (&url[..at], &url[at + 1..]),
        None => (url, &b""[..]),
    };
    let mut pairs: Vec<(String, String)> = query
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = at.map_or((pair, &b""[..]), |at| (&pair[..at], &pair[at + 1..]));
            (encoded(&decoded(name, true), b""), encoded(&decoded(value, true), b""))
        })
        .collect();
    pairs.sort();
    let query: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let path = encoded(&decoded(path, false), b"/");
    (if path.is_empty() { "/".to_owned() } else { path }, query.join("&"))
}

fn decoded(text: &[u8], is_query: bool) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (text[at], digit(at + 1).zip(digit(at + 2))) {
            (b'%', Some((high, low))) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', _) if is_query => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

fn encoded(text: &[u8], also: &[u8]) -> String {
    text.iter().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || also.contains(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use backend::OutgoingBody;
    use proptest::prelude::*;

    use super::*;

    /// 24 May 2013, 0:00: what Amazon's examples are signed at.
    const NOW: base::Real = base::Real(1_369_353_600.0);

    fn sign(method: &str, url: &str, fields: &[(&str, &str)], payload: &Payload, also: &str) -> String {
        let request = OutgoingRequest {
            method: method.as_bytes(),
            url: url.as_bytes(),
            fields: fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect(),
            body: OutgoingBody::None,
            now: NOW,
        };
        let key = AccessKey {
            secret: b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_vec(),
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        };
        let scope = SigningScope { region: "us-east-1", service: "s3", provider: Provider::Aws };
        let fields = super::fields(&request, &key, &scope, payload, &|name| also.as_bytes() == name).expect("a Host");
        assert_eq!(fields[1], ("x-amz-date".to_owned(), "20130524T000000Z".to_owned()));
        fields[2].1.clone()
    }

    /// Amazon S3's documentation, "Authenticating Requests: Using the Authorization Header", examples.
    #[test]
    fn amazons_examples() {
        let host = ("Host", "examplebucket.s3.amazonaws.com");
        let none = Payload::from_pieces(&[]);
        let start =
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=";
        assert_eq!(
            sign("GET", "/test.txt", &[host, ("Range", "bytes=0-9")], &none, "range"),
            format!(
                "{start}host;range;x-amz-content-sha256;x-amz-date, \
                 Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
            )
        );
        assert_eq!(
            sign("GET", "/?lifecycle", &[host], &none, ""),
            format!(
                "{start}host;x-amz-content-sha256;x-amz-date, \
                 Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
            )
        );
        assert_eq!(
            sign("GET", "/?max-keys=2&prefix=J", &[host], &none, ""),
            format!(
                "{start}host;x-amz-content-sha256;x-amz-date, \
                 Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
            )
        );
        let fields = [host, ("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        assert_eq!(
            sign("PUT", "/test$file.text", &fields, &Payload::from_pieces(&[b"Welcome to ", b"Amazon S3."]), "date"),
            format!(
                "{start}date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, \
                 Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
            )
        );
    }

    #[test]
    fn one_form_of_a_url() {
        let show = |url: &str| canonical(url.as_bytes());
        assert_eq!(show("/a%2fb/%7Ec$?b=2&a=%31&a=&c"), ("/a/b/~c%24".into(), "a=&a=1&b=2&c=".into()));
        assert_eq!(show("?x=a+b%2"), ("/".into(), "x=a%20b%252".into()));
    }

    proptest! {
        #[test]
        fn any_request(url in proptest::collection::vec(any::<u8>(), 0..40), value in proptest::collection::vec(any::<u8>(), 0..20)) {
            let request = OutgoingRequest { method: b"GET", url: &url, fields: vec![(b"Host", &value), (b"X-Amz-A", &value)], body: OutgoingBody::None, now: NOW };
            let key = AccessKey { secret: value.clone(), id: "i".to_owned() };
            let scope = SigningScope { region: "r", service: "s3", provider: Provider::Gcp };
            let signed = fields(&request, &key, &scope, &Payload::Unsigned, &|_| false).expect("a Host");
            prop_assert!(signed.iter().all(|(_, value)| value.bytes().all(|byte| (b' '..0x7f).contains(&byte))));
            let (path, query) = canonical(&url);
            let again = canonical(format!("{path}?{query}").as_bytes());
            prop_assert_eq!(again, (path, query));
        }
    }
}
