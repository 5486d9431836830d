// SPDX-License-Identifier: BSD-2-Clause
//! What an OCSP answer (RFC 6960) says of a certificate, and from when to when: only one that is about this certificate, signed by
//! who may, and calls it good helps a client. Any other is worse than none.

use std::fmt;

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use rustls::pki_types::SignatureVerificationAlgorithm;
use x509_parser::asn1_rs::Any;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::verify::provider;

/// Validity of a response without nextUpdate: a day, as in browsers.
const UNSAID_SECONDS: i64 = 86_400;
/// Certificates that are looked at for one number; responders answer for one or a few.
const MOST_ANSWERS: usize = 1000;

const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const BITS: u8 = 0x03;
const INTEGER: u8 = 0x02;
const ENUMERATED: u8 = 0x0a;
const OID: u8 = 0x06;
const TIME: u8 = 0x18;
/// `[n]` around something else, or in its place.
const fn tagged(number: u8) -> u8 {
    0xa0 | number
}
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1];

/// When an answer may be shown, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValiditySpan {
    /// First second in which it may be shown.
    pub from: i64,
    /// First second in which it may no longer be shown.
    pub until: i64,
}

impl ValiditySpan {
    pub fn holds(self, now: i64) -> bool {
        (self.from..self.until).contains(&now)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspError {
    NoAnswer,
    OtherCertificate,
    Revoked,
    Unknown,
    /// No signature by the authority or by a responder that the authority authorized.
    Signature,
}

impl fmt::Display for OcspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnswer => "not a successful OCSP response in DER",
            Self::OtherCertificate => "the OCSP response is about another certificate",
            Self::Revoked => "the OCSP response says that the certificate is revoked",
            Self::Unknown => "the OCSP response says that the responder doesn't know the certificate",
            Self::Signature => "the OCSP response isn't signed by the certificate's authority",
        })
    }
}

impl std::error::Error for OcspError {}

/// The period in which this response about a chain's leaf may be shown. The signature is checked if the chain has the
/// issuer.
///
/// # Errors
/// See [`OcspError`].
pub fn judge(answer: &[u8], chain: &[Vec<u8>]) -> Result<ValiditySpan, OcspError> {
    let response = Response::read(answer).ok_or(OcspError::NoAnswer)?;
    let leaf = chain.first().and_then(|der| certificate(der)).ok_or(OcspError::OtherCertificate)?;
    let issuer = chain.get(1).and_then(|der| certificate(der));
    let issuer = issuer.filter(|issuer| issuer.subject().as_raw() == leaf.issuer().as_raw());
    let single = response.find(&leaf, issuer.as_ref()).ok_or(OcspError::OtherCertificate)?;
    if issuer.is_some_and(|issuer| !response.is_signed_for(&issuer, single.span.from)) {
        return Err(OcspError::Signature);
    }
    match single.status {
        Status::Good => Ok(single.span),
        Status::Revoked => Err(OcspError::Revoked),
        Status::Unknown => Err(OcspError::Unknown),
    }
}

fn certificate(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

#[derive(Clone, Copy)]
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The next one's content, if it has this tag.
    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.whole(tag).map(|(_, content)| content)
    }

    /// All of it, and its content.
    fn whole(&mut self, tag: u8) -> Option<(&'a [u8], &'a [u8])> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        let (rest, any) = Any::from_der(self.0).ok()?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some((whole, any.data))
    }
}

struct Response<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    /// Certificates of who signed, DER one after the other.
    certificates: &'a [u8],
    answers: &'a [u8],
}

enum Status {
    Good,
    Revoked,
    Unknown,
}

struct Single {
    status: Status,
    span: ValiditySpan,
}

