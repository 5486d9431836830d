// SPDX-License-Identifier: BSD-2-Clause
//! nginx: servers, locations and upstreams as VCL. vcl_recv decides once, in nginx's order, which location a request is for; the other subroutines
//! go by that. What nginx serves itself (files, FastCGI) it goes on serving, as a backend, and so it does with locations that can't be translated.

mod address;
mod admit;
mod asked;
mod cached;
mod capture;
mod claims;
mod config;
mod kept;
mod known;
mod leaf;
mod lines;
mod location;
mod origin;
mod pages;
mod redirect;
mod regexes;
mod response;
mod scope;
mod script;
mod site;
mod table;
mod upstream;
mod value;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};

use address::AddressNames;
use config::{Claim, Directive};
use known::Fate;
use leaf::{Around, LocationWork, ServerTree};
use lines::LocationLines;
use location::{LocationKind, NginxLocation};
use origin::OwnOrigins;
use scope::{LocationScope, time};
use script::ScriptPlace;
use site::Site;
use upstream::MigratedBackends;
use value::VariableNames;

use crate::migrated::Migrated;
use crate::source::FileSource;
use crate::vcl::{self, GivenNames};

/// Translates a configuration; `origin` is where nginx is to listen from now on.
///
/// # Errors
/// The file can't be read, or has no server.
pub fn migrate(file: &str, origin: (&str, &str), files: &dyn FileSource) -> Result<Migrated, String> {
    let all = config::read(file, files)?;
    regexes::check(&all)?;
    words::check(&all)?;
    let mut migrated = Migrated::default();
    let (blocks, beside): (Vec<Directive>, Vec<Directive>) = all.into_iter().partition(|d| d.name == "http");
    // A file of conf.d alone has what stands within http.
    let (mut http, outer): (Vec<Directive>, _) = match blocks.is_empty() {
        true => (beside, Vec::new()),
        false => (blocks.iter().flat_map(|d| d.inside().to_vec()).collect(), beside),
    };
    tell(outer.iter(), &mut migrated);
    words::tell_host_bits(&http, &mut migrated);
    let mut left = site::NAMED_BYTES;
    http.iter_mut().filter(|d| d.name == "server").try_for_each(|server| site::name_server(server, &mut left))?;
    if !http.iter().any(|d| d.name == "server") {
        return Err(format!("{file}: there is no server in it"));
    }
    // Blocks that no location inherits come last: there may be thousands of them.
    http.sort_by_key(|d| BLOCKS.contains(&d.name.as_str()));
    let whole = Whole::new(&http)?;
    whole.translate(OwnOrigins::new(origin, &whole.sites)?, &mut migrated);
    blocks.iter().for_each(|block| migrated.translated(&block.place, &block.name));
    outer.iter().chain(&http).for_each(|directive| claims::account(directive, &mut migrated));
    Ok(migrated)
}

const BLOCKS: [&str; 5] = ["server", "upstream", "map", "geo", "split_clients"];

/// Says what becomes of directives that belong to no location: those of the process and of upstreams.
fn tell<'d>(all: impl Iterator<Item = &'d Directive>, migrated: &mut Migrated) {
    for directive in all {
        let name = directive.name.as_str();
        match known::fate(name) {
            Some(Fate::Done | Fate::Apart | Fate::Holds(_) | Fate::Nginx) => {}
            Some(Fate::Told(text)) => migrated.note(&directive.place, name, text),
            Some(Fate::Refused(text)) => migrated.refuse(&directive.place, name, text),
            None => migrated.refuse(&directive.place, name, "nothing is known of it here"),
        }
    }
}

struct Whole<'a> {
    http: &'a [Directive],
    /// Directives of `http` that hold in its servers.
    outer: LocationScope<'a>,
    /// True if nginx doesn't join slashes, on any of the addresses.
    keeps_slashes: bool,
    has_keeping: bool,
    around: Around<'a>,
    sites: Vec<Site<'a>>,
}

