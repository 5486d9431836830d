// SPDX-License-Identifier: BSD-2-Clause
//! The text of one component of a pattern, read part by part: fixed text, `*`, `:name`, `{...}`, each with `?`, `*` or `+`.

use super::UrlPatternError;
use super::automaton::{Automaton, Repeat};

/// The byte that ends a `:name` of a component, and is made optional with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delimiter {
    Slash,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Wildcard,
    Segment,
}

pub(super) fn name_len(text: &[u8]) -> usize {
    let is_part = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$');
    match text.first() {
        Some(first) if !first.is_ascii_digit() => text.iter().take_while(|c| is_part(c)).count(),
        _ => 0,
    }
}

pub(super) fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &c in text {
        if is_sign(c) || c == b'\\' {
            out.push(b'\\');
        }
        out.push(c);
    }
    out
}

/// True for bytes that have a meaning in a pattern, unless a backslash is before them.
fn is_sign(c: u8) -> bool {
    matches!(c, b'{' | b'}' | b'(' | b')' | b'*' | b':' | b'+' | b'?')
}

pub(super) fn compile(text: &[u8], delimiter: Delimiter) -> Result<Automaton, UrlPatternError> {
    let mut automaton = Automaton::default();
    let mut reader = Reader { rest: text, delimiter, names: Vec::new() };
    while !reader.rest.is_empty() {
        reader.part(&mut automaton)?;
    }
    Ok(automaton)
}

struct Reader<'p> {
    rest: &'p [u8],
    delimiter: Delimiter,
    names: Vec<&'p [u8]>,
}

impl<'p> Reader<'p> {
    fn part(&mut self, automaton: &mut Automaton) -> Result<(), UrlPatternError> {
        if self.eat(b'{') {
            return self.braces(automaton);
        }
        // A slash before a group belongs to it: `/:id?` makes both optional.
        let has_prefix = self.delimiter == Delimiter::Slash && self.rest.first() == Some(&b'/');
        let before = self.rest;
        let prefix: &[u8] = if has_prefix && self.eat(b'/') { b"/" } else { b"" };
        if let Some(group) = self.group()? {
            let repeat = self.repeat();
            self.push(automaton, prefix, Some(group), b"", repeat);
            return Ok(());
        }
        self.rest = before;
        let c = self.character()?.ok_or(UrlPatternError::Syntax)?;
        automaton.push_text(&[c]);
        Ok(())
    }

    fn braces(&mut self, automaton: &mut Automaton) -> Result<(), UrlPatternError> {
        let prefix = self.text()?;
        let group = self.group()?;
        let suffix = if group.is_some() { self.text()? } else { Vec::new() };
        if !self.eat(b'}') {
            return Err(UrlPatternError::Syntax);
        }
        let repeat = self.repeat();
        self.push(automaton, &prefix, group, &suffix, repeat);
        Ok(())
    }

    fn push(&self, automaton: &mut Automaton, prefix: &[u8], group: Option<Group>, suffix: &[u8], repeat: Repeat) {
        let has_slash = self.delimiter == Delimiter::None;
        automaton.push_repeated(repeat, |automaton| {
            automaton.push_text(prefix);
            match group {
                Some(Group::Wildcard) => automaton.push_wildcard(),
                Some(Group::Segment) => automaton.push_segment(has_slash),
                None => {}
            }
            automaton.push_text(suffix);
        });
    }

    fn eat(&mut self, c: u8) -> bool {
        let is_there = self.rest.first() == Some(&c);
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    /// Reads `*`, `:name`, `(.*)` or `([^/]+?)`; the last two mean the same as the first two.
    fn group(&mut self) -> Result<Option<Group>, UrlPatternError> {
        let name = match self.rest {
            [b':', name @ ..] => {
                let len = name_len(name);
                let name = &name[..len];
                if len == 0 || self.names.contains(&name) {
                    return Err(UrlPatternError::Syntax);
                }
                self.names.push(name);
                self.rest = &self.rest[1 + len..];
                Some(name)
            }
            _ => None,
        };
        if self.rest.first() == Some(&b'(') {
            return self.regexp().map(Some);
        }
        if name.is_some() {
            return Ok(Some(Group::Segment));
        }
        Ok(self.eat(b'*').then_some(Group::Wildcard))
    }

    fn regexp(&mut self) -> Result<Group, UrlPatternError> {
        let segment: &[u8] = match self.delimiter {
            Delimiter::Slash => b"([^/]+?)",
            Delimiter::None => b"([^]+?)",
        };
        for (text, group) in [(&b"(.*)"[..], Group::Wildcard), (segment, Group::Segment)] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Ok(group);
            }
        }
        Err(UrlPatternError::Regexp)
    }

    fn repeat(&mut self) -> Repeat {
        let signs = [(b'?', Repeat::Optional), (b'*', Repeat::Any), (b'+', Repeat::OneOrMore)];
        signs.into_iter().find(|(sign, _)| self.eat(*sign)).map_or(Repeat::Once, |(_, repeat)| repeat)
    }

    fn text(&mut self) -> Result<Vec<u8>, UrlPatternError> {
        let mut text = Vec::new();
        while !matches!(self.rest.first(), None | Some(b'{' | b'}' | b'*' | b':' | b'(')) {
            text.extend(self.character()?);
        }
        Ok(text)
    }

    fn character(&mut self) -> Result<Option<u8>, UrlPatternError> {
        let Some((&c, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        match c {
            b'\\' => {
                let (&escaped, behind) = rest.split_first().ok_or(UrlPatternError::Syntax)?;
                self.rest = behind;
                Ok(Some(escaped))
            }
            _ if is_sign(c) => Err(UrlPatternError::Syntax),
            _ => Ok(Some(c)),
        }
    }
}
