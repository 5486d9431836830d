// SPDX-License-Identifier: BSD-2-Clause
//! Sources of VCL text. The checker process reads disk and DNS and records every answer. The worker compiles again from
//! the record alone, so both see the same text.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use tables::dialects::Dialect;

use crate::program::BackendAddress;

/// The compiler's access to the outside. The caller decides about `vcl_path`, limits and permissions.
pub trait Sources {
    /// Reads the file that an `include` names. `path` is as written, or joined to its includer's directory if it began
    /// with `./`. Returns the name for messages and the text.
    ///
    /// # Errors
    /// One line: `Cannot read file 'x' (No such file or directory)`.
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String>;

    /// Returns the files that a `+glob` pattern matches, in order.
    ///
    /// # Errors
    /// One line of reason.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String>;

    /// Returns the addresses of a host name.
    ///
    /// # Errors
    /// The resolver's message.
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String>;

    /// True if `path` (`.path` of a backend) is a socket; false if it is something else.
    ///
    /// # Errors
    /// The system's message (`No such file or directory`).
    fn is_socket(&self, path: &str) -> Result<bool, String>;

    /// Reads a file that a backend's TLS attribute names; it is searched for like an included one. Returns its complete
    /// name, and its bytes unless they are secret. An implementation without files accepts any name.
    ///
    /// # Errors
    /// One line: the file can't be read, or its content is wrong for the attribute.
    fn tls_file(&self, path: &str, _kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        Ok((path.to_owned(), Vec::new()))
    }

    /// Returns name and address of the server's own listener that a backend's address leads to. Not recorded, because
    /// only the loading server needs it.
    fn own_listener(&self, _address: &BackendAddress) -> Option<String> {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFileKind {
    Authorities,
    Revoked,
    /// A certificate with its key, which is secret.
    Certificate,
}

impl TlsFileKind {
    /// The code in a serialised bundle.
    fn code(self) -> u8 {
        match self {
            Self::Authorities => b'a',
            Self::Revoked => b'r',
            Self::Certificate => b'c',
        }
    }
}

/// A text that stands alone: no file can be included, no host name is known, and every path counts as a socket.
#[derive(Clone, Copy, Debug)]
pub struct NoSources;

impl Sources for NoSources {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        Err(format!("Cannot read file '{path}'"))
    }

    fn glob(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, String> {
        Err("no resolver".to_owned())
    }

    fn is_socket(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }
}

/// A recorded result of one [`Sources`] method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceAnswer {
    File(Result<(String, Vec<u8>), String>),
    Glob(Result<Vec<String>, String>),
    Host(Result<Vec<IpAddr>, String>),
    Socket(Result<bool, String>),
    Tls(Result<(String, Vec<u8>), String>),
}

/// The key of the compiled text in a bundle: `bundle.read(MAIN)` returns its name and its bytes.
pub const MAIN: &str = "";

/// Everything that a compilation read, so that it can be repeated elsewhere. Implements [`Sources`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceBundle {
    /// Answers by kind (`f`, `g`, `h`, `s`, and those of [`TlsFileKind`]) and argument.
    pub answers: BTreeMap<(u8, String), SourceAnswer>,
    pub dialect: Option<Dialect>,
}

/// Forwards each request and records the answer.
pub struct Recorder<'a> {
    inner: &'a dyn Sources,
    bundle: RefCell<SourceBundle>,
}

impl<'a> Recorder<'a> {
    pub fn new(inner: &'a dyn Sources) -> Self {
        Recorder { inner, bundle: RefCell::default() }
    }

    pub fn into_bundle(self) -> SourceBundle {
        self.bundle.into_inner()
    }

    fn keep<T: Clone>(&self, kind: u8, key: &str, answer: T, wrap: impl Fn(T) -> SourceAnswer) -> T {
        self.bundle.borrow_mut().answers.insert((kind, key.to_owned()), wrap(answer.clone()));
        answer
    }
}

impl Sources for Recorder<'_> {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        self.keep(b'f', path, self.inner.read(path), SourceAnswer::File)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.keep(b'g', pattern, self.inner.glob(pattern), SourceAnswer::Glob)
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        self.keep(b'h', host, self.inner.resolve(host), SourceAnswer::Host)
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        self.keep(b's', path, self.inner.is_socket(path), SourceAnswer::Socket)
    }

    fn tls_file(&self, path: &str, kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        self.keep(kind.code(), path, self.inner.tls_file(path, kind), SourceAnswer::Tls)
    }

    fn own_listener(&self, address: &BackendAddress) -> Option<String> {
        self.inner.own_listener(address)
    }
}

const NOT_RECORDED: &str = "not among the recorded sources";

