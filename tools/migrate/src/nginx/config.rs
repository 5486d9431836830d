// SPDX-License-Identifier: BSD-2-Clause
//! nginx's language: words, `;`, blocks in braces, `#` to the end of a line, quotes; includes are read in their places.

use std::rc::Rc;

use crate::source::{FileSource, SourcePlace, beside, directory_of};

/// Depth to which includes and blocks may nest.
const MAX_DEPTH: usize = 20;

/// A directive with its words, and the directives of its block if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    pub name: String,
    /// The others, without their quotes.
    pub words: Vec<String>,
    pub block: Option<Vec<Directive>>,
    pub place: SourcePlace,
}

impl Directive {
    pub fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    pub fn word(&self, i: usize) -> &str {
        self.words.get(i).map_or("", String::as_str)
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
    Reader { files, directory: directory_of(file).to_owned() }.file(file, 0)
}

struct Reader<'a> {
    files: &'a dyn FileSource,
    directory: String,
}

impl Reader<'_> {
    fn file(&self, path: &str, depth: usize) -> Result<Vec<Directive>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("{path}: includes nest deeper than {MAX_DEPTH}"));
        }
        let text = self.files.read(path)?;
        let mut tokens = tokens(&text, &Rc::from(path))?.into_iter();
        let all = self.block(&mut tokens, 0, depth)?;
        Ok(all)
    }

    /// Up to the brace that closes it, or for a file (`level` 0) to the end.
    fn block(
        &self,
        tokens: &mut std::vec::IntoIter<(Token, SourcePlace)>,
        level: usize,
        depth: usize,
    ) -> Result<Vec<Directive>, String> {
        if level > MAX_DEPTH {
            return Err(format!("blocks nest deeper than {MAX_DEPTH}"));
        }
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
                    let block = if is_open { Some(self.block(tokens, level + 1, depth)?) } else { None };
                    let mut words = std::mem::take(&mut words);
                    let name = words.remove(0);
                    let place = begin.take().unwrap_or(place);
                    match name == "include" && !is_open {
                        true => out.extend(self.include(words.first().map_or("", String::as_str), &place, depth)?),
                        false => out.push(Directive { name, words, block, place }),
                    }
                }
            }
        }
        match (words.is_empty(), level, begin) {
            (true, 0, _) => Ok(out),
            (true, _, _) => Err("a } is missing at the end".to_owned()),
            (false, _, begin) => {
                let place = begin.map(|place| format!("{place}: ")).unwrap_or_default();
                Err(format!("{place}{} has no ; at its end", words[0]))
            }
        }
    }

    fn include(&self, name: &str, place: &SourcePlace, depth: usize) -> Result<Vec<Directive>, String> {
        let path = beside(&self.directory, name);
        if path.contains(['*', '?']) {
            let all = self.files.matching(&path);
            return all
                .iter()
                .map(|file| self.file(file, depth + 1))
                .collect::<Result<Vec<_>, _>>()
                .map(|v| v.concat());
        }
        self.file(&path, depth + 1).map_err(|error| format!("{place}: include: {error}"))
    }
}

fn tokens(text: &str, file: &Rc<str>) -> Result<Vec<(Token, SourcePlace)>, String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while let Some(c) = chars.next() {
        let place = SourcePlace { file: Rc::clone(file), line };
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
            '"' | '\'' => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        None => return Err(format!("{place}: a {c} has no other one")),
                        Some('\\') if chars.peek().is_some_and(|next| *next == c) => word.extend(chars.next()),
                        Some(end) if end == c => break,
                        Some(other) => {
                            line += usize::from(other == '\n');
                            word.push(other);
                        }
                    }
                }
                out.push((Token::Word(word), place));
            }
            _ => {
                let mut word = String::from(c);
                while let Some(&next) = chars.peek() {
                    // `${name}` is part of a word, and so is a regex's `{2}`, which nginx wants in quotes.
                    let is_braced = next == '{' && word.ends_with('$');
                    if !is_braced && (next.is_whitespace() || ";{}".contains(next)) {
                        break;
                    }
                    word.extend(chars.next());
                    if is_braced {
                        word.extend(std::iter::from_fn(|| chars.next_if(|c| *c != '}' && *c != '\n')));
                        word.extend(chars.next_if_eq(&'}'));
                    }
                }
                out.push((Token::Word(word), place));
            }
        }
    }
    Ok(out)
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
            ("/e/n.conf", "a 1 'x y'; # c\nhttp {\n  include d/*.conf;\n b \"q\\\"\" ${v}x;\n}\n"),
            ("/e/d/one.conf", "server { }"),
        ]);
        let all = read("/e/n.conf", &files).map(|all| show(&all));
        assert_eq!(all.as_deref(), Ok("a@1(1|x y) http@2(){server@1(){} b@4(q\"|${v}x)}"));
    }

    #[test]
    fn what_is_not_the_language() {
        for (text, error) in [
            ("a { b;", "a } is missing at the end"),
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
