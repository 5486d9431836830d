// SPDX-License-Identifier: BSD-2-Clause
//! The walk over an old program: what is declared, which subroutine runs where, and how the pieces are put together.
//!
//! One old subroutine may become two: what vcl_miss and vcl_pass say of `bereq` belongs to vcl_backend_fetch now, and a
//! subroutine of the user's own that is called from both sides is written once for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tables::dialects::{Dialect, OldSub};

use super::flat::{Item, Kind};
use super::names::{Names, Of};
use super::out::{Mark, Out};
use super::policy::Policy;
use super::{Fail, Note, R, Translation};
use crate::diag::line_and_pos;
use crate::token::{Source, Tok};

/// Deepest nesting of blocks and expressions.
const MAX_DEPTH: u32 = 80;
/// Longest translation.
const MAX_OUT: usize = crate::vcc::MAX_SOURCE;

/// Where a statement runs: an old subroutine, those with a part on the backend side twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Ctx {
    Recv,
    Pipe,
    Pass,
    /// What vcl_pass says of `bereq`.
    PassBereq,
    Hash,
    Miss,
    /// What vcl_miss says of `bereq`.
    MissBereq,
    Hit,
    Fetch,
    Deliver,
    Error,
    Init,
    Fini,
}

impl Ctx {
    pub fn sub(self) -> OldSub {
        match self {
            Ctx::Recv => OldSub::Recv,
            Ctx::Pipe => OldSub::Pipe,
            Ctx::Pass | Ctx::PassBereq => OldSub::Pass,
            Ctx::Hash => OldSub::Hash,
            Ctx::Miss | Ctx::MissBereq => OldSub::Miss,
            Ctx::Hit => OldSub::Hit,
            Ctx::Fetch => OldSub::Fetch,
            Ctx::Deliver => OldSub::Deliver,
            Ctx::Error => OldSub::Error,
            Ctx::Init => OldSub::Init,
            Ctx::Fini => OldSub::Fini,
        }
    }

    /// The contexts of an old subroutine; none for those that never ran.
    fn of(sub: OldSub) -> &'static [Ctx] {
        match sub {
            OldSub::Recv => &[Ctx::Recv],
            OldSub::Pipe => &[Ctx::Pipe],
            OldSub::Pass => &[Ctx::Pass, Ctx::PassBereq],
            OldSub::Hash => &[Ctx::Hash],
            OldSub::Miss => &[Ctx::Miss, Ctx::MissBereq],
            OldSub::Hit => &[Ctx::Hit],
            OldSub::Fetch => &[Ctx::Fetch],
            OldSub::Deliver => &[Ctx::Deliver],
            OldSub::Error => &[Ctx::Error],
            OldSub::Init => &[Ctx::Init],
            OldSub::Fini => &[Ctx::Fini],
            OldSub::Prefetch | OldSub::Timeout | OldSub::Discard => &[],
        }
    }

    /// Only what is said of `bereq` counts here.
    pub fn only_bereq(self) -> bool {
        matches!(self, Ctx::PassBereq | Ctx::MissBereq)
    }

    /// On the backend side.
    pub fn backend(self) -> bool {
        self.only_bereq() || self == Ctx::Fetch
    }

    /// In the name of a user's subroutine that differs by context.
    fn suffix(self) -> &'static str {
        match self {
            Ctx::Recv => "recv",
            Ctx::Pipe => "pipe",
            Ctx::Pass => "pass",
            Ctx::PassBereq => "pass_bereq",
            Ctx::Hash => "hash",
            Ctx::Miss => "miss",
            Ctx::MissBereq => "miss_bereq",
            Ctx::Hit => "hit",
            Ctx::Fetch => "fetch",
            Ctx::Deliver => "deliver",
            Ctx::Error => "error",
            Ctx::Init => "init",
            Ctx::Fini => "fini",
        }
    }

    /// The subroutine's name now.
    fn name_now(self) -> &'static str {
        match self {
            Ctx::Fetch => "vcl_backend_response",
            Ctx::Error => "vcl_synth",
            Ctx::PassBereq | Ctx::MissBereq => "vcl_backend_fetch",
            other => other.sub().name(),
        }
    }
}

