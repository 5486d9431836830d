// SPDX-License-Identifier: BSD-2-Clause
//! What a ClientHello tells of the program that sent it: JA3, a text of its numbers in their order, and JA4, whose parts are sorted, since
//! browsers shuffle their extensions.
//!
//! Anybody can send a hello, and texts and hashes cost more than the rest of reading it: they are made once the handshake is done, of
//! the numbers that are kept until then ([`HelloOutline`]).

use std::fmt::Write;

use base::hex;
use md5::Digest;
use ring::digest::{SHA256, digest};

use super::{ClientHello, extension, is_grease};

/// A JA3 text may have so many bytes; a client whose hello makes a longer one is none that a list knows, and has none.
const MAX_JA3_BYTES: usize = 4096;

/// The numbers of a hello without GREASE, as it had them: less than the hello itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloOutline {
    version: u16,
    newest_version: u16,
    has_name: bool,
    pub(crate) takes_compressed_certificates: bool,
    protocol: [char; 2],
    /// All lists, one behind the other.
    numbers: Box<[u16]>,
    /// Start of each list, and the end of the last one.
    bounds: [usize; LISTS + 1],
}

/// Lists of an [`HelloOutline`], in their order.
const LISTS: usize = 5;
const CIPHERS: usize = 0;
const EXTENSIONS: usize = 1;
const GROUPS: usize = 2;
const SCHEMES: usize = 3;
const POINT_FORMATS: usize = 4;

impl HelloOutline {
    pub fn new(hello: &ClientHello<'_>) -> Self {
        let (mut numbers, mut bounds) = (Vec::new(), [0; LISTS + 1]);
        let meant = |number: &u16| !is_grease(*number);
        for list in 0..LISTS {
            match list {
                CIPHERS => numbers.extend(hello.ciphers().filter(meant)),
                EXTENSIONS => numbers.extend(hello.extensions().map(|(kind, _)| kind).filter(meant)),
                GROUPS => numbers.extend(hello.numbers_of(extension::SUPPORTED_GROUPS).filter(meant)),
                SCHEMES => numbers.extend(hello.numbers_of(extension::SIGNATURE_ALGORITHMS).filter(meant)),
                _ => numbers.extend(hello.point_formats().iter().map(|format| u16::from(*format))),
            }
            bounds[list + 1] = numbers.len();
        }
        HelloOutline {
            version: hello.version(),
            newest_version: hello.newest_version(),
            has_name: hello.server_name().is_some(),
            takes_compressed_certificates: hello.takes_compressed_certificates(),
            protocol: protocol_ends(hello.alpn().next().unwrap_or_default()),
            numbers: numbers.into(),
            bounds,
        }
    }

    fn list(&self, number: usize) -> &[u16] {
        &self.numbers[self.bounds[number]..self.bounds[number + 1]]
    }
}

/// A client's fingerprints. They say which program it may be, never who it is: anybody can send the hello of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    ja3: Option<Box<str>>,
    ja4: Box<str>,
}

impl Fingerprint {
    /// The fingerprints of the program that sent such a hello; JA3 only if it is wanted.
    pub fn new(hello: &HelloOutline, with_ja3: bool) -> Self {
        Fingerprint { ja3: with_ja3.then(|| ja3(hello)).flatten(), ja4: ja4(hello).into_boxed_str() }
    }

    /// `version,ciphers,extensions,groups,point formats` in decimal, without GREASE. The version is the hello's own: 771, unless it
    /// comes from a client of before TLS 1.2.
    pub fn ja3(&self) -> Option<&str> {
        self.ja3.as_deref()
    }

    /// JA3 as lists of fingerprints have it: MD5 of [`Self::ja3`] in hex.
    pub fn ja3_hash(&self) -> Option<String> {
        self.ja3().map(|text| hex::encode(&md5::Md5::digest(text.as_bytes())))
    }

    /// `t13d1516h2_8daaf6152771_e5627efa2ab1`: version, server name, counts and protocol; the hash of the sorted ciphers; that of
    /// the sorted extensions with the signature algorithms.
    pub fn ja4(&self) -> &str {
        &self.ja4
    }
}

fn ja3(hello: &HelloOutline) -> Option<Box<str>> {
    let mut text = hello.version.to_string();
    for list in [CIPHERS, EXTENSIONS, GROUPS, POINT_FORMATS] {
        push_decimal(&mut text, hello.list(list))?;
    }
    Some(text.into_boxed_str())
}

/// `,` and the numbers with `-` between them; nothing if they are too many.
fn push_decimal(text: &mut String, numbers: &[u16]) -> Option<()> {
    let mut separator = ',';
    for number in numbers {
        let _ = write!(text, "{separator}{number}");
        separator = '-';
        if text.len() > MAX_JA3_BYTES {
            return None;
        }
    }
    if separator == ',' {
        text.push(',');
    }
    Some(())
}

fn ja4(hello: &HelloOutline) -> String {
    let (ciphers, extensions) = (hello.list(CIPHERS), hello.list(EXTENSIONS));
    let mut text = String::with_capacity(JA4_BYTES);
    text.push(if extensions.contains(&extension::QUIC_TRANSPORT_PARAMETERS) { 'q' } else { 't' });
    text.push_str(version_name(hello.newest_version));
    text.push(if hello.has_name { 'd' } else { 'i' });
    push_count(&mut text, ciphers.len());
    push_count(&mut text, extensions.len());
    text.extend(hello.protocol);
    push_hash(&mut text, &hex_list(&sorted(ciphers, |_| true)));
    let is_listed = |kind: u16| ![extension::SERVER_NAME, extension::ALPN].contains(&kind);
    let mut list = hex_list(&sorted(extensions, is_listed));
    let schemes = hello.list(SCHEMES);
    if !list.is_empty() && !schemes.is_empty() {
        list.push('_');
        list.push_str(&hex_list(schemes));
    }
    push_hash(&mut text, &list);
    text
}

const JA4_BYTES: usize = 36;

fn sorted(numbers: &[u16], is_listed: impl Fn(u16) -> bool) -> Vec<u16> {
    let mut list: Vec<u16> = numbers.iter().copied().filter(|number| is_listed(*number)).collect();
    list.sort_unstable();
    list
}

/// Two digits: nobody has a hundred.
fn push_count(text: &mut String, count: usize) {
    let count = count.min(99) as u32;
    text.extend([count / 10, count % 10].map(|digit| char::from_digit(digit, 10).unwrap_or('0')));
}

fn version_name(version: u16) -> &'static str {
    match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        _ => "00",
    }
}

/// First and last character of a protocol's name, or of its bytes in hex if one of the two is neither letter nor digit.
fn protocol_ends(name: &[u8]) -> [char; 2] {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return ['0', '0'] };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [first.into(), last.into()];
    }
    [hex::DIGITS[usize::from(first >> 4)].into(), hex::DIGITS[usize::from(last & 0x0f)].into()]
}

fn hex_list(numbers: &[u16]) -> String {
    let mut list = String::with_capacity(numbers.len() * "0000,".len());
    for number in numbers {
        if !list.is_empty() {
            list.push(',');
        }
        hex::push(&mut list, &number.to_be_bytes());
    }
    list
}

/// `_` and the first 12 digits of the list's SHA-256; zeros stand for an empty list.
fn push_hash(text: &mut String, list: &str) {
    text.push('_');
    match list {
        "" => text.push_str("000000000000"),
        list => hex::push(text, &digest(&SHA256, list.as_bytes()).as_ref()[..6]),
    }
}
