// SPDX-License-Identifier: BSD-2-Clause
//! The VCL formatter: indentation, spaces, braces and blank lines. It never changes, adds or drops a token, and keeps
//! line breaks inside statements. Line endings follow the text's first one.

use crate::code::DiagnosticCode;
use crate::diag::{Diagnostic, DiagnosticDraft, Diagnostics};
use crate::token::{PAIRS, Tok, Token, VclSource, lex};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatStyle {
    pub indent: String,
}

impl Default for FormatStyle {
    fn default() -> Self {
        FormatStyle { indent: "    ".to_owned() }
    }
}

/// Formats `text`; `name` is for messages. Formatting is idempotent.
///
/// # Errors
/// If `text` can't be split into tokens, or has more closing brackets than opening ones.
pub fn format(name: &str, text: &[u8], style: &FormatStyle) -> Result<Vec<u8>, Diagnostics> {
    let tokens = tokens(name, text)?;
    let mut printer = Printer::new(text, style);
    for token in &tokens {
        printer.gap(token);
        if token.tok != Tok::End && !printer.token(token) {
            let error =
                DiagnosticDraft::at(DiagnosticCode::Syntax, "A closing bracket without an opening one\n", token.span());
            return Err(failed(name, text, error));
        }
    }
    let out = printer.finish();
    // Checks that the output has the same tokens as the input.
    let after = self::tokens(name, &out)?;
    let same = after.len() == tokens.len()
        && tokens
            .iter()
            .zip(&after)
            .all(|(a, b)| a.tok == b.tok && (a.tok == Tok::End || word(text, a) == word(&out, b)));
    if same {
        Ok(out)
    } else {
        let text = format!("{name}: can't be laid out without a change of meaning\n");
        Err(Diagnostic::error(DiagnosticCode::Internal, &text).into())
    }
}

fn tokens(name: &str, text: &[u8]) -> Result<Vec<Token>, Diagnostics> {
    let mut out = Vec::new();
    lex(text, 0, &mut Vec::new(), &mut out).map_err(|error| failed(name, text, error))?;
    Ok(out)
}

fn failed(name: &str, text: &[u8], error: DiagnosticDraft) -> Diagnostics {
    error
        .error(&[VclSource { name: name.to_owned(), kind: "file", text: text.to_vec(), parent: None, map: None }])
        .into()
}

fn word<'a>(text: &'a [u8], token: &Token) -> &'a [u8] {
    &text[token.start as usize..token.end as usize]
}

