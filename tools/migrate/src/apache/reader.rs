// SPDX-License-Identifier: BSD-2-Clause
//! The lines of Apache's configuration: words and quotes, continued lines and included files; and the files as they become behind the cache.

use std::rc::Rc;

use super::conditional::{Conditional, LineFate};
use super::listen::TlsPorts;
use crate::migrated::Migrated;
use crate::regex;
use crate::source::{
    FileSource, PathKind, SourcePlace, beside, check_count, directory_of, is_pattern, joined, matching,
};

const MAX_SECTIONS: usize = 64;

/// Virtual hosts that a configuration may have: each one's condition names all before it.
const MAX_HOSTS: usize = 2000;

const MAX_DEPTH: usize = 20;

pub(super) struct Line {
    pub words: Vec<String>,
    pub place: SourcePlace,
}

pub(super) struct Reader<'a> {
    files: &'a dyn FileSource,
    origin: (&'a str, &'a str),
    ports: TlsPorts,
    /// The directory from which names of included files are meant.
    root: String,
    /// True once a `ServerRoot` has named it.
    is_root_given: bool,
    /// True within a virtual host all of whose addresses are of TLS.
    is_tls_host: bool,
    pub lines: Vec<Line>,
    conditional: Conditional,
}

impl Line {
    pub(super) fn name(&self) -> String {
        self.words[0].to_ascii_lowercase()
    }

    pub(super) fn word(&self, i: usize) -> &str {
        self.words.get(i).map_or("", String::as_str)
    }
}

