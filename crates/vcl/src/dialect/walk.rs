// SPDX-License-Identifier: BSD-2-Clause
//! The walk over an old program: what is declared, which subroutine runs where, and how the pieces are put together.
//!
//! One old subroutine may become two: what vcl_miss and vcl_pass say of `bereq` belongs to vcl_backend_fetch now, and a
//! subroutine of the user's own that is called from both sides is written once for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tables::dialects::{Dialect, OldSub};

use super::ctx::Ctx;
use super::flat::Item;
use super::late::Saint;
use super::names::{Names, Of};
use super::out::Out;
use super::policy::{DELIVER_ERRORS, Policy};
use super::{Note, R, Translation};
use crate::token::{Source, Tok};

/// A user's subroutine in one context: its name now, or none when nothing of it is left there.
pub(crate) type Variants = HashMap<(String, Ctx), Option<String>>;

pub(crate) struct Walker<'a> {
    pub dialect: Dialect,
    pub sources: &'a [Source],
    pub items: &'a [Item],
    pub at: usize,
    pub out: Out,
    pub ctx: Ctx,
    pub names: Names,
    pub policy: Policy,
    /// Directors: their kind.
    pub directors: BTreeMap<String, String>,
    /// Backends that only dns directors name.
    pub dns_members: BTreeSet<String>,
    /// Backends and directors, for saint mode.
    pub saints: Vec<Saint>,
    pub variants: Variants,
    /// Fields of the request that vcl_fetch sets and the client's side reads, in lower case.
    pub carried: BTreeSet<String>,
    /// The languages of the C that picks one, if that is there, and whether it is called.
    pub languages: Option<String>,
    pub calls_languages: bool,
    /// Fields of the request that vcl_fetch sets, in lower case.
    pub fetch_sets: BTreeSet<String>,
    /// The last place where vcl_fetch reads the URL.
    pub url_read: usize,
    /// Each vcl_deliver, as it is for what vcl_error made.
    pub deliver_errors: Vec<Out>,
    /// Fields of the request that vcl_hit sets.
    pub hit_fields: BTreeSet<String>,
    /// No blanks before the next token: it follows a bracket of ours.
    pub tight: bool,
    /// No notes: what is looked at isn't written.
    pub quiet: bool,
    pub notes: Vec<(u32, u32, Note)>,
    pub depth: u32,
}

