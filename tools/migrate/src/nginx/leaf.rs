// SPDX-License-Identifier: BSD-2-Clause
//! The handling of a request whose location is known, in each of VCL's subroutines. A location that can't be translated stays with nginx: its
//! requests are passed there, and nothing of it is cached here.

use std::collections::BTreeSet;

use super::address::{self, AddressNames};
use super::claims;
use super::config::{Claim, Directive};
use super::known::{Fate, fate};
use super::location::{LocationKind, NginxLocation, handler};
use super::origin::OwnOrigins;
use super::pages;
use super::redirect;
use super::response;
use super::scope::{LocationScope, duration, time};
use super::script::{self, RewriteScript, ScriptPlace, UntoldDirective};
use super::site::Site;
use super::upstream::{Attributes, MigratedBackends};
use super::value::{ExpressionSide, VariableNames, expression, folded, truth};
use super::words;
use crate::migrated::Migrated;
use crate::vcl;

/// The parts of the whole that one location has to know.
pub struct Around<'a> {
    /// Upstreams by their names.
    pub upstreams: Vec<&'a Directive>,
    /// Seconds for which unused objects stay, by zone.
    pub inactive: Vec<(String, f64)>,
    pub names: VariableNames,
    pub by_address: AddressNames,
}

/// The phases in which a location's lines stand apart, by its label.
pub const PHASES: [&str; 9] = ["hash", "fetch", "hit", "response", "error", "pages", "deliver", "own pages", "synth"];

/// The lines of all locations.
#[derive(Default)]
pub struct LocationLines {
    /// A subroutine for each location: its name, a comment, its lines.
    pub recv: Vec<(String, String, Vec<String>)>,
    /// The lines of each label, for each of `PHASES`.
    pub phases: [Vec<(String, Vec<String>)>; 9],
    /// Subroutines that find the lifetime a response gives itself: name and lines.
    pub lifetimes: Vec<(String, Vec<String>)>,
    /// Subroutines that write the URL of a path that was rewritten, one for each site that needs it.
    pub rewriting: Vec<(String, Vec<String>)>,
}

impl LocationLines {
    /// Takes out locations that no request reaches, such as a server's own where there is `location /`: VCL has no unused subroutines.
    pub fn drop_uncalled(&mut self, subs: &str) {
        let is_called = |name: &str| subs.contains(&format!("call {name};"));
        self.recv.retain(|(name, ..)| is_called(name));
        let all: String = self.phases.iter().flatten().flat_map(|(_, lines)| lines).cloned().collect();
        self.lifetimes.retain(|(name, _)| all.contains(&format!("call {name};")));
    }
}

/// A translation under way: what is known, and what comes of it.
pub struct LocationWork<'w, 'a> {
    pub around: &'w Around<'a>,
    pub site: &'w Site<'a>,
    pub origins: &'w mut OwnOrigins,
    /// True if nginx hands upgraded connections on in some location of the server.
    pub has_upgrades: bool,
    pub backends: &'w mut MigratedBackends,
    pub acls: &'w mut Vec<String>,
    pub lines: &'w mut LocationLines,
    pub migrated: &'w mut Migrated,
    /// The fate of the directives of the location under way that its VCL doesn't use.
    pub left: Claim,
}

/// A server and what holds for all its locations.
pub struct ServerTree<'w, 'a> {
    pub server: &'w NginxLocation<'a>,
    /// True if a location of it caches: then a request that nginx hands from one location to another may have been cached.
    pub has_cache: bool,
    /// The `internal` location to which a response of the application may send nginx.
    pub accelerated: Option<&'a Directive>,
    /// The server's own script can't be translated.
    pub is_kept: bool,
}

/// The server that a location's requests go to.
enum Origin<'a> {
    /// The address of `proxy_pass`: the directive, scheme, name, and the URI in the place of the location's.
    Direct {
        pass: &'a Directive,
        scheme: String,
        name: String,
        uri: Uri,
    },
    Nginx,
}

enum Uri {
    /// The URL as the client sent it.
    Same,
    /// Instead of the location's prefix.
    Instead(String),
    /// A value of its own.
    Whole(String),
}

impl Uri {
    /// The expression of the URL that the origin is asked for; `prefix` is the location's, `side` `req` or `bereq`.
    fn asked(&self, prefix: &str, side: &str) -> String {
        match self {
            Uri::Same => format!("{side}.url"),
            Uri::Instead(uri) => format!("regsub({side}.url, \"^{}\", {uri})", vcl::literal(prefix)),
            Uri::Whole(value) => value.replace("bereq.", &format!("{side}.")),
        }
    }
}

/// A directive that keeps a location from being translated: the line for the report.
struct Refusal<'a> {
    directive: &'a Directive,
    reason: String,
}

impl<'a> Refusal<'a> {
    fn of_unread(directive: &'a Directive) -> Refusal<'a> {
        Refusal { directive, reason: claims::UNCLAIMED.to_owned() }
    }
}

impl<'w, 'a> LocationWork<'w, 'a> {
    /// Adds the subroutine of a location, and its lines in all phases.
    pub fn add(&mut self, tree: &ServerTree<'w, 'a>, location: &NginxLocation<'a>) {
        let comment = match location.kind {
            LocationKind::Server => format!("{}: no location", location.directive.place),
            _ => format!("{}: location {}", location.directive.place, location.directive.words.join(" ")),
        };
        let mut lines = vec![format!("set req.http.Nginx-Location = \"{}\";", location.label)];
        self.left = Claim::Nobody;
        lines.extend(self.requests(tree, location));
        location.directive.claim(Claim::Claimed);
        self.answer_headers(location, &lines);
        if self.left != Claim::Nobody {
            claims::settle(&location.scope, self.left);
        }
        self.lines.recv.push((location.label.clone(), comment, lines));
    }

