// SPDX-License-Identifier: BSD-2-Clause
//! Sessions with servers, for as long as the certificate that they began with holds. A session that is taken up again shows no
//! certificate, so nobody would look at its end, and each resumption brings another ticket: it would go on for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, NamedGroup, SignatureScheme};

use crate::certificate::Certificate;

/// See the module. Bounded by a number of servers.
#[derive(Debug)]
pub struct Sessions {
    cache: ClientSessionMemoryCache,
    /// When the certificate of each server ends, seconds since 1970.
    ends: Mutex<HashMap<ServerName<'static>, i64>>,
    most: usize,
}

impl Sessions {
    pub fn new(most: usize) -> Sessions {
        Sessions { cache: ClientSessionMemoryCache::new(most), ends: Mutex::default(), most }
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, i64>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server has shown a certificate that ends then.
    pub(crate) fn note(&self, name: &ServerName<'_>, end: i64) {
        let mut ends = self.ends();
        if ends.len() >= self.most && !ends.contains_key(name) {
            // Who is forgotten shakes hands in full once.
            ends.clear();
        }
        ends.insert(name.to_owned(), end);
    }

    fn holds(&self, name: &ServerName<'_>) -> bool {
        let now = UnixTime::now().as_secs() as i64;
        self.ends().get(name).is_some_and(|end| now < *end)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.cache.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.cache.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.cache.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.cache.tls12_session(name).filter(|_| self.holds(name))
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.cache.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.cache.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.cache.take_tls13_ticket(name).filter(|_| self.holds(name))
    }
}

/// A verifier that notes when what it has found good ends.
#[derive(Debug)]
pub struct Noting {
    pub verifier: Arc<dyn ServerCertVerifier>,
    pub sessions: Arc<Sessions>,
}

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(leaf, others, name, ocsp, now)?;
        let ends = [leaf].into_iter().chain(others).filter_map(|der| Some(Certificate::read(der)?.validity().1));
        // What is over already was found good all the same, or wasn't needed: it ends nothing.
        let first = ends.filter(|end| *end > now.as_secs() as i64).min();
        self.sessions.note(name, first.unwrap_or(i64::MAX));
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NAME, TlsWorld, connect};
    use crate::{Handshake, TlsClient, TlsServer, record};

    /// True if a connection resumes a session; its tickets are kept.
    fn resumes(server: &Arc<TlsServer>, client: &Arc<TlsClient>) -> bool {
        let (mut one, mut other) = (Handshake::server(server, Some(NAME), []), Handshake::client(client, NAME));
        let mut tickets = Vec::new();
        let ((_, info), (mut to, _)) = connect(&mut one, &mut other, usize::MAX, &mut tickets).unwrap();
        let mut rest = &mut tickets[..];
        while let Some(length) = record::whole(rest).unwrap() {
            let (ticket, after) = rest.split_at_mut(length);
            to.open(ticket, &mut Vec::new()).unwrap();
            rest = after;
        }
        info.resumed
    }

    #[test]
    fn a_session_ends_with_the_certificate_that_it_began_with() {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let mut world = TlsWorld::with_versions(&[version]);
            world.server.ticketer = Some(crate::testing::ticketer());
            let (server, client) = (world.make_server(), world.make_client());
            let resumed = || resumes(&server, &client);
            let name = ServerName::try_from(NAME).unwrap();
            assert!(!resumed() && resumed());
            let end = client.sessions().unwrap().ends()[&name];
            assert!(end > UnixTime::now().as_secs() as i64);
            client.sessions().unwrap().note(&name, UnixTime::now().as_secs() as i64);
            assert!(!resumed(), "its end is over");
            assert!(resumed(), "another handshake, another end");
        }
    }

    #[test]
    fn there_are_only_so_many() {
        let sessions = Sessions::new(10);
        for n in 0..1000 {
            sessions.note(&ServerName::try_from(format!("h{n}.example")).unwrap(), i64::MAX);
        }
        assert!(sessions.ends().len() <= 10);
        assert!(sessions.holds(&ServerName::try_from("h999.example").unwrap()));
        assert!(!sessions.holds(&ServerName::try_from("h0.example").unwrap()));
    }
}
