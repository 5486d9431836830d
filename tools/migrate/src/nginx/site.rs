// SPDX-License-Identifier: BSD-2-Clause
//! The server that a request is for: by socket, then by name, in nginx's order.

use std::collections::HashSet;

use super::config::Directive;
use super::value::replaced;
use super::words;
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
    /// The sockets of a `listen`: one for each port of a range.
    ///
    /// # Errors
    /// The address is none that can be listened on.
    pub fn of(directive: &Directive, is_all_tls: bool) -> Result<Vec<Listen>, String> {
        let word = directive.word(0);
        let has = |name: &str| directive.words.iter().any(|w| w == name);
        let one = |address: String, port: String| Listen {
            address,
            port,
            is_tls: has("ssl") || has("quic") || is_all_tls,
            is_proxy: has("proxy_protocol"),
            is_quic: has("quic"),
            is_default: has("default_server") || has("default"),
        };
        if let Some(path) = word.strip_prefix("unix:") {
            let socket = one(path.to_owned(), path.to_owned());
            return match (words::is_address(word), socket.is_tls) {
                (true, false) => Ok(vec![socket]),
                (true, true) => Err("TLS on a Unix socket isn't available; give it an address and a port".to_owned()),
                (false, _) => Err(format!("{word:?} is no path of a Unix socket")),
            };
        }
        let (host, range) = match word.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, range)) => (host, range),
            None if word.bytes().all(|c| c.is_ascii_digit() || c == b'-') => ("*", word),
            None => (word, "80"),
        };
        let host = match host {
            // nginx has one socket for each family, -a :80 has both.
            "*" | "[::]" | "0.0.0.0" => "",
            host if words::is_host(host) => host,
            host => return Err(format!("{host:?} is no address to listen on")),
        };
        Ok(ports(range)?.map(|port| one(format!("{host}:{port}"), port.to_string())).collect())
    }

    /// The condition of a connection that came in by this socket.
    fn condition(&self) -> String {
        if self.address == self.port {
            let path = vcl::string(&self.address).unwrap_or_default();
            return format!("local.endpoint == {path}");
        }
        let host = self.address.strip_suffix(&self.port).and_then(|host| host.strip_suffix(':')).unwrap_or_default();
        let port = format!("std.port(local.ip) == {}", self.port);
        // A name would have to be looked up: its port is enough.
        let host = if host == "localhost" { "127.0.0.1" } else { host.trim_matches(['[', ']']) };
        match host.parse::<std::net::IpAddr>() {
            Ok(ip) => format!("{port} && local.ip == \"{ip}\""),
            Err(_) => port,
        }
    }
}

const MOST_PORTS: u16 = 1000;

/// The ports of `PORT` or `PORT-PORT`.
fn ports(text: &str) -> Result<std::ops::RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first @ 1..), Ok(last)) if last.checked_sub(first).is_some_and(|more| more < MOST_PORTS) => {
            Ok(first..=last)
        }
        (Ok(1..), Ok(_)) => Err(format!("{text:?} is no range of up to {MOST_PORTS} ports")),
        _ => Err(format!("{text:?} is no port")),
    }
}

/// The name that a client asks for in small letters, without its port and a dot at its end.
pub const HOST: &str = "std.tolower(regsub(req.http.Host, \"\\.?(:\\d*)?$\", \"\"))";

