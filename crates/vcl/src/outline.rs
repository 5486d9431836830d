// SPDX-License-Identifier: BSD-2-Clause
//! The declarations of a text and their places, for editors. It tolerates unfinished text.

use std::ops::Range;

use crate::odd::to_ascii_in_place;
use crate::token::{Tok, Token, lex};

pub use crate::backends::BACKEND_FIELDS;
pub use crate::backends::PROBE_FIELDS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DeclarationKind {
    Acl,
    Backend,
    /// Only in VCL before 4.0.
    Director,
    Import,
    Object,
    Probe,
    Sub,
}

impl DeclarationKind {
    pub fn word(self) -> &'static str {
        match self {
            DeclarationKind::Acl => "acl",
            DeclarationKind::Backend => "backend",
            DeclarationKind::Director => "director",
            DeclarationKind::Import => "import",
            DeclarationKind::Object => "new",
            DeclarationKind::Probe => "probe",
            DeclarationKind::Sub => "sub",
        }
    }
}

/// A declaration. Ranges are in bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    pub kind: DeclarationKind,
    pub name: String,
    /// An import's module (`std`); an object's type (`directors.hash`); else empty.
    pub of: String,
    pub at: Range<usize>,
    /// Range from its first word to its closing bracket or semicolon, or to the end of the text.
    pub whole: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludeStatement {
    pub path: String,
    /// True for a pattern (`include +glob`).
    pub glob: bool,
    pub at: Range<usize>,
}

#[derive(Debug, Clone, Default)]
pub struct Outline {
    pub declarations: Vec<Declaration>,
    pub includes: Vec<IncludeStatement>,
    /// True if the text declares its version, so it isn't a fragment for inclusion.
    pub versioned: bool,
    tokens: Vec<Token>,
    /// Unreadable ranges, each up to the end of its line.
    unread: Vec<Range<usize>>,
}

/// A dotted name where it is used or declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DottedName {
    /// Range of the whole dotted name.
    pub at: Range<usize>,
    /// Range up to its first dot.
    pub first: Range<usize>,
    /// True for an attribute (`.host`) or an argument's name (`f(name = 1)`).
    pub inner: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    pub name: String,
    /// Number of commas before the cursor.
    pub arg: usize,
    pub named: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorContext {
    /// Range of the dotted name that the cursor touches; empty if there is none.
    pub name: Range<usize>,
    /// Tokens of the statement before that name.
    pub before: Vec<String>,
    pub sub: Option<String>,
    /// The enclosing declaration if that isn't a subroutine.
    pub block: Option<DeclarationKind>,
    /// True inside a string or an unreadable range.
    pub in_string: bool,
    pub in_comment: bool,
}

impl Outline {
    pub fn parse(text: &[u8]) -> Outline {
        let (tokens, unread) = patient_tokens(text);
        let mut outline = Outline { tokens, unread, ..Outline::default() };
        let ends = outline.ends(text);
        let mut at = 0;
        while at < outline.tokens.len() {
            at = outline.declaration(text, at, &ends);
        }
        outline
    }

