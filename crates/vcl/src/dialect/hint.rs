// SPDX-License-Identifier: BSD-2-Clause
//! Hints for errors in an old program, in the words of [`crate::hint`] for the same mistakes in a new one.

use base::spelling::nearest;
use tables::dialects::OLD_VARS;

use super::flat::FlatItem;
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::diag::{DiagnosticDraft, Fix, Hint, Span, line_and_pos};
use crate::hint::{DECLARED, dot, sign};
use crate::token::Tok;

pub(crate) const BEGINS: [&str; 9] = ["set", "unset", "remove", "call", "return", "if", "error", "synthetic", "esi"];

impl Walker<'_> {
    fn line(&self, item: &FlatItem) -> (u32, u32) {
        line_and_pos(&self.sources[item.src as usize].text, item.start as usize)
    }

    fn tokens_before(&self) -> impl Iterator<Item = (usize, &FlatItem, Tok)> {
        let items = self.items[..self.at.min(self.items.len())].iter().enumerate().rev();
        items.filter_map(|(n, item)| Some((n, item, item.tok()?)))
    }

    pub fn hint_expected(&self, expected: Tok) -> Option<Hint> {
        let (_, last, before) = self.tokens_before().next()?;
        let word = if self.tok() == Tok::Id { self.word() } else { "" };
        let here = self.place(self.at);
        let outside = matches!(before, Tok::C(b'{' | b'}' | b';'));
        if let Some(hint) = sign(expected, self.tok(), word, here) {
            return Some(hint);
        }
        Some(match (expected, self.tok(), word) {
            (Tok::C(b')' | b','), Tok::C(b'{' | b'}' | b';'), _) => self.hint_bracket()?,
            (Tok::C(b';'), Tok::C(b')'), _) => Hint::with("There is one ')' too many.", Fix::delete(here, ")")),
            (Tok::C(b';'), Tok::C(b'}'), _) => {
                Hint::with("A ';' is missing before the '}'.", Fix::insert(span(last), ";"))
            }
            (Tok::C(b';'), ..) => self.hint_semicolon()?,
            (Tok::C(b'{'), Tok::Id, _) if before == Tok::C(b')') => {
                "What a condition is for stands in braces: if (...) { ... }".into()
            }
            (Tok::C(b'{'), ..) if self.slice(last.src, last.start, last.end) == "else" => {
                "What it is for stands in braces: else { ... }".into()
            }
            (Tok::C(b'.') | Tok::Str, Tok::Id, word) if outside && DECLARED.contains(&word) => {
                format!("A '}}' is missing. Still open is the '{{' of line {}.", self.open_lines()?).into()
            }
            (Tok::C(b'.'), Tok::Id, _) => dot(word, here),
            _ => return None,
        })
    }

    /// The last '(' of this statement that isn't closed.
    pub fn hint_bracket(&self) -> Option<Hint> {
        let mut closed = 0;
        for (_, item, tok) in self.tokens_before() {
            match tok {
                Tok::C(b')') => closed += 1,
                Tok::C(b'(') if closed == 0 => {
                    let (line, pos) = self.line(item);
                    let (_, last, _) = self.tokens_before().next()?;
                    let text = format!("The '(' of line {line}, position {pos} is still open: a ')' is missing.");
                    return Some(Hint::with(text, Fix::insert(span(last), ")")));
                }
                Tok::C(b'(') => closed -= 1,
                Tok::C(b';' | b'{' | b'}') => return None,
                _ => {}
            }
        }
        None
    }

    /// Explains a missing semicolon: adjacent texts are joined, so the statement continues on the next line.
    fn hint_semicolon(&self) -> Option<Hint> {
        let statement = self.tokens_before().take_while(|(.., tok)| !matches!(tok, Tok::C(b';' | b'{' | b'}')));
        let mut inside: Vec<(usize, &FlatItem)> = statement.map(|(n, item, _)| (n, item)).collect();
        inside.reverse();
        inside.push((self.at, self.items.get(self.at)?));
        let ends = inside.windows(2).find_map(|pair| {
            let ((_, before), (n, item)) = (pair[0], pair[1]);
            let (line, next) = (self.line(before).0, self.line(item).0);
            let begins = n == self.at || BEGINS.contains(&self.slice(item.src, item.start, item.end));
            (before.src == item.src && line < next && begins).then_some((line, before))
        });
        ends.map(|(line, last)| {
            Hint::with(format!("A ';' is missing at the end of line {line}."), Fix::insert(span(last), ";"))
        })
    }

    /// The '{' that are open before the current token, the innermost first.
    fn open(&self) -> Vec<&FlatItem> {
        let (mut closed, mut open) = (0usize, Vec::new());
        for (_, item, tok) in self.tokens_before() {
            match tok {
                Tok::C(b'}') => closed += 1,
                Tok::C(b'{') if closed == 0 => open.push(item),
                Tok::C(b'{') => closed -= 1,
                _ => {}
            }
        }
        open
    }

    fn open_lines(&self) -> Option<String> {
        let here = self.item().src;
        let one = |item: &&FlatItem| match self.line(item).0 {
            line if item.src == here => line.to_string(),
            line => format!("{line} of '{}'", self.sources[item.src as usize].name),
        };
        let lines: Vec<String> = self.open().iter().take(4).map(one).collect();
        (!lines.is_empty()).then(|| lines.join(" and "))
    }

    pub fn no_action(&self) -> DiagnosticDraft {
        DiagnosticDraft::at(DiagnosticCode::Syntax, "Expected an action, 'if', '{' or '}'\n", self.place(self.at))
            .hinted(self.hint_action())
    }

    fn hint_action(&self) -> Option<Hint> {
        let lines = self.open_lines()?;
        match self.word() {
            "else" | "elsif" | "elseif" | "elif" => Some(
                format!(
                    "It stands right behind the '}}' of its `if`. Still open is the '{{' of line {}.",
                    lines.split(" and ").next().unwrap_or_default()
                )
                .into(),
            ),
            word if self.tok() == Tok::Id && DECLARED.contains(&word) => Some(
                format!("No '{word}' inside a subroutine: a '}}' is missing. Still open is the '{{' of line {lines}.")
                    .into(),
            ),
            _ => None,
        }
    }

    /// The error for a program that ends too early, shown at the innermost open brace.
    pub fn ended(&self, text: &str) -> DiagnosticDraft {
        let mut fail = DiagnosticDraft::new(DiagnosticCode::Unclosed, text);
        self.open().first().into_iter().for_each(|item| fail.show(span(item)));
        let lines = self.open_lines().unwrap_or_default();
        fail.hinted(Some(
            format!("The text ends inside a subroutine: a '}}' is missing. Still open is the '{{' of line {lines}.")
                .into(),
        ))
    }

    pub fn hint_outside(&self) -> Option<Hint> {
        let here = self.place(self.at);
        let ended = || {
            let mut before = self.tokens_before();
            let (_, end, tok) = before.next()?;
            let sub =
                before.find(|(_, item, tok)| *tok == Tok::Id && self.slice(item.src, item.start, item.end) == "sub")?.0;
            let same = tok == Tok::C(b'}') && self.items[sub].src == end.src;
            same.then(|| format!(" {} ended in line {}.", self.text_at(self.after(sub)), self.line(end).0))
        };
        let ended = ended().unwrap_or_default();
        match (self.tok(), self.word()) {
            (Tok::C(b'}'), _) => Some(format!("There is one '}}' too many, or a '{{' is missing before it.{ended}").into()),
            (Tok::C(b';'), _) => Some(Hint::with("No ';' follows a '}'.", Fix::delete(here, ";"))),
            (Tok::Id, word) if BEGINS.contains(&word) || word == "else" || word == "elsif" => Some(format!(
                "'{word}' stands inside a subroutine: sub vcl_recv {{ ... }}. Is there one '}}' too many before it?{ended}"
            ).into()),
            (Tok::Id, word) => nearest(word, DECLARED.into_iter())
                .map(|near| Hint::with(format!("Is '{near}' meant?"), Fix::replace(here, near))),
            _ => None,
        }
    }

    pub fn hint_variable(&self, name: &str, first: usize, last: usize) -> Option<Hint> {
        let ((src, start, _), (other, _, end)) = (self.place(first), self.place(last));
        let meant = |near: &str| {
            let fix = (src == other).then(|| Fix::replace((src, start, end), near));
            Hint::with(format!("Is {near} meant?"), fix)
        };
        let mut parts = name.splitn(3, '.');
        if let (Some(head), Some(http), Some(field)) = (parts.next(), parts.next(), parts.next()) {
            let near = nearest(http, ["http"].into_iter())?;
            return Some(meant(&format!("{head}.{near}.{field}")));
        }
        let known = OLD_VARS.iter().filter(|var| !var.is_field() && var.exists(self.dialect)).map(|var| var.name);
        nearest(&name.to_ascii_lowercase(), known).map(meant)
    }
}

fn span(item: &FlatItem) -> Span {
    (item.src, item.start, item.end)
}
