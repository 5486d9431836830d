// SPDX-License-Identifier: BSD-2-Clause
//! From tokens to what they say.

use super::tokens::{Token, tokens};
use super::{Block, Error, File, Frontend, PemFile, Said};
use crate::settings::{ClientVerify, protocol};

/// Longer than any key is.
const LONGEST_KEY: usize = 32;

/// Keys of hitch that speak of its own process, or of what there isn't here.
const OF_HITCH: [&str; 39] = [
    "backend",
    "backend-connect-timeout",
    "backend-refresh",
    "backlog",
    "chroot",
    "daemon",
    "group",
    "keepalive",
    "log-filename",
    "log-level",
    "ocsp-connect-tmo",
    "ocsp-refresh-interval",
    "ocsp-resp-tmo",
    "ocsp-verify-staple",
    "pidfile",
    "proxy-authority",
    "proxy-client-cert",
    "proxy-proxy",
    "proxy-tlv",
    "quiet",
    "recv-bufsize",
    "ring-data-len",
    "ring-slots",
    "send-bufsize",
    "shared-cache",
    "ssl",
    "ssl-engine",
    "ssl-handshake-timeout",
    "syslog",
    "syslog-facility",
    "tcp-fastopen",
    "tls",
    "user",
    "workers",
    "write-ip",
    "write-proxy",
    "write-proxy-v1",
    "write-proxy-v2",
    "write-xff",
];

/// Whether a word may be a key, of a newer release or misspelt. Any other isn't repeated in a message: a file that was named by
/// mistake may hold secrets.
pub(super) fn is_key(word: &str) -> bool {
    word.len() <= LONGEST_KEY && word.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
}

/// What stands behind a key.
enum Value {
    /// Words and strings.
    Words(Vec<String>),
    /// A block.
    Block(Vec<Statement>),
}

struct Statement {
    key: String,
    value: Value,
    line: usize,
}

fn error<T>(line: usize, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error { line, reason: reason.into() })
}

pub(super) fn file(text: &str) -> Result<File, Error> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return error(text.lines().count().max(1), "the file says nothing");
    }
    let mut rest = &tokens[..];
    let statements = statements(&mut rest, 0)?;
    let mut out = File::default();
    for statement in statements {
        top(&mut out, statement)?;
    }
    Ok(out)
}

/// Statements up to the end of the block or the file.
fn statements(rest: &mut &[(Token, usize)], depth: usize) -> Result<Vec<Statement>, Error> {
    let mut out = Vec::new();
    while let [(first, line), ..] = *rest {
        let key = match first {
            Token::Word(word) if is_key(word) => word.clone(),
            Token::Close if depth > 0 => return Ok(out),
            other => return error(*line, format!("{} where a key should stand", other.shown())),
        };
        match rest.get(1) {
            Some((Token::Equals, _)) => *rest = &rest[2..],
            _ => return error(*line, format!("'{}' isn't followed by '='", key.escape_debug())),
        }
        out.push(Statement { value: value(rest, &key, *line, depth)?, key, line: *line });
    }
    if depth > 0 { error(0, "a block without its end") } else { Ok(out) }
}

fn value(rest: &mut &[(Token, usize)], key: &str, line: usize, depth: usize) -> Result<Value, Error> {
    if let [(Token::Open, _), ..] = *rest {
        // A block of a certificate in a block of a frontend is as deep as it goes.
        if depth >= 2 {
            return error(line, "blocks are nested too deep");
        }
        *rest = &rest[1..];
        let inner = statements(rest, depth + 1).map_err(|e| if e.line == 0 { Error { line, ..e } } else { e })?;
        *rest = &rest[1..];
        return Ok(Value::Block(inner));
    }
    let mut words = Vec::new();
    loop {
        match *rest {
            // The next key.
            [(Token::Word(_), _), (Token::Equals, _), ..] => break,
            [(Token::Word(word) | Token::Quoted(word), _), ..] => words.push(word.clone()),
            _ => break,
        }
        *rest = &rest[1..];
    }
    if words.is_empty() {
        error(line, format!("'{}' has no value", key.escape_debug()))
    } else {
        Ok(Value::Words(words))
    }
}

impl Statement {
    fn block(self) -> Result<Vec<Statement>, Error> {
        match self.value {
            Value::Block(inner) => Ok(inner),
            Value::Words(_) => error(self.line, format!("'{}' is a block in braces", self.key)),
        }
    }

    fn words(&self) -> Result<&[String], Error> {
        match &self.value {
            Value::Words(words) => Ok(words),
            Value::Block(_) => error(self.line, format!("'{}' has a value, not a block", self.key)),
        }
    }

    /// One word or string; an empty one says nothing.
    fn text(&self) -> Result<Option<String>, Error> {
        match self.words()? {
            [one] => Ok(Some(one.clone()).filter(|text| !text.is_empty())),
            _ => error(self.line, format!("'{}' has one value", self.key)),
        }
    }

