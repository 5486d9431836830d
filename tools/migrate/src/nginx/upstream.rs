// SPDX-License-Identifier: BSD-2-Clause
//! Backends and directors: `upstream` blocks, and addresses that `proxy_pass` names by themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::config::Directive;
use crate::migrated::Migrated;
use crate::source::SourcePlace;
use crate::vcl::{self, GivenNames};

/// Timeouts of a backend, as VCL's attributes.
pub type Attributes = Vec<String>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Backend {
    name: String,
    host: String,
    port: String,
    is_tls: bool,
    attributes: Attributes,
}

/// All backends and directors so far, and how they are chosen.
#[derive(Default)]
pub struct MigratedBackends {
    backends: Vec<Backend>,
    init: Vec<String>,
    /// The expressions that choose what is known, by their keys.
    known: BTreeMap<String, String>,
    names: GivenNames,
}

/// Names that the program has for itself begin so.
const RESERVED: [&str; 3] = ["site", "nginx_", "addresses_"];

/// The upstream of a name; nginx compares names without regard to case.
pub fn named<'d>(upstreams: &[&'d Directive], name: &str) -> Option<&'d Directive> {
    let exact = upstreams.iter().find(|upstream| upstream.word(0) == name);
    exact.or_else(|| upstreams.iter().find(|upstream| upstream.word(0).eq_ignore_ascii_case(name))).copied()
}

fn key(scheme: &str, name: &str, attributes: &Attributes) -> String {
    format!("{scheme}://{name} {}", attributes.join(" "))
}

impl MigratedBackends {
    /// The expression for `scheme://name`, where `name` is that of the upstream, or an address. Locations with other timeouts have backends of their own.
    pub fn expression(
        &mut self,
        scheme: &str,
        name: &str,
        upstream: Option<&Directive>,
        attributes: &Attributes,
    ) -> String {
        let key = key(scheme, name, attributes);
        if let Some(expression) = self.known.get(&key) {
            return expression.clone();
        }
        let is_tls = scheme == "https";
        let expression = match upstream {
            Some(upstream) => self.director(upstream, is_tls, attributes),
            None => self.add(name, name, is_tls, attributes),
        };
        self.known.insert(key, expression.clone());
        expression
    }

    /// The expression for a name that only a request tells: `name` is its expression, and may come to a port, too.
    pub fn named_by_request(&mut self, scheme: &str, name: &str, attributes: &Attributes) -> String {
        let key = key(scheme, "$", attributes);
        let director = match self.known.get(&key) {
            Some(director) => director.clone(),
            None => {
                let director = self.names.fresh("dynamic_names", &[]);
                // nginx asks origins for no certificate that it checks.
                let of_tls = if scheme == "https" {
                    ", ssl = true, ssl_verify_peer = false, ssl_verify_host = false"
                } else {
                    ""
                };
                let port = if scheme == "https" { "443" } else { "80" };
                let own: String = attributes.iter().map(|own| format!(", {}", own.trim_matches(['.', ';']))).collect();
                self.init
                    .push(format!("new {director} = dynamic.director(port = \"{port}\", ttl = 60s{own}{of_tls});"));
                self.known.insert(key, director.clone());
                director
            }
        };
        let (host, port) =
            (format!("regsub({name}, \":\\d+$\", \"\")"), format!("regsub({name}, \"^.*?(:(\\d+))?$\", \"\\2\")"));
        format!("{director}.backend({host}, {port})")
    }

    /// The line that chooses an address without timeouts of its own, if one was asked for.
    pub fn chosen(&self, address: &str) -> Option<String> {
        let expression = self.known.get(&key("http", address, &Vec::new()))?;
        Some(format!("set req.backend_hint = {expression};"))
    }

