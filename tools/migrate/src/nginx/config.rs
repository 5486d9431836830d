// SPDX-License-Identifier: BSD-2-Clause
//! nginx's language: words, `;`, blocks in braces, `#` to the end of a line, quotes; includes are read in their places.

use std::cell::Cell;
use std::rc::Rc;

use crate::source::{FileSource, SourcePlace, beside, check_count, directory_of, named};

const MAX_DEPTH: usize = 20;

/// The fate of a directive so far; a later one replaces those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Claim {
    #[default]
    Nobody,
    /// Nothing heeds it where it stands: the rules of a cache that is off.
    Inert,
    /// No request comes to its block.
    Unreached,
    /// The blocks within have their own directives of this name.
    Shadowed,
    /// nginx goes on doing what it asks for.
    Kept,
    /// The VCL does what it asks for.
    Claimed,
}

/// A directive with its words, and the directives of its block if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    pub name: String,
    /// The others, without their quotes.
    pub words: Vec<String>,
    pub block: Option<Vec<Directive>>,
    pub place: SourcePlace,
    pub claimed: Cell<Claim>,
    /// True if the translation that is under way has used it.
    pub is_read: Cell<bool>,
}

impl Directive {
    pub fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// True of blocks with entries that are no directives.
    pub fn is_table(&self) -> bool {
        matches!(self.name.as_str(), "map" | "geo" | "types" | "split_clients")
    }

    pub fn word(&self, i: usize) -> &str {
        self.words.get(i).map_or("", String::as_str)
    }

    pub fn claim(&self, claim: Claim) {
        self.claimed.set(self.claimed.get().max(claim));
    }
}

enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// Reads a file with what it includes; names of included files are meant from the directory of the first.
///
/// # Errors
/// A file can't be read, or isn't nginx's language; the text says where.
pub fn read(file: &str, files: &dyn FileSource) -> Result<Vec<Directive>, String> {
    Reader { files, directory: directory_of(file).to_owned(), count: Cell::new(0) }.file(file, None, 0)
}

struct Reader<'a> {
    files: &'a dyn FileSource,
    directory: String,
    /// Directives so far.
    count: Cell<usize>,
}

impl Reader<'_> {
    fn file(&self, path: &str, place: Option<&SourcePlace>, depth: usize) -> Result<Vec<Directive>, String> {
        let text = self.files.read(path).map_err(|error| included(place, &error))?;
        let mut tokens = tokens(&text, &Rc::from(path))?.into_iter();
        let all = self.block(&mut tokens, None, 0, depth)?;
        Ok(all)
    }

    /// Up to the brace that closes it, or for a file (`level` 0) to the end.
    fn block(
        &self,
        tokens: &mut std::vec::IntoIter<(Token, SourcePlace)>,
        opened: Option<&(String, SourcePlace)>,
        level: usize,
        depth: usize,
    ) -> Result<Vec<Directive>, String> {
        if let Some((_, place)) = opened.filter(|_| level > MAX_DEPTH) {
            return Err(format!("{place}: blocks nest deeper than {MAX_DEPTH}"));
        }
        // Entries of tables are many, and are no directives.
        let is_table = opened.is_some_and(|(name, _)| matches!(name.as_str(), "map" | "geo" | "types"));
        let mut out = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut begin: Option<SourcePlace> = None;
        while let Some((token, place)) = tokens.next() {
            match token {
                Token::Word(word) => {
                    begin.get_or_insert(place);
                    words.push(word);
                }
                Token::Close if level > 0 && words.is_empty() => return Ok(out),
                Token::Close => return Err(format!("{place}: a }} too many, or a ; is missing before it")),
                Token::End | Token::Open if words.is_empty() => {
                    return Err(format!("{place}: a directive has no name"));
                }
                Token::End | Token::Open => {
                    let is_open = matches!(token, Token::Open);
                    let mut words = std::mem::take(&mut words);
                    let opened = (words.remove(0), begin.take().unwrap_or(place));
                    if !is_table {
                        check_count(self.count.get(), &opened.1)?;
                        self.count.set(self.count.get() + 1);
                    }
                    let block = if is_open { Some(self.block(tokens, Some(&opened), level + 1, depth)?) } else { None };
                    let (name, place) = opened;
                    match name == "include" && !is_open {
                        true => out.extend(self.include(words.first().map_or("", String::as_str), &place, depth)?),
                        false => out.push(Directive {
                            name,
                            words,
                            block,
                            place,
                            claimed: Cell::default(),
                            is_read: Cell::default(),
                        }),
                    }
                }
            }
        }
        match (words.is_empty(), level, begin) {
            (true, 0, _) => Ok(out),
            (true, _, _) => {
                let open = opened.map(|(name, place)| format!("{place}: {name} {{ isn't closed: ")).unwrap_or_default();
                Err(format!("{open}a }} is missing"))
            }
            (false, _, begin) => {
                let place = begin.map(|place| format!("{place}: ")).unwrap_or_default();
                Err(format!("{place}{} has no ; at its end", words[0]))
            }
        }
    }

    fn include(&self, name: &str, place: &SourcePlace, depth: usize) -> Result<Vec<Directive>, String> {
        if depth == MAX_DEPTH {
            return Err(format!("{place}: includes nest deeper than {MAX_DEPTH}"));
        }
        let path = beside(&self.directory, name);
        let all = named(self.files, &path).map_err(|error| included(Some(place), &error))?;
        let read = all.iter().map(|file| self.file(file, Some(place), depth + 1));
        Ok(read.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// The error of a file, with the place that names the file unless the error has one.
fn included(place: Option<&SourcePlace>, error: &str) -> String {
    place.map_or_else(|| error.to_owned(), |place| format!("{place}: include: {error}"))
}

fn tokens(text: &str, file: &Rc<str>) -> Result<Vec<(Token, SourcePlace)>, String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while let Some(c) = chars.next() {
        let place = SourcePlace { file: Rc::clone(file), line, column: out.len() };
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() => {}
            '#' => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            ';' => out.push((Token::End, place)),
            '{' => out.push((Token::Open, place)),
            '}' => out.push((Token::Close, place)),
            quote @ ('"' | '\'') => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        None => return Err(format!("{place}: a {quote} has no other one")),
                        Some('\\') => escaped(&mut word, &mut chars, &mut line),
                        Some(end) if end == quote => break,
                        Some(other) => {
                            line += usize::from(other == '\n');
                            word.push(other);
                        }
                    }
                }
                out.push((Token::Word(word), place));
            }
            first => {
                let mut word = String::new();
                let mut next = Some(first);
                while let Some(c) = next {
                    match c {
                        '\\' => escaped(&mut word, &mut chars, &mut line),
                        other => word.push(other),
                    }
                    // The braces of `${name}` are part of a word; a `{` anywhere else ends it, a `}` doesn't.
                    let is_braced = c == '$' && chars.peek() == Some(&'{');
                    next = chars.next_if(|c| is_braced || !(c.is_whitespace() || matches!(c, ';' | '{')));
                }
                let is_lua = word.ends_with("_by_lua_block");
                out.push((Token::Word(word), place));
                if is_lua {
                    line += skip_lua(&mut chars);
                    out.push((Token::End, SourcePlace { file: Rc::clone(file), line, column: out.len() }));
                }
            }
        }
    }
    Ok(out)
}

