// SPDX-License-Identifier: BSD-2-Clause
//! The certificates of a worker: a bundle, what was made of it, and the keys for tickets. Both are replaced whole while
//! connections come; those that are there keep what they began with.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use base::lock::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;

use crate::bundle::{Bundle, Keyed, Match};
use crate::server::{Certificates, NoCertificate, Server, ServerOptions};
use crate::settings::{ClientVerify, Overrides, roots};
use crate::tickets::{TicketKey, Tickets};

/// Certificates that stay ready for use, in each of two generations: the rest is parsed again when it is asked for.
const GENERATION: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Keyring {
    loaded: ArcSwapOption<Loaded>,
    tickets: Tickets,
}

/// A bundle and what was made of it.
#[derive(Debug)]
struct Loaded {
    bundle: Bundle,
    made: Mutex<Made>,
}

/// Bounded: each scope has few settings, and of certificates two generations are kept.
#[derive(Debug, Default)]
struct Made {
    young: HashMap<(u32, u32), Arc<Server>>,
    old: HashMap<(u32, u32), Arc<Server>>,
    /// By scope and settings.
    options: HashMap<(u32, Overrides), Arc<ServerOptions>>,
}

impl Made {
    fn server(&mut self, key: (u32, u32)) -> Option<Arc<Server>> {
        if let Some(server) = self.young.get(&key) {
            return Some(server.clone());
        }
        let server = self.old.remove(&key)?;
        self.keep(key, server.clone());
        Some(server)
    }

    fn keep(&mut self, key: (u32, u32), server: Arc<Server>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, server);
    }
}

impl Keyring {
    /// These certificates from now on.
    pub fn replace(&self, bundle: Bundle) {
        self.loaded.store(Some(Arc::new(Loaded { bundle, made: Mutex::default() })));
    }

    /// These keys for tickets from now on.
    pub fn replace_ticket_keys(&self, keys: &[TicketKey]) {
        self.tickets.replace(keys);
    }

    fn make(&self, loaded: &Loaded, scope: u32, entry: u32) -> Result<Server, String> {
        let keyed = loaded.bundle.keyed(entry).ok_or("the bundle is damaged")?;
        let options = self.options(loaded, scope, &keyed.overrides)?;
        Server::new(Arc::new(certified(&keyed)?), &options).map_err(|error| error.to_string())
    }

    /// Settings of the certificate, else of the listener, else of all.
    fn options(&self, loaded: &Loaded, scope: u32, own: &Overrides) -> Result<Arc<ServerOptions>, String> {
        let scopes = loaded.bundle.scopes();
        let of_scope = scopes.get(scope as usize).ok_or("the bundle is damaged")?;
        let overrides = own.over(&of_scope.overrides).over(&scopes[0].overrides);
        let key = (scope, overrides);
        if let Some(options) = loaded.made.lock().options.get(&key) {
            return Ok(options.clone());
        }
        let overrides = &key.1;
        let authorities = authorities(&loaded.bundle, overrides)?;
        let provider = Arc::new(overrides.provider());
        let client_verifier = client_verifier(overrides, &authorities, &provider)?;
        let options = Arc::new(ServerOptions {
            versions: overrides.versions(),
            prefer_server_order: overrides.prefers_own_order.unwrap_or(false),
            alpn: overrides.alpn(),
            client_verifier,
            // A resumed session has its client's certificate unchecked: it would go on after that one's end.
            ticketer: (!asks_clients(overrides)).then(|| self.tickets.bound_to(of_scope.name.as_bytes())),
            provider,
        });
        loaded.made.lock().options.insert(key, options.clone());
        Ok(options)
    }
}

impl Certificates for Keyring {
    fn find(&self, frontend: &str, sni: Option<&str>) -> Result<Arc<Server>, NoCertificate> {
        let loaded = self.loaded.load();
        let loaded = loaded.as_ref().ok_or(NoCertificate::NothingLoaded)?;
        let scope = loaded.bundle.scope_of(frontend);
        let entry = match loaded.bundle.find(scope, sni) {
            Match::Entry(entry) => entry,
            Match::NothingLoaded => return Err(NoCertificate::NothingLoaded),
            Match::UnknownName => return Err(NoCertificate::UnknownName),
        };
        if let Some(server) = loaded.made.lock().server((scope, entry)) {
            return Ok(server);
        }
        // Not under the lock: others needn't wait for a key to be parsed.
        let server = Arc::new(self.make(loaded, scope, entry).map_err(NoCertificate::Broken)?);
        loaded.made.lock().keep((scope, entry), server.clone());
        Ok(server)
    }
}

/// Key and chain, as rustls takes them.
fn certified(keyed: &Keyed<'_>) -> Result<CertifiedKey, String> {
    let key = rustls::crypto::ring::sign::any_supported_type(&keyed.form.key(keyed.key))
        .map_err(|error| error.to_string())?;
    let chain = keyed.chain.iter().map(|der| CertificateDer::from(der.to_vec())).collect();
    let ocsp = (!keyed.ocsp.is_empty()).then(|| keyed.ocsp.to_vec());
    Ok(CertifiedKey { ocsp, ..CertifiedKey::new(chain, key) })
}

