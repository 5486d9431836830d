// SPDX-License-Identifier: BSD-2-Clause
//! The walk over an old program: its declarations, the contexts of its subroutines, and the assembly of the result.
//!
//! One old subroutine may become two: statements on `bereq` in vcl_miss and vcl_pass move to vcl_backend_fetch, and a
//! user's subroutine that is called from both sides is written once for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tables::dialects::{Dialect, OldSub};

use super::ctx::DialectCtx;
use super::flat::FlatItem;
use super::late::Saint;
use super::names::{DeclaredNames, NameKind};
use super::out::Out;
use super::policy::{DELIVER_ERRORS, TranslationPolicy};
use super::subs::SubDeclaration;
use super::{DialectResult, MigrationNote, Translation};
use crate::token::{Tok, VclSource};

/// A user's subroutine in one context: its new name, or `None` if nothing of it remains there.
pub(crate) type SubVariants = HashMap<(String, DialectCtx), Option<String>>;

pub(crate) struct Walker<'a> {
    pub dialect: Dialect,
    pub sources: &'a [VclSource],
    pub items: &'a [FlatItem],
    pub at: usize,
    pub out: Out,
    pub ctx: DialectCtx,
    pub names: DeclaredNames,
    pub policy: TranslationPolicy,
    pub directors: BTreeMap<String, String>,
    pub dns_members: BTreeSet<String>,
    pub saints: Vec<Saint>,
    pub variants: SubVariants,
    /// Request headers that vcl_fetch sets and the client's side reads, in lower case.
    pub carried: BTreeSet<String>,
    /// The languages of the C file that selects one, if it is included. The next field says whether it is called.
    pub languages: Option<String>,
    pub calls_languages: bool,
    pub fetch_sets: BTreeSet<String>,
    pub url_read: usize,
    pub deliver_errors: Vec<Out>,
    pub hit_fields: BTreeSet<String>,
    /// Suppresses blanks before the next token, which follows an added bracket.
    pub tight: bool,
    /// Suppresses notes for code that is checked but not written.
    pub quiet: bool,
    pub notes: Vec<(u32, u32, MigrationNote)>,
    pub depth: u32,
}

pub(crate) fn translate(dialect: Dialect, items: &[FlatItem], sources: &[VclSource]) -> DialectResult<Translation> {
    let mut w = Walker::new(dialect, items, sources);
    w.survey();
    w.translate_user_subs()?;
    let parts = w.translate_declarations()?;
    let (text, map) = w.assemble(&parts).finish();
    Ok(Translation { text, map, notes: w.all_notes(), dialect })
}

/// A program's declarations, translated, in their original order.
struct Parts {
    parts: Vec<Out>,
    /// Index of the first subroutine. The added subroutines are inserted before it.
    first_sub: Option<usize>,
    late_directors: Vec<Out>,
}

impl Parts {
    fn text_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.text.len()).sum()
    }
}

