// SPDX-License-Identifier: BSD-2-Clause
//! Reading certificates from files, which only root may as a rule, with a word for everything that may be wrong with them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use nix::fcntl::OFlag;
use tls::facts::{self, CertificateFacts};
use tls::ocsp::{self, OcspError, ValiditySpan};
use tls::pem::{self, Pair, PemError};
use zeroize::Zeroizing;

use crate::fatal::errno_text;

/// An OCSP answer is a few hundred bytes, with certificates a few thousand.
const LONGEST_OCSP: usize = 64 << 10;

#[derive(Clone, Debug)]
pub struct Fresh {
    pub pair: Pair,
    pub staple: Staple,
}

#[derive(Clone, Debug, Default)]
pub struct Staple {
    /// The response; empty if there is none that is of use.
    pub answer: Vec<u8>,
    /// Period in which it may be sent.
    pub span: ValiditySpan,
    /// Reason why an expected response is missing.
    pub trouble: Option<String>,
}

/// Metadata by which a change of a file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature([i64; 6]);

impl Signature {
    /// When the file was written last: seconds since 1970.
    pub fn modified(self) -> i64 {
        self.0[3]
    }
}

/// The files of a certificate. Those that there aren't are empty.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    pub chain: &'a str,
    pub key: &'a str,
    pub ocsp: &'a str,
    pub is_ocsp_awaited: bool,
}

impl Paths<'_> {
    /// The present signatures of the files; `None` for one that can't be looked at.
    pub fn signatures(&self) -> [Option<Signature>; 3] {
        [self.chain, self.key, self.ocsp].map(|path| if path.is_empty() { None } else { signature(path) })
    }
}

/// The present signature of a file; `None` if it can't be looked at.
pub fn signature(path: &str) -> Option<Signature> {
    let m = std::fs::metadata(path).ok()?;
    let size = i64::try_from(m.len()).unwrap_or(i64::MAX);
    Some(Signature([m.dev() as i64, m.ino() as i64, size, m.mtime(), m.mtime_nsec(), m.ctime_nsec()]))
}

/// Reads a certificate with its key, and what it says of itself.
///
/// # Errors
/// In words, with the path.
pub fn load(paths: Paths<'_>) -> Result<(Fresh, CertificateFacts), String> {
    let chain = pem::read(&read(paths.chain, "certificate", pem::LONGEST_FILE)?).map_err(|e| at(paths.chain, &e))?;
    let contents = match paths.key {
        "" => chain,
        key => {
            let file = read(key, "private key", pem::LONGEST_FILE)?;
            let keys = pem::read(&file).map_err(|e| at(key, &e))?;
            if !keys.has_key() {
                return Err(at(key, &PemError::NoKey));
            }
            chain.with_keys_of(keys)
        }
    };
    let pair = contents.pair().map_err(|e| match (&e, paths.key) {
        (PemError::Mismatch, key) if !key.is_empty() => format!("{}: {e} ({key})", paths.chain),
        (PemError::Key(_), key) if !key.is_empty() => at(key, &e),
        _ => at(paths.chain, &e),
    })?;
    let staple = match paths.ocsp {
        "" => Staple::default(),
        path if paths.is_ocsp_awaited => awaited_staple(path, &pair.chain),
        path => staple(path, &pair.chain)?,
    };
    let facts = of_pair(&pair).map_err(|reason| format!("{}: {reason}", paths.chain))?;
    Ok((Fresh { pair, staple }, facts))
}

/// The facts of the leaf. A certificate without names is refused.
pub fn of_pair(pair: &Pair) -> Result<CertificateFacts, String> {
    let facts =
        pair.chain.first().ok_or_else(|| PemError::NoCertificate.to_string()).and_then(|leaf| facts::read(leaf))?;
    if facts.names.is_empty() {
        return Err("Could not find valid SAN or CN in certificate".to_owned());
    }
    Ok(facts)
}

/// An answer that somebody named. What isn't one is refused, as any file; one that doesn't help is left out: a responder's
/// verdict is no reason to go without the certificate.
fn staple(path: &str, chain: &[Vec<u8>]) -> Result<Staple, String> {
    let answer = read(path, "OCSP response", LONGEST_OCSP)?.to_vec();
    match ocsp::judge(&answer, chain) {
        Ok(span) => Ok(Staple { answer, span, trouble: None }),
        Err(error @ OcspError::NoAnswer) => Err(format!("{path}: {error}")),
        Err(error) => Ok(Staple { trouble: Some(format!("{path}: {error}")), ..Staple::default() }),
    }
}

/// An answer that another program fetches: there may be none yet.
fn awaited_staple(path: &str, chain: &[Vec<u8>]) -> Staple {
    if std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Staple::default();
    }
    staple(path, chain).unwrap_or_else(|trouble| Staple { trouble: Some(trouble), ..Staple::default() })
}

fn at(path: &str, error: &PemError) -> String {
    format!("{path}: {error}")
}

/// A file's bytes, wiped when they go.
///
/// # Errors
/// In words, with the path.
pub fn read(path: &str, what: &str, most: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let bytes = bytes_of(path, most).map_err(|reason| format!("Unable to read {what} file '{path}' ({reason})"))?;
    if bytes.is_empty() { Err(at(path, &PemError::Empty)) } else { Ok(bytes) }
}

/// Reads at most `most` bytes of a regular file.
///
/// # Errors
/// In words.
pub fn bytes_of(path: &str, most: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let text = |e: std::io::Error| errno_text(&e);
    // A pipe without a writer would stop the manager.
    let flags = OFlag::O_NONBLOCK.bits();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(text)?;
    let metadata = file.metadata().map_err(text)?;
    if !metadata.is_file() {
        return Err("Not a file".to_owned());
    }
    // Room for all at once: a vector that grows leaves pieces of keys behind.
    let expected = usize::try_from(metadata.len()).unwrap_or(most).min(most);
    let mut bytes = Zeroizing::new(Vec::with_capacity(expected + 2));
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(text)?;
    if bytes.len() > most { Err(format!("Longer than {most} bytes")) } else { Ok(bytes) }
}
