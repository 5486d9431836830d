// SPDX-License-Identifier: BSD-2-Clause
//! squid's origins: which peers there are, and the order in which squid asks them.

use super::acl::folded;
use super::line::{Line, is_option};
use super::rule::first_match;
use super::{Squid, claim};
use crate::migrated::Migrated;
use crate::source::{SourcePlace, is_address};
use crate::vcl;

/// Options that are translated, or that ask for nothing here. One that ends with `=` has a value.
#[rustfmt::skip]
const OPTIONS: [&str; 34] = [
    "originserver", "name=", "ssl", "tls", "max-conn=", "round-robin", "proxy-only", "forceddomain=", "login=", "front-end-https", "front-end-https=",
    "connect-timeout=", "default", "no-query", "no-digest", "no-netdb-exchange", "no-delay", "no-tproxy", "weight=", "basetime=", "ttl=",
    "connect-fail-limit=", "standby=", "allow-miss", "background-ping", "closest-only", "digest-url=", "htcp", "htcp=", "sourcehash", "userhash", "carp",
    "weighted-round-robin", "carp-key=",
];

const NUMBERS: [&str; 7] =
    ["max-conn=", "connect-timeout=", "weight=", "basetime=", "ttl=", "connect-fail-limit=", "standby="];

/// A port that isn't a number. Squid takes any service that the machine knows, too.
fn odd_port(line: &Line) -> Option<String> {
    let text = line.word(3);
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0);
    let is_port = is_number || matches!(text, "http" | "https");
    (!is_port).then(|| format!("{text:?} is no port: write its number, from 1 to 65535"))
}

/// The first value that squid doesn't take, with what is wanted.
fn odd_value(line: &Line) -> Option<String> {
    let is_number = |text: &str| text.parse::<i32>().is_ok();
    if !is_number(line.word(4)) {
        return Some(format!("{:?}: the port of ICP is a number, 0 for none", line.word(4)));
    }
    line.rest(5).iter().find_map(|word| {
        let number = NUMBERS.iter().find_map(|key| word.strip_prefix(key));
        match (number, word.strip_prefix("front-end-https="), word.as_str()) {
            (Some(number), ..) if !is_number(number) => Some(format!("{word}: a whole number is wanted")),
            (_, Some(switch), _) if !matches!(switch, "on" | "auto") => Some(format!("{word}: on or auto is wanted")),
            (_, _, "name=") => Some("name=: a name is wanted".to_owned()),
            _ => None,
        }
    })
}

/// An origin, and the directors that it may be a part of.
pub(super) struct Peer {
    /// The name that squid's rules have for it.
    pub known_as: String,
    /// The name in VCL.
    pub name: String,
    pub text: String,
    /// squid sends requests to those in turn, before it asks others.
    pub is_in_turn: bool,
    /// The lines by which its requests differ from those to others.
    own: Vec<String>,
    place: SourcePlace,
    /// squid keeps none of its responses.
    pub is_passed: bool,
}

