// SPDX-License-Identifier: BSD-2-Clause
//! What the cache takes over from Apache: its addresses, certificates and storage.

use super::reader::Line;
use crate::migrated::Migrated;

/// Ports that Apache has for TLS: the cache takes them over, with their certificates.
const TLS_PORT: &str = "443";

/// `-a` for each port that Apache had, once.
pub(super) fn listens(lines: &[Line], migrated: &mut Migrated) {
    let mut has_tls = false;
    for line in lines.iter().filter(|line| line.words[0].eq_ignore_ascii_case("listen")) {
        let address = line.words.get(1).map_or("80", String::as_str);
        let address = if address.contains(':') { address.to_owned() } else { format!(":{address}") };
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

/// Those of all virtual hosts, in pairs.
pub(super) fn certificates(lines: &[Line], migrated: &mut Migrated) {
    if migrated.tls.is_empty() {
        return;
    }
    let mut cert: Option<&Line> = None;
    for line in lines {
        match line.words[0].to_ascii_lowercase().as_str() {
            "sslcertificatefile" => cert = Some(line),
            "sslcertificatekeyfile" => {
                let Some(cert) = cert.take() else { continue };
                let (cert, key) = (cert.words.get(1), line.words.get(1));
                if let (Some(cert), Some(key)) = (cert, key) {
                    migrated.tls.push(format!("pem-file = {{ cert = \"{cert}\" private-key = \"{key}\" }}"));
                }
            }
            _ => {}
        }
    }
    if let Some(cert) = cert {
        migrated.note(
            &cert.place,
            &cert.words[0],
            "no key is named for it: if it is in the same file, pem-file = \"FILE\" is enough",
        );
    }
}

pub(super) fn storage(line: &Line, migrated: &mut Migrated) {
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
