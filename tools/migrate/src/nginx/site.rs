// SPDX-License-Identifier: BSD-2-Clause
//! Which server and which location a request is for, as conditions in the order in which nginx decides.

use super::config::Directive;
use super::value::ExpressionSide;
use crate::vcl;

pub struct Site<'a> {
    pub server: &'a Directive,
    /// From 1 on, for names in VCL.
    pub number: usize,
    names: Vec<&'a str>,
    listens: Vec<Listen>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The address in the form of `-a`.
    pub address: String,
    /// The port, or the path of a Unix socket.
    pub port: String,
    pub is_tls: bool,
    pub is_proxy: bool,
    pub is_quic: bool,
    pub is_default: bool,
}

impl Listen {
    pub fn of(directive: &Directive, is_all_tls: bool) -> Listen {
        let word = directive.word(0);
        let has = |name: &str| directive.words.iter().any(|w| w == name);
        let (address, port) = match word.strip_prefix("unix:") {
            Some(path) => (path.to_owned(), path.to_owned()),
            None if !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit()) => {
                (format!(":{word}"), word.to_owned())
            }
            None => match word.rsplit_once(':').filter(|(host, _)| !host.starts_with('[') || host.ends_with(']')) {
                Some(("*", port)) => (format!(":{port}"), port.to_owned()),
                // nginx has one socket for each family, -a :80 has both.
                Some(("[::]", port)) => (format!(":{port}"), port.to_owned()),
                Some((host, port)) => (format!("{host}:{port}"), port.to_owned()),
                None => (format!("{word}:80"), "80".to_owned()),
            },
        };
        Listen {
            address,
            port,
            is_tls: has("ssl") || has("quic") || is_all_tls,
            is_proxy: has("proxy_protocol"),
            is_quic: has("quic"),
            is_default: has("default_server") || has("default"),
        }
    }
}

impl<'a> Site<'a> {
    pub fn new(server: &'a Directive, number: usize) -> Site<'a> {
        let inside = server.inside();
        let is_all_tls = inside.iter().any(|d| d.name == "ssl" && d.word(0) == "on");
        let names = inside.iter().filter(|d| d.name == "server_name").flat_map(|d| d.words.iter().map(String::as_str));
        let mut listens: Vec<Listen> =
            inside.iter().filter(|d| d.name == "listen").map(|d| Listen::of(d, is_all_tls)).collect();
        if listens.is_empty() {
            let port = if is_all_tls { "443" } else { "80" };
            listens.push(Listen {
                address: format!(":{port}"),
                port: port.to_owned(),
                is_tls: is_all_tls,
                is_proxy: false,
                is_quic: false,
                is_default: false,
            });
        }
        Site { server, number, names: names.collect(), listens }
    }

    pub fn listens(&self) -> &[Listen] {
        &self.listens
    }

    /// True if it takes what no other server has a name for.
    pub fn is_default(&self) -> bool {
        self.listens.iter().any(|listen| listen.is_default)
    }

    /// The first of its names that is one.
    pub fn name(&self) -> &'a str {
        self.names.iter().copied().find(|name| !name.is_empty() && *name != "_").unwrap_or("_")
    }

    /// The condition that tells the requests that are its own: those of a scheme alone if it doesn't serve both, those
    /// of its ports where `has_ports` says that servers differ by them; of its names, unless `is_rest`: then of any.
    pub fn condition(&self, side: ExpressionSide, has_ports: bool, is_rest: bool) -> String {
        let head = side.head();
        let mut all = Vec::new();
        match (self.listens.iter().all(|l| l.is_tls), self.listens.iter().any(|l| l.is_tls)) {
            (true, _) => all.push(format!("{head}.http.X-Forwarded-Proto == \"https\"")),
            (false, false) => all.push(format!("{head}.http.X-Forwarded-Proto != \"https\"")),
            (false, true) => {}
        }
        if has_ports {
            let ports: Vec<String> = self.listens.iter().map(|l| format!("std.port(local.ip) == {}", l.port)).collect();
            let text = ports.join(" || ");
            all.push(if ports.len() > 1 { format!("({text})") } else { text });
        }
        if !is_rest {
            all.extend(self.hosts(head));
        }
        all.join(" && ")
    }