impl<'a> Walker<'a> {
    fn new(dialect: Dialect, items: &'a [FlatItem], sources: &'a [VclSource]) -> Walker<'a> {
        let policy = TranslationPolicy::new(dialect, items, sources);
        let names = DeclaredNames::collect(items, sources, policy.purge);
        Walker {
            dialect,
            sources,
            items,
            at: 0,
            out: Out::default(),
            ctx: DialectCtx::Recv,
            names,
            policy,
            directors: BTreeMap::new(),
            dns_members: BTreeSet::new(),
            saints: Vec::new(),
            variants: SubVariants::new(),
            carried: BTreeSet::new(),
            languages: None,
            calls_languages: false,
            fetch_sets: BTreeSet::new(),
            url_read: 0,
            deliver_errors: Vec::new(),
            hit_fields: BTreeSet::new(),
            tight: false,
            quiet: false,
            notes: Vec::new(),
            depth: 0,
        }
    }

    /// Collects everything in the program that affects its translation. The order matters: dns members and late
    /// selection depend on the directors, and comparisons of directors on both.
    fn survey(&mut self) {
        self.find_directors();
        self.find_dns_members();
        self.find_late();
        self.policy.asks_director = self.asks_director() || self.marks_late();
        self.find_hit_fields();
        self.find_carried();
        self.find_languages();
        let is_deliver = |(name, body): &(String, SubDeclaration)| {
            name == OldSub::Deliver.name() && self.after(body.from) != body.to
        };
        self.policy.delivers = self.subs().iter().any(is_deliver);
    }

    fn translate_declarations(&mut self) -> DialectResult<Parts> {
        let mut made = Parts { parts: Vec::new(), first_sub: None, late_directors: Vec::new() };
        self.at = 0;
        self.out = Out::default();
        self.pass_pseudo();
        while self.tok() != Tok::End {
            let is_director = self.is("director");
            if self.is("sub") && made.first_sub.is_none() {
                // Comments and an include's mark before it stay in front of inserted text.
                made.parts.push(std::mem::take(&mut self.out));
                made.first_sub = Some(made.parts.len());
            }
            match self.declaration()? {
                Some(init) if is_director && made.first_sub.is_some() => made.late_directors.push(init),
                Some(init) => self.out.append(&init),
                None => {}
            }
            made.parts.push(std::mem::take(&mut self.out));
            self.bounded(made.text_bytes())?;
        }
        self.gap();
        made.parts.push(std::mem::take(&mut self.out));
        Ok(made)
    }

    /// Assembles the whole text: imported modules, declarations, and the old built-in VCL around them.
    fn assemble(&mut self, made: &Parts) -> Out {
        let default_backend = self.default_backend();
        let late = self.late();
        let mut out = Out::default();
        out.own(&self.head());
        let (before, from_first_sub) = made.parts.split_at(made.first_sub.unwrap_or(made.parts.len()));
        before.iter().for_each(|part| out.append(part));
        if made.first_sub.is_some() {
            let end = if out.text.ends_with(b"\n") { "\n" } else { "\n\n" };
            out.own(end);
            made.late_directors.iter().for_each(|init| out.append(init));
        }
        out.own(&self.saint_init());
        out.own(&self.policy.before(&default_backend));
        from_first_sub.iter().for_each(|part| out.append(part));
        if !out.text.ends_with(b"\n") {
            out.own("\n");
        }
        out.own(&self.policy.after(&late));
        self.deliver_errors(&mut out);
        out
    }

    fn all_notes(&mut self) -> Vec<MigrationNote> {
        let mut placed = std::mem::take(&mut self.notes);
        placed.sort_by_key(|(src, at, _)| (*src, *at));
        let mut placed: Vec<MigrationNote> = placed.into_iter().map(|(_, _, note)| note).collect();
        placed.dedup();
        let whole = self.policy.notes().into_iter().map(|(new, reason, warning)| MigrationNote {
            source: self.sources[0].name.clone(),
            line: 0,
            old: format!("VCL {}", self.dialect.name()),
            new: new.to_owned(),
            reason: reason.to_owned(),
            warning,
        });
        whole.chain(placed).collect()
    }
}

