// SPDX-License-Identifier: BSD-2-Clause
//! Translates subroutines: the contexts of each, its text in each context, and its name there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tables::dialects::OldSub;

use super::DialectResult;
use super::ctx::{DialectCtx, TranslationOutcome};
use super::names::NameKind;
use super::out::Out;
use super::walk::Walker;
use crate::token::Tok;

/// A subroutine's body: the items of its braces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubDeclaration {
    pub from: usize,
    pub to: usize,
}

impl Walker<'_> {
    pub fn subs(&self) -> Vec<(String, SubDeclaration)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at + 1 < self.items.len() {
            if self.tok_at(at) == Tok::C(b'{') {
                at = self.block_end(at);
            } else if self.tok_at(at) == Tok::Id && self.text_at(at) == "sub" {
                let name = self.after(at);
                let open = self.after(name);
                if self.tok_at(name) == Tok::Id && self.tok_at(open) == Tok::C(b'{') {
                    let to = self.block_end(open);
                    found.push((self.text_at(name).to_owned(), SubDeclaration { from: open, to }));
                    at = to;
                }
            }
            at += 1;
        }
        found
    }

    /// The contexts of each subroutine: a callee has those of all its callers.
    pub fn runs(&self) -> HashMap<String, BTreeSet<DialectCtx>> {
        let subs = self.subs();
        let calls = self.calls(&subs);
        let mut runs: HashMap<String, BTreeSet<DialectCtx>> = HashMap::new();
        for (name, _) in &subs {
            if let Some(sub) = OldSub::ALL.into_iter().find(|sub| sub.name() == name) {
                runs.entry(name.clone()).or_default().extend(DialectCtx::contexts_for(sub));
            }
        }
        loop {
            let mut changed = false;
            for (name, called) in &calls {
                let here = runs.get(name).cloned().unwrap_or_default();
                for to in called {
                    let there = runs.entry(to.clone()).or_default();
                    let before = there.len();
                    there.extend(&here);
                    changed |= there.len() != before;
                }
            }
            if !changed {
                return runs;
            }
        }
    }

    fn calls(&self, subs: &[(String, SubDeclaration)]) -> Vec<(String, Vec<String>)> {
        let called = |body: &SubDeclaration| {
            let called = (body.from..body.to).filter(|n| self.tok_at(*n) == Tok::Id && self.text_at(*n) == "call");
            called.map(|n| self.text_at(self.after(n)).to_owned()).collect()
        };
        subs.iter().map(|(name, body)| (name.clone(), called(body))).collect()
    }

    /// Translates the user's own subroutines for each context that calls them, callees first.
    pub fn translate_user_subs(&mut self) -> DialectResult {
        let subs = self.subs();
        let machine = |name: &str| OldSub::ALL.into_iter().find(|sub| sub.name() == name);
        let (calls, runs) = (self.calls(&subs), self.runs());
        let own: Vec<&(String, SubDeclaration)> = subs.iter().filter(|(name, _)| machine(name).is_none()).collect();
        let mut done: BTreeSet<String> = BTreeSet::new();
        // Runs in rounds. Recursive subroutines come last, and the compiler reports them.
        for _ in 0..=own.len() {
            let mut left = false;
            for (name, body) in &own {
                if done.contains(name) {
                    continue;
                }
                let called = calls.iter().filter(|(n, _)| n == name).flat_map(|(_, called)| called);
                let waits = called.clone().any(|c| c != name && own.iter().any(|(n, _)| n == c) && !done.contains(c));
                if waits {
                    left = true;
                    continue;
                }
                self.user_sub(name, *body, runs.get(name))?;
                done.insert(name.clone());
            }
            if !left {
                return Ok(());
            }
        }
        for (name, body) in own {
            if !done.contains(name) {
                self.user_sub(name, *body, runs.get(name))?;
            }
        }
        Ok(())
    }

    pub fn user_sub(&mut self, name: &str, body: SubDeclaration, runs: Option<&BTreeSet<DialectCtx>>) -> DialectResult {
        let base = self.names.now(NameKind::Sub, name);
        let mut texts: Vec<(Vec<u8>, String)> = Vec::new();
        for ctx in runs.into_iter().flatten() {
            let (kept, out) = self.body(body, *ctx)?;
            let key = (name.to_owned(), *ctx);
            if ctx.only_bereq() && kept != TranslationOutcome::Yes {
                self.variants.insert(key, None);
                continue;
            }
            let known = texts.iter().find(|(text, _)| *text == out.text).map(|(_, name)| name.clone());
            let now = known.unwrap_or_else(|| {
                let now = if texts.is_empty() { base.clone() } else { format!("{base}_{}", ctx.suffix()) };
                texts.push((out.text, now.clone()));
                now
            });
            self.variants.insert(key, Some(now));
        }
        Ok(())
    }

    pub fn body(&mut self, body: SubDeclaration, ctx: DialectCtx) -> DialectResult<(TranslationOutcome, Out)> {
        let (at, outer, out) = (self.at, self.ctx, std::mem::take(&mut self.out));
        (self.at, self.ctx) = (body.from, ctx);
        let kept = self.block();
        let made = std::mem::replace(&mut self.out, out);
        (self.at, self.ctx) = (at, outer);
        Ok((kept?, made))
    }

    pub fn sub_decl(&mut self) -> DialectResult {
        let first = self.at;
        let name_at = self.after(first);
        let open = self.after(name_at);
        if self.tok_at(name_at) != Tok::Id {
            self.at = name_at;
            return self.expect(Tok::Id);
        }
        if self.tok_at(open) != Tok::C(b'{') {
            self.at = open;
            return self.expect(Tok::C(b'{'));
        }
        let name = self.text_at(name_at).to_owned();
        let body = SubDeclaration { from: open, to: self.block_end(open) };
        let machine = OldSub::ALL.into_iter().find(|sub| sub.name() == name);
        let sub = self.gap_text();
        match machine {
            Some(sub_kind) if DialectCtx::contexts_for(sub_kind).is_empty() => {
                self.warn(first, name_at, "", "the machine of 2.0 never did anything with it");
                self.drop_until(body.to);
            }
            Some(sub_kind) => {
                self.declare_machine_sub(sub_kind, &sub, body, (first, name_at))?;
                self.at = body.to;
                self.advance();
            }
            None => {
                self.declare_user_sub(&name, &sub, body, (first, name_at))?;
                self.at = body.to;
                self.advance();
            }
        }
        Ok(())
    }

    /// Translates a subroutine of the machine, into one for each context. `sub` is the text before its name.
    fn declare_machine_sub(
        &mut self,
        kind: OldSub,
        sub: &str,
        body: SubDeclaration,
        (first, name_at): (usize, usize),
    ) -> DialectResult {
        let mut any = false;
        for ctx in DialectCtx::contexts_for(kind) {
            let quiet = self.quiet;
            self.quiet |= *ctx == DialectCtx::DeliverError;
            let (kept, made) = self.body(body, *ctx)?;
            self.quiet = quiet;
            if *ctx == DialectCtx::DeliverError {
                self.deliver_errors.push(made);
                continue;
            }
            let nothing = match ctx {
                DialectCtx::PassBereq | DialectCtx::MissBereq => kept != TranslationOutcome::Yes,
                DialectCtx::Pass | DialectCtx::Miss => kept == TranslationOutcome::No,
                _ => false,
            };
            if nothing {
                continue;
            }
            self.write_sub(sub, *ctx, ctx.name_now(), &made, any, first, name_at);
            any = true;
        }
        if !any {
            self.out.own(sub);
        }
        Ok(())
    }

    /// Translates a subroutine of the user, into one for each name that it gets.
    fn declare_user_sub(
        &mut self,
        name: &str,
        sub: &str,
        body: SubDeclaration,
        (first, name_at): (usize, usize),
    ) -> DialectResult {
        let all: Vec<(DialectCtx, Option<String>)> =
            self.variants.iter().filter(|((n, _), _)| n == name).map(|((_, ctx), now)| (*ctx, now.clone())).collect();
        let mut by_name: BTreeMap<String, DialectCtx> = BTreeMap::new();
        for (ctx, now) in all {
            if let Some(now) = now {
                let entry = by_name.entry(now).or_insert(ctx);
                *entry = (*entry).min(ctx);
            }
        }
        if by_name.is_empty() {
            // The compiler reports that the subroutine is never called.
            by_name.insert(self.names.now(NameKind::Sub, name), self.likely(body));
        }
        let mut any = false;
        for (now, ctx) in by_name {
            let (_, made) = self.body(body, ctx)?;
            self.write_user_sub(sub, &now, &made, any, first, name_at);
            any = true;
        }
        Ok(())
    }

    /// Guesses the context of a subroutine that nothing calls, by its words.
    pub fn likely(&self, body: SubDeclaration) -> DialectCtx {
        let purges =
            (body.from..body.to).any(|n| self.text_at(n) == "purge" && self.tok_at(self.after(n)) == Tok::C(b';'));
        if purges {
            return DialectCtx::Hit;
        }
        let first = (body.from..body.to).filter(|n| self.tok_at(*n) == Tok::Id).find_map(|n| match self.text_at(n) {
            "beresp" => Some(DialectCtx::Fetch),
            "bereq" => Some(DialectCtx::Pipe),
            "resp" => Some(DialectCtx::Deliver),
            "obj" => Some(DialectCtx::Error),
            "hash_data" => Some(DialectCtx::Hash),
            _ => None,
        });
        first.unwrap_or(DialectCtx::Recv)
    }

    pub fn write_user_sub(&mut self, gap: &str, now: &str, made: &Out, again: bool, first: usize, name_at: usize) {
        let (src, start, end) = (self.items[first].src, self.items[first].start, self.items[name_at].end);
        self.out.own(if again { "\n\n" } else { gap });
        self.out.instead(src, start, end, &format!("sub {now}"));
        self.out.append(made);
        if now != self.text_at(name_at) {
            let reason = if again {
                "it is called on both sides, and what it says means something else on each"
            } else {
                "the name is taken, or reserved"
            };
            self.note(first, name_at, &format!("sub {now}"), reason);
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn write_sub(
        &mut self,
        gap: &str,
        ctx: DialectCtx,
        now: &str,
        made: &Out,
        again: bool,
        first: usize,
        name_at: usize,
    ) {
        let (src, start, end) = (self.items[first].src, self.items[first].start, self.items[name_at].end);
        self.out.own(if again { "\n\n" } else { gap });
        if ctx.only_bereq() {
            let guard = if ctx == DialectCtx::MissBereq { "!bereq.uncacheable" } else { "bereq.uncacheable" };
            self.out.instead(src, start, end, &format!("sub {now} {{\n    if ({guard})"));
            self.out.append(made);
            self.out.own("\n}");
            let reason = "the request to the origin is made after vcl_miss and vcl_pass now: what they say of bereq is said in \
                       vcl_backend_fetch";
            self.note(first, name_at, &format!("sub {now}"), reason);
            return;
        }
        self.out.instead(src, start, end, &format!("sub {now}"));
        self.out.append(made);
        match ctx {
            DialectCtx::Fetch => {
                let reason = "the fetch is a task of its own, and its request is bereq";
                self.note(first, name_at, &format!("sub {now}"), reason);
            }
            DialectCtx::Error => {
                let reason = "a response made here is resp now; failed fetches come here too, through vcl_backend_error and \
                           vcl_deliver";
                self.note(first, name_at, &format!("sub {now}"), reason);
            }
            _ => {}
        }
    }
}
