// SPDX-License-Identifier: BSD-2-Clause
//! A hash whose kind VCL names while it runs.

use sha2::Digest;
use sha2::digest::DynDigest;

/// The kinds, as ENUMs have them.
pub struct Hashing(Box<dyn DynDigest>);

impl Hashing {
    /// The hash of that name, of nothing yet.
    pub fn named(word: &str) -> Hashing {
        Hashing(match word {
            "md5" => Box::new(md5::Md5::new()),
            "sha1" => Box::new(sha1::Sha1::new()),
            "sha224" => Box::new(sha2::Sha224::new()),
            "sha256" => Box::new(sha2::Sha256::new()),
            "sha384" => Box::new(sha2::Sha384::new()),
            "sha512" => Box::new(sha2::Sha512::new()),
            other => unreachable!("{other} is no hash of the signatures"),
        })
    }

    /// More of what is hashed.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// Finishes the hash and returns it.
    pub fn finish(self) -> Vec<u8> {
        self.0.finalize().into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let bytes = |word: &str| {
            let mut hash = Hashing::named(word);
            hash.update(b"a");
            hash.update(b"bc");
            hash.finish()
        };
        assert_eq!(bytes("md5")[..4], [0x90, 0x01, 0x50, 0x98]);
        assert_eq!(bytes("sha256")[..4], [0xba, 0x78, 0x16, 0xbf]);
        let lens = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"].map(|word| bytes(word).len());
        assert_eq!(lens, [16, 20, 28, 32, 48, 64]);
    }
}