    /// Adds the headers of what is answered without an origin: rules of addresses, bodies that are too large, redirections to a slash.
    fn answer_headers(&mut self, location: &NginxLocation<'a>, lines: &[String]) {
        let has_answers = location.without_slash().is_some() || lines.iter().any(|line| line.contains("(synth("));
        let synth = &self.lines.phases[PHASES.iter().position(|name| *name == "synth").unwrap_or_default()];
        if !has_answers || synth.iter().any(|(known, _)| *known == location.label) {
            return;
        }
        match response::headers(&location.scope, false, &self.around.names) {
            Ok(lines) => self.phase("synth", &location.label, lines),
            Err((directive, reason)) => self.migrated.refuse(&directive.place, &directive.name, reason),
        }
    }

    /// Adds the subroutine that writes the URL of a rewritten path, if the lines of the site or of its locations call it.
    pub fn add_rewriting(&mut self, label: &str, lines: &[String]) {
        let name = script::rewriting(label);
        let call = format!("call {name};");
        let all = self.lines.recv.iter().flat_map(|(_, _, lines)| lines).chain(lines);
        if all.into_iter().any(|line| line.trim() == call) {
            let alone = self.nginx_alone().into_iter().map(|line| format!("\t{line}"));
            let text = REWRITTEN.lines().map(str::to_owned);
            let lines = text.flat_map(|line| if line == "NGINX" { alone.clone().collect() } else { vec![line] });
            self.lines.rewriting.push((name, lines.collect()));
        }
    }

    /// Adds the headers of a server that answers everything by itself.
    pub fn add_answers(&mut self, server: &NginxLocation<'a>, script: &RewriteScript<'a>) {
        let types = response::content_type(server, script);
        match response::headers(&server.scope, false, &self.around.names) {
            Ok(lines) => {
                match pages::pages(&server.scope, server, &self.around.names) {
                    Ok(pages) => self.phase("own pages", &server.label, pages.synth),
                    Err((directive, reason)) => self.migrated.refuse(&directive.place, &directive.name, reason),
                }
                self.phase("synth", &server.label, [types, lines].concat());
                claims::settle(&server.scope, Claim::Claimed);
            }
            Err((directive, reason)) => self.migrated.refuse(&directive.place, &directive.name, reason),
        }
    }

    fn requests(&mut self, tree: &ServerTree<'w, 'a>, location: &NginxLocation<'a>) -> Vec<String> {
        let scope = &location.scope;
        if let Some(directive) = scope.one("ssl_verify_client") {
            if directive.word(0) != "off" {
                return self.denied(directive, "client-verify in tls.conf");
            }
            directive.claim(Claim::Claimed);
        }
        let inside = self.internal(scope);
        if inside.iter().any(|line| line.starts_with("return")) {
            self.left = Claim::Kept;
            return inside;
        }
        // Scripts run first; the server's own stands before the choice of the location.
        let target = self.fallback(tree, location);
        let own = target.unwrap_or(location);
        let is_served = handler(own.scope.inner()).is_none_or(|(kind, _)| kind != "proxy" || target.is_some());
        let (block, names) = (scope.inner(), &self.around.names);
        let script = match (location.kind, is_served) {
            (LocationKind::Server, _) => Ok(RewriteScript::default()),
            (_, true) => script::served(block, &location.label, &own.scope, names),
            (_, false) => script::script(block, &location.label, ScriptPlace::Location, names),
        };
        let is_nginx_alone = is_served && !is_cached(&own.scope);
        let mut script = match script {
            Ok(script) => script,
            Err(untold) => {
                if !is_nginx_alone || tree.has_cache {
                    self.untold(untold);
                }
                return self.kept_whole(tree, scope);
            }
        };
        if tree.is_kept {
            return self.kept_whole(tree, scope);
        }
        self.note_files(&script);
        let pages = match pages::pages(scope, tree.server, &self.around.names) {
            Ok(pages) => pages,
            Err((directive, reason)) => {
                if !is_nginx_alone || script.is_final {
                    self.refuse(directive, &reason);
                }
                return self.kept_whole(tree, scope);
            }
        };
        self.phase("own pages", &location.label, pages.synth);
        if script.lines.iter().any(|line| line.contains("(synth(")) || location.kind == LocationKind::Server {
            let types = response::content_type(location, &script);
            match response::headers(scope, false, &self.around.names) {
                Ok(lines) => self.phase("synth", &location.label, [types, lines].concat()),
                Err((directive, reason)) => {
                    self.refuse(directive, &reason);
                    return self.kept_whole(tree, scope);
                }
            }
        }
        if script.is_final {
            claims::settle(scope, Claim::Claimed);
            self.left = Claim::Unreached;
            return [inside, script.lines].concat();
        }
        claims::claim_script(scope.inner());
        if let Some(target) = target {
            self.left = Claim::Kept;
            scope.inner().iter().filter(|d| d.name == "try_files").for_each(|d| d.claim(Claim::Claimed));
            // nginx asks the rules of this location before it looks for files, then those of the other one.
            let mut refusals = self.refusals(scope, &Origin::Nginx);
            refusals.extend(
                scope
                    .inner()
                    .iter()
                    .find(|d| d.name == "limit_except")
                    .map(|directive| Refusal { directive, reason: "beside try_files nginx decides".to_owned() }),
            );
            if !refusals.is_empty() {
                for refusal in refusals {
                    self.refuse(refusal.directive, &refusal.reason);
                }
                return self.kept_whole(tree, scope);
            }
            match self.access(scope) {
                Ok(lines) => script.lines.extend(lines),
                Err(_) => return self.kept(scope),
            }
            match script::served(target.scope.inner(), &target.label, &target.scope, &self.around.names) {
                Ok(further) => {
                    claims::claim_script(target.scope.inner());
                    self.note_files(&further);
                    script.lines.extend(further.lines);
                    script.variants.extend(further.variants);
                }
                Err(untold) => {
                    self.untold(untold);
                    return self.kept_whole(tree, &target.scope);
                }
            }
        }
        let mut lines = [inside, script.lines].concat();
        for (label, block) in script.variants {
            let mut inner = own.scope.within(block.inside());
            inner.kind = handler(block.inside()).map_or(own.scope.kind, |(kind, _)| kind);
            let content = self.content(tree, location, &inner, target.is_some(), &label);
            lines.push(format!("if (req.http.Nginx-Location == \"{label}\") {{"));
            lines.extend(content.into_iter().map(|line| format!("\t{line}")));
            lines.push("}".to_owned());
        }
        lines.extend(self.content(tree, location, &own.scope, target.is_some(), &location.label));
        lines
    }

