// SPDX-License-Identifier: BSD-2-Clause
//! The requests of a location that no script has answered: the origin that they go to, and what is kept of its responses.

use super::asked::Origin;
use super::cached::is_cached;
use super::claims;
use super::config::Claim;
use super::kept::Refusal;
use super::leaf::{LocationWork, ServerTree};
use super::location::NginxLocation;
use super::pages;
use super::response;
use super::scope::LocationScope;
use super::targets::{self, ORIGIN, OriginBranch, OriginChoice};
use crate::vcl;

/// The part of a location that one label is for: the whole, the block of an `if` in it, or one of the addresses of its `proxy_pass`.
#[derive(Clone, Copy)]
pub struct LocationPart<'p, 'w, 'a> {
    pub tree: &'p ServerTree<'w, 'a>,
    pub location: &'p NginxLocation<'a>,
    pub scope: &'p LocationScope<'a>,
    /// True if the response comes by way of `try_files`.
    pub is_fallback: bool,
    pub label: &'p str,
    /// The address to which `proxy_pass` comes for these requests; None: the one that is written there.
    pub address: Option<&'p OriginBranch>,
}

impl<'w, 'a> LocationWork<'w, 'a> {
    /// The lines for requests that no script has answered.
    pub(super) fn content(&mut self, part: &LocationPart<'_, 'w, 'a>) -> Vec<String> {
        let told = match self.choice(part) {
            Ok(Some(choice)) => self.chosen(part, choice),
            Ok(None) => self.told(part),
            Err(refusal) => Err(vec![refusal]),
        };
        told.unwrap_or_else(|refusals| {
            self.refuse_all(refusals);
            self.kept(part.scope)
        })
    }

    fn choice(&mut self, part: &LocationPart<'_, 'w, 'a>) -> Result<Option<OriginChoice>, Refusal<'a>> {
        let Some(pass) = self.pass(part) else { return Ok(None) };
        let choice = targets::choice(pass.word(0), &self.around.names, &self.around.upstreams);
        let choice = choice.map_err(|reason| Refusal::new(pass, reason))?;
        if choice.as_ref().is_some_and(|choice| choice.is_open) {
            if part.scope.holding(&["resolver"]).is_empty() {
                return Err(Refusal::new(pass, NO_RESOLVER));
            }
            self.migrated.note(&pass.place, &pass.name, BY_REQUEST);
        }
        Ok(choice)
    }

    fn chosen(
        &mut self,
        part: &LocationPart<'_, 'w, 'a>,
        choice: OriginChoice,
    ) -> Result<Vec<String>, Vec<Refusal<'a>>> {
        let known = self.migrated.notes.len();
        let mut branches = Vec::new();
        let mut labels: Vec<String> = Vec::new();
        for branch in &choice.branches {
            let label = format!("{}to{}", part.label, labels.len() + 1);
            let mut lines = vec![format!("set req.http.Nginx-Location = \"{label}\";")];
            match is_address(&branch.address) {
                true => {
                    // Notes about the location are given once.
                    let is_first = labels.is_empty();
                    let before = self.migrated.notes.len();
                    let told = self.told(&LocationPart { label: &label, address: Some(branch), ..*part });
                    lines.extend(told.inspect_err(|_| {
                        labels.iter().for_each(|label| self.lines.take_back(label));
                        self.migrated.notes.truncate(known);
                    })?);
                    self.migrated.notes.truncate(if is_first { usize::MAX } else { before });
                }
                // nginx fails for a value that is no address.
                false => lines.push("return (synth(500));".to_owned()),
            }
            self.answer_headers(part.location, &label, &lines);
            branches.push((branch.condition.clone(), lines));
            labels.push(label);
        }
        let rest = if choice.is_open { self.nginx_alone() } else { vec!["return (synth(500));".to_owned()] };
        branches.push((String::new(), rest));
        let set = format!("set req.http.{ORIGIN} = {};", choice.origin);
        Ok([vec![set], vcl::chain(branches)].concat())
    }

