// SPDX-License-Identifier: BSD-2-Clause
//! What a kernel has to know to seal in our place (`struct tls12_crypto_info_*` of linux/tls.h), and records on their way to it.
//!
//! A kernel takes data as it is. What else there is to be said waits in the same form as our own records, only in clear: see
//! [`record`].

use std::collections::VecDeque;

use rustls::ConnectionTrafficSecrets;
use zeroize::Zeroizing;

use crate::record::{Content, HEADER};
use crate::seal::{MAX_RECORDS, MAX_RECORDS_OLD};
use crate::{ErrorKind, TlsError, TlsVersion};

const AES_GCM_128: u16 = 51;
const AES_GCM_256: u16 = 52;
const CHACHA20_POLY1305: u16 = 54;

const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;

/// The longest of the structures: AES-256-GCM's and ChaCha20-Poly1305's.
const MAX_BYTES: usize = 56;

/// Bytes of a nonce that are the same for all records of AES-GCM.
const SALT: usize = 4;

/// A key for one direction, as a kernel takes it. It is wiped when it goes.
#[derive(Clone)]
pub struct KtlsKey(Zeroizing<Vec<u8>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KtlsAbility {
    /// The kernel accepts key changes on a connection (Linux 6.14).
    pub changes_keys: bool,
}

impl KtlsKey {
    /// # Errors
    /// No kernel knows this cipher.
    pub(crate) fn new(
        version: TlsVersion,
        sequence: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Result<Self, TlsError> {
        let (cipher, key, iv): (u16, &[u8], &[u8]) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AES_GCM_128, key.as_ref(), iv.as_ref()),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (AES_GCM_256, key.as_ref(), iv.as_ref()),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (CHACHA20_POLY1305, key.as_ref(), iv.as_ref()),
            _ => return Err(TlsError::new(ErrorKind::Internal, "a cipher that isn't known here")),
        };
        let nonce: [u8; 12] =
            iv.try_into().map_err(|_| TlsError::new(ErrorKind::Internal, "a nonce of another length than 12"))?;
        Ok(KtlsKey::laid_out(version, cipher, key, &nonce, sequence))
    }

    fn laid_out(version: TlsVersion, cipher: u16, key: &[u8], nonce: &[u8; 12], sequence: u64) -> Self {
        let number: u16 = match version {
            TlsVersion::Tls13 => TLS13,
            TlsVersion::Tls12 => TLS12,
        };
        // All at once: growing would leave copies of a key behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES));
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.extend_from_slice(&cipher.to_ne_bytes());
        match (cipher, version) {
            (CHACHA20_POLY1305, _) => bytes.extend_from_slice(nonce),
            (_, TlsVersion::Tls13) => bytes.extend_from_slice(&nonce[SALT..]),
            (_, TlsVersion::Tls12) => bytes.extend_from_slice(&next_explicit(nonce, sequence)),
        }
        bytes.extend_from_slice(key);
        if cipher != CHACHA20_POLY1305 {
            bytes.extend_from_slice(&nonce[..SALT]);
        }
        bytes.extend_from_slice(&sequence.to_be_bytes());
        KtlsKey(bytes)
    }

    /// For a try: a key of nobody's, for TLS 1.3 and AES-128-GCM.
    pub fn of_nobody() -> Self {
        KtlsKey::laid_out(TlsVersion::Tls13, AES_GCM_128, &[0; 16], &[0; 12], 0)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn version(&self) -> TlsVersion {
        if self.0[..2] == TLS13.to_ne_bytes() { TlsVersion::Tls13 } else { TlsVersion::Tls12 }
    }
}

impl std::fmt::Debug for KtlsKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KtlsKey").field("version", &self.version()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct KtlsTx {
    ability: KtlsAbility,
    /// Upper bound of the records that the kernel has made so far.
    records: u64,
    most_records: u64,
    /// Keys that it is to be given once the messages before them are with it.
    pub(crate) next_keys: VecDeque<KtlsKey>,
}

impl KtlsTx {
    pub(crate) fn new(version: TlsVersion, ability: KtlsAbility) -> Self {
        let most_records = match version {
            TlsVersion::Tls13 => MAX_RECORDS,
            TlsVersion::Tls12 => MAX_RECORDS_OLD,
        };
        KtlsTx { ability, records: 0, most_records, next_keys: VecDeque::new() }
    }

    pub(crate) fn note_given(&mut self, bytes: usize) {
        // A record has a page at least, where it isn't the last one of the call.
        self.records += (bytes / 4096) as u64 + 1;
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.records >= self.most_records
    }