impl Sources for SourceBundle {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        match self.answers.get(&(b'f', path.to_owned())) {
            Some(SourceAnswer::File(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        match self.answers.get(&(b'g', pattern.to_owned())) {
            Some(SourceAnswer::Glob(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        match self.answers.get(&(b'h', host.to_owned())) {
            Some(SourceAnswer::Host(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        match self.answers.get(&(b's', path.to_owned())) {
            Some(SourceAnswer::Socket(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn tls_file(&self, path: &str, kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        match self.answers.get(&(kind.code(), path.to_owned())) {
            Some(SourceAnswer::Tls(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }
}

/// First bytes of a serialised bundle; the last is the format's version.
const MAGIC: &[u8; 8] = b"LQRVCLB\x02";

impl SourceBundle {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(&mut out, self.dialect.map_or("", Dialect::name).as_bytes());
        put_len(&mut out, self.answers.len());
        for ((kind, question), answer) in &self.answers {
            out.push(*kind);
            put(&mut out, question.as_bytes());
            match answer {
                SourceAnswer::File(answer) | SourceAnswer::Tls(answer) => {
                    put_result(&mut out, answer, |out, (name, text)| {
                        put(out, name.as_bytes());
                        put(out, text);
                    })
                }
                SourceAnswer::Glob(answer) => put_result(&mut out, answer, |out, files| {
                    put_len(out, files.len());
                    files.iter().for_each(|file| put(out, file.as_bytes()));
                }),
                SourceAnswer::Host(answer) => put_result(&mut out, answer, |out, ips| {
                    put_len(out, ips.len());
                    ips.iter().for_each(|ip| put(out, ip.to_string().as_bytes()));
                }),
                SourceAnswer::Socket(answer) => put_result(&mut out, answer, |out, is| out.push(u8::from(*is))),
            }
        }
        out
    }

    /// Paths of certificates with keys, whose content isn't in the bundle.
    pub fn key_files(&self) -> Vec<String> {
        let is_one = |(kind, _): &(u8, String)| *kind == TlsFileKind::Certificate.code();
        let files =
            self.answers.iter().filter(|(question, _)| is_one(question)).filter_map(|(_, answer)| match answer {
                SourceAnswer::Tls(Ok((path, _))) => Some(path.clone()),
                _ => None,
            });
        files.collect()
    }

    /// Reads the output of [`SourceBundle::to_bytes`]; `None` if the bytes are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<SourceBundle> {
        let mut input = Input(bytes.strip_prefix(MAGIC)?);
        let dialect = input.text()?;
        let mut bundle = SourceBundle { dialect: Dialect::from_name(&dialect), ..SourceBundle::default() };
        if bundle.dialect.is_none() && !dialect.is_empty() {
            return None;
        }
        for _ in 0..input.len()? {
            let kind = input.byte()?;
            let question = input.text()?;
            let answer = match kind {
                b'f' => SourceAnswer::File(input.result(Input::named)?),
                b'a' | b'r' | b'c' => SourceAnswer::Tls(input.result(Input::named)?),
                b'g' => SourceAnswer::Glob(input.result(|input| input.list(Some))?),
                b'h' => SourceAnswer::Host(input.result(|input| input.list(|ip| ip.parse().ok()))?),
                b's' => SourceAnswer::Socket(input.result(|input| Some(input.byte()? != 0))?),
                _ => return None,
            };
            bundle.answers.insert((kind, question), answer);
        }
        input.0.is_empty().then_some(bundle)
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&(len as u64).to_le_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_result<T>(out: &mut Vec<u8>, result: &Result<T, String>, ok: impl Fn(&mut Vec<u8>, &T)) {
    out.push(u8::from(result.is_ok()));
    match result {
        Ok(value) => ok(out, value),
        Err(reason) => put(out, reason.as_bytes()),
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn len(&mut self) -> Option<usize> {
        let (len, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        // Every element takes at least one byte, so a length beyond the rest is malformed.
        usize::try_from(u64::from_le_bytes(*len)).ok().filter(|len| *len <= rest.len())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.len()?;
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn named(&mut self) -> Option<(String, Vec<u8>)> {
        Some((self.text()?, self.bytes()?.to_vec()))
    }

    fn list<T>(&mut self, of: impl Fn(String) -> Option<T>) -> Option<Vec<T>> {
        (0..self.len()?).map(|_| of(self.text()?)).collect()
    }

    fn result<T>(&mut self, ok: impl Fn(&mut Self) -> Option<T>) -> Option<Result<T, String>> {
        if self.byte()? == 0 { Some(Err(self.text()?)) } else { Some(Ok(ok(self)?)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_comes_back_and_damage_is_noticed() {
        let mut bundle = SourceBundle::default();
        let file = SourceAnswer::File(Ok(("/etc/a.vcl".into(), b"vcl 4.1;".to_vec())));
        bundle.answers.insert((b'f', "a.vcl".into()), file);
        bundle.answers.insert((b'f', "b.vcl".into()), SourceAnswer::File(Err("Cannot read".into())));
        bundle.answers.insert((b'g', "*.vcl".into()), SourceAnswer::Glob(Ok(vec!["a.vcl".into(), "b.vcl".into()])));
        bundle.answers.insert((b'h', "lo".into()), SourceAnswer::Host(Ok(vec!["::1".parse().unwrap()])));
        bundle.dialect = Some(Dialect::V21);
        bundle.answers.insert((b's', "/s".into()), SourceAnswer::Socket(Ok(true)));
        let roots = SourceAnswer::Tls(Ok(("/etc/ca.pem".into(), b"-----BEGIN".to_vec())));
        bundle.answers.insert((TlsFileKind::Authorities.code(), "ca.pem".into()), roots);
        let gone = SourceAnswer::Tls(Err("Cannot read file 'own.pem' (Permission denied)".into()));
        bundle.answers.insert((TlsFileKind::Certificate.code(), "own.pem".into()), gone);
        let bytes = bundle.to_bytes();
        assert_eq!(SourceBundle::from_bytes(&bytes), Some(bundle));
        for n in 0..bytes.len() {
            assert_eq!(SourceBundle::from_bytes(&bytes[..n]), None);
        }
    }
}
