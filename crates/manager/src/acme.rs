// SPDX-License-Identifier: BSD-2-Clause
//! Certificates by ACME as the manager sees them: what is asked for, the directory where they are kept, and the process that gets
//! them ([`process`]). The manager itself talks to no CA.

mod commands;
mod demand;
mod process;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime};

use acme::certificate::{AcmeCertificateFacts, printable};
use acme::settings::Allowed;
use acme::talk::{AcmeChallenge, Begin, Binding, ChallengeKind, Managed, NameStanding};
use acme::{AcmeName, AcmeSettings, AcmeStore, store};
use base::clock::Mono;
use tls::hitch::AcmeBlock;

use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::listen::BoundListener;
use crate::manager::Manager;
use crate::reply::ReplyExt;
use crate::report::{ReportSeverity, print};
use process::AcmeProcess;

const LONGEST_FILE: u64 = 16 << 20;

const MOST_ON_DEMAND: usize = 10_000;
/// Between looks for names that clients ask for.
const DEMAND_STEP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Held {
    /// End of the certificate in use.
    pub until: Option<SystemTime>,
    pub standing: NameStanding,
}

#[derive(Debug)]
pub(crate) struct Acme {
    settings: AcmeSettings,
    store: AcmeStore,
    trusted: Option<String>,
    binding: Option<Binding>,
    pub(crate) held: BTreeMap<AcmeName, Held>,
    challenges: Vec<AcmeChallenge>,
    process: Option<AcmeProcess>,
    /// Number of times the process ended by itself; [`process`] waits longer after each.
    deaths: u32,
    restart: Option<Mono>,
    /// When the worker is asked for names, and what bounds what comes of it.
    demand: Option<Mono>,
    bounds: demand::DemandBounds,
}

impl Acme {
    /// Reads the files that the settings name and opens the directory; none when no name is asked for.
    pub(crate) fn open(lists: &[String], blocks: &[AcmeBlock], jail: &Jail) -> Result<Option<Acme>, String> {
        if lists.is_empty() && blocks.is_empty() {
            return Ok(None);
        }
        let mut settings = AcmeSettings::default();
        for (key, value, line) in blocks.iter().flat_map(|block| &block.pairs) {
            settings.set(key, value).map_err(|reason| format!("{reason} (line {line} of the -A file)"))?;
        }
        lists.iter().try_for_each(|list| settings.add_list(list))?;
        settings.check()?;
        let read = |path: &std::path::Path| {
            let text = jail.privileged(|| read_text(path));
            text.map_err(|error| format!("{}: {}", path.display(), errno_text(&error)))
        };
        let trusted = settings.ca_file.as_deref().map(read).transpose()?;
        let key = settings.eab_key_file.as_deref().map(read).transpose()?;
        let binding = match settings.eab_kid.clone().zip(key) {
            Some((kid, key)) => Some(Binding { kid, key: binding_key(&key, &settings)? }),
            None => None,
        };
        let store = jail.privileged(|| AcmeStore::open(&settings.place()))?;
        // Those that were got on demand before. VCL isn't there yet, and allowed these once.
        let on_demand = &settings.on_demand;
        let kept = jail.privileged(|| store.names()).into_iter();
        let kept = kept.filter(|name| on_demand.asks_vcl() || on_demand.allows(name));
        let held = settings.names.iter().cloned().chain(kept.take(MOST_ON_DEMAND)).map(|name| {
            let standing = jail.privileged(|| store.standing(&name));
            (name, Held { until: None, standing })
        });
        let held = held.collect();
        let (challenges, process, restart) = (Vec::new(), None, None);
        Ok(Some(Acme {
            settings,
            store,
            trusted,
            binding,
            held,
            challenges,
            process,
            deaths: 0,
            restart,
            demand: None,
            bounds: demand::DemandBounds::default(),
        }))
    }

    fn begin(&self, kinds: Vec<ChallengeKind>, jail: &Jail) -> io::Result<Begin> {
        let AcmeSettings { directory, mail, profile, retry, .. } = self.settings.clone();
        let names = self.held.iter().map(|(name, held)| {
            // One that can't be used is got again.
            let pem = jail.privileged(|| self.store.certificate(name)).ok().flatten();
            let chain = pem.filter(|_| held.until.is_some()).map(|pem| store::without_key(&pem));
            Managed { name: name.clone(), chain, standing: held.standing.clone() }
        });
        let names = names.collect();
        let account = jail.privileged(|| self.store.account())?;
        let (trusted, binding) = (self.trusted.clone(), self.binding.clone());
        Ok(Begin { directory, trusted, mail, binding, profile, kinds, retry, account, names })
    }
}