fn authorities<'a>(bundle: &'a Bundle, overrides: &Overrides) -> Result<Vec<&'a [u8]>, String> {
    match overrides.client_ca {
        Some(number) => bundle.authorities(number).ok_or_else(|| "the bundle is damaged".to_owned()),
        None => Ok(Vec::new()),
    }
}

fn client_verifier(
    overrides: &Overrides,
    authorities: &[&[u8]],
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let verify = overrides.client_verify.unwrap_or(ClientVerify::None);
    if verify == ClientVerify::None {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let roots = Arc::new(roots(authorities)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if verify == ClientVerify::Optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|error| error.to_string())
}

fn asks_clients(overrides: &Overrides) -> bool {
    overrides.client_verify.unwrap_or(ClientVerify::None) != ClientVerify::None
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::bundle::{Authorities, Builder, Entry, Material, Scope};
    use crate::facts::Facts;
    use crate::pem::KeyForm;

    /// A key and a certificate for anybody.
    fn pair() -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        (key.serialize_der(), certificate.der().to_vec())
    }

    fn entry(name: &str) -> Entry {
        Entry { id: name.into(), facts: Facts { names: vec![name.into()], ..Facts::default() }, ..Entry::default() }
    }

    fn keyring(scope: Scope, entries: &[Entry], ca: &[u8]) -> Keyring {
        let (key, der) = pair();
        let global = Scope::default();
        let lists = vec![Authorities { path: String::new(), ders: vec![ca.to_vec()] }];
        let mut builder = Builder::new(vec![global, Scope { name: "a0".into(), matches_global: true, ..scope }], lists);
        for entry in entries {
            builder.add(entry, Material { form: KeyForm::Pkcs8, key: &key, chain: vec![&der], ocsp: b"" });
        }
        let keyring = Keyring::default();
        keyring.replace(Bundle::open(Box::new(builder.build().to_vec())).unwrap());
        keyring
    }

    #[test]
    fn what_was_made_is_made_once_and_replaced_with_the_bundle() {
        assert!(matches!(Keyring::default().find("a0", None), Err(NoCertificate::NothingLoaded)));
        let strict = Scope { aborts_unknown: true, ..Scope::default() };
        let keyring = keyring(strict, &[entry("a"), entry("b")], b"");
        let (a, b) = (keyring.find("a0", Some("a")).unwrap(), keyring.find("a0", Some("b")).unwrap());
        assert!(Arc::ptr_eq(&a, &keyring.find("a0", Some("a")).unwrap()) && !Arc::ptr_eq(&a, &b));
        assert!(Arc::ptr_eq(&a, &keyring.find("a0", None).unwrap()));
        assert!(matches!(keyring.find("a0", Some("c")), Err(NoCertificate::UnknownName)));
        let other = self::keyring(Scope::default(), &[entry("a")], b"");
        keyring.loaded.store(other.loaded.load_full());
        assert!(!Arc::ptr_eq(&a, &keyring.find("a0", Some("a")).unwrap()));
    }

    #[test]
    fn many_names_leave_a_bounded_number_ready() {
        let entries: Vec<Entry> = (0..3 * GENERATION).map(|n| entry(&format!("h{n}"))).collect();
        let keyring = keyring(Scope::default(), &entries, b"");
        for entry in &entries {
            keyring.find("a0", Some(&entry.id)).unwrap();
        }
        let loaded = keyring.loaded.load_full().unwrap();
        let made = loaded.made.lock();
        assert!(made.young.len() + made.old.len() <= 2 * GENERATION && made.options.len() == 1);
    }

    #[test]
    fn settings_that_cannot_be_carried_out_are_told() {
        let verify =
            Overrides { client_verify: Some(ClientVerify::Required), client_ca: Some(0), ..Overrides::default() };
        let scope = || Scope { overrides: verify.clone(), ..Scope::default() };
        let bad = keyring(scope(), &[entry("a")], b"nonsense");
        assert!(matches!(bad.find("a0", None), Err(NoCertificate::Broken(_))));
        assert!(bad.find("a1", None).is_ok(), "another listener asks for nothing");
        let good = keyring(scope(), &[entry("a")], &pair().1);
        good.find("a0", None).unwrap();
    }

    #[test]
    fn a_client_that_has_to_prove_itself_does_so_each_time() {
        for (verify, is_resumable) in
            [(ClientVerify::None, true), (ClientVerify::Optional, false), (ClientVerify::Required, false)]
        {
            let said = Overrides { client_verify: Some(verify), client_ca: Some(0), ..Overrides::default() };
            let scope = Scope { overrides: said.clone(), ..Scope::default() };
            let keyring = keyring(scope, &[entry("a")], &pair().1);
            let loaded = keyring.loaded.load_full().unwrap();
            let options = keyring.options(&loaded, 1, &said).unwrap();
            assert_eq!(options.ticketer.is_some(), is_resumable, "{verify:?}");
        }
    }
}
