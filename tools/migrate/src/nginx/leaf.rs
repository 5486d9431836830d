// SPDX-License-Identifier: BSD-2-Clause
//! The handling of a request whose location is known, in each of VCL's subroutines. A location that can't be translated stays with nginx: its
//! requests are passed there, and nothing of it is cached here.

use super::address::AddressNames;
use super::asked::Origin;
use super::cached::is_cached;
use super::claims;
use super::config::{Claim, Directive};
use super::content::LocationPart;
use super::kept::Refusal;
use super::lines::LocationLines;
use super::location::{LocationKind, NginxLocation, handler};
use super::origin::OwnOrigins;
use super::pages;
use super::response;
use super::rewrite;
use super::scope::LocationScope;
use super::script::{self, RewriteScript, ScriptPlace};
use super::site::Site;
use super::upstream::MigratedBackends;
use super::value::VariableNames;
use crate::migrated::Migrated;
use crate::vcl;

/// The parts of the whole that one location has to know.
pub struct Around<'a> {
    pub upstreams: Vec<&'a Directive>,
    /// Seconds for which unused objects stay, by zone.
    pub inactive: Vec<(String, f64)>,
    pub names: VariableNames,
    pub by_address: AddressNames,
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

/// The lines of a location for which nothing more is to be asked, such as those of one that stays with nginx.
type Settled = Vec<String>;

impl<'w, 'a> LocationWork<'w, 'a> {
    /// Adds the subroutine of a location, and its lines in all phases.
    pub fn add(&mut self, tree: &ServerTree<'w, 'a>, location: &NginxLocation<'a>) {
        let comment = match location.kind {
            LocationKind::Server => format!("{}: no location", location.directive.place),
            _ => format!("{}: location {}", location.directive.place, location.directive.words.join(" ")),
        };
        let mut lines = vec![format!("set req.http.Nginx-Location = \"{}\";", location.label)];
        self.left = Claim::Nobody;
        lines.extend(self.requests(tree, location).unwrap_or_else(|settled| settled));
        location.directive.claim(Claim::Claimed);
        self.answer_headers(location, &location.label, &lines);
        if self.left != Claim::Nobody {
            claims::settle(&location.scope, self.left);
        }
        self.lines.recv.push((location.label.clone(), comment, lines));
    }

    /// Adds the headers of what is answered without an origin: rules of addresses, bodies that are too large, redirections to a slash.
    pub(super) fn answer_headers(&mut self, location: &NginxLocation<'a>, label: &str, lines: &[String]) {
        let has_answers = location.without_slash().is_some() || lines.iter().any(|line| line.contains("(synth("));
        if !has_answers || self.lines.has("synth", label) {
            return;
        }
        match response::headers(&location.scope, false, &self.around.names) {
            Ok(lines) => self.lines.add("synth", label, lines),
            Err((directive, reason)) => self.migrated.refuse(&directive.place, &directive.name, reason),
        }
    }

    /// Adds the subroutine that writes the URL of a rewritten path, if the lines of the site or of its locations call it: those from
    /// the `first` on.
    pub fn add_rewriting(&mut self, label: &str, first: usize, lines: &[String]) {
        let name = rewrite::rewriting(label);
        let call = format!("call {name};");
        let mut all = self.lines.recv[first..].iter().flat_map(|(_, _, lines)| lines).chain(lines);
        if all.any(|line| line.trim() == call) {
            let alone = self.nginx_alone().into_iter().map(|line| format!("\t{line}"));
            let text = REWRITTEN.lines().map(str::to_owned);
            let lines = text.flat_map(|line| if line == "NGINX" { alone.clone().collect() } else { vec![line] });
            self.lines.rewriting.push((name, lines.collect()));
        }
    }

    /// Adds the headers and pages of what a server's own script answers.
    pub fn add_answers(&mut self, server: &NginxLocation<'a>, script: &RewriteScript<'a>) {
        let types = response::content_type(server, script);
        let told = response::headers(&server.scope, false, &self.around.names)
            .and_then(|lines| Ok((lines, pages::pages(&server.scope, server, &self.around.names)?)));
        match told {
            Ok((lines, pages)) => {
                self.lines.add("own pages", &server.label, pages.synth);
                self.lines.add("synth", &server.label, [types, lines].concat());
            }
            Err((directive, reason)) => self.migrated.refuse(&directive.place, &directive.name, reason),
        }
    }

    fn requests(&mut self, tree: &ServerTree<'w, 'a>, location: &NginxLocation<'a>) -> Result<Vec<String>, Settled> {
        let scope = &location.scope;
        self.certified(scope)?;
        let inside = self.internal(scope);
        if inside.iter().any(|line| line.starts_with("return")) {
            self.left = Claim::Kept;
            return Err(inside);
        }
        // Scripts run first; the server's own stands before the choice of the location.
        let target = self.fallback(tree, location);
        let own = target.unwrap_or(location);
        let mut script = self.script(tree, location, own, target.is_some())?;
        if script.is_final {
            claims::settle(scope, Claim::Claimed);
            self.left = Claim::Unreached;
            return Err([inside, script.lines].concat());
        }
        claims::claim_script(scope.inner());
        if let Some(target) = target {
            self.hand_over(tree, scope, target, &mut script)?;
        }
        let mut lines = [inside, script.lines].concat();
        let is_fallback = target.is_some();
        for (label, block) in &script.variants {
            let mut inner = own.scope.within(block.inside());
            inner.kind = handler(block.inside()).map_or(own.scope.kind, |(kind, _)| kind);
            let part = LocationPart { tree, location, scope: &inner, is_fallback, label, address: None };
            lines.push(format!("if (req.http.Nginx-Location == \"{label}\") {{"));
            lines.extend(self.content(&part).into_iter().map(|line| format!("\t{line}")));
            lines.push("}".to_owned());
        }
        let label = &location.label;
        let part = LocationPart { tree, location, scope: &own.scope, is_fallback, label, address: None };
        lines.extend(self.content(&part));
        Ok(lines)
    }