    /// `internal`: clients get 404, pages of errors don't.
    fn internal(&self, scope: &LocationScope<'a>) -> Vec<String> {
        let refusal = "return (synth(404));".to_owned();
        let directive = scope.own("internal");
        directive.iter().for_each(|d| d.claim(Claim::Claimed));
        match (directive.is_some(), self.around.names.has_pages) {
            (false, _) => Vec::new(),
            (true, false) => vec![refusal],
            (true, true) => vcl::chain(vec![(format!("!req.http.{}", pages::ERROR), vec![refusal])]),
        }
    }

    fn note_files(&mut self, script: &RewriteScript<'a>) {
        for answer in &script.file_answers {
            self.migrated.note(&answer.place, &answer.name, "nginx looks for the file of a request that isn't a hit");
        }
    }

    /// The location whose response `try_files` leads to, where nginx caches that.
    fn fallback<'t>(&self, tree: &ServerTree<'t, 'a>, location: &NginxLocation<'a>) -> Option<&'t NginxLocation<'a>> {
        let files = location.scope.inner().iter().find(|d| d.name == "try_files")?;
        let last = files.words.last().filter(|last| !last.starts_with('='))?;
        let path = last.split('?').next().unwrap_or_default();
        let path = path.split("$is_args").next().unwrap_or_default();
        let found = match path.starts_with('@') {
            true => tree.server.all().into_iter().find(|l| l.kind == LocationKind::Named && l.text == path),
            false if path.contains('$') => None,
            false => tree.server.find(path),
        };
        found.filter(|target| is_cached(&target.scope))
    }

    /// The lines for requests that no script has answered.
    fn content(
        &mut self,
        tree: &ServerTree<'w, 'a>,
        location: &NginxLocation<'a>,
        scope: &LocationScope<'a>,
        is_fallback: bool,
        label: &str,
    ) -> Vec<String> {
        let is_cached = is_cached(scope);
        let origin = match self.origin(scope, location, is_fallback) {
            Ok(origin) => origin,
            Err(refusal) => {
                self.refuse(refusal.directive, &refusal.reason);
                return self.kept(scope);
            }
        };
        let is_direct = matches!(origin, Origin::Direct { .. });
        if let (Some(directive), true, false) = (tree.accelerated, is_direct, is_cached) {
            let text =
                "an application answers with X-Accel-Redirect for it: locations that aren't cached stay with nginx";
            self.migrated.note(&directive.place, &directive.name, text);
        }
        if !is_cached && (!is_direct || tree.accelerated.is_some()) {
            return self.kept(scope);
        }
        let refusals = self.refusals(scope, &origin);
        if !refusals.is_empty() {
            for refusal in refusals {
                self.refuse(refusal.directive, &refusal.reason);
            }
            return self.kept(scope);
        }
        self.notes(scope);
        let told = self.translated(tree, scope, location, &origin, label).map_err(|refusal| vec![refusal]);
        let told = told.and_then(|lines| match claims::unread(scope, is_direct) {
            unread if unread.is_empty() => Ok(lines),
            unread => Err(unread.into_iter().map(Refusal::of_unread).collect()),
        });
        match told {
            Ok(lines) => {
                claims::settle(scope, Claim::Claimed);
                if let Origin::Direct { name, .. } = &origin {
                    self.around.upstreams.iter().filter(|u| u.word(0) == name).for_each(|u| claims::claim_upstream(u));
                } else {
                    self.left = Claim::Kept;
                }
                lines
            }
            Err(refusals) => {
                self.lines.phases.iter_mut().for_each(|phase| phase.retain(|(known, _)| known != label));
                refusals.iter().for_each(|refusal| self.refuse(refusal.directive, &refusal.reason));
                self.kept(scope)
            }
        }
    }

