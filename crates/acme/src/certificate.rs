// SPDX-License-Identifier: BSD-2-Clause
//! What a chain in PEM says of its first certificate, as far as its renewal needs that.

use std::time::{Duration, SystemTime};

use instant_acme::CertificateIdentifier;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::{ASN1Time, X509Certificate};

use crate::name::AcmeName;
use crate::schedule::Validity;

/// The longest chain that is looked at.
pub const LONGEST: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub struct AcmeCertificateFacts {
    pub validity: Validity,
    /// Host names that it is for, lower case.
    pub names: Vec<String>,
    pub issuer: String,
    /// The public key (SubjectPublicKeyInfo in DER).
    pub public_key: Vec<u8>,
    /// The CA's name for it when it suggests a time for its renewal; none where the certificate doesn't tell.
    pub id: Option<CertificateIdentifier<'static>>,
}

impl AcmeCertificateFacts {
    /// Reads the first certificate of a text in PEM; keys in it are left alone.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn of(pem: &str) -> Result<AcmeCertificateFacts, String> {
        if pem.len() > LONGEST {
            return Err("a chain of more than 256 KB".to_owned());
        }
        let block = Pem::iter_from_buffer(pem.as_bytes())
            .find(|block| block.as_ref().is_ok_and(|block| block.label == "CERTIFICATE"))
            .and_then(Result::ok)
            .ok_or("no certificate in PEM")?;
        let certificate = block.parse_x509().map_err(|error| format!("a certificate that can't be read: {error}"))?;
        Ok(AcmeCertificateFacts {
            validity: Validity {
                from: time_of(certificate.validity().not_before),
                until: time_of(certificate.validity().not_after),
            },
            names: names(&certificate),
            issuer: printable(&certificate.issuer().to_string()),
            public_key: certificate.public_key().raw.to_vec(),
            id: CertificateIdentifier::try_from(&block.contents.as_slice().into())
                .ok()
                .map(CertificateIdentifier::into_owned),
        })
    }

    pub fn is_for(&self, name: &AcmeName) -> bool {
        self.names.iter().any(|own| own == name.as_str())
    }

    pub fn is_valid_at(&self, now: SystemTime) -> bool {
        self.validity.from <= now && now < self.validity.until
    }
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let alternative = certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => Some(names),
        _ => None,
    });
    let names = alternative.into_iter().flat_map(|names| &names.general_names);
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn time_of(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    if seconds < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) }.unwrap_or(epoch)
}

/// A peer's text as one line that no terminal acts on, and not endless.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 500;
    let cut = text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end]);
    base::text::one_line(cut, ' ').trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_tells_names_dates_and_key() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["A.example".to_owned(), "b.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let pem = format!("{}{}", key.serialize_pem(), params.self_signed(&key).unwrap().pem());
        let facts = AcmeCertificateFacts::of(&pem).unwrap();
        assert_eq!(facts.names, ["a.example", "b.example"]);
        assert!(
            facts.is_for(&AcmeName::parse("a.example").unwrap())
                && !facts.is_for(&AcmeName::parse("c.example").unwrap())
        );
        let day = |n: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(n * 86_400);
        assert_eq!(facts.validity, Validity { from: day(20_454), until: day(20_544) });
        assert!(facts.is_valid_at(day(20_500)) && !facts.is_valid_at(day(20_544)) && !facts.is_valid_at(day(20_400)));
        assert_eq!(facts.public_key, rcgen::PublicKeyData::subject_public_key_info(&key));
    }

    #[test]
    fn what_is_no_chain_is_an_error() {
        for text in
            ["", "-----BEGIN CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert!(AcmeCertificateFacts::of(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "(?s).{0,300}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = AcmeCertificateFacts::of(&text);
            let pem = Pem::iter_from_buffer(&bytes).next().is_some();
            let _ = pem;
            let mut wrapped = String::from("-----BEGIN CERTIFICATE-----\n");
            wrapped.push_str(&text);
            wrapped.push_str("\n-----END CERTIFICATE-----\n");
            let _ = AcmeCertificateFacts::of(&wrapped);
        }
    }
}