    fn certified(&mut self, scope: &LocationScope<'a>) -> Result<(), Settled> {
        let Some(directive) = scope.one("ssl_verify_client") else { return Ok(()) };
        if directive.word(0) != "off" {
            return Err(self.denied(directive, "client-verify in tls.conf"));
        }
        directive.claim(Claim::Claimed);
        Ok(())
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

    /// The script of a location, with its answers and its pages. `own` is the location whose response `try_files` leads to, if there is one.
    fn script(
        &mut self,
        tree: &ServerTree<'w, 'a>,
        location: &NginxLocation<'a>,
        own: &NginxLocation<'a>,
        is_fallback: bool,
    ) -> Result<RewriteScript<'a>, Settled> {
        let (scope, names) = (&location.scope, &self.around.names);
        let is_served = is_fallback || handler(own.scope.inner()).is_none_or(|(kind, _)| kind != "proxy");
        let script = match (location.kind, is_served) {
            (LocationKind::Server, _) => Ok(RewriteScript::default()),
            (_, true) => script::served(scope.inner(), &location.label, &own.scope, names),
            (_, false) => script::script(scope.inner(), &location.label, ScriptPlace::Location, names),
        };
        let is_nginx_alone = is_served && !is_cached(&own.scope);
        let script = match script {
            Ok(script) => script,
            Err(untold) => {
                if !is_nginx_alone || tree.has_cache {
                    self.untold(untold);
                }
                return Err(self.kept_whole(tree, scope));
            }
        };
        if tree.is_kept {
            return Err(self.kept_whole(tree, scope));
        }
        self.note_files(&script);
        self.answered(location, tree, &script).map_err(|(directive, reason, is_page)| {
            if !is_page || !is_nginx_alone || script.is_final {
                self.refuse(directive, &reason);
            }
            self.kept_whole(tree, scope)
        })?;
        Ok(script)
    }

    /// Adds the pages and headers of what a location's script answers. The error says whether a page has no counterpart.
    fn answered(
        &mut self,
        location: &NginxLocation<'a>,
        tree: &ServerTree<'w, 'a>,
        script: &RewriteScript<'a>,
    ) -> Result<(), (&'a Directive, String, bool)> {
        let (scope, names) = (&location.scope, &self.around.names);
        let pages = pages::pages(scope, tree.server, names).map_err(|(directive, why)| (directive, why, true))?;
        self.lines.add("own pages", &location.label, pages.synth);
        if let Some(refusal) = self.changed_text(scope, script) {
            return Err((refusal.directive, refusal.reason, false));
        }
        if script.lines.iter().any(|line| line.contains("(synth(")) || location.kind == LocationKind::Server {
            let types = response::content_type(location, script);
            let lines = response::headers(scope, false, names).map_err(|(directive, why)| (directive, why, false))?;
            self.lines.add("synth", &location.label, [types, lines].concat());
        }
        Ok(())
    }

    /// A directive by which nginx changes the text of an answer.
    fn changed_text(&self, scope: &LocationScope<'a>, script: &RewriteScript<'a>) -> Option<Refusal<'a>> {
        let has_include = script.statuses.iter().any(|(_, answer)| answer.word(1).contains("<!--#"));
        let is_heeded = |refusal: &Refusal<'a>| match refusal.directive.name.as_str() {
            "ssi" => has_include,
            "sub_filter" | "add_before_body" | "add_after_body" => script.has_text,
            _ => false,
        };
        self.refusals(scope, &Origin::Nginx).into_iter().find(is_heeded)
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

    /// Goes on with the location that `try_files` leads to: nginx asks the rules of the first one before it looks for files, then those of the
    /// other one.
    fn hand_over(
        &mut self,
        tree: &ServerTree<'w, 'a>,
        scope: &LocationScope<'a>,
        target: &NginxLocation<'a>,
        script: &mut RewriteScript<'a>,
    ) -> Result<(), Settled> {
        self.left = Claim::Kept;
        scope.inner().iter().filter(|d| d.name == "try_files").for_each(|d| d.claim(Claim::Claimed));
        let mut refusals = self.refusals(scope, &Origin::Nginx);
        let except = scope.inner().iter().find(|d| d.name == "limit_except");
        refusals.extend(except.map(|directive| Refusal::new(directive, "beside try_files nginx decides")));
        if !refusals.is_empty() {
            self.refuse_all(refusals);
            return Err(self.kept_whole(tree, scope));
        }
        match self.access(scope) {
            Ok(lines) => script.lines.extend(lines),
            Err(_) => return Err(self.kept(scope)),
        }
        match script::served(target.scope.inner(), &target.label, &target.scope, &self.around.names) {
            Ok(further) => {
                claims::claim_script(target.scope.inner());
                self.note_files(&further);
                script.lines.extend(further.lines);
                script.variants.extend(further.variants);
                Ok(())
            }
            Err(untold) => {
                self.untold(untold);
                Err(self.kept_whole(tree, &target.scope))
            }
        }
    }
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