    /// Reads the declaration at token `at` and returns the index after it.
    fn declaration(&mut self, text: &[u8], at: usize, ends: &[usize]) -> usize {
        let word = |n: usize| self.tokens.get(n).map_or(&b""[..], |t| bytes(text, t));
        let kind = match word(at) {
            b"acl" => DeclarationKind::Acl,
            b"backend" => DeclarationKind::Backend,
            b"director" => DeclarationKind::Director,
            b"import" => DeclarationKind::Import,
            b"new" => DeclarationKind::Object,
            b"probe" => DeclarationKind::Probe,
            b"sub" => DeclarationKind::Sub,
            b"vcl" => {
                self.versioned |= matches!(self.tokens.get(at + 1), Some(t) if matches!(t.tok, Tok::Real | Tok::Int));
                return at + 1;
            }
            b"include" => {
                let glob = word(at + 1) == b"+" && word(at + 2) == b"glob";
                let path = if glob { at + 3 } else { at + 1 };
                if let Some(token) = self.tokens.get(path).filter(|t| t.tok == Tok::Str) {
                    let range = range(token);
                    let quote = usize::from(token.quote);
                    let inner = &text[range.start + quote..range.end - quote];
                    self.includes.push(IncludeStatement { path: lossy(inner), glob, at: range });
                }
                return at + 1;
            }
            _ => return at + 1,
        };
        let Some(name) = self.tokens.get(at + 1).copied().filter(|t| t.tok == Tok::Id) else { return at + 1 };
        let (mut shown, mut of) = (name, String::new());
        match kind {
            DeclarationKind::Import => {
                of = lossy(bytes(text, &name));
                if word(at + 2) == b"as"
                    && let Some(alias) = self.tokens.get(at + 3)
                {
                    shown = *alias;
                }
            }
            DeclarationKind::Object => {
                let parts =
                    self.tokens[at + 2..].iter().take(MAX_PARTS).map(|t| bytes(text, t)).skip_while(|w| *w == b"=");
                of = lossy(&parts.take_while(|w| !matches!(*w, b"(" | b";")).collect::<Vec<_>>().concat());
            }
            _ => {}
        }
        let end = ends[at + 1].max(at + 1);
        let whole = self.tokens[at].start as usize..self.tokens[end].end as usize;
        self.declarations.push(Declaration { kind, name: lossy(bytes(text, &shown)), of, at: range(&shown), whole });
        // Objects are declared inside subroutines.
        if kind == DeclarationKind::Sub { at + 2 } else { end + 1 }
    }

    /// For each token, the end of a declaration that begins before it and has no mark yet: the first `;`, or the end of
    /// the first block. A subroutine whose end is missing ends before the next declaration.
    fn ends(&self, text: &[u8]) -> Vec<usize> {
        let last = self.tokens.len().saturating_sub(1);
        let (mut open, mut closes) = (Vec::new(), vec![last; self.tokens.len()]);
        for (n, token) in self.tokens.iter().enumerate() {
            match token.tok {
                Tok::C(b'{') => open.push(n),
                Tok::C(b'}') => {
                    if let Some(at) = open.pop() {
                        closes[at] = n;
                    }
                }
                Tok::Id if starts_line(text, token) && is_declaration(bytes(text, token)) => {
                    open.drain(..).for_each(|at| closes[at] = n - 1);
                }
                _ => {}
            }
        }
        let (mut ends, mut end) = (vec![last; self.tokens.len() + 1], last);
        for (n, token) in self.tokens.iter().enumerate().rev() {
            end = match token.tok {
                Tok::C(b'{') => closes[n],
                Tok::C(b';') => n,
                Tok::C(b'}') => n.saturating_sub(1),
                _ => end,
            };
            ends[n] = end;
        }
        ends
    }

    /// The surroundings of byte `at` of the same text.
    pub fn cursor_context(&self, text: &[u8], at: usize) -> CursorContext {
        let touching = |t: &Token| (t.start as usize) <= at && at <= t.end as usize;
        let first_after = self.tokens.partition_point(|t| (t.end as usize) < at);
        let here =
            self.tokens[first_after..].iter().position(|t| t.tok == Tok::Id && touching(t)).map(|n| n + first_after);
        let dot = || self.tokens[first_after..].iter().position(|t| t.tok == Tok::C(b'.') && t.end as usize == at);
        let here = here.or_else(|| dot().map(|n| n + first_after));
        let (mut first, mut name) = (self.tokens.partition_point(|t| t.end as usize <= at), at..at);
        if let Some(here) = here {
            let joined = |n: usize| n > 0 && self.tokens[n - 1].end == self.tokens[n].start;
            let part = |n: usize| matches!(self.tokens[n].tok, Tok::Id | Tok::C(b'.'));
            first = here;
            while joined(first) && part(first - 1) {
                first -= 1;
            }
            let mut last = here;
            while last + 1 < self.tokens.len() && joined(last + 1) && part(last + 1) {
                last += 1;
            }
            name = self.tokens[first].start as usize..self.tokens[last].end as usize;
        }
        let inside = |d: &&Declaration| d.whole.start < at && (at < d.whole.end || d.whole.end == text.len());
        let around = self.declarations.iter().filter(inside).find(|d| d.kind != DeclarationKind::Object);
        let in_string = self.tokens.iter().any(|t| t.tok == Tok::Str && (t.start as usize) < at && at < t.end as usize)
            || self.unread.iter().any(|part| part.start < at && at <= part.end);
        let begin =
            self.tokens[..first].iter().rposition(|t| matches!(t.tok, Tok::C(b';' | b'{' | b'}'))).map_or(0, |n| n + 1);
        CursorContext {
            name,
            before: self.tokens[begin..first].iter().map(|t| lossy(bytes(text, t))).collect(),
            sub: around.filter(|d| d.kind == DeclarationKind::Sub).map(|d| d.name.clone()),
            block: around.filter(|d| d.kind != DeclarationKind::Sub).map(|d| self.block_kind(d, at)),
            in_string,
            in_comment: !in_string && self.in_comment(text, at),
        }
    }

