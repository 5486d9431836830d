// SPDX-License-Identifier: BSD-2-Clause
//! The lines of squid's configuration: words, comments, continued lines and included files.

use std::rc::Rc;

use crate::source::{FileSource, SourcePlace, check_count};

/// Depth to which includes may nest.
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

    pub(super) fn option(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }
}

pub(super) fn read(path: &str, files: &dyn FileSource, lines: &mut Vec<Line>, depth: usize) -> Result<(), String> {
    let name: Rc<str> = Rc::from(path);
    let all = files.read(path)?;
    let mut rest = all.lines().enumerate();
    while let Some((at, first)) = rest.next() {
        let mut whole = first.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = rest.next() else { break };
            whole.push_str(next);
        }
        let text = whole.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        // A word that begins so is a comment to the end of the line; `a#b` is a word.
        let words: Vec<String> =
            text.split_whitespace().take_while(|word| !word.starts_with('#')).map(str::to_owned).collect();
        let place = SourcePlace { file: Rc::clone(&name), line: at + 1, column: 1 };
        match words[0] == "include" {
            false => {
                check_count(lines.len(), &place)?;
                lines.push(Line { words, place });
            }
            true => {
                for pattern in &words[1..] {
                    let found =
                        if pattern.contains(['*', '?']) { files.matching(pattern) } else { vec![pattern.clone()] };
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