    /// The lines for one address. The error is what keeps the location with nginx: nothing where nginx is its origin anyway, and it doesn't cache.
    fn told(&mut self, part: &LocationPart<'_, 'w, 'a>) -> Result<Vec<String>, Vec<Refusal<'a>>> {
        let scope = part.scope;
        let origin = self.origin(part).map_err(|refusal| vec![refusal])?;
        let (is_cached, is_direct) = (is_cached(scope), matches!(origin, Origin::Direct(_)));
        if let (Some(directive), true, false) = (part.tree.accelerated, is_direct, is_cached) {
            let text =
                "an application answers with X-Accel-Redirect for it: locations that aren't cached stay with nginx";
            self.migrated.note(&directive.place, &directive.name, text);
        }
        if !is_cached && (!is_direct || part.tree.accelerated.is_some()) {
            return Err(Vec::new());
        }
        let refusals = self.refusals(scope, &origin);
        if !refusals.is_empty() {
            return Err(refusals);
        }
        self.notes(scope);
        let lines = self.translated(part, &origin).map_err(|refusal| vec![refusal]);
        let lines = lines.and_then(|lines| match claims::unread(scope, is_direct) {
            unread if unread.is_empty() => Ok(lines),
            unread => Err(unread.into_iter().map(|directive| Refusal::new(directive, claims::UNCLAIMED)).collect()),
        });
        let lines = lines.inspect_err(|_| self.lines.take_back(part.label))?;
        claims::settle(scope, Claim::Claimed);
        match &origin {
            Origin::Direct(direct) => direct.upstream.iter().for_each(|upstream| claims::claim_upstream(upstream)),
            Origin::Nginx => self.left = Claim::Kept,
        }
        Ok(lines)
    }

    fn translated(&mut self, part: &LocationPart<'_, 'w, 'a>, origin: &Origin<'a>) -> Result<Vec<String>, Refusal<'a>> {
        let (names, scope, label) = (&self.around.names, part.scope, part.label);
        let mut lines = self.access(scope)?;
        let is_direct = matches!(origin, Origin::Direct(_));
        let is_accelerated = part.tree.accelerated.is_some() && is_direct;
        match origin {
            Origin::Direct(direct) => {
                lines.extend(self.asked(part, direct)?);
                let pages = pages::pages(scope, part.tree.server, names).map_err(Refusal::of)?;
                self.lines.add("pages", label, pages.deliver);
            }
            Origin::Nginx => lines.extend(self.asked_of_nginx(scope, part.location)),
        }
        if is_accelerated {
            lines.extend(self.accelerated(label));
        }
        let deliver = match is_direct {
            true => response::headers(scope, true, names).map_err(Refusal::of)?,
            false => response::cache_status(scope),
        };
        self.lines.add("deliver", label, deliver);
        let packed = if is_direct { response::packed(scope) } else { Vec::new() };
        if is_cached(scope) {
            lines.extend(self.cached(part, origin, packed, is_accelerated)?);
            return Ok(lines);
        }
        if names.has_pages && is_direct {
            self.lines.add("error", label, vec![pages::failed()]);
        }
        self.lines.add("response", label, packed);
        lines.push("return (pass);".to_owned());
        Ok(lines)
    }

    /// The lines by which a request goes to the application again, by way of nginx, which follows the redirection of its response.
    fn accelerated(&mut self, label: &str) -> Vec<String> {
        let is_asked = "(req.method == \"GET\" || req.method == \"HEAD\") && req.restarts == 0";
        let again = "{ set req.http.Nginx-Accel = \"1\"; return (restart); }";
        let line = format!("if (resp.http.X-Accel-Redirect && {is_asked}) {again}");
        self.lines.add("deliver", label, vec![line]);
        let condition = "req.http.Nginx-Accel || req.method != \"GET\" && req.method != \"HEAD\"";
        vcl::chain(vec![(condition.to_owned(), self.nginx_alone())])
    }
}

/// True of an address that nginx takes for one when a request comes.
fn is_address(address: &str) -> bool {
    super::asked::parts(address).is_some()
}

const NO_RESOLVER: &str = "a name that only a request tells is looked up by `resolver`, and there is none: choose among upstreams by a map, or name the resolver";

const BY_REQUEST: &str = "names that requests tell are looked up by the system's resolver, and `import dynamic;` finds their backends: as in nginx, \
     clients choose whom the cache asks; the resolver must not answer with the cache's own address";
