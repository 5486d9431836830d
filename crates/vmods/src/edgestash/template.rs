// SPDX-License-Identifier: BSD-2-Clause
//! A template, read: Mustache with expressions. As in Mustache a line with nothing but a section's tag, a comment or a change of
//! delimiters leaves no line.

use std::ops::Range;

use super::expr::Expr;

const DEEPEST: usize = 64;

#[derive(Debug, PartialEq)]
pub(super) enum Op {
    Text(Range<usize>),
    /// `{{x}}`; raw: `{{& x}}`.
    Var {
        expr: Expr,
        raw: bool,
    },
    /// `{{#x}}`, or inverted `{{^x}}`; its steps end before `end`.
    Section {
        expr: Expr,
        inverted: bool,
        end: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delimiters(pub(super) Vec<u8>, pub(super) Vec<u8>);

impl Default for Delimiters {
    fn default() -> Self {
        Delimiters(b"{{".to_vec(), b"}}".to_vec())
    }
}

impl Delimiters {
    /// `None`: they can't be that.
    pub(super) fn new(start: &[u8], end: &[u8]) -> Option<Self> {
        let is_one = |text: &[u8]| {
            (1..=16).contains(&text.len()) && !text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'=')
        };
        (is_one(start) && is_one(end)).then(|| Delimiters(start.to_vec(), end.to_vec()))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text is no template, and is delivered unchanged.
    NoTemplate(&'static str),
    NotBuilt(&'static str),
}

pub(super) fn parse(text: &[u8], delimiters: &Delimiters) -> Result<Vec<Op>, Fault> {
    let mut reader = Reader { text, at: 0, delimiters: delimiters.clone(), ops: Vec::new(), open: Vec::new() };
    while reader.tag()? {}
    match reader.open.is_empty() {
        true => Ok(reader.ops),
        false => Err(Fault::NoTemplate("a section has no end")),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    delimiters: Delimiters,
    ops: Vec<Op>,
    open: Vec<(usize, String)>,
}

impl Reader<'_> {
    /// The text up to the next tag, and that; false when there is none.
    fn tag(&mut self) -> Result<bool, Fault> {
        let Delimiters(start, end) = &self.delimiters;
        let Some(opens) = memchr::memmem::find(&self.text[self.at..], start).map(|n| self.at + n) else {
            self.push_text(self.at..self.text.len());
            return Ok(false);
        };
        let from = opens + start.len();
        let inner = &self.text[from..];
        let is_change = inner.first() == Some(&b'=');
        let closing = if is_change { [b"=", &end[..]].concat() } else { end.clone() };
        let skip = usize::from(is_change);
        let Some(len) = memchr::memmem::find(&inner[skip..], &closing) else {
            return Err(Fault::NoTemplate("a tag has no end"));
        };
        let after = from + skip + len + closing.len();
        let Ok(inner) = std::str::from_utf8(&inner[skip..skip + len]) else {
            return Err(Fault::NoTemplate("a tag isn't UTF-8"));
        };
        let inner = inner.trim();
        let (kind, name) = match inner.as_bytes().first() {
            _ if is_change => (b'=', inner),
            Some(kind @ (b'#' | b'^' | b'/' | b'!' | b'&' | b'>')) => (*kind, inner[1..].trim()),
            _ => (b' ', inner),
        };
        let (opens, after) = match kind {
            b'#' | b'^' | b'/' | b'!' | b'=' => self.alone(opens..after),
            _ => (opens, after),
        };
        self.push_text(self.at..opens);
        self.at = after;
        self.step(kind, name)?;
        Ok(true)
    }

    fn step(&mut self, kind: u8, name: &str) -> Result<(), Fault> {
        let expr = |name: &str| Expr::parse(name).map_err(Fault::NoTemplate);
        match kind {
            b'!' => {}
            b'=' => {
                let mut words = name.split_ascii_whitespace().map(str::as_bytes);
                let both = words.next().zip(words.next()).filter(|_| words.next().is_none());
                let new = both.and_then(|(start, end)| Delimiters::new(start, end));
                self.delimiters = new.ok_or(Fault::NoTemplate("these can't be delimiters"))?;
            }
            b'#' | b'^' => {
                if self.open.len() == DEEPEST {
                    return Err(Fault::NoTemplate("more than 64 sections within each other"));
                }
                self.open.push((self.ops.len(), name.to_owned()));
                self.ops.push(Op::Section { expr: expr(name)?, inverted: kind == b'^', end: 0 });
            }
            b'/' => {
                let ends_here = self.ops.len();
                let Some((at, opened)) = self.open.pop() else { return Err(Fault::NoTemplate("no section is open")) };
                let bare = |name: &str| name.split_ascii_whitespace().collect::<String>();
                if !name.is_empty() && bare(name) != bare(&opened) {
                    return Err(Fault::NoTemplate("a section ends within another"));
                }
                if let Op::Section { end, .. } = &mut self.ops[at] {
                    *end = ends_here;
                }
            }
            b'>' => return Err(Fault::NotBuilt("partials ({{> url}}) aren't built into Lacquer")),
            _ => self.ops.push(Op::Var { expr: expr(name)?, raw: kind == b'&' }),
        }
        Ok(())
    }

    /// A tag with the blanks and the newline around it, when it is alone on its line.
    fn alone(&self, tag: Range<usize>) -> (usize, usize) {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let before = self.text[self.at..tag.start].iter().rev().take_while(|byte| is_blank(byte)).count();
        let line = tag.start - before;
        let begins = line == 0 || self.text[line - 1] == b'\n';
        let blanks = self.text[tag.end..].iter().take_while(|byte| is_blank(byte)).count();
        let rest = &self.text[tag.end + blanks..];
        let newline = match rest {
            [] => Some(0),
            [b'\n', ..] => Some(1),
            [b'\r', b'\n', ..] => Some(2),
            _ => None,
        };
        match newline {
            Some(bytes) if begins => (line, tag.end + blanks + bytes),
            _ => (tag.start, tag.end),
        }
    }

    fn push_text(&mut self, text: Range<usize>) {
        if !text.is_empty() {
            self.ops.push(Op::Text(text));
        }
    }
}