impl<'a> Whole<'a> {
    fn new(http: &'a [Directive]) -> Result<Whole<'a>, String> {
        let servers = http.iter().filter(|d| d.name == "server");
        let sites: Result<Vec<Site<'a>>, String> =
            servers.enumerate().map(|(i, server)| Site::new(server, i + 1)).collect();
        let sites = sites?;
        let mut names = VariableNames {
            has_tls: sites.iter().flat_map(Site::listens).any(|l| l.is_tls),
            ..VariableNames::default()
        };
        table::names(http, &mut names);
        table::drop_unknown(http, &mut names);
        let around = Around {
            upstreams: http.iter().filter(|d| d.name == "upstream").collect(),
            inactive: paths(http)
                .map(|(zone, path)| (zone, option(path, "inactive=").and_then(time).unwrap_or(600.0)))
                .collect(),
            names,
            by_address: AddressNames::new(http),
        };
        let end = http.iter().position(|d| BLOCKS.contains(&d.name.as_str())).unwrap_or(http.len());
        let outer = LocationScope::outer(&http[..end]);
        let is_kept = |site: &Site<'a>| keeps_slashes(&outer.within(site.server.inside())).is_some();
        // The path is read before the server's name is known.
        let has_keeping = sites.iter().any(is_kept);
        let keeps_slashes =
            has_keeping && sites.iter().all(|site| site::defaults(site.listens(), &sites).into_iter().all(is_kept));
        Ok(Whole { http, outer, keeps_slashes, has_keeping, around, sites })
    }

    fn translate(&self, mut origins: OwnOrigins, migrated: &mut Migrated) {
        let (mut backends, mut acls, mut lines) = (MigratedBackends::default(), Vec::new(), LocationLines::default());
        upstream::tell(&self.around.upstreams, migrated);
        let mut subs = String::new();
        let choice = site::choice(&self.sites, &|site, regex| {
            let captured = regex.map(|regex| capture::lines(site::HOST, regex, true, &self.around.names));
            [captured.unwrap_or_default(), vec![format!("call site{};", site.number)]].concat()
        });
        let chosen: HashSet<&str> = choice.iter().map(|line| line.trim()).collect();
        for site in &self.sites {
            if !chosen.contains(format!("call site{};", site.number).as_str()) {
                let text = "no request comes here: another server has its address and names";
                migrated.note(&site.server.place, "server", text);
                claims::claim_all(site.server, Claim::Unreached);
                continue;
            }
            let server = NginxLocation::of_server(
                site.server,
                &self.outer,
                &format!("site{}_", site.number),
                &self.around.names,
            );
            let first = lines.recv.len();
            let mut work = LocationWork {
                around: &self.around,
                site,
                origins: &mut origins,
                has_upgrades: server.all().iter().any(|l| l.scope.directives().any(asked::is_upgrade)),
                backends: &mut backends,
                acls: &mut acls,
                lines: &mut lines,
                migrated: &mut *migrated,
                left: Claim::Nobody,
            };
            let text = self.site(site, &server, &mut work);
            subs.push_str(&text);
            origins.tell(site, &server, (&self.around, &backends), &lines.recv[first..], migrated);
        }
        let tables = table::subs(self.http, &self.around.names, &mut acls);
        let mut text = "vcl 4.1;\n\nimport std;\nimport blob;\nimport cookie;\n".to_owned();
        if backends.has_directors() {
            text.push_str("import directors;\n");
        }
        let head = std::mem::take(&mut text);
        for (i, entry) in acls.iter().enumerate() {
            text.push_str(&format!("\nacl addresses_{} {{\n\t{entry};\n}}\n", i + 1));
        }
        text.push_str(&vcl::decoded_path("nginx_path", "req.http.Nginx-Path", !self.keeps_slashes));
        text.push_str(&tables.iter().map(|(_, sub)| sub.as_str()).collect::<String>());
        claims::settle_outer(self.http);
        lines.drop_uncalled(&subs);
        // Tables that depend on the URL are asked anew for the one that a rewriting makes.
        let moving = tables
            .iter()
            .filter(|(sub, _)| self.around.names.moving.iter().any(|name| sub.ends_with(&format!("_{name}"))));
        let again: Vec<String> = moving.map(|(sub, _)| format!("call {sub};")).collect();
        lines.rewriting.iter_mut().for_each(|(_, lines)| lines.extend(again.iter().cloned()));
        for (name, lines) in lines.lifetimes.iter().chain(&lines.rewriting) {
            text.push_str(&vcl::sub(name, lines));
        }
        for (name, comment, lines) in &lines.recv {
            text.push_str(&format!("\n# {}", one_line(comment)));
            text.push_str(&vcl::sub(name, lines));
        }
        text.push_str(&subs);
        text.push_str(&self.program(&lines, &tables, choice, &origins.ports()));
        // A location that was refused later may have had a backend of its own.
        let declared = backends.text(&text);
        let none = if declared.contains("\nbackend ") { "" } else { "\nbackend default none;\n" };
        migrated.vcl = format!("{head}{declared}{none}{text}");
        self.arguments(migrated);
    }

    /// The subroutine of a server: its script, then the choice of its location.
    fn site<'w>(&self, site: &Site<'a>, server: &'w NginxLocation<'a>, work: &mut LocationWork<'w, 'a>) -> String {
        let all = server.all();
        let script = script::script(server.scope.inner(), &server.label, ScriptPlace::Server, &self.around.names);
        let has_cache = all.iter().any(|l| cached::is_cached(&l.scope) && location::handler(l.scope.inner()).is_some());
        let first = work.lines.recv.len();
        let mut lines = vec![format!("set req.http.Nginx-Location = \"{}\";", server.label)];
        let is_asked = |l: &&&NginxLocation<'a>| {
            location::handler(l.scope.inner()).is_some_and(|(kind, _)| kind == "proxy") || cached::is_cached(&l.scope)
        };
        let mut is_kept = false;
        let mut answers = None;
        match script {
            Ok(mut script) if script.variants.is_empty() => {
                let is_everything = server.inside.iter().any(NginxLocation::is_everything);
                // The server's own block, if requests come there, adds its answers itself.
                if !script.is_final && is_everything && script.lines.iter().any(|line| line.contains("(synth(")) {
                    work.add_answers(server, &script);
                }
                lines.extend(self.once(std::mem::take(&mut script.lines)));
                answers = script.is_final.then_some(script);
                claims::claim_script(server.scope.inner());
            }
            Ok(script) => {
                let (_, directive) = &script.variants[0];
                is_kept = true;
                let text = "other directives in an `if` of the server: the whole server stays with nginx, uncached";
                work.migrated.refuse(&directive.place, &directive.name, text);
            }
            Err(untold) => {
                is_kept = true;
                if all.iter().any(|l| is_asked(&l)) {
                    let text = format!("{}; the whole server stays with nginx, and isn't cached here", untold.reason);
                    work.migrated.refuse(&untold.place, &untold.directive, text);
                }
            }
        }
        let defaults = if self.has_keeping && !self.keeps_slashes {
            site::defaults(site.listens(), &self.sites)
        } else {
            Vec::new()
        };
        let keeping = defaults.into_iter().find_map(|site| keeps_slashes(&self.outer.within(site.server.inside())));
        if let Some(directive) = keeping {
            is_kept = true;
            let text = "on other addresses slashes are joined: all servers of this one stay with nginx, uncached";
            work.migrated.refuse(&directive.place, &directive.name, text);
        }
        let tree = ServerTree { server, has_cache, accelerated: accelerated(server), is_kept };
        let mut subs = String::new();
        let is_reached = |kind: LocationKind| match kind {
            LocationKind::Named => self.around.names.has_pages,
            // No request is for the server's own block where `location /` takes what is left.
            LocationKind::Server => !server.inside.iter().any(NginxLocation::is_everything) && answers.is_none(),
            LocationKind::Exact | LocationKind::Prefix { .. } | LocationKind::Regex { .. } => answers.is_none(),
        };
        all.iter().filter(|l| is_reached(l.kind)).for_each(|location| work.add(&tree, location));
        let left = |l: &&&NginxLocation<'a>| l.kind != LocationKind::Server && !is_reached(l.kind) || answers.is_some();
        let claim = if answers.is_some() { Claim::Unreached } else { Claim::Kept };
        all.iter().filter(left).for_each(|l| claims::claim_all(l.directive, claim));
        claims::claim_server(site.server);
        match answers {
            Some(script) => {
                work.add_answers(server, &script);
                claims::settle(&server.scope, Claim::Claimed);
            }
            None => lines.extend(server.decision(&mut subs)),
        }
        // The server's script isn't run again for those.
        lines.splice(1..1, named(&all, work.lines));
        work.add_rewriting(&server.label, first, &lines);
        let name = format!("site{}", site.number);
        let comment = one_line(&format!("{}, {}", site.name(), site.server.place));
        format!("{subs}\n# {comment}{}", vcl::sub(&name, &lines))
    }

    /// A server's script, which isn't run again where a location is chosen anew.
    fn once(&self, lines: Vec<String>) -> Vec<String> {
        if lines.is_empty() || !self.around.names.has_moves {
            return lines;
        }
        vcl::chain(vec![(format!("!req.http.{}", script::MOVED), lines)])
    }

    /// VCL's own subroutines: they call those of the sites, and keep the lines of each location apart.
    fn program(
        &self,
        lines: &LocationLines,
        tables: &[(String, String)],
        choice: Vec<String>,
        ports: &[String],
    ) -> String {
        let mut text = String::new();
        let names = &self.around.names;
        let headers = self.headers();
        let unset = |names: &[String]| names.iter().map(|name| format!("\tunset req.http.{name};")).collect::<Vec<_>>();
        let mut recv = vec!["if (req.restarts == 0) {".to_owned()];
        recv.extend(unset(&headers));
        if names.has_moves {
            recv.extend(["Url", "Asked", "Request-Uri"].map(|name| format!("\tset req.http.Nginx-{name} = req.url;")));
            recv.push("} else {".to_owned());
            recv.push("\tset req.url = req.http.Nginx-Url;".to_owned());
        }
        recv.push("}".to_owned());
        recv.extend(["Nginx-Text", "Nginx-No-Store"].map(|name| format!("unset req.http.{name};")));
        recv.push("call nginx_path;".to_owned());
        recv.extend(tables.iter().map(|(name, _)| format!("call {name};")));
        recv.push("# The server, then the location, in nginx's order; each of them ends with a return.".to_owned());
        recv.extend(choice);
        text.push_str(&vcl::sub("vcl_recv", &recv));
        let mut to_origin = vec!["cookie.set(\"location\", bereq.http.Nginx-Location);".to_owned()];
        to_origin.push("cookie.set(\"no-store\", bereq.http.Nginx-No-Store);".to_owned());
        to_origin.push("cookie.set(\"stale\", bereq.http.Nginx-Stale);".to_owned());
        let of = |phase: &str| lines.of(phase);
        to_origin.extend(grouped(of("fetch"), "bereq.http.Nginx-Location"));
        to_origin.extend(headers.iter().map(|name| format!("unset bereq.http.{name};")));
        let has_stale = of("hit").iter().any(|(_, lines)| lines.iter().any(|line| line.contains("(restart)")));
        text.push_str(
            "\n# The location is kept beside the request: the origin doesn't see it, the response is judged by it.",
        );
        text.push_str(&vcl::sub("vcl_backend_fetch", &to_origin));
        if text.contains("(pipe)") || lines.recv.iter().any(|(_, _, lines)| lines.iter().any(|l| l.contains("(pipe)")))
        {
            let mut pipe: Vec<String> =
                to_origin.iter().filter(|l| !l.contains("(abandon)") && !l.starts_with("cookie.")).cloned().collect();
            pipe.extend(PIPE.lines().map(str::to_owned));
            text.push_str(&vcl::sub("vcl_pipe", &pipe));
        }
        text.push_str(&vcl::sub("vcl_hash", &grouped(of("hash"), "req.http.Nginx-Location")));
        text.push_str(&vcl::sub("vcl_hit", &grouped(of("hit"), "req.http.Nginx-Location")));
        text.push_str(&vcl::sub("vcl_backend_response", &grouped(of("response"), "cookie.get(\"location\")")));
        text.push_str(&vcl::sub("vcl_backend_error", &grouped(of("error"), "cookie.get(\"location\")")));
        let mut deliver = redirected_home(ports);
        if of("response").iter().any(|(_, all)| all.iter().any(|line| line.contains("Nginx-Vary"))) {
            deliver.push("# Clients get a Vary that the cache doesn't heed.".to_owned());
            deliver.push("if (resp.http.Nginx-Vary) { set resp.http.Vary = resp.http.Nginx-Vary; }".to_owned());
            deliver.push("unset resp.http.Nginx-Vary;".to_owned());
        }
        if names.has_pages {
            deliver.extend(grouped(of("pages"), "req.http.Nginx-Location"));
            deliver.push(format!(
                "if (req.http.{0}) {{ set resp.status = std.integer(req.http.{0}, 500); }}",
                pages::STATUS
            ));
        }
        deliver.extend(grouped(of("deliver"), "req.http.Nginx-Location"));
        if names.has_pages {
            deliver.push(format!("unset resp.http.{};", pages::FAILED));
        }
        if of("response").iter().any(|(_, all)| all.iter().any(|line| line.contains("Nginx-Revalidated"))) {
            deliver.push("unset resp.http.Nginx-Revalidated;".to_owned());
        }
        text.push_str(&vcl::sub("vcl_deliver", &deliver));
        let mut synth = Vec::new();
        if has_stale {
            synth.extend(STALE.lines().map(str::to_owned));
        }
        if names.has_pages {
            synth.extend(grouped(of("own pages"), "req.http.Nginx-Location"));
            synth.push(format!("if (req.http.{} && (req.http.Nginx-Text || resp.status < 400)) {{", pages::STATUS));
            synth.push(format!("\tset resp.status = std.integer(req.http.{}, 500);", pages::STATUS));
            synth.push("}".to_owned());
        }
        synth.extend(REDIRECTED.lines().map(str::to_owned));
        synth.extend(grouped(of("synth"), "req.http.Nginx-Location"));
        synth.extend(ANSWERED.lines().map(str::to_owned));
        text.push_str(&vcl::sub("vcl_synth", &synth));
        text
    }

    /// The headers in which a request keeps what the VCL has found out; the origin sees none of them.
    fn headers(&self) -> Vec<String> {
        let names = &self.around.names;
        let mut headers: Vec<String> = PRIVATE.iter().map(|name| (*name).to_owned()).collect();
        if names.has_moves {
            headers.extend(MOVING.iter().map(|name| (*name).to_owned()));
        }
        if names.has_pages {
            headers.extend([pages::ERROR, pages::NAMED, pages::STATUS].map(str::to_owned));
        }
        headers.extend(names.captures.iter().map(|number| capture::numbered(*number)));
        let used = names.used.borrow();
        let tables_used = names.tables.iter().filter(|name| used.contains(*name));
        headers.extend(names.set.keys().chain(tables_used).map(|name| value::header(name)));
        headers
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

/// The lines that go to the named locations that answer errors.
fn named(all: &[&NginxLocation<'_>], lines: &LocationLines) -> Vec<String> {
    let is_asked = |l: &&&NginxLocation<'_>| l.kind == LocationKind::Named && lines.named.contains(&l.label);
    let branch = |l: &&NginxLocation<'_>| {
        (format!("req.http.{} == \"{}\"", pages::NAMED, l.label), vec![format!("call {};", l.label)])
    };
    vcl::chain(all.iter().filter(is_asked).map(branch).collect())
}

/// The lines for redirections in which nginx names itself: by the port on which it listens behind the cache.
fn redirected_home(ports: &[String]) -> Vec<String> {
    let host = "std.tolower(regsub(resp.http.Location, \"^http://([^/:]*):.*$\", \"\\1\"))";
    let condition =
        format!("resp.http.Location ~ \"^http://[^/:]*:({})/\" && {host} == {}", ports.join("|"), site::HOST);
    let set = "set resp.http.Location = regsub(resp.http.Location, \"^http://[^/]*\", \"\");";
    if ports.is_empty() { Vec::new() } else { vcl::chain(vec![(condition, vec![set.to_owned()])]) }
}

/// The directive by which nginx leaves several slashes of a path as they are.
fn keeps_slashes<'a>(scope: &LocationScope<'a>) -> Option<&'a Directive> {
    scope.holding(&["merge_slashes"]).pop().filter(|d| d.word(0) == "off")
}

