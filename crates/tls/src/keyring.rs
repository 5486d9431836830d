// SPDX-License-Identifier: BSD-2-Clause
//! The certificates of a worker: a bundle, what was made of it, and the keys for tickets. Both are replaced whole while
//! connections come; those that are there keep what they began with.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use base::lock::Mutex;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, SupportedCipherSuite};

use crate::bundle::{Bundle, GLOBAL, Keyed, NameMatch};
use crate::certificate::Certificate;
use crate::server::{Certificates, ClientPolicy, NoCertificate, ServerOptions, TlsServer};
use crate::settings::{ClientVerify, Overrides, roots};
use crate::signer::{AskSigner, Asked, RemoteKey};
use crate::tickets::{TicketKey, Tickets};
use crate::wanted::WantedNames;

/// Certificates that stay ready for use, in each of two generations: the rest is parsed again when it is asked for.
const GENERATION: usize = 1024;

#[derive(Debug, Default)]
pub struct Keyring {
    loaded: ArcSwapOption<Loaded>,
    tickets: Tickets,
    /// The signer for keys that the bundle doesn't hold.
    signer: Asked,
    asks_clients: AtomicBool,
    wanted: WantedNames,
}

#[derive(Debug)]
struct Loaded {
    bundle: Bundle,
    made: Mutex<Made>,
}

/// Bounded: each scope has few settings, and of certificates two generations are kept.
#[derive(Debug, Default)]
struct Made {
    young: HashMap<(u32, u32), Ready>,
    old: HashMap<(u32, u32), Ready>,
    options: HashMap<(u32, Overrides), Arc<ServerOptions>>,
}

#[derive(Clone, Debug)]
struct Ready {
    server: Arc<TlsServer>,
    /// End of the staple's period, when the certificate is made anew; seconds since 1970.
    until: i64,
}

impl Made {
    fn server(&mut self, key: (u32, u32), now: i64) -> Option<Arc<TlsServer>> {
        if let Some(ready) = self.young.get(&key) {
            return (now < ready.until).then(|| ready.server.clone());
        }
        let ready = self.old.remove(&key).filter(|ready| now < ready.until)?;
        self.keep(key, ready.clone());
        Some(ready.server)
    }

    fn keep(&mut self, key: (u32, u32), ready: Ready) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, ready);
    }
}

impl Keyring {
    pub fn replace(&self, bundle: Bundle) {
        self.asks_clients.store(bundle.asks_clients(), Relaxed);
        self.loaded.store(Some(Arc::new(Loaded { bundle, made: Mutex::default() })));
    }

    pub fn replace_ticket_keys(&self, keys: &[TicketKey]) {
        self.tickets.replace(keys);
    }

    /// Lets `signer` sign from now on for certificates that came without keys.
    pub fn replace_signer(&self, signer: Box<dyn AskSigner>) {
        self.signer.replace(signer);
    }

    /// Names that clients asked for in vain.
    pub fn wanted(&self) -> &WantedNames {
        &self.wanted
    }

    fn make(&self, loaded: &Loaded, scope: u32, entry: u32, now: i64) -> Result<Ready, String> {
        let keyed = loaded.bundle.keyed(entry).ok_or("the bundle is damaged")?;
        let options = self.options(loaded, scope, &keyed.overrides)?;
        let (key, until) = certified(&keyed, now, &self.signer)?;
        let server = TlsServer::new(Arc::new(key), &options).map_err(|error| error.to_string())?;
        // Where none asks anything nothing is looked at.
        let clients = loaded.bundle.policy(scope, entry).filter(|_| self.asks_clients.load(Relaxed));
        Ok(Ready { server: Arc::new(server.asking(clients)), until })
    }

