// SPDX-License-Identifier: BSD-2-Clause
//! OpenSSL's lists of ciphers, for the suites that there are here: elliptic curves with AES-GCM or ChaCha20, and TLS 1.3's.
//!
//! Words, signs and classes as in openssl-ciphers(1). A word that names nothing is passed over, as OpenSSL does; a list that
//! leaves no suite, or that holds what can't be a word, is refused.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite as ring;

pub(super) struct Suite {
    openssl: &'static str,
    standard: &'static str,
    /// Words of lists that mean it, beside those that mean all of TLS 1.2's here.
    classes: &'static [&'static str],
    suite: SupportedCipherSuite,
}

/// Classes of every suite of TLS 1.2 here.
const COMMON: [&str; 10] = ["ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH", "AEAD"];

macro_rules! suites {
    ($($openssl:literal $standard:literal [$($class:literal)*] $suite:expr;)*) => {
        /// TLS 1.2's in OpenSSL's order of preference, then TLS 1.3's.
        pub(super) static SUITES: [Suite; [$($openssl),*].len()] = [$(Suite {
            openssl: $openssl,
            standard: $standard,
            classes: &[$($class),*],
            suite: $suite,
        }),*];
    };
}

suites! {
    "ECDHE-ECDSA-AES256-GCM-SHA384" "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" ["aECDSA" "ECDSA" "AES" "AES256" "AESGCM" "FIPS" "SUITEB128" "SUITEB128C2" "SUITEB192"] ring::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    "ECDHE-RSA-AES256-GCM-SHA384" "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" ["aRSA" "AES" "AES256" "AESGCM" "FIPS"] ring::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384;
    "ECDHE-ECDSA-CHACHA20-POLY1305" "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" ["aECDSA" "ECDSA" "CHACHA20"] ring::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
    "ECDHE-RSA-CHACHA20-POLY1305" "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" ["aRSA" "CHACHA20"] ring::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256;
    "ECDHE-ECDSA-AES128-GCM-SHA256" "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" ["aECDSA" "ECDSA" "AES" "AES128" "AESGCM" "FIPS" "SUITEB128" "SUITEB128C2" "SUITEB128ONLY"] ring::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    "ECDHE-RSA-AES128-GCM-SHA256" "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" ["aRSA" "AES" "AES128" "AESGCM" "FIPS"] ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
    "TLS_AES_256_GCM_SHA384" "TLS_AES_256_GCM_SHA384" [] ring::TLS13_AES_256_GCM_SHA384;
    "TLS_CHACHA20_POLY1305_SHA256" "TLS_CHACHA20_POLY1305_SHA256" [] ring::TLS13_CHACHA20_POLY1305_SHA256;
    "TLS_AES_128_GCM_SHA256" "TLS_AES_128_GCM_SHA256" [] ring::TLS13_AES_128_GCM_SHA256;
}

/// Number of suites of TLS 1.2 in [`SUITES`]: they stand first.
const TLS12: usize = 6;
/// TLS 1.3's that OpenSSL has and we don't.
const FOREIGN: [&str; 5] =
    ["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256", "TLS_SHA256_SHA256", "TLS_SHA384_SHA384", "TLS_SM4_GCM_SM3"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CipherError {
    /// Something in `ciphers` that can't be a word.
    List(String),
    /// `ciphers` leaves nothing that there is here.
    NoCipher(String),
    /// `ciphersuites` has a name that isn't TLS 1.3's.
    Suites(String),
    /// `ciphersuites` leaves nothing that there is here.
    NoSuite(String),
}

impl std::fmt::Display for CipherError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::List(list) => write!(f, "Invalid cipher list: {list}"),
            Self::NoCipher(list) => {
                write!(f, "Invalid cipher list: {list}: it leaves none of the ciphers that there are (")?;
                write_names(f, &SUITES[..TLS12])
            }
            Self::Suites(list) => write!(f, "Invalid ciphersuites: {list}"),
            Self::NoSuite(list) => {
                write!(f, "Invalid ciphersuites: {list}: it leaves none of those that there are (")?;
                write_names(f, &SUITES[TLS12..])
            }
        }
    }
}

fn write_names(f: &mut std::fmt::Formatter<'_>, suites: &[Suite]) -> std::fmt::Result {
    let names: Vec<&str> = suites.iter().map(|suite| suite.openssl).collect();
    write!(f, "{})", names.join(", "))
}

impl std::error::Error for CipherError {}

pub(super) fn suite(number: u8) -> Option<SupportedCipherSuite> {
    SUITES.get(usize::from(number)).map(|suite| suite.suite)
}

/// Reads `ciphers`: TLS 1.2's suites, by preference.
///
/// # Errors
/// See [`CipherError`].
pub fn ciphers(list: &str) -> Result<Vec<u8>, CipherError> {
    let (mut chosen, mut killed): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    for word in list.split([':', ',', ';', ' ']).filter(|word| !word.is_empty()) {
        // @STRENGTH sorts by length of keys: so they stand already. @SECLEVEL is below what all of these have.
        if word.starts_with('@') {
            continue;
        }
        let (sign, word) = match word.as_bytes()[0] {
            sign @ (b'!' | b'-' | b'+') => (sign, &word[1..]),
            _ => (0, word),
        };
        let meant = meant_by(word).ok_or_else(|| CipherError::List(list.to_owned()))?;
        let stays = |n: &u8| !meant.contains(n);
        match sign {
            b'!' => {
                chosen.retain(stays);
                killed.extend(meant);
            }
            b'-' => chosen.retain(stays),
            b'+' => {
                let moved: Vec<u8> = chosen.iter().copied().filter(|n| !stays(n)).collect();
                chosen.retain(stays);
                chosen.extend(moved);
            }
            _ => {
                let new: Vec<u8> = meant.into_iter().filter(|n| !chosen.contains(n) && !killed.contains(n)).collect();
                chosen.extend(new);
            }
        }
    }
    if chosen.is_empty() { Err(CipherError::NoCipher(list.to_owned())) } else { Ok(chosen) }
}

/// The suites of TLS 1.2 that a word means: classes joined by `+` mean what is in all of them. None: no word.
fn meant_by(word: &str) -> Option<Vec<u8>> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "-._=".contains(c);
    if word.is_empty() || !word.split('+').all(|class| !class.is_empty() && class.chars().all(is_sign)) {
        return None;
    }
    let within = |suite: &Suite| word.split('+').all(|class| is_in(suite, class));
    Some((0..TLS12).filter(|at| within(&SUITES[*at])).map(|at| at as u8).collect())
}

fn is_in(suite: &Suite, class: &str) -> bool {
    COMMON.contains(&class)
        || suite.classes.contains(&class)
        || class.eq_ignore_ascii_case(suite.openssl)
        || class == suite.standard
}

/// Reads `ciphersuites`: TLS 1.3's, by preference.
///
/// # Errors
/// See [`CipherError`].
pub fn ciphersuites(list: &str) -> Result<Vec<u8>, CipherError> {
    let mut chosen: Vec<u8> = Vec::new();
    for word in list.split(':').filter(|word| !word.is_empty()) {
        match (TLS12..SUITES.len()).find(|at| SUITES[*at].standard == word) {
            Some(at) if !chosen.contains(&(at as u8)) => chosen.push(at as u8),
            Some(_) => {}
            None if FOREIGN.contains(&word) => {}
            None => return Err(CipherError::Suites(list.to_owned())),
        }
    }
    if chosen.is_empty() { Err(CipherError::NoSuite(list.to_owned())) } else { Ok(chosen) }
}