/// Translates the program of `items`.
pub(crate) fn translate(dialect: Dialect, items: &[Item], sources: &[Source]) -> R<Translation> {
    let policy = Policy::of(dialect, items, sources);
    let names = Names::collect(items, sources, policy.purge);
    let mut w = Walker {
        dialect,
        sources,
        items,
        at: 0,
        out: Out::default(),
        ctx: Ctx::Recv,
        names,
        policy,
        directors: BTreeMap::new(),
        dns_members: BTreeSet::new(),
        saints: Vec::new(),
        variants: Variants::new(),
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
    };
    w.find_directors();
    w.find_dns_members();
    w.find_late();
    w.policy.asks_director = w.asks_director() || w.marks_late();
    w.find_hit_fields();
    w.find_carried();
    w.find_languages();
    w.policy.delivers =
        w.subs().iter().any(|(name, body)| name == OldSub::Deliver.name() && w.after(body.from) != body.to);
    w.translate_user_subs()?;
    w.at = 0;
    let mut parts: Vec<Out> = Vec::new();
    let mut first_sub = None;
    let mut late_directors: Vec<Out> = Vec::new();
    w.out = Out::default();
    w.pass_pseudo();
    while w.tok() != Tok::End {
        let is_sub = w.is("sub");
        let is_director = w.is("director");
        if is_sub && first_sub.is_none() {
            // What stood before it (comments, an include's mark) stays before what is put in front of it.
            parts.push(std::mem::take(&mut w.out));
            first_sub = Some(parts.len());
        }
        let made = w.declaration()?;
        if let Some(init) = made {
            if is_director && first_sub.is_some() { late_directors.push(init) } else { w.out.append(&init) }
        }
        parts.push(std::mem::take(&mut w.out));
        w.bounded(parts.iter().map(|p| p.text.len()).sum())?;
    }
    w.gap();
    parts.push(std::mem::take(&mut w.out));
    let first_sub = first_sub.unwrap_or(parts.len());
    let default_backend = w.default_backend();
    let late = w.late();
    let mut out = Out::default();
    out.own(&w.head());
    for (n, part) in parts.iter().enumerate() {
        if n == first_sub {
            let end = if out.text.ends_with(b"\n") { "\n" } else { "\n\n" };
            out.own(end);
            late_directors.iter().for_each(|init| out.append(init));
            out.own(&w.saint_init());
            out.own(&w.policy.before(&default_backend));
        }
        out.append(part);
    }
    if first_sub >= parts.len() {
        out.own(&w.saint_init());
        out.own(&w.policy.before(&default_backend));
    }
    if !out.text.ends_with(b"\n") {
        out.own("\n");
    }
    out.own(&w.policy.after(&late));
    w.deliver_errors(&mut out);
    let (text, map) = out.finish();
    let mut notes = std::mem::take(&mut w.notes);
    notes.sort_by_key(|(src, at, _)| (*src, *at));
    let mut notes: Vec<Note> = notes.into_iter().map(|(_, _, note)| note).collect();
    notes.dedup();
    let name = &sources[0].name;
    let whole = w.policy.notes().into_iter().map(|(new, why, warning)| Note {
        source: name.clone(),
        line: 0,
        old: format!("VCL {}", dialect.name()),
        new: new.to_owned(),
        why: why.to_owned(),
        warning,
    });
    let notes = whole.chain(notes).collect();
    Ok(Translation { text, map, notes, dialect })
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

    /// What vcl_fetch says of its client's request, and somebody reads on the client's side.
    fn find_carried(&mut self) {
        let runs = self.runs();
        let on =
            |name: &str, fetch: bool| runs.get(name).is_some_and(|all| all.iter().any(|c| (*c == Ctx::Fetch) == fetch));
        let (mut set, mut used) = (BTreeSet::new(), BTreeSet::new());
        let mut restarts = false;
        for (name, body) in self.subs() {
            let (fetch, client) = (on(&name, true), on(&name, false));
            let mut at = body.from;
            while at < body.to {
                let (word, last) = self.dotted(at);
                let low = word.to_ascii_lowercase();
                if self.tok_at(at) == Tok::Id && matches!(low.as_str(), "set" | "unset" | "remove") {
                    // What is set isn't read.
                    let (word, last) = self.dotted(self.after(at));
                    if fetch {
                        set.insert(word.to_ascii_lowercase());
                    }
                    at = self.after(last);
                    continue;
                }
                if self.tok_at(at) == Tok::Id {
                    if fetch && low == "req.url" {
                        // What is called may be called anywhere.
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

    /// The subroutine that is each vcl_deliver for responses that vcl_error made.
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
            .filter(|((of, _), _)| *of == Of::Backend)
            .map(|((_, name), at)| (name.clone(), *at))
            .collect();
        for (name, at) in declared {
            let kind = self.after(at);
            if self.tok_at(kind) == Tok::Id {
                self.directors.insert(name, self.text_at(kind).to_owned());
            }
        }
    }

    /// Whether it has directors and compares a request's backend with something.
    fn asks_director(&self) -> bool {
        !self.directors.is_empty() && (0..self.items.len()).any(|at| self.compared_backend(at).is_some())
    }

    /// The name that `req.backend` at `at` is compared with: its index.
    pub fn compared_backend(&self, at: usize) -> Option<usize> {
        if self.tok_at(at) != Tok::Id || self.text_at(at) != "req" {
            return None;
        }
        let (name, last) = self.dotted(at);
        let op = self.after(last);
        let other = self.after(op);
        let known = self.tok_at(other) == Tok::Id && self.names.is(Of::Backend, self.text_at(other));
        (name == "req.backend" && matches!(self.tok_at(op), Tok::Eq | Tok::Ne) && known).then_some(other)
    }

    /// What a director or backend is called in an expression.
    pub fn backend_now(&mut self, name: &str) -> String {
        let now = self.names.now(Of::Backend, name);
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

    /// The backend that requests have unless VCL says otherwise.
    pub fn default_backend(&mut self) -> String {
        let declared = &self.names.declared;
        let first = declared.iter().filter(|((of, _), _)| *of == Of::Backend).min_by_key(|(_, at)| **at);
        let first = first.map_or_else(|| "default".to_owned(), |((_, name), _)| name.clone());
        let name = if self.names.is(Of::Backend, "default") { "default".to_owned() } else { first };
        self.policy.default_name.clone_from(&name);
        let dns = self.directors.get(&name).is_some_and(|kind| kind == "dns");
        self.policy.default_is_director = dns || (self.directors.contains_key(&name) && name == "default");
        self.ctx = Ctx::Recv;
        if self.directors.contains_key(&name) && name != "default" && !dns {
            // Its first member stood for it, as it does now.
            let member = self.inline_member(&name);
            self.policy.default_name.clone_from(&member);
            return member;
        }
        self.backend_now(&name)
    }

    /// `vcl 4.1;` and the modules that the translation uses.
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
