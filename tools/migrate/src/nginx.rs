// SPDX-License-Identifier: BSD-2-Clause
//! nginx: servers, locations and upstreams as VCL. vcl_recv decides once, in nginx's order, which location a request is for; the other subroutines
//! go by that. What nginx serves itself (files, FastCGI) it goes on serving, as a backend, and so it does with locations that can't be translated.

mod address;
mod admit;
mod arguments;
mod asked;
mod cached;
mod capture;
mod claims;
mod config;
mod content;
mod kept;
mod known;
mod leaf;
mod lines;
mod location;
mod number;
mod origin;
mod pages;
mod program;
mod redirect;
mod regexes;
mod response;
mod rewrite;
mod scope;
mod script;
mod site;
mod table;
mod targets;
mod upstream;
mod value;
mod words;

use std::collections::{BTreeMap, HashSet};

use address::AddressNames;
use arguments::{option, paths};
use config::{Claim, Directive};
use known::Fate;
use leaf::{Around, LocationWork, ServerTree};
use lines::LocationLines;
use location::{LocationKind, NginxLocation};
use origin::OwnOrigins;
use scope::LocationScope;
use script::ScriptPlace;
use site::Site;
use upstream::MigratedBackends;
use value::VariableNames;

use crate::migrated::Migrated;
use crate::source::FileSource;
use crate::vcl;

/// Translates a configuration; `origin` is where nginx is to listen from now on.
///
/// # Errors
/// The file can't be read, or has no server.
pub fn migrate(file: &str, origin: (&str, &str), files: &dyn FileSource) -> Result<Migrated, String> {
    let mut all = config::read(file, files)?;
    number::check(&mut all)?;
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
                .map(|(zone, path)| (zone, option(path, "inactive=").and_then(number::seconds).unwrap_or(600.0)))
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
        text.extend(backends.modules().iter().map(|module| format!("import {module};\n")));
        let head = std::mem::take(&mut text);
        for (i, entry) in acls.iter().enumerate() {
            text.push_str(&format!("\nacl addresses_{} {{\n\t{entry};\n}}\n", i + 1));
        }
        text.push_str(&vcl::decoded_path("nginx_path", "req.http.Nginx-Path", !self.keeps_slashes));
        text.push_str(&tables.iter().map(|(_, sub)| sub.as_str()).collect::<String>());
        claims::settle_outer(self.http);
        lines.drop_uncalled(&subs);
        let called = lines.recv.iter().flat_map(|(_, _, lines)| lines).map(String::as_str);
        text.extend(rewrite::escaping(called.chain([subs.as_str()])));
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
}

/// The lines that go to the named locations that answer errors.
fn named(all: &[&NginxLocation<'_>], lines: &LocationLines) -> Vec<String> {
    let is_asked = |l: &&&NginxLocation<'_>| l.kind == LocationKind::Named && lines.named.contains(&l.label);
    let branch = |l: &&NginxLocation<'_>| {
        (format!("req.http.{} == \"{}\"", pages::NAMED, l.label), vec![format!("call {};", l.label)])
    };
    vcl::chain(all.iter().filter(is_asked).map(branch).collect())
}

/// The directive by which nginx leaves several slashes of a path as they are.
fn keeps_slashes<'a>(scope: &LocationScope<'a>) -> Option<&'a Directive> {
    scope.holding(&["merge_slashes"]).pop().filter(|d| d.word(0) == "off")
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
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

#[cfg(test)]
mod tests;