impl Walker<'_> {
    pub fn find_hit_fields(&mut self) {
        for (name, body) in self.subs() {
            if name != OldSub::Hit.name() {
                continue;
            }
            let sets = (body.from..body.to).filter(|n| self.tok_at(*n) == Tok::Id && self.text_at(*n) == "set");
            let names = sets.map(|n| self.dotted(self.after(n)).0.to_ascii_lowercase());
            self.hit_fields.extend(names.filter(|name| name.starts_with("req.http.")).collect::<Vec<_>>());
        }
    }

    fn find_carried(&mut self) {
        let runs = self.runs();
        let on = |name: &str, fetch: bool| {
            runs.get(name).is_some_and(|all| all.iter().any(|c| (*c == DialectCtx::Fetch) == fetch))
        };
        let (mut set, mut used) = (BTreeSet::new(), BTreeSet::new());
        let mut restarts = false;
        for (name, body) in self.subs() {
            let (fetch, client) = (on(&name, true), on(&name, false));
            let mut at = body.from;
            while at < body.to {
                let (word, last) = self.dotted(at);
                let low = word.to_ascii_lowercase();
                if self.tok_at(at) == Tok::Id && matches!(low.as_str(), "set" | "unset" | "remove") {
                    // A variable that is set isn't read.
                    let (word, last) = self.dotted(self.after(at));
                    if fetch {
                        set.insert(word.to_ascii_lowercase());
                    }
                    at = self.after(last);
                    continue;
                }
                if self.tok_at(at) == Tok::Id {
                    if fetch && low == "req.url" {
                        // A subroutine of both sides may be called at any time.
                        self.url_read = self.url_read.max(if client { usize::MAX } else { at });
                    }
                    restarts |= fetch && low == "restart";
                    if client && low.starts_with("req.http.") {
                        used.insert(low);
                    }
                }
                at = self.after(last);
            }
        }
        if restarts {
            // The origin reads it, and the built-in VCL.
            used.extend(set.iter().cloned());
        }
        let known = |name: &&String| name.starts_with("req.http.") || (*name == "req.url" && restarts);
        self.carried = set.intersection(&used).filter(known).cloned().collect();
        self.fetch_sets = set;
    }

    fn deliver_errors(&mut self, out: &mut Out) {
        if !self.policy.delivers {
            return;
        }
        out.own(&format!("# vcl_deliver ran for what vcl_error had made, too.\nsub {DELIVER_ERRORS} {{\n   "));
        for body in std::mem::take(&mut self.deliver_errors) {
            out.append(&body);
            out.own("\n");
        }
        out.own("}\n");
    }

    pub fn find_directors(&mut self) {
        let declared: Vec<(String, usize)> = self
            .names
            .declared
            .iter()
            .filter(|((of, _), _)| *of == NameKind::Backend)
            .map(|((_, name), at)| (name.clone(), *at))
            .collect();
        for (name, at) in declared {
            let kind = self.after(at);
            if self.tok_at(kind) == Tok::Id {
                self.directors.insert(name, self.text_at(kind).to_owned());
            }
        }
    }

    fn asks_director(&self) -> bool {
        !self.directors.is_empty() && (0..self.items.len()).any(|at| self.compared_backend(at).is_some())
    }

    /// The index of the name that `req.backend` at `at` is compared with.
    pub fn compared_backend(&self, at: usize) -> Option<usize> {
        if self.tok_at(at) != Tok::Id || self.text_at(at) != "req" {
            return None;
        }
        let (name, last) = self.dotted(at);
        let op = self.after(last);
        let other = self.after(op);
        let known = self.tok_at(other) == Tok::Id && self.names.is(NameKind::Backend, self.text_at(other));
        (name == "req.backend" && matches!(self.tok_at(op), Tok::Eq | Tok::Ne) && known).then_some(other)
    }

    pub fn backend_now(&mut self, name: &str) -> String {
        let now = self.names.now(NameKind::Backend, name);
        let req = if self.ctx.backend() { "bereq" } else { "req" };
        match self.directors.get(name).map(String::as_str) {
            Some("dns") => {
                let host = format!("regsub({req}.http.host, \":.*$\", \"\")");
                match self.dns_suffix(name) {
                    Some(suffix) => format!("{now}.backend({host} + {suffix})"),
                    None => format!("{now}.backend({host})"),
                }
            }
            Some("hash") if self.ctx.backend() => {
                self.policy.blob = true;
                format!("{now}.backend(blob.encode(HEX, blob=bereq.hash))")
            }
            Some("hash") => format!("{now}.backend(req.url + req.http.host)"),
            Some("client") => format!("{now}.backend(client.identity)"),
            Some(_) => format!("{now}.backend()"),
            None => now,
        }
    }

    /// The backend of requests for which VCL selects none.
    pub fn default_backend(&mut self) -> String {
        let declared = &self.names.declared;
        let first = declared.iter().filter(|((of, _), _)| *of == NameKind::Backend).min_by_key(|(_, at)| **at);
        let first = first.map_or_else(|| "default".to_owned(), |((_, name), _)| name.clone());
        let name = if self.names.is(NameKind::Backend, "default") { "default".to_owned() } else { first };
        self.policy.default_name.clone_from(&name);
        let dns = self.directors.get(&name).is_some_and(|kind| kind == "dns");
        self.policy.default_is_director = dns || (self.directors.contains_key(&name) && name == "default");
        self.ctx = DialectCtx::Recv;
        if self.directors.contains_key(&name) && name != "default" && !dns {
            // The director's first member stood for it, as it does now.
            let member = self.inline_member(&name);
            self.policy.default_name.clone_from(&member);
            return member;
        }
        self.backend_now(&name)
    }

    /// `vcl 4.1;` and imports of the modules that the translation uses.
    pub fn head(&self) -> String {
        let mut head = "vcl 4.1;\n".to_owned();
        for (used, name) in [
            (self.calls_languages, "accept_language"),
            (self.policy.blob, "blob"),
            (self.directors.values().any(|kind| kind != "dns"), "directors"),
            (self.directors.values().any(|kind| kind == "dns"), "dynamic"),
            (self.policy.purge, "purge"),
            (self.policy.saint, "saintmode"),
            (self.policy.std, "std"),
        ] {
            if used {
                head.push_str(&format!("import {name};\n"));
            }
        }
        head.push('\n');
        head
    }
}