    fn find_at(&self, frontend: &str, sni: Option<&str>, now: i64) -> Result<Arc<TlsServer>, NoCertificate> {
        let loaded = self.loaded.load();
        let loaded = loaded.as_ref().ok_or(NoCertificate::NothingLoaded)?;
        let scope = loaded.bundle.scope_of(frontend);
        let entry = match loaded.bundle.find(scope, sni) {
            NameMatch::Entry(entry) => entry,
            NameMatch::NothingLoaded => return Err(NoCertificate::NothingLoaded),
            NameMatch::UnknownName => return Err(NoCertificate::UnknownName),
        };
        if let Some(server) = loaded.made.lock().server((scope, entry), now) {
            return Ok(server);
        }
        // Not under the lock: others needn't wait for a key to be parsed.
        let ready = self.make(loaded, scope, entry, now).map_err(NoCertificate::Broken)?;
        let server = ready.server.clone();
        loaded.made.lock().keep((scope, entry), ready);
        Ok(server)
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
        let provider = Arc::new(overrides.provider());
        let client_verifier = client_verifier(&loaded.bundle, overrides, &provider)?;
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
    fn find(&self, frontend: &str, sni: Option<&str>) -> Result<Arc<TlsServer>, NoCertificate> {
        let found = self.find_at(frontend, sni, UnixTime::now().as_secs() as i64);
        if let Some(name) = sni {
            self.wanted.look(name, found.as_ref().map_or(&[][..], |server| &server.leaf()[..]));
        }
        found
    }

    fn admits(&self, frontend: &str, host: Option<&str>, held: ClientPolicy) -> bool {
        let loaded = self.loaded.load();
        let Some(loaded) = loaded.as_ref() else { return true };
        let scope = loaded.bundle.scope_of(frontend);
        // Nobody comes to a name that isn't there: who asks for it gets what VCL makes of it.
        let NameMatch::Entry(entry) = loaded.bundle.find(scope, host) else { return true };
        loaded.bundle.policy(scope, entry).is_none_or(|asked| asked.is_met_by(held))
    }

    fn admits_anywhere(&self, host: Option<&str>, held: Option<ClientPolicy>) -> bool {
        let (loaded, Some(host)) = (self.loaded.load(), host) else { return true };
        let Some(loaded) = loaded.as_ref() else { return true };
        let asked = loaded.bundle.asked_for(host);
        asked.is_empty() || held.is_some_and(|held| asked.contains(&held))
    }

    fn asks_clients(&self) -> bool {
        self.asks_clients.load(Relaxed)
    }
}

/// Tries the settings of each certificate wherever it may be shown, so that what can't be carried out is told to who says it and
/// not to clients.
///
/// # Errors
/// The first that can't, in words.
pub fn check(bundle: &Bundle) -> Result<(), String> {
    let scopes = bundle.scopes();
    let global = &scopes[GLOBAL as usize].overrides;
    let owners: HashSet<u32> =
        (0..bundle.len() as u32).filter_map(|n| bundle.keyed(n)).map(|keyed| keyed.scope).collect();
    let mut tried = HashSet::new();
    for number in 0..bundle.len() as u32 {
        let keyed = bundle.keyed(number).ok_or("the bundle is damaged")?;
        for (scope, at) in scopes.iter().zip(0..) {
            let takes_global = at != GLOBAL && (scope.matches_global || !owners.contains(&at));
            if keyed.scope != at && !(keyed.scope == GLOBAL && takes_global) {
                continue;
            }
            let overrides = keyed.overrides.over(&scope.overrides).over(global);
            let kind = overrides.depends_on_key().then(|| key_kind(&keyed)).flatten();
            if tried.contains(&(overrides.clone(), kind)) {
                continue;
            }
            try_settings(bundle, &overrides, kind).map_err(|reason| {
                let id = bundle.entry(number).map(|entry| entry.id).unwrap_or_default();
                format!("Certificate {id}: {reason}")
            })?;
            tried.insert((overrides, kind));
        }
    }
    Ok(())
}

fn try_settings(bundle: &Bundle, overrides: &Overrides, kind: Option<KeyKind>) -> Result<(), String> {
    let provider = Arc::new(overrides.provider());
    client_verifier(bundle, overrides, &provider)?;
    let is_of_use = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls12(suite) => {
            kind.is_none_or(|kind| suite.sign.iter().any(|scheme| kind.signs(*scheme)))
        }
        _ => true,
    };
    let versions = overrides.versions();
    let spoken = provider.cipher_suites.iter().filter(|suite| versions.contains(&suite.version()));
    if spoken.clone().next().is_none() {
        return Err("no cipher suite is left for its versions of TLS".to_owned());
    }
    if !spoken.into_iter().any(is_of_use) {
        return Err("none of its ciphers is for a key of its kind".to_owned());
    }
    Ok(())
}

/// Kinds of keys that suites of TLS 1.2 tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum KeyKind {
    Rsa,
    /// Ed25519 goes with the same suites.
    Ecdsa,
}

