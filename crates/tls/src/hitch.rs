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
use crate::settings::{self, ClientVerify, Overrides, Versions};

/// A certificate: `pem-file`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PemFile {
    /// Chain, and the key unless that is elsewhere.
    pub path: String,
    /// `private-key`
    pub key: Option<String>,
    /// `ocsp-resp-file`
    pub ocsp: Option<String>,
    /// That file comes by and by: it is one of `ocsp-dir`.
    pub is_ocsp_awaited: bool,
    /// `name`: the id by which the CLI knows it.
    pub id: Option<String>,
    /// What is said of it alone.
    pub said: Said,
    /// Where it stands.
    pub line: usize,
}

/// Settings as they are written; read by [`Said::overrides`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// `tls-protos`
    pub protocols: Option<Vec<usize>>,
    /// `ciphers`
    pub ciphers: Option<String>,
    /// `ciphersuites`
    pub ciphersuites: Option<String>,
    /// `ecdh-curve`
    pub groups: Option<String>,
    /// `prefer-server-ciphers`
    pub prefers_own_order: Option<bool>,
    /// `alpn-protos`
    pub alpn: Option<String>,
    /// `client-verify`
    pub client_verify: Option<ClientVerify>,
    /// `client-verify-ca`: a path.
    pub client_ca: Option<String>,
    /// `client-verify-crl`: a path. Ours.
    pub client_crl: Option<String>,
}

/// Where to listen: `frontend`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontend {
    /// `name`
    pub name: Option<String>,
    /// As `-a` takes it: `host:port`.
    pub endpoint: String,
    /// `match-global-certs`
    pub matches_global: Option<bool>,
    /// `sni-nomatch-abort`
    pub aborts_unknown: Option<bool>,
    /// Certificates for it alone.
    pub certificates: Vec<PemFile>,
    /// What is said of it alone.
    pub said: Said,
    /// Where it stands.
    pub line: usize,
}

/// A block for the module that gets certificates by itself: keys, values, lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub line: usize,
    /// What is in it.
    pub pairs: Vec<(String, String, usize)>,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Where to listen.
    pub frontends: Vec<Frontend>,
    /// Certificates for all.
    pub certificates: Vec<PemFile>,
    /// What is said for all.
    pub said: Said,
    /// `sni-nomatch-abort`
    pub aborts_unknown: Option<bool>,
    /// `pem-dir`
    pub pem_dir: Option<String>,
    /// `pem-dir-glob`
    pub pem_glob: Option<String>,
    /// `ocsp-dir`: answers that hitch, or a program in its place, has fetched.
    pub ocsp_dir: Option<String>,
    /// `ticket-keys-file`: keys for session tickets that several servers share. Ours.
    pub ticket_keys: Option<String>,
    /// `acme = { ... }`. Ours.
    pub acme: Vec<Block>,
    /// Keys that have no meaning here, with their lines.
    pub ignored: Vec<(String, usize)>,
}

/// Why a file can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where.
    pub line: usize,
    /// Why.
    pub reason: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parsing error in line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for Error {}

/// Reads a file.
///
/// # Errors
/// See [`Error`]; an empty file is one.
pub fn read(text: &str) -> Result<File, Error> {
    read::file(text)
}

/// Where in its `ocsp-dir` hitch keeps the answer about a certificate that was named by this path.
pub fn ocsp_path(dir: &str, path: &str) -> String {
    let name: String = Md5::digest(path).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}/{name}", dir.trim_end_matches('/'))
}

impl Said {
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
            groups: self.groups.as_deref().map(settings::groups).transpose()?.flatten(),
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