    fn translated(
        &mut self,
        tree: &ServerTree<'w, 'a>,
        scope: &LocationScope<'a>,
        location: &NginxLocation<'a>,
        origin: &Origin<'a>,
        label: &str,
    ) -> Result<Vec<String>, Refusal<'a>> {
        let names = &self.around.names;
        let is_accelerated = tree.accelerated.is_some() && matches!(origin, Origin::Direct { .. });
        let mut lines = self.access(scope)?;
        let proxy_host = match origin {
            Origin::Direct { name, .. } => name.clone(),
            Origin::Nginx => String::new(),
        };
        match origin {
            Origin::Direct { pass, scheme, name, uri } => {
                if let Some(most) = most_bytes(scope).map_err(|(directive, reason)| Refusal { directive, reason })? {
                    lines.push(format!(
                        "if (std.integer(req.http.Content-Length, 0) > {most}) {{ return (synth(413)); }}"
                    ));
                }
                lines.extend(self.excepted(scope)?);
                if let Uri::Instead(_) = uri {
                    // A prefix that is written another way: nginx knows how to take it away.
                    lines.push(format!("if (req.url !~ \"^{}\") {{", vcl::literal(location.text)));
                    lines.extend(self.nginx_alone().into_iter().map(|line| format!("\t{line}")));
                    lines.push("}".to_owned());
                }
                let chosen = self.backends.expression(scheme, name, &self.around.upstreams, &attributes(scope));
                lines.push(format!("set req.backend_hint = {chosen};"));
                let redirected = redirect::redirected(scope, location, pass, names)
                    .map_err(|(directive, reason)| Refusal { directive, reason })?;
                self.phase("deliver", label, redirected);
                let fields = scope.all("proxy_set_header");
                let fetch = fetched(&fields, pass, name, uri, location, names)?;
                self.phase("fetch", label, fetch);
                lines.extend(fields.iter().any(|field| is_upgrade(field)).then(|| UPGRADED.to_owned()));
            }
            Origin::Nginx => {
                if names.has_moves {
                    // nginx runs its script again.
                    lines.push("set req.url = req.http.Nginx-Asked;".to_owned());
                }
                lines.push(self.nginx());
                lines.extend(self.has_upgrades.then(|| UPGRADED.to_owned()));
                self.handler_of(scope, location);
            }
        }
        let is_direct = matches!(origin, Origin::Direct { .. });
        if is_direct {
            let pages =
                pages::pages(scope, tree.server, names).map_err(|(directive, reason)| Refusal { directive, reason })?;
            self.phase("pages", label, pages.deliver);
        }
        let deliver = match is_direct {
            true => response::headers(scope, true, names),
            false => Ok(response::cache_status(scope)),
        };
        if is_accelerated {
            // The request goes to the application again, by way of nginx, which follows the redirection.
            let is_asked = "(req.method == \"GET\" || req.method == \"HEAD\") && req.restarts == 0";
            let again = "{ set req.http.Nginx-Accel = \"1\"; return (restart); }";
            self.phase("deliver", label, vec![format!("if (resp.http.X-Accel-Redirect && {is_asked}) {again}")]);
            let condition = "req.http.Nginx-Accel || req.method != \"GET\" && req.method != \"HEAD\"";
            let nginx = self.nginx_alone();
            lines.extend(vcl::chain(vec![(condition.to_owned(), nginx)]));
        }
        self.phase("deliver", label, deliver.map_err(|(directive, reason)| Refusal { directive, reason })?);
        let packed = if is_direct { response::packed(scope) } else { Vec::new() };
        if !is_cached(scope) {
            if names.has_pages && is_direct {
                self.phase("error", label, vec![format!("set beresp.http.{} = \"1\";", pages::FAILED)]);
            }
            self.phase("response", label, packed);
            lines.push("return (pass);".to_owned());
            return Ok(lines);
        }
        lines.push("if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); }".to_owned());
        if let Some(directive) = scope.one_of_kind("cache_methods")
            && directive.words.iter().any(|method| !matches!(method.to_ascii_uppercase().as_str(), "GET" | "HEAD"))
        {
            return Err(Refusal { directive, reason: "responses to GET and HEAD alone are cached here".to_owned() });
        }
        lines.extend(zone(scope, &self.around.inactive, names)?);
        lines.extend(late_ranges(scope)?);
        if scope.one_of_kind("cache_convert_head").is_some_and(|d| d.word(0) == "off") {
            lines.push("set req.http.Nginx-Method = req.method;".to_owned());
            self.phase("fetch", label, vec!["set bereq.method = bereq.http.Nginx-Method;".to_owned()]);
        }
        let unkept: Vec<&String> = scope.all_of_kind("no_cache").into_iter().flat_map(|d| &d.words).collect();
        let mut bypassing = Vec::new();
        for directive in scope.all_of_kind("cache_bypass") {
            for word in &directive.words {
                let condition =
                    truth(word, ExpressionSide::Client, names).map_err(|reason| Refusal { directive, reason })?;
                let skip = "set req.hash_always_miss = true;";
                match unkept.contains(&word) {
                    // Neither asked for nor kept: what is kept for others stays.
                    true => lines.push(format!("if ({condition}) {{ {skip} return (pass); }}")),
                    false => bypassing.push(format!("if ({condition}) {{ {skip} }}")),
                }
            }
        }
        lines.extend(bypassing);
        let mut late = Vec::new();
        for directive in scope.all_of_kind("no_cache") {
            for word in &directive.words {
                match response::late_truth(word) {
                    Some(condition) => late.push(condition),
                    None => {
                        let condition = truth(word, ExpressionSide::Client, names)
                            .map_err(|reason| Refusal { directive, reason })?;
                        lines.push(format!("if ({condition}) {{ set req.http.Nginx-No-Store = \"1\"; }}"));
                    }
                }
            }
        }
        if let Some(cache) = scope.one_of_kind("cache") {
            self.migrated.note(&cache.place, &cache.name, "as in nginx, requests with Cookie or Authorization get what is kept, too: is each of these pages the same for all?");
        }
        let stale = response::StaleRule::of(scope, &self.around.inactive);
        lines.extend(stale.recv());
        self.phase("hit", label, stale.hit());
        self.phase("error", label, stale.error());
        if names.has_pages && is_direct {
            self.phase("error", label, vec![format!("set beresp.http.{} = \"1\";", pages::FAILED)]);
        }
        let zone = scope.one_of_kind("cache").map_or("", |cache| cache.word(0));
        let mut hash = vec![match zone.contains('$') {
            true => "hash_data(req.http.Nginx-Zone);".to_owned(),
            false => format!("hash_data({});", vcl::string(zone).unwrap_or_default()),
        }];
        match (scope.one_of_kind("cache_key"), origin) {
            (Some(key), _) => {
                let text = expression(&key.words.join(" "), ExpressionSide::Client, &proxy_host, names)
                    .map_err(|reason| Refusal { directive: key, reason })?;
                hash.push(format!("hash_data({text});"));
                hash.push("return (lookup);".to_owned());
            }
            // nginx's own key: the URL that the origin is asked for, with the name that proxy_pass gives it.
            (None, Origin::Direct { pass, scheme, name, uri }) => {
                let begin = vcl::string(&format!("{scheme}://{name}")).ok_or_else(|| Refusal {
                    directive: pass,
                    reason: "its name can't be written in VCL".to_owned(),
                })?;
                hash.push(format!("hash_data({begin});"));
                hash.push(format!("hash_data({});", uri.asked(location.text, "req")));
                hash.push("return (lookup);".to_owned());
            }
            // nginx has none: by URL and Host.
            (None, Origin::Nginx) => {}
        }
        self.phase("hash", label, hash);
        let response = response::cached(
            scope,
            &stale,
            &late,
            !is_direct,
            is_accelerated,
            &mut self.lines.lifetimes,
            self.migrated,
        )
        .map_err(|(directive, reason)| Refusal { directive, reason })?;
        self.phase("response", label, [packed, response].concat());
        if !stale.fetch().is_empty() {
            self.phase("fetch", label, stale.fetch());
        }
        lines.push("return (hash);".to_owned());
        Ok(lines)
    }

    /// The lines of requests that nginx goes on answering itself.
    fn kept(&mut self, scope: &LocationScope<'a>) -> Vec<String> {
        claims::settle(scope, Claim::Kept);
        self.left = Claim::Kept;
        let Some(advice) = address::realip(scope, self.origins.host()) else { return self.nginx_alone() };
        let told = self.access(scope).and_then(|mut lines| {
            lines.extend(self.excepted(scope)?);
            Ok(lines)
        });
        match told {
            Ok(mut lines) => {
                lines.extend(self.nginx_alone());
                lines
            }
            // To nginx every client has this cache's address now.
            Err(refusal) => self.denied(refusal.directive, &format!("{}; {advice}", refusal.reason)),
        }
    }

    /// The same where nginx goes on running the script, too.
    fn kept_whole(&mut self, tree: &ServerTree<'w, 'a>, scope: &LocationScope<'a>) -> Vec<String> {
        let outer = if tree.is_kept { tree.server.scope.inner() } else { &[] };
        let is_asking = |d: &&Directive| d.name == "if" && self.around.by_address.is_asked_by(d);
        let asking = scope.inner().iter().chain(outer).find(is_asking);
        match (asking, address::realip(scope, self.origins.host())) {
            (Some(directive), Some(advice)) => {
                self.denied(directive, &format!("to nginx every client has this cache's address; {advice}"))
            }
            _ => self.kept(scope),
        }
    }

    fn denied(&mut self, directive: &Directive, reason: &str) -> Vec<String> {
        self.refuse(directive, &format!("{reason}; until then these requests are answered with 403"));
        self.left = Claim::Unreached;
        vec!["return (synth(403));".to_owned()]
    }

    /// `limit_except`: nginx answers the other methods, once its rules of addresses let them in.
    fn excepted(&mut self, scope: &LocationScope<'a>) -> Result<Vec<String>, Refusal<'a>> {
        let Some(except) = scope.own("limit_except") else { return Ok(Vec::new()) };
        let methods: Vec<&str> = except.words.iter().map(String::as_str).collect();
        if let Some(odd) = methods.iter().find(|name| !name.bytes().all(|c| c.is_ascii_alphanumeric())) {
            return Err(Refusal { directive: except, reason: format!("{odd} is no method") });
        }
        let head = if methods.contains(&"GET") { "|HEAD" } else { "" };
        let mut inner = self.access(&scope.within(except.inside()))?;
        inner.extend(self.nginx_alone());
        except.claim(Claim::Claimed);
        let mut lines = vec![format!("if (req.method !~ \"^({}{head})$\") {{", methods.join("|"))];
        lines.extend(inner.into_iter().map(|line| format!("\t{line}")));
        lines.push("}".to_owned());
        Ok(lines)
    }

    /// The lines of a request that nginx answers by itself: as the client sent it, and judged by no location.
    pub fn nginx_alone(&mut self) -> Vec<String> {
        let mut lines = vec!["set req.http.Nginx-Location = \"nginx\";".to_owned()];
        if self.around.names.has_moves {
            lines.push("set req.url = req.http.Nginx-Asked;".to_owned());
        }
        lines.push(self.nginx());
        lines.extend(self.has_upgrades.then(|| UPGRADED.to_owned()));
        lines.push("return (pass);".to_owned());
        lines
    }

    fn nginx(&mut self) -> String {
        let address = self.origins.address(self.site);
        let chosen = self.backends.expression("http", &address, &[], &Vec::new());
        format!("set req.backend_hint = {chosen};")
    }

    fn phase(&mut self, phase: &str, label: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let Some(at) = PHASES.iter().position(|name| *name == phase) else { return };
        match self.lines.phases[at].iter_mut().find(|(known, _)| known == label) {
            Some((_, all)) => all.extend(lines),
            None => self.lines.phases[at].push((label.to_owned(), lines)),
        }
    }

    fn refuse(&mut self, directive: &Directive, reason: &str) {
        let text = match reason.contains("answered with 403") || reason.contains("stays with nginx") {
            true => reason.to_owned(),
            false => format!("{reason}; the location stays with nginx, and isn't cached here"),
        };
        self.migrated.refuse(&directive.place, &directive.name, text);
    }

    fn untold(&mut self, untold: UntoldDirective) {
        let text = format!("{}; the location stays with nginx, and isn't cached here", untold.reason);
        self.migrated.refuse(&untold.place, &untold.directive, text);
    }

    /// All directives of a scope that have no counterpart and hold.
    fn refusals(&self, scope: &LocationScope<'a>, origin: &Origin<'a>) -> Vec<Refusal<'a>> {
        let mut out: Vec<Refusal<'a>> = Vec::new();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for directive in scope.directives() {
            let name = directive.name.as_str();
            let reason = match fate(name) {
                Some(Fate::Refused(text)) => text,
                None => "nothing is known of it here",
                Some(_) => continue,
            };
            if !names.insert(name) {
                continue;
            }
            // The innermost block counts: `off` revokes the blocks around it.
            let effective = scope.one(name).unwrap_or(directive);
            let is_off = effective.word(0) == "off" || effective.word(0).is_empty() && effective.words.len() == 1;
            if is_off {
                effective.claim(Claim::Claimed);
            }
            if !is_off {
                out.push(Refusal { directive: effective, reason: reason.to_owned() });
            }
        }
        if let Origin::Direct { name, .. } = origin
            && let Some(upstream) = self.around.upstreams.iter().find(|upstream| upstream.word(0) == name)
        {
            for directive in upstream.inside() {
                match fate(&directive.name) {
                    Some(Fate::Refused(text)) => out.push(Refusal { directive, reason: text.to_owned() }),
                    None => out.push(Refusal { directive, reason: "nothing is known of it here".to_owned() }),
                    Some(_) => {}
                }
            }
        }
        out
    }

    /// Says of directives that hold in a location how they act here.
    fn notes(&mut self, scope: &LocationScope<'a>) {
        for directive in scope.directives() {
            if let Some(Fate::Told(text)) = fate(&directive.name) {
                self.migrated.note(&directive.place, &directive.name, text);
            }
        }
    }

    fn origin(
        &mut self,
        scope: &LocationScope<'a>,
        location: &NginxLocation<'a>,
        is_fallback: bool,
    ) -> Result<Origin<'a>, Refusal<'a>> {
        // Blocks of `if` take over the handler of their location.
        let own = handler(scope.inner()).or_else(|| handler(location.scope.inner()));
        let Some((_, pass)) = own.filter(|(kind, _)| *kind == "proxy" && !is_fallback) else {
            return Ok(Origin::Nginx);
        };
        pass.is_read.set(true);
        let text = folded(pass.word(0), &self.around.names);
        let refused = |reason: &str| Refusal { directive: pass, reason: reason.to_owned() };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(refused("it is made of variables; `import dynamic;` finds backends by name"));
        };
        let at = match rest.strip_prefix("unix:") {
            // Behind `unix:PATH:` a URI may stand.
            Some(path) => path.find(':').map_or(rest.len(), |at| at + 6),
            None => rest.find(['/', '$', '?']).unwrap_or(rest.len()),
        };
        let (name, uri) = rest.split_at(at);
        let uri = uri.trim_start_matches(':');
        let is_whole = uri.starts_with('/')
            || ["$request_uri", "${request_uri}", "$uri", "${uri}"].iter().any(|begin| uri.starts_with(begin));
        if name.is_empty() || !uri.is_empty() && !is_whole {
            return Err(refused("it is made of variables; `import dynamic;` finds backends by name"));
        }
        if !words::is_address(name) && !self.around.upstreams.iter().any(|upstream| upstream.word(0) == name) {
            return Err(refused("it names no server: HOST, HOST:PORT or unix:PATH is wanted"));
        }
        let uri = match uri {
            "" => Uri::Same,
            uri if uri.contains('$') => Uri::Whole(
                expression(uri, ExpressionSide::Backend, name, &self.around.names)
                    .map_err(|reason| refused(&reason))?,
            ),
            uri => match location.kind {
                LocationKind::Exact | LocationKind::Prefix { .. } => {
                    Uri::Instead(vcl::string(uri).ok_or_else(|| refused("its URI can't be written in VCL"))?)
                }
                _ => return Err(refused("with a URI in a location that isn't a prefix")),
            },
        };
        Ok(Origin::Direct { pass, scheme: scheme.to_owned(), name: name.to_owned(), uri })
    }

    /// `allow` and `deny`: the first that holds decides; an address in none is let in.
    fn access(&mut self, scope: &LocationScope<'a>) -> Result<Vec<String>, Refusal<'a>> {
        let rules = scope.all_of(&["allow", "deny"]);
        let satisfy = scope.one("satisfy");
        let Some(first) = rules.first() else { return Ok(Vec::new()) };
        let refused = |reason: &str| Err(Refusal { directive: first, reason: reason.to_owned() });
        if satisfy.is_some_and(|d| d.word(0) == "any") {
            return refused("beside `satisfy any` nginx would decide, and to it every client has this cache's address");
        }
        if scope.one("set_real_ip_from").is_some() {
            return refused("beside set_real_ip_from the client's address is another one: use the PROXY protocol");
        }
        let mut branches: Vec<(String, Vec<String>)> = Vec::new();
        for rule in &rules {
            let lines = if rule.name == "deny" { vec!["return (synth(403));".to_owned()] } else { Vec::new() };
            match rule.word(0) {
                "all" => {
                    branches.push((String::new(), lines));
                    break;
                }
                "unix:" => {}
                word => match words::address(word) {
                    Some((entry, _)) => branches.push((format!("client.ip ~ {}", self.acl(&entry)), lines)),
                    None => return Err(Refusal { directive: rule, reason: format!("{word} is no address") }),
                },
            }
        }
        rules.iter().chain(&satisfy).for_each(|d| d.claim(Claim::Claimed));
        Ok(vcl::chain(branches))
    }

    /// Reads the directive that names the program which nginx asks.
    fn handler_of(&self, scope: &LocationScope<'a>, location: &NginxLocation<'a>) {
        let found = handler(scope.inner()).or_else(|| handler(location.scope.inner()));
        if let Some((_, pass)) = found {
            pass.is_read.set(true);
        }
    }

    /// The name of an acl of one entry.
    fn acl(&mut self, entry: &str) -> String {
        let at = self.acls.iter().position(|known| known == entry).unwrap_or_else(|| {
            self.acls.push(entry.to_owned());
            self.acls.len() - 1
        });
        format!("addresses_{}", at + 1)
    }
}