impl<'a> Reader<'a> {
    /// A reader of a file that knows which ports are of TLS.
    pub(super) fn new(
        file: &str,
        origin: (&'a str, &'a str),
        ports: TlsPorts,
        files: &'a dyn FileSource,
    ) -> Reader<'a> {
        Reader {
            files,
            origin,
            ports,
            root: directory_of(file).to_owned(),
            is_root_given: false,
            is_tls_host: false,
            lines: Vec::new(),
            conditional: Conditional::default(),
        }
    }

    /// Reads a file and what it includes; a copy with its lines changed goes to the result.
    pub(super) fn file(&mut self, path: &str, depth: usize, migrated: &mut Migrated) -> Result<(), String> {
        let text = self.files.read(path)?;
        self.text(path, &text, depth, migrated)
    }

    fn text(&mut self, path: &str, text: &str, depth: usize, migrated: &mut Migrated) -> Result<(), String> {
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
        let replaced = self.conditional.replaced(text).map_err(|error| format!("{place}: {error}"))?;
        let words = words(&replaced);
        let Some(first) = words.first() else { return Ok(None) };
        let spelled = first.trim_start_matches('<').trim_end_matches('>');
        match self.conditional.take(&words, self.files) {
            LineFate::Counts => {}
            LineFate::Decided => {
                if !spelled.starts_with('/') {
                    migrated.translated(&place, spelled);
                }
                return Ok(None);
            }
            LineFate::Skipped => {
                if !spelled.starts_with('/') {
                    migrated.without_meaning(&place, spelled, "Apache skips it: the section around it doesn't hold");
                }
                return Ok(None);
            }
        }
        let indent = &text[..text.len() - text.trim_start().len()];
        let (host, port) = self.origin;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let new = match first.to_ascii_lowercase().as_str() {
            "include" | "includeoptional" => {
                if depth == MAX_DEPTH {
                    return Err(format!("{place}: includes nest deeper than {MAX_DEPTH}"));
                }
                self.include(&words, &place, depth, migrated)?;
                return Ok(None);
            }
            "listen" if self.ports.has(words.get(1).map_or("", String::as_str)) => {
                Some(self.listen_of_tls(&words[1], (indent, &host), &place, migrated))
            }
            "listen" => {
                migrated.note(
                    &place,
                    first,
                    format!("becomes Listen {host}:{port}; of several such lines one is enough"),
                );
                let is_plain = |line: &&Line| line.name() == "listen" && !self.ports.has(line.word(1));
                let is_first = !self.lines.iter().any(|line| is_plain(&line));
                Some(if is_first {
                    format!("{indent}Listen {host}:{port}")
                } else {
                    format!("{indent}# {}", text.trim())
                })
            }
            "<virtualhost" => {
                let hosts: Vec<&str> =
                    words[1..].iter().map(|word| word.trim_end_matches('>')).filter(|w| !w.is_empty()).collect();
                self.is_tls_host = !hosts.is_empty() && hosts.iter().all(|host| self.ports.has(host));
                let moved = |host: &&str| match self.ports.has(host) {
                    true => self.ports.own(host).map_or((*host).to_owned(), |own| with_port(host, own)),
                    false => with_port(host, port),
                };
                let moved: Vec<String> = hosts.iter().map(moved).collect();
                Some(format!("{indent}<VirtualHost {}>", moved.join(" ")))
            }
            "</virtualhost>" => {
                self.is_tls_host = false;
                None
            }
            "logformat" if text.contains("%h") || text.contains("%a") => {
                migrated.note(&place, first, "the client is %{X-Forwarded-For}i now, as Apache sees the cache's address; or use mod_remoteip. varnishncsa logs hits, too: Apache sees misses alone");
                migrated.translated(&place, first);
                Some(text.replace("%h", "%{X-Forwarded-For}i").replace("%a", "%{X-Forwarded-For}i"))
            }
            name => self.line_of_tls(name, &words, indent, text),
        };
        if first.eq_ignore_ascii_case("serverroot") {
            self.root = words.get(1).map_or(String::new(), |root| root.trim_end_matches('/').to_owned());
            self.is_root_given = true;
        }
        check_count(self.lines.len(), &place)?;
        self.lines.push(Line { words, place });
        Ok(new)
    }

    /// A `Listen` for TLS: Apache listens on a port of its own, without TLS.
    fn listen_of_tls(&self, address: &str, line: (&str, &str), place: &SourcePlace, migrated: &mut Migrated) -> String {
        let (indent, host) = line;
        let is_there =
            |own| self.lines.iter().any(|line| line.name() == "listen" && self.ports.own(line.word(1)) == own);
        match self.ports.own(address) {
            Some(own) => {
                let text = format!("becomes Listen {host}:{own}: the cache speaks TLS there, and Apache doesn't");
                migrated.note(place, "Listen", text);
                format!("{indent}{}Listen {host}:{own}", if is_there(Some(own)) { "# " } else { "" })
            }
            None => format!("{indent}# Listen {address}"),
        }
    }

    /// A line about TLS as it becomes where Apache doesn't speak it: programs and rules go on seeing a request of https.
    fn line_of_tls(&self, name: &str, words: &[String], indent: &str, text: &str) -> Option<String> {
        let word = words.get(1).map_or("", String::as_str);
        match name {
            _ if self.ports.moved().next().is_none() => None,
            "sslengine" if !word.eq_ignore_ascii_case("off") => Some(format!(
                "{indent}<IfModule setenvif_module>\n{indent}SetEnvIf Request_URI ^ HTTPS=on\n{indent}</IfModule>"
            )),
            _ if !self.is_tls_host => None,
            "servername" if !word.contains("://") => Some(format!("{indent}ServerName https://{word}")),
            "sslrequiressl" => Some(format!("{indent}# {}", text.trim())),
            "require" if word.eq_ignore_ascii_case("ssl") => Some(format!("{indent}Require all granted")),
            "rewritecond" if text.contains("%{HTTPS}") => Some(text.replace("%{HTTPS}", "on")),
            _ => None,
        }
    }

    /// Reads the files of an `Include`. A file that isn't there and a pattern that nothing matches are errors unless the line is optional; a file
    /// that can't be read always is.
    fn include(
        &mut self,
        words: &[String],
        place: &SourcePlace,
        depth: usize,
        migrated: &mut Migrated,
    ) -> Result<(), String> {
        let said = |error: String| format!("{place}: {}: {error}", words[0]);
        let [directive, name] = words else { return Err(said("one file or pattern is wanted".to_owned())) };
        let is_optional = directive.eq_ignore_ascii_case("includeoptional");
        if self.is_root_given && !name.starts_with('/') && self.files.kind(&self.root) != PathKind::Directory {
            let text = format!("ServerRoot {} is no directory: name the one that the files are in", self.root);
            return Err(said(text));
        }
        let path = beside(&self.root, name);
        if path.contains("${") {
            return Err(said(format!("{path}: a variable of the environment: Define it")));
        }
        if !is_pattern(&path) {
            return match self.files.kind(&path) {
                PathKind::Missing if is_optional => Ok(()),
                _ => self.included(&path, &said, depth + 1, migrated),
            };
        }
        let found = matching(self.files, &path).map_err(said)?;
        if found.is_empty() && !is_optional {
            return Err(said(format!("{path}: nothing matches")));
        }
        found.iter().try_for_each(|file| self.included(file, &said, depth + 1, migrated))
    }

    /// Reads a file, or all files of a directory and those below it.
    fn included(
        &mut self,
        path: &str,
        said: &dyn Fn(String) -> String,
        depth: usize,
        migrated: &mut Migrated,
    ) -> Result<(), String> {
        if self.files.kind(path) != PathKind::Directory {
            let text = self.files.read(path).map_err(said)?;
            return self.text(path, &text, depth, migrated);
        }
        if depth > MAX_DEPTH {
            return Err(said(format!("{path}: directories nest deeper than {MAX_DEPTH}")));
        }
        let names = self.files.names(path).map_err(said)?;
        names.iter().try_for_each(|name| self.included(&joined(path, name), said, depth + 1, migrated))
    }
}