    /// The kind of the innermost braces around `at`: a probe may stand in a backend.
    fn block_kind(&self, around: &Declaration, at: usize) -> DeclarationKind {
        let inside = self.tokens.iter().filter(|t| t.start as usize >= around.whole.start && (t.end as usize) <= at);
        let depth = inside.fold(0usize, |depth, t| match t.tok {
            Tok::C(b'{') => depth + 1,
            Tok::C(b'}') => depth.saturating_sub(1),
            _ => depth,
        });
        if around.kind == DeclarationKind::Backend && depth > 1 { DeclarationKind::Probe } else { around.kind }
    }

    fn in_comment(&self, text: &[u8], at: usize) -> bool {
        let next = self.tokens.partition_point(|t| (t.end as usize) <= at);
        let from = if next == 0 { 0 } else { self.tokens[next - 1].end as usize };
        let to = self.tokens.get(next).map_or(text.len(), |t| t.start as usize);
        let mut here = from;
        while here < to.min(at) {
            let (open, len) = match &text[here..to] {
                gap @ ([b'#', ..] | [b'/', b'/', ..]) => {
                    (true, gap.iter().position(|c| *c == b'\n').unwrap_or(gap.len()) + 1)
                }
                gap @ [b'/', b'*', ..] => {
                    (true, gap.windows(2).skip(2).position(|w| w == b"*/").map_or(gap.len() + 1, |n| n + 4))
                }
                _ => (false, 1),
            };
            if open && here < at && at < here + len {
                return true;
            }
            here += len;
        }
        false
    }

    pub fn names(&self, text: &[u8]) -> Vec<DottedName> {
        let (mut out, mut at, mut parens) = (Vec::new(), 0, 0usize);
        while at < self.tokens.len() {
            let token = &self.tokens[at];
            match token.tok {
                Tok::C(b'(') => parens += 1,
                Tok::C(b')') => parens = parens.saturating_sub(1),
                Tok::C(b';' | b'{' | b'}') => parens = 0,
                _ => {}
            }
            if token.tok != Tok::Id {
                at += 1;
                continue;
            }
            let dotted = at > 0 && self.tokens[at - 1].tok == Tok::C(b'.');
            let mut last = at;
            while last + 2 < self.tokens.len()
                && bytes(text, &self.tokens[last + 1]) == b"."
                && self.tokens[last + 2].tok == Tok::Id
                && self.tokens[last].end == self.tokens[last + 1].start
                && self.tokens[last + 1].end == self.tokens[last + 2].start
            {
                last += 2;
            }
            let argument = parens > 0 && last == at && self.tokens.get(at + 1).is_some_and(|t| t.tok == Tok::C(b'='));
            out.push(DottedName {
                at: token.start as usize..self.tokens[last].end as usize,
                first: range(token),
                inner: dotted || argument,
            });
            at = last + 1;
        }
        out
    }

