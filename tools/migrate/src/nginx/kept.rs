// SPDX-License-Identifier: BSD-2-Clause
//! Locations that stay with nginx: the directives that keep them from being translated, and the lines of their requests.

use std::collections::BTreeSet;

use super::address;
use super::asked::Origin;
use super::claims;
use super::config::{Claim, Directive};
use super::known::{Fate, fate};
use super::leaf::{LocationWork, ServerTree};
use super::scope::LocationScope;
use super::script::UntoldDirective;

/// A directive that keeps a location from being translated: the line for the report.
pub struct Refusal<'a> {
    pub directive: &'a Directive,
    pub reason: String,
}

impl<'a> Refusal<'a> {
    pub fn new(directive: &'a Directive, reason: impl Into<String>) -> Refusal<'a> {
        Refusal { directive, reason: reason.into() }
    }

    pub fn of((directive, reason): (&'a Directive, String)) -> Refusal<'a> {
        Refusal { directive, reason }
    }
}

impl<'w, 'a> LocationWork<'w, 'a> {
    /// The lines of requests that nginx goes on answering itself.
    pub(super) fn kept(&mut self, scope: &LocationScope<'a>) -> Vec<String> {
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
    pub(super) fn kept_whole(&mut self, tree: &ServerTree<'w, 'a>, scope: &LocationScope<'a>) -> Vec<String> {
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

    pub(super) fn refuse(&mut self, directive: &Directive, reason: &str) {
        let text = match reason.contains("answered with 403") || reason.contains("stays with nginx") {
            true => reason.to_owned(),
            false => format!("{reason}; the location stays with nginx, and isn't cached here"),
        };
        self.migrated.refuse(&directive.place, &directive.name, text);
    }

    pub(super) fn refuse_all(&mut self, refusals: Vec<Refusal<'a>>) {
        refusals.iter().for_each(|refusal| self.refuse(refusal.directive, &refusal.reason));
    }

    pub(super) fn untold(&mut self, untold: UntoldDirective) {
        let text = format!("{}; the location stays with nginx, and isn't cached here", untold.reason);
        self.migrated.refuse(&untold.place, &untold.directive, text);
    }

    /// All directives of a scope that have no counterpart and hold.
    pub(super) fn refusals(&self, scope: &LocationScope<'a>, origin: &Origin<'a>) -> Vec<Refusal<'a>> {
        let mut out: Vec<Refusal<'a>> = Vec::new();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for directive in scope.directives() {
            let name = directive.name.as_str();
            let Some(reason) = untranslated(name).filter(|_| names.insert(name)) else { continue };
            // The innermost block counts: `off` revokes the blocks around it.
            let effective = scope.one(name).unwrap_or(directive);
            match effective.word(0) == "off" || effective.word(0).is_empty() && effective.words.len() == 1 {
                true => effective.claim(Claim::Claimed),
                false => out.push(Refusal::new(effective, reason)),
            }
        }
        if let Origin::Direct(direct) = origin
            && let Some(upstream) = direct.upstream
        {
            let all = upstream.inside().iter();
            out.extend(all.filter_map(|d| Some(Refusal::new(d, untranslated(&d.name)?))));
        }
        out
    }

    pub(super) fn notes(&mut self, scope: &LocationScope<'a>) {
        for directive in scope.directives() {
            if let Some(Fate::Told(text)) = fate(&directive.name) {
                self.migrated.note(&directive.place, &directive.name, text);
            }
        }
    }
}

/// The reason why a directive of this name can't be translated; None of one that can.
fn untranslated(name: &str) -> Option<&'static str> {
    match fate(name) {
        Some(Fate::Refused(text)) => Some(text),
        None => Some("nothing is known of it here"),
        Some(Fate::Done | Fate::Apart | Fate::Holds(_) | Fate::Nginx | Fate::Told(_)) => None,
    }
}