fn read_text(path: &std::path::Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// CAs give it in base64url.
fn binding_key(text: &str, settings: &AcmeSettings) -> Result<Vec<u8>, String> {
    let path = settings.eab_key_file.as_deref().unwrap_or(std::path::Path::new(""));
    let key = acme::settings::base64url(text.trim()).filter(|key| !key.is_empty());
    key.ok_or_else(|| format!("{}: not a key in base64url", path.display()))
}

impl Manager {
    pub(crate) fn use_kept_certificates(&mut self) {
        let Some(acme) = &self.tls.acme else { return };
        let names: Vec<AcmeName> = acme.held.keys().cloned().collect();
        for name in names {
            let Some(acme) = &self.tls.acme else { return };
            let kept = self.jail.privileged(|| acme.store.certificate(&name));
            let used = match kept {
                Ok(None) => {
                    if let Err(reason) = self.put_placeholder(&name) {
                        print(ReportSeverity::Error, &format!("ACME: {name}: no temporary certificate: {reason}"));
                    }
                    continue;
                }
                Ok(Some(pem)) => self.use_certificate(&name, &pem),
                Err(error) => Err(errno_text(&error)),
            };
            if let Err(reason) = used {
                print(ReportSeverity::Error, &format!("ACME: {name}: the stored certificate can't be used: {reason}"));
            }
        }
    }

    /// For the time until a name's certificate is there, unless another has the name, or a wildcard for it.
    fn put_placeholder(&mut self, name: &AcmeName) -> Result<(), String> {
        let wildcard = name.as_str().split_once('.').map(|(_, rest)| format!("*.{rest}"));
        let is_for_it = |known: &String| known == name.as_str() || Some(known) == wildcard.as_ref();
        let has_one = self.tls.certs.rows().iter().any(|row| row.entry.facts.names.iter().any(is_for_it));
        if has_one || !self.tls.certs.is_on() {
            return Ok(());
        }
        self.put_certificate(&format!("acme:{name}"), tls::placeholder::pem(name.as_str())?.as_bytes())
    }

    /// Puts key and chain into use. The one before goes on until this is done.
    fn use_certificate(&mut self, name: &AcmeName, pem: &str) -> Result<AcmeCertificateFacts, String> {
        let facts = AcmeCertificateFacts::of(pem)?;
        self.put_certificate(&format!("acme:{name}"), pem.as_bytes())?;
        if let Some(held) = self.tls.acme.as_mut().and_then(|acme| acme.held.get_mut(name)) {
            held.until = Some(facts.validity.until);
        }
        Ok(facts)
    }

    /// Challenges that our listeners can answer, the better first: a CA asks for http-01 at port 80 and for tls-alpn-01
    /// at port 443.
    fn challenge_kinds(&self, settings: &AcmeSettings) -> Vec<ChallengeKind> {
        let has = |is_tls: bool| {
            self.listening
                .listeners
                .iter()
                .any(|l| l.transport.is_tls == is_tls && !l.transport.is_quic && port(l).is_some())
        };
        let at_80 = self.listening.listeners.iter().any(|l| !l.transport.is_tls && port(l) == Some(80));
        let mut kinds = Vec::new();
        kinds.extend(has(false).then_some(ChallengeKind::Http01));
        kinds.extend(has(true).then_some(ChallengeKind::TlsAlpn01));
        if !at_80 {
            kinds.reverse();
        }
        match settings.challenge {
            Allowed::Any => kinds,
            Allowed::Only(kind) => kinds.into_iter().filter(|k| *k == kind).collect(),
        }
    }

    pub(crate) fn challenge_lines(&self) -> Vec<Vec<u8>> {
        self.tls.acme.iter().flat_map(|acme| &acme.challenges).map(show_line).collect()
    }

    fn show_challenge(&mut self, challenge: AcmeChallenge) -> Result<(), String> {
        if !challenge.is_sane() {
            return Err("a challenge that makes no sense".to_owned());
        }
        if self.worker.pid().is_none() {
            return Err("no worker is running to answer the certificate authority".to_owned());
        }
        let answer = self.worker.command(show_line(&challenge));
        if !answer.is_ok() {
            return Err(printable(&answer.text()));
        }
        if let Some(acme) = &mut self.tls.acme {
            acme.challenges.retain(|old| old.token != challenge.token);
            acme.challenges.push(challenge);
        }
        Ok(())
    }

    fn hide_challenge(&mut self, challenge: &AcmeChallenge) {
        let Some(acme) = &mut self.tls.acme else { return };
        let before = acme.challenges.len();
        acme.challenges.retain(|old| old.token != challenge.token);
        if acme.challenges.len() < before && self.worker.pid().is_some() {
            let line = cli::client::encode(&["debug.acme", "hide", &challenge.token]);
            let _ = self.worker.command(line);
        }
    }
}

/// The port of a listener; `None` for a Unix-domain socket.
fn port(listener: &BoundListener) -> Option<u16> {
    match &listener.address {
        sys::sock::SocketName::Inet(address) => Some(address.port()),
        sys::sock::SocketName::Unix(_) => None,
    }
}

fn show_line(challenge: &AcmeChallenge) -> Vec<u8> {
    let AcmeChallenge { kind, name, token, answer } = challenge;
    cli::client::encode(&["debug.acme", kind.word(), name.as_str(), token, answer])
}
