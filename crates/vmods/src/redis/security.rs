// SPDX-License-Identifier: BSD-2-Clause
//! TLS with the servers of a database: the files that VCL names are read when it is loaded.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use net::Stream;
use tls::origin::{self, OwnCertificate, TlsOrigin};
use tls::pem::PemError;
use tls::roots::Roots;
use tls::verify::Verify;

use super::DatabaseArgs;
use crate::support::sealed;

/// Sessions that are remembered: eight of each of 64 servers.
const SESSIONS: usize = 512;
/// Files that are read of a directory of authorities.
const MAX_FILES: usize = 1000;

pub(super) struct Security {
    client: Arc<tls::TlsClient>,
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
        let origin = TlsOrigin {
            verify: if name.is_some() { Verify::ChainAndName } else { Verify::Chain },
            roots: roots(text(args.tls_cafile), text(args.tls_capath))?,
            certificate,
            ..TlsOrigin::of("")
        };
        Ok(Security { client: origin.client_without_protocol(SESSIONS)?, name })
    }

    pub(super) async fn seal(&self, stream: Stream, host: &str, limit: Duration) -> Result<Stream, String> {
        sealed::seal(stream, &self.client, self.name.as_deref().unwrap_or(host), limit).await
    }
}

/// Trusted authorities: those of the file, and of all files of the directory that are PEM; without either, the
/// system's.
fn roots(file: Option<String>, directory: Option<String>) -> Result<Roots, String> {
    let mut sets = Vec::new();
    if let Some(path) = &file {
        sets.push(read(path.as_ref())?);
    }
    if let Some(path) = &directory {
        for entry in fs::read_dir(path).map_err(|error| format!("{path}: {error}"))?.take(MAX_FILES).flatten() {
            if entry.path().is_file() {
                sets.extend(read(&entry.path()).ok());
            }
        }
    }
    match (&file, &directory) {
        (None, None) => Ok(Roots::system()),
        (_, Some(path)) if sets.is_empty() => Err(format!("{path}: {}", PemError::NoCertificate)),
        _ => Ok(Roots::of_all(&sets)),
    }
}

/// All authorities of a file: of one that was cut short some would be trusted and some not.
fn read(path: &Path) -> Result<Roots, String> {
    Roots::from_pem(&origin::file(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use tls::pem::LONGEST_FILE;

    use super::*;

    #[test]
    fn a_file_of_authorities_that_is_too_long_is_refused() {
        let ca = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap().cert.pem();
        let (a, b) = (ca("a.example"), ca("b.example"));
        let dir = std::env::temp_dir().join(format!("redis-roots-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let path = dir.join("ca.pem");
        let of = |text: String| {
            fs::write(&path, text).unwrap();
            let of_file = roots(Some(path.display().to_string()), None);
            (of_file.map(|roots| roots.len()), roots(None, Some(dir.display().to_string())).map(|roots| roots.len()))
        };
        let long = of(format!("{a}{}{b}", "\n".repeat(LONGEST_FILE)));
        let fits = of(format!("{a}{b}"));
        fs::remove_dir_all(&dir).unwrap();
        let says = |of: &Path, reason: &dyn std::fmt::Display| Err(format!("{}: {reason}", of.display()));
        assert_eq!(long, (says(&path, &PemError::TooLong), says(&dir, &PemError::NoCertificate)));
        assert_eq!(fits, (Ok(2), Ok(2)));
    }
}