    /// Appends a message that says that there is a new key, and keeps that for later. `next` makes it.
    pub(crate) fn change_key(
        &mut self,
        message: &[u8],
        out: &mut Vec<u8>,
        next: impl FnOnce() -> Result<KtlsKey, TlsError>,
    ) -> Result<(), TlsError> {
        if !self.ability.changes_keys {
            return Err(TlsError::new(ErrorKind::Exhausted, "the kernel can't change the key"));
        }
        self.next_keys.push_back(next()?);
        self.records = 0;
        put(Content::Handshake, out, |out| out.extend_from_slice(message));
        Ok(())
    }
}

/// First explicit nonce for AES-GCM in TLS 1.2; the kernel counts on from it. Earlier records were sealed with the
/// sequence number exclusive-or'ed to the same bytes: this value is above all of those, as no nonce may come twice.
fn next_explicit(nonce: &[u8; 12], sequence: u64) -> [u8; 8] {
    let mut explicit = [0; 8];
    explicit.copy_from_slice(&nonce[SALT..]);
    // Each number below `sequence` changes no other bits than these.
    let used = sequence.next_power_of_two() - 1;
    (u64::from_be_bytes(explicit) | used).wrapping_add(1).to_be_bytes()
}

/// Appends a record that the kernel is to seal: our header, and what it says in clear.
pub(crate) fn put(content: Content, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[content as u8, 3, 3, 0, 0]);
    fill(out);
    let length = u16::try_from(out.len() - start - HEADER).expect("a record has at most 16 KB");
    out[start + 3..start + HEADER].copy_from_slice(&length.to_be_bytes());
}

/// The first of records for the kernel: its type, and what it says. `bytes` aren't empty.
pub fn record(bytes: &[u8]) -> (u8, &[u8]) {
    let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
    (bytes[0], &bytes[HEADER..HEADER + length])
}

/// Bytes that such a record takes here, beside what it says.
pub const RECORD_HEADER: usize = HEADER;

/// True if a new key follows a record of this type: a key update is the only handshake message that a server still
/// sends then.
pub fn is_key_update(kind: u8) -> bool {
    kind == Content::Handshake as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

    /// The structure of linux/tls.h: version and cipher, then these fields; the record's number is the last one.
    fn check(version: TlsVersion, cipher: u16, key: &[u8], fields: &[&[u8]]) {
        let made = KtlsKey::laid_out(version, cipher, key, &NONCE, 0x0102);
        let number: u16 = if version == TlsVersion::Tls13 { 0x0304 } else { 0x0303 };
        let mut wanted = [number, cipher].map(u16::to_ne_bytes).concat();
        wanted.extend(fields.concat());
        wanted.extend([0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((made.bytes(), made.version()), (&wanted[..], version));
        assert!(made.bytes().len() <= MAX_BYTES);
    }

    #[test]
    fn aes_gcm_has_its_salt_behind_the_key() {
        check(TlsVersion::Tls13, 51, &[7; 16], &[&NONCE[4..], &[7; 16], &NONCE[..4]]);
        check(TlsVersion::Tls13, 52, &[7; 32], &[&NONCE[4..], &[7; 32], &NONCE[..4]]);
        let next = [5, 6, 7, 8, 9, 10, 12, 0];
        check(TlsVersion::Tls12, 51, &[7; 16], &[&next, &[7; 16], &NONCE[..4]]);
        check(TlsVersion::Tls12, 52, &[7; 32], &[&next, &[7; 32], &NONCE[..4]]);
    }

    #[test]
    fn chacha20_has_a_whole_nonce_and_no_salt() {
        for version in [TlsVersion::Tls13, TlsVersion::Tls12] {
            check(version, 54, &[7; 32], &[&NONCE, &[7; 32]]);
        }
    }

    #[test]
    fn a_nonce_of_tls_1_2_never_comes_twice() {
        for last in 0..=255 {
            for sequence in 0..20 {
                let nonce = [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, last];
                let ours = |n: u64| u64::from_be_bytes([1, 1, 1, 1, 1, 1, 1, last]) ^ n;
                let first = u64::from_be_bytes(next_explicit(&nonce, sequence));
                assert!((0..sequence).all(|n| ours(n) < first && first - ours(n) < 100), "{last} {sequence}");
            }
        }
        assert_eq!(next_explicit(&[255; 12], 1), [0; 8], "it goes on from the beginning");
    }

    #[test]
    fn a_record_for_the_kernel_tells_its_type() {
        let mut out = Vec::new();
        put(Content::Alert, &mut out, |out| out.extend_from_slice(&[1, 0]));
        put(Content::Handshake, &mut out, |out| out.extend_from_slice(&[24, 0, 0, 1, 0]));
        assert_eq!(record(&out), (21, &[1, 0][..]));
        assert_eq!(record(&out[RECORD_HEADER + 2..]), (22, &[24, 0, 0, 1, 0][..]));
        assert!(is_key_update(22) && !is_key_update(21));
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", KtlsKey::of_nobody()), "KtlsKey { version: Tls13, .. }");
        assert_eq!(KtlsKey::of_nobody().bytes().len(), 40);
    }
}