    fn flag(&self) -> Result<Option<bool>, Error> {
        let text = self.text()?.unwrap_or_default();
        match text.to_ascii_lowercase().as_str() {
            "yes" | "y" | "on" | "true" | "t" => Ok(Some(true)),
            "no" | "n" | "off" | "false" | "f" => Ok(Some(false)),
            _ => error(self.line, format!("'{}' is on or off, not '{}'", self.key, text.escape_debug())),
        }
    }

    fn unknown<T>(&self) -> Result<T, Error> {
        error(self.line, format!("there is no '{}' here", self.key.escape_debug()))
    }
}

fn top(out: &mut File, statement: Statement) -> Result<(), Error> {
    let line = statement.line;
    match statement.key.as_str() {
        "frontend" => out.frontends.push(frontend(statement, &mut out.ignored)?),
        "pem-file" => out.certificates.extend(pem_file(statement)?),
        "sni-nomatch-abort" => out.aborts_unknown = statement.flag()?,
        "pem-dir" => out.pem_dir = statement.text()?,
        "pem-dir-glob" => out.pem_glob = statement.text()?,
        "ocsp-dir" => out.ocsp_dir = statement.text()?,
        "ticket-keys-file" => out.ticket_keys = statement.text()?,
        "acme" => out.acme.push(acme(statement)?),
        key if OF_HITCH.contains(&key) => out.ignored.push((key.to_owned(), line)),
        _ if say(&mut out.said, &statement)? => {}
        _ => return statement.unknown(),
    }
    Ok(())
}

/// Whether the key is one of the settings that stand anywhere.
fn say(said: &mut Said, statement: &Statement) -> Result<bool, Error> {
    match statement.key.as_str() {
        "tls-protos" => {
            let words = statement.words()?.iter().flat_map(|word| word.split_whitespace());
            let protocols = words.map(|word| {
                let unknown = || format!("'{}' is no version of TLS", word.escape_debug());
                protocol(word).ok_or_else(|| Error { line: statement.line, reason: unknown() })
            });
            said.protocols = Some(protocols.collect::<Result<_, _>>()?);
        }
        "ciphers" => said.ciphers = statement.text()?,
        "ciphersuites" => said.ciphersuites = statement.text()?,
        "ecdh-curve" => said.groups = statement.text()?,
        "prefer-server-ciphers" => said.prefers_own_order = statement.flag()?,
        "alpn-protos" => said.alpn = statement.text()?,
        "client-verify" => {
            let word = statement.text()?.unwrap_or_default();
            let verify = ClientVerify::named(&word);
            let no = || format!("client-verify is none, optional or required, not '{}'", word.escape_debug());
            said.client_verify = Some(verify.ok_or_else(|| Error { line: statement.line, reason: no() })?);
        }
        "client-verify-ca" => said.client_ca = statement.text()?,
        "client-verify-crl" => said.client_crl = statement.text()?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn frontend(statement: Statement, ignored: &mut Vec<(String, usize)>) -> Result<Frontend, Error> {
    let line = statement.line;
    let mut out = Frontend { line, ..Frontend::default() };
    if let Value::Words(_) = statement.value {
        let text = statement.text()?.unwrap_or_default();
        let (endpoint, certificate) = text.split_once('+').map_or((text.as_str(), None), |(e, c)| (e, Some(c)));
        out.endpoint = endpoint_of(endpoint);
        out.certificates.extend(certificate.map(|path| PemFile { path: path.into(), line, ..PemFile::default() }));
        return Ok(out);
    }
    let (mut host, mut port) = (None, None);
    for inner in statement.block()? {
        match inner.key.as_str() {
            "host" => host = inner.text()?,
            "port" => port = inner.text()?,
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
    Ok(out)
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

/// One certificate; none of an empty string.
fn pem_file(statement: Statement) -> Result<Option<PemFile>, Error> {
    let line = statement.line;
    let mut out = PemFile { line, ..PemFile::default() };
    if let Value::Words(_) = statement.value {
        let Some(path) = statement.text()? else { return Ok(None) };
        return Ok(Some(PemFile { path, ..out }));
    }
    for inner in statement.block()? {
        match inner.key.as_str() {
            "cert" => out.path = inner.text()?.unwrap_or_default(),
            "private-key" => out.key = inner.text()?,
            "ocsp-resp-file" => out.ocsp = inner.text()?,
            "name" => out.id = inner.text()?,
            // Groups of finite fields aren't offered: what is said of them does no harm.
            "dhparam" => drop(inner.text()?),
            _ if say(&mut out.said, &inner)? => {}
            _ => return inner.unknown(),
        }
    }
    if out.path.is_empty() { error(line, "a pem-file needs its cert") } else { Ok(Some(out)) }
}

fn acme(statement: Statement) -> Result<Block, Error> {
    let line = statement.line;
    let pairs = statement.block()?.into_iter().map(|inner| {
        let value = inner.words()?.join(" ");
        Ok((inner.key, value, inner.line))
    });
    Ok(Block { line, pairs: pairs.collect::<Result<_, Error>>()? })
}
