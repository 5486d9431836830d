// SPDX-License-Identifier: BSD-2-Clause
//! Lists of OpenSSL's and what they leave.

use proptest::prelude::*;

use super::*;

fn names(list: &str) -> String {
    let suites = ciphers(list).unwrap_or_default();
    suites.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn lists_of_ciphers_mean_what_openssl_means() {
    // The numbers are those of the suites: ECDSA-AES256, RSA-AES256, ECDSA-CHACHA, RSA-CHACHA, ECDSA-AES128, RSA-AES128.
    for (list, expected) in [
        ("DEFAULT", "0 1 2 3 4 5"),
        ("EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH", "0 1 4 5"),
        ("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256", "5 4"),
        ("HIGH:!aNULL:!MD5:!CHACHA20", "0 1 4 5"),
        ("ALL:-AES128:AES128", "0 1 2 3 4 5"),
        ("ALL:!AES128:AES128", "0 1 2 3"),
        ("ALL:+aRSA", "0 2 4 1 3 5"),
        ("CHACHA20:HIGH@STRENGTH", ""),
        ("CHACHA20:@STRENGTH:@SECLEVEL=2", "2 3"),
        ("AES128-SHA:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES256-SHA", "1"),
        ("NOSUCH,ECDSA", "0 2 4"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "5"),
    ] {
        assert_eq!(names(list), expected, "{list}");
    }
    for list in ["()#/", "###$#$", "ALL:$x", "ALL:!"] {
        assert!(matches!(ciphers(list), Err(CipherError::List(_))), "{list}");
    }
    for list in ["", "AES128-SHA", "ALL:!ALL", "NOSUCH"] {
        assert!(matches!(ciphers(list), Err(CipherError::NoCipher(_))), "{list}");
    }
}

#[test]
fn suites_of_tls_1_3_have_their_own_list() {
    assert_eq!(ciphersuites("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256:TLS_AES_256_GCM_SHA384"), Ok(vec![8, 6]));
    assert!(matches!(ciphersuites("$#$&^^&"), Err(CipherError::Suites(_))));
    assert!(matches!(ciphersuites("ECDHE-RSA-AES128-GCM-SHA256"), Err(CipherError::Suites(_))));
    assert!(matches!(ciphersuites("TLS_AES_128_CCM_SHA256"), Err(CipherError::NoSuite(_))));
}

#[test]
fn versions_are_a_range() {
    let both = |list: &[&str]| Versions::between(&list.iter().map(|w| protocol(w).unwrap()).collect::<Vec<_>>());
    assert_eq!(both(&["tlsv1.2"]), Some(Versions { tls12: true, tls13: false }));
    assert_eq!(both(&["TLSv1.3", "TLSv1.0"]), Some(Versions { tls12: true, tls13: true }));
    assert_eq!((both(&["SSLv3", "TLSv1.1"]), both(&[]), protocol("TLSv2")), (None, None, None));
}

#[test]
fn only_what_is_spoken_is_offered() {
    assert_eq!(alpn("h3, h2, http/1.1"), (vec![1, 0], vec!["h3".to_owned()]));
    let overrides = Overrides { alpn: Some(vec![]), ..Overrides::default() };
    assert!(overrides.alpn().is_empty());
    assert_eq!(Overrides::default().alpn(), [&b"h2"[..], b"http/1.1"]);
}

#[test]
fn the_nearest_word_counts() {
    let near = Overrides { prefers_own_order: Some(false), client_ca: Some(1), ..Overrides::default() };
    let far = Overrides { prefers_own_order: Some(true), ciphers: Some(vec![1]), ..Overrides::default() };
    let both = near.over(&far);
    assert_eq!(
        (both.prefers_own_order, both.client_ca, both.ciphers.as_deref()),
        (Some(false), Some(1), Some(&[1][..]))
    );
}

#[test]
fn what_is_said_is_what_is_offered() {
    let overrides = Overrides {
        versions: Some(Versions { tls12: false, tls13: true }),
        ciphers: Some(vec![5]),
        ciphersuites: Some(vec![8]),
        groups: Some(vec![2]),
        ..Overrides::default()
    };
    let provider = overrides.provider();
    let suites: Vec<String> = provider.cipher_suites.iter().map(|s| format!("{:?}", s.suite())).collect();
    assert_eq!(suites, ["TLS13_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!((provider.kx_groups.len(), overrides.versions().len()), (1, 1));
    assert_eq!((Overrides::default().provider().cipher_suites.len(), Overrides::default().versions().len()), (9, 2));
}

fn some_numbers(limit: u8) -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::sample::subsequence((0..limit).collect::<Vec<_>>(), 0..=usize::from(limit)))
}

proptest! {
    #[test]
    fn settings_come_back(
        versions in proptest::option::of((any::<bool>(), any::<bool>())),
        lists in (some_numbers(6), some_numbers(9), some_numbers(3), some_numbers(1)),
        own: Option<bool>, ca: Option<u32>, verify in 0usize..4,
    ) {
        let versions = versions.filter(|(a, b)| *a || *b).map(|(tls12, tls13)| Versions { tls12, tls13 });
        let client_verify = [None, Some(ClientVerify::None), Some(ClientVerify::Optional), Some(ClientVerify::Required)][verify];
        let (ciphers, ciphersuites, groups, alpn) = lists;
        let given = Overrides { versions, ciphers, ciphersuites, groups, prefers_own_order: own, alpn, client_verify, client_ca: ca, client_crl: ca };
        prop_assert_eq!(Overrides::decode(&given.encode()), Some(given));
    }

    #[test]
    fn any_text_is_answered(text in ".{0,60}") {
        let _ = (Overrides::decode(&text), ciphers(&text), ciphersuites(&text), groups::groups(&text), alpn(&text));
    }
}
