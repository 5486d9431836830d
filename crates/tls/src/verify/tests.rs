// SPDX-License-Identifier: BSD-2-Clause
//! Chains made by rcgen, judged as an origin's would be.

use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

use super::*;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A leaf's parameters: for `names`, or without any but the common name.
fn leaf(common: &str, names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, common);
    params.serial_number = Some(SerialNumber::from(7_u64));
    params
}

fn signed(params: &CertificateParams, issuer: &Issuer) -> CertificateDer<'static> {
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
}

fn itself(params: &CertificateParams) -> CertificateDer<'static> {
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

fn roots(of: &[&CertificateDer<'static>]) -> Roots {
    Roots::new(of.iter().map(|der| (*der).clone()).collect())
}

fn judge(verify: Verify, roots: &Roots, revoked: Option<&Revoked>, chain: &[CertificateDer<'_>], name: &str) -> String {
    let judge = verifier(verify, roots, revoked, &provider()).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    match judge.verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now()) {
        Ok(_) => "good".to_owned(),
        Err(Error::InvalidCertificate(error)) => reason(&error),
        Err(error) => format!("{error:?}"),
    }
}

fn check(verify: Verify, roots: &Roots, chain: &[CertificateDer<'_>], name: &str, says: &str) {
    let said = judge(verify, roots, None, chain, name);
    assert!(said.starts_with(says), "{verify:?} {name}: {said}");
}

#[test]
fn a_chain_is_good_for_its_names_and_without_the_check_for_any() {
    let ca = authority("Test CA");
    let trusted = roots(&[ca.der()]);
    let chain = [signed(&leaf("a.example", &["a.example", "*.b.example", "192.0.2.1"]), &ca)];
    for name in ["a.example", "A.EXAMPLE", "x.b.example", "192.0.2.1"] {
        check(Verify::ChainAndName, &trusted, &chain, name, "good");
    }
    check(
        Verify::ChainAndName,
        &trusted,
        &chain,
        "c.example",
        "hostname mismatch: c.example isn't one of: a.example, *.b.example",
    );
    check(Verify::ChainAndName, &trusted, &chain, "192.0.2.2", "hostname mismatch");
    check(Verify::Chain, &trusted, &chain, "c.example", "good");
}

#[test]
fn what_nobody_vouches_for_is_good_only_unchecked() {
    let trusted = roots(&[authority("Test CA").der()]);
    let stranger = [signed(&leaf("a.example", &["a.example"]), &authority("Other CA"))];
    let own = [itself(&leaf("a.example", &["a.example"]))];
    check(Verify::Chain, &trusted, &stranger, "a.example", "unable to get local issuer certificate");
    check(Verify::Chain, &trusted, &own, "a.example", "self-signed certificate");
    check(Verify::Nothing, &trusted, &stranger, "a.example", "good");
    check(Verify::Nothing, &trusted, &own, "b.example", "good");
}

#[test]
fn time_counts_for_chains_and_for_what_is_trusted_by_itself() {
    let ca = authority("Test CA");
    let mut old = leaf("a.example", &["a.example"]);
    (old.not_before, old.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 2, 3));
    let mut early = leaf("a.example", &["a.example"]);
    (early.not_before, early.not_after) = (date_time_ymd(2901, 1, 1), date_time_ymd(2902, 1, 1));
    for (params, says) in [(&old, "certificate has expired"), (&early, "certificate is not yet valid")] {
        let (chained, own) = (signed(params, &ca), itself(params));
        check(Verify::Chain, &roots(&[ca.der()]), &[chained], "a.example", says);
        check(Verify::Chain, &roots(&[&own]), std::slice::from_ref(&own), "a.example", says);
    }
}

#[test]
fn a_certificate_may_be_trusted_by_itself() {
    let mut params = leaf("a.example", &["a.example"]);
    // As `openssl req -x509` makes them.
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = itself(&params);
    let trusted = roots(&[&own]);
    check(Verify::ChainAndName, &trusted, std::slice::from_ref(&own), "a.example", "good");
    check(Verify::ChainAndName, &trusted, std::slice::from_ref(&own), "b.example", "hostname mismatch");
    check(Verify::Chain, &trusted, &[own], "b.example", "good");
}

#[test]
fn a_missing_intermediate_is_missed() {
    let ca = authority("Test CA");
    let mut params = leaf("Between", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_identifier_method = KeyIdMethod::Sha256;
    let between = Issuer::signed_by(params, KeyPair::generate().unwrap(), &ca).unwrap();
    let leaf = signed(&leaf("a.example", &["a.example"]), &between);
    let trusted = roots(&[ca.der()]);
    check(Verify::ChainAndName, &trusted, &[leaf.clone(), between.der().clone()], "a.example", "good");
    check(Verify::ChainAndName, &trusted, &[leaf], "a.example", "unable to get local issuer certificate");
}

#[test]
fn the_common_name_counts_where_there_are_no_others() {
    let ca = authority("Test CA");
    let trusted = roots(&[ca.der()]);
    let old = [signed(&leaf("a.example", &[]), &ca)];
    check(Verify::ChainAndName, &trusted, &old, "a.example", "good");
    check(Verify::ChainAndName, &trusted, &old, "b.example", "hostname mismatch: b.example isn't one of: (none)");
    let new = [signed(&leaf("a.example", &["b.example"]), &ca)];
    check(Verify::ChainAndName, &trusted, &new, "a.example", "hostname mismatch");
}

#[test]
fn revoked_is_refused_and_an_old_list_too() {
    let ca = authority("Test CA");
    let trusted = roots(&[ca.der()]);
    let list = |serial: u64, until| {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: until,
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2001, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Revoked::from_file(params.signed_by(&ca).unwrap().pem().unwrap().as_bytes()).unwrap()
    };
    let chain = [signed(&leaf("a.example", &["a.example"]), &ca)];
    let (far, past) = (date_time_ymd(2900, 1, 1), date_time_ymd(2002, 1, 1));
    let says = |list: &Revoked| judge(Verify::Chain, &trusted, Some(list), &chain, "a.example");
    assert_eq!(says(&list(7, far)), "certificate revoked");
    assert_eq!(says(&list(8, far)), "good");
    assert_eq!(says(&list(8, past)), "CRL has expired");
}

#[test]
fn a_file_that_is_no_list_is_refused() {
    assert_eq!(Revoked::from_file(b"text").unwrap_err(), "no list in it (-----BEGIN X509 CRL-----)");
    let broken = "provided CRL could not be parsed";
    for file in [&[0x30, 0][..], b"0garbage", b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n"] {
        let says = Revoked::from_file(file).unwrap_err();
        assert!(says.contains(broken), "{says}");
    }
}

#[test]
fn names_with_a_star() {
    let is = |pattern, name| is_name(pattern, name);
    assert!(is("a.example", "A.example.") && is("*.a.example", "x.a.example"));
    assert!(!is("*.example", "a.example") && !is("*.a.example", "a.example") && !is("*.a.example", "x.y.a.example"));
    assert!(!is("*.a.example", ".a.example") && !is("x*.a.example", "xy.a.example"));
}

proptest! {
    #[test]
    fn any_bytes_are_judged_and_none_are_good(bytes in proptest::collection::vec(any::<u8>(), 0..300), checked: bool) {
        let ca = authority("Test CA");
        let verify = if checked { Verify::ChainAndName } else { Verify::Chain };
        let said = judge(verify, &roots(&[ca.der()]), None, &[CertificateDer::from(bytes)], "a.example");
        prop_assert_ne!(said, "good");
    }
}