/// True if the responses of a location's handler are cached.
pub fn is_cached(scope: &LocationScope<'_>) -> bool {
    scope.one_of_kind("cache").is_some_and(|cache| cache.word(0) != "off")
}

/// The bound of a request's body in bytes: 1 MB unless it is set, none for 0.
fn most_bytes<'a>(scope: &LocationScope<'a>) -> Result<Option<u64>, (&'a Directive, String)> {
    let Some(directive) = scope.one("client_max_body_size") else { return Ok(Some(1 << 20)) };
    match size(directive.word(0)) {
        Some(bytes) => Ok(Some(bytes).filter(|bytes| *bytes > 0)),
        None => Err((directive, format!("{} is no size", directive.word(0)))),
    }
}

/// The zone of a location where a variable names it: nginx caches nothing without one, and fails where there is none of that name.
fn zone<'a>(
    scope: &LocationScope<'a>,
    zones: &[(String, f64)],
    names: &VariableNames,
) -> Result<Vec<String>, Refusal<'a>> {
    let Some(directive) = scope.one_of_kind("cache").filter(|cache| cache.word(0).contains('$')) else {
        return Ok(Vec::new());
    };
    let value = expression(directive.word(0), ExpressionSide::Client, "", names)
        .map_err(|reason| Refusal { directive, reason })?;
    let known: Vec<String> = zones.iter().map(|(zone, _)| vcl::literal(zone)).collect();
    let is_unknown = vcl::one_of("req.http.Nginx-Zone", true, ("^(", ")$"), &known)
        .ok_or_else(|| Refusal { directive, reason: "a zone's name can't be written in VCL".to_owned() })?;
    Ok(vec![
        format!("set req.http.Nginx-Zone = {value};"),
        "if (req.http.Nginx-Zone == \"\" || req.http.Nginx-Zone == \"off\") { return (pass); }".to_owned(),
        format!("if ({is_unknown}) {{ return (synth(500)); }}"),
    ])
}

