// SPDX-License-Identifier: BSD-2-Clause
//! The VCL compiler's access to the system: files and the resolver. Used only in the checker's process.

use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tls::origin::OwnCertificate;
use tls::revoked::Revoked;
use tls::roots::Roots;
use vcl::{Sources, TlsFileKind};

use crate::fatal::errno_text;

/// Maximum size of a VCL file, in bytes. A larger file is refused.
pub const LONGEST_FILE: u64 = 16 << 20;

/// Files that are part of the program. Used if no directory of the path has a file of that name.
const OWN_FILES: &[(&str, &str)] = &[
    ("accept-language.vcl", include_str!("../../../../packaging/files/usr/share/varnish/vcl/accept-language.vcl")),
    ("devicedetect.vcl", include_str!("../../../../packaging/files/usr/share/varnish/vcl/devicedetect.vcl")),
];

#[derive(Debug, Clone)]
pub struct DiskSources {
    path: Vec<PathBuf>,
}

impl DiskSources {
    /// `vcl_path`: directories for relative names, separated by colons.
    pub fn new(vcl_path: &str) -> DiskSources {
        DiskSources { path: vcl_path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect() }
    }

    /// Reads a file by its absolute path or along `vcl_path`. Returns its full name and its bytes, or the name and the error.
    pub fn load(&self, name: &str) -> Result<(String, Vec<u8>), (String, io::Error)> {
        if name.starts_with('/') || self.path.is_empty() {
            return read_file(Path::new(name)).map(|text| (name.to_string(), text)).map_err(|e| (name.to_string(), e));
        }
        let mut failure = None;
        for dir in &self.path {
            let file = dir.join(name);
            match read_file(&file) {
                Ok(text) => return Ok((file.to_string_lossy().into_owned(), text)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    failure.get_or_insert(e);
                }
                Err(e) => return Err((file.to_string_lossy().into_owned(), e)),
            }
        }
        if let Some((_, text)) = OWN_FILES.iter().find(|(own, _)| *own == name) {
            return Ok((format!("<lacquer>/{name}"), text.as_bytes().to_vec()));
        }
        Err((name.to_string(), failure.unwrap_or_else(|| io::ErrorKind::NotFound.into())))
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut text = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn unreadable((name, error): &(String, io::Error)) -> String {
    format!("Cannot read file '{name}' ({})", errno_text(error))
}

impl Sources for DiskSources {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        self.load(path).map_err(|failure| match &failure {
            (name, error) if error.kind() == io::ErrorKind::NotFound && !name.starts_with('/') => {
                let dirs: Vec<_> = self.path.iter().map(|dir| dir.to_string_lossy()).collect();
                let place = if dirs.is_empty() {
                    String::new()
                } else {
                    format!(": it is looked for in {}", dirs.join(" and "))
                };
                format!("Cannot read file '{name}' ({}){place}", errno_text(error))
            }
            _ => unreadable(&failure),
        })
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        let dirs: Vec<PathBuf> = match pattern.starts_with('/') {
            true => vec![PathBuf::from("/")],
            false => self.path.clone(),
        };
        for dir in dirs {
            let found = super::glob::expand(&dir, pattern.trim_start_matches('/'));
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if host.is_empty() {
            // For a backend with `.host = ":80"`: any address of this machine.
            return Ok(vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]);
        }
        let found = base::lookup::addresses(host, 0).map_err(|e| {
            let text = errno_text(&e);
            text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_string()
        })?;
        let mut addresses = Vec::new();
        for address in found {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip());
            }
        }
        Ok(addresses)
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        fs::metadata(path).map(|meta| meta.file_type().is_socket()).map_err(|e| errno_text(&e))
    }

    fn tls_file(&self, path: &str, kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        let (name, file) = match self.load(path) {
            // Usually only root may read keys. The manager reads the file and reports errors.
            Err((name, e)) if kind == TlsFileKind::Certificate && e.kind() == io::ErrorKind::PermissionDenied => {
                return Ok((name, Vec::new()));
            }
            found => found.map_err(|failure| unreadable(&failure))?,
        };
        // Bundles are stored in the working directory, so they contain only the public part of each file.
        let public = match kind {
            TlsFileKind::Authorities => Roots::public_of(&file).map_err(|error| error.to_string()),
            TlsFileKind::Revoked => Revoked::public_of(&file),
            TlsFileKind::Certificate => {
                OwnCertificate::from_pem(&file).map(|_| Vec::new()).map_err(|error| error.to_string())
            }
        };
        public.map(|text| (name.clone(), text)).map_err(|reason| format!("Cannot use file '{name}': {reason}"))
    }
}
