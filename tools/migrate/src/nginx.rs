// SPDX-License-Identifier: BSD-2-Clause
//! nginx: servers, locations and upstreams as VCL. Requests are told apart in the order in which nginx does it; what nginx serves itself (files,
//! FastCGI) it goes on serving, as a backend.

mod config;
mod known;
mod location;
mod scope;
mod site;
mod upstream;
mod value;

use config::Directive;
use known::Fate;
use location::Around;
use scope::{LocationScope, time};
use site::Site;
use upstream::MigratedBackends;
use value::ExpressionSide;

use crate::migrated::Migrated;
use crate::source::FileSource;
use crate::vcl;

/// Translates a configuration; `origin` is where nginx is to listen from now on.
///
/// # Errors
/// It can't be read, or has no `http` block.
pub fn migrate(file: &str, origin: (&str, &str), files: &dyn FileSource) -> Result<Migrated, String> {
    let all = config::read(file, files)?;
    let mut migrated = Migrated::default();
    tell(&all, &mut migrated);
    let http: Vec<Directive> = all.iter().filter(|d| d.name == "http").flat_map(|d| d.inside().to_vec()).collect();
    // A file of conf.d alone has what stands within http.
    let http = if http.is_empty() { all } else { http };
    if !http.iter().any(|d| d.name == "server") {
        return Err(format!("{file}: there is no server in it"));
    }
    Whole::new(&http, origin).translate(&mut migrated);
    Ok(migrated)
}

/// Says of each directive what becomes of it, as far as that isn't said where it is translated.
fn tell(all: &[Directive], migrated: &mut Migrated) {
    for directive in all {
        let name = directive.name.as_str();
        match known::fate(name) {
            Some(Fate::Done | Fate::Nginx) => {}
            Some(Fate::Told(text)) => migrated.note(&directive.place, name, text),
            Some(Fate::Refused(text)) => migrated.refuse(&directive.place, name, text),
            None => migrated.refuse(&directive.place, name, "nothing is known of it here"),
        }
        // Lists of words in braces, and what was refused as a whole.
        if !matches!(name, "types" | "map" | "geo" | "split_clients" | "events" | "stream" | "mail") {
            tell(directive.inside(), migrated);
        }
    }
}

struct Whole<'a> {
    http: &'a [Directive],
    around: Around<'a>,
    sites: Vec<Site<'a>>,
    has_ports: bool,
}

type Lines = Vec<String>;