/// A text as a comment of one line.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// `proxy_cache_path` and its kin, by the names of their zones.
fn paths(http: &[Directive]) -> impl Iterator<Item = (String, &Directive)> {
    let all = http.iter().filter(|d| d.name.ends_with("_cache_path"));
    all.filter_map(|path| {
        let zone = option(path, "keys_zone=")?;
        Some((zone.split(':').next().unwrap_or(zone).to_owned(), path))
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

/// Lines by the label of their location, those that are the same together.
fn grouped(all: &[(String, Vec<String>)], label: &str) -> Vec<String> {
    let mut groups: Vec<(&Vec<String>, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&Vec<String>, usize> = HashMap::new();
    for (name, lines) in all {
        let at = *places.entry(lines).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, names)) => names.push(name),
            None => groups.push((lines, vec![name])),
        }
    }
    let condition = |names: &[&str]| match names {
        [only] => format!("{label} == \"{only}\""),
        several => format!("{label} ~ \"^({})$\"", several.join("|")),
    };
    vcl::chain(groups.into_iter().map(|(lines, names)| (condition(&names), lines.clone())).collect())
}

/// The `internal` location of a server that isn't a page of `error_page` or `try_files`: an application's X-Accel-Redirect leads there.
fn accelerated<'a>(server: &NginxLocation<'a>) -> Option<&'a Directive> {
    let mut named: BTreeMap<&str, ()> = BTreeMap::new();
    for location in server.all() {
        let pages = location.scope.directives().filter(|d| d.name == "error_page" || d.name == "try_files");
        named.extend(pages.filter_map(|d| d.words.last()).map(|word| (word.as_str(), ())));
    }
    let is_internal = |l: &&NginxLocation<'a>| {
        l.kind != LocationKind::Named && l.directive.inside().iter().any(|d| d.name == "internal")
    };
    let all = server.all();
    let found = all.into_iter().filter(is_internal).find(|l| !named.contains_key(l.text))?;
    found.directive.inside().iter().find(|d| d.name == "internal")
}

