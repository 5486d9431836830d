// SPDX-License-Identifier: BSD-2-Clause
//! What a certificate says of itself: whom it names, until when it holds, who signed it (RFC 5280).

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// The longest name of a host (RFC 1035), with a little room.
const LONGEST_NAME: usize = 255;
/// More names than a public CA puts into one certificate.
const MOST_NAMES: usize = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The common name, or empty.
    pub subject: String,
    /// The common name of the issuer, or its organisation, or empty.
    pub issuer: String,
    /// Hosts in lower case, `*.` for wildcards: of the alternative names, or else the common name.
    pub names: Vec<String>,
    pub not_before: i64,
    /// End of validity, seconds since 1970.
    pub not_after: i64,
    pub serial: String,
}

/// Reads the certificate's facts.
///
/// # Errors
/// It isn't a certificate; in words.
pub fn read(der: &[u8]) -> Result<CertificateFacts, String> {
    let certificate = parse(der)?;
    let subject = common_name(certificate.subject());
    let mut names = alternative_names(&certificate);
    if names.is_empty() {
        names.extend(host_name(&subject));
    }
    let issuer = match common_name(certificate.issuer()) {
        empty if empty.is_empty() => organisation(certificate.issuer()),
        name => name,
    };
    Ok(CertificateFacts {
        subject,
        issuer,
        names,
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        serial: serial(&certificate),
    })
}

pub(crate) fn public_key(der: &[u8]) -> Result<Vec<u8>, String> {
    Ok(parse(der)?.public_key().subject_public_key.data.to_vec())
}

/// True if `issuer`'s subject is the issuer of `der`. A self-signed certificate has no other issuer.
pub(crate) fn is_issued_by(der: &[u8], issuer: &[u8]) -> bool {
    let (Ok(certificate), Ok(issuer)) = (parse(der), parse(issuer)) else { return false };
    certificate.issuer().as_raw() == issuer.subject().as_raw()
        && certificate.issuer().as_raw() != certificate.subject().as_raw()
}

/// A certificate's number, in hex as OpenSSL prints it.
pub(crate) fn serial(certificate: &X509Certificate<'_>) -> String {
    let serial = certificate.raw_serial();
    let serial = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
    serial.iter().map(|byte| format!("{byte:02X}")).collect()
}

pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| "it isn't an X.509 certificate".to_owned())?;
    if rest.is_empty() { Ok(certificate) } else { Err("something follows the certificate".to_owned()) }
}

fn common_name(name: &X509Name<'_>) -> String {
    first_text(name.iter_common_name().next().and_then(|name| name.as_str().ok()))
}

fn organisation(name: &X509Name<'_>) -> String {
    first_text(name.iter_organization().next().and_then(|name| name.as_str().ok()))
}

/// The first attribute as text. Characters that a terminal might act on are left out: the text goes into lists and
/// logs.
fn first_text(text: Option<&str>) -> String {
    text.unwrap_or_default().chars().filter(|c| !c.is_control()).collect()
}

fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => host_name(name),
        _ => None,
    });
    names.take(MOST_NAMES).collect()
}

/// A host's name in lower case, without the root's dot; None for what no client can ask for.
fn host_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_name = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(|c| c.is_ascii_graphic());
    is_name.then(|| name.to_ascii_lowercase())
}
