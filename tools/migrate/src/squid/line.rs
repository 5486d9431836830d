// SPDX-License-Identifier: BSD-2-Clause
//! The lines of squid's configuration: words, comments, continued lines and included files.

use std::rc::Rc;

use crate::source::{FileSource, SourcePlace, check_count, named};

const MAX_DEPTH: usize = 16;

pub(super) struct Line {
    pub words: Vec<String>,
    pub place: SourcePlace,
}

impl Line {
    pub(super) fn word(&self, i: usize) -> &str {
        self.words.get(i).map_or("", String::as_str)
    }

    pub(super) fn rest(&self, i: usize) -> &[String] {
        self.words.get(i..).unwrap_or_default()
    }

    /// The value of an option; the last one counts, as in squid.
    pub(super) fn option(&self, key: &str) -> Option<&str> {
        self.words.iter().rev().find_map(|word| word.strip_prefix(key))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }
}

/// True of an option by its name: one that ends with `=` has a value.
pub(super) fn is_option(word: &str, name: &str) -> bool {
    if name.ends_with('=') { word.starts_with(name) } else { word == name }
}

pub(super) fn read(path: &str, files: &dyn FileSource, lines: &mut Vec<Line>, depth: usize) -> Result<(), String> {
    let name: Rc<str> = Rc::from(path);
    let all = files.read(path)?;
    let mut rest = all.lines().enumerate();
    while let Some((at, first)) = rest.next() {
        let is_left_out = |text: &str| text.trim().is_empty() || text.trim_start().starts_with('#');
        if is_left_out(first) {
            continue;
        }
        let mut whole = first.trim_start().to_owned();
        // Comments and empty lines within a line that goes on are left out, and so are blanks before each piece.
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = rest.by_ref().find(|(_, next)| !is_left_out(next)) else { break };
            whole.push_str(next.trim_start());
        }
        let text = whole.trim();
        if text.is_empty() {
            continue;
        }
        // A word that begins so is a comment to the end of the line; `a#b` is a word.
        let words: Vec<String> =
            text.split_whitespace().take_while(|word| !word.starts_with('#')).map(str::to_owned).collect();
        let words = with_values(words, files);
        let place = SourcePlace { file: Rc::clone(&name), line: at + 1, column: 1 };
        match words[0] == "include" {
            false => {
                check_count(lines.len(), &place)?;
                lines.push(Line { words, place });
            }
            true => {
                for pattern in &words[1..] {
                    let found = named(files, pattern).map_err(|error| format!("{place}: include: {error}"))?;
                    if depth == MAX_DEPTH {
                        return Err(format!("{place}: includes nest deeper than {MAX_DEPTH}"));
                    }
                    found.iter().try_for_each(|file| read(file, files, lines, depth + 1))?;
                }
            }
        }
    }
    Ok(())
}

/// The words of an acl with the values from files that it names in quotes: one to a line. A file that can't be read stays named.
fn with_values(words: Vec<String>, files: &dyn FileSource) -> Vec<String> {
    if words[0] != "acl" {
        return words;
    }
    let values = |word: String| {
        let path = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        let Some(text) = path.and_then(|path| files.read(path).ok()) else { return vec![word] };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    words.into_iter().flat_map(values).collect()
}
