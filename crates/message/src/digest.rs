// SPDX-License-Identifier: BSD-2-Clause
//! Digest fields (RFC 9530): checksums of a message's content and of the representation that it is of.
//!
//! Fields are read here; who has the bytes calculates checksums.

use crate::Head;
use crate::structured::{Dictionary, FieldItem};

/// `Content-Digest`: digests of the content, which is a part of the representation in a 206.
pub const CONTENT_DIGEST: &str = "Content-Digest";
/// `Repr-Digest`: digests of the whole representation, in its content coding.
pub const REPR_DIGEST: &str = "Repr-Digest";
/// `Want-Content-Digest`: the digests of the content that the sender would like.
pub const WANT_CONTENT_DIGEST: &str = "Want-Content-Digest";
/// `Want-Repr-Digest`: the digests of the representation that the sender would like.
pub const WANT_REPR_DIGEST: &str = "Want-Repr-Digest";

/// Fields that describe a body, and not any other that is made of it.
pub const OF_A_BODY: [&str; 2] = [CONTENT_DIGEST, REPR_DIGEST];

/// Removes the digests of a body that isn't the one that the head, or the trailers, are sent with.
pub fn remove(head: &mut Head) {
    for name in OF_A_BODY {
        head.unset(name);
    }
}

/// Hash algorithms that are calculated here: the registry's active ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl DigestAlgorithm {
    const ALL: [DigestAlgorithm; 2] = [DigestAlgorithm::Sha256, DigestAlgorithm::Sha512];

    /// The key in the registry "Hash Algorithms for HTTP Digest Fields".
    pub const fn key(self) -> &'static str {
        match self {
            DigestAlgorithm::Sha256 => "sha-256",
            DigestAlgorithm::Sha512 => "sha-512",
        }
    }

    /// The field's value with this digest alone.
    pub fn field(self, digest: &[u8]) -> String {
        format!("{}=:{}:", self.key(), base::base64::encode(digest))
    }
}

/// The digests of a field that can be verified here. One in another algorithm or of another type is left out, and so is all of a field that is
/// no dictionary.
pub fn digests(value: &[u8]) -> Vec<(DigestAlgorithm, Vec<u8>)> {
    let Some(dictionary) = Dictionary::parse(value) else { return Vec::new() };
    let known = |key: &[u8]| DigestAlgorithm::ALL.into_iter().find(|algorithm| algorithm.key().as_bytes() == key);
    let pairs = dictionary.members().filter_map(|(key, item)| {
        let FieldItem::Bytes(digest) = item else { return None };
        Some((known(key)?, digest.clone()))
    });
    pairs.collect()
}

/// True if a field of wishes accepts a digest in that algorithm: with a weight from 1 to 10.
pub fn is_wanted(value: &[u8], algorithm: DigestAlgorithm) -> bool {
    let Some(dictionary) = Dictionary::parse(value) else { return false };
    dictionary.members().any(|(key, item)| {
        key == algorithm.key().as_bytes() && matches!(item, FieldItem::Integer(weight) if (1..=10).contains(weight))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHA256: &str = "d435Qo+nKZ+gLcUHn7GQtQ72hiBVAgqoLsZnZPiTGPk=";
    const SHA512: &str = "YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==";

    fn check(value: &str, want: &[(DigestAlgorithm, &str)]) {
        let got: Vec<_> = digests(value.as_bytes())
            .into_iter()
            .map(|(algorithm, digest)| (algorithm, base::base64::encode(&digest)))
            .collect();
        let want: Vec<_> = want.iter().map(|(algorithm, text)| (*algorithm, (*text).to_owned())).collect();
        assert_eq!(got, want, "{value}");
    }

    #[test]
    fn the_examples_of_the_rfc() {
        use DigestAlgorithm::{Sha256, Sha512};
        check(&format!("sha-512=:{SHA512}:"), &[(Sha512, SHA512)]);
        check(&format!("sha-256=:{SHA256}:,  sha-512=:{SHA512}:"), &[(Sha256, SHA256), (Sha512, SHA512)]);
        assert_eq!(Sha256.field(&base::base64::decode(SHA256.as_bytes()).unwrap()), format!("sha-256=:{SHA256}:"));
    }

    #[test]
    fn what_cant_be_verified_is_left_out() {
        use DigestAlgorithm::Sha256;
        check("md5=:1B2M2Y8AsgTpgAmY7PhCfg==:, sha-256=:AAAA:;x=1", &[(Sha256, "AAAA")]);
        check("sha-256=:AAAA:, sha-256=:AAAB:", &[(Sha256, "AAAB")]);
        check("sha-256=\"AAAA\"", &[]);
        check("sha-256=AAAA", &[]);
        check("sha-256", &[]);
        check("sha-256=(:AAAA:)", &[]);
        for broken in
            ["sha-256=:AA AA:", "sha-256=:AAAA", "SHA-256=:AAAA:", "sha-256=:AAAA:, ", "sha-256=:A:", "=:AAAA:"]
        {
            check(broken, &[]);
        }
    }

    #[test]
    fn wishes_have_weights() {
        let wanted = |text: &str| DigestAlgorithm::ALL.map(|algorithm| is_wanted(text.as_bytes(), algorithm));
        assert_eq!(wanted("sha-256=1"), [true, false]);
        assert_eq!(wanted("sha-512=3, sha-256=10, unixsum=0"), [true, true]);
        assert_eq!(wanted("sha-256=0, sha-512=11"), [false, false]);
        assert_eq!(wanted("sha-256, sha-512=1.0"), [false, false]);
        assert_eq!(wanted("sha-256=1,"), [false, false]);
    }

    proptest! {
        #[test]
        fn a_digest_that_is_written_is_read(digest in proptest::collection::vec(any::<u8>(), 0..70), is_short: bool) {
            let algorithm = if is_short { DigestAlgorithm::Sha256 } else { DigestAlgorithm::Sha512 };
            prop_assert_eq!(digests(algorithm.field(&digest).as_bytes()), vec![(algorithm, digest)]);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(sha-256|sha-512|md5|=|:|,| |;|[A-Za-z0-9+/=]){0,20}") {
            let found = digests(text.as_bytes());
            prop_assert!(found.len() <= 2);
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (digests(&text), is_wanted(&text, DigestAlgorithm::Sha256));
        }
    }
}
