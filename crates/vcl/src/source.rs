// SPDX-License-Identifier: BSD-2-Clause
//! Where sources come from. The checker's child answers from disk and DNS and records every answer; the worker
//! compiles again from the record alone, so both see the same text.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What compiling needs from outside. The caller decides about `vcl_path`, limits and permissions.
pub trait Sources {
    /// The text of the file an `include` names. `path` is as written, or already joined to its includer's directory
    /// when it began with `./`. Gives the name to show in messages and the text.
    ///
    /// # Errors
    /// One line: `Cannot read file 'x' (No such file or directory)`.
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String>;

    /// The files a `+glob` pattern matches, in order.
    ///
    /// # Errors
    /// One line of reason.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String>;

    /// The addresses of a host name.
    ///
    /// # Errors
    /// The resolver's words.
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String>;

    /// Whether `path` is a socket (`.path` of a backend): `Ok(false)` = something else.
    ///
    /// # Errors
    /// The system's words (`No such file or directory`).
    fn is_socket(&self, path: &str) -> Result<bool, String>;
}

/// One recorded answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Of [`Sources::read`].
    File(Result<(String, Vec<u8>), String>),
    /// Of [`Sources::glob`].
    Glob(Result<Vec<String>, String>),
    /// Of [`Sources::resolve`].
    Host(Result<Vec<IpAddr>, String>),
    /// Of [`Sources::is_socket`].
    Socket(Result<bool, String>),
}

/// Everything a compile read, so that it can be repeated elsewhere. Is itself [`Sources`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceBundle {
    /// Answers by kind (`f`, `g`, `h`, `s`) and question.
    pub answers: BTreeMap<(u8, String), Answer>,
}

/// Passes questions on and records the answers.
pub struct Recorder<'a> {
    inner: &'a dyn Sources,
    bundle: RefCell<SourceBundle>,
}

impl<'a> Recorder<'a> {
    /// Records what `inner` answers.
    pub fn new(inner: &'a dyn Sources) -> Self {
        Recorder { inner, bundle: RefCell::default() }
    }

    /// What was recorded.
    pub fn into_bundle(self) -> SourceBundle {
        self.bundle.into_inner()
    }

    fn keep<T: Clone>(&self, kind: u8, key: &str, answer: T, wrap: impl Fn(T) -> Answer) -> T {
        self.bundle.borrow_mut().answers.insert((kind, key.to_owned()), wrap(answer.clone()));
        answer
    }
}

impl Sources for Recorder<'_> {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        self.keep(b'f', path, self.inner.read(path), Answer::File)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.keep(b'g', pattern, self.inner.glob(pattern), Answer::Glob)
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        self.keep(b'h', host, self.inner.resolve(host), Answer::Host)
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        self.keep(b's', path, self.inner.is_socket(path), Answer::Socket)
    }
}

const NOT_RECORDED: &str = "not among the recorded sources";

impl Sources for SourceBundle {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        match self.answers.get(&(b'f', path.to_owned())) {
            Some(Answer::File(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        match self.answers.get(&(b'g', pattern.to_owned())) {
            Some(Answer::Glob(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        match self.answers.get(&(b'h', host.to_owned())) {
            Some(Answer::Host(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }

    fn is_socket(&self, path: &str) -> Result<bool, String> {
        match self.answers.get(&(b's', path.to_owned())) {
            Some(Answer::Socket(answer)) => answer.clone(),
            _ => Err(NOT_RECORDED.to_owned()),
        }
    }
}

impl SourceBundle {
    /// As bytes for [`SourceBundle::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        todo!()
    }

    /// What [`SourceBundle::to_bytes`] wrote; `None` when the bytes are damaged.
    pub fn from_bytes(_bytes: &[u8]) -> Option<SourceBundle> {
        todo!()
    }
}