/// Ranges that begin behind `proxy_cache_max_range_offset`: the origin is asked for them, and the cache isn't.
fn late_ranges<'a>(scope: &LocationScope<'a>) -> Result<Vec<String>, Refusal<'a>> {
    let Some(directive) = scope.one_of_kind("cache_max_range_offset") else { return Ok(Vec::new()) };
    let most = size(directive.word(0))
        .ok_or_else(|| Refusal { directive, reason: format!("{} is no size", directive.word(0)) })?;
    let condition = match most {
        0 => "req.http.Range".to_owned(),
        _ => format!(
            "req.http.Range ~ \"(?i)^bytes= *-\" || req.http.Range ~ \"(?i)^bytes= *\\d\" && std.integer(regsub(req.http.Range, \"(?i)^bytes= *(\\d+).*$\", \"\\1\"), {most}) >= {most}"
        ),
    };
    Ok(vec![format!("if ({condition}) {{ return (pass); }}")])
}

fn size(text: &str) -> Option<u64> {
    let word = text.to_ascii_lowercase();
    let (number, shift) = match word.as_bytes().last() {
        Some(b'k') => (&word[..word.len() - 1], 10),
        Some(b'm') => (&word[..word.len() - 1], 20),
        Some(b'g') => (&word[..word.len() - 1], 30),
        _ => (word.as_str(), 0),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift))
}

