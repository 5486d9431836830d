// SPDX-License-Identifier: BSD-2-Clause
//! TLS with the servers of a database: the files that VCL names are read when it is loaded.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use net::Stream;
use tls::origin::{Origin, OwnCertificate};
use tls::roots::Roots;
use tls::verify::Verify;

use super::DatabaseArgs;
use crate::support::sealed;

/// Sessions that are remembered: eight of each of 64 servers.
const SESSIONS: usize = 512;
/// The longest file of certificates or keys.
const LONGEST_FILE: u64 = 1 << 20;
/// Files that are read of a directory of authorities.
const MAX_FILES: usize = 1000;

/// How servers are spoken to.
pub(super) struct Security {
    client: Arc<tls::Client>,
    /// The name that each of them has; `None`: the host that it is known by, of which only the chain is checked.
    name: Option<String>,
}

impl Security {
    pub(super) fn new(args: &DatabaseArgs<'_>) -> Result<Security, String> {
        let text = |text: &[u8]| Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty());
        let name = text(args.tls_sni);
        let certificate = match (text(args.tls_certfile), text(args.tls_keyfile)) {
            (None, None) => None,
            (None, Some(_)) => return Err("tls_keyfile without tls_certfile".to_owned()),
            (Some(certificate), None) => Some(OwnCertificate::read(certificate.as_ref())?),
            (Some(certificate), Some(key)) => Some(OwnCertificate::read_both(certificate.as_ref(), key.as_ref())?),
        };
        let origin = Origin {
            verify: if name.is_some() { Verify::ChainAndName } else { Verify::Chain },
            roots: roots(text(args.tls_cafile), text(args.tls_capath))?,
            certificate,
            ..Origin::of("")
        };
        Ok(Security { client: origin.client_without_protocol(SESSIONS)?, name })
    }

    pub(super) async fn seal(&self, stream: Stream, host: &str, limit: Duration) -> Result<Stream, String> {
        sealed::seal(stream, &self.client, self.name.as_deref().unwrap_or(host), limit).await
    }
}

/// Whom we trust: the file, and all files of the directory that are PEM; without either, whom the system trusts.
fn roots(file: Option<String>, directory: Option<String>) -> Result<Roots, String> {
    let of = |path: &str, reason: &dyn std::fmt::Display| format!("{path}: {reason}");
    let mut all = Vec::new();
    if let Some(path) = &file {
        let text = read(path.as_ref()).map_err(|error| of(path, &error))?;
        Roots::from_pem(&text).map_err(|error| of(path, &error))?;
        all.extend(text);
    }
    if let Some(path) = &directory {
        for entry in fs::read_dir(path).map_err(|error| of(path, &error))?.take(MAX_FILES).flatten() {
            let text = if entry.path().is_file() { read(&entry.path()).unwrap_or_default() } else { Vec::new() };
            if Roots::from_pem(&text).is_ok() {
                all.extend([b"\n", &text[..]].concat());
            }
        }
    }
    match (&file, &directory) {
        (None, None) => Ok(Roots::system()),
        (_, path) => Roots::from_pem(&all).map_err(|error| of(path.as_deref().unwrap_or_default(), &error)),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST_FILE).read_to_end(&mut text)?;
    Ok(text)
}