    fn add(&mut self, name: &str, address: &str, is_tls: bool, attributes: &Attributes) -> String {
        let (host, port) = match address.strip_prefix("unix:") {
            Some(path) => (path.trim_end_matches(':'), ""),
            None => crate::split_address(address).unwrap_or((address, if is_tls { "443" } else { "80" })),
        };
        let name = self.names.fresh(name, &RESERVED);
        self.backends.push(Backend {
            name: name.clone(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.to_owned(),
            is_tls,
            attributes: attributes.clone(),
        });
        name
    }

    fn director(&mut self, upstream: &Directive, is_tls: bool, attributes: &Attributes) -> String {
        let name = self.names.fresh(upstream.word(0), &RESERVED);
        let servers: Vec<&Directive> = upstream.inside().iter().filter(|d| d.name == "server").collect();
        let has = |directive: &str| upstream.inside().iter().any(|d| d.name == directive);
        let option =
            |server: &Directive, key: &str| server.words.iter().find_map(|w| w.strip_prefix(key).map(str::to_owned));
        let members: Vec<(String, bool, String)> = servers
            .iter()
            .filter(|server| !server.words.iter().any(|w| w == "down"))
            .enumerate()
            .map(|(i, server)| {
                let mut attributes = attributes.clone();
                if let Some(most) = option(server, "max_conns=") {
                    attributes.push(format!(".max_connections = {most};"));
                }
                let member = self.add(&format!("{name}_{}", i + 1), server.word(0), is_tls, &attributes);
                let is_backup = server.words.iter().any(|w| w == "backup");
                (member, is_backup, option(server, "weight=").unwrap_or_else(|| "1".to_owned()))
            })
            .collect();
        if let [(only, _, _)] = &members[..] {
            return only.clone();
        }
        let (main, spare): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, is_backup, _)| !is_backup);
        let has_weights = main.iter().any(|(_, _, weight)| weight != "1");
        let is_hash = has("ip_hash") || has("hash");
        let director = match (is_hash, has_weights || has("random")) {
            (true, _) => "hash",
            (false, true) => "random",
            (false, false) => "round_robin",
        };
        self.init.push(format!("new {name} = directors.{director}();"));
        for (member, _, weight) in &main {
            self.init.push(match director {
                "round_robin" => format!("{name}.add_backend({member});"),
                _ => format!("{name}.add_backend({member}, {weight}.0);"),
            });
        }
        // By client, as ip_hash; a hash of the URL is nearest to nginx's other keys.
        let chosen = match (has("ip_hash"), is_hash) {
            (true, _) => format!("{name}.backend(client.ip + \"\")"),
            (false, true) => format!("{name}.backend(req.url)"),
            (false, false) => format!("{name}.backend()"),
        };
        if spare.is_empty() {
            return chosen;
        }
        let all = self.names.fresh(&format!("{name}_all"), &[]);
        self.init.push(format!("new {all} = directors.fallback();"));
        if is_hash {
            // A hash is chosen per request: with spare ones it is a fallback of its members alone.
            main.iter().for_each(|(member, _, _)| self.init.push(format!("{all}.add_backend({member});")));
        } else {
            self.init.push(format!("{all}.add_backend({name}.backend());"));
        }
        spare.iter().for_each(|(member, _, _)| self.init.push(format!("{all}.add_backend({member});")));
        format!("{all}.backend()")
    }

    pub fn modules(&self) -> Vec<&'static str> {
        let has = |module: &&str| self.init.iter().any(|line| line.contains(&format!(" = {module}.")));
        ["directors", "dynamic"].into_iter().filter(has).collect()
    }

    /// The declarations of those that the text or vcl_init names, and vcl_init.
    pub fn text(&self, used: &str) -> String {
        let mut out = String::new();
        let until = |text: &'_ str, ends: &[char]| text.split(ends).next().unwrap_or_default().to_owned();
        let hints = used.split("backend_hint = ").skip(1).map(|rest| until(rest, &[';']));
        let members = self.init.iter().filter_map(|line| line.split("add_backend(").nth(1));
        let used: BTreeSet<String> = hints.chain(members.map(|rest| until(rest, &[',', ')']))).collect();
        for backend in self.backends.iter().filter(|backend| used.contains(&backend.name)) {
            let Backend { name, host, port, is_tls, attributes } = backend;
            let host = vcl::string(host).unwrap_or_default();
            let mut lines = match port.is_empty() {
                true => vec![format!(".path = {host};")],
                false => vec![format!(".host = {host};"), format!(".port = \"{port}\";")],
            };
            if *is_tls {
                // nginx asks origins for no certificate that it checks.
                lines.extend([".ssl = 1;", ".ssl_verify_peer = 0;"].map(str::to_owned));
            }
            lines.extend(attributes.iter().cloned());
            out.push_str(&format!("\nbackend {name} {{\n{}}}\n", vcl::indented(&lines, 1)));
        }
        out + &vcl::sub("vcl_init", &self.init)
    }
}

/// Says what of upstreams acts differently.
pub fn tell(upstreams: &[&Directive], migrated: &mut Migrated) {
    for directive in upstreams.iter().flat_map(|upstream| upstream.inside()) {
        let place: &SourcePlace = &directive.place;
        match directive.name.as_str() {
            "least_conn" => {
                migrated.note(place, "least_conn", "backends take turns here; .max_connections bounds each of them")
            }
            "hash" => {
                migrated.note(place, "hash", "it is of the URL here; `directors.hash` takes any other text in vcl_recv")
            }
            "random" => migrated.note(place, "random", "it is of the weights, without a second choice"),
            "server"
                if directive.words.iter().any(|w| w.starts_with("max_fails=") || w.starts_with("fail_timeout=")) =>
            {
                migrated.note(
                    place,
                    "server",
                    "max_fails and fail_timeout have no counterpart: a backend without .probe is well; write one",
                );
            }
            _ => {}
        }
    }
}
