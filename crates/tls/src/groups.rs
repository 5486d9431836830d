// SPDX-License-Identifier: BSD-2-Clause
//! Groups for key exchange: names, numbers, and those that are offered unless somebody chooses.

use rustls::NamedGroup;
use rustls::crypto::ring::{self, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};

use crate::hybrid::X25519MlKem768;

/// Names of each group, the registry's first. [`Overrides`](crate::settings::Overrides) keeps places in this list, and an upgrade hands them over:
/// new groups go to its end.
const GROUPS: [(&[&str], &dyn SupportedKxGroup); 4] = [
    (&["X25519"], kx_group::X25519),
    (&["secp256r1", "P-256", "prime256v1"], kx_group::SECP256R1),
    (&["secp384r1", "P-384"], kx_group::SECP384R1),
    (&["X25519MLKEM768"], &X25519MlKem768),
];

/// Places in [`GROUPS`] of what `auto` offers, best first. X25519 stands behind the hybrid, so that a client sends both shares.
const AUTO: [u8; 4] = [3, 0, 1, 2];

/// Groups that OpenSSL has and this library doesn't.
const FOREIGN: [&str; 16] = [
    "secp521r1",
    "P-521",
    "X448",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "secp256k1",
    "secp224r1",
    "P-224",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
];

/// The words of `ecdh-curve`. OpenSSL 3.5's marks (`?` for a group that may be unknown, `*` for one whose share is sent at once) are cut off, and
/// its `/` between sets of groups is a `:`.
fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', '/']).map(|word| word.trim().trim_start_matches(['?', '*']))
}

fn is_foreign(word: &str) -> bool {
    FOREIGN.iter().any(|name| name.eq_ignore_ascii_case(word))
}

/// Reads `ecdh-curve`: places of groups by preference; None is `auto`.
///
/// # Errors
/// A name that nobody knows, or none that is here.
pub fn groups(list: &str) -> Result<Option<Vec<u8>>, String> {
    if list.is_empty() || list.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for word in words(list) {
        let known = GROUPS.iter().position(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(word)));
        match known {
            Some(at) if !chosen.contains(&(at as u8)) => chosen.push(at as u8),
            Some(_) => {}
            None if is_foreign(word) => {}
            None => return Err(format!("Failed to set groups: '{list}': {word:?} is no group")),
        }
    }
    match chosen.is_empty() {
        false => Ok(Some(chosen)),
        true => Err(format!(
            "Failed to set groups: '{list}': there are X25519MLKEM768, X25519, prime256v1 and secp384r1 here"
        )),
    }
}

/// Names in `ecdh-curve` that are OpenSSL's and can't be offered here.
pub fn not_offered(list: &str) -> impl Iterator<Item = &str> {
    words(list).filter(|word| is_foreign(word))
}

pub(crate) const fn count() -> usize {
    GROUPS.len()
}

pub(crate) fn at(places: &[u8]) -> Vec<&'static dyn SupportedKxGroup> {
    places.iter().filter_map(|place| Some(GROUPS.get(usize::from(*place))?.1)).collect()
}

/// The name in the registry of a group by its number there.
pub(crate) fn name(number: u16) -> Option<&'static str> {
    GROUPS
        .iter()
        .find(|(_, group)| group.name() == NamedGroup::from(number))
        .and_then(|(names, _)| names.first().copied())
}

/// The cryptography of TLS, with the groups of `auto`.
pub fn provider() -> CryptoProvider {
    CryptoProvider { kx_groups: at(&AUTO), ..ring::default_provider() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_several_names() {
        assert_eq!(groups("auto"), Ok(None));
        assert_eq!(groups("P-384:prime256v1:secp521r1:X25519:secp256r1"), Ok(Some(vec![2, 1, 0])));
        assert_eq!(groups("?*X25519MLKEM768 / ?*x25519:P-256"), Ok(Some(vec![3, 0, 1])));
        assert!(groups("secp521r1").is_err() && groups("X25519:nonsense").is_err());
    }

    #[test]
    fn what_openssl_has_alone_is_named() {
        let list = "X25519:secp521r1:SecP256r1MLKEM768";
        assert_eq!(not_offered(list).collect::<Vec<_>>(), ["secp521r1", "SecP256r1MLKEM768"]);
    }

    #[test]
    fn auto_offers_all_groups_with_the_hybrid_first() {
        let names: Vec<_> = provider().kx_groups.iter().map(|group| name(group.name().into())).collect();
        assert_eq!(names, [Some("X25519MLKEM768"), Some("X25519"), Some("secp256r1"), Some("secp384r1")]);
        assert_eq!(name(25), None);
    }
}
