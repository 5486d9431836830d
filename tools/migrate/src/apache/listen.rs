// SPDX-License-Identifier: BSD-2-Clause
//! The parts of Apache that the cache takes over: its addresses, certificates and storage.

use std::collections::BTreeSet;

use super::reader::Line;
use crate::migrated::Migrated;
use crate::source::is_address;

/// Ports that Apache has for TLS: the cache takes them over, with their certificates.
#[derive(Clone)]
pub(super) struct TlsPorts(BTreeSet<String>);

impl Default for TlsPorts {
    fn default() -> TlsPorts {
        TlsPorts(BTreeSet::from(["443".to_owned()]))
    }
}

impl TlsPorts {
    /// The port of https, those that a `Listen` has for https, and those of virtual hosts with `SSLEngine on`.
    pub(super) fn of(lines: &[Line]) -> TlsPorts {
        let mut all = TlsPorts::default();
        let mut host: Vec<&str> = Vec::new();
        for line in lines {
            match line.name().as_str() {
                "<virtualhost" => host = addresses(line),
                "</virtualhost>" => host.clear(),
                "listen" if line.word(2).eq_ignore_ascii_case("https") => all.0.extend(port(line.word(1))),
                "sslengine" if line.word(1).eq_ignore_ascii_case("on") => {
                    all.0.extend(host.iter().filter_map(|address| port(address)));
                }
                _ => {}
            }
        }
        all
    }

    /// True of an address, or of a port alone, that is one of TLS.
    pub(super) fn has(&self, address: &str) -> bool {
        port(address).is_some_and(|port| self.0.contains(&port))
    }
}

/// The port of `ADDRESS:PORT`, or of a port alone.
pub(super) fn port(address: &str) -> Option<String> {
    let port = address.rsplit(':').next().unwrap_or_default();
    port.parse::<u16>().ok().map(|port| port.to_string())
}

pub(super) fn addresses(line: &Line) -> Vec<&str> {
    line.words[1..].iter().map(|word| word.trim_end_matches('>')).filter(|word| !word.is_empty()).collect()
}

/// `-a` for each port that Apache had, once.
pub(super) fn listens(lines: &[Line], ports: &TlsPorts, migrated: &mut Migrated) {
    let mut has_tls = false;
    for line in lines.iter().filter(|line| line.words[0].eq_ignore_ascii_case("listen")) {
        let address = line.words.get(1).map_or("80", String::as_str);
        let address = if address.contains(':') { address.to_owned() } else { format!(":{address}") };
        if !is_address(&address) || port(&address).is_none() {
            migrated.refuse(&line.place, &line.words[0], format!("{address:?} is no address to listen on"));
            continue;
        }
        migrated.translated(&line.place, &line.words[0]);
        if ports.has(&address) {
            has_tls = true;
            let (host, port) = address.rsplit_once(':').unwrap_or_default();
            migrated.tls.push(format!("frontend = \"{}:{port}\"", if host.is_empty() { "*" } else { host }));
        } else if !migrated.arguments.contains(&address) {
            migrated.arguments.extend(["-a".to_owned(), address]);
        }
    }
    if has_tls {
        migrated.arguments.extend(["-p".to_owned(), "x_forwarded_proto=on".to_owned()]);
    }
}

/// Takes the certificates of all virtual hosts. A certificate without a key of its own has the key in the same file.
pub(super) fn certificates(lines: &[Line], migrated: &mut Migrated) {
    let mut cert: Option<&Line> = None;
    for line in lines {
        match line.words[0].to_ascii_lowercase().as_str() {
            "sslcertificatefile" => {
                certificate(cert.replace(line), None, migrated);
            }
            "sslcertificatekeyfile" => certificate(cert.take(), Some(line), migrated),
            _ => {}
        }
    }
    certificate(cert, None, migrated);
}

fn certificate(cert: Option<&Line>, key: Option<&Line>, migrated: &mut Migrated) {
    let path = |line: Option<&Line>| line.and_then(|line| line.words.get(1)).cloned();
    let text = match (path(cert), path(key)) {
        (Some(cert), Some(key)) => format!("pem-file = {{ cert = \"{cert}\" private-key = \"{key}\" }}"),
        (Some(cert), None) if key.is_none() => format!("pem-file = \"{cert}\""),
        _ => return,
    };
    let both = cert.into_iter().chain(key);
    let is_quoted = |line: &&Line| line.word(1).contains(|c: char| matches!(c, '"' | '\\') || c.is_control());
    if let Some(odd) = both.clone().find(is_quoted) {
        let text = format!("the file {:?} can't be named in tls.conf", odd.word(1));
        return migrated.refuse(&odd.place, odd.word(0), text);
    }
    if migrated.tls.is_empty() {
        return both.for_each(|line| migrated.without_meaning(&line.place, &line.words[0], "no address has TLS"));
    }
    both.for_each(|line| migrated.translated(&line.place, &line.words[0]));
    migrated.tls.push(text);
}

pub(super) fn storage(line: &Line, migrated: &mut Migrated) {
    migrated.translated(&line.place, &line.words[0]);
    if migrated.arguments.iter().any(|word| word == "-s") {
        return migrated.note(&line.place, &line.words[0], "one store holds the responses of all virtual hosts");
    }
    migrated.arguments.extend(["-s".to_owned(), "disk=file,/var/lib/varnish/disk.store,10g".to_owned()]);
    migrated.note(
        &line.place,
        &line.words[0],
        "a store is one file with memory in front, and has a bound: 10g is a guess",
    );
}
