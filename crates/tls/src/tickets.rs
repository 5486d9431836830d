// SPDX-License-Identifier: BSD-2-Clause
//! Keys for session tickets: one set for all threads, workers and servers of a fleet that share them, in place of sessions kept
//! in memory (RFC 5077, RFC 8446 4.6.1).
//!
//! New tickets are sealed with the first key; the others open what was sealed before a rotation. A ticket is bound to where it
//! was given: one from a listener that asks for no client certificate is worth nothing at one that does.

use std::sync::Arc;

use arc_swap::ArcSwap;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Prk};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;
use zeroize::{Zeroize, Zeroizing};

/// Seconds for which a session may be resumed. Keys live at least as long after the last ticket that they sealed.
pub const LIFETIME_SECONDS: u32 = 12 * 3600;
pub const MOST_KEYS: usize = 8;
const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"LQTKEYS\x01";

#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    name: [u8; NAME_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl Drop for TicketKey {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl TicketKey {
    /// A new one; None when the system has no random numbers.
    pub fn random() -> Option<TicketKey> {
        let (mut name, mut secret) = ([0; NAME_BYTES], [0; SECRET_BYTES]);
        let random = SystemRandom::new();
        random.fill(&mut name).and_then(|()| random.fill(&mut secret)).ok()?;
        Some(TicketKey { name, secret })
    }

    /// Parses a line of a file: 48 or 80 random bytes, as `openssl rand -base64 80 -A` prints them and HAProxy takes
    /// them.
    fn from_line(line: &str) -> Option<TicketKey> {
        let bytes = Zeroizing::new(base::base64::decode(line.as_bytes())?);
        if !matches!(bytes.len(), 48 | 80) {
            return None;
        }
        let (name, rest) = bytes.split_first_chunk::<NAME_BYTES>()?;
        let secret = digest(&SHA256, rest).as_ref().try_into().ok()?;
        Some(TicketKey { name: *name, secret })
    }
}

/// Keys of a file that the servers of a fleet share: one a line, the first for new tickets.
///
/// # Errors
/// A line that isn't a key, none, or more than [`MOST_KEYS`].
pub fn read(file: &str) -> Result<Vec<TicketKey>, String> {
    let lines = file.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
        TicketKey::from_line(line)
            .ok_or_else(|| format!("line {number} isn't 48 or 80 bytes in base64: openssl rand -base64 80 -A"))
    });
    let keys: Vec<TicketKey> = keys.take(MOST_KEYS + 1).collect::<Result<_, _>>()?;
    match keys.len() {
        0 => Err("there is no key in it: openssl rand -base64 80 -A makes one".to_owned()),
        n if n > MOST_KEYS => Err(format!("there are more than {MOST_KEYS} keys in it")),
        _ => Ok(keys),
    }
}

pub fn encode(keys: &[TicketKey]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(MAGIC.len() + keys.len() * (NAME_BYTES + SECRET_BYTES)));
    out.extend_from_slice(MAGIC);
    for key in keys {
        out.extend_from_slice(&key.name);
        out.extend_from_slice(&key.secret);
    }
    out
}

pub fn decode(bytes: &[u8]) -> Option<Vec<TicketKey>> {
    let (keys, rest) = bytes.strip_prefix(MAGIC)?.as_chunks::<{ NAME_BYTES + SECRET_BYTES }>();
    let key = |bytes: &[u8; NAME_BYTES + SECRET_BYTES]| {
        let (name, secret) = bytes.split_first_chunk().expect("a key begins with its name");
        TicketKey { name: *name, secret: secret.try_into().expect("the secret is the rest") }
    };
    (rest.is_empty() && keys.len() <= MOST_KEYS).then(|| keys.iter().map(key).collect())
}

struct Ready {
    name: [u8; NAME_BYTES],
    secret: Prk,
}

impl Ready {
    /// The key of one ticket. A key that a fleet shares may seal more tickets than random nonces allow for one key (2^32), and nobody
    /// counts them: so each ticket has its own, by a salt of its own.
    fn of_ticket(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        Some(LessSafeKey::new(self.secret.expand(&[salt], &AES_256_GCM).ok()?.into()))
    }
}

/// Good for one message under a key.
fn the_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[derive(Clone, Default)]
pub struct Tickets(Arc<ArcSwap<Vec<Ready>>>);

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tickets({})", self.0.load().len())
    }
}

impl Tickets {
    /// These keys from now on. Without any there are no tickets.
    pub fn replace(&self, keys: &[TicketKey]) {
        let ready =
            keys.iter().map(|key| Ready { name: key.name, secret: Prk::new_less_safe(HKDF_SHA256, &key.secret) });
        self.0.store(Arc::new(ready.collect()));
    }

    /// Tickets for one place: `binding` is all that has to be the same where they are taken.
    pub fn bound_to(&self, binding: &[u8]) -> Arc<Ticketer> {
        let binding = digest(&SHA256, binding).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Arc::new(Ticketer { tickets: self.clone(), binding, random: SystemRandom::new(), makes_new: true })
    }
}

/// Makes and takes the tickets of one place: the key's name, a salt, the sealed session.
#[derive(Debug, Clone)]
pub struct Ticketer {
    tickets: Tickets,
    binding: [u8; 32],
    random: SystemRandom,
    makes_new: bool,
}

