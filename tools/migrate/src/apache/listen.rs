// SPDX-License-Identifier: BSD-2-Clause
//! The parts of Apache that the cache takes over: its addresses, certificates and storage.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::Line;
use crate::migrated::Migrated;
use crate::source::is_address;

/// Ports that Apache has for TLS: the cache takes them over, with their certificates. Behind it Apache listens without TLS, on a port for each of them.
#[derive(Clone)]
pub(super) struct TlsPorts {
    all: BTreeSet<String>,
    /// Apache's port behind the cache, by the one of TLS.
    own: BTreeMap<String, String>,
}

impl Default for TlsPorts {
    fn default() -> TlsPorts {
        TlsPorts { all: BTreeSet::from(["443".to_owned()]), own: BTreeMap::new() }
    }
}

impl TlsPorts {
    /// The port of https, those that a `Listen` has for https, and those of virtual hosts with `SSLEngine on`; `first` is Apache's port for the
    /// other ones.
    pub(super) fn of(lines: &[Line], first: &str) -> TlsPorts {
        let mut ports = TlsPorts::default();
        let mut host: Vec<&str> = Vec::new();
        for line in lines {
            match line.name().as_str() {
                "<virtualhost" => host = addresses(line),
                "</virtualhost>" => host.clear(),
                "listen" if line.word(2).eq_ignore_ascii_case("https") => ports.all.extend(port(line.word(1))),
                "sslengine" if line.word(1).eq_ignore_ascii_case("on") => {
                    ports.all.extend(host.iter().filter_map(|address| port(address)));
                }
                _ => {}
            }
        }
        let listen = lines.iter().filter(|line| line.name() == "listen").filter_map(|line| port(line.word(1)));
        let taken: Vec<String> = listen.chain([first.to_owned()]).collect();
        let first: u16 = first.parse().unwrap_or_default();
        let all = (first..=u16::MAX).chain((1..first).rev()).map(|port| port.to_string());
        let mut free = all.filter(|port| !taken.contains(port));
        for port in taken.iter().filter(|port| ports.all.contains(*port)) {
            if !ports.own.contains_key(port) {
                ports.own.extend(free.next().map(|own| (port.clone(), own)));
            }
        }
        ports
    }

    /// True of an address, or of a port alone, that is one of TLS.
    pub(super) fn has(&self, address: &str) -> bool {
        port(address).is_some_and(|port| self.all.contains(&port))
    }

    /// The port without TLS on which Apache listens in the place of an address of TLS.
    pub(super) fn own(&self, address: &str) -> Option<&str> {
        self.own.get(&port(address)?).map(String::as_str)
    }

    /// The ports of TLS on which Apache listened, with those that it has now.
    pub(super) fn moved(&self) -> impl Iterator<Item = (&str, &str)> {
        self.own.iter().map(|(port, own)| (port.as_str(), own.as_str()))
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
