// SPDX-License-Identifier: BSD-2-Clause
//! The lines of Apache's configuration: words and quotes, continued lines and included files; and the files as they become behind the cache.

use std::rc::Rc;

use super::listen::is_tls_port;
use crate::migrated::Migrated;
use crate::source::{FileSource, SourcePlace, beside, directory_of};

/// Depth to which includes may nest.
const MAX_DEPTH: usize = 20;

pub(super) struct Line {
    pub words: Vec<String>,
    pub place: SourcePlace,
}

pub(super) struct Reader<'a> {
    files: &'a dyn FileSource,
    origin: (&'a str, &'a str),
    root: String,
    pub lines: Vec<Line>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &str, origin: (&'a str, &'a str), files: &'a dyn FileSource) -> Reader<'a> {
        Reader { files, origin, root: directory_of(file).to_owned(), lines: Vec::new() }
    }

    /// Reads a file and what it includes; a copy with its lines changed goes to the result.
    pub(super) fn file(&mut self, path: &str, depth: usize, migrated: &mut Migrated) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("{path}: includes nest deeper than {MAX_DEPTH}"));
        }
        let text = self.files.read(path)?;
        let name: Rc<str> = Rc::from(path);
        let mut changed = String::new();
        let mut is_changed = false;
        let mut rest = text.lines().enumerate();
        while let Some((at, first)) = rest.next() {
            let mut whole = first.to_owned();
            let mut raw = format!("{first}\n");
            while whole.ends_with('\\') {
                let Some((_, next)) = rest.next() else { break };
                whole.pop();
                whole.push_str(next);
                raw.push_str(&format!("{next}\n"));
            }
            let place = SourcePlace { file: Rc::clone(&name), line: at + 1, column: 1 };
            match self.line(&whole, place, depth, migrated)? {
                Some(new) => {
                    changed.push_str(&format!("{new}\n"));
                    is_changed = true;
                }
                None => changed.push_str(&raw),
            }
        }
        if is_changed {
            migrated.files.push((path.to_owned(), changed));
        }
        Ok(())
    }

    /// The line that a line becomes; None: it stays.
    fn line(
        &mut self,
        text: &str,
        place: SourcePlace,
        depth: usize,
        migrated: &mut Migrated,
    ) -> Result<Option<String>, String> {
        let words = words(text);
        let Some(first) = words.first() else { return Ok(None) };
        let indent = &text[..text.len() - text.trim_start().len()];
        let (host, port) = self.origin;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let new = match first.to_ascii_lowercase().as_str() {
            "include" | "includeoptional" => {
                let path = beside(&self.root, words.get(1).map_or("", String::as_str));
                let found = if path.contains(['*', '?']) { self.files.matching(&path) } else { vec![path] };
                for file in found {
                    match self.file(&file, depth + 1, migrated) {
                        Err(_) if first.eq_ignore_ascii_case("includeoptional") => {}
                        other => other.map_err(|error| format!("{place}: {first}: {error}"))?,
                    }
                }
                return Ok(None);
            }
            "listen" if is_tls_port(words.get(1).map_or("", String::as_str)) => {
                migrated.note(
                    &place,
                    first,
                    "the cache speaks TLS there: the line goes, and with it what this virtual host says of TLS",
                );
                Some(format!("{indent}# {}", text.trim()))
            }
            "listen" => {
                migrated.note(
                    &place,
                    first,
                    format!("becomes Listen {host}:{port}; of several such lines one is enough"),
                );
                let is_first = !self.lines.iter().any(|line| line.words[0].eq_ignore_ascii_case("listen"));
                Some(if is_first {
                    format!("{indent}Listen {host}:{port}")
                } else {
                    format!("{indent}# {}", text.trim())
                })
            }
            "<virtualhost" => {
                let hosts: Vec<&str> =
                    words[1..].iter().map(|word| word.trim_end_matches('>')).filter(|w| !w.is_empty()).collect();
                if hosts.iter().any(|host| is_tls_port(host)) {
                    migrated.refuse(&place, "VirtualHost", "two virtual hosts of a name, with and without TLS, become one: keep what they have in common, without SSLEngine");
                    return Ok(None);
                }
                let changed: Vec<String> = hosts.iter().map(|host| with_port(host, port)).collect();
                Some(format!("{indent}<VirtualHost {}>", changed.join(" ")))
            }
            "logformat" if text.contains("%h") || text.contains("%a") => {
                migrated.note(&place, first, "the client is %{X-Forwarded-For}i now, as Apache sees the cache's address; or use mod_remoteip. varnishncsa logs hits, too: Apache sees misses alone");
                migrated.translated(&place, first);
                Some(text.replace("%h", "%{X-Forwarded-For}i").replace("%a", "%{X-Forwarded-For}i"))
            }
            _ => None,
        };
        self.lines.push(Line { words, place });
        Ok(new)
    }
}

/// `HOST:PORT` with another port; a name without one matches any.
pub(super) fn with_port(host: &str, port: &str) -> String {
    match host.rsplit_once(':').filter(|(_, old)| old.bytes().all(|c| c.is_ascii_digit())) {
        // Addresses of its own that a virtual host had are the cache's now.
        Some((name, _)) if name.bytes().all(|c| c.is_ascii_digit() || c == b'.') || name.starts_with('[') => {
            format!("*:{port}")
        }
        Some((name, _)) => format!("{name}:{port}"),
        None => host.to_owned(),
    }
}

/// The words of a line: blanks between them, quotes around some; a comment has none.
fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = line.trim().chars().peekable();
    if chars.peek() == Some(&'#') {
        return out;
    }
    while let Some(c) = chars.next() {
        let mut word = String::new();
        match c {
            c if c.is_whitespace() => continue,
            '"' => {
                while let Some(c) = chars.next() {
                    match c {
                        '\\' => word.extend(chars.next()),
                        '"' => break,
                        c => word.push(c),
                    }
                }
            }
            c => {
                word.push(c);
                word.extend(std::iter::from_fn(|| chars.next_if(|c| !c.is_whitespace())));
            }
        }
        out.push(word);
    }
    out
}
