// SPDX-License-Identifier: BSD-2-Clause
//! Words, strings and signs.

use super::Error;
use super::read::is_key;

/// More than any file needs.
pub(super) const LONGEST_TEXT: usize = 16 << 20;

/// A piece of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Letters, digits and what else stands in unquoted values.
    Word(String),
    /// What stood between quotes.
    Quoted(String),
    Equals,
    Open,
    Close,
}

impl Token {
    /// As a message shows it.
    pub fn shown(&self) -> String {
        match self {
            Token::Word(text) | Token::Quoted(text) if is_key(text) => format!("'{text}'"),
            Token::Word(text) | Token::Quoted(text) => format!("a word of {} letters", text.chars().count()),
            Token::Equals => "'='".into(),
            Token::Open => "'{'".into(),
            Token::Close => "'}'".into(),
        }
    }
}

/// The text's tokens with their lines.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Error> {
    if text.len() > LONGEST_TEXT {
        return Err(Error { line: 0, reason: format!("the file is longer than {LONGEST_TEXT} bytes") });
    }
    let mut out = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '\n' => {
                line += 1;
                1
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' => {
                let (token, len) =
                    quoted(rest).ok_or_else(|| Error { line, reason: "a string without its end".into() })?;
                out.push((token, line));
                line += rest[..len].matches('\n').count();
                len
            }
            '=' | '{' | '}' => {
                let sign = if first == '=' {
                    Token::Equals
                } else if first == '{' {
                    Token::Open
                } else {
                    Token::Close
                };
                out.push((sign, line));
                1
            }
            c if c.is_whitespace() || c == ',' => c.len_utf8(),
            _ => {
                let ends = |c: char| c.is_whitespace() || "={}#\",".contains(c);
                let len = rest.find(ends).unwrap_or(rest.len());
                out.push((Token::Word(rest[..len].to_owned()), line));
                len
            }
        };
        rest = &rest[len..];
    }
    Ok(out)
}

/// A string and its length with the quotes; a backslash takes the next sign as it is.
fn quoted(text: &str) -> Option<(Token, usize)> {
    let mut out = String::new();
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((Token::Quoted(out), at + 1)),
            '\\' => out.push(signs.next()?.1),
            _ => out.push(sign),
        }
    }
    None
}
