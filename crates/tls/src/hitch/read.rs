// SPDX-License-Identifier: BSD-2-Clause
//! From tokens to what they say.

use super::tokens::{Lexeme, Token, tokens};
use super::{AcmeBlock, File, Frontend, HitchError, HitchSettings, PemFile};
use crate::settings::{ClientVerify, protocol};

/// Longer than any key is.
const LONGEST_KEY: usize = 32;

#[derive(Clone, Copy)]
enum Kind {
    /// A string, or a word that is nothing else.
    Text,
    Flag,
    /// Digits alone; `auto` for the number of workers.
    Number,
}

/// Keys of hitch that speak of its own process, or of what there isn't here.
const OF_HITCH: [(&str, Kind); 35] = [
    ("backend", Kind::Text),
    ("backend-connect-timeout", Kind::Number),
    ("backend-refresh", Kind::Number),
    ("backlog", Kind::Number),
    ("chroot", Kind::Text),
    ("daemon", Kind::Flag),
    ("group", Kind::Text),
    ("keepalive", Kind::Number),
    ("log-filename", Kind::Text),
    ("log-level", Kind::Number),
    ("ocsp-connect-tmo", Kind::Number),
    ("ocsp-refresh-interval", Kind::Number),
    ("ocsp-resp-tmo", Kind::Number),
    ("ocsp-verify-staple", Kind::Flag),
    ("proxy-authority", Kind::Flag),
    ("proxy-client-cert", Kind::Flag),
    ("proxy-proxy", Kind::Flag),
    ("proxy-tlv", Kind::Flag),
    ("quiet", Kind::Flag),
    ("recv-bufsize", Kind::Number),
    ("send-bufsize", Kind::Number),
    ("ssl", Kind::Flag),
    ("ssl-engine", Kind::Text),
    ("ssl-handshake-timeout", Kind::Number),
    ("syslog", Kind::Flag),
    ("syslog-facility", Kind::Text),
    ("tcp-fastopen", Kind::Flag),
    ("tls", Kind::Flag),
    ("user", Kind::Text),
    ("workers", Kind::Number),
    ("write-ip", Kind::Flag),
    ("write-proxy", Kind::Flag),
    ("write-proxy-v1", Kind::Flag),
    ("write-proxy-v2", Kind::Flag),
    ("write-xff", Kind::Flag),
];

/// Further words of hitch's language, which are no text without quotes.
const WORDS: [&str; 31] = [
    "SSLv3",
    "TLSv1.0",
    "TLSv1.1",
    "TLSv1.2",
    "TLSv1.3",
    "alpn-protos",
    "auto",
    "cert",
    "ciphers",
    "ciphersuites",
    "client-verify",
    "client-verify-ca",
    "ecdh-curve",
    "frontend",
    "host",
    "match-global-certs",
    "none",
    "ocsp-dir",
    "ocsp-resp-file",
    "optional",
    "pem-dir",
    "pem-dir-glob",
    "pem-file",
    "port",
    "prefer-server-ciphers",
    "private-key",
    "required",
    "session-cache",
    "sni-nomatch-abort",
    "tls-protos",
    "pidfile",
];

/// True if a word may be a key, of a newer release or misspelt. Any other isn't repeated in a message: a file that was
/// named by mistake may hold secrets.
pub(super) fn is_key(word: &str) -> bool {
    word.len() <= LONGEST_KEY && word.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
}

enum Value {
    /// Words and strings, and a character between them that was ignored.
    Words(Vec<Token>, Option<char>),
    Block(Vec<Statement>),
}

struct Statement {
    key: String,
    value: Value,
    line: usize,
}

fn error<T>(line: usize, reason: impl Into<String>) -> Result<T, HitchError> {
    Err(HitchError { line, reason: reason.into() })
}

pub(super) fn file(text: &str) -> Result<File, HitchError> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return error(text.lines().count().max(1), "the file says nothing");
    }
    let mut rest = &tokens[..];
    let statements = statements(&mut rest, 0)?;
    versions_once(&statements)?;
    let mut out = File::default();
    for statement in statements {
        top(&mut out, statement)?;
    }
    differ(&out.frontends)?;
    Ok(out)
}

