// SPDX-License-Identifier: BSD-2-Clause
//! Texts of certificates, made by rcgen.
use proptest::prelude::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType, SerialNumber};

use super::*;

fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

fn subject(parts: &[(DnType, &str)]) -> String {
    let der = made(|params| parts.iter().for_each(|(kind, text)| params.distinguished_name.push(kind.clone(), *text)));
    Certificate::read(&der).unwrap().subject()
}

#[test]
fn names_are_written_so_that_they_can_be_told_apart() {
    assert_eq!(subject(&[(DnType::CountryName, "NZ"), (DnType::CommonName, "a.example")]), "CN=a.example,C=NZ");
    assert_eq!(subject(&[(DnType::OrganizationName, "Some, Inc.")]), "O=Some\\, Inc.");
    assert_eq!(subject(&[(DnType::CommonName, " #a+b=c\\ ")]), "CN=\\ #a\\+b=c\\\\\\ ");
    assert_eq!(subject(&[(DnType::CommonName, "#a")]), "CN=\\#a");
    assert_eq!(subject(&[(DnType::CommonName, "a\r\nX: é")]), "CN=a\\0D\\0AX: \\C3\\A9");
    assert_eq!(subject(&[(DnType::CustomDnType(vec![1, 2, 3, 4]), "x")]), "1.2.3.4=x");
    assert_eq!(subject(&[]), "");
}

#[test]
fn what_else_it_says() {
    let der = made(|params| {
        params.serial_number = Some(SerialNumber::from_slice(&[0x0a, 0xff]));
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params.distinguished_name.push(DnType::CommonName, "a.example");
        params.subject_alt_names.push(SanType::IpAddress("192.0.2.1".parse().unwrap()));
        params.subject_alt_names.push(SanType::IpAddress("2001:db8::1".parse().unwrap()));
        params.subject_alt_names.push(SanType::Rfc822Name("a@b.example".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("urn:a,DNS:b".try_into().unwrap()));
    });
    let certificate = Certificate::read(&der).unwrap();
    assert_eq!(certificate.issuer(), "CN=a.example");
    assert_eq!(certificate.common_name().as_deref(), Some("a.example"));
    assert_eq!(certificate.serial(), "0AFF");
    assert_eq!(certificate.validity(), (1_577_836_800, 1_893_456_000));
    assert_eq!(certificate.signature(), "ecdsa-with-SHA256");
    assert_eq!(certificate.key(), "EC256");
    let names = "DNS:a.example, IP Address:192.0.2.1, IP Address:2001:db8::1, email:a@b.example, URI:urn:a?DNS:b";
    assert_eq!(certificate.alternative_names().as_deref(), Some(names));
    assert_eq!(certificate.fingerprint().len(), 64);
}

#[test]
fn what_is_no_certificate_is_none() {
    let der = made(|_| {});
    assert!(Certificate::read(&der[..der.len() - 1]).is_none());
    assert!(Certificate::read(&[&der[..], b"x"].concat()).is_none());
    assert!(Certificate::read(b"").is_none());
}

proptest! {
    #[test]
    fn a_damaged_one_gives_printable_texts_or_none(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut der = DER.with(Clone::clone);
        let at = at.index(der.len());
        der[at] = byte;
        if let Some(certificate) = Certificate::read(&der) {
            let names = certificate.alternative_names().unwrap_or_default();
            let texts = [certificate.subject(), certificate.issuer(), certificate.serial(), certificate.signature(), certificate.key(), names];
            prop_assert!(texts.iter().all(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte))), "{texts:?}");
        }
    }
}

thread_local! {
    static DER: Vec<u8> = made(|params| params.distinguished_name.push(DnType::CommonName, "a.example"));
}
