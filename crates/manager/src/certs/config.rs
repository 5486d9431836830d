// SPDX-License-Identifier: BSD-2-Clause
//! From a file of `-A`, and listeners of `-a`, to scopes and certificates.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base::fnmatch;
use tls::bundle::{BundleEntry, CertificateScope, GLOBAL};
use tls::hitch::{self, HitchSettings, PemFile};

use super::lists::Listed;
use super::{Certs, files};
use crate::fatal::{Fatal, argument};
use crate::jail::Jail;

/// Bytes that a configuration may have: a line for each of a hundred thousand certificates, and more.
const LONGEST_CONFIG: usize = 16 << 20;

const INSTEAD: [(&str, &str); 2] = [
    ("backlog", ": the parameter listen_depth has"),
    ("ssl-handshake-timeout", ": the parameter tls_handshake_timeout has"),
];

#[derive(Debug)]
pub struct CertsConfig {
    file: hitch::File,
    /// One name for each frontend.
    names: Vec<String>,
}

impl CertsConfig {
    pub fn read(path: &str, jail: &Jail) -> Result<CertsConfig, Fatal> {
        let bytes = jail.privileged(|| files::bytes_of(path, LONGEST_CONFIG));
        let bytes = bytes.or_else(|reason| argument(format!("-A: Cannot open '{path}': {reason}")))?;
        // A comment may be in any encoding; a value that isn't UTF-8 is refused.
        let text = String::from_utf8_lossy(&bytes);
        let mut file = hitch::read(&text).or_else(|e| argument(format!("-A: {path}: {e}")))?;
        if let Ok(here) = std::env::current_dir() {
            anchor(&mut file, &here);
        }
        let names = names(&file.frontends).or_else(|reason| argument(format!("-A: {path}: {reason}")))?;
        Ok(CertsConfig { names, file })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Listeners of the file in the form of `-a`.
    pub fn listeners(&self) -> impl Iterator<Item = String> {
        self.file
            .frontends
            .iter()
            .zip(&self.names)
            .map(|(frontend, name)| format!("{name}={},https", frontend.endpoint))
    }

    pub fn acme(&self) -> &[hitch::AcmeBlock] {
        &self.file.acme
    }

    pub fn ticket_keys(&self) -> Option<&str> {
        self.file.ticket_keys.as_deref()
    }

    pub fn notes(&self, path: &str) -> Vec<String> {
        let ignored = self.file.ignored.iter().map(|(key, line)| {
            let hint = INSTEAD.iter().find(|(known, _)| known == key).map_or("", |(_, hint)| hint);
            format!("-A: {path} line {line}: {key} has no meaning here{hint}")
        });
        let frontends = || self.file.frontends.iter();
        let certificates = frontends().flat_map(|frontend| &frontend.certificates).chain(&self.file.certificates);
        let said = [&self.file.said].into_iter().chain(frontends().map(|frontend| &frontend.said));
        let said: Vec<_> = said.chain(certificates.map(|pem| &pem.said)).collect();
        let alpn = said.iter().filter_map(|said| said.alpn.as_ref()).flat_map(|list| tls::settings::alpn(list).1);
        let groups =
            said.iter().filter_map(|said| said.groups.as_ref()).flat_map(|list| tls::groups::not_offered(list));
        ignored
            .chain(alpn.map(|name| format!("-A: {path}: alpn-protos: {name} isn't spoken here, and isn't offered")))
            .chain(groups.map(|name| format!("-A: {path}: ecdh-curve: {name} isn't available here, and isn't offered")))
            .collect()
    }
}

/// The name of each frontend, given or made up: certificates and what is asked of clients are found by it, so no two are alike.
fn names(frontends: &[hitch::Frontend]) -> Result<Vec<String>, String> {
    let mut given: HashMap<&str, usize> = HashMap::new();
    for frontend in frontends {
        let Some(name) = frontend.name.as_deref() else { continue };
        if !super::is_name(name) {
            return Err(format!("line {}: a name must not contain blanks or non-printable characters", frontend.line));
        }
        if let Some(before) = given.insert(name, frontend.line) {
            return Err(format!(
                "lines {before} and {}: two frontends are named '{}'",
                frontend.line,
                name.escape_debug()
            ));
        }
    }
    let mut free = (0..).map(|number| format!("tls{number}")).filter(|name| !given.contains_key(name.as_str()));
    let name_of = |frontend: &hitch::Frontend| frontend.name.clone().or_else(|| free.next());
    Ok(frontends.iter().filter_map(name_of).collect())
}

/// Paths are meant from where the program was started: it is about to go into its workdir.
fn anchor(file: &mut hitch::File, here: &Path) {
    let anchor = |path: &mut String| *path = here.join(&*path).to_string_lossy().into_owned();
    let certificates =
        file.frontends.iter_mut().flat_map(|frontend| &mut frontend.certificates).chain(&mut file.certificates);
    for pem in certificates {
        if let (None, Some(dir)) = (&pem.ocsp, &file.ocsp_dir) {
            (pem.ocsp, pem.is_ocsp_awaited) = (Some(hitch::ocsp_path(dir, &pem.path)), true);
        }
        anchor(&mut pem.path);
        let HitchSettings { client_ca, client_crl, .. } = &mut pem.said;
        [&mut pem.key, &mut pem.ocsp, client_ca, client_crl].into_iter().flatten().for_each(anchor);
    }
    let said = file.frontends.iter_mut().map(|frontend| &mut frontend.said).chain([&mut file.said]);
    said.flat_map(|said| [&mut said.client_ca, &mut said.client_crl]).flatten().for_each(anchor);
    [&mut file.pem_dir, &mut file.ocsp_dir, &mut file.ticket_keys].into_iter().flatten().for_each(anchor);
}

/// The certificates of a server with these listeners for TLS, all of them staged.
///
/// # Errors
/// In words.
pub fn certs(
    config: Option<&CertsConfig>,
    listeners: &[String],
    refuses_duplicates: bool,
    jail: &Jail,
) -> Result<Certs, String> {
    let mut out = Certs::default();
    if listeners.is_empty() {
        return match config {
            Some(_) => {
                Err("No frontend listen endpoint definitions found in configuration file, and no -a ADDRESS,https"
                    .to_owned())
            }
            None => Ok(out),
        };
    }
    let empty = hitch::File::default();
    let file = config.map_or(&empty, |config| &config.file);
    let global = CertificateScope {
        aborts_unknown: file.aborts_unknown.unwrap_or(false),
        overrides: overrides(&file.said, &mut out.lists, jail)?,
        ..CertificateScope::default()
    };
    out.scopes.push(global);
    let mut entries = entries(&mut out, &file.certificates, GLOBAL, jail)?;
    entries.extend(directory(&mut out, file, jail)?);
    for name in listeners {
        if out.scope_named(name).is_some() {
            continue;
        }
        let number = out.scopes.len() as u32;
        let at = config.and_then(|config| config.names.iter().position(|known| known == name));
        let Some(frontend) = at.and_then(|at| file.frontends.get(at)) else {
            // Of -a: certificates come by the CLI, and who asks for another name gets none of them, as in Varnish.
            out.scopes.push(CertificateScope {
                name: name.clone(),
                aborts_unknown: true,
                matches_global: true,
                ..CertificateScope::default()
            });
            continue;
        };
        let scope = CertificateScope {
            name: name.clone(),
            aborts_unknown: frontend.aborts_unknown.or(file.aborts_unknown).unwrap_or(false),
            matches_global: frontend.matches_global.unwrap_or(frontend.certificates.is_empty()),
            default: None,
            differs: false,
            overrides: overrides(&frontend.said, &mut out.lists, jail)?,
        };
        check_client_verify(&scope.overrides.over(&out.scopes[0].overrides))?;
        out.scopes.push(scope);
        entries.extend(self::entries(&mut out, &frontend.certificates, number, jail)?);
    }
    out.stage(entries, refuses_duplicates, jail)?;
    Ok(out)
}

/// Certificates in the order of the file; the last is its scope's default.
fn entries(certs: &mut Certs, listed: &[PemFile], scope: u32, jail: &Jail) -> Result<Vec<BundleEntry>, String> {
    let mut out: Vec<BundleEntry> = Vec::with_capacity(listed.len());
    for (at, pem) in listed.iter().enumerate() {
        let id = pem.id.clone().unwrap_or_else(|| certs.new_id());
        let overrides = overrides(&pem.said, &mut certs.lists, jail).map_err(|e| format!("{}: {e}", pem.path))?;
        let around = certs.scopes[scope as usize].overrides.over(&certs.scopes[0].overrides);
        check_client_verify(&overrides.over(&around)).map_err(|e| format!("{}: {e}", pem.path))?;
        out.push(BundleEntry {
            id,
            scope,
            is_default: at + 1 == listed.len(),
            path: pem.path.clone(),
            key_path: pem.key.clone().unwrap_or_default(),
            ocsp_path: pem.ocsp.clone().unwrap_or_default(),
            is_ocsp_awaited: pem.is_ocsp_awaited,
            overrides,
            ..BundleEntry::default()
        });
    }
    Ok(out)
}

/// The files of `pem-dir`, by name.
fn directory(certs: &mut Certs, file: &hitch::File, jail: &Jail) -> Result<Vec<BundleEntry>, String> {
    let Some(dir) = &file.pem_dir else { return Ok(Vec::new()) };
    let pattern = file.pem_glob.as_deref().unwrap_or("*");
    let listed = jail.privileged(|| {
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()
    });
    let mut paths = listed.map_err(|e| format!("pem-dir {dir}: {}", crate::fatal::errno_text(&e)))?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        !name.starts_with(b".") && fnmatch::matches(pattern.as_bytes(), name, fnmatch::MatchFlags::default())
    });
    jail.privileged(|| paths.retain(|path| path.is_file()));
    paths.sort();
    let entry = |path: PathBuf| {
        let path = path.to_string_lossy().into_owned();
        let ocsp_path = file.ocsp_dir.as_deref().map(|dir| hitch::ocsp_path(dir, &path)).unwrap_or_default();
        BundleEntry {
            id: certs.new_id(),
            is_ocsp_awaited: !ocsp_path.is_empty(),
            path,
            ocsp_path,
            ..BundleEntry::default()
        }
    };
    Ok(paths.into_iter().map(entry).collect())
}

/// Settings, with the files about clients' certificates read once for all who name them.
pub fn overrides(
    said: &HitchSettings,
    lists: &mut Vec<Listed>,
    jail: &Jail,
) -> Result<tls::settings::Overrides, String> {
    let overrides = said.overrides(|kind, path| {
        let is_it = |listed: &Listed| listed.list.kind == kind && listed.list.path == path;
        if let Some(at) = lists.iter().position(is_it) {
            return Ok(at as u32);
        }
        lists.push(Listed::read(kind, path, jail)?);
        Ok(lists.len() as u32 - 1)
    })?;
    Ok(overrides)
}

fn check_client_verify(overrides: &tls::settings::Overrides) -> Result<(), String> {
    use tls::settings::ClientVerify;
    match overrides.client_verify {
        Some(ClientVerify::Optional | ClientVerify::Required) if overrides.client_ca.is_none() => {
            Err("client-verify requires client-verify-ca, the authorities of client certificates".to_owned())
        }
        _ => Ok(()),
    }
}