/// Statements up to the end of the block or the file.
fn statements(rest: &mut &[Lexeme], depth: usize) -> Result<Vec<Statement>, HitchError> {
    let mut out = Vec::new();
    while let [first, ..] = *rest {
        let line = first.line;
        let key = match &first.token {
            Token::Close if depth > 0 && out.is_empty() => return error(line, "a block that says nothing"),
            Token::Close if depth > 0 => return Ok(out),
            token => match token.word().filter(|word| is_key(word)) {
                Some(word) => word.to_owned(),
                None => return error(line, format!("{} where a key should stand", token.shown())),
            },
        };
        match rest.get(1) {
            Some(Lexeme { token: Token::Equals, .. }) => *rest = &rest[2..],
            next => {
                let hint = next.and_then(|next| next.ignored).map(ignored).unwrap_or_default();
                return error(line, format!("{} isn't followed by '='{hint}", first.token.shown()));
            }
        }
        out.push(Statement { value: value(rest, &key, line, depth)?, key, line });
    }
    if depth > 0 { error(0, "a block without its end") } else { Ok(out) }
}

fn ignored(sign: char) -> String {
    match sign {
        '"' => "; a quote without its end is ignored".to_owned(),
        sign => format!("; outside of quotes '{}' only separates words", sign.escape_debug()),
    }
}

fn value(rest: &mut &[Lexeme], key: &str, line: usize, depth: usize) -> Result<Value, HitchError> {
    if let [Lexeme { token: Token::Open, .. }, ..] = *rest {
        // A block of a certificate in a block of a frontend is as deep as it goes.
        if depth >= 2 {
            return error(line, "blocks are nested too deep");
        }
        *rest = &rest[1..];
        let inner = statements(rest, depth + 1).map_err(|e| if e.line == 0 { HitchError { line, ..e } } else { e })?;
        *rest = &rest[1..];
        return Ok(Value::Block(inner));
    }
    let (mut words, mut ignored) = (Vec::new(), None);
    while let [first, ..] = *rest {
        let is_key = first.token.word().is_some() && rest.get(1).is_some_and(|next| next.token == Token::Equals);
        if is_key || matches!(first.token, Token::Equals | Token::Open | Token::Close) {
            break;
        }
        ignored = ignored.or(first.ignored);
        words.push(first.token.clone());
        *rest = &rest[1..];
    }
    if words.is_empty() {
        error(line, format!("'{}' has no value", key.escape_debug()))
    } else {
        Ok(Value::Words(words, ignored))
    }
}

/// On or off, which a word is in any case of its letters, and within quotes, too.
fn switch(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "y" | "on" | "true" | "t" => Some(true),
        "no" | "n" | "off" | "false" | "f" => Some(false),
        _ => None,
    }
}

fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

impl Statement {
    fn block(self) -> Result<Vec<Statement>, HitchError> {
        match self.value {
            Value::Block(inner) => Ok(inner),
            Value::Words(..) => error(self.line, format!("'{}' is a block in braces", self.key)),
        }
    }

    fn words(&self) -> Result<&[Token], HitchError> {
        match &self.value {
            Value::Words(words, _) => Ok(words),
            Value::Block(_) => error(self.line, format!("'{}' has a value, not a block", self.key)),
        }
    }

    fn one(&self) -> Result<&Token, HitchError> {
        match (self.words()?, &self.value) {
            ([one], _) => Ok(one),
            (_, Value::Words(_, Some(sign))) => {
                error(self.line, format!("'{}' has one value, in quotes{}", self.key, ignored(*sign)))
            }
            _ => error(self.line, format!("'{}' has one value", self.key)),
        }
    }

    /// One word or string; an empty one says nothing.
    fn text(&self) -> Result<Option<String>, HitchError> {
        match self.one()? {
            Token::Quoted(text) if switch(text).is_some() => error(
                self.line,
                format!("'{}' is a text, which \"{text}\" isn't in this language: it is a switch", self.key),
            ),
            Token::Quoted(text) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            token => {
                let word = token.word().unwrap_or_default();
                let is_hitchs = OF_HITCH.iter().map(|(key, _)| key).chain(&WORDS).any(|known| *known == word);
                if is_hitchs || switch(word).is_some() || is_number(word) {
                    return error(self.line, format!("'{}' is a text: write {} = \"{}\"", self.key, self.key, word));
                }
                Ok(Some(word.to_owned()))
            }
        }
    }

    fn flag(&self) -> Result<Option<bool>, HitchError> {
        let token = self.one()?;
        let word = if let Token::Quoted(text) = token { text } else { token.word().unwrap_or_default() };
        match switch(word) {
            Some(is_on) => Ok(Some(is_on)),
            None => error(self.line, format!("'{}' is on or off, not {}", self.key, token.shown())),
        }
    }

