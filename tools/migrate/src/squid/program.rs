// SPDX-License-Identifier: BSD-2-Clause
//! The program: the lists of rules, the choice of a peer and the lifetimes, as subroutines.

use std::collections::BTreeSet;

use super::acl::{HOST, PATH, PORT, WHOLE, compared, normal_host};
use super::peer::{DOMAIN, LOGIN, Peer};
use super::rule::first_match;
use super::{Squid, port, push};
use crate::migrated::Migrated;
use crate::vcl;

impl Squid {
    pub(super) fn finish(mut self, migrated: &mut Migrated) {
        let is_tls = !migrated.tls.is_empty();
        let mut init = Vec::new();
        let (decided, forward) = (self.decided(), self.forward(&mut init, migrated));
        let is_compared = decided.iter().chain(&forward).any(|line| line.contains("req.http.Squid-"));
        let compared = if is_compared { compared(is_tls) } else { Vec::new() };
        self.retain_chosen_peers(forward.iter().chain(&init));
        let carried = [DOMAIN, LOGIN].into_iter().filter(|name| forward.iter().any(|line| line.contains(name)));
        let carried: Vec<&str> = carried.collect();
        let own = carried.iter().map(|name| format!("unset req.http.{name};")).collect();
        let site = port::own_lines(&self.ports, |port| &port.site);
        let recv = [own, site, normal_host(is_tls), compared, decided].concat();
        let (has_cookie, fetch, response) = self.fetched(is_compared, &carried);
        let modules = [
            ("std", true),
            ("cookie", has_cookie),
            ("blob", is_compared),
            ("directors", !init.is_empty()),
            ("purge", self.has_purge),
        ];
        let modules = modules.iter().filter(|(_, is_used)| *is_used).map(|(name, _)| format!("import {name};\n"));
        migrated.vcl = [
            "vcl 4.1;\n\n".to_owned(),
            modules.collect(),
            self.backends(),
            vcl::sub("vcl_init", &init),
            self.named_networks(recv.iter().chain(&forward)),
            vcl::sub("vcl_recv", &recv),
            vcl::sub("squid_forward", &forward),
            if self.has_purge { PURGED.to_owned() } else { String::new() },
            MISSED.to_owned(),
            if is_tls { KEPT_APART.to_owned() } else { String::new() },
            vcl::sub("vcl_backend_fetch", &fetch),
            response,
        ]
        .concat();
        if !self.is_passing {
            migrated.vcl.push_str(&vcl::sub("vcl_deliver", &self.deliver()));
            push(migrated, "-p", "feature=+rfc9111");
        }
        if is_tls {
            push(migrated, "-p", "x_forwarded_proto=on");
        }
    }

    /// The lines of `vcl_recv` that decide: access, and whether the cache is asked.
    fn decided(&self) -> Vec<String> {
        let mut lines = vec![
            "# Each list in order: the first line that holds decides, then the opposite of the last one.".to_owned(),
        ];
        lines.extend(self.denied.iter().map(|port| format!("if ({port}) {{ return (synth(403)); }}")));
        if !self.has_purge {
            lines.push("if (req.method == \"PURGE\") { return (synth(403)); }".to_owned());
        }
        lines.extend(self.list("http_access", false, "return (synth(403));"));
        if self.has_purge {
            lines.push("if (req.method == \"PURGE\") { return (hash); }".to_owned());
        }
        if self.is_passing {
            lines.push("return (pass);".to_owned());
            return lines;
        }
        lines.push("if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); }".to_owned());
        lines.extend(self.list("cache", true, "return (pass);"));
        lines.extend(port::own_lines(&self.ports, |port| &port.ignored));
        lines.extend(self.reloads());
        lines.push("if (req.http.Pragma ~ \"(?i)no-cache\") { set req.hash_always_miss = true; }".to_owned());
        lines.push("return (hash);".to_owned());
        lines
    }

    /// The lines by which squid finds a peer, in its order. A hit needs none of them.
    fn forward(&self, init: &mut Vec<String>, migrated: &mut Migrated) -> Vec<String> {
        let mut lines =
            vec!["if (req.http.Cache-Control ~ \"(?i)only-if-cached\") { return (synth(504)); }".to_owned()];
        if self.rules.contains_key("miss_access") {
            lines.extend(self.list("miss_access", true, "return (synth(403));"));
        }
        let direct = first_match(self.rules.get("always_direct").map_or(&[][..], Vec::as_slice), false);
        if direct != "false" {
            let condition = if direct == "true" { String::new() } else { direct };
            lines.extend(vcl::chain(vec![(condition, vec!["return (synth(503));".to_owned()])]));
        }
        lines.extend(vcl::chain(self.choice(init, migrated)));
        lines
    }