impl Ticketer {
    /// One that takes tickets and makes none: a session of TLS 1.2 that is taken up by it goes on with the ticket it came with.
    pub(crate) fn taking(&self) -> Ticketer {
        Ticketer { makes_new: false, ..self.clone() }
    }

    /// Digest input that ties tickets to one place.
    pub(crate) fn binding(&self) -> &[u8] {
        &self.binding
    }

    /// True if the ticket looks like one of the key that new ones are made with, so that its holder needs no other (as
    /// with OpenSSL). Anybody can write that key's name: a client that does, and is wrong, gets no ticket.
    pub(crate) fn is_fresh(&self, ticket: &[u8]) -> bool {
        self.tickets.0.load().first().is_some_and(|ready| ticket.starts_with(&ready.name))
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        self.makes_new && !self.tickets.0.load().is_empty()
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.tickets.0.load();
        let ready = keys.first()?;
        let mut salt = [0; SALT_BYTES];
        self.random.fill(&mut salt).ok()?;
        let mut out = Vec::with_capacity(NAME_BYTES + SALT_BYTES + plain.len() + AES_256_GCM.tag_len());
        out.extend_from_slice(&ready.name);
        out.extend_from_slice(&salt);
        out.extend_from_slice(plain);
        let (_, sealed) = out.split_at_mut(NAME_BYTES + SALT_BYTES);
        let key = ready.of_ticket(&salt)?;
        let tag = key.seal_in_place_separate_tag(the_nonce(), Aad::from(self.binding), sealed).ok()?;
        out.extend_from_slice(tag.as_ref());
        Some(out)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = cipher.split_first_chunk::<NAME_BYTES>()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_BYTES>()?;
        let keys = self.tickets.0.load();
        let ready = keys.iter().find(|ready| ready.name == *name)?;
        let mut sealed = sealed.to_vec();
        let key = ready.of_ticket(salt)?;
        let len = key.open_in_place(the_nonce(), Aad::from(self.binding), &mut sealed).ok()?.len();
        sealed.truncate(len);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> TicketKey {
        TicketKey::random().unwrap()
    }

    #[test]
    fn a_ticket_is_taken_until_its_key_is_gone() {
        let (old, new) = (key(), key());
        let tickets = Tickets::default();
        let place = tickets.bound_to(b"here");
        assert!(!place.enabled() && place.encrypt(b"session").is_none());
        tickets.replace(std::slice::from_ref(&old));
        let ticket = place.encrypt(b"session").unwrap();
        assert!(place.enabled() && ticket.windows(7).all(|bytes| bytes != b"session"));
        tickets.replace(&[new.clone(), old]);
        assert_eq!(place.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(place.encrypt(b"").unwrap()[..NAME_BYTES], new.name);
        tickets.replace(&[new]);
        assert_eq!(place.decrypt(&ticket), None);
    }

    #[test]
    fn a_ticket_of_another_place_or_a_damaged_one_is_worth_nothing() {
        let tickets = Tickets::default();
        tickets.replace(&[key()]);
        let mut ticket = tickets.bound_to(b"here").encrypt(b"session").unwrap();
        assert_eq!(tickets.bound_to(b"there").decrypt(&ticket), None);
        assert_eq!(tickets.bound_to(b"here").decrypt(&ticket[..20]), None);
        for at in [0, NAME_BYTES, NAME_BYTES + SALT_BYTES, ticket.len() - 1] {
            ticket[at] ^= 1;
            assert_eq!(tickets.bound_to(b"here").decrypt(&ticket), None, "{at}");
            ticket[at] ^= 1;
        }
        assert!(tickets.bound_to(b"here").decrypt(&ticket).is_some());
        assert_eq!(tickets.bound_to(b"here").decrypt(b""), None);
    }

    #[test]
    fn each_ticket_has_a_key_of_its_own() {
        let tickets = Tickets::default();
        tickets.replace(&[key()]);
        let place = tickets.bound_to(b"here");
        let sealed = || place.encrypt(&[0; 64]).unwrap()[NAME_BYTES + SALT_BYTES..].to_vec();
        // Under one key with one nonce these would be the same.
        assert_ne!(sealed(), sealed());
    }

    #[test]
    fn servers_with_the_same_file_take_each_others_tickets() {
        let line = "A".repeat(106) + "A=";
        let file = format!("# fleet\n\n{line}\n{}\n", "B".repeat(64));
        let keys = read(&file).unwrap();
        assert_eq!((keys.len(), keys == read(&file).unwrap(), keys[0] == keys[1]), (2, true, false));
        for (bad, reason) in [("", "no key"), ("AAAA", "line 1"), ("\n?", "line 2")] {
            assert!(read(bad).unwrap_err().contains(reason), "{bad:?}");
        }
        assert!(read(&format!("{line}\n").repeat(MOST_KEYS + 1)).unwrap_err().contains("more than"));
    }

    #[test]
    fn keys_come_back() {
        let keys = vec![key(), key()];
        let bytes = encode(&keys);
        assert_eq!(decode(&bytes), Some(keys));
        assert!(decode(&bytes[..bytes.len() - 1]).is_none() && decode(b"").is_none());
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(text in ".{0,120}", bytes: Vec<u8>) {
            let _ = (read(&text), decode(&bytes));
            let tickets = Tickets::default();
            tickets.replace(&[key()]);
            prop_assert!(tickets.bound_to(b"").decrypt(&bytes).is_none());
        }
    }
}