/// The lines that go to a site; they keep what its name's regex, if there is one, has captured.
pub type SiteCall<'c> = &'c dyn Fn(&Site<'_>, Option<&str>) -> Vec<String>;

impl<'a> Site<'a> {
    /// # Errors
    /// A `listen` has no address; the text says where.
    pub fn new(server: &'a Directive, number: usize) -> Result<Site<'a>, String> {
        let inside = server.inside();
        let is_all_tls = inside.iter().any(|d| d.name == "ssl" && d.word(0) == "on");
        let names = inside.iter().filter(|d| d.name == "server_name").flat_map(|d| d.words.iter().map(String::as_str));
        let mut listens: Vec<Listen> = Vec::new();
        for directive in inside.iter().filter(|d| d.name == "listen") {
            let all = Listen::of(directive, is_all_tls);
            listens.extend(all.map_err(|reason| format!("{}: listen: {reason}", directive.place))?);
        }
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
        Ok(Site { server, number, names: names.collect(), listens })
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
///
/// # Errors
/// The text would grow by more than the `left` bytes.
pub fn name_server(server: &mut Directive, left: &mut usize) -> Result<(), String> {
    let all = server.inside().iter().filter(|d| d.name == "server_name");
    let name = all.flat_map(|d| d.words.first()).next().cloned().unwrap_or_default();
    write_name(server, &name, left)
}

/// Bytes by which `$server_name` may make a configuration longer.
pub const NAMED_BYTES: usize = 1 << 24;

fn write_name(directive: &mut Directive, name: &str, left: &mut usize) -> Result<(), String> {
    for word in &mut directive.words {
        let count = word.matches("$server_name").count() + word.matches("${server_name").count();
        if count > 0 {
            *left = left.checked_sub(count.saturating_mul(name.len())).ok_or_else(|| {
                let place = &directive.place;
                format!(
                    "{place}: {}: $server_name makes the configuration longer by {NAMED_BYTES} bytes",
                    directive.name
                )
            })?;
            *word = replaced(word, "server_name", name);
        }
    }
    directive.block.iter_mut().flatten().try_for_each(|inner| write_name(inner, name, left))
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
    let mut sockets: Vec<&Listen> = Vec::new();
    let mut known: HashSet<(&str, bool)> = HashSet::new();
    for listen in sites.iter().flat_map(|site| &site.listens) {
        if known.insert((&listen.address, listen.is_tls)) {
            sockets.push(listen);
        }
    }
    // An address before the port alone.
    sockets.sort_by_key(|listen| listen.address.starts_with(':'));
    let of_kind = |is_tls: bool| sockets.iter().filter(|listen| listen.is_tls == is_tls).count();
    let both = of_kind(true) > 0 && of_kind(false) > 0;
    let mut branches: Vec<(String, Vec<String>)> = Vec::new();
    for socket in &sockets {
        let mut all = Vec::new();
        if both {
            all.push(format!("req.http.X-Forwarded-Proto {} \"https\"", if socket.is_tls { "==" } else { "!=" }));
        }
        // With one socket of its kind nothing else is asked, so that a trial on another port acts the same.
        if of_kind(socket.is_tls) > 1 {
            all.push(socket.condition());
        }
        let own =
            |site: &&Site<'_>| site.listens.iter().any(|l| l.address == socket.address && l.is_tls == socket.is_tls);
        let lines = of_names(&sites.iter().filter(own).collect::<Vec<_>>(), &socket.address, call);
        branches.push((all.join(" && "), lines));
    }
    // Nothing comes in by another socket.
    if let Some((condition, _)) = branches.last_mut() {
        condition.clear();
    }
    vcl::chain(branches)
}

/// The default server of an address, of those that listen on it: the first one without a mark.
fn default_of<'s, 'a>(sites: &[&'s Site<'a>], address: &str) -> Option<&'s Site<'a>> {
    let is_default = |site: &&&Site<'_>| site.listens.iter().any(|l| l.address == address && l.is_default);
    sites.iter().find(is_default).or(sites.first()).copied()
}

/// The default servers of all addresses on which one of these listens.
pub fn defaults<'s, 'a>(of: &[Listen], sites: &'s [Site<'a>]) -> Vec<&'s Site<'a>> {
    let on = |listen: &Listen| {
        let all = sites.iter().filter(|site| site.listens.iter().any(|l| l.address == listen.address));
        default_of(&all.collect::<Vec<_>>(), &listen.address)
    };
    of.iter().filter_map(on).collect()
}

fn of_names(sites: &[&Site<'_>], address: &str, call: SiteCall<'_>) -> Vec<String> {
    let default = default_of(sites, address);
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

    fn check(servers: &[&'static str], expect: &str) {
        let servers: Vec<Directive> = servers.iter().map(|text| server(text)).collect();
        let sites: Vec<Site<'_>> =
            servers.iter().enumerate().map(|(i, server)| Site::new(server, i + 1).expect("addresses")).collect();
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
        name_server(&mut server, &mut 5).expect("one name");
        assert_eq!(server.inside()[1].inside()[0].word(1), "https://a.org${uri}");
    }

    #[test]
    fn the_name_of_a_server_makes_no_large_text() {
        let text = "server { server_name a.org; return 301 $server_name/${server_name}; }";
        assert_eq!(name_server(&mut server(text), &mut 10), Ok(()));
        let error = name_server(&mut server(text), &mut 9).expect_err("it is longer");
        assert!(error.starts_with("f:1: return: $server_name makes"), "{error}");
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
        let of = |text| match Listen::of(&server(text), false) {
            Ok(all) => all.iter().map(|l| format!("{} {}", l.address, l.port)).collect::<Vec<_>>().join(", "),
            Err(reason) => reason,
        };
        for (text, expect) in [
            ("listen 8080;", ":8080 8080"),
            ("listen 10.0.0.1;", "10.0.0.1:80 80"),
            ("listen [::1]:81;", "[::1]:81 81"),
            ("listen [::1];", "[::1]:80 80"),
            ("listen [::];", ":80 80"),
            ("listen *;", ":80 80"),
            ("listen 0.0.0.0:81;", ":81 81"),
            ("listen unix:/run/a.sock;", "/run/a.sock /run/a.sock"),
            ("listen 8001-8003;", ":8001 8001, :8002 8002, :8003 8003"),
            ("listen 127.0.0.1:8001-8002;", "127.0.0.1:8001 8001, 127.0.0.1:8002 8002"),
            ("listen 8002-8001;", "\"8002-8001\" is no range of up to 1000 ports"),
            ("listen 1-65535;", "\"1-65535\" is no range of up to 1000 ports"),
            ("listen a:b;", "\"b\" is no port"),
            ("listen 0;", "\"0\" is no port"),
            ("listen 99999;", "\"99999\" is no port"),
            ("listen 'a\"b:80';", "\"a\\\"b\" is no address to listen on"),
            ("listen unix:a;", "\"unix:a\" is no path of a Unix socket"),
            ("listen unix:/a ssl;", "TLS on a Unix socket isn't available; give it an address and a port"),
        ] {
            assert_eq!(of(text), expect, "{text}");
        }
    }

    #[test]
    fn a_unix_socket_takes_its_own_requests() {
        check(
            &["server { listen 80; }", "server { listen unix:/run/a.sock; }", "server { listen 10.0.0.1:80; }"],
            "if (local.endpoint == \"/run/a.sock\") { call 2; } else if (std.port(local.ip) == 80 && local.ip == \"10.0.0.1\") { call 3; } else { call 1; }",
        );
        check(
            &["server { listen unix:/run/a:1; }", "server { listen unix:/run/b; }"],
            "if (local.endpoint == \"/run/a:1\") { call 1; } else { call 2; }",
        );
    }

    #[test]
    fn a_range_of_ports_is_that_many_sockets() {
        check(
            &["server { listen 127.0.0.1:8001-8002; }", "server { listen 80; }"],
            "if (std.port(local.ip) == 8001 && local.ip == \"127.0.0.1\") { call 1; } else if (std.port(local.ip) == 8002 && local.ip == \"127.0.0.1\") { call 1; } else { call 2; }",
        );
    }
}
