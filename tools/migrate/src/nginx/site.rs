// SPDX-License-Identifier: BSD-2-Clause
//! The server that a request is for: by socket, then by name, in nginx's order.

use super::config::Directive;
use super::value::replaced;
use crate::vcl;

/// A server: its names, whether it speaks TLS, and its ports.
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

/// The name that a client asks for in small letters, without its port and a dot at its end.
pub const HOST: &str = "std.tolower(regsub(req.http.Host, \"\\.?(:\\d*)?$\", \"\"))";

/// The lines that go to a site; they keep what its name's regex, if there is one, has captured.
pub type SiteCall<'c> = &'c dyn Fn(&Site<'_>, Option<&str>) -> Vec<String>;

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

    /// The addresses and ports that it listens on.
    pub fn listens(&self) -> &[Listen] {
        &self.listens
    }

    /// The first of its names that is one.
    pub fn name(&self) -> &'a str {
        self.names.iter().copied().find(|name| !name.is_empty() && *name != "_").unwrap_or("_")
    }

    /// The conditions of its names, by the order in which nginx asks them: exact names, `*.name` and `name.*` with the longest first, then
    /// regexes in the order of the file. Each has its rank, and its regex if it is one.
    fn conditions(&self) -> Vec<(NameRank, String, Option<&'a str>)> {
        let mut exact = Vec::new();
        let mut out = Vec::new();
        let host = |pattern: &str| format!("req.http.Host ~ \"(?i)^{pattern}\\.?(:\\d*)?$\"");
        for name in self.names.iter().filter(|name| **name != "_") {
            if name.is_empty() {
                out.push((NameRank::Exact, "!req.http.Host || req.http.Host == \"\"".to_owned(), None));
            } else if let Some(regex) = name.strip_prefix('~') {
                let quoted = vcl::string(&format!("(?i){regex}")).unwrap_or_default();
                out.push((NameRank::Regex, format!("{HOST} ~ {quoted}"), Some(regex)));
            } else if let Some(end) = name.strip_prefix("*.") {
                out.push((
                    NameRank::Before(std::cmp::Reverse(end.len())),
                    host(&format!(".+\\.{}", vcl::literal(end))),
                    None,
                ));
            } else if let Some(begin) = name.strip_suffix(".*") {
                out.push((
                    NameRank::After(std::cmp::Reverse(begin.len())),
                    host(&format!("{}\\..+", vcl::literal(begin))),
                    None,
                ));
            } else if let Some(end) = name.strip_prefix('.') {
                exact.push(vcl::literal(end));
                out.push((
                    NameRank::Before(std::cmp::Reverse(end.len())),
                    host(&format!(".+\\.{}", vcl::literal(end))),
                    None,
                ));
            } else {
                exact.push(vcl::literal(name));
            }
        }
        if !exact.is_empty() {
            let one_of = vcl::one_of("req.http.Host", false, ("(?i)^(", ")\\.?(:\\d*)?$"), &exact);
            out.insert(0, (NameRank::Exact, one_of.unwrap_or_else(|| "false".to_owned()), None));
        }
        out
    }
}

/// Writes a server's first name for `$server_name` into all its lines.
pub fn name_server(server: &mut Directive) {
    let all = server.inside().iter().filter(|d| d.name == "server_name");
    let name = all.flat_map(|d| d.words.first()).next().cloned().unwrap_or_default();
    write_name(server, &name);
}

fn write_name(directive: &mut Directive, name: &str) {
    let has_name = |word: &&mut String| word.contains("$server_name") || word.contains("${server_name");
    directive.words.iter_mut().filter(has_name).for_each(|word| *word = replaced(word, "server_name", name));
    directive.block.iter_mut().flatten().for_each(|inner| write_name(inner, name));
}

/// The order of names, whichever server has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameRank {
    Exact,
    /// `*.name`, by its length.
    Before(std::cmp::Reverse<usize>),
    /// `name.*`, by its length.
    After(std::cmp::Reverse<usize>),
    Regex,
}

