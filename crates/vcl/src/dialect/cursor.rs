// SPDX-License-Identifier: BSD-2-Clause
//! The walker's steps over the tokens of an old program, each kept, replaced or deleted, and its notes.

use super::flat::{FlatItem, FlatItemKind};
use super::out::Mark;
use super::walk::Walker;
use super::{DialectResult, MigrationNote};
use crate::code::DiagnosticCode;
use crate::diag::DiagnosticDraft;
use crate::diag::line_and_pos;
use crate::token::Tok;

/// Maximum nesting of blocks and expressions.
const MAX_DEPTH: u32 = 80;
/// Maximum size of a translation, in bytes.
const MAX_OUT: usize = crate::vcc::MAX_SOURCE;

impl Walker<'_> {
    // --- items

    pub fn item(&self) -> FlatItem {
        self.items[self.at.min(self.items.len() - 1)]
    }

    pub fn tok(&self) -> Tok {
        self.item().tok().unwrap_or(Tok::End)
    }

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

    /// Writes the blanks and comments before the current item.
    pub fn gap(&mut self) {
        let i = self.item();
        let tight = std::mem::take(&mut self.tight);
        if tight && self.slice(i.src, i.gap, i.start).trim().is_empty() {
            return;
        }
        self.out.verbatim(i.src, &self.sources[i.src as usize].text, i.gap, i.start);
    }

    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.items.len() - 1);
        self.pass_pseudo();
    }

    pub fn pass_pseudo(&mut self) {
        while let FlatItemKind::Include | FlatItemKind::Eof = self.item().kind {
            let i = self.item();
            self.gap();
            match i.kind {
                FlatItemKind::Include => {
                    let path = self.slice(i.src, i.start, i.end).replace('\n', " ");
                    self.out.instead(i.src, i.start, i.end, &format!("# --- {path}\n"));
                }
                FlatItemKind::Eof => self.out.own("\n# --- end of include\n"),
                FlatItemKind::Tok(_) => {}
            }
            self.at += 1;
        }
    }

    pub fn keep(&mut self) {
        self.gap();
        let i = self.item();
        self.out.verbatim(i.src, &self.sources[i.src as usize].text, i.start, i.end);
        self.advance();
    }

    pub fn put(&mut self, new: &str) {
        if new == self.word() {
            return self.keep();
        }
        self.gap();
        let i = self.item();
        self.out.instead(i.src, i.start, i.end, new);
        self.advance();
    }

    /// Deletes the current token; a comment before it remains.
    pub fn skip(&mut self) {
        let i = self.item();
        let gap = &self.sources[i.src as usize].text[i.gap as usize..i.start as usize];
        if gap.iter().any(|c| !c.is_ascii_whitespace()) {
            self.gap();
        }
        self.advance();
    }

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

    pub fn insert(&mut self, new: &str) {
        let i = self.item();
        self.out.instead(i.src, i.start, i.end, new);
    }

    /// Like [`Walker::insert`], after the current token's blanks.
    pub fn insert_after_gap(&mut self, new: &str) {
        let i = self.item();
        self.gap();
        self.insert(new);
        // The blanks are written, so the next token follows directly.
        let text = &self.sources[i.src as usize].text;
        self.out.verbatim(i.src, text, i.start, i.end);
        self.advance();
    }

    pub fn expect(&mut self, tok: Tok) -> DialectResult {
        if self.tok() == tok {
            return Ok(());
        }
        let found = if self.tok() == Tok::End { "end of input".to_owned() } else { format!("'{}'", self.word()) };
        let code = if tok == Tok::C(b'{') { DiagnosticCode::MissingBrace } else { DiagnosticCode::Syntax };
        let fail =
            DiagnosticDraft::at(code, format!("Expected {} got {found}\nat\n", tok.expected()), self.place(self.at));
        Err(fail.hinted(self.hint_expected(tok)))
    }

    pub fn keep_c(&mut self, c: u8) -> DialectResult {
        self.expect(Tok::C(c))?;
        self.keep();
        Ok(())
    }

    pub fn place(&self, at: usize) -> (u32, u32, u32) {
        let i = &self.items[at.min(self.items.len() - 1)];
        (i.src, i.start, i.end)
    }

    pub fn fail<T>(&self, code: DiagnosticCode, text: &str) -> DialectResult<T> {
        Err(DiagnosticDraft::at(code, text, self.place(self.at)))
    }

    pub fn fail_range<T>(&self, code: DiagnosticCode, text: &str, first: usize, last: usize) -> DialectResult<T> {
        let (src, start, end) = self.place(first);
        let (other, _, to) = self.place(last);
        Err(DiagnosticDraft::at(code, text, (src, start, if other == src { to } else { end })))
    }

    pub fn enter(&mut self) -> DialectResult {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(DiagnosticCode::Limit, "Too deeply nested.\n");
        }
        self.bounded(self.out.text.len())
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    pub fn bounded(&self, bytes: usize) -> DialectResult {
        if bytes > MAX_OUT {
            let text = format!("VCL is too large: more than {MAX_OUT} bytes when translated\n");
            return Err(DiagnosticDraft::new(DiagnosticCode::Limit, text));
        }
        Ok(())
    }

    // --- notes

    pub fn note(&mut self, first: usize, last: usize, new: &str, reason: &str) {
        self.note_as(first, last, new, reason, false);
    }

    /// Like [`Walker::note`], for a change that may alter behaviour.
    pub fn warn(&mut self, first: usize, last: usize, new: &str, reason: &str) {
        self.note_as(first, last, new, reason, true);
    }

    pub fn note_as(&mut self, first: usize, last: usize, new: &str, reason: &str, warning: bool) {
        if self.quiet {
            return;
        }
        let (a, b) = (self.items[first], self.items[last]);
        let old = if a.src == b.src { self.slice(a.src, a.start, b.end.max(a.end)) } else { self.text_at(first) };
        let source = &self.sources[a.src as usize];
        let note = MigrationNote {
            source: source.name.clone(),
            line: line_and_pos(&source.text, a.start as usize).0,
            old: shorten(old),
            new: new.to_owned(),
            reason: reason.to_owned(),
            warning,
        };
        if !self.notes.iter().any(|(_, at, n)| *at == a.start && *n == note) {
            self.notes.push((a.src, a.start, note));
        }
    }

    /// The dotted name that begins at `at`, in lower case up to a header's name, and the index of its last item.
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

    pub fn block_end(&self, open: usize) -> usize {
        let mut depth = 0u32;
        let mut at = open;
        while at < self.items.len() {
            match self.items[at].kind {
                FlatItemKind::Tok(Tok::C(b'{')) => depth += 1,
                FlatItemKind::Tok(Tok::C(b'}')) => {
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

    /// The blanks and comments before the current item.
    pub fn gap_text(&self) -> String {
        let i = self.item();
        self.slice(i.src, i.gap, i.start).to_owned()
    }

    pub fn drop_until(&mut self, last: usize) {
        let mark = self.out.mark();
        while self.at <= last && self.tok() != Tok::End {
            self.advance();
        }
        self.out.rollback(mark);
    }

    pub fn written(&self, mark: Mark) -> String {
        String::from_utf8_lossy(self.out.since(mark)).into_owned()
    }
}

fn shorten(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 100 {
        line = line.chars().take(97).collect::<String>() + "...";
    }
    line
}
