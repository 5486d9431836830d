// SPDX-License-Identifier: BSD-2-Clause
//! What a certificate authority asks for to see that a name is ours: HTTP-01 (RFC 8555 8.3) and TLS-ALPN-01 (RFC 8737). The worker
//! has a table of the answers, as the manager tells it; it is empty but for the seconds that an order takes. Nothing in it is secret.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::sign::CertifiedKey;

use crate::{ServerOptions, TlsServer};

/// The protocol that a hello for TLS-ALPN-01 offers, alone.
pub const PROTOCOL: &[u8] = b"acme-tls/1";
/// Path prefix of HTTP-01 requests (RFC 8555, 8.3).
pub const PATH: &[u8] = b"/.well-known/acme-challenge/";
/// Most responses kept; the oldest are dropped.
pub const MOST: usize = 1000;

#[derive(Debug)]
enum Answer {
    Http { token: String, body: String },
    Alpn { token: String, server: Arc<TlsServer> },
}

#[derive(Debug)]
struct ChallengeEntry {
    name: String,
    answer: Answer,
}

impl ChallengeEntry {
    fn token(&self) -> &str {
        match &self.answer {
            Answer::Http { token, .. } | Answer::Alpn { token, .. } => token,
        }
    }
}

#[derive(Debug, Default)]
pub struct Challenges {
    /// Number of responses: usually 0, and then the only thing looked at.
    count: AtomicUsize,
    entries: Mutex<Vec<ChallengeEntry>>,
}

impl Challenges {
    /// Answers a request for `token` from now on. `body` is the key authorization.
    pub fn add_http(&self, name: &str, token: &str, body: &str) {
        self.add(name, Answer::Http { token: token.to_owned(), body: body.to_owned() });
    }

    /// Answers a handshake for `name` from now on. `digest` is the key authorization's SHA-256. The key is made here and goes no
    /// further: it proves nothing but this.
    ///
    /// # Errors
    /// The name can't be in a certificate.
    pub fn add_alpn(&self, name: &str, token: &str, digest: &[u8; 32]) -> Result<(), String> {
        let options = ServerOptions { alpn: vec![PROTOCOL.to_vec()], ..ServerOptions::default() };
        let server = TlsServer::new(Arc::new(certified(name, digest)?), &options).map_err(|error| error.to_string())?;
        self.add(name, Answer::Alpn { token: token.to_owned(), server: Arc::new(server) });
        Ok(())
    }

    fn add(&self, name: &str, answer: Answer) {
        let entry = ChallengeEntry { name: name.to_ascii_lowercase(), answer };
        self.change(|entries| {
            entries.retain(|old| old.token() != entry.token());
            if entries.len() >= MOST {
                entries.remove(0);
            }
            entries.push(entry);
        });
    }

    /// The CA won't ask for it any more.
    pub fn remove(&self, token: &str) {
        self.change(|entries| entries.retain(|entry| entry.token() != token));
    }

    fn change(&self, what: impl FnOnce(&mut Vec<ChallengeEntry>)) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        what(&mut entries);
        self.count.store(entries.len(), Ordering::Release);
    }

    fn find<T>(&self, find: impl FnMut(&ChallengeEntry) -> Option<T>) -> Option<T> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).iter().find_map(find)
    }

    /// The body for a request's target, if that is asked for: anything else is the site's own affair.
    #[inline]
    pub fn body(&self, target: &[u8]) -> Option<String> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let wanted = target.strip_prefix(PATH)?;
        self.find(|entry| match &entry.answer {
            Answer::Http { token, body } if token.as_bytes() == wanted => Some(body.clone()),
            Answer::Http { .. } | Answer::Alpn { .. } => None,
        })
    }

    /// The TLS settings for a hello that offers [`PROTOCOL`] alone.
    pub fn server(&self, server_name: &str) -> Option<Arc<TlsServer>> {
        self.find(|entry| match &entry.answer {
            Answer::Alpn { server, .. } if entry.name.eq_ignore_ascii_case(server_name) => Some(server.clone()),
            Answer::Http { .. } | Answer::Alpn { .. } => None,
        })
    }
}

fn certified(name: &str, digest: &[u8; 32]) -> Result<CertifiedKey, String> {
    let told = |error: rcgen::Error| error.to_string();
    let key = rcgen::KeyPair::generate().map_err(told)?;
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(told)?;
    params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key).map_err(told)?;
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
    // Not `from_der`: that refuses an extension which is critical and none of its own.
    let signing = rustls::crypto::ring::sign::any_supported_type(&private).map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], signing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(token: &str) -> Vec<u8> {
        [PATH, token.as_bytes()].concat()
    }

    #[test]
    fn an_answer_is_given_to_who_asks_for_its_token() {
        let all = Challenges::default();
        assert_eq!(all.body(&path("abc")), None);
        all.add_http("a.example", "abc", "abc.thumb");
        all.add_http("b.example", "def", "def.thumb");
        assert_eq!(all.body(&path("abc")).as_deref(), Some("abc.thumb"));
        for other in ["", "ab", "abcd", "abc?", "abc/"] {
            assert_eq!(all.body(&path(other)), None, "{other}");
        }
        assert_eq!(all.body(b"/abc"), None);
        all.remove("abc");
        assert_eq!(all.body(&path("abc")), None);
        assert!(all.body(&path("def")).is_some());
    }

    #[test]
    fn the_certificate_of_a_challenge_is_for_its_name() {
        let all = Challenges::default();
        all.add_alpn("a.example", "abc", &[7; 32]).unwrap();
        let server = all.server("A.example").unwrap();
        let der = server.leaf();
        // id-pe-acmeIdentifier, critical, an OCTET STRING in an OCTET STRING (RFC 8737 3).
        let extension = [&[0x06, 8, 0x2b, 6, 1, 5, 5, 7, 1, 0x1f, 1, 1, 0xff, 4, 0x22, 4, 0x20][..], &[7; 32]].concat();
        assert!(der.windows(extension.len()).any(|part| part == extension));
        assert!(all.server("b.example").is_none());
        assert_eq!(all.body(&path("abc")), None);
        all.remove("abc");
        assert!(all.server("a.example").is_none());
    }

    #[test]
    fn there_are_only_so_many() {
        let all = Challenges::default();
        for n in 0..=MOST {
            all.add_http("a.example", &n.to_string(), "x");
        }
        assert_eq!((all.body(&path("0")), all.body(&path("1")).is_some()), (None, true));
        assert_eq!(all.count.load(Ordering::Relaxed), MOST);
    }
}
