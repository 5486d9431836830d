// SPDX-License-Identifier: BSD-2-Clause
//! The addresses on which nginx listens behind the cache, and what it has to be told there: it sees neither the clients' addresses nor TLS.

use super::address;
use super::config::Directive;
use super::leaf::Around;
use super::location::{LocationKind, NginxLocation};
use super::site::Site;
use super::upstream::MigratedBackends;
use crate::migrated::Migrated;

/// One address for each set of sockets that servers had: on one address nginx tells servers apart by their names, and those for HTTP and for
/// HTTPS often have the same.
pub struct OwnOrigins {
    host: String,
    /// Ports that are free for nginx, the first one first: those that the cache takes over aren't.
    ports: Vec<u16>,
    /// The sets of sockets of those servers that nginx goes on serving, in the order of their ports.
    sets: Vec<Vec<(String, bool)>>,
}

impl OwnOrigins {
    /// # Errors
    /// The port is none.
    pub fn new((host, port): (&str, &str), sites: &[Site<'_>]) -> Result<OwnOrigins, String> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let first: u16 = port.parse().map_err(|_| format!("--origin {host}:{port}: that is no port"))?;
        let taken: Vec<&str> = sites.iter().flat_map(Site::listens).map(|l| l.port.as_str()).collect();
        let all = (first..=u16::MAX).chain((1..first).rev());
        let is_free = |port: &u16| !taken.contains(&port.to_string().as_str());
        // No more than one set for each server.
        Ok(OwnOrigins { host, ports: all.filter(is_free).take(sites.len().max(1)).collect(), sets: Vec::new() })
    }

    /// The address for a server that nginx goes on serving.
    pub fn address(&mut self, site: &Site<'_>) -> String {
        let set = sockets(site);
        let at = self.sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        self.numbered(at)
    }

    fn numbered(&self, at: usize) -> String {
        format!("{}:{}", self.host, self.ports.get(at).copied().unwrap_or_default())
    }

    pub fn ports(&self) -> Vec<String> {
        (0..self.sets.len()).filter_map(|at| self.ports.get(at)).map(u16::to_string).collect()
    }

    pub fn host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    /// Says of a server that nginx goes on serving a part of it, where, and what its lines mean there. `recv` are the subroutines of its locations.
    pub fn tell<'a>(
        &self,
        site: &Site<'a>,
        server: &NginxLocation<'a>,
        (around, backends): (&Around<'a>, &MigratedBackends),
        recv: &[(String, String, Vec<String>)],
        migrated: &mut Migrated,
    ) {
        let set = sockets(site);
        let Some(at) = self.sets.iter().position(|known| *known == set) else { return };
        let address = self.numbered(at);
        let Some(hint) = backends.chosen(&address) else { return };
        let is_kept = |location: &&NginxLocation<'_>| {
            let own = recv.iter().find(|(name, ..)| *name == location.label);
            own.is_some_and(|(_, _, lines)| lines.iter().any(|line| line.contains(&hint)))
        };
        let all = server.all();
        if !all.iter().any(is_kept) {
            return;
        }
        let listen = server.directive.inside().iter().find(|d| d.name == "listen").unwrap_or(server.directive);
        let text = format!(
            "nginx goes on serving a part of this: let this server listen on {address} alone; with `set_real_ip_from` (the address of this \
             cache) and `real_ip_header X-Forwarded-For` it knows its clients"
        );
        migrated.note(&listen.place, &listen.name, text);
        let kept = all.into_iter().filter(|l| l.kind == LocationKind::Named || is_kept(l)).collect::<Vec<_>>();
        kept.iter().filter_map(|l| uncompressed(l)).for_each(|directive| {
            migrated.note(&directive.place, &directive.name, UNCOMPRESSED);
        });
        for location in &kept {
            let Some(advice) = address::realip(&location.scope, self.host()) else { continue };
            for (directive, effect) in around.by_address.judged(&location.scope, &around.upstreams) {
                migrated.note(&directive.place, &directive.name, format!("{effect}; {advice}"));
            }
        }
        if !site.listens().iter().any(|listen| listen.is_tls) {
            return;
        }
        for directive in kept.iter().flat_map(|l| l.scope.directives()).filter(|d| names_scheme(d)) {
            let text = "nginx sees no TLS there: `$http_x_forwarded_proto` is the client's scheme";
            migrated.note(&directive.place, &directive.name, text);
        }
    }
}

const UNCOMPRESSED: &str =
    "requests come with `Via` there, and nginx compresses nothing for those: add `gzip_proxied any;`";

/// The directive by which nginx compresses what it serves, unless it does so for proxies, too.
fn uncompressed<'a>(location: &NginxLocation<'a>) -> Option<&'a Directive> {
    let scope = &location.scope;
    if scope.one("gzip_proxied").is_some_and(|proxied| proxied.word(0) != "off") {
        return None;
    }
    ["gzip", "gzip_static"].into_iter().find_map(|name| scope.one(name).filter(|d| d.word(0) == "on"))
}

fn sockets(site: &Site<'_>) -> Vec<(String, bool)> {
    let mut all: Vec<(String, bool)> = site.listens().iter().map(|l| (l.address.clone(), l.is_tls)).collect();
    all.sort();
    all.dedup();
    all
}

/// True if a line that nginx sends to an application, or answers with, says whether the client came by TLS.
fn names_scheme(directive: &Directive) -> bool {
    let is_sent = ["_set_header", "_param", "return", "rewrite"].iter().any(|end| directive.name.ends_with(end));
    let says = |word: &String| ["$scheme", "${scheme}", "$https", "${https}", "$ssl_"].iter().any(|v| word.contains(v));
    is_sent && directive.words.iter().any(says)
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    #[test]
    fn each_set_of_sockets_has_its_address() {
        let text = "server { listen 80; } server { listen 443 ssl; } server { listen [::]:80; } server { listen 80; listen 443 ssl; }";
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
        let servers = config::read("f", &Given(files)).expect("nginx's language");
        let sites: Vec<Site<'_>> =
            servers.iter().enumerate().map(|(i, server)| Site::new(server, i + 1).expect("addresses")).collect();
        let mut origins = OwnOrigins::new(("::1", "65534"), &sites).expect("a port");
        let got: Vec<String> = sites.iter().map(|site| origins.address(site)).collect();
        assert_eq!(got, ["[::1]:65534", "[::1]:65535", "[::1]:65534", "[::1]:65533"]);
        assert!(OwnOrigins::new(("a", "x"), &sites).is_err());
    }

    #[test]
    fn ports_that_the_cache_takes_over_are_not_free() {
        let files: &'static [(&str, &str)] = &[("f", "server { listen 8080; } server { listen 10.0.0.1:8081; }")];
        let servers = config::read("f", &Given(files)).expect("nginx's language");
        let sites: Vec<Site<'_>> =
            servers.iter().enumerate().map(|(i, server)| Site::new(server, i + 1).expect("addresses")).collect();
        let mut origins = OwnOrigins::new(("127.0.0.1", "8080"), &sites).expect("a port");
        assert_eq!([0, 1].map(|i| origins.address(&sites[i])), ["127.0.0.1:8082", "127.0.0.1:8083"]);
    }
}
