// SPDX-License-Identifier: BSD-2-Clause
//! squid's ports and origins: which peers there are, and the order in which squid asks them.

use super::line::Line;
use super::rule::first_match;
use super::{Squid, claim, push};
use crate::migrated::Migrated;
use crate::vcl;

/// An origin, and the directors that it may be a part of.
pub(super) struct Peer {
    /// The name that squid's rules have for it.
    pub known_as: String,
    /// The name in VCL.
    pub name: String,
    pub text: String,
    /// squid sends requests to those in turn, before it asks others.
    pub is_in_turn: bool,
    pub host: Option<String>,
    /// squid keeps none of its responses.
    pub is_passed: bool,
}

impl Squid {
    pub(super) fn port(&mut self, line: &Line, migrated: &mut Migrated) {
        let address = if line.word(1).contains(':') { line.word(1).to_owned() } else { format!(":{}", line.word(1)) };
        if !["accel", "vhost", "defaultsite="].iter().any(|w| line.words.iter().any(|word| word.starts_with(w))) {
            migrated.refuse(
                &line.place,
                line.word(0),
                "without `accel` it is a proxy for clients of your own network, which this isn't",
            );
            return;
        }
        let cert = line.option("tls-cert=").or_else(|| line.option("cert="));
        let key = line.option("tls-key=").or_else(|| line.option("key="));
        let site = line.option("defaultsite=");
        if let Some(odd) = std::iter::once(address.as_str()).chain(site).find(|text| !is_address(text)) {
            return migrated.refuse(&line.place, line.word(0), format!("{odd:?} is no name or address"));
        }
        let is_quoted = |path: &&str| path.contains(['"', '\\']) || path.chars().any(char::is_control);
        if let Some(odd) = cert.into_iter().chain(key).find(is_quoted) {
            return migrated.refuse(&line.place, line.word(0), format!("the file {odd:?} can't be named in tls.conf"));
        }
        if let Some(site) = site {
            self.default_site = Some((site.to_owned(), line.has("no-vhost")));
        }
        self.is_ignoring_reload |= line.has("ignore-cc");
        claim(line, migrated);
        if line.word(0) == "http_port" {
            return push(migrated, "-a", &address);
        }
        let (host, port) = address.rsplit_once(':').unwrap_or(("", "443"));
        migrated.tls.push(format!("frontend = \"{}:{port}\"", if host.is_empty() { "*" } else { host }));
        match (cert, key) {
            (Some(cert), Some(key)) => {
                migrated.tls.push(format!("pem-file = {{ cert = \"{cert}\" private-key = \"{key}\" }}"))
            }
            (Some(cert), None) => migrated.tls.push(format!("pem-file = \"{cert}\"")),
            (None, _) => migrated.refuse(&line.place, "https_port", "it names no certificate"),
        }
    }

    pub(super) fn peer(&mut self, line: &Line, migrated: &mut Migrated) {
        if line.word(2) != "parent" || !line.has("originserver") {
            migrated.refuse(
                &line.place,
                "cache_peer",
                "only `parent` with `originserver` is an origin; caches that ask each other by ICP aren't here",
            );
            return;
        }
        let host = line.option("forceddomain=");
        let mut texts = [line.word(1), line.word(3)].into_iter().chain(host);
        if let Some(odd) = texts.find(|text| !is_address(text)) {
            return migrated.refuse(&line.place, "cache_peer", format!("{odd:?} is no name, address or port"));
        }
        let most = line.option("max-conn=");
        if let Some(odd) = most.filter(|most| most.parse::<u32>().is_err()) {
            return migrated.refuse(&line.place, "cache_peer", format!("max-conn={odd:?} is no number"));
        }
        let known_as = line.option("name=").unwrap_or(line.word(1)).to_owned();
        if self.peers.iter().any(|peer| peer.known_as == known_as) {
            return migrated.refuse(
                &line.place,
                "cache_peer",
                format!("there is a peer {known_as} before: write name=NAME"),
            );
        }
        let name = self.name("peer", &known_as);
        let mut lines = vec![format!(".host = \"{}\";", line.word(1)), format!(".port = \"{}\";", line.word(3))];
        if line.has("ssl") || line.has("tls") {
            lines.push(".ssl = 1;".to_owned());
        }
        if let Some(most) = most {
            lines.push(format!(".max_connections = {most};"));
        }
        if line.has("sourcehash") || line.has("userhash") || line.has("carp") || line.has("weighted-round-robin") {
            let text = "`import directors;` chooses among backends: here the first one that may be asked is taken";
            migrated.note(&line.place, "cache_peer", text);
        }
        self.peers.push(Peer {
            text: format!("\nbackend {name} {{\n{}}}\n", vcl::indented(&lines, 1)),
            known_as,
            name,
            is_in_turn: line.has("round-robin"),
            is_passed: line.has("proxy-only"),
            host: host.map(str::to_owned),
        });
        claim(line, migrated);
    }

    /// The order in which squid asks peers: those in turn, then the others; `default` changes nothing. Each with the condition under which it may.
    pub(super) fn choice(&self, init: &mut Vec<String>) -> Vec<(String, Vec<String>)> {
        let allowed =
            |peer: &Peer| first_match(self.peer_rules.get(&peer.known_as).map_or(&[][..], Vec::as_slice), true);
        let alone = |peer: &Peer| (allowed(peer), vec![format!("set req.backend_hint = {};", peer.name)]);
        let mut out: Vec<(String, Vec<String>)> = Vec::new();
        let mut turns: Vec<(String, Vec<&str>)> = Vec::new();
        for peer in self.peers.iter().filter(|peer| peer.is_in_turn) {
            let condition = allowed(peer);
            match turns.iter_mut().find(|(known, _)| *known == condition) {
                Some((_, names)) => names.push(&peer.name),
                None => turns.push((condition, vec![&peer.name])),
            }
        }
        for (number, (condition, names)) in turns.into_iter().enumerate() {
            let hint = match &names[..] {
                [only] => (*only).to_owned(),
                several => {
                    let director = format!("peers_{}", number + 1);
                    init.push(format!("new {director} = directors.round_robin();"));
                    init.extend(several.iter().map(|name| format!("{director}.add_backend({name});")));
                    format!("{director}.backend()")
                }
            };
            out.push((condition, vec![format!("set req.backend_hint = {hint};")]));
        }
        out.extend(self.peers.iter().filter(|peer| !peer.is_in_turn).map(alone));
        out.retain(|(condition, _)| condition != "false");
        out.push(("true".to_owned(), vec!["return (synth(502));".to_owned()]));
        let end = out.iter().position(|(condition, _)| condition == "true").unwrap_or_default();
        out.truncate(end + 1);
        if let Some((condition, _)) = out.last_mut() {
            condition.clear();
        }
        out
    }
}

/// True for a name of a host, an address or a port: no sign of it has a meaning within a string of VCL or of tls.conf.
fn is_address(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]*".contains(c))
}
