// SPDX-License-Identifier: BSD-2-Clause
//! Hints for missing and surplus brackets, braces and other signs.

use super::{DECLARED, ELSE_WORDS, is_dotted};
use crate::diag::{Fix, Hint, Span, origin};
use crate::token::{Tok, Token};
use crate::vcc::Vcc;

impl Vcc<'_> {
    /// The lines of the '{' that are open at a token, the innermost first. Files are named if they differ.
    fn open_lines(&self, open: &[Token], file: u32) -> String {
        let one = |token: &Token| {
            let token = origin(&self.sources, token);
            let line = self.line_of(&token);
            if token.src == file {
                return line.to_string();
            }
            format!("{line} of '{}'", self.sources[token.src as usize].name)
        };
        open.iter().rev().take(4).map(one).collect::<Vec<_>>().join(" and ")
    }

    /// The braces that are open before the token `at`, the innermost last.
    fn open_braces(&self, at: usize) -> Vec<Token> {
        let mut open = Vec::new();
        for token in &self.tokens[..at] {
            match token.tok {
                Tok::C(b'{') => open.push(*token),
                Tok::C(b'}') => drop(open.pop()),
                _ => {}
            }
        }
        open
    }

    pub fn hint_else(&mut self) {
        let open = self.open_braces(self.at);
        if let Some(line) = open.last().map(|token| self.line_of(token)) {
            self.hint(format!("It stands right behind the '}}' of its `if`. Still open is the '{{' of line {line}."));
        }
    }

    /// Explains a declaration inside of a backend, probe or acl.
    fn hint_open_declaration(&mut self) -> bool {
        let token = self.token();
        let before = self.tokens[self.at.saturating_sub(1)].tok;
        let ends = token.tok == Tok::End || DECLARED.contains(&&*self.text_of(&token));
        if !ends || !matches!(before, Tok::C(b'{' | b'}' | b';')) {
            return false;
        }
        let lines = self.open_lines(&self.open_braces(self.at), origin(&self.sources, &token).src);
        self.hint(format!("A '}}' is missing. Still open is the '{{' of line {lines}."));
        true
    }

    pub fn hint_expected(&mut self, expected: Tok) {
        let here = self.token();
        let before = self.tokens[self.at.saturating_sub(1)];
        let word = if here.tok == Tok::Id { self.text_of(&here) } else { String::new() };
        if matches!(expected, Tok::C(b'.') | Tok::Str) && self.hint_open_declaration() {
            return;
        }
        let behind = |new: &str| Fix::insert(before.span(), new);
        if let Some(hint) = sign(expected, here.tok, &word, here.span()) {
            return self.hint(hint);
        }
        let hint: Hint = match (expected, here.tok, word.as_str()) {
            (Tok::C(b';'), ..) => match self.semicolon_expected(&before, &here) {
                Some(hint) => hint,
                None => return,
            },
            (Tok::C(b'('), ..) => self.bracket_expected(&before, &here, &word),
            (Tok::C(b')'), _, "not") => "\"not\" is written !, and \"doesn't match\" !~.".into(),
            (Tok::C(b')' | b','), Tok::C(b'{' | b'}' | b';') | Tok::End, _) => match self.open_bracket() {
                Some(open) => {
                    let (line, pos) = self.line_and_pos_of(&open);
                    let text = format!("The '(' of line {line}, position {pos} is still open: a ')' is missing.");
                    Hint::with(text, behind(")"))
                }
                None => return,
            },
            (Tok::C(b')'), Tok::Id | Tok::Str, _) if matches!(before.tok, Tok::Str | Tok::Id) => {
                "Texts are joined by +, conditions by && and ||.".into()
            }
            (Tok::Id, Tok::C(b';'), _) if matches!(before.tok, Tok::Int | Tok::Real) => {
                Hint::with(format!("A duration has a unit: {}s", self.text_of(&before)), self.seconds_fix(&before))
            }
            (Tok::C(b'{'), Tok::C(b'('), _) => "Subroutines take no arguments: sub name { ... }".into(),
            (Tok::C(b'{'), Tok::Id, _) if before.tok == Tok::C(b')') => {
                "What a condition is for stands in braces: if (...) { ... }".into()
            }
            (Tok::C(b'.'), Tok::Id, _) => dot(&word, here.span()),
            (Tok::Str, Tok::Int | Tok::Real, _) => Hint::with("It is written in quotes.", self.quote_fix(self.at)),
            (Tok::Str, Tok::Id, _) => Hint::with("Texts stand in quotes.", self.quote_fix(self.at)),
            (Tok::Int, Tok::Str, _) => "Numbers and durations have no quotes: 5s".into(),
            (Tok::Id, Tok::Str, _) => {
                let bare = self.content_text(&here);
                let is_bare = here.quote == 1 && is_dotted(&bare);
                Hint::with(
                    "Names have no quotes.",
                    is_bare.then(|| Fix::one("Take the quotes away", here.span(), bare)),
                )
            }
            (Tok::C(b'='), Tok::AddTo, _) if self.is_word(&before, "hash") => {
                "Since 4.0 that is said by hash_data(...).".into()
            }
            _ => return,
        };
        self.hint(hint);
    }

    fn semicolon_expected(&self, before: &Token, here: &Token) -> Option<Hint> {
        let behind = |new: &str| Fix::insert(before.span(), new);
        Some(match here.tok {
            _ if before.src != here.src => {
                let file = &self.sources[before.src as usize].name;
                let text = format!("A ';' is missing at the end of line {} of '{file}'.", self.line_of(before));
                Hint::with(text, behind(";"))
            }
            tok if tok == Tok::End || self.line_of(before) < self.line_of(here) => {
                let text = format!("A ';' is missing at the end of line {}.", self.line_of(before));
                Hint::with(text, behind(";"))
            }
            Tok::Id | Tok::Str if matches!(before.tok, Tok::Str | Tok::Id) => {
                Hint::with("Texts are joined by +.", behind(" +"))
            }
            Tok::C(b',') => "Entries end in ';'.".into(),
            Tok::C(b')') => Hint::with("There is one ')' too many.", Fix::delete(here.span(), ")")),
            Tok::C(b'}') => Hint::with("A ';' is missing before the '}'.", behind(";")),
            _ => return None,
        })
    }

    /// The hint where a '(' was expected behind `before`; `word` is there instead.
    fn bracket_expected(&self, before: &Token, here: &Token, word: &str) -> Hint {
        if self.is_word(before, "return") {
            let shown = if word.is_empty() { "..." } else { word };
            let text = format!("What is returned stands in brackets: return ({shown});");
            let fix = (!word.is_empty()).then(|| Fix::replace(here.span(), &format!("({word})")));
            return Hint::with(text, fix);
        }
        if ELSE_WORDS.iter().any(|word| self.is_word(before, word)) {
            return "The condition stands in brackets: else if (...) { ... }".into();
        }
        if before.tok == Tok::Id && !self.is_word(before, "if") {
            return format!("What {} is given stands in brackets: {0}(...);", self.text_of(before)).into();
        }
        "The condition stands in brackets: if (...) { ... }".into()
    }

    /// The last '(' of this statement that isn't closed.
    fn open_bracket(&self) -> Option<Token> {
        let mut closed = 0;
        for token in self.tokens[..self.at].iter().rev() {
            match token.tok {
                Tok::C(b')') => closed += 1,
                Tok::C(b'(') if closed == 0 => return Some(*token),
                Tok::C(b'(') => closed -= 1,
                Tok::C(b';' | b'{' | b'}') => return None,
                _ => {}
            }
        }
        None
    }

    /// Explains a top-level word inside a subroutine: names the braces that are still open.
    pub fn hint_open_braces(&mut self, at: usize) {
        let token = self.tokens[at];
        let word = self.text_of(&token);
        if DECLARED.contains(&&*word) {
            let lines = self.open_lines(&self.open_braces(at), origin(&self.sources, &token).src);
            self.hint(format!(
                "No '{word}' inside a subroutine: a '}}' is missing. Still open is the '{{' of line {lines}."
            ));
        }
    }

    /// Explains a text that ends inside a subroutine. Returns the innermost open brace.
    pub fn hint_text_ends(&mut self) -> Option<Token> {
        let mut open = self.open_braces(self.at);
        let lines = self.open_lines(&open, 0);
        self.hint(format!(
            "The text ends inside a subroutine: a '}}' is missing. Still open is the '{{' of line {lines}."
        ));
        open.pop()
    }
}

/// Explains an operator of another language, or a missing one: the same mistakes in new and in old programs. `here` is
/// the unexpected token.
pub(crate) fn sign(expected: Tok, found: Tok, word: &str, here: Span) -> Option<Hint> {
    let replace = |text: &str, new: &str| Some(Hint::with(text, Fix::replace(here, new)));
    match (expected, found, word) {
        (_, _, "and") | (Tok::C(b')'), Tok::C(b'&'), _) => replace("\"and\" is written &&.", "&&"),
        (_, _, "or") | (Tok::C(b')'), Tok::C(b'|'), _) => replace("\"or\" is written ||.", "||"),
        (Tok::C(b')'), Tok::C(b'='), _) => replace("== compares; = is for `set`.", "=="),
        (Tok::C(b'='), Tok::Eq, _) => replace("`set` has one =; == compares.", "="),
        _ => None,
    }
}

/// Explains an attribute without its dot.
pub(crate) fn dot(word: &str, (src, start, _): Span) -> Hint {
    Hint::with(format!("Fields begin with a dot: .{word} = ...;"), Fix::one("Insert .", (src, start, start), "."))
}
