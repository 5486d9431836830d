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

/// What bytes of a bundle begin with.
const MAGIC: &[u8] = b"VCLSRC1\n";

impl SourceBundle {
    /// As bytes for [`SourceBundle::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for ((kind, question), answer) in &self.answers {
            out.push(*kind);
            put(&mut out, question.as_bytes());
            match answer {
                Answer::File(Ok((name, text))) => put_list(&mut out, &[name.as_bytes(), text]),
                Answer::Glob(Ok(names)) => put_list(&mut out, &names.iter().map(String::as_bytes).collect::<Vec<_>>()),
                Answer::Host(Ok(addresses)) => {
                    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                    put_list(&mut out, &texts.iter().map(String::as_bytes).collect::<Vec<_>>());
                }
                Answer::Socket(Ok(is)) => put_list(&mut out, &[if *is { b"1" } else { b"0" }]),
                Answer::File(Err(why)) | Answer::Glob(Err(why)) | Answer::Host(Err(why)) | Answer::Socket(Err(why)) => {
                    out.push(0);
                    put(&mut out, why.as_bytes());
                }
            }
        }
        out
    }

    /// What [`SourceBundle::to_bytes`] wrote; `None` when the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<SourceBundle> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut bundle = SourceBundle::default();
        while let Some((kind, after)) = rest.split_first() {
            rest = after;
            let question = take_text(&mut rest)?;
            let (ok, after) = rest.split_first()?;
            rest = after;
            let answer = if *ok == 1 { Ok(take_list(&mut rest)?) } else { Err(take_text(&mut rest)?) };
            bundle.answers.insert((*kind, question), answer_of(*kind, answer)?);
        }
        Some(bundle)
    }
}

fn answer_of(kind: u8, answer: Result<Vec<Vec<u8>>, String>) -> Option<Answer> {
    let texts = |list: Vec<Vec<u8>>| list.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>().ok();
    Some(match (kind, answer) {
        (b'f', Ok(list)) => {
            let [name, text] = <[Vec<u8>; 2]>::try_from(list).ok()?;
            Answer::File(Ok((String::from_utf8(name).ok()?, text)))
        }
        (b'f', Err(why)) => Answer::File(Err(why)),
        (b'g', Ok(list)) => Answer::Glob(Ok(texts(list)?)),
        (b'g', Err(why)) => Answer::Glob(Err(why)),
        (b'h', Ok(list)) => Answer::Host(Ok(texts(list)?.iter().map(|t| t.parse().ok()).collect::<Option<_>>()?)),
        (b'h', Err(why)) => Answer::Host(Err(why)),
        (b's', Ok(list)) => Answer::Socket(Ok(list == [b"1"])),
        (b's', Err(why)) => Answer::Socket(Err(why)),
        _ => return None,
    })
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// An answer that is no error: mark, count, items.
fn put_list(out: &mut Vec<u8>, items: &[&[u8]]) {
    out.push(1);
    out.extend_from_slice(&(items.len() as u32).to_le_bytes());
    items.iter().for_each(|item| put(out, item));
}

fn take_number(rest: &mut &[u8]) -> Option<usize> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*number) as usize)
}

fn take(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let len = take_number(rest)?;
    let bytes = rest.get(..len)?.to_vec();
    *rest = &rest[len..];
    Some(bytes)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(rest)?).ok()
}

fn take_list(rest: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = take_number(rest)?;
    // Collected one by one: a damaged count runs out of bytes before it can cost memory.
    (0..count).map(|_| take(rest)).collect()
}

#[cfg(test)]
mod bundle_tests {
    use super::*;

    #[test]
    fn a_bundle_comes_back() {
        let mut bundle = SourceBundle::default();
        let mut put = |kind, question: &str, answer| bundle.answers.insert((kind, question.to_owned()), answer);
        put(b'f', "", Answer::File(Ok(("<vcl.inline>".into(), b"vcl 4.1;\xff".to_vec()))));
        put(b'f', "x", Answer::File(Err("Cannot read".into())));
        put(b'g', "*", Answer::Glob(Ok(vec!["a".into(), "b".into()])));
        put(b'h', "localhost", Answer::Host(Ok(vec!["::1".parse().unwrap(), "127.0.0.1".parse().unwrap()])));
        put(b's', "/run/s", Answer::Socket(Ok(true)));
        let bytes = bundle.to_bytes();
        assert_eq!(SourceBundle::from_bytes(&bytes), Some(bundle));
        for cut in 0..bytes.len() {
            let _ = SourceBundle::from_bytes(&bytes[..cut]);
        }
    }
}