/// The headers that the VCL keeps for the time of a request.
const PRIVATE: [&str; 8] = [
    "Nginx-Location",
    "Nginx-Path",
    "Nginx-Text",
    "Nginx-No-Store",
    "Nginx-Stale",
    "Nginx-Accel",
    "Nginx-Zone",
    "Nginx-Method",
];

/// Private headers of a configuration that changes URLs.
const MOVING: [&str; 7] =
    ["Nginx-Url", "Nginx-Asked", "Nginx-Request-Uri", "Nginx-Args", script::STOP, script::CHANGED, script::MOVED];

const PIPE: &str = "set bereq.http.Connection = req.http.Connection;\nset bereq.http.Upgrade = req.http.Upgrade;";

/// A fetch failed while an object beyond its lifetime is there: it is served.
const STALE: &str =
    "if (req.http.Nginx-Stale == \"there\") {\n\tset req.http.Nginx-Stale = \"serve\";\n\treturn (restart);\n}";

/// The VCL that `return 301 URL` and `return 200 TEXT` come to. The headers of the location stand between the two.
const REDIRECTED: &str = r#"if (req.http.Nginx-Text && (resp.status == 301 || resp.status == 302 || resp.status == 303 || resp.status == 307 || resp.status == 308)) {
	set resp.http.Location = req.http.Nginx-Text;
	unset req.http.Nginx-Text;
}"#;
const ANSWERED: &str = r#"if (req.http.Nginx-Text) {
	synthetic(req.http.Nginx-Text);
} else if ("" + resp.status ~ "^(30[12378]|40[0-689]|41[0-6]|421|429|50[0-57])$") {
	# The statuses for which nginx has a page.
	if (!resp.http.Content-Type) { set resp.http.Content-Type = "text/html"; }
	synthetic("<html><head><title>" + resp.status + " " + resp.reason + "</title></head><body><h1>" + resp.status + " " + resp.reason + "</h1></body></html>");
}
return (deliver);"#;

#[cfg(test)]
mod tests;