impl KeyKind {
    fn signs(self, scheme: SignatureScheme) -> bool {
        use SignatureScheme as S;
        let is_rsa = matches!(
            scheme,
            S::RSA_PKCS1_SHA256
                | S::RSA_PKCS1_SHA384
                | S::RSA_PKCS1_SHA512
                | S::RSA_PSS_SHA256
                | S::RSA_PSS_SHA384
                | S::RSA_PSS_SHA512
        );
        is_rsa == (self == KeyKind::Rsa)
    }
}

fn key_kind(keyed: &Keyed<'_>) -> Option<KeyKind> {
    let leaf = Certificate::read(keyed.chain.first()?)?;
    Some(if leaf.key().starts_with("RSA") { KeyKind::Rsa } else { KeyKind::Ecdsa })
}

/// Key, chain and OCSP answer, as rustls takes them, and until when they are so. An answer whose time isn't yet or is over is
/// left out: there are clients that refuse who shows it.
fn certified(keyed: &Keyed<'_>, now: i64, signer: &Asked) -> Result<(CertifiedKey, i64), String> {
    let key = match keyed.is_without_key() {
        true => {
            let leaf = keyed.chain.first().copied().unwrap_or_default();
            Arc::new(RemoteKey::of(leaf, signer).ok_or("a key of a kind that can't be signed with")?)
        }
        false => rustls::crypto::ring::sign::any_supported_type(&keyed.form.key(keyed.key))
            .map_err(|error| error.to_string())?,
    };
    let chain = keyed.chain.iter().map(|der| CertificateDer::from(der.to_vec())).collect();
    let is_shown = !keyed.ocsp.is_empty() && keyed.staple.holds(now);
    let changes = [keyed.staple.from, keyed.staple.until].into_iter().find(|time| *time > now);
    let until = changes.filter(|_| !keyed.ocsp.is_empty()).unwrap_or(i64::MAX);
    let ocsp = is_shown.then(|| keyed.ocsp.to_vec());
    Ok((CertifiedKey { ocsp, ..CertifiedKey::new(chain, key) }, until))
}

fn list(bundle: &Bundle, number: Option<u32>) -> Result<Vec<&[u8]>, String> {
    match number {
        Some(number) => bundle.list(number).ok_or_else(|| "the bundle is damaged".to_owned()),
        None => Ok(Vec::new()),
    }
}