    fn check(&self, kind: Kind) -> Result<(), HitchError> {
        match kind {
            Kind::Text => self.text().map(drop),
            Kind::Flag => self.flag().map(drop),
            Kind::Number => {
                let word = self.one()?.word().unwrap_or_default();
                let is_right = word.bytes().all(|b| b.is_ascii_digit()) || (word == "auto" && self.key == "workers");
                if is_right && !word.is_empty() {
                    Ok(())
                } else {
                    error(self.line, format!("'{}' is a number of digits alone, without quotes", self.key))
                }
            }
        }
    }

    fn unknown<T>(&self) -> Result<T, HitchError> {
        error(self.line, format!("there is no '{}' here", self.key.escape_debug()))
    }
}

/// The versions of TLS are said once: a second time hitch refuses, and Varnish 9 adds them.
fn versions_once(statements: &[Statement]) -> Result<(), HitchError> {
    let mut before: Option<&Statement> = None;
    for statement in statements {
        let is_said = match statement.key.as_str() {
            "tls-protos" => true,
            "ssl" | "tls" => statement.flag()? == Some(true),
            _ => continue,
        };
        if let Some(before) = before {
            let (key, line) = (&before.key, before.line);
            return error(
                statement.line,
                format!("'{}' after the '{key}' of line {line}: only one of them counts", statement.key),
            );
        }
        before = before.or(is_said.then_some(statement));
    }
    Ok(())
}

/// Two frontends can't listen on the same address and port; port 0 is another one each time.
fn differ(frontends: &[Frontend]) -> Result<(), HitchError> {
    for (at, frontend) in frontends.iter().enumerate() {
        let same = frontends[..at].iter().find(|before| before.endpoint == frontend.endpoint);
        if let Some(before) = same.filter(|before| !before.endpoint.ends_with(":0")) {
            return error(frontend.line, format!("{} is the frontend of line {}, too", frontend.endpoint, before.line));
        }
    }
    Ok(())
}

fn top(out: &mut File, statement: Statement) -> Result<(), HitchError> {
    let line = statement.line;
    match statement.key.as_str() {
        "frontend" => out.frontends.extend(frontend(statement, &mut out.ignored)?),
        "pem-file" => out.certificates.extend(pem_file(statement)?),
        "sni-nomatch-abort" => out.aborts_unknown = statement.flag()?,
        "pem-dir" => out.pem_dir = statement.text()?,
        "pem-dir-glob" => out.pem_glob = statement.text()?,
        "ocsp-dir" => out.ocsp_dir = statement.text()?,
        "ticket-keys-file" => out.ticket_keys = statement.text()?,
        "acme" => out.acme.push(acme(statement)?),
        key if let Some((_, kind)) = OF_HITCH.iter().find(|(known, _)| *known == key) => {
            statement.check(*kind)?;
            out.ignored.push((key.to_owned(), line));
        }
        _ if say(&mut out.said, &statement)? => {}
        _ => return statement.unknown(),
    }
    Ok(())
}

