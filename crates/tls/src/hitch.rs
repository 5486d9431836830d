// SPDX-License-Identifier: BSD-2-Clause
//! The language of hitch's configuration file, in which Varnish 9 and we are told of TLS (`-A`): `key = value`, `#` for comments,
//! quoted strings, blocks in braces.
//!
//! What hitch says of itself as a process beside the server (backend, workers, user ...) has no meaning here: such keys are
//! reported, and otherwise passed over. A key that nobody knows is an error: it may be a misspelt one that matters.

mod read;
mod tokens;

use md5::{Digest, Md5};

use crate::bundle::ListKind;
use crate::groups;
use crate::settings::{self, ClientVerify, Overrides, Versions};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PemFile {
    /// Chain, and the key unless that is elsewhere.
    pub path: String,
    pub key: Option<String>,
    pub ocsp: Option<String>,
    /// True if the file may appear later: it is one of `ocsp-dir`.
    pub is_ocsp_awaited: bool,
    /// `name`: the id by which the CLI knows it.
    pub id: Option<String>,
    pub said: HitchSettings,
    pub line: usize,
}

/// Settings as they are written; read by [`HitchSettings::overrides`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitchSettings {
    pub protocols: Option<Vec<usize>>,
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
    pub groups: Option<String>,
    pub prefers_own_order: Option<bool>,
    pub alpn: Option<String>,
    pub client_verify: Option<ClientVerify>,
    pub client_ca: Option<String>,
    /// `client-verify-crl`: a path. Ours.
    pub client_crl: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontend {
    pub name: Option<String>,
    /// Address in the form that `-a` takes: `host:port`.
    pub endpoint: String,
    pub matches_global: Option<bool>,
    pub aborts_unknown: Option<bool>,
    pub certificates: Vec<PemFile>,
    pub said: HitchSettings,
    pub line: usize,
}

/// A block for the module that gets certificates by itself: keys, values, lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcmeBlock {
    pub line: usize,
    pub pairs: Vec<(String, String, usize)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    pub frontends: Vec<Frontend>,
    pub certificates: Vec<PemFile>,
    pub said: HitchSettings,
    pub aborts_unknown: Option<bool>,
    pub pem_dir: Option<String>,
    pub pem_glob: Option<String>,
    /// `ocsp-dir`: answers that hitch, or a program in its place, has fetched.
    pub ocsp_dir: Option<String>,
    /// `ticket-keys-file`: keys for session tickets that several servers share. Ours.
    pub ticket_keys: Option<String>,
    /// `acme = { ... }`. Ours.
    pub acme: Vec<AcmeBlock>,
    pub ignored: Vec<(String, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitchError {
    pub line: usize,
    pub reason: String,
}

impl std::fmt::Display for HitchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parsing error in line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for HitchError {}

/// Reads a file.
///
/// # Errors
/// See [`HitchError`]; an empty file is one.
pub fn read(text: &str) -> Result<File, HitchError> {
    read::file(text)
}

/// Path of the file in `ocsp-dir` that holds hitch's OCSP response for the certificate at `path`.
pub fn ocsp_path(dir: &str, path: &str) -> String {
    let name = base::hex::encode(&Md5::digest(path));
    format!("{}/{name}", dir.trim_end_matches('/'))
}

impl HitchSettings {
    /// The settings. `list_of` gives the number of a file's list.
    ///
    /// # Errors
    /// A list that makes no sense, or leaves nothing; in words.
    pub fn overrides(
        &self,
        mut list_of: impl FnMut(ListKind, &str) -> Result<u32, String>,
    ) -> Result<Overrides, String> {
        let versions = self.protocols.as_ref().map(|words| {
            Versions::between(words).ok_or_else(|| "tls-protos: there are TLSv1.2 and TLSv1.3 here".to_owned())
        });
        let text = |error: settings::CipherError| error.to_string();
        Ok(Overrides {
            versions: versions.transpose()?,
            ciphers: self.ciphers.as_deref().map(settings::ciphers).transpose().map_err(text)?,
            ciphersuites: self.ciphersuites.as_deref().map(settings::ciphersuites).transpose().map_err(text)?,
            groups: self.groups.as_deref().map(groups::groups).transpose()?.flatten(),
            prefers_own_order: self.prefers_own_order,
            alpn: self.alpn.as_deref().map(|list| settings::alpn(list).0),
            client_verify: self.client_verify,
            client_ca: self.client_ca.as_deref().map(|path| list_of(ListKind::Authorities, path)).transpose()?,
            client_crl: self.client_crl.as_deref().map(|path| list_of(ListKind::Revoked, path)).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests;
