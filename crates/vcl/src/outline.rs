// SPDX-License-Identifier: BSD-2-Clause
//! What a text declares and where, read with patience: for editors, whose texts are often half-written.

use std::ops::Range;

use crate::token::{LexError, Tok, Token, lex};

/// Attributes of a backend, without their dot.
pub use crate::backends::BACKEND_FIELDS;
/// Attributes of a probe, without their dot.
pub use crate::backends::PROBE_FIELDS;

/// What is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Acl,
    Backend,
    Import,
    Object,
    Probe,
    Sub,
}

impl Kind {
    /// The word in VCL that declares it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Acl => "acl",
            Kind::Backend => "backend",
            Kind::Import => "import",
            Kind::Object => "new",
            Kind::Probe => "probe",
            Kind::Sub => "sub",
        }
    }
}

/// A declaration. Ranges are of bytes in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// What it declares.
    pub kind: Kind,
    /// The name it gives.
    pub name: String,
    /// An import's module (`std`); an object's type (`directors.hash`); else empty.
    pub of: String,
    /// Where the name stands.
    pub at: Range<usize>,
    /// From its first word to its closing bracket or semicolon, or as far as the text goes.
    pub whole: Range<usize>,
}

/// An `include`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// The file, as written.
    pub path: String,
    /// Whether it is a pattern (`include +glob`).
    pub glob: bool,
    /// Where the path stands, quotes and all.
    pub at: Range<usize>,
}

/// What a text declares.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// In order.
    pub declarations: Vec<Declaration>,
    /// In order.
    pub includes: Vec<Include>,
    /// Whether the text says its version: it is no fragment that others include.
    pub versioned: bool,
    tokens: Vec<Token>,
}

/// Where a cursor stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The dotted name that it touches, from its beginning to its end; empty when there is none.
    pub name: Range<usize>,
    /// The words and signs of the statement before that name.
    pub before: Vec<String>,
    /// The subroutine around it.
    pub sub: Option<String>,
    /// The declaration around it when that isn't a subroutine.
    pub block: Option<Kind>,
    /// It stands in a string.
    pub in_string: bool,
}

impl Outline {
    /// Reads `text`; what can't be understood is passed over.
    pub fn of(text: &[u8]) -> Outline {
        let mut outline = Outline { tokens: patient_tokens(text), ..Outline::default() };
        let mut at = 0;
        while at < outline.tokens.len() {
            at = outline.declaration(text, at);
        }
        outline
    }

    /// Reads what begins at token `at`, and gives where to go on.
    fn declaration(&mut self, text: &[u8], at: usize) -> usize {
        let word = |n: usize| self.tokens.get(n).map_or(&b""[..], |t| bytes(text, t));
        let kind = match word(at) {
            b"acl" => Kind::Acl,
            b"backend" => Kind::Backend,
            b"import" => Kind::Import,
            b"new" => Kind::Object,
            b"probe" => Kind::Probe,
            b"sub" => Kind::Sub,
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
                    self.includes.push(Include { path: lossy(inner), glob, at: range });
                }
                return at + 1;
            }
            _ => return at + 1,
        };
        let Some(name) = self.tokens.get(at + 1).copied().filter(|t| t.tok == Tok::Id) else { return at + 1 };
        let (mut shown, mut of) = (name, String::new());
        match kind {
            Kind::Import => {
                of = lossy(bytes(text, &name));
                if word(at + 2) == b"as"
                    && let Some(alias) = self.tokens.get(at + 3)
                {
                    shown = *alias;
                }
            }
            Kind::Object => {
                let parts = self.tokens[at + 2..].iter().map(|t| bytes(text, t)).skip_while(|w| *w == b"=");
                of = lossy(&parts.take_while(|w| !matches!(*w, b"(" | b";")).collect::<Vec<_>>().concat());
            }
            _ => {}
        }
        let end = self.end_of(text, at, kind);
        let whole = self.tokens[at].start as usize..self.tokens[end].end as usize;
        self.declarations.push(Declaration { kind, name: lossy(bytes(text, &shown)), of, at: range(&shown), whole });
        // Objects are declared inside subroutines.
        if kind == Kind::Sub { at + 2 } else { end + 1 }
    }

    /// The last token of the declaration that begins at `at`.
    fn end_of(&self, text: &[u8], at: usize, kind: Kind) -> usize {
        let mut depth = 0usize;
        for (n, token) in self.tokens.iter().enumerate().skip(at + 1) {
            match token.tok {
                Tok::C(b'{') => depth += 1,
                Tok::C(b'}') if depth <= 1 => return if depth == 1 { n } else { n - 1 },
                Tok::C(b'}') => depth -= 1,
                Tok::C(b';') if depth == 0 => return n,
                // A subroutine whose end is missing ends before the next declaration.
                Tok::Id
                    if depth > 0
                        && kind != Kind::Object
                        && starts_line(text, token)
                        && is_declaration(bytes(text, token)) =>
                {
                    return n - 1;
                }
                _ => {}
            }
        }
        self.tokens.len() - 1
    }

    /// What stands at byte `at` of the same text.
    pub fn spot(&self, text: &[u8], at: usize) -> Spot {
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
        let around = self.declarations.iter().filter(inside).find(|d| d.kind != Kind::Object);
        let begin =
            self.tokens[..first].iter().rposition(|t| matches!(t.tok, Tok::C(b';' | b'{' | b'}'))).map_or(0, |n| n + 1);
        Spot {
            name,
            before: self.tokens[begin..first].iter().map(|t| lossy(bytes(text, t))).collect(),
            sub: around.filter(|d| d.kind == Kind::Sub).map(|d| d.name.clone()),
            block: around.filter(|d| d.kind != Kind::Sub).map(|d| d.kind),
            in_string: self.tokens.iter().any(|t| t.tok == Tok::Str && (t.start as usize) < at && at < t.end as usize),
        }
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
    matches!(word, b"acl" | b"backend" | b"import" | b"include" | b"probe" | b"sub")
}

fn starts_line(text: &[u8], token: &Token) -> bool {
    token.start == 0 || text[token.start as usize - 1] == b'\n'
}

/// The tokens of `text`; a line that has none is passed over.
fn patient_tokens(text: &[u8]) -> Vec<Token> {
    let (mut out, mut from) = (Vec::new(), 0usize);
    loop {
        let first = out.len();
        let result = lex(&text[from..], 0, &mut Vec::new(), &mut out);
        for token in &mut out[first..] {
            token.start += from as u32;
            token.end += from as u32;
        }
        match result {
            Ok(()) => break,
            Err(LexError(parts)) => {
                let at = from + parts.first().map_or(0, |(_, start, _)| *start as usize);
                match text[at..].iter().position(|c| *c == b'\n') {
                    Some(n) => from = at + n + 1,
                    None => break,
                }
            }
        }
    }
    out.retain(|t| t.tok != Tok::End);
    out
}

#[cfg(test)]
#[path = "tests/outline.rs"]
mod tests;
