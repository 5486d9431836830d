// SPDX-License-Identifier: BSD-2-Clause
//! The parts of Apache that the cache takes over: its addresses, certificates and storage.

use super::reader::Line;
use crate::migrated::Migrated;

/// Ports that Apache has for TLS: the cache takes them over, with their certificates.
pub(super) const TLS_PORT: &str = "443";

/// `-a` for each port that Apache had, once.
pub(super) fn listens(lines: &[Line], migrated: &mut Migrated) {
    let mut has_tls = false;
    for line in lines.iter().filter(|line| line.words[0].eq_ignore_ascii_case("listen")) {
        let address = line.words.get(1).map_or("80", String::as_str);
        let address = if address.contains(':') { address.to_owned() } else { format!(":{address}") };
        migrated.translated(&line.place, &line.words[0]);
        let is_tls =
            address.ends_with(&format!(":{TLS_PORT}")) || line.words.get(2).is_some_and(|word| word == "https");
        if is_tls {
            has_tls = true;
            let (host, port) = address.rsplit_once(':').unwrap_or(("", TLS_PORT));
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

pub(super) fn is_tls_port(address: &str) -> bool {
    address == TLS_PORT || address.ends_with(&format!(":{TLS_PORT}"))
}
