// SPDX-License-Identifier: BSD-2-Clause
//! Answers made by hand, judged beside chains made by rcgen.

use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SerialNumber,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};

use super::*;

type Issuer = CertifiedIssuer<'static, KeyPair>;

const NOON: i64 = 1_800_014_400; // 20270115120000Z
const GOOD: &[u8] = &[0x80, 0];
/// A revocation, at that noon.
const REVOKED: &[u8] = b"\xa1\x11\x18\x0f20270115120000Z";
const ECDSA: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const SHA1: &[u8] = &[0x06, 5, 0x2b, 0x0e, 3, 2, 0x1a];

fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Test CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn chain(issuer: &Issuer, number: u64) -> Vec<Vec<u8>> {
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(number));
    let leaf = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
    vec![leaf.der().to_vec(), issuer.der().to_vec()]
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = match content.len() {
        short @ ..0x80 => vec![short as u8],
        long => [&[0x82][..], &(long as u16).to_be_bytes()].concat(),
    };
    [&[tag][..], &length, &content].concat()
}

fn sign(key: &KeyPair, what: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key.serialize_der(), &random).unwrap();
    key.sign(&random, what).unwrap().as_ref().to_vec()
}

struct Told<'a> {
    issuer: &'a Issuer,
    number: u64,
    status: &'a [u8],
    next: Option<&'a [u8]>,
}

impl Told<'_> {
    fn good(issuer: &Issuer, number: u64) -> Told<'_> {
        Told { issuer, number, status: GOOD, next: Some(b"20270122120000Z") }
    }

    fn single(&self) -> Vec<u8> {
        let (_, issuer) = X509Certificate::from_der(self.issuer.der()).unwrap();
        let hash = |bytes: &[u8]| der(OCTETS, &[digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref()]);
        let name = hash(issuer.subject().as_raw());
        let key = hash(&issuer.public_key().subject_public_key.data);
        let id =
            der(SEQUENCE, &[&der(SEQUENCE, &[SHA1, &[5, 0]]), &name, &key, &der(INTEGER, &[&[self.number as u8]])]);
        let next = self.next.map(|time| der(tagged(0), &[&der(TIME, &[time])])).unwrap_or_default();
        der(SEQUENCE, &[&id, self.status, &der(TIME, &[b"20270115120000Z"]), &next])
    }

    fn signed_by(&self, key: &KeyPair, certificates: &[u8]) -> Vec<u8> {
        let by = der(tagged(2), &[&der(OCTETS, &[&[7; 20]])]);
        let data = der(SEQUENCE, &[&by, &der(TIME, &[b"20270115120000Z"]), &der(SEQUENCE, &[&self.single()])]);
        let signature = der(BITS, &[&[0], &sign(key, &data)]);
        let certificates = match certificates {
            [] => Vec::new(),
            given => der(tagged(0), &[&der(SEQUENCE, &[given])]),
        };
        let basic = der(SEQUENCE, &[&data, &der(SEQUENCE, &[ECDSA]), &signature, &certificates]);
        let bytes = der(SEQUENCE, &[&der(OID, &[BASIC]), &der(OCTETS, &[&basic])]);
        der(SEQUENCE, &[&[ENUMERATED, 1, 0], &der(tagged(0), &[&bytes])])
    }

    fn signed(&self) -> Vec<u8> {
        self.signed_by(self.issuer.key(), &[])
    }
}

#[test]
fn an_answer_that_is_good_has_its_time() {
    let ca = authority();
    let (chain, week) = (chain(&ca, 7), ValiditySpan { from: NOON, until: NOON + 7 * 86_400 });
    assert_eq!(judge(&Told::good(&ca, 7).signed(), &chain), Ok(week));
    assert!(week.holds(NOON) && !week.holds(NOON - 1) && !week.holds(week.until));
    let open = Told { next: None, ..Told::good(&ca, 7) };
    assert_eq!(judge(&open.signed(), &chain), Ok(ValiditySpan { from: NOON, until: NOON + 86_400 }));
    // Without the issuer nobody can look at the signature; names and number are.
    assert_eq!(judge(&Told::good(&ca, 7).signed(), &chain[..1]), Ok(week));
}

#[test]
fn other_answers_are_named() {
    let (ca, other) = (authority(), authority());
    let chain = chain(&ca, 7);
    for (told, expected) in [
        (Told::good(&ca, 8), OcspError::OtherCertificate),
        (Told::good(&other, 7), OcspError::OtherCertificate),
        (Told { status: REVOKED, ..Told::good(&ca, 7) }, OcspError::Revoked),
        (Told { status: &[0x82, 0], ..Told::good(&ca, 7) }, OcspError::Unknown),
        (Told { status: &[0x83, 0], ..Told::good(&ca, 7) }, OcspError::OtherCertificate),
        (Told { next: Some(b"nonsense"), ..Told::good(&ca, 7) }, OcspError::OtherCertificate),
    ] {
        assert_eq!(judge(&told.signed(), &chain), Err(expected));
    }
    for junk in [&b""[..], b"no answer", &[0x30, 3, 0x0a, 1, 0], &[0x30, 3, 0x0a, 1, 6], &[0x30, 0x80]] {
        assert_eq!(judge(junk, &chain), Err(OcspError::NoAnswer), "{junk:?}");
    }
    let good = Told::good(&ca, 7).signed();
    assert_eq!(judge(&[&good[..], b"x"].concat(), &chain), Err(OcspError::NoAnswer));
    for length in 0..good.len() {
        assert_eq!(judge(&good[..length], &chain), Err(OcspError::NoAnswer), "{length}");
    }
}

#[test]
fn who_signs_may_do_so() {
    let ca = authority();
    let chain = chain(&ca, 7);
    let told = Told::good(&ca, 7);
    let stranger = KeyPair::generate().unwrap();
    assert_eq!(judge(&told.signed_by(&stranger, &[]), &chain), Err(OcspError::Signature));
    let responder = |usages: &[ExtendedKeyUsagePurpose], issuer: &Issuer| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Responder");
        params.extended_key_usages = usages.to_vec();
        params.signed_by(&stranger, issuer).unwrap().der().to_vec()
    };
    let may = [ExtendedKeyUsagePurpose::OcspSigning];
    assert!(judge(&told.signed_by(&stranger, &responder(&may, &ca)), &chain).is_ok());
    for certificate in [
        responder(&[], &ca),
        responder(&[ExtendedKeyUsagePurpose::ServerAuth], &ca),
        responder(&may, &authority()),
        b"nonsense".to_vec(),
    ] {
        assert_eq!(judge(&told.signed_by(&stranger, &certificate), &chain), Err(OcspError::Signature));
    }
}

proptest! {
    #[test]
    fn anything_is_judged(bytes: Vec<u8>, at in 0_usize..400, bit in 0_u8..8) {
        let ca = authority();
        let chain = chain(&ca, 7);
        prop_assert!(judge(&bytes, &chain).is_err());
        let mut answer = Told::good(&ca, 7).signed();
        let at = at % answer.len();
        answer[at] ^= 1 << bit;
        let _ = judge(&answer, &chain);
    }
}
