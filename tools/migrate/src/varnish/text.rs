// SPDX-License-Identifier: BSD-2-Clause
//! Texts whose letters know where they came from: a start line is put together of several lines and files.

use std::rc::Rc;

use crate::source::SourcePlace;

/// Letters that a value may grow to: exec(2) takes no longer word.
pub const MAX_VALUE: usize = 128 << 10;

/// A text, each letter with its file and line.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PlacedText(Vec<(char, SourcePlace)>);

impl PlacedText {
    pub fn push(&mut self, letter: char, place: &SourcePlace) {
        self.0.push((letter, place.clone()));
    }

    pub fn extend(&mut self, text: &PlacedText) {
        self.0.extend_from_slice(&text.0);
    }

    pub fn letters(&self) -> &[(char, SourcePlace)] {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn trim_end(&mut self) {
        let end = self.0.iter().rposition(|(letter, _)| !letter.is_whitespace()).map_or(0, |last| last + 1);
        self.0.truncate(end);
    }

    /// The words between blanks, as systemd splits a variable that is a word of its own: quotes are respected and removed.
    ///
    /// # Errors
    /// A quote that nothing closes.
    pub fn words(&self) -> Result<Vec<PlacedWord>, String> {
        let mut out = Vec::new();
        let mut rest = self.0.iter().peekable();
        while let Some((first, place)) = rest.next_if(|_| true) {
            if first.is_whitespace() {
                continue;
            }
            let mut word = PlacedWord { text: PlacedText::default(), place: place.clone() };
            let mut next = Some((*first, place));
            while let Some((letter, at)) = next {
                match letter {
                    '"' | '\'' => loop {
                        match rest.next() {
                            None => return Err(format!("{at}: a {letter} has no other one")),
                            Some((end, _)) if *end == letter => break,
                            Some(('\\', at)) if letter == '"' => {
                                let (letter, _) = rest.next().unwrap_or(&('\\', place.clone())).clone();
                                word.text.push(letter, at);
                            }
                            Some((other, at)) => word.text.push(*other, at),
                        }
                    },
                    '\\' => {
                        if let Some((letter, at)) = rest.next() {
                            word.text.push(*letter, at);
                        }
                    }
                    other => word.text.push(other, at),
                }
                next = rest.next_if(|(letter, _)| !letter.is_whitespace()).map(|(letter, at)| (*letter, at));
            }
            out.push(word);
        }
        Ok(out)
    }
}

impl std::fmt::Display for PlacedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}

/// A word of a command line, and the place of its first letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedWord {
    pub text: PlacedText,
    pub place: SourcePlace,
}

/// The letters of a file, one after the other, with their places.
pub struct Letters {
    letters: Vec<char>,
    at: usize,
    line: usize,
    file: Rc<str>,
}

impl Letters {
    pub fn new(text: &str, file: &Rc<str>) -> Letters {
        Letters { letters: text.chars().collect(), at: 0, line: 1, file: Rc::clone(file) }
    }

    pub fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    pub fn is_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, letter)| self.letters.get(self.at + i) == Some(&letter))
    }

    pub fn take(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    pub fn take_if(&mut self, is_wanted: impl FnOnce(char) -> bool) -> Option<char> {
        self.peek().filter(|letter| is_wanted(*letter))?;
        self.take()
    }

    /// The name of a variable, if one comes next.
    pub fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) =
            self.take_if(|c| c == '_' || c.is_ascii_alphabetic() || !name.is_empty() && c.is_ascii_digit())
        {
            name.push(letter);
        }
        name
    }

    pub fn place(&self) -> SourcePlace {
        SourcePlace { file: Rc::clone(&self.file), line: self.line, column: self.at }
    }

    /// Goes back to a letter that was read before.
    pub fn back_to(&mut self, place: &SourcePlace) {
        (self.at, self.line) = (place.column, place.line);
    }

    pub fn skip_line(&mut self) {
        while self.take().is_some_and(|letter| letter != '\n') {}
    }
}
