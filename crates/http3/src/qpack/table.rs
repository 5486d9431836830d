// SPDX-License-Identifier: BSD-2-Clause
//! The static table (RFC 9204 appendix A).

pub(super) const TABLE: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Whole(usize),
    Name(usize),
    Nothing,
}

/// The longest name in the table.
pub(super) const MAX_NAME: usize = 32;

/// Entries in an order by name, so that those with a name of one length and first byte are few.
static BY_NAME: [&[u8]; MAX_NAME + 1] = by_length();

const fn count(len: usize) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < TABLE.len() {
        if TABLE[i].0.len() == len {
            n += 1;
        }
        i += 1;
    }
    n
}

const fn of_length<const N: usize>(len: usize) -> [u8; N] {
    let (mut out, mut n, mut i) = ([0; N], 0, 0);
    while i < TABLE.len() {
        if TABLE[i].0.len() == len {
            out[n] = i as u8;
            n += 1;
        }
        i += 1;
    }
    out
}

const fn by_length() -> [&'static [u8]; MAX_NAME + 1] {
    macro_rules! of {
        ($($len:literal)*) => { [$(&const { of_length::<{ count($len) }>($len) }),*] };
    }
    of!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

pub(super) fn find(name: &[u8], value: &[u8]) -> Found {
    let mut found = Found::Nothing;
    for &index in BY_NAME.get(name.len()).copied().unwrap_or_default() {
        let (its_name, its_value) = TABLE[usize::from(index)];
        if its_name.as_bytes() != name {
            continue;
        }
        if its_value.as_bytes() == value {
            return Found::Whole(index.into());
        }
        if found == Found::Nothing {
            found = Found::Name(index.into());
        }
    }
    found
}
