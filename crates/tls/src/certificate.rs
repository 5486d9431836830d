// SPDX-License-Identifier: BSD-2-Clause
//! One certificate (RFC 5280) in the texts that VCL and logs show: printable ASCII, whatever is in it, since it may be a stranger's.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::X509Name;

use crate::facts;

/// Alternative names that are shown; certificates have tens of them.
const MAX_NAMES: usize = 1000;

pub struct Certificate<'a> {
    der: &'a [u8],
    parsed: X509Certificate<'a>,
}

impl<'a> Certificate<'a> {
    /// `None` if it isn't one.
    pub fn read(der: &'a [u8]) -> Option<Self> {
        Some(Certificate { der, parsed: facts::parse(der).ok()? })
    }

    /// The subject as RFC 4514 writes names: `CN=a.example,O=Some\, Inc.`
    pub fn subject(&self) -> String {
        name(self.parsed.subject())
    }

    pub fn common_name(&self) -> Option<String> {
        let found = self.parsed.subject().iter_common_name().next()?;
        found.as_str().ok().map(printable)
    }

    pub fn issuer(&self) -> String {
        name(self.parsed.issuer())
    }

    /// The serial number in hex, as OpenSSL prints it.
    pub fn serial(&self) -> String {
        facts::serial(&self.parsed)
    }

    /// SHA-256 of the whole certificate in hex.
    pub fn fingerprint(&self) -> String {
        base::hex::encode(ring::digest::digest(&ring::digest::SHA256, self.der).as_ref())
    }

    /// The alternative names, as OpenSSL prints them: `DNS:a.example, IP Address:192.0.2.1, email:a@b.example`.
    pub fn alternative_names(&self) -> Option<String> {
        let names = &self.parsed.subject_alternative_name().ok()??.value.general_names;
        let texts: Vec<String> = names.iter().take(MAX_NAMES).filter_map(alternative_name).collect();
        Some(texts.join(", "))
    }

    /// From when to when it is valid, in seconds since 1970.
    pub fn validity(&self) -> (i64, i64) {
        let validity = self.parsed.validity();
        (validity.not_before.timestamp(), validity.not_after.timestamp())
    }

    /// The signature algorithm by OpenSSL's short name: `RSA-SHA256`, `ecdsa-with-SHA256`; its OID if we have no name
    /// for it.
    pub fn signature(&self) -> String {
        let number = self.parsed.signature_algorithm.algorithm.to_id_string();
        SIGNATURES.iter().find(|(known, _)| *known == number).map_or(number, |(_, name)| (*name).to_owned())
    }

    /// Algorithm and size of the public key: `RSA2048`, `EC256`.
    pub fn key(&self) -> String {
        let key = self.parsed.public_key();
        match key.parsed() {
            Ok(PublicKey::RSA(rsa)) => format!("RSA{}", rsa.key_size()),
            Ok(PublicKey::EC(_)) => format!("EC{}", curve_bits(key.algorithm.parameters.as_ref())),
            Ok(PublicKey::DSA(_)) => "DSA".to_owned(),
            _ => match key.algorithm.algorithm.to_id_string().as_str() {
                "1.3.101.112" => "ED25519".to_owned(),
                "1.3.101.113" => "ED448".to_owned(),
                _ => "n/a".to_owned(),
            },
        }
    }
}

const SIGNATURES: [(&str, &str); 10] = [
    ("1.2.840.113549.1.1.5", "RSA-SHA1"),
    ("1.2.840.113549.1.1.11", "RSA-SHA256"),
    ("1.2.840.113549.1.1.12", "RSA-SHA384"),
    ("1.2.840.113549.1.1.13", "RSA-SHA512"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
    ("1.3.101.112", "ED25519"),
    ("1.3.101.113", "ED448"),
];

fn curve_bits(parameters: Option<&x509_parser::asn1_rs::Any<'_>>) -> u16 {
    let curve = parameters.and_then(|any| any.as_oid().ok()).map(|oid| oid.to_id_string());
    match curve.as_deref() {
        Some("1.2.840.10045.3.1.7") => 256,
        Some("1.3.132.0.34") => 384,
        Some("1.3.132.0.35") => 521,
        _ => 0,
    }
}

/// The last part comes first (RFC 4514 2.1).
fn name(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for part in parts.iter().rev() {
        let mut separator = if text.is_empty() { "" } else { "," };
        for attribute in part.iter() {
            let _ = write!(text, "{separator}{}=", attribute_name(&attribute.attr_type().to_id_string()));
            push_value(&mut text, attribute.as_slice());
            separator = "+";
        }
    }
    text
}

/// The short name of an attribute, or its number.
fn attribute_name(number: &str) -> &str {
    const NAMES: [(&str, &str); 12] = [
        ("2.5.4.3", "CN"),
        ("2.5.4.4", "SN"),
        ("2.5.4.5", "serialNumber"),
        ("2.5.4.6", "C"),
        ("2.5.4.7", "L"),
        ("2.5.4.8", "ST"),
        ("2.5.4.9", "STREET"),
        ("2.5.4.10", "O"),
        ("2.5.4.11", "OU"),
        ("2.5.4.42", "GN"),
        ("0.9.2342.19200300.100.1.25", "DC"),
        ("0.9.2342.19200300.100.1.1", "UID"),
    ];
    match number {
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => NAMES.iter().find(|(known, _)| *known == number).map_or(number, |(_, name)| name),
    }
}

/// A value: what has a meaning in names is quoted, what isn't printable ASCII is written in hex (RFC 4514 2.4).
fn push_value(text: &mut String, value: &[u8]) {
    for (at, &byte) in value.iter().enumerate() {
        let is_end = at == 0 || at + 1 == value.len();
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => text.extend(['\\', byte.into()]),
            b'#' if at == 0 => text.push_str("\\#"),
            b' ' if is_end => text.push_str("\\ "),
            b' '..=b'~' => text.push(byte.into()),
            _ => {
                let _ = write!(text, "\\{byte:02X}");
            }
        }
    }
}

fn alternative_name(of: &GeneralName<'_>) -> Option<String> {
    let (kind, text) = match of {
        GeneralName::DNSName(text) => ("DNS:", printable(text)),
        GeneralName::RFC822Name(text) => ("email:", printable(text)),
        GeneralName::URI(text) => ("URI:", printable(text)),
        GeneralName::IPAddress(bytes) => ("IP Address:", address(bytes)?),
        GeneralName::DirectoryName(of) => ("DirName:", name(of)),
        _ => return None,
    };
    Some(format!("{kind}{text}"))
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string())
}

/// A comma would let one name pass for two.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() && c != ',' { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests;
