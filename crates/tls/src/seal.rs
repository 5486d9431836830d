// SPDX-License-Identifier: BSD-2-Clause
//! One direction's key: seals plaintext into records and opens them (RFC 8446 5.2, RFC 5288 3, RFC 7905 2).
//!
//! Records are opened where they lie. Sealing copies the plaintext behind the header that it gets, once, and encrypts it there.

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use crate::record::{Content, HEADER, MAX_PLAINTEXT};
use crate::{ErrorKind, TlsError, TlsVersion};

const TAG: usize = MAX_TAG_LEN;

/// Most that a record of TLS 1.3 carries beside its plaintext (RFC 8446 5.2); TLS 1.2 allows for more, which [`crate::record::whole`] knows.
const MAX_EXPANSION_13: usize = 256;

/// Most records under one key where the next one costs nothing (RFC 8446 5.5 has 2^24.5 for AES-GCM).
pub(crate) const MAX_RECORDS: u64 = 1 << 23;

/// Most records under the only key that AES-GCM has in TLS 1.2. ChaCha20-Poly1305 needs no limit.
pub(crate) const MAX_RECORDS_OLD: u64 = 1 << 24;

pub(crate) struct SealKey {
    aead: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The type is sealed with the plaintext, behind it.
    Tls13,
    /// The nonce's end stands before the ciphertext.
    Tls12Gcm,
    /// The nonce is the sequence number's.
    Tls12ChaCha,
}

impl Form {
    fn nonce_bytes(self) -> usize {
        match self {
            Form::Tls12Gcm => 8,
            Form::Tls13 | Form::Tls12ChaCha => 0,
        }
    }

    fn type_bytes(self) -> usize {
        match self {
            Form::Tls13 => 1,
            Form::Tls12Gcm | Form::Tls12ChaCha => 0,
        }
    }
}

impl SealKey {
    pub(crate) fn new(
        version: TlsVersion,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Self, TlsError> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(TlsError::new(ErrorKind::Internal, "a cipher that isn't known here")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref())
            .map_err(|_| TlsError::new(ErrorKind::Internal, "a key of another length than its cipher's"))?;
        let iv = iv
            .as_ref()
            .try_into()
            .map_err(|_| TlsError::new(ErrorKind::Internal, "a nonce of another length than 12"))?;
        let form = match version {
            TlsVersion::Tls13 => Form::Tls13,
            TlsVersion::Tls12 if *algorithm == CHACHA20_POLY1305 => Form::Tls12ChaCha,
            TlsVersion::Tls12 => Form::Tls12Gcm,
        };
        Ok(SealKey { aead: LessSafeKey::new(key), iv, sequence, form })
    }

    pub(crate) fn is_used_up(&self) -> bool {
        let most = match self.form {
            Form::Tls13 => MAX_RECORDS,
            Form::Tls12Gcm => MAX_RECORDS_OLD,
            Form::Tls12ChaCha => u64::MAX,
        };
        self.sequence >= most
    }

    pub(crate) fn sealed_len(&self, plain: usize) -> usize {
        HEADER + self.form.nonce_bytes() + plain + self.form.type_bytes() + TAG
    }

