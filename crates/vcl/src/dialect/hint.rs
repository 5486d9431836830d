// SPDX-License-Identifier: BSD-2-Clause
//! What to do about an error in an old program: the words that [`crate::hint`] has for the same mistakes in a new one.

use tables::dialects::OLD_VARS;

use super::TranslateError;
use super::flat::Item;
use super::walk::Walker;
use crate::diag::line_and_pos;
use crate::hint::{DECLARED, nearest};
use crate::token::Tok;

/// Words that begin a statement.
pub(crate) const BEGINS: [&str; 9] = ["set", "unset", "remove", "call", "return", "if", "error", "synthetic", "esi"];

impl TranslateError {
    /// With what to do about it as the last line.
    pub fn hinted(mut self, hint: Option<String>) -> TranslateError {
        self.0.extend(hint.map(|hint| (format!("Hint: {hint}\n"), None)));
        self
    }
}

impl Walker<'_> {
    fn line(&self, item: &Item) -> (u32, u32) {
        line_and_pos(&self.sources[item.src as usize].text, item.start as usize)
    }

    fn tokens_before(&self) -> impl Iterator<Item = (usize, &Item, Tok)> {
        let items = self.items[..self.at.min(self.items.len())].iter().enumerate().rev();
        items.filter_map(|(n, item)| Some((n, item, item.tok()?)))
    }

    /// The current token isn't the one expected.
    pub fn hint_expected(&self, expected: Tok) -> Option<String> {
        let (_, last, before) = self.tokens_before().next()?;
        let word = if self.tok() == Tok::Id { self.word() } else { "" };
        let outside = matches!(before, Tok::C(b'{' | b'}' | b';'));
        Some(match (expected, self.tok(), word) {
            (_, _, "and") => "\"and\" is written &&.".to_owned(),
            (_, _, "or") => "\"or\" is written ||.".to_owned(),
            (Tok::C(b')'), Tok::C(b'&'), _) => "\"and\" is written &&.".to_owned(),
            (Tok::C(b')'), Tok::C(b'|'), _) => "\"or\" is written ||.".to_owned(),
            (Tok::C(b')'), Tok::C(b'='), _) => "== compares; = is for `set`.".to_owned(),
            (Tok::C(b'='), Tok::Eq, _) => "`set` has one =; == compares.".to_owned(),
            (Tok::C(b')' | b','), Tok::C(b'{' | b'}' | b';'), _) => self.hint_bracket()?,
            (Tok::C(b';'), Tok::C(b')'), _) => "There is one ')' too many.".to_owned(),
            (Tok::C(b';'), Tok::C(b'}'), _) => "A ';' is missing before the '}'.".to_owned(),
            (Tok::C(b';'), ..) => self.hint_semicolon()?,
            (Tok::C(b'{'), Tok::Id, _) if before == Tok::C(b')') => {
                "What a condition is for stands in braces: if (...) { ... }".to_owned()
            }
            (Tok::C(b'{'), ..) if self.slice(last.src, last.start, last.end) == "else" => {
                "What it is for stands in braces: else { ... }".to_owned()
            }
            (Tok::C(b'.') | Tok::Str, Tok::Id, word) if outside && DECLARED.contains(&word) => {
                format!("A '}}' is missing. Still open is the '{{' of line {}.", self.open_lines()?)
            }
            (Tok::C(b'.'), Tok::Id, _) => format!("Fields begin with a dot: .{word} = ...;"),
            _ => return None,
        })
    }

    /// The last '(' of this statement that isn't closed.
    pub fn hint_bracket(&self) -> Option<String> {
        let mut closed = 0;
        for (_, item, tok) in self.tokens_before() {
            match tok {
                Tok::C(b')') => closed += 1,
                Tok::C(b'(') if closed == 0 => {
                    let (line, pos) = self.line(item);
                    return Some(format!("The '(' of line {line}, position {pos} is still open: a ')' is missing."));
                }
                Tok::C(b'(') => closed -= 1,
                Tok::C(b';' | b'{' | b'}') => return None,
                _ => {}
            }
        }
        None
    }

    /// Texts side by side are joined: a statement that isn't ended goes on into the next line.
    fn hint_semicolon(&self) -> Option<String> {
        let statement = self.tokens_before().take_while(|(.., tok)| !matches!(tok, Tok::C(b';' | b'{' | b'}')));
        let mut inside: Vec<(usize, &Item)> = statement.map(|(n, item, _)| (n, item)).collect();
        inside.reverse();
        inside.push((self.at, self.items.get(self.at)?));
        let ends = inside.windows(2).find_map(|pair| {
            let ((_, before), (n, item)) = (pair[0], pair[1]);
            let (line, next) = (self.line(before).0, self.line(item).0);
            let begins = n == self.at || BEGINS.contains(&self.slice(item.src, item.start, item.end));
            (before.src == item.src && line < next && begins).then_some(line)
        });
        ends.map(|line| format!("A ';' is missing at the end of line {line}."))
    }

    /// The '{' that are open before the current token, the innermost first.
    fn open(&self) -> Vec<&Item> {
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
        let one = |item: &&Item| match self.line(item).0 {
            line if item.src == here => line.to_string(),
            line => format!("{line} of '{}'", self.sources[item.src as usize].name),
        };
        let lines: Vec<String> = self.open().iter().take(4).map(one).collect();
        (!lines.is_empty()).then(|| lines.join(" and "))
    }

    /// No action stands here.
    pub fn no_action(&self) -> TranslateError {
        TranslateError::at("Expected an action, 'if', '{' or '}'\n", self.place(self.at)).hinted(self.hint_action())
    }

    /// Where an action is expected and something else stands.
    fn hint_action(&self) -> Option<String> {
        let lines = self.open_lines()?;
        match self.word() {
            "else" | "elsif" | "elseif" | "elif" => Some(format!(
                "It stands right behind the '}}' of its `if`. Still open is the '{{' of line {}.",
                lines.split(" and ").next().unwrap_or_default()
            )),
            word if self.tok() == Tok::Id && DECLARED.contains(&word) => Some(format!(
                "No '{word}' inside a subroutine: a '}}' is missing. Still open is the '{{' of line {lines}."
            )),
            _ => None,
        }
    }

    /// The program ends inside of something: said at the innermost brace that is open.
    pub fn ended(&self, text: &str) -> TranslateError {
        let place = self.open().first().map(|item| (item.src, item.start, item.end));
        let lines = self.open_lines().unwrap_or_default();
        TranslateError(vec![(text.to_owned(), place)]).hinted(Some(format!(
            "The text ends inside a subroutine: a '}}' is missing. Still open is the '{{' of line {lines}."
        )))
    }

    /// What stands outside of subroutines and isn't for there.
    pub fn hint_outside(&self) -> Option<String> {
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
            (Tok::C(b'}'), _) => Some(format!("There is one '}}' too many, or a '{{' is missing before it.{ended}")),
            (Tok::C(b';'), _) => Some("No ';' follows a '}'.".to_owned()),
            (Tok::Id, word) if BEGINS.contains(&word) || word == "else" || word == "elsif" => Some(format!(
                "'{word}' stands inside a subroutine: sub vcl_recv {{ ... }}. Is there one '}}' too many before it?{ended}"
            )),
            (Tok::Id, word) => nearest(word, DECLARED.into_iter()).map(|near| format!("Is '{near}' meant?")),
            _ => None,
        }
    }

    /// A variable that isn't known.
    pub fn hint_variable(&self, name: &str) -> Option<String> {
        let mut parts = name.splitn(3, '.');
        if let (Some(head), Some(http), Some(field)) = (parts.next(), parts.next(), parts.next()) {
            let near = nearest(http, ["http"].into_iter())?;
            return Some(format!("Is {head}.{near}.{field} meant?"));
        }
        let known = OLD_VARS.iter().filter(|var| !var.is_field() && var.exists(self.dialect)).map(|var| var.name);
        nearest(&name.to_ascii_lowercase(), known).map(|near| format!("Is {near} meant?"))
    }
}