enum Gap<'a> {
    Newline,
    LineComment(&'a [u8]),
    BlockComment(&'a [u8]),
}

/// Splits the text between two tokens; everything but comments and line ends is space.
fn between(mut gap: &[u8]) -> Vec<Gap<'_>> {
    let mut out = Vec::new();
    while let Some(first) = gap.first() {
        let n = match gap {
            [b'#', ..] | [b'/', b'/', ..] => {
                let n = gap.iter().position(|c| *c == b'\n').unwrap_or(gap.len());
                out.push(Gap::LineComment(gap[..n].trim_ascii_end()));
                n
            }
            [b'/', b'*', ..] => {
                let n = gap.windows(2).skip(2).position(|w| w == b"*/").map_or(gap.len(), |n| n + 4);
                out.push(Gap::BlockComment(&gap[..n]));
                n
            }
            _ => {
                if *first == b'\n' {
                    out.push(Gap::Newline);
                }
                1
            }
        };
        gap = &gap[n..];
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Acl,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PrinterPosition {
    Start,
    /// Follows a `}` that an `else` or a `;` may come after.
    Closed,
    Inside,
}

struct Printer<'a> {
    text: &'a [u8],
    style: &'a FormatStyle,
    line_end: &'static [u8],
    out: Vec<u8>,
    end: usize,
    last: Option<Token>,
    /// `last` is an operator before its one operand.
    unary: bool,
    blocks: Vec<Block>,
    parens: usize,
    at: PrinterPosition,
    /// The statement's first word is `acl`.
    acl: bool,
    /// The line is still empty.
    fresh: bool,
    /// The line ends here, whatever follows.
    ends: bool,
    /// Line ends in `text` since the last token or comment.
    newlines: usize,
}

impl<'a> Printer<'a> {
    fn new(text: &'a [u8], style: &'a FormatStyle) -> Printer<'a> {
        let first_end = text.iter().position(|c| *c == b'\n').unwrap_or(0);
        Printer {
            text,
            style,
            line_end: if text[..first_end].ends_with(b"\r") { b"\r\n" } else { b"\n" },
            out: Vec::with_capacity(text.len() + text.len() / 8),
            end: 0,
            last: None,
            unary: false,
            blocks: Vec::new(),
            parens: 0,
            at: PrinterPosition::Start,
            acl: false,
            fresh: true,
            ends: false,
            newlines: 0,
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let kept = self.out.trim_ascii_end().len();
        self.out.truncate(kept);
        if kept > 0 {
            self.out.extend_from_slice(self.line_end);
        }
        self.out
    }

    fn end_line(&mut self) {
        if !self.fresh {
            self.out.extend_from_slice(self.line_end);
        }
        self.fresh = true;
        self.ends = false;
    }

    /// Adds an empty line, unless there is one or a block has just begun.
    fn blank(&mut self) {
        self.end_line();
        let Some(line) = self.out.strip_suffix(self.line_end) else { return };
        if !line.ends_with(b"\n") && !line.ends_with(b"{") {
            self.out.extend_from_slice(self.line_end);
        }
    }

    fn indent(&mut self, levels: usize) {
        for _ in 0..levels {
            self.out.extend_from_slice(self.style.indent.as_bytes());
        }
        self.fresh = false;
    }

    /// Prints the comments before `next` and counts the line ends.
    fn gap(&mut self, next: &Token) {
        let gap = &self.text[self.end..next.start as usize];
        self.end = next.end as usize;
        self.newlines = 0;
        for part in between(gap) {
            let (comment, to_line_end) = match part {
                Gap::Newline => {
                    self.newlines += 1;
                    continue;
                }
                Gap::LineComment(text) => (text, true),
                Gap::BlockComment(text) => (text, false),
            };
            if self.newlines == 0 && !self.fresh {
                self.out.push(b' ');
            } else {
                if self.at != PrinterPosition::Inside && (self.newlines > 1 || self.ends_declaration()) {
                    self.blank();
                }
                self.end_line();
                self.indent(self.blocks.len() + usize::from(self.at == PrinterPosition::Inside));
            }
            self.out.extend_from_slice(comment);
            self.fresh = false;
            self.ends = to_line_end;
            self.newlines = 0;
            if self.at == PrinterPosition::Closed {
                self.at = PrinterPosition::Start;
            }
        }
    }

    /// True if the last token closed an outermost block.
    fn ends_declaration(&self) -> bool {
        self.at == PrinterPosition::Closed && self.blocks.is_empty()
    }

    /// Prints a token. Returns false for a surplus closing bracket.
    fn token(&mut self, token: &Token) -> bool {
        let word = word(self.text, token);
        let closes = token.tok == Tok::C(b'}');
        if closes && self.blocks.pop().is_none() {
            return false;
        }
        match self.at {
            PrinterPosition::Closed if token.tok == Tok::C(b';') => {}
            PrinterPosition::Closed if is_else(word) => self.out.push(b' '),
            PrinterPosition::Start | PrinterPosition::Closed => {
                if !closes && (self.newlines > 1 || self.ends_declaration()) {
                    self.blank();
                }
                self.end_line();
                self.indent(self.blocks.len());
                self.acl = word == b"acl";
            }
            PrinterPosition::Inside => self.inside(token),
        }
        self.out.extend_from_slice(word);
        self.unary = self.is_unary(token);
        match token.tok {
            Tok::C(b'(') => self.parens += 1,
            Tok::C(b')') => self.parens = self.parens.saturating_sub(1),
            _ => {}
        }
        self.at = PrinterPosition::Inside;
        match token.tok {
            Tok::C(b'{') => {
                self.blocks.push(if self.acl { Block::Acl } else { Block::Other });
                self.at = PrinterPosition::Start;
            }
            Tok::C(b'}') => self.at = PrinterPosition::Closed,
            Tok::C(b';') if self.parens == 0 => self.at = PrinterPosition::Start,
            Tok::InlineC => self.at = PrinterPosition::Closed,
            _ => {}
        }
        if matches!(token.tok, Tok::C(b'{' | b'}')) {
            self.parens = 0;
        }
        self.fresh = false;
        self.last = Some(*token);
        true
    }

    /// Prints the space before a token that isn't its statement's first.
    fn inside(&mut self, token: &Token) {
        let joins = matches!(token.tok, Tok::C(b'{' | b';' | b',')) || token.tok == Tok::C(b'}');
        if self.ends || self.newlines > 0 && !joins {
            self.end_line();
            let deeper = !matches!(token.tok, Tok::C(b')' | b'{' | b'}'));
            self.indent(self.blocks.len() + usize::from(deeper));
        } else if self.space_before(token) {
            self.out.push(b' ');
        }
    }

    fn space_before(&self, token: &Token) -> bool {
        let Some(last) = &self.last else { return false };
        let adjacent = last.end == token.start;
        let in_acl = self.acl || self.blocks.last() == Some(&Block::Acl);
        if !adjacent && (self.out.ends_with(b"*/") || self.glues(last, token)) {
            return true;
        }
        match (last.tok, token.tok) {
            (_, Tok::C(b';' | b',' | b')' | b'.') | Tok::Inc | Tok::Dec) => false,
            (Tok::C(b'(' | b'!' | b'.'), _) => false,
            (Tok::Id, Tok::C(b'(')) => wants_space(word(self.text, last)),
            (Tok::Int | Tok::Real, Tok::Id) => !adjacent,
            (Tok::C(b'/'), _) | (_, Tok::C(b'/')) if in_acl => false,
            _ if self.unary => false,
            _ => true,
        }
    }

    /// True if two tokens without a space between them would be read as different ones.
    fn glues(&self, last: &Token, token: &Token) -> bool {
        let (before, after) = (word(self.text, last), word(self.text, token));
        let pair = [before.last().copied().unwrap_or(0), after.first().copied().unwrap_or(0)];
        let is_pair = PAIRS.iter().any(|(known, _)| **known == pair) || matches!(&pair, b"//" | b"/*");
        matches!((last.tok, token.tok), (Tok::Id, Tok::Dec) | (Tok::Int, Tok::C(b'.'))) || is_pair
    }

    fn is_unary(&self, token: &Token) -> bool {
        if !matches!(token.tok, Tok::C(b'-' | b'+')) {
            return false;
        }
        match &self.last {
            // A flag of an ACL: `acl name -fold +log { ... }`
            _ if self.acl && self.at == PrinterPosition::Inside && self.blocks.is_empty() => true,
            Some(last) => {
                let operand = matches!(last.tok, Tok::Int | Tok::Real | Tok::Str | Tok::Blob | Tok::C(b')'))
                    || last.tok == Tok::Id && word(self.text, last) != b"return";
                !operand
            }
            None => true,
        }
    }
}

fn is_else(word: &[u8]) -> bool {
    matches!(word, b"else" | b"elsif" | b"elseif" | b"elif")
}

/// True for words with a space before their bracket; other names are functions.
fn wants_space(word: &[u8]) -> bool {
    matches!(word, b"if" | b"elsif" | b"elseif" | b"elif" | b"return" | b"set" | b"call")
}

#[cfg(test)]
#[path = "tests/format.rs"]
mod tests;
