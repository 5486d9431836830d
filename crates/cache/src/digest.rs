// SPDX-License-Identifier: BSD-2-Clause
//! The key of an objhead: SHA-256 over what VCL hashed.

use sha2::{Digest as _, Sha256};

/// 32 bytes that name an objhead.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest's own bits as a hash: the digest is uniform already.
    pub(crate) fn hash(&self) -> u64 {
        let low: [u8; 8] = self.0[8..16].try_into().expect("eight bytes of thirty-two");
        u64::from_le_bytes(low)
    }

    /// The place of the digest among all digests, from 0 up to 1.
    pub(crate) fn share(&self) -> f64 {
        self.hash() as f64 / 2f64.powi(64)
    }

    /// The digest's shard, of `count` (a power of two).
    pub(crate) fn shard(&self, count: usize) -> usize {
        (usize::from(self.0[0]) << 8 | usize::from(self.0[1])) & (count - 1)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Collects the parts that `hash_data()` names, in order. A part's bytes go in bare, an unset one as a single NUL: the
/// digest is the one varnish-7.1 makes of the same parts (`req.hash`, the shard director's key).
#[derive(Clone, Default)]
pub struct DigestBuilder(Sha256);

impl DigestBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one part; `None` is an unset string.
    pub fn add(&mut self, part: Option<&[u8]>) {
        if base::failpoint::fault("a hash of the first part's first byte only") {
            return self.0.update(&part.unwrap_or(b"\0")[..1]);
        }
        self.0.update(part.unwrap_or(b"\0"));
    }

    /// The digest of all parts. Resets the builder.
    pub fn finish(&mut self) -> Digest {
        Digest(self.0.finalize_reset().into())
    }
}