impl Squid {
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
        if let Some(odd) = odd_port(line).or_else(|| odd_value(line)) {
            return migrated.refuse(&line.place, "cache_peer", odd);
        }
        let known_as = folded(line.option("name=").unwrap_or(line.word(1)));
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
        // Zero asks for none, as if the option weren't there.
        let number = |key: &str| line.option(key).and_then(|number| number.parse::<u32>().ok()).filter(|n| *n > 0);
        lines.extend(number("max-conn=").map(|most| format!(".max_connections = {most};")));
        lines.extend(number("connect-timeout=").map(|seconds| format!(".connect_timeout = {seconds}s;")));
        let own = self.own_lines(line, migrated);
        if line.has("sourcehash") || line.has("userhash") || line.has("carp") || line.has("weighted-round-robin") {
            let text = "`import directors;` chooses among backends: here the first one that may be asked is taken";
            migrated.note(&line.place, "cache_peer", text);
        }
        let weight = line.option("weight=").filter(|weight| *weight != "1" && line.has("round-robin"));
        if let Some(weight) = weight {
            let text = "the peers of round-robin get as many requests each; `directors.random()` has weights";
            migrated.note(&line.place, "cache_peer", format!("weight={weight}: {text}"));
        }
        self.peers.push(Peer {
            text: format!("\nbackend {name} {{\n{}}}\n", vcl::indented(&lines, 1)),
            known_as,
            name,
            is_in_turn: line.has("round-robin"),
            is_passed: line.has("proxy-only"),
            own,
            place: line.place.clone(),
        });
        claim(line, migrated);
    }

    /// The lines of requests to a peer. Options without a counterpart are refused.
    fn own_lines(&mut self, line: &Line, migrated: &mut Migrated) -> Vec<String> {
        let mut own = Vec::new();
        let host = line.option("forceddomain=");
        own.extend(host.map(|host| format!("set req.http.{DOMAIN} = \"{host}\";")));
        match line.option("login=") {
            // squid sends an origin no Authorization unless it is told to.
            Some("PASS" | "PASSTHRU" | "PROXYPASS") => own.push(format!("set req.http.{LOGIN} = \"pass\";")),
            Some(_) => self.passed(line, "login=: `set bereq.http.Authorization = ...` in vcl_backend_fetch", migrated),
            None => {}
        }
        let set = "set req.http.Front-End-Https = \"On\";".to_owned();
        match line.option("front-end-https=").or(line.has("front-end-https").then_some("on")) {
            Some("auto") => {
                own.extend(vcl::chain(vec![("req.http.X-Forwarded-Proto == \"https\"".to_owned(), vec![set])]))
            }
            Some("on") => own.push(set),
            _ => {}
        }
        for option in line.rest(5).iter().filter(|option| !OPTIONS.iter().any(|known| is_option(option, known))) {
            let of_tls = option.starts_with("ssl") || option.starts_with("tls-");
            let text = if of_tls {
                "TLS to origins is set by attributes: docs/tls-origins.md"
            } else {
                "the option has no counterpart here"
            };
            migrated.refuse(&line.place, "cache_peer", format!("{option}: {text}"));
        }
        own
    }

    /// The order in which squid asks peers: those in turn, then the others; `default` changes nothing. Each with the condition under which it may.
    pub(super) fn choice(&self, init: &mut Vec<String>, migrated: &mut Migrated) -> Vec<(String, Vec<String>)> {
        let allowed =
            |peer: &Peer| first_match(self.peer_rules.get(&peer.known_as).map_or(&[][..], Vec::as_slice), true);
        let chosen =
            |hint: &str, peer: &Peer| [vec![format!("set req.backend_hint = {hint};")], peer.own.clone()].concat();
        let mut out: Vec<(String, Vec<String>)> = Vec::new();
        let mut turns: Vec<(String, Vec<&Peer>)> = Vec::new();
        for peer in self.peers.iter().filter(|peer| peer.is_in_turn) {
            let condition = allowed(peer);
            match turns.iter_mut().find(|(known, _)| *known == condition) {
                Some((_, peers)) if peers[0].own != peer.own => {
                    let text =
                        format!("in turn with {}, which has other options: it gets no requests", peers[0].known_as);
                    migrated.refuse(&peer.place, "cache_peer", text);
                }
                Some((_, peers)) => peers.push(peer),
                None => turns.push((condition, vec![peer])),
            }
        }
        for (number, (condition, peers)) in turns.into_iter().enumerate() {
            let hint = match &peers[..] {
                [only] => only.name.clone(),
                several => {
                    let director = format!("peers_{}", number + 1);
                    init.push(format!("new {director} = directors.round_robin();"));
                    init.extend(several.iter().map(|peer| format!("{director}.add_backend({});", peer.name)));
                    format!("{director}.backend()")
                }
            };
            out.push((condition, chosen(&hint, peers[0])));
        }
        let alone = self.peers.iter().filter(|peer| !peer.is_in_turn);
        out.extend(alone.map(|peer| (allowed(peer), chosen(&peer.name, peer))));
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

/// The header by which a request carries the Host that its peer gets.
pub(super) const DOMAIN: &str = "Squid-Domain";

/// The header by which a request carries that its peer gets the client's Authorization.
pub(super) const LOGIN: &str = "Squid-Login";