/// The URL of a path that was rewritten, with its arguments. What can't be written that way nginx writes.
const REWRITTEN: &str = r##"set req.http.Nginx-Text = req.http.Nginx-Path;
if (req.http.Nginx-Text ~ "[%?# ]") {
	set req.http.Nginx-Text = regsuball(req.http.Nginx-Text, "%", "%25");
	set req.http.Nginx-Text = regsuball(req.http.Nginx-Text, "\?", "%3F");
	set req.http.Nginx-Text = regsuball(req.http.Nginx-Text, "#", "%23");
	set req.http.Nginx-Text = regsuball(req.http.Nginx-Text, " ", "%20");
}
if (req.http.Nginx-Text + req.http.Nginx-Args ~ "[^!-~]") {
NGINX
}
set req.url = req.http.Nginx-Text + req.http.Nginx-Args;
unset req.http.Nginx-Text;"##;

/// An upgraded connection is handed on as it is.
const UPGRADED: &str = "if (req.http.Upgrade ~ \"(?i)websocket\") { return (pipe); }";

/// True of a line that lets the origin upgrade a connection.
pub fn is_upgrade(directive: &Directive) -> bool {
    directive.name == "proxy_set_header" && directive.word(0).eq_ignore_ascii_case("upgrade")
}

/// Timeouts of the backend.
fn attributes(scope: &LocationScope<'_>) -> Attributes {
    let of = |name: &str, attribute: &str| {
        scope.one(name).and_then(|d| time(d.word(0))).map(|seconds| format!(".{attribute} = {};", duration(seconds)))
    };
    [
        of("proxy_connect_timeout", "connect_timeout"),
        of("proxy_read_timeout", "first_byte_timeout"),
        of("proxy_read_timeout", "between_bytes_timeout"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// True of an expression without any text that is always there.
fn may_be_empty(value: &str) -> bool {
    let is_sure =
        |term: &str| term.starts_with('"') && term != "\"\"" || SURE.iter().any(|sure| term.starts_with(sure));
    !value.split(" + ").any(is_sure)
}

/// Variables that are never empty; nginx answers 400 where Host is.
const SURE: [&str; 7] =
    ["client.ip", "server.", "std.port(", "std.time2real(", "std.tolower(", "bereq.method", "bereq.url"];

/// The request to the origin: headers that read the client's before they are changed, then Host, then the URL.
fn fetched<'a>(
    fields: &[&'a Directive],
    pass: &'a Directive,
    name: &str,
    uri: &Uri,
    location: &NginxLocation<'a>,
    names: &VariableNames,
) -> Result<Vec<String>, Refusal<'a>> {
    let mut lines = Vec::new();
    let mut host = vcl::string(name).map(|host| format!("set bereq.http.Host = {host};"));
    let mut changed: Vec<String> = Vec::new();
    for field in fields {
        let (header, value) = (field.word(0), field.word(1));
        let lower = header.to_ascii_lowercase();
        let refused = |reason: String| Refusal { directive: field, reason };
        if !words::is_header(header) {
            return Err(refused(format!("{header} can't be named in VCL")));
        }
        let line = match (lower.as_str(), value) {
            // The core writes these for each connection.
            ("connection" | "upgrade" | "te" | "transfer-encoding" | "content-length", _) => continue,
            // The core sends the client's Host.
            ("host", "$http_host") => {
                host = None;
                continue;
            }
            ("x-forwarded-for", "$proxy_add_x_forwarded_for") => continue,
            ("x-forwarded-proto", "$scheme") if names.has_tls => continue,
            (_, "") => format!("unset bereq.http.{header};"),
            _ => {
                let value = expression(value, ExpressionSide::Backend, name, names).map_err(refused)?;
                if changed.iter().any(|known| value.to_ascii_lowercase().contains(&format!("bereq.http.{known}"))) {
                    return Err(refused("it reads a header that another line has changed".to_owned()));
                }
                let set = format!("set bereq.http.{header} = {value};");
                // nginx sends no header that is empty.
                match may_be_empty(&value) {
                    true => format!("{set} if (bereq.http.{header} == \"\") {{ unset bereq.http.{header}; }}"),
                    false => set,
                }
            }
        };
        if lower == "host" {
            host = Some(line);
        } else {
            changed.push(lower);
            lines.push(line);
        }
    }
    lines.extend(host);
    if names.has_tls && !fields.iter().any(|field| field.word(0).eq_ignore_ascii_case("x-forwarded-proto")) {
        // The core has set it for this VCL.
        lines.push("unset bereq.http.X-Forwarded-Proto;".to_owned());
    }
    match uri {
        Uri::Same => {}
        Uri::Instead(_) => lines.push(format!("set bereq.url = {};", uri.asked(location.text, "bereq"))),
        Uri::Whole(value) => {
            if value.contains("bereq.http.Host") {
                return Err(Refusal { directive: pass, reason: "its URI has Host in it".to_owned() });
            }
            if value != "bereq.url" {
                lines.push(format!("set bereq.url = {value};"));
            }
        }
    }
    Ok(lines)
}