    pub fn blocks(&self) -> Vec<Range<usize>> {
        let (mut open, mut out) = (Vec::new(), Vec::new());
        for token in &self.tokens {
            match token.tok {
                Tok::C(b'{') => open.push(token.start as usize),
                Tok::C(b'}') => out.extend(open.pop().map(|start| start..token.end as usize)),
                _ => {}
            }
        }
        out
    }

    pub fn call(&self, text: &[u8], at: usize) -> Option<OpenCall> {
        let end = self.tokens.partition_point(|t| (t.end as usize) <= at);
        let (mut depth, mut arg, mut first) = (0usize, 0usize, end);
        for n in (0..end).rev() {
            match self.tokens[n].tok {
                Tok::C(b')') => depth += 1,
                Tok::C(b'(') if depth > 0 => depth -= 1,
                Tok::C(b'(') => {
                    first = if arg == 0 { n + 1 } else { first };
                    let mut begin = n;
                    while begin > 0
                        && matches!(self.tokens[begin - 1].tok, Tok::Id | Tok::C(b'.'))
                        && (begin == n || self.tokens[begin - 1].end == self.tokens[begin].start)
                    {
                        begin -= 1;
                    }
                    if begin == n {
                        return None;
                    }
                    let name = lossy(&text[self.tokens[begin].start as usize..self.tokens[n - 1].end as usize]);
                    let is_named = self.tokens.get(first + 1).is_some_and(|t| t.tok == Tok::C(b'='));
                    let named = self.tokens.get(first).filter(|t| is_named && t.tok == Tok::Id);
                    return Some(OpenCall { name, arg, named: named.map(|t| lossy(bytes(text, t))) });
                }
                Tok::C(b',') if depth == 0 => {
                    first = if arg == 0 { n + 1 } else { first };
                    arg += 1;
                }
                Tok::C(b';' | b'{' | b'}') => return None,
                _ => {}
            }
        }
        None
    }

    pub fn before(&self, at: usize) -> Option<Range<usize>> {
        self.tokens[..self.tokens.partition_point(|t| (t.end as usize) <= at)].last().map(range)
    }

    pub fn lacks_brace(&self) -> bool {
        let count = |c: u8| self.tokens.iter().filter(|t| t.tok == Tok::C(c)).count();
        count(b'}') > count(b'{')
    }

    /// An edit that removes the mistake at byte `at` so that the rest can be read: a range and its replacement. Removes
    /// only statements of subroutines that declare nothing, conditions, and lines of an ACL, a backend or a probe.
    pub fn without(&self, text: &[u8], at: usize) -> Option<(Range<usize>, &'static str)> {
        let has_lines = |kind| {
            matches!(
                kind,
                DeclarationKind::Sub | DeclarationKind::Acl | DeclarationKind::Backend | DeclarationKind::Probe
            )
        };
        let around = |d: &&Declaration| has_lines(d.kind) && d.whole.contains(&at);
        let sub = self.declarations.iter().find(around)?;
        let ends = |t: &Token| matches!(t.tok, Tok::C(b';' | b'{' | b'}'));
        let here = self.tokens.partition_point(|t| (t.end as usize) <= at);
        let first = self.tokens[..here].iter().rposition(ends).map_or(0, |n| n + 1);
        let last = self.tokens[here..].iter().position(ends).map(|n| n + here)?;
        let (begin, end) = (self.tokens.get(first)?, &self.tokens[last]);
        if (begin.start as usize) <= sub.at.end || end.end as usize > sub.whole.end || bytes(text, begin) == b"new" {
            return None;
        }
        match end.tok {
            Tok::C(b';') => Some((begin.start as usize..end.end as usize, "")),
            Tok::C(b'{') if sub.kind == DeclarationKind::Sub => {
                let open = self.tokens[first..last].iter().find(|t| t.tok == Tok::C(b'('))?;
                // If it isn't closed, the place of its brace is kept.
                let close = self.tokens[last - 1];
                let closed = close.tok == Tok::C(b')') && at < close.start as usize && self.balanced(first, last);
                let stretch = open.end as usize..if closed { close.start as usize } else { end.start as usize };
                let with = if closed { "true" } else { "true)" };
                (stretch.len() >= with.len() && stretch.start <= at).then_some((stretch, with))
            }
            _ => None,
        }
    }

