// SPDX-License-Identifier: BSD-2-Clause
//! Words, strings and signs, as hitch's own scanner (src/cfg_lex.l, which Varnish 9 has taken over) finds them: any other character
//! separates words and is ignored, and so is a quote without a second one.

use super::HitchError;
use super::read::is_key;

/// More than any file needs.
pub(super) const LONGEST_TEXT: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Letters, digits and `-`, or a version of TLS.
    Word(String),
    /// A word with an ignored character next to it: it may be a part of something that isn't for messages, as a key in Base64.
    Piece(String),
    /// The text between quotes, in which a backslash stands for itself.
    Quoted(String),
    Equals,
    Open,
    Close,
}

impl Token {
    pub fn shown(&self) -> String {
        match self {
            Token::Word(text) | Token::Quoted(text) if is_key(text) => format!("'{text}'"),
            Token::Word(text) | Token::Piece(text) | Token::Quoted(text) => {
                format!("a word of {} letters", text.chars().count())
            }
            Token::Equals => "'='".into(),
            Token::Open => "'{'".into(),
            Token::Close => "'}'".into(),
        }
    }

    pub fn word(&self) -> Option<&str> {
        match self {
            Token::Word(text) | Token::Piece(text) => Some(text),
            Token::Quoted(_) | Token::Equals | Token::Open | Token::Close => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lexeme {
    pub token: Token,
    pub line: usize,
    /// The first character between the token before and this one that was ignored.
    pub ignored: Option<char>,
}

pub(super) fn tokens(text: &str) -> Result<Vec<Lexeme>, HitchError> {
    if text.len() > LONGEST_TEXT {
        return Err(HitchError { line: 0, reason: format!("the file is longer than {LONGEST_TEXT} bytes") });
    }
    let mut out: Vec<Lexeme> = Vec::new();
    let (mut rest, mut line, mut ignored, mut is_comment) = (text, 1, None, false);
    while let Some(first) = rest.chars().next() {
        let (token, len) = match first {
            ' ' | '\t' | '\r' | '\n' => (None, 1),
            '#' if let Some(end) = rest.find('\n') => (None, end),
            '=' => (Some(Token::Equals), 1),
            '{' => (Some(Token::Open), 1),
            '}' => (Some(Token::Close), 1),
            '"' if let Some(len) = quoted(rest) => (Some(value(&rest[1..len - 1], line)?), len),
            _ => match word_len(rest) {
                0 => {
                    is_comment |= first == '#';
                    ignored = ignored.or(Some(first));
                    (None, first.len_utf8())
                }
                len => (Some(word(&text[..text.len() - rest.len()], &rest[..len], &rest[len..])), len),
            },
        };
        if let Some(token) = token {
            if is_comment {
                let reason =
                    "a comment without a newline at its end: hitch reads its words as settings; end the line".into();
                return Err(HitchError { line, reason });
            }
            out.push(Lexeme { token, line, ignored: ignored.take() });
        }
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    Ok(out)
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// The length of the word that begins here. Of two readings the longer counts: `TLSv1.2` is one word.
fn word_len(text: &str) -> usize {
    let plain = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    let versions = ["TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
    let version = versions.iter().find(|version| text.starts_with(**version)).map_or(0, |version| version.len());
    plain.max(version)
}

fn word(before: &str, text: &str, after: &str) -> Token {
    let is_sign = |c: char| !is_letter(c) && !" \t\r\n={}#\"".contains(c);
    if before.ends_with(is_sign) || after.starts_with(is_sign) {
        Token::Piece(text.to_owned())
    } else {
        Token::Word(text.to_owned())
    }
}

/// The length of a string with its quotes. A backslash takes the next character with it, unless that ends the line.
fn quoted(text: &str) -> Option<usize> {
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some(at + 1),
            '\\' if signs.next()?.1 == '\n' => return None,
            _ => {}
        }
    }
    None
}

fn value(text: &str, line: usize) -> Result<Token, HitchError> {
    if text.contains('"') {
        return Err(HitchError { line, reason: "a value can't have a quote in it: hitch ends the value there".into() });
    }
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(HitchError { line, reason: "a value isn't UTF-8".into() });
    }
    Ok(Token::Quoted(text.to_owned()))
}