    /// The condition of its names; None where it has none of its own.
    fn hosts(&self, head: &str) -> Option<String> {
        let mut plain = Vec::new();
        let mut regexes = Vec::new();
        for name in self.names.iter().filter(|name| !name.is_empty() && **name != "_") {
            match name {
                name if name.starts_with('~') => regexes.push(name[1..].to_owned()),
                name if name.starts_with('.') => plain.push(format!("(.+\\.)?{}", vcl::literal(&name[1..]))),
                name if name.starts_with("*.") => plain.push(format!(".+\\.{}", vcl::literal(&name[2..]))),
                name if name.ends_with(".*") => plain.push(format!("{}\\..+", vcl::literal(&name[..name.len() - 2]))),
                name => plain.push(vcl::literal(name)),
            }
        }
        let mut all = Vec::new();
        if !plain.is_empty() {
            all.push(format!("{head}.http.Host ~ \"(?i)^({})(:\\d+)?$\"", plain.join("|")));
        }
        all.extend(regexes.iter().map(|regex| format!("{head}.http.Host ~ \"(?i){regex}\"")));
        match all.len() {
            0 => None,
            1 => all.pop(),
            _ => Some(format!("({})", all.join(" || "))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// An exact path: `= /path`.
    Exact,
    /// `^~ /path`: regexes aren't asked.
    First,
    /// A regex: `~` and `~*`.
    Regex { ignores_case: bool },
    /// A prefix of the path: `/path`.
    Prefix,
    /// `@name`: no request comes here by itself.
    Named,
}

fn kind(location: &Directive) -> (Kind, &str) {
    match (location.word(0), location.words.len()) {
        ("=", 2..) => (Kind::Exact, location.word(1)),
        ("^~", 2..) => (Kind::First, location.word(1)),
        ("~", 2..) => (Kind::Regex { ignores_case: false }, location.word(1)),
        ("~*", 2..) => (Kind::Regex { ignores_case: true }, location.word(1)),
        (name, _) if name.starts_with('@') => (Kind::Named, name),
        (path, _) => (Kind::Prefix, path),
    }
}

/// The prefix that a location is for; None of a regex.
pub fn prefix(location: &Directive) -> Option<&str> {
    match kind(location) {
        (Kind::Exact | Kind::First | Kind::Prefix, path) => Some(path),
        (Kind::Regex { .. } | Kind::Named, _) => None,
    }
}

/// The locations of a server in the order in which nginx would take them, each with its condition; the last one, for all that is left, has an
/// empty condition. What no location is for is the server's own (None).
pub fn in_order(server: &Directive, side: ExpressionSide) -> Vec<(String, Option<&Directive>)> {
    let all: Vec<&Directive> = server.inside().iter().filter(|d| d.name == "location").collect();
    let path = side.path();
    let url = format!("{}.url", side.head());
    let longer = |than: &str| {
        let prefixes = all
            .iter()
            .map(|l| kind(l))
            .filter(|(k, p)| *k == Kind::Prefix && p.len() > than.len() && p.starts_with(than));
        prefixes.map(|(_, p)| vcl::literal(p)).collect::<Vec<_>>().join("|")
    };
    let mut out: Vec<(String, Option<&Directive>)> = Vec::new();
    for location in all.iter().filter(|l| kind(l).0 == Kind::Exact) {
        let wanted = vcl::string(kind(location).1).unwrap_or_default();
        out.push((format!("{path} == {wanted}"), Some(location)));
    }
    let by_length = |wanted: Kind| {
        let mut found: Vec<&&Directive> = all.iter().filter(|l| kind(l).0 == wanted).collect();
        found.sort_by_key(|l| std::cmp::Reverse(kind(l).1.len()));
        found
    };
    for location in by_length(Kind::First) {
        let wanted = kind(location).1;
        let begins = format!("{url} ~ \"^{}\"", vcl::literal(wanted));
        // A longer plain prefix would have been found instead, and then regexes are asked.
        let longer = longer(wanted);
        let condition = if longer.is_empty() { begins } else { format!("{begins} && {url} !~ \"^({longer})\"") };
        out.push((condition, Some(location)));
    }
    for location in &all {
        if let (Kind::Regex { ignores_case }, regex) = kind(location) {
            let flag = if ignores_case { "(?i)" } else { "" };
            let regex = vcl::string(&format!("{flag}{regex}")).unwrap_or_default();
            out.push((format!("{path} ~ {regex}"), Some(location)));
        }
    }
    for location in by_length(Kind::Prefix) {
        let wanted = kind(location).1;
        let condition = if wanted == "/" { String::new() } else { format!("{url} ~ \"^{}\"", vcl::literal(wanted)) };
        out.push((condition, Some(location)));
    }
    if out.last().is_none_or(|(condition, _)| !condition.is_empty()) {
        out.push((String::new(), None));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;
    use crate::source::Given;

    fn server(text: &'static str) -> Directive {
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
        config::read("f", &Given(files)).expect("nginx's language").remove(0)
    }

    #[test]
    fn the_order_of_locations() {
        let server = server(
            "server { location / {} location /a/b {} location ^~ /a {} location ~* \\.png$ {} location = /x {} location @n {} }",
        );
        let got: Vec<String> =
            in_order(&server, ExpressionSide::Client).into_iter().map(|(condition, _)| condition).collect();
        assert_eq!(
            got,
            [
                "regsub(req.url, \"\\?.*$\", \"\") == \"/x\"",
                "req.url ~ \"^/a\" && req.url !~ \"^(/a/b)\"",
                "regsub(req.url, \"\\?.*$\", \"\") ~ \"(?i)\\.png$\"",
                "req.url ~ \"^/a/b\"",
                "",
            ]
        );
    }

    #[test]
    fn names() {
        let server = server("server { listen 443 ssl; listen [::]:443 ssl; server_name .a.org *.b.org c.* ~^d\\d+$; }");
        let site = Site::new(&server, 1);
        assert_eq!(
            site.condition(ExpressionSide::Client, false, false),
            "req.http.X-Forwarded-Proto == \"https\" && (req.http.Host ~ \"(?i)^((.+\\.)?a\\.org|.+\\.b\\.org|c\\..+)(:\\d+)?$\" || req.http.Host ~ \"(?i)^d\\d+$\")"
        );
        assert_eq!(site.listens()[0].address, ":443");
    }

    #[test]
    fn sockets() {
        let of = |text| {
            let listen = Listen::of(&server(text), false);
            format!("{} {}", listen.address, listen.port)
        };
        assert_eq!(of("listen 8080;"), ":8080 8080");
        assert_eq!(of("listen 10.0.0.1;"), "10.0.0.1:80 80");
        assert_eq!(of("listen [::1]:81;"), "[::1]:81 81");
        assert_eq!(of("listen unix:/run/a.sock;"), "/run/a.sock /run/a.sock");
    }
}