/// What became of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) enum Kept {
    /// Nothing is left of it.
    No,
    /// It is there, but does nothing that counts by itself.
    Weak,
    Yes,
}

/// A user's subroutine in one context: its name now, or none when nothing of it is left there.
type Variants = HashMap<(String, Ctx), Option<String>>;

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
    pub variants: Variants,
    /// Fields of the request that vcl_hit sets.
    pub hit_fields: BTreeSet<String>,
    /// No blanks before the next token: it follows a bracket of ours.
    pub tight: bool,
    /// No notes: what is looked at isn't written.
    pub quiet: bool,
    notes: Vec<(u32, u32, Note)>,
    depth: u32,
}

/// A top-level declaration: where its items begin and end.
#[derive(Clone, Copy, Debug)]
struct Decl {
    from: usize,
    to: usize,
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
        variants: Variants::new(),
        hit_fields: BTreeSet::new(),
        tight: false,
        quiet: false,
        notes: Vec::new(),
        depth: 0,
    };
    w.find_directors();
    w.find_hit_fields();
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
    let mut out = Out::default();
    out.own(&w.head());
    for (n, part) in parts.iter().enumerate() {
        if n == first_sub {
            let end = if out.text.ends_with(b"\n") { "\n" } else { "\n\n" };
            out.own(end);
            late_directors.iter().for_each(|init| out.append(init));
            out.own(&w.policy.before(&default_backend));
        }
        out.append(part);
    }
    if first_sub >= parts.len() {
        out.own(&w.policy.before(&default_backend));
    }
    if !out.text.ends_with(b"\n") {
        out.own("\n");
    }
    out.own(&w.policy.after());
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
    // --- items

    pub fn item(&self) -> Item {
        self.items[self.at.min(self.items.len() - 1)]
    }

    pub fn tok(&self) -> Tok {
        self.item().tok().unwrap_or(Tok::End)
    }

    /// The index of the token after `at`.
    pub fn after(&self, at: usize) -> usize {
        let mut n = at + 1;
        while n < self.items.len() && self.items[n].tok().is_none() {
            n += 1;
        }
        n.min(self.items.len() - 1)
    }

    pub fn tok_at(&self, at: usize) -> Tok {
        self.items[at.min(self.items.len() - 1)].tok().unwrap_or(Tok::End)
    }

    pub fn text_at(&self, at: usize) -> &str {
        let item = &self.items[at.min(self.items.len() - 1)];
        self.slice(item.src, item.start, item.end)
    }

    pub fn slice(&self, src: u32, from: u32, to: u32) -> &str {
        std::str::from_utf8(&self.sources[src as usize].text[from as usize..to as usize]).unwrap_or("?")
    }

    pub fn word(&self) -> &str {
        self.text_at(self.at)
    }

    pub fn is(&self, word: &str) -> bool {
        self.tok() == Tok::Id && self.word() == word
    }

    pub fn is_c(&self, c: u8) -> bool {
        self.tok() == Tok::C(c)
    }

    /// The blanks and comments before the current item.
    fn gap(&mut self) {
        let i = self.item();
        let tight = std::mem::take(&mut self.tight);
        if tight && self.slice(i.src, i.gap, i.start).trim().is_empty() {
            return;
        }
        self.out.verbatim(i.src, &self.sources[i.src as usize].text, i.gap, i.start);
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.items.len() - 1);
        self.pass_pseudo();
    }

    fn pass_pseudo(&mut self) {
        while let Kind::Include | Kind::Eof = self.item().kind {
            let i = self.item();
            self.gap();
            match i.kind {
                Kind::Include => {
                    let path = self.slice(i.src, i.start, i.end).replace('\n', " ");
                    self.out.instead(i.src, i.start, i.end, &format!("# --- {path}\n"));
                }
                Kind::Eof => self.out.own("\n# --- end of include\n"),
                Kind::Tok(_) => {}
            }
            self.at += 1;
        }
    }

    /// Writes the current token as it is.
    pub fn keep(&mut self) {
        self.gap();
        let i = self.item();
        self.out.verbatim(i.src, &self.sources[i.src as usize].text, i.start, i.end);
        self.advance();
    }

    /// Writes other words for the current token.
    pub fn put(&mut self, new: &str) {
        if new == self.word() {
            return self.keep();
        }
        self.gap();
        let i = self.item();
        self.out.instead(i.src, i.start, i.end, new);
        self.advance();
    }

    /// Writes nothing for the current token; a comment before it stays.
    pub fn skip(&mut self) {
        let i = self.item();
        let gap = &self.sources[i.src as usize].text[i.gap as usize..i.start as usize];
        if gap.iter().any(|c| !c.is_ascii_whitespace()) {
            self.gap();
        }
        self.advance();
    }

    /// Writes other words for the tokens from the current to `last`.
    pub fn put_until(&mut self, last: usize, new: &str) {
        let (first, end) = (self.item(), self.items[last]);
        let to = if first.src == end.src { end.end } else { first.end };
        self.gap();
        self.out.instead(first.src, first.start, to, new);
        self.advance();
        while self.at <= last && self.tok() != Tok::End {
            self.skip();
        }
    }

    /// Writes words that come from the current token's place.
    pub fn insert(&mut self, new: &str) {
        let i = self.item();
        self.out.instead(i.src, i.start, i.end, new);
    }

    /// Like [`Walker::insert`], after the current token's blanks.
    pub fn insert_after_gap(&mut self, new: &str) {
        let i = self.item();
        self.gap();
        self.insert(new);
        // Its blanks are written: the token follows at once.
        let text = &self.sources[i.src as usize].text;
        self.out.verbatim(i.src, text, i.start, i.end);
        self.advance();
    }

    pub fn expect(&mut self, tok: Tok) -> R {
        if self.tok() == tok {
            return Ok(());
        }
        let found = if self.tok() == Tok::End { "end of input".to_owned() } else { format!("'{}'", self.word()) };
        self.fail(&format!("Expected {} got {found}\nat\n", tok.expected()))
    }

    /// Writes the current token, which must be this.
    pub fn keep_c(&mut self, c: u8) -> R {
        self.expect(Tok::C(c))?;
        self.keep();
        Ok(())
    }

    pub fn place(&self, at: usize) -> (u32, u32, u32) {
        let i = &self.items[at.min(self.items.len() - 1)];
        (i.src, i.start, i.end)
    }

    pub fn fail<T>(&self, text: &str) -> R<T> {
        Err(Fail::at(text, self.place(self.at)))
    }

    pub fn fail_range<T>(&self, text: &str, first: usize, last: usize) -> R<T> {
        let (src, start, end) = self.place(first);
        let (other, _, to) = self.place(last);
        Err(Fail::at(text, (src, start, if other == src { to } else { end })))
    }

    pub fn enter(&mut self) -> R {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("Too deeply nested.\n");
        }
        self.bounded(self.out.text.len())
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    fn bounded(&self, bytes: usize) -> R {
        if bytes > MAX_OUT {
            return Err(Fail::plain(format!("VCL is too large: more than {MAX_OUT} bytes when translated\n")));
        }
        Ok(())
    }

    // --- notes

    /// Notes that the tokens `first..=last` became `new`.
    pub fn note(&mut self, first: usize, last: usize, new: &str, why: &str) {
        self.note_as(first, last, new, why, false);
    }

    /// Like [`Walker::note`], of something that may act differently.
    pub fn warn(&mut self, first: usize, last: usize, new: &str, why: &str) {
        self.note_as(first, last, new, why, true);
    }

    fn note_as(&mut self, first: usize, last: usize, new: &str, why: &str, warning: bool) {
        if self.quiet {
            return;
        }
        let (a, b) = (self.items[first], self.items[last]);
        let old = if a.src == b.src { self.slice(a.src, a.start, b.end.max(a.end)) } else { self.text_at(first) };
        let source = &self.sources[a.src as usize];
        let note = Note {
            source: source.name.clone(),
            line: line_and_pos(&source.text, a.start as usize).0,
            old: shorten(old),
            new: new.to_owned(),
            why: why.to_owned(),
            warning,
        };
        if !self.notes.iter().any(|(_, at, n)| *at == a.start && *n == note) {
            self.notes.push((a.src, a.start, note));
        }
    }

    /// The dotted name that begins at `at`, in lower case up to a field's name, and its last item.
    pub fn dotted(&self, at: usize) -> (String, usize) {
        let (mut name, mut last) = (self.text_at(at).to_owned(), at);
        loop {
            let point = self.after(last);
            let part = self.after(point);
            if self.tok_at(point) != Tok::C(b'.') || self.tok_at(part) != Tok::Id {
                return (name, last);
            }
            name.push('.');
            name.push_str(self.text_at(part));
            last = part;
        }
    }

    // --- subroutines

    /// The index of the `}` that ends the block whose `{` is at `open`.
    pub fn block_end(&self, open: usize) -> usize {
        let mut depth = 0u32;
        let mut at = open;
        while at < self.items.len() {
            match self.items[at].kind {
                Kind::Tok(Tok::C(b'{')) => depth += 1,
                Kind::Tok(Tok::C(b'}')) => {
                    depth -= 1;
                    if depth == 0 {
                        return at;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.items.len() - 1
    }

    /// Each subroutine: its name and its body's braces.
    fn subs(&self) -> Vec<(String, Decl)> {
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
                    found.push((self.text_at(name).to_owned(), Decl { from: open, to }));
                    at = to;
                }
            }
            at += 1;
        }
        found
    }

    /// Translates the user's own subroutines for each place they are called from, the called before the calling.
    fn translate_user_subs(&mut self) -> R {
        let subs = self.subs();
        let machine = |name: &str| OldSub::ALL.into_iter().find(|sub| sub.name() == name);
        let calls: Vec<(String, Vec<String>)> = subs
            .iter()
            .map(|(name, body)| {
                let called = (body.from..body.to).filter(|n| self.tok_at(*n) == Tok::Id && self.text_at(*n) == "call");
                (name.clone(), called.map(|n| self.text_at(self.after(n)).to_owned()).collect())
            })
            .collect();
        // Who runs where: what is called runs wherever its callers do.
        let mut runs: HashMap<String, BTreeSet<Ctx>> = HashMap::new();
        for (name, _) in &subs {
            if let Some(sub) = machine(name) {
                runs.entry(name.clone()).or_default().extend(Ctx::of(sub));
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
                break;
            }
        }
        let own: Vec<&(String, Decl)> = subs.iter().filter(|(name, _)| machine(name).is_none()).collect();
        let mut done: BTreeSet<String> = BTreeSet::new();
        // In rounds; what calls in a circle comes last, and the compiler says so.
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

    /// Finds which texts a user's subroutine has, and names them.
    fn user_sub(&mut self, name: &str, body: Decl, runs: Option<&BTreeSet<Ctx>>) -> R {
        let base = self.names.now(Of::Sub, name);
        let mut texts: Vec<(Vec<u8>, String)> = Vec::new();
        for ctx in runs.into_iter().flatten() {
            let (kept, out) = self.body(body, *ctx)?;
            let key = (name.to_owned(), *ctx);
            if ctx.only_bereq() && kept != Kept::Yes {
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

    /// A block translated for a context.
    fn body(&mut self, body: Decl, ctx: Ctx) -> R<(Kept, Out)> {
        let (at, outer, out) = (self.at, self.ctx, std::mem::take(&mut self.out));
        (self.at, self.ctx) = (body.from, ctx);
        let kept = self.block();
        let made = std::mem::replace(&mut self.out, out);
        (self.at, self.ctx) = (at, outer);
        Ok((kept?, made))
    }

    /// `sub NAME { ... }`
    pub fn sub_decl(&mut self) -> R {
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
        let body = Decl { from: open, to: self.block_end(open) };
        let machine = OldSub::ALL.into_iter().find(|sub| sub.name() == name);
        let sub = self.gap_text();
        match machine {
            Some(sub_kind) if Ctx::of(sub_kind).is_empty() => {
                self.warn(first, name_at, "", "the machine of 2.0 never did anything with it");
                self.drop_until(body.to);
            }
            Some(sub_kind) => {
                let mut any = false;
                for ctx in Ctx::of(sub_kind) {
                    let (kept, made) = self.body(body, *ctx)?;
                    if (ctx.only_bereq() && kept != Kept::Yes) || (made_nothing(&made, kept) && has_bereq_part(*ctx)) {
                        continue;
                    }
                    self.write_sub(&sub, *ctx, ctx.name_now(), &made, any, first, name_at);
                    any = true;
                }
                if !any {
                    self.out.own(&sub);
                }
                self.at = body.to;
                self.advance();
            }
            None => {
                let all: Vec<(Ctx, Option<String>)> = self
                    .variants
                    .iter()
                    .filter(|((n, _), _)| *n == name)
                    .map(|((_, ctx), now)| (*ctx, now.clone()))
                    .collect();
                let mut by_name: BTreeMap<String, Ctx> = BTreeMap::new();
                for (ctx, now) in all {
                    if let Some(now) = now {
                        let entry = by_name.entry(now).or_insert(ctx);
                        *entry = (*entry).min(ctx);
                    }
                }
                if by_name.is_empty() {
                    // Called from nowhere: the compiler says so.
                    by_name.insert(self.names.now(Of::Sub, &name), self.likely(body));
                }
                let mut any = false;
                for (now, ctx) in by_name {
                    let (_, made) = self.body(body, ctx)?;
                    self.write_user_sub(&sub, &now, &made, any, first, name_at);
                    any = true;
                }
                self.at = body.to;
                self.advance();
            }
        }
        Ok(())
    }

    /// Where a subroutine that nothing calls could run, by its words.
    fn likely(&self, body: Decl) -> Ctx {
        let first = (body.from..body.to).filter(|n| self.tok_at(*n) == Tok::Id).find_map(|n| match self.text_at(n) {
            "beresp" => Some(Ctx::Fetch),
            "bereq" => Some(Ctx::Pipe),
            "resp" => Some(Ctx::Deliver),
            "obj" => Some(Ctx::Error),
            "hash_data" => Some(Ctx::Hash),
            _ => None,
        });
        first.unwrap_or(Ctx::Recv)
    }

    fn write_user_sub(&mut self, gap: &str, now: &str, made: &Out, again: bool, first: usize, name_at: usize) {
        let (src, start, end) = (self.items[first].src, self.items[first].start, self.items[name_at].end);
        self.out.own(if again { "\n\n" } else { gap });
        self.out.instead(src, start, end, &format!("sub {now}"));
        self.out.append(made);
        if now != self.text_at(name_at) {
            let why = if again {
                "it is called on both sides, and what it says means something else on each"
            } else {
                "the name is taken, or reserved"
            };
            self.note(first, name_at, &format!("sub {now}"), why);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn write_sub(&mut self, gap: &str, ctx: Ctx, now: &str, made: &Out, again: bool, first: usize, name_at: usize) {
        let (src, start, end) = (self.items[first].src, self.items[first].start, self.items[name_at].end);
        self.out.own(if again { "\n\n" } else { gap });
        if ctx.only_bereq() {
            let guard = if ctx == Ctx::MissBereq { "!bereq.uncacheable" } else { "bereq.uncacheable" };
            self.out.instead(src, start, end, &format!("sub {now} {{\n    if ({guard})"));
            self.out.append(made);
            self.out.own("\n}");
            let why = "the request to the origin is made after vcl_miss and vcl_pass now: what they say of bereq is said in \
                       vcl_backend_fetch";
            self.note(first, name_at, &format!("sub {now}"), why);
            return;
        }
        self.out.instead(src, start, end, &format!("sub {now}"));
        self.out.append(made);
        match ctx {
            Ctx::Fetch => {
                let why = "the fetch is a task of its own, and its request is bereq";
                self.note(first, name_at, &format!("sub {now}"), why);
            }
            Ctx::Error => {
                let why = "a response made here is resp now; failed fetches come here too, through vcl_backend_error and \
                           vcl_deliver";
                self.note(first, name_at, &format!("sub {now}"), why);
            }
            _ => {}
        }
    }

    /// The blanks and comments before the current item.
    fn gap_text(&self) -> String {
        let i = self.item();
        self.slice(i.src, i.gap, i.start).to_owned()
    }

    /// Writes nothing up to and with item `last`.
    pub fn drop_until(&mut self, last: usize) {
        let mark = self.out.mark();
        while self.at <= last && self.tok() != Tok::End {
            self.advance();
        }
        self.out.rollback(mark);
    }

    /// What was written since, as text.
    pub fn written(&self, mark: Mark) -> String {
        String::from_utf8_lossy(self.out.since(mark)).into_owned()
    }

    fn find_hit_fields(&mut self) {
        for (name, body) in self.subs() {
            if name != OldSub::Hit.name() {
                continue;
            }
            let sets = (body.from..body.to).filter(|n| self.tok_at(*n) == Tok::Id && self.text_at(*n) == "set");
            let names = sets.map(|n| self.dotted(self.after(n)).0.to_ascii_lowercase());
            self.hit_fields.extend(names.filter(|name| name.starts_with("req.http.")).collect::<Vec<_>>());
        }
    }

    fn find_directors(&mut self) {
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

    /// What a director or backend is called in an expression.
    pub fn backend_now(&mut self, name: &str) -> String {
        let now = self.names.now(Of::Backend, name);
        let req = if self.ctx.backend() { "bereq" } else { "req" };
        match self.directors.get(name).map(String::as_str) {
            Some("hash") => format!("{now}.backend({req}.url + {req}.http.host)"),
            Some("client") => format!("{now}.backend(client.identity)"),
            Some(_) => format!("{now}.backend()"),
            None => now,
        }
    }

    /// The backend that requests have unless VCL says otherwise.
    fn default_backend(&mut self) -> String {
        let declared = &self.names.declared;
        let first = declared.iter().filter(|((of, _), _)| *of == Of::Backend).min_by_key(|(_, at)| **at);
        let first = first.map_or_else(|| "default".to_owned(), |((_, name), _)| name.clone());
        let name = if self.names.is(Of::Backend, "default") { "default".to_owned() } else { first };
        self.policy.default_is_director = self.directors.contains_key(&name) && name == "default";
        self.ctx = Ctx::Recv;
        if self.directors.contains_key(&name) && name != "default" {
            // Its first member stood for it, as it does now.
            return self.inline_member(&name);
        }
        self.backend_now(&name)
    }

    /// `vcl 4.1;` and the modules that the translation uses.
    fn head(&self) -> String {
        let mut head = "vcl 4.1;\n".to_owned();
        for (used, name) in
            [(!self.directors.is_empty(), "directors"), (self.policy.purge, "purge"), (self.policy.std, "std")]
        {
            if used {
                head.push_str(&format!("import {name};\n"));
            }
        }
        head.push('\n');
        head
    }
}

/// Whether a subroutine's part on the client side is empty.
fn made_nothing(_: &Out, kept: Kept) -> bool {
    kept == Kept::No
}

fn has_bereq_part(ctx: Ctx) -> bool {
    matches!(ctx, Ctx::Miss | Ctx::Pass)
}

/// One line, not too long.
fn shorten(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 100 {
        line = line.chars().take(97).collect::<String>() + "...";
    }
    line
}
