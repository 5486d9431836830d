// SPDX-License-Identifier: BSD-2-Clause
//! Keys in PEM (RFC 7468), and as much of X.509's key structures (RFC 5280 section 4.1) as it takes to get at them.

use crate::blob::codec::Code;

/// What a PEM text says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    Public,
    RsaPublic,
    Private,
    RsaPrivate,
}

const LABELS: [(&str, Label); 4] = [
    ("PUBLIC KEY", Label::Public),
    ("RSA PUBLIC KEY", Label::RsaPublic),
    ("PRIVATE KEY", Label::Private),
    ("RSA PRIVATE KEY", Label::RsaPrivate),
];

pub(super) fn is_pem(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"-----BEGIN")
}

/// The label and the bytes of the first key of a known kind.
pub(super) fn decode(text: &[u8]) -> Option<(Label, Vec<u8>)> {
    let text = std::str::from_utf8(text).ok()?;
    LABELS.iter().find_map(|(name, label)| {
        let (_, rest) = text.split_once(&format!("-----BEGIN {name}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {name}-----"))?;
        let body: Vec<u8> = body.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        Some((*label, Code::of("BASE64").decode(&body, None)?))
    })
}

/// A DER element's content, and what follows it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = der.split_first_chunk::<2>()?;
    let (len, rest) = match first {
        0..=127 => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    (found == tag).then_some((content, rest))
}

/// The key in a SubjectPublicKeyInfo.
fn subject_key(der: &[u8]) -> Option<Vec<u8>> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    let (whole, _) = element(SEQUENCE, der)?;
    let (_, rest) = element(SEQUENCE, whole)?;
    let (bits, _) = element(BIT_STRING, rest)?;
    Some(bits.strip_prefix(b"\0")?.to_vec())
}

/// As ring wants it: PKCS #1.
pub(super) fn rsa_public_key(text: &[u8]) -> Option<Vec<u8>> {
    match decode(text)? {
        (Label::Public, der) => subject_key(&der),
        (Label::RsaPublic, der) => Some(der),
        (Label::Private | Label::RsaPrivate, _) => None,
    }
}

/// As ring wants it: the point.
pub(super) fn ec_public_key(text: &[u8]) -> Option<Vec<u8>> {
    let (Label::Public, der) = decode(text)? else { return None };
    subject_key(&der)
}
