// SPDX-License-Identifier: BSD-2-Clause
//! A certificate for a name whose own is being got: signed by itself, so that a browser warns where the handshake would have failed
//! without a word, and whoever looks sees that a server is there and why its certificate isn't.

const SUBJECT: &str = "Placeholder: the certificate isn't there yet";

/// Key and certificate for `name`, as PEM.
///
/// # Errors
/// That can't be a name in a certificate.
pub fn pem(name: &str) -> Result<String, String> {
    let told = |error: rcgen::Error| error.to_string();
    let key = rcgen::KeyPair::generate().map_err(told)?;
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(told)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, SUBJECT);
    let certificate = params.self_signed(&key).map_err(told)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_for_its_name_and_says_what_it_is() {
        let pair = crate::pem::read(pem("a.example").unwrap().as_bytes()).unwrap().pair().unwrap();
        let facts = crate::facts::read(&pair.chain[0]).unwrap();
        assert_eq!(
            (facts.names, facts.subject.as_str(), facts.issuer.as_str()),
            (vec!["a.example".to_owned()], SUBJECT, SUBJECT)
        );
        assert!(pem("ü").is_err());
    }
}