/// The choice of a site: for each socket the names of its servers in nginx's order, then its default server. `call` gives the lines for one.
pub fn choice(sites: &[Site<'_>], call: SiteCall<'_>) -> Vec<String> {
    let mut sockets: Vec<(&str, bool)> = Vec::new();
    for listen in sites.iter().flat_map(|site| &site.listens) {
        let socket = (listen.address.as_str(), listen.is_tls);
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
    }
    // An address before the port alone.
    sockets.sort_by_key(|(address, _)| address.starts_with(':'));
    let of_kind = |is_tls: bool| sockets.iter().filter(|(_, tls)| *tls == is_tls).count();
    let both = of_kind(true) > 0 && of_kind(false) > 0;
    let mut branches: Vec<(String, Vec<String>)> = Vec::new();
    for (address, is_tls) in &sockets {
        let mut all = Vec::new();
        if both {
            all.push(format!("req.http.X-Forwarded-Proto {} \"https\"", if *is_tls { "==" } else { "!=" }));
        }
        // With one socket of its kind nothing else is asked, so that a trial on another port acts the same.
        if let Some((host, port)) = address.rsplit_once(':').filter(|_| of_kind(*is_tls) > 1) {
            all.push(format!("std.port(local.ip) == {port}"));
            // A name would have to be looked up: its port is enough.
            let host = if host == "localhost" { "127.0.0.1" } else { host.trim_matches(['[', ']']) };
            if host.parse::<std::net::IpAddr>().is_ok() {
                all.push(format!("local.ip == \"{host}\""));
            }
        }
        let own = |site: &&Site<'_>| site.listens.iter().any(|l| l.address == *address && l.is_tls == *is_tls);
        let lines = of_names(&sites.iter().filter(own).collect::<Vec<_>>(), address, call);
        branches.push((all.join(" && "), lines));
    }
    // Nothing comes in by another socket.
    if let Some((condition, _)) = branches.last_mut() {
        condition.clear();
    }
    vcl::chain(branches)
}

fn of_names(sites: &[&Site<'_>], address: &str, call: SiteCall<'_>) -> Vec<String> {
    let is_default = |site: &&&Site<'_>| site.listens.iter().any(|l| l.address == address && l.is_default);
    let default = sites.iter().find(is_default).or(sites.first());
    let mut named: Vec<(NameRank, String, Vec<String>)> = Vec::new();
    for site in sites {
        let own: Vec<_> = site
            .conditions()
            .into_iter()
            .map(|(rank, condition, regex)| (rank, condition, call(site, regex)))
            .collect();
        // A site that is alone is asked for its name only where a regex captures.
        if sites.len() > 1 || own.iter().any(|(_, _, lines)| *lines != call(site, None)) {
            named.extend(own);
        }
    }
    named.sort_by_key(|(rank, ..)| *rank);
    let mut branches: Vec<(String, Vec<String>)> =
        named.into_iter().map(|(_, condition, lines)| (condition, lines)).collect();
    branches.extend(default.map(|site| (String::new(), call(site, None))));
    vcl::chain(branches)
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

    /// The choice on one line.
    fn check(servers: &[&'static str], expect: &str) {
        let servers: Vec<Directive> = servers.iter().map(|text| server(text)).collect();
        let sites: Vec<Site<'_>> = servers.iter().enumerate().map(|(i, server)| Site::new(server, i + 1)).collect();
        let lines = choice(&sites, &|site, _| vec![format!("call {};", site.number)]);
        assert_eq!(lines.join(" ").replace('\t', ""), expect);
    }

    #[test]
    fn names() {
        check(
            &[
                "server { server_name *.org ~^d\\d+$; }",
                "server { server_name .a.org c.*; }",
                "server { listen 80 default; server_name *.b.a.org; }",
            ],
            "if (req.http.Host ~ \"(?i)^(a\\.org)\\.?(:\\d*)?$\") { call 2; } else if (req.http.Host ~ \"(?i)^.+\\.b\\.a\\.org\\.?(:\\d*)?$\") { call 3; } \
             else if (req.http.Host ~ \"(?i)^.+\\.a\\.org\\.?(:\\d*)?$\") { call 2; } else if (req.http.Host ~ \"(?i)^.+\\.org\\.?(:\\d*)?$\") { call 1; } \
             else if (req.http.Host ~ \"(?i)^c\\..+\\.?(:\\d*)?$\") { call 2; } else if (std.tolower(regsub(req.http.Host, \"\\.?(:\\d*)?$\", \"\")) ~ \"(?i)^d\\d+$\") { call 1; } else { call 3; }",
        );
    }

    #[test]
    fn one_server_takes_everything() {
        check(&["server { server_name a.org; }"], "call 1;");
    }

    #[test]
    fn ports_and_schemes() {
        check(
            &["server { listen 80; }", "server { listen 443 ssl; listen [::]:443 ssl; }"],
            "if (req.http.X-Forwarded-Proto != \"https\") { call 1; } else { call 2; }",
        );
        check(
            &["server { listen 80; }", "server { listen 81; }", "server { listen 10.0.0.1:80; }"],
            "if (std.port(local.ip) == 80 && local.ip == \"10.0.0.1\") { call 3; } else if (std.port(local.ip) == 80) { call 1; } else { call 2; }",
        );
    }

    #[test]
    fn the_name_of_a_server_is_a_text() {
        let mut server =
            server("server { server_name a.org b.org; location / { return 301 https://$server_name$uri; } }");
        name_server(&mut server);
        assert_eq!(server.inside()[1].inside()[0].word(1), "https://a.org${uri}");
    }

    #[test]
    fn addresses_that_are_names() {
        check(
            &["server { listen 80; }", "server { listen localhost:81; }", "server { listen a.org:82; }"],
            "if (std.port(local.ip) == 81 && local.ip == \"127.0.0.1\") { call 2; } else if (std.port(local.ip) == 82) { call 3; } else { call 1; }",
        );
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
