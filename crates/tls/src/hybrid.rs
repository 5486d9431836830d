// SPDX-License-Identifier: BSD-2-Clause
//! X25519MLKEM768: a key exchange that neither breaks with X25519 nor with ML-KEM-768 (FIPS 203) alone (draft-ietf-tls-ecdhe-mlkem).
//!
//! | | ML-KEM-768's part | X25519's part |
//! | --- | --- | --- |
//! | client's share | encapsulation key, 1,184 bytes | 32 bytes |
//! | server's share | ciphertext, 1,088 bytes | 32 bytes |
//! | secret | 32 bytes | 32 bytes |

use libcrux_ml_kem::mlkem768::{self, MlKem768Ciphertext, MlKem768KeyPair, MlKem768PublicKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};
use zeroize::Zeroizing;

const KEY: usize = MlKem768PublicKey::len();
const CIPHERTEXT: usize = MlKem768Ciphertext::len();

#[derive(Debug)]
pub(crate) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let x25519 = X25519.start()?;
        let pair = mlkem768::generate_key_pair(*random::<64>()?);
        let share = [pair.pk().as_slice(), x25519.pub_key()].concat();
        Ok(Box::new(Started { x25519, pair, share }))
    }

    fn start_and_complete(&self, client_share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, theirs) = split::<KEY>(client_share)?;
        let key = MlKem768PublicKey::from(*key);
        if !mlkem768::validate_public_key(&key) {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        let classical = X25519.start_and_complete(theirs)?;
        let (ciphertext, secret) = mlkem768::encapsulate(&key, *random::<32>()?);
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [ciphertext.as_slice().as_slice(), &classical.pub_key].concat(),
            secret: joined(secret, &classical.secret),
        })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    /// TLS 1.2 has no key shares.
    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// A client's half, until the server's share is there.
struct Started {
    x25519: Box<dyn ActiveKeyExchange>,
    pair: MlKem768KeyPair,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, server_share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, theirs) = split::<CIPHERTEXT>(server_share)?;
        let classical = self.x25519.complete(theirs)?;
        let secret = mlkem768::decapsulate(self.pair.private_key(), &MlKem768Ciphertext::from(*ciphertext));
        Ok(joined(secret, &classical))
    }

    /// The share of X25519 goes along, so that a server without ML-KEM need not ask again.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.x25519.group(), self.x25519.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, server_share: &[u8]) -> Result<SharedSecret, Error> {
        self.x25519.complete(server_share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// ML-KEM's part of a share, N bytes long, and X25519's behind it, which X25519 itself judges.
fn split<const N: usize>(share: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    share.split_first_chunk().ok_or_else(|| PeerMisbehaved::InvalidKeyShare.into())
}

fn joined(post_quantum: [u8; 32], classical: &SharedSecret) -> SharedSecret {
    let post_quantum = Zeroizing::new(post_quantum);
    SharedSecret::from([post_quantum.as_slice(), classical.secret_bytes()].concat())
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Error> {
    let mut bytes = Zeroizing::new([0; N]);
    SystemRandom::new().fill(bytes.as_mut_slice()).map_err(|_| Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(client_share: impl Fn(&mut Vec<u8>), server_share: impl Fn(&mut Vec<u8>)) -> Result<bool, Error> {
        let client = X25519MlKem768.start()?;
        let mut share = client.pub_key().to_vec();
        client_share(&mut share);
        let mut server = X25519MlKem768.start_and_complete(&share)?;
        server_share(&mut server.pub_key);
        Ok(client.complete(&server.pub_key)?.secret_bytes() == server.secret.secret_bytes())
    }

    #[test]
    fn both_ends_have_one_secret_of_64_bytes() {
        assert_eq!(secrets(|_| {}, |_| {}), Ok(true));
        let client = X25519MlKem768.start().unwrap();
        let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
        assert_eq!(
            (client.pub_key().len(), server.pub_key.len(), server.secret.secret_bytes().len()),
            (1216, 1120, 64)
        );
    }

    #[test]
    fn x25519_alone_is_the_last_part_of_the_share() {
        let client = X25519MlKem768.start().unwrap();
        let (group, share) = client.hybrid_component().unwrap();
        assert_eq!((group, share), (NamedGroup::X25519, &client.pub_key()[1184..]));
        let server = X25519.start_and_complete(share).unwrap();
        let secret = client.complete_hybrid_component(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    }

    #[test]
    fn a_changed_share_gives_another_secret() {
        assert_eq!(secrets(|_| {}, |server| server[0] ^= 1), Ok(false), "ciphertext");
        assert_eq!(secrets(|_| {}, |server| server[1088] ^= 1), Ok(false), "X25519 of the server");
        assert_eq!(secrets(|client| client[1183] ^= 1, |_| {}), Ok(false), "seed in the encapsulation key");
    }

    #[test]
    fn a_share_of_another_length_is_refused() {
        for cut in [0, 32, 1087, 1183, 1184, 1215] {
            assert!(secrets(|client| client.truncate(cut), |_| {}).is_err(), "client {cut}");
        }
        for cut in [0, 32, 1087, 1088, 1119] {
            assert!(secrets(|_| {}, |server| server.truncate(cut)).is_err(), "server {cut}");
        }
        assert!(secrets(|client| client.push(0), |_| {}).is_err());
        assert!(secrets(|_| {}, |server| server.push(0)).is_err());
    }

    #[test]
    fn a_key_with_numbers_beyond_the_modulus_is_refused() {
        assert_eq!(secrets(|client| client[..3].fill(0xff), |_| {}), Err(PeerMisbehaved::InvalidKeyShare.into()));
    }
}