fn client_verifier(
    bundle: &Bundle,
    overrides: &Overrides,
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let verify = overrides.client_verify.unwrap_or(ClientVerify::None);
    if verify == ClientVerify::None {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let roots = Arc::new(roots(&list(bundle, overrides.client_ca)?)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if verify == ClientVerify::Optional { builder.allow_unauthenticated() } else { builder };
    let builder = match overrides.client_crl {
        Some(_) => {
            let lists = list(bundle, overrides.client_crl)?.into_iter();
            let lists = lists.map(|der| CertificateRevocationListDer::from(der.to_vec()));
            // Of an authority that gave no list nothing is known; a list that is too old tells nothing, and is no licence.
            builder.with_crls(lists).allow_unknown_revocation_status().enforce_revocation_expiration()
        }
        None => builder,
    };
    builder.build().map_err(|error| error.to_string())
}

fn asks_clients(overrides: &Overrides) -> bool {
    overrides.client_verify.unwrap_or(ClientVerify::None) != ClientVerify::None
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::bundle::{BundleBuilder, BundleEntry, CertificateScope, List, Material};
    use crate::facts::CertificateFacts;
    use crate::ocsp::ValiditySpan;
    use crate::pem::KeyForm;

    /// A key and a certificate for anybody.
    fn pair() -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        (key.serialize_der(), certificate.der().to_vec())
    }

    fn entry(name: &str) -> BundleEntry {
        BundleEntry {
            id: name.into(),
            facts: CertificateFacts { names: vec![name.into()], ..CertificateFacts::default() },
            ..BundleEntry::default()
        }
    }

    fn keyring(scope: CertificateScope, entries: &[BundleEntry], ca: &[u8]) -> Keyring {
        let (key, der) = pair();
        let global = CertificateScope::default();
        let list = List { ders: vec![ca.to_vec()], ..List::default() };
        let mut builder = BundleBuilder::new(
            vec![global, CertificateScope { name: "a0".into(), matches_global: true, ..scope }],
            vec![&list],
        );
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
        let strict = CertificateScope { aborts_unknown: true, ..CertificateScope::default() };
        let keyring = keyring(strict, &[entry("a"), entry("b")], b"");
        let (a, b) = (keyring.find("a0", Some("a")).unwrap(), keyring.find("a0", Some("b")).unwrap());
        assert!(Arc::ptr_eq(&a, &keyring.find("a0", Some("a")).unwrap()) && !Arc::ptr_eq(&a, &b));
        assert!(Arc::ptr_eq(&a, &keyring.find("a0", None).unwrap()));
        assert!(matches!(keyring.find("a0", Some("c")), Err(NoCertificate::UnknownName)));
        let other = self::keyring(CertificateScope::default(), &[entry("a")], b"");
        keyring.loaded.store(other.loaded.load_full());
        assert!(!Arc::ptr_eq(&a, &keyring.find("a0", Some("a")).unwrap()));
    }

    #[test]
    fn many_names_leave_a_bounded_number_ready() {
        let entries: Vec<BundleEntry> = (0..3 * GENERATION).map(|n| entry(&format!("h{n}"))).collect();
        let keyring = keyring(CertificateScope::default(), &entries, b"");
        for entry in &entries {
            keyring.find("a0", Some(&entry.id)).unwrap();
        }
        let loaded = keyring.loaded.load_full().unwrap();
        let made = loaded.made.lock();
        assert!(made.young.len() + made.old.len() <= 2 * GENERATION && made.options.len() == 1);
    }

    #[test]
    fn an_ocsp_answer_is_shown_in_its_time_alone() {
        let (key, der) = pair();
        let entry = BundleEntry { staple: ValiditySpan { from: 100, until: 200 }, ..entry("a") };
        let mut builder = BundleBuilder::new(vec![CertificateScope::default()], Vec::new());
        builder.add(&entry, Material { form: KeyForm::Pkcs8, key: &key, chain: vec![&der], ocsp: b"answer" });
        let keyring = Keyring::default();
        keyring.replace(Bundle::open(Box::new(builder.build().to_vec())).unwrap());
        let loaded = keyring.loaded.load_full().unwrap();
        let shown = |now| {
            certified(&loaded.bundle.keyed(0).unwrap(), now, &Asked::default())
                .map(|(key, until)| (key.ocsp.is_some(), until))
        };
        for (now, expected) in [(99, (false, 100)), (100, (true, 200)), (199, (true, 200)), (200, (false, i64::MAX))] {
            assert_eq!(shown(now), Ok(expected), "{now}");
        }
        let at = |now| keyring.find_at("a0", None, now).unwrap();
        let (before, within, after) = (at(99), at(100), at(200));
        assert!(!Arc::ptr_eq(&before, &within) && !Arc::ptr_eq(&within, &after));
        assert!(Arc::ptr_eq(&after, &at(i64::MAX - 1)));
    }

    #[test]
    fn settings_that_cannot_be_carried_out_are_told() {
        let verify =
            Overrides { client_verify: Some(ClientVerify::Required), client_ca: Some(0), ..Overrides::default() };
        let scope = || CertificateScope { overrides: verify.clone(), ..CertificateScope::default() };
        let bad = keyring(scope(), &[entry("a")], b"nonsense");
        assert!(matches!(bad.find("a0", None), Err(NoCertificate::Broken(_))));
        assert!(bad.find("a1", None).is_ok(), "another listener asks for nothing");
        let good = keyring(scope(), &[entry("a")], &pair().1);
        good.find("a0", None).unwrap();
    }

    #[test]
    fn who_came_by_one_name_is_admitted_to_those_that_ask_the_same() {
        let asks = |text: &str| Overrides::decode(text).unwrap();
        let named = |name: &str, own: &str| BundleEntry { overrides: asks(own), ..entry(name) };
        let entries = [
            named("open", ""),
            named("strict", "verify=required ca=0"),
            named("same", "verify=required ca=0"),
            named("asks", "verify=optional ca=0"),
        ];
        let keyring = keyring(CertificateScope::default(), &entries, &pair().1);
        let held = |name: &str| keyring.find("a0", Some(name)).unwrap().clients().unwrap();
        for (came_by, host, expected) in [
            ("open", "open", true),
            ("open", "STRICT.", false),
            ("open", "asks", false),
            ("strict", "strict", true),
            ("strict", "same", true),
            ("strict", "asks", false),
            ("strict", "open", true),
            ("asks", "strict", false),
            ("open", "elsewhere", true),
        ] {
            assert_eq!(keyring.admits("a0", Some(host), held(came_by)), expected, "{came_by} {host}");
        }
        assert!(keyring.admits("a0", None, held("asks")));
        let open = self::keyring(CertificateScope::default(), &entries[..1], &pair().1);
        assert_eq!(open.find("a0", Some("open")).unwrap().clients(), None, "nothing to look at");
        assert!(keyring.asks_clients() && !open.asks_clients());
    }

    #[test]
    fn a_host_that_asks_is_to_be_had_at_no_other_listener() {
        let (key, der) = pair();
        let asks = Overrides::decode("verify=required ca=0").unwrap();
        let scope = |name: &str, overrides: &Overrides| CertificateScope {
            name: name.into(),
            overrides: overrides.clone(),
            ..CertificateScope::default()
        };
        let scopes = vec![CertificateScope::default(), scope("private", &asks), scope("public", &Overrides::default())];
        let list = List { ders: vec![der.clone()], ..List::default() };
        let entries = [
            (1, "secure.test"),
            (1, "*.corp.test"),
            (1, "both.test"),
            (2, "*.test"),
            (2, "both.test"),
            (2, "a.corp.test"),
        ]
        .map(|(scope, name)| BundleEntry { scope, ..entry(name) });
        let mut builder = BundleBuilder::new(scopes, vec![&list]);
        for entry in &entries {
            builder.add(entry, Material { form: KeyForm::Pkcs8, key: &key, chain: vec![&der], ocsp: b"" });
        }
        let keyring = Keyring::default();
        keyring.replace(Bundle::open(Box::new(builder.build().to_vec())).unwrap());
        assert!(keyring.asks_clients());
        let held = |frontend: &str, name: &str| keyring.find(frontend, Some(name)).unwrap().clients();
        let (private, public) = (held("private", "secure.test"), held("public", "both.test"));
        for (host, is_open) in [
            ("secure.test", false),
            ("SECURE.test.", false),
            // A wildcard of another listener is less than the name.
            ("b.corp.test", false),
            ("a.corp.test", true),
            ("both.test", true),
            ("c.test", true),
            ("elsewhere", true),
        ] {
            assert_eq!(keyring.admits_anywhere(Some(host), None), is_open, "{host} without TLS");
            assert_eq!(keyring.admits_anywhere(Some(host), public), is_open, "{host} by the public one");
            assert!(keyring.admits_anywhere(Some(host), private), "{host} by the private one");
        }
    }

    #[test]
    fn settings_are_tried_before_they_are_used() {
        let said = |text: &str| Overrides::decode(text).unwrap();
        let tried = |scope: CertificateScope, own: Overrides| {
            let keyring = keyring(scope, &[BundleEntry { overrides: own, ..entry("a") }], b"nonsense");
            check(&keyring.loaded.load_full().unwrap().bundle)
        };
        let plain = Overrides::default;
        assert_eq!(tried(CertificateScope::default(), plain()), Ok(()));
        let numbers = |list: &str| crate::settings::ciphers(list).unwrap();
        let old = |list: &str| Overrides { ciphers: Some(numbers(list)), ..said("versions=10") };
        assert_eq!(tried(CertificateScope::default(), old("aECDSA")), Ok(()));
        assert_eq!(
            tried(CertificateScope::default(), old("aRSA")),
            Err("Certificate a: none of its ciphers is for a key of its kind".into())
        );
        // Half of it is the listener's.
        let scope = CertificateScope { overrides: said("versions=10"), ..CertificateScope::default() };
        assert!(tried(scope, Overrides { ciphers: Some(numbers("aRSA")), ..plain() }).is_err());
        assert_eq!(
            tried(CertificateScope::default(), Overrides { ciphers: Some(numbers("aRSA")), ..plain() }),
            Ok(()),
            "TLS 1.3 is left"
        );
        let bad =
            tried(CertificateScope { overrides: said("verify=required ca=0"), ..CertificateScope::default() }, plain());
        assert_eq!(bad, Err("Certificate a: none of the CAs can be used".into()));
    }

    #[test]
    fn a_client_that_has_to_prove_itself_does_so_each_time() {
        for (verify, is_resumable) in
            [(ClientVerify::None, true), (ClientVerify::Optional, false), (ClientVerify::Required, false)]
        {
            let said = Overrides { client_verify: Some(verify), client_ca: Some(0), ..Overrides::default() };
            let scope = CertificateScope { overrides: said.clone(), ..CertificateScope::default() };
            let keyring = keyring(scope, &[entry("a")], &pair().1);
            let loaded = keyring.loaded.load_full().unwrap();
            let options = keyring.options(&loaded, 1, &said).unwrap();
            assert_eq!(options.ticketer.is_some(), is_resumable, "{verify:?}");
        }
    }
}