/// Takes a setting that may stand anywhere; false if the key is none.
fn say(said: &mut HitchSettings, statement: &Statement) -> Result<bool, HitchError> {
    match statement.key.as_str() {
        "tls-protos" => {
            let protocols = statement.words()?.iter().map(|token| {
                let unknown = || format!("{} is no version of TLS, which stand without quotes", token.shown());
                token.word().and_then(protocol).ok_or_else(|| HitchError { line: statement.line, reason: unknown() })
            });
            said.protocols = Some(protocols.collect::<Result<_, _>>()?);
        }
        "ciphers" => set(&mut said.ciphers, statement)?,
        "ciphersuites" => set(&mut said.ciphersuites, statement)?,
        "ecdh-curve" => set(&mut said.groups, statement)?,
        "prefer-server-ciphers" => said.prefers_own_order = statement.flag()?,
        "alpn-protos" => set(&mut said.alpn, statement)?,
        "client-verify" => {
            let token = statement.one()?;
            let verify = token.word().and_then(ClientVerify::named);
            let no = || format!("client-verify is none, optional or required, without quotes, not {}", token.shown());
            said.client_verify = Some(verify.ok_or_else(|| HitchError { line: statement.line, reason: no() })?);
        }
        "client-verify-ca" => set(&mut said.client_ca, statement)?,
        "client-verify-crl" => set(&mut said.client_crl, statement)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Takes a text; an empty one leaves what was said before.
fn set(place: &mut Option<String>, statement: &Statement) -> Result<(), HitchError> {
    if let Some(text) = statement.text()? {
        *place = Some(text);
    }
    Ok(())
}

/// The address to listen on; `None` for an empty string.
fn frontend(statement: Statement, ignored: &mut Vec<(String, usize)>) -> Result<Option<Frontend>, HitchError> {
    let line = statement.line;
    let mut out = Frontend { line, ..Frontend::default() };
    if let Value::Words(..) = statement.value {
        let Some(text) = statement.text()? else { return Ok(None) };
        let (endpoint, certificate) = text.split_once('+').map_or((text.as_str(), None), |(e, c)| (e, Some(c)));
        out.endpoint = endpoint_of(endpoint);
        out.certificates.extend(certificate.map(|path| PemFile { path: path.into(), line, ..PemFile::default() }));
        return Ok(Some(out));
    }
    let (mut host, mut port) = (None, None);
    let statements = statement.block()?;
    versions_once(&statements)?;
    for inner in statements {
        match inner.key.as_str() {
            "host" => set(&mut host, &inner)?,
            "port" => set(&mut port, &inner)?,
            "name" => out.name = inner.text()?,
            "match-global-certs" => out.matches_global = inner.flag()?,
            "sni-nomatch-abort" => out.aborts_unknown = inner.flag()?,
            "pem-file" => out.certificates.extend(pem_file(inner)?),
            // There is nothing older than TLS 1.2 that they could switch on.
            "ssl" | "tls" => {
                inner.flag()?;
                ignored.push((inner.key, inner.line));
            }
            _ if say(&mut out.said, &inner)? => {}
            _ => return inner.unknown(),
        }
    }
    out.endpoint = match (host.as_deref(), port) {
        (Some(path), _) if path.starts_with('/') => path.to_owned(),
        (Some(host), _) if host.starts_with('[') => {
            let bare = host.trim_matches(['[', ']']);
            return error(
                line,
                format!("host = \"{host}\": in a block the host has no brackets; write host = \"{bare}\""),
            );
        }
        (host, Some(port)) => join(host.unwrap_or_default(), &port),
        (_, None) => return error(line, "a frontend needs a port"),
    };
    if out.matches_global == Some(false) && out.certificates.is_empty() {
        return error(line, "a frontend without match-global-certs needs a pem-file");
    }
    Ok(Some(out))
}

/// `[HOST]:PORT` as `-a` takes it: brackets stay around IPv6 addresses only, `*` is every address.
fn endpoint_of(text: &str) -> String {
    let Some((host, port)) = text.rsplit_once(':') else { return text.to_owned() };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    join(host, port)
}

fn join(host: &str, port: &str) -> String {
    match host {
        "*" => format!(":{port}"),
        host if host.contains(':') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

fn pem_file(statement: Statement) -> Result<Option<PemFile>, HitchError> {
    let line = statement.line;
    let mut out = PemFile { line, ..PemFile::default() };
    if let Value::Words(..) = statement.value {
        let Some(path) = statement.text()? else { return Ok(None) };
        return Ok(Some(PemFile { path, ..out }));
    }
    for inner in statement.block()? {
        match inner.key.as_str() {
            "cert" => out.path = inner.text()?.unwrap_or_default(),
            "private-key" => out.key = inner.text()?,
            "ocsp-resp-file" => out.ocsp = inner.text()?,
            "name" => out.id = inner.text()?,
            "ocsp-verify-staple" => drop(inner.flag()?),
            // Groups of finite fields aren't offered: what is said of them does no harm.
            "dhparam" => drop(inner.text()?),
            _ if say(&mut out.said, &inner)? => {}
            _ => return inner.unknown(),
        }
    }
    if out.path.is_empty() { error(line, "a pem-file needs its cert") } else { Ok(Some(out)) }
}

fn acme(statement: Statement) -> Result<AcmeBlock, HitchError> {
    let line = statement.line;
    let pairs = statement.block()?.into_iter().map(|inner| {
        if let Value::Words(_, Some(sign)) = inner.value
            && sign != ','
        {
            return error(inner.line, format!("'{}' is in quotes{}", inner.key, ignored(sign)));
        }
        let texts = inner.words()?.iter().map(|token| match token {
            Token::Quoted(text) => text.as_str(),
            token => token.word().unwrap_or_default(),
        });
        let value = texts.collect::<Vec<_>>().join(" ");
        Ok((inner.key, value, inner.line))
    });
    Ok(AcmeBlock { line, pairs: pairs.collect::<Result<_, HitchError>>()? })
}