    fn balanced(&self, first: usize, last: usize) -> bool {
        let depth = self.tokens[first..last].iter().try_fold(0usize, |depth, t| match t.tok {
            Tok::C(b'(') => Some(depth + 1),
            Tok::C(b')') => depth.checked_sub(1),
            _ => Some(depth),
        });
        depth == Some(0)
    }
}

fn bytes<'a>(text: &'a [u8], token: &Token) -> &'a [u8] {
    &text[token.start as usize..token.end as usize]
}

fn range(token: &Token) -> Range<usize> {
    token.start as usize..token.end as usize
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_declaration(word: &[u8]) -> bool {
    matches!(word, b"acl" | b"backend" | b"director" | b"import" | b"include" | b"probe" | b"sub")
}

fn starts_line(text: &[u8], token: &Token) -> bool {
    token.start == 0 || text[token.start as usize - 1] == b'\n'
}

const MAX_PARTS: usize = 8;
/// Maximum number of unreadable lines; each means reading the rest of the text again.
const MAX_UNREAD: usize = 1000;

/// The tokens of `text`, with non-ASCII characters read as their ASCII replacements, and the skipped ranges: each from
/// the place where its line can't be read.
pub(crate) fn patient_tokens(text: &[u8]) -> (Vec<Token>, Vec<Range<usize>>) {
    let text = &*to_ascii_in_place(text);
    let (mut out, mut unread, mut from) = (Vec::new(), Vec::new(), 0usize);
    while unread.len() < MAX_UNREAD {
        let first = out.len();
        let result = lex(&text[from..], 0, &mut Vec::new(), &mut out);
        for token in &mut out[first..] {
            token.start += from as u32;
            token.end += from as u32;
        }
        let Err(error) = result else { break };
        let at = from + error.first_place().map_or(0, |(_, start, _)| start as usize);
        let end = text[at..].iter().position(|c| *c == b'\n').map_or(text.len(), |n| at + n);
        unread.push(at..end);
        out.extend(structure(text, at, end));
        if end == text.len() {
            break;
        }
        from = end + 1;
    }
    out.retain(|t| t.tok != Tok::End);
    (out, unread)
}

/// The tokens that preserve the structure of a line that is unreadable from `at` on: braces whose partners are on other
/// lines, a block, or the statement's end.
fn structure(text: &[u8], at: usize, end: usize) -> Vec<Token> {
    let line = &text[at..end];
    let ends = |line: &[u8]| line.trim_ascii_end().last().copied().filter(|c| matches!(c, b'{' | b'}' | b';'));
    let comment = (1..line.len()).rev().find(|n| line[*n] == b'#' || line[*n..].starts_with(b"//"));
    let line = comment.map(|n| &line[..n]).filter(|code| ends(code).is_some()).unwrap_or(line);
    let token = |n: usize| Token {
        tok: Tok::C(line[n]),
        quote: 0,
        src: 0,
        start: (at + n) as u32,
        end: (at + n + 1) as u32,
        num: 0.0,
    };
    let all = |c: u8| (0..line.len()).filter(move |n| line[*n] == c);
    let (opened, closed) = (all(b'{').count(), all(b'}').count());
    let places: Vec<usize> = match ends(line) {
        _ if opened > closed => all(b'{').skip(closed).collect(),
        _ if closed > opened => all(b'}').skip(opened).collect(),
        Some(b'}') => all(b'{').next().into_iter().chain(all(b'}').next_back()).collect(),
        Some(b';') => all(b';').next_back().into_iter().collect(),
        _ => Vec::new(),
    };
    places.into_iter().map(token).collect()
}

#[cfg(test)]
#[path = "tests/outline.rs"]
mod tests;