    /// Appends one record to `out`. `fill` appends its plaintext, at most [`MAX_PLAINTEXT`] bytes.
    pub(crate) fn seal(
        &mut self,
        content: Content,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), TlsError> {
        let start = out.len();
        let nonce = self.nonce();
        out.extend_from_slice(&[0; HEADER]);
        if self.form == Form::Tls12Gcm {
            out.extend_from_slice(&nonce[4..]);
        }
        let text = out.len();
        fill(out);
        let plain = out.len() - text;
        assert!(plain <= MAX_PLAINTEXT, "a record has at most 16 KB");
        if self.form == Form::Tls13 {
            out.push(content as u8);
        }
        let outer = if self.form == Form::Tls13 { Content::Data } else { content };
        let header = header(outer, out.len() + TAG - start - HEADER);
        out[start..start + HEADER].copy_from_slice(&header);
        let (aad, used) = self.aad(header, plain);
        let tag = self.aead.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(&aad[..used]),
            &mut out[text..],
        );
        let tag = tag.map_err(|_| TlsError::new(ErrorKind::Internal, "a record can't be sealed"))?;
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
        Ok(())
    }

    /// Opens a whole record where it lies: what it is about, and its plaintext.
    pub(crate) fn open<'a>(&mut self, record: &'a mut [u8]) -> Result<(Content, &'a mut [u8]), TlsError> {
        let (head, payload) = record.split_at_mut_checked(HEADER).ok_or_else(broken)?;
        let head: [u8; HEADER] = (&*head).try_into().map_err(|_| broken())?;
        let outer = Content::parse(head[0]).ok_or_else(broken)?;
        // Nothing but sealed records may come now: an alert or a change of ciphers in clear is anybody's.
        if self.form == Form::Tls13 && outer != Content::Data {
            return Err(TlsError::new(ErrorKind::Protocol, "a record in clear after the handshake"));
        }
        let mut nonce = self.nonce();
        let (explicit, sealed) = payload.split_at_mut_checked(self.form.nonce_bytes()).ok_or_else(broken)?;
        if self.form == Form::Tls12Gcm {
            nonce[4..].copy_from_slice(explicit);
        }
        // Told as what it is, whether it can be opened or not.
        if self.form == Form::Tls13 && sealed.len() > MAX_PLAINTEXT + MAX_EXPANSION_13 {
            return Err(TlsError::new(ErrorKind::Limit, "a record is longer than TLS allows"));
        }
        let plain = sealed.len().checked_sub(TAG).ok_or_else(broken)?;
        let (aad, used) = self.aad(head, plain);
        let opened = self.aead.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(&aad[..used]), sealed);
        let opened = opened.map_err(|_| broken())?;
        self.sequence += 1;
        let (content, length) = match self.form {
            Form::Tls13 => inner(opened)?,
            Form::Tls12Gcm | Form::Tls12ChaCha => (outer, opened.len()),
        };
        if length > MAX_PLAINTEXT {
            return Err(TlsError::new(ErrorKind::Limit, "a record has more plaintext than TLS allows"));
        }
        Ok((content, &mut opened[..length]))
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, of_sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= of_sequence;
        }
        nonce
    }

    /// The additional data that is authenticated, and its length.
    fn aad(&self, header: [u8; HEADER], plain: usize) -> ([u8; 13], usize) {
        let mut aad = [0; 13];
        if self.form == Form::Tls13 {
            aad[..HEADER].copy_from_slice(&header);
            return (aad, HEADER);
        }
        aad[..8].copy_from_slice(&self.sequence.to_be_bytes());
        aad[8..11].copy_from_slice(&header[..3]);
        // A record's length fits: it came, or goes, as two bytes.
        aad[11..].copy_from_slice(&u16::try_from(plain).unwrap_or(u16::MAX).to_be_bytes());
        (aad, 13)
    }
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealKey").field("sequence", &self.sequence).field("form", &self.form).finish_non_exhaustive()
    }
}

fn header(content: Content, length: usize) -> [u8; HEADER] {
    let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    [content as u8, 3, 3, high, low]
}

/// Content type and length of a record of TLS 1.3: behind the plaintext come the type and any number of zeros (RFC 8446
/// 5.2).
fn inner(opened: &[u8]) -> Result<(Content, usize), TlsError> {
    if opened.len() > MAX_PLAINTEXT + 1 {
        return Err(TlsError::new(ErrorKind::Limit, "a record has more plaintext than TLS allows"));
    }
    let at = opened.iter().rposition(|&byte| byte != 0);
    let typed = at.and_then(|at| Content::parse(opened[at]).map(|content| (content, at)));
    typed.ok_or_else(|| TlsError::new(ErrorKind::Protocol, "a record without a type"))
}

fn broken() -> TlsError {
    TlsError::new(ErrorKind::Decrypt, "a record can't be decrypted")
}

#[cfg(test)]
impl SealKey {
    pub(crate) const LIMIT: u64 = MAX_RECORDS;
    pub(crate) const LIMIT_OLD: u64 = MAX_RECORDS_OLD;

    pub(crate) fn age(&mut self, records: u64) {
        self.sequence += records;
    }
}