impl<'a> Response<'a> {
    fn read(answer: &'a [u8]) -> Option<Response<'a>> {
        let mut outer = Elements(answer);
        let mut response = Elements(outer.next(SEQUENCE).filter(|_| outer.0.is_empty())?);
        // 0: successful.
        response.next(ENUMERATED).filter(|status| *status == [0])?;
        let mut bytes = Elements(Elements(response.next(tagged(0))?).next(SEQUENCE)?);
        bytes.next(OID).filter(|kind| *kind == BASIC)?;
        let mut basic = Elements(Elements(bytes.next(OCTETS)?).next(SEQUENCE)?);
        let (signed, data) = basic.whole(SEQUENCE)?;
        let algorithm = basic.next(SEQUENCE)?;
        // The first byte tells how many bits of the last one aren't used.
        let signature = basic.next(BITS)?.strip_prefix(&[0])?;
        let certificates = basic.next(tagged(0)).and_then(|list| Elements(list).next(SEQUENCE)).unwrap_or_default();
        let mut data = Elements(data);
        let _version = data.next(tagged(0));
        data.next(tagged(1)).or_else(|| data.next(tagged(2)))?;
        data.next(TIME)?;
        let answers = data.next(SEQUENCE)?;
        Some(Response { signed, algorithm, signature, certificates, answers })
    }

    fn find(&self, leaf: &X509Certificate<'_>, issuer: Option<&X509Certificate<'_>>) -> Option<Single> {
        let mut answers = Elements(self.answers);
        for _ in 0..MOST_ANSWERS {
            let mut single = Elements(answers.next(SEQUENCE)?);
            let id = Elements(single.next(SEQUENCE)?);
            if is_of(id, leaf, issuer) {
                return read_single(single);
            }
        }
        None
    }

    /// True if the authority signed it, or a responder whom the authority lets sign responses (RFC 6960 4.2.2.2), at
    /// that time.
    fn is_signed_for(&self, issuer: &X509Certificate<'_>, then: i64) -> bool {
        let verifies = |by: &X509Certificate<'_>| verifies(by, self.algorithm, self.signed, self.signature);
        if verifies(issuer) {
            return true;
        }
        let Ok((_, signer)) = X509Certificate::from_der(self.certificates) else { return false };
        let validity = signer.validity();
        let may_sign = matches!(signer.extended_key_usage(), Ok(Some(usage)) if usage.value.ocsp_signing);
        may_sign
            && (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&then)
            && signer.issuer().as_raw() == issuer.subject().as_raw()
            && is_signed_by(self.certificates, issuer)
            && verifies(&signer)
    }
}

/// `CertID`: hashes of the issuer's name and key, and the number.
fn is_of(mut id: Elements<'_>, leaf: &X509Certificate<'_>, issuer: Option<&X509Certificate<'_>>) -> bool {
    let read = (|| {
        let algorithm = hash(Elements(id.next(SEQUENCE)?).next(OID)?)?;
        Some((algorithm, id.next(OCTETS)?, id.next(OCTETS)?, id.next(INTEGER)?))
    })();
    let Some((algorithm, name, key, number)) = read else { return false };
    let is_key =
        |issuer: &X509Certificate<'_>| digest(algorithm, &issuer.public_key().subject_public_key.data).as_ref() == key;
    number == leaf.raw_serial()
        && digest(algorithm, leaf.issuer().as_raw()).as_ref() == name
        && issuer.is_none_or(is_key)
}

fn hash(oid: &[u8]) -> Option<&'static Algorithm> {
    match oid {
        [0x2b, 0x0e, 3, 2, 0x1a] => Some(&SHA1_FOR_LEGACY_USE_ONLY),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, which] => match which {
            1 => Some(&SHA256),
            2 => Some(&SHA384),
            3 => Some(&SHA512),
            _ => None,
        },
        _ => None,
    }
}

fn read_single(mut single: Elements<'_>) -> Option<Single> {
    let status = match *single.0.first()? {
        0x80 => single.next(0x80).map(|_| Status::Good)?,
        0x82 => single.next(0x82).map(|_| Status::Unknown)?,
        tag => single.next(tagged(1)).filter(|_| tag == tagged(1)).map(|_| Status::Revoked)?,
    };
    let from = time(&mut single)?;
    let until = match single.next(tagged(0)) {
        Some(next) => time(&mut Elements(next))?,
        None => from.saturating_add(UNSAID_SECONDS),
    };
    Some(Single { status, span: ValiditySpan { from, until } })
}

fn time(elements: &mut Elements<'_>) -> Option<i64> {
    let (whole, _) = elements.whole(TIME)?;
    ASN1Time::from_der(whole).ok().map(|(_, time)| time.timestamp())
}

fn verifies(by: &X509Certificate<'_>, algorithm: &[u8], signed: &[u8], signature: &[u8]) -> bool {
    let key = &by.public_key().subject_public_key.data;
    let known = provider().signature_verification_algorithms.all;
    let fits = |known: &&&dyn SignatureVerificationAlgorithm| known.signature_alg_id().as_ref() == algorithm;
    known.iter().filter(fits).any(|known| known.verify_signature(key, signed, signature).is_ok())
}

fn is_signed_by(der: &[u8], issuer: &X509Certificate<'_>) -> bool {
    let read = (|| {
        let mut parts = Elements(Elements(der).next(SEQUENCE)?);
        let (signed, _) = parts.whole(SEQUENCE)?;
        Some((signed, parts.next(SEQUENCE)?, parts.next(BITS)?.strip_prefix(&[0])?))
    })();
    read.is_some_and(|(signed, algorithm, signature)| verifies(issuer, algorithm, signed, signature))
}

#[cfg(test)]
mod tests;
