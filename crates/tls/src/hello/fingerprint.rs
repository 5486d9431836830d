// SPDX-License-Identifier: BSD-2-Clause
//! What a ClientHello tells of the program that sent it: JA3, a text of its numbers in their order, and JA4, whose parts are sorted, since
//! browsers shuffle their extensions.

use std::fmt::Write;

use md5::Digest;
use ring::digest::{SHA256, digest};

use super::{ClientHello, extension, is_grease};

/// A JA3 text may have so many bytes; a client whose hello makes a longer one is none that a list knows, and has none.
const MAX_JA3_BYTES: usize = 4096;

/// A client's fingerprints. They say which program it may be, never who it is: anybody can send the hello of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    ja3: Option<Box<str>>,
    ja4: Box<str>,
}

impl Fingerprint {
    /// Of a hello that came by TCP; JA3 only if it is wanted.
    pub fn new(hello: &ClientHello<'_>, with_ja3: bool) -> Self {
        Fingerprint { ja3: with_ja3.then(|| ja3(hello)).flatten(), ja4: ja4(hello).into_boxed_str() }
    }

    /// `version,ciphers,extensions,groups,point formats` in decimal, without GREASE. The version is the hello's own: 771, unless it
    /// comes from a client of before TLS 1.2.
    pub fn ja3(&self) -> Option<&str> {
        self.ja3.as_deref()
    }

    /// As lists of fingerprints have it: MD5 of [`Self::ja3`] in hex.
    pub fn ja3_hash(&self) -> Option<String> {
        self.ja3().map(|text| hex(&md5::Md5::digest(text.as_bytes())))
    }

    /// `t13d1516h2_8daaf6152771_e5627efa2ab1`: version, server name, counts and protocol; the hash of the sorted ciphers; that of
    /// the sorted extensions with the signature algorithms.
    pub fn ja4(&self) -> &str {
        &self.ja4
    }
}

fn ja3(hello: &ClientHello<'_>) -> Option<Box<str>> {
    let mut text = hello.version().to_string();
    let formats = hello.extension(extension::EC_POINT_FORMATS).and_then(|body| body.split_first());
    push_decimal(&mut text, hello.ciphers().filter(|number| !is_grease(*number)))?;
    push_decimal(&mut text, hello.extensions().map(|(kind, _)| kind).filter(|number| !is_grease(*number)))?;
    push_decimal(&mut text, hello.numbers_of(extension::SUPPORTED_GROUPS).filter(|number| !is_grease(*number)))?;
    push_decimal(&mut text, formats.map_or(&[][..], |(_, formats)| formats).iter().map(|format| u16::from(*format)))?;
    Some(text.into_boxed_str())
}

/// `,` and the numbers with `-` between them; nothing if they are too many.
fn push_decimal(text: &mut String, numbers: impl Iterator<Item = u16>) -> Option<()> {
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

fn ja4(hello: &ClientHello<'_>) -> String {
    let mut ciphers: Vec<u16> = hello.ciphers().filter(|number| !is_grease(*number)).collect();
    let mut extensions: Vec<u16> =
        hello.extensions().map(|(kind, _)| kind).filter(|number| !is_grease(*number)).collect();
    let mut text = format!(
        "t{}{}{:02}{:02}",
        version_name(hello.newest_version()),
        if hello.server_name().is_some() { 'd' } else { 'i' },
        ciphers.len().min(99),
        extensions.len().min(99)
    );
    text.extend(protocol_ends(hello.alpn().next().unwrap_or_default()));
    ciphers.sort_unstable();
    push_hash(&mut text, &hex_list(ciphers));
    extensions.retain(|kind| ![extension::SERVER_NAME, extension::ALPN].contains(kind));
    extensions.sort_unstable();
    let mut list = hex_list(extensions);
    let schemes = hex_list(hello.numbers_of(extension::SIGNATURE_ALGORITHMS).filter(|number| !is_grease(*number)));
    if !list.is_empty() && !schemes.is_empty() {
        list.push('_');
        list.push_str(&schemes);
    }
    push_hash(&mut text, &list);
    text
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
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    [digit(first >> 4), digit(last & 0x0f)]
}

fn hex_list(numbers: impl IntoIterator<Item = u16>) -> String {
    let mut list = String::new();
    for number in numbers {
        let _ = write!(list, "{}{number:04x}", if list.is_empty() { "" } else { "," });
    }
    list
}

/// `_` and the first 12 digits of the list's SHA-256; zeros stand for an empty list.
fn push_hash(text: &mut String, list: &str) {
    text.push('_');
    match list {
        "" => text.push_str("000000000000"),
        list => text.push_str(&hex(&digest(&SHA256, list.as_bytes()).as_ref()[..6])),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