impl<'a> Whole<'a> {
    fn new(http: &'a [Directive], (host, port): (&str, &str)) -> Whole<'a> {
        let servers = http.iter().filter(|d| d.name == "server");
        let sites: Vec<Site<'a>> = servers.enumerate().map(|(i, server)| Site::new(server, i + 1)).collect();
        let ports = |is_tls: bool| {
            let all = sites.iter().flat_map(|site| site.listens()).filter(|l| l.is_tls == is_tls);
            let mut ports: Vec<&str> = all.map(|l| l.port.as_str()).collect();
            ports.sort_unstable();
            ports.dedup();
            ports.len()
        };
        let has_ports = ports(false) > 1 || ports(true) > 1;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let around = Around {
            upstreams: http.iter().filter(|d| d.name == "upstream").collect(),
            origin: format!("{host}:{port}"),
            inactive: paths(http)
                .map(|(zone, path)| (zone, option(path, "inactive=").and_then(time).unwrap_or(600.0)))
                .collect(),
        };
        Whole { http, around, sites, has_ports }
    }

    fn translate(&self, migrated: &mut Migrated) {
        let mut backends = MigratedBackends::default();
        upstream::tell(&self.around.upstreams, migrated);
        self.origin_notes(migrated);
        let mut subs = String::new();
        let side_of =
            |phase: &str| if phase.starts_with("backend") { ExpressionSide::Backend } else { ExpressionSide::Client };
        for phase in ["recv", "hash", "backend_fetch", "backend_response", "deliver"] {
            let side = side_of(phase);
            let calls: Vec<Lines> = self
                .sites
                .iter()
                .map(|site| {
                    let lines = self.locations(site, phase, side, &mut backends, migrated);
                    let name = format!("site_{}_{phase}", site.number);
                    if lines.is_empty() {
                        return Vec::new();
                    }
                    subs.push_str(&format!("\n# {}, {}", site.name(), site.server.place));
                    subs.push_str(&vcl::sub(&name, &lines));
                    vec![format!("call {name};")]
                })
                .collect();
            let branches =
                self.branches(side).into_iter().map(|(condition, i)| (condition, calls[i].clone())).collect();
            let calls = vcl::chain(branches);
            let calls = if phase == "recv" && !calls.is_empty() { recv_around(calls) } else { calls };
            subs.push_str(&vcl::sub(&format!("vcl_{phase}"), &calls));
        }
        let has_redirects = subs.contains("return (synth(");
        let mut text = "vcl 4.1;\n\nimport std;\n".to_owned();
        if backends.has_directors() {
            text.push_str("import directors;\n");
        }
        text.push_str(&backends.text());
        text.push_str(&subs);
        if subs.contains("return (pipe)") {
            text.push_str("\nsub vcl_pipe {\n\tset bereq.http.Connection = req.http.Connection;\n\tset bereq.http.Upgrade = req.http.Upgrade;\n}\n");
        }
        if has_redirects {
            text.push_str(SYNTH);
        }
        migrated.vcl = text;
        self.arguments(migrated);
    }

    /// The conditions that tell which site a request is for: by its names; then, where no site has the name, the
    /// default one of its kind, or the first. The last one is for whatever is left.
    fn branches(&self, side: ExpressionSide) -> Vec<(String, usize)> {
        let mut out: Vec<(String, usize)> = Vec::new();
        let is_named = |site: &Site<'_>| site.name() != "_";
        for (i, site) in self.sites.iter().enumerate().filter(|(_, site)| is_named(site) && self.sites.len() > 1) {
            out.push((site.condition(side, self.has_ports, false), i));
        }
        let mut rest: Vec<(usize, &Site<'_>)> = self.sites.iter().enumerate().collect();
        rest.sort_by_key(|(_, site)| !site.is_default());
        for (i, site) in rest {
            let condition = site.condition(side, self.has_ports, true);
            if out.iter().any(|(known, _)| *known == condition) {
                continue;
            }
            let is_all = condition.is_empty();
            out.push((condition, i));
            if is_all {
                break;
            }
        }
        // With one scheme and one port there is nothing that the last condition could exclude.
        if let Some((condition, _)) = out.last_mut() {
            condition.clear();
        }
        out
    }

    /// The lines of all locations of a site in one subroutine.
    fn locations(
        &self,
        site: &Site<'a>,
        phase: &str,
        side: ExpressionSide,
        backends: &mut MigratedBackends,
        migrated: &mut Migrated,
    ) -> Lines {
        let server = site.server.inside();
        let whole = LocationScope { inner: server, server, http: self.http };
        // A server that answers by itself has no locations that count.
        let answers = server.iter().any(|d| d.name == "return");
        let mut before = Vec::new();
        let mut branches = Vec::new();
        for (condition, location) in site::in_order(site.server, side) {
            let scope = LocationScope { inner: location.map_or(server, Directive::inside), ..whole };
            let lines = match phase {
                "recv" if answers => Vec::new(),
                "recv" => location::recv(&scope, &self.around, backends, migrated),
                "hash" => location::hash(&scope, migrated),
                "backend_fetch" => location::fetch(location, &scope, migrated),
                "backend_response" => location::response(&scope, &self.around, migrated),
                _ => location::deliver(&scope, migrated),
            };
            branches.push((condition, lines));
        }
        if phase == "recv" && (answers || server.iter().any(|d| d.name == "if")) {
            before = location::recv_of_server(&whole, migrated);
        }
        before.extend(vcl::chain(branches));
        before
    }

    /// Says once which locations nginx serves itself.
    fn origin_notes(&self, migrated: &mut Migrated) {
        for site in &self.sites {
            for directive in site.server.inside().iter().filter(|d| d.name == "location").chain([site.server]) {
                let own = ["root", "alias", "try_files", "fastcgi_pass", "uwsgi_pass", "scgi_pass"];
                if let Some(found) = directive.inside().iter().find(|d| own.contains(&d.name.as_str())) {
                    let text =
                        format!("nginx goes on serving this: let this server listen on {} alone", self.around.origin);
                    migrated.note(&found.place, &found.name, text);
                    break;
                }
            }
        }
    }

    /// Sets the addresses, the stores and the certificates.
    fn arguments(&self, migrated: &mut Migrated) {
        let mut has_tls = false;
        for listen in self.sites.iter().flat_map(|site| site.listens()) {
            has_tls |= listen.is_tls;
            let protocol = match (listen.is_quic, listen.is_tls, listen.is_proxy) {
                (true, _, _) => ",quic",
                // Those of tls.conf.
                (false, true, _) => continue,
                (false, false, true) => ",PROXY",
                (false, false, false) => "",
            };
            push(&mut migrated.arguments, "-a", &format!("{}{protocol}", listen.address));
        }
        for (zone, path) in paths(self.http) {
            // nginx's index is apart (keys_zone), its files are a directory: here it is one file, and memory in front of it.
            let size = option(path, "max_size=").map_or_else(|| "10g".to_owned(), str::to_owned);
            push(&mut migrated.arguments, "-s", &format!("{zone}=file,/var/lib/varnish/{zone}.store,{size}"));
            if option(path, "max_size=").is_none() {
                migrated.note(&path.place, &path.name, "it has no max_size: 10g is a guess");
            }
            migrated.note(
                &path.place,
                &path.name,
                "a store is one file with memory in front; what nginx has kept is fetched anew",
            );
        }
        if has_tls {
            push(&mut migrated.arguments, "-p", "x_forwarded_proto=on");
            self.certificates(migrated);
        } else if migrated.vcl.contains("X-Forwarded-Proto") {
            push(&mut migrated.arguments, "-p", "x_forwarded_proto=on");
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
            let scope = LocationScope { inner: site.server.inside(), server: site.server.inside(), http: self.http };
            let (Some(cert), Some(key)) = (scope.one("ssl_certificate"), scope.one("ssl_certificate_key")) else {
                continue;
            };
            let line = format!("pem-file = {{ cert = \"{}\" private-key = \"{}\" }}", cert.word(0), key.word(0));
            migrated.tls.retain(|known| *known != line);
            migrated.tls.push(line);
        }
    }
}

/// `proxy_cache_path` and its kin, by zone.
fn paths(http: &[Directive]) -> impl Iterator<Item = (String, &Directive)> {
    let all = http.iter().filter(|d| d.name.ends_with("_cache_path"));
    all.filter_map(|path| {
        let zone = option(path, "keys_zone=")?;
        Some((vcl::name(zone.split(':').next().unwrap_or(zone)), path))
    })
}

fn option<'d>(directive: &'d Directive, key: &str) -> Option<&'d str> {
    directive.words.iter().find_map(|word| word.strip_prefix(key))
}

fn push(arguments: &mut Vec<String>, letter: &str, value: &str) {
    let is_there = arguments.windows(2).any(|pair| pair[0] == letter && pair[1] == value);
    if !is_there {
        arguments.extend([letter.to_owned(), value.to_owned()]);
    }
}

/// The choice of the site, with what there is to know of it.
fn recv_around(calls: Lines) -> Lines {
    let mut lines = vec!["# By site, in nginx's order; each of them ends with a return.".to_owned()];
    lines.extend(calls);
    lines
}

/// The VCL that `return 301 URL` and `return 200 TEXT` come to.
const SYNTH: &str = r#"
sub vcl_synth {
	if (resp.status == 301 || resp.status == 302 || resp.status == 303 || resp.status == 307 || resp.status == 308) {
		set resp.http.Location = resp.reason;
		set resp.reason = "Moved";
		synthetic("");
		return (deliver);
	}
	if (resp.status == 200) {
		set resp.body = resp.reason;
		set resp.reason = "OK";
		return (deliver);
	}
}
"#;

#[cfg(test)]
mod tests;
