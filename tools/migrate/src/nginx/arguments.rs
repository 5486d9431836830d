// SPDX-License-Identifier: BSD-2-Clause
//! The start line: addresses and stores, and the certificates in tls.conf.

use super::config::{Claim, Directive};
use super::{Whole, site};
use crate::migrated::Migrated;
use crate::vcl::GivenNames;

impl Whole<'_> {
    pub(super) fn arguments(&self, migrated: &mut Migrated) {
        let mut has_tls = false;
        for listen in self.sites.iter().flat_map(|site| site.listens()) {
            has_tls |= listen.is_tls;
            let protocol = match (listen.is_quic, listen.is_tls, listen.is_proxy) {
                (true, _, _) => ",quic",
                // tls.conf names these.
                (false, true, _) => continue,
                (false, false, true) => ",PROXY",
                (false, false, false) => "",
            };
            push(&mut migrated.arguments, "-a", &format!("{}{protocol}", listen.address));
        }
        let mut zones = GivenNames::default();
        for (zone, path) in paths(self.http) {
            // nginx's index is apart (keys_zone), its files are a directory: here it is one file, and memory in front of it.
            path.claim(Claim::Claimed);
            let zone = zones.of("zone", &zone, &["transient"]);
            let size = option(path, "max_size=").map_or_else(|| "10g".to_owned(), str::to_owned);
            push(&mut migrated.arguments, "-s", &format!("{zone}=file,/var/lib/varnish/{zone}.store,{size},keep"));
            if option(path, "max_size=").is_none() {
                migrated.note(&path.place, &path.name, "it has no max_size: 10g is a guess");
            }
            migrated.note(
                &path.place,
                &path.name,
                "a store is one file with memory in front, and lasts over restarts; what nginx has kept is fetched anew",
            );
        }
        if has_tls {
            push(&mut migrated.arguments, "-p", "x_forwarded_proto=on");
            self.certificates(migrated);
        }
    }

    fn certificates(&self, migrated: &mut Migrated) {
        let tls: Vec<&site::Listen> =
            self.sites.iter().flat_map(|site| site.listens()).filter(|l| l.is_tls && !l.is_quic).collect();
        for listen in tls {
            let (host, port) = listen.address.rsplit_once(':').unwrap_or(("", "443"));
            let line = format!("frontend = \"{}:{port}\"", if host.is_empty() { "*" } else { host });
            if !migrated.tls.contains(&line) {
                migrated.tls.push(line);
            }
        }
        // The default server's certificate is the last one: that is hitch's default.
        for site in &self.sites {
            let scope = self.outer.within(site.server.inside());
            let (Some(cert), Some(key)) = (scope.one("ssl_certificate"), scope.one("ssl_certificate_key")) else {
                continue;
            };
            [cert, key].iter().for_each(|directive| directive.claim(Claim::Claimed));
            let line = format!("pem-file = {{ cert = \"{}\" private-key = \"{}\" }}", cert.word(0), key.word(0));
            migrated.tls.retain(|known| *known != line);
            migrated.tls.push(line);
        }
    }
}

/// `proxy_cache_path` and its kin, by the names of their zones.
pub(super) fn paths(http: &[Directive]) -> impl Iterator<Item = (String, &Directive)> {
    let all = http.iter().filter(|d| d.name.ends_with("_cache_path"));
    all.filter_map(|path| {
        let zone = option(path, "keys_zone=")?;
        Some((zone.split(':').next().unwrap_or(zone).to_owned(), path))
    })
}

pub(super) fn option<'d>(directive: &'d Directive, key: &str) -> Option<&'d str> {
    directive.words.iter().find_map(|word| word.strip_prefix(key))
}

fn push(arguments: &mut Vec<String>, letter: &str, value: &str) {
    let is_there = arguments.windows(2).any(|pair| pair[0] == letter && pair[1] == value);
    if !is_there {
        arguments.extend([letter.to_owned(), value.to_owned()]);
    }
}