/// A backslash and what follows it: it goes before quotes and itself, and stands for a control character before `t`, `r` and `n`.
fn escaped(word: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>, line: &mut usize) {
    match chars.next() {
        Some(c @ ('"' | '\'' | '\\')) => word.push(c),
        Some('t') => word.push('\t'),
        Some('r') => word.push('\r'),
        Some('n') => word.push('\n'),
        Some(other) => {
            *line += usize::from(other == '\n');
            word.extend(['\\', other]);
        }
        None => word.push('\\'),
    }
}

/// Skips a block in Lua's language up to the brace that closes it; gives the number of its lines.
fn skip_lua(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> usize {
    let (mut depth, mut lines) = (0_usize, 0);
    for c in chars.by_ref() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => break,
            '}' => depth -= 1,
            '\n' => lines += 1,
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Given;

    fn show(all: &[Directive]) -> String {
        let one = |d: &Directive| {
            let block = d.block.as_ref().map(|b| format!("{{{}}}", show(b))).unwrap_or_default();
            format!("{}@{}({}){block}", d.name, d.place.line, d.words.join("|"))
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_language() {
        let files = Given(&[
            (
                "/e/n.conf",
                "a 1 'x y'; # c\nhttp {\n  include d/*.conf;\n b \"q\\\"\" ${v}x;\n c a#b a}b \\.d \\\\ a\\;b;\n x_by_lua_block { if { } # }\n d e;\n}\n",
            ),
            ("/e/d/one.conf", "server { }"),
        ]);
        let all = read("/e/n.conf", &files).map(|all| show(&all));
        assert_eq!(
            all.as_deref(),
            Ok("a@1(1|x y) http@2(){server@1(){} b@4(q\"|${v}x) c@5(a#b|a}b|\\.d|\\|a\\;b) x_by_lua_block@6() d@7(e)}")
        );
    }

    #[test]
    fn what_is_not_the_language() {
        for (text, error) in [
            ("\na { b;", "f:2: a { isn't closed: a } is missing"),
            ("a", "f:1: a has no ; at its end"),
            ("\n}", "f:2: a } too many, or a ; is missing before it"),
            (";", "f:1: a directive has no name"),
            ("a 'b", "f:1: a ' has no other one"),
        ] {
            let files: &'static [(&str, &str)] = Box::leak(Box::new([("f", text)]));
            assert_eq!(read("f", &Given(files)), Err(error.to_owned()), "{text}");
        }
    }
}
