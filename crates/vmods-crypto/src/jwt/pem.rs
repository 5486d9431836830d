// SPDX-License-Identifier: BSD-2-Clause
//! Keys in PEM (RFC 7468), and as much of X.509's key structures (RFC 5280 section 4.1) as it takes to get at them.

use vmod_support::codec::ByteEncoding;

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
        Some((*label, ByteEncoding::parse("BASE64").decode(&body, None)?))
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

/// The key as ring wants it: PKCS #1.
pub(crate) fn rsa_public_key(text: &[u8]) -> Option<Vec<u8>> {
    match decode(text)? {
        (Label::Public, der) => subject_key(&der),
        (Label::RsaPublic, der) => Some(der),
        (Label::Private | Label::RsaPrivate, _) => None,
    }
}

/// The length of the modulus of a PKCS #1 public key, which must be two positive numbers and no more.
pub(crate) fn rsa_bits(der: &[u8]) -> Option<usize> {
    let (numbers, b"") = element(0x30, der)? else { return None };
    let (modulus, rest) = element(0x02, numbers)?;
    let (exponent, b"") = element(0x02, rest)? else { return None };
    let is_positive =
        |number: &[u8]| number.first().is_some_and(|first| *first < 0x80) && number.iter().any(|b| *b > 0);
    let start = modulus.iter().position(|byte| *byte > 0)?;
    let bits = 8 * (modulus.len() - start) - modulus[start].leading_zeros() as usize;
    (is_positive(modulus) && is_positive(exponent)).then_some(bits)
}

/// The key as ring wants it: the point.
pub(super) fn ec_public_key(text: &[u8]) -> Option<Vec<u8>> {
    let (Label::Public, der) = decode(text)? else { return None };
    subject_key(&der)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An element as DER writes it.
    fn written(tag: u8, content: &[u8]) -> Vec<u8> {
        let len = content.len().to_be_bytes();
        let digits = &len[len.iter().position(|byte| *byte > 0).unwrap_or(len.len())..];
        let head = if content.len() < 128 {
            vec![content.len() as u8]
        } else {
            [&[0x80 | digits.len() as u8], digits].concat()
        };
        [&[tag], &head[..], content].concat()
    }

    proptest! {
        #[test]
        fn any_text_and_any_bytes(text in "(-----BEGIN |-----END |(RSA )?(PUBLIC|PRIVATE) KEY|-----|[A-Za-z0-9+/=]{1,9}|\\PC|\n){0,20}", der: Vec<u8>, tag: u8) {
            let _ = (is_pem(text.as_bytes()), rsa_public_key(text.as_bytes()), ec_public_key(text.as_bytes()));
            let _ = (subject_key(&der), rsa_bits(&der));
            if let Some((content, rest)) = element(tag, &der) {
                prop_assert!(content.len() + rest.len() < der.len() && der.ends_with(rest));
            }
        }

        #[test]
        fn elements_are_read_as_written(tag: u8, content in proptest::collection::vec(any::<u8>(), 0..70_000), rest: Vec<u8>) {
            let der = [&written(tag, &content)[..], &rest].concat();
            prop_assert_eq!(element(tag, &der), Some((&content[..], &rest[..])));
        }

        #[test]
        fn the_length_of_a_modulus(first in 1u8.., rest: Vec<u8>, after in 1u8..) {
            let number = |bytes: &[u8]| written(2, &[&[0], bytes].concat());
            let modulus = number(&[&[first], &rest[..]].concat());
            let key = written(0x30, &[&modulus[..], &number(&[3])].concat());
            prop_assert_eq!(rsa_bits(&key), Some(8 * rest.len() + first.ilog2() as usize + 1));
            prop_assert_eq!(rsa_bits(&[&key[..], &[after]].concat()), None);
            prop_assert_eq!(rsa_bits(&written(0x30, &modulus)), None);
            prop_assert_eq!(rsa_bits(&written(0x30, &[&modulus[..], &number(&[0])].concat())), None);
        }

        #[test]
        fn keys_are_read_as_written(key: Vec<u8>, kind: Vec<u8>, width in 1usize..80, ends in "\r?\n") {
            let bits = written(3, &[&[0], &key[..]].concat());
            let der = written(0x30, &[written(0x30, &kind), bits].concat());
            let code = ByteEncoding::parse("BASE64").encode(&der, false);
            let lines: Vec<&str> = code.chunks(width).map(|line| std::str::from_utf8(line).expect("text")).collect();
            let text = |label: &str| format!("-----BEGIN {label}-----{ends}{}{ends}-----END {label}-----{ends}", lines.join(&ends));
            prop_assert_eq!(ec_public_key(text("PUBLIC KEY").as_bytes()), Some(key.clone()));
            prop_assert_eq!(rsa_public_key(text("PUBLIC KEY").as_bytes()), Some(key));
            prop_assert_eq!(rsa_public_key(text("RSA PUBLIC KEY").as_bytes()), Some(der.clone()));
            prop_assert_eq!(decode(text("PRIVATE KEY").as_bytes()), Some((Label::Private, der)));
            prop_assert_eq!(ec_public_key(text("EC PRIVATE KEY").as_bytes()), None);
        }
    }
}