/// Checks that each section is closed, in the right order, and that VCL takes the regexes of those that have one.
///
/// # Errors
/// One isn't; the text says where.
pub(super) fn check_sections(lines: &[Line]) -> Result<(), String> {
    let mut open: Vec<(String, &SourcePlace)> = Vec::new();
    let mut hosts = 0;
    for line in lines {
        let first = line.words[0].trim_end_matches('>').to_ascii_lowercase();
        let argument = |at: usize| line.words.get(at).map_or("", |word| word.trim_end_matches('>'));
        if let Some(name) = first.strip_prefix("</") {
            match open.pop() {
                Some((last, _)) if last == name => {}
                Some((last, place)) => {
                    return Err(format!("{}: </{name}> stands where <{last}> of {place} is open", line.place));
                }
                None => return Err(format!("{}: </{name}> closes no section", line.place)),
            }
        } else if let Some(name) = first.strip_prefix('<') {
            if open.len() == MAX_SECTIONS {
                return Err(format!("{}: sections nest deeper than {MAX_SECTIONS}", line.place));
            }
            hosts += usize::from(name == "virtualhost");
            if hosts > MAX_HOSTS {
                return Err(format!("{}: more than {MAX_HOSTS} virtual hosts are too many for one VCL", line.place));
            }
            match (name, argument(1)) {
                ("locationmatch", regex) => regex::check(&line.place, name, regex)?,
                ("location", "~") => regex::check(&line.place, name, argument(2))?,
                _ => {}
            }
            open.push((name.to_owned(), &line.place));
        }
    }
    match open.pop() {
        Some((name, place)) => Err(format!("{place}: <{name}> isn't closed: </{name}> is missing")),
        None => Ok(()),
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

/// The words of a line: blanks between them, quotes of either kind around some; a comment has none.
pub(super) fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut chars = line.trim().chars().peekable();
    if chars.peek() == Some(&'#') {
        return out;
    }
    while let Some(&first) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let quote = chars.next_if(|c| matches!(c, '"' | '\''));
        let mut word = String::new();
        while let Some(c) = chars.next() {
            match c {
                // A backslash takes its meaning from itself and from the quote, and stays before anything else.
                '\\' => word.push(chars.next_if(|next| *next == '\\' || Some(*next) == quote).unwrap_or(c)),
                c if Some(c) == quote || quote.is_none() && c.is_whitespace() => break,
                c => word.push(c),
            }
        }
        out.push(word);
    }
    out
}