    /// Drops the peers that no line chooses: VCL refuses a backend that isn't used.
    fn retain_chosen_peers<'a>(&mut self, lines: impl Iterator<Item = &'a String>) {
        let chosen: String = lines.map(String::as_str).collect();
        let is_chosen = |peer: &Peer| {
            [format!("= {};", peer.name), format!("({});", peer.name)].iter().any(|end| chosen.contains(end.as_str()))
        };
        self.peers.retain(is_chosen);
    }

    fn backends(&self) -> String {
        match self.peers.is_empty() {
            true => "\nbackend default none;\n".to_owned(),
            false => self.peers.iter().map(|peer| peer.text.as_str()).collect(),
        }
    }

    fn named_networks<'a>(&self, lines: impl Iterator<Item = &'a String>) -> String {
        let named: BTreeSet<&str> = lines.flat_map(|line| named_acls(line)).collect();
        let networks = self.networks.iter().filter(|(name, _)| named.contains(name.as_str()));
        let one = |(name, networks): (&String, &Vec<String>)| {
            let lines: Vec<String> = networks.iter().map(|network| format!("{network};")).collect();
            format!("\nacl {name} {{\n{}}}\n", vcl::indented(&lines, 1))
        };
        networks.map(one).collect()
    }

    /// The lines of `vcl_backend_fetch`, and the subroutines for the response; `true` if they need the module cookie. `carried` are the headers that
    /// say how the request to a peer differs.
    fn fetched(&self, is_compared: bool, carried: &[&str]) -> (bool, Vec<String>, String) {
        let mut fetch = Vec::new();
        let mut response = if self.is_passing { String::new() } else { self.response() };
        let mut has_cookie = false;
        let mut keep = |name: &str, value: &str| {
            // The response is judged by the request as it came in.
            if response.contains(value) {
                response = response.replace(value, &format!("cookie.get(\"{name}\")"));
                fetch.push(format!("cookie.set(\"{name}\", {value});"));
                has_cookie = true;
            }
        };
        keep("authorization", "bereq.http.Authorization");
        if carried.contains(&DOMAIN) || self.is_tls {
            keep("url", self.url());
        }
        if carried.contains(&DOMAIN) {
            fetch.push(format!("if (bereq.http.{DOMAIN}) {{ set bereq.http.Host = bereq.http.{DOMAIN}; }}"));
        }
        let only_passed =
            if carried.contains(&LOGIN) { format!("bereq.http.{LOGIN} != \"pass\"") } else { String::new() };
        fetch.extend(vcl::chain(vec![(only_passed, vec!["unset bereq.http.Authorization;".to_owned()])]));
        fetch.extend(carried.iter().map(|name| format!("unset bereq.http.{name};")));
        if is_compared {
            fetch.extend([HOST, PATH, PORT, WHOLE].map(|name| format!("unset be{name};")));
        }
        if self.is_tls {
            // squid says nothing of the scheme. The core has set it for this VCL.
            fetch.push("unset bereq.http.X-Forwarded-Proto;".to_owned());
        }
        (has_cookie, fetch, response)
    }
}

/// The part of squid's key that the built-in one lacks.
const KEPT_APART: &str = r#"
sub vcl_hash {
	# http and https are kept apart.
	hash_data(req.http.X-Forwarded-Proto);
}
"#;

/// squid says of a purge whether there was anything.
const PURGED: &str = r#"
sub squid_purge {
	set req.http.Squid-Purged = purge.hard();
	if (req.http.Squid-Purged == "0") { return (synth(404)); }
	return (synth(200));
}

sub vcl_hit {
	if (req.method == "PURGE") { call squid_purge; }
}

sub vcl_miss {
	if (req.method == "PURGE") { call squid_purge; }
}

sub vcl_pass {
	if (req.method == "PURGE") { return (synth(404)); }
}
"#;

const MISSED: &str = r#"
sub vcl_pass {
	call squid_forward;
}

sub vcl_miss {
	# squid keeps the response to a HEAD for other HEADs alone.
	if (req.method == "HEAD") { return (pass); }
	call squid_forward;
}
"#;

/// The acls that a line compares the client with.
fn named_acls(line: &str) -> impl Iterator<Item = &str> {
    const TEST: &str = "client.ip ~ ";
    line.match_indices(TEST).map(|(at, _)| {
        let rest = &line[at + TEST.len()..];
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len())]
    })
}
