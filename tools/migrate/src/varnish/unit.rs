// SPDX-License-Identifier: BSD-2-Clause
//! systemd's units and their drop-ins: sections, keys, lines that go on after a backslash, and the words of ExecStart with its variables.

use std::rc::Rc;

use super::shell::{self, ShellVariables, VariableLanguage};
use super::text::{Letters, MAX_VALUE, PlacedText, PlacedWord};
use crate::migrated::Migrated;
use crate::source::{FileSource, SourcePlace};

/// A unit with its drop-ins, read one after the other.
#[derive(Default)]
pub struct ServiceUnit {
    /// The last ExecStart; an empty one takes back those before it.
    pub exec: Option<(SourcePlace, PlacedText)>,
    pub variables: ShellVariables,
}

/// True if a text has the section of a service.
pub fn is_unit(text: &str) -> bool {
    text.lines().any(|line| matches!(line.trim(), "[Service]" | "[Unit]" | "[Install]"))
}

impl ServiceUnit {
    /// Reads a file of it.
    ///
    /// # Errors
    /// A quote that nothing closes; the text says where.
    pub fn read(
        &mut self,
        text: &str,
        file: &Rc<str>,
        files: &dyn FileSource,
        migrated: &mut Migrated,
    ) -> Result<(), String> {
        let mut section = String::new();
        for (place, line) in joined(text, file) {
            let whole = line.to_string();
            let whole = whole.trim();
            if let Some(name) = whole.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            let Some((key, _)) = whole.split_once('=') else {
                migrated.refuse(&place, whole.split_whitespace().next().unwrap_or_default(), "KEY=VALUE is wanted");
                continue;
            };
            let begin = line.letters().iter().position(|(letter, _)| *letter == '=').map_or(0, |at| at + 1);
            let mut value = PlacedText::default();
            let rest = line.letters()[begin..].iter().skip_while(|(letter, _)| letter.is_whitespace());
            rest.for_each(|(letter, place)| value.push(*letter, place));
            self.take((&section, key.trim()), &place, value, files, migrated)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        (section, key): (&str, &str),
        place: &SourcePlace,
        value: PlacedText,
        files: &dyn FileSource,
        migrated: &mut Migrated,
    ) -> Result<(), String> {
        migrated.account.read(place, key);
        match (section, key) {
            ("Service", "ExecStart") => {
                if let Some((before, _)) = &self.exec {
                    migrated.without_meaning(before, key, "a later ExecStart replaces it");
                }
                let is_reset = value.len() == 0;
                self.exec = (!is_reset).then(|| (place.clone(), value));
                if is_reset {
                    migrated.translated(place, key);
                }
            }
            ("Service", "Environment") => {
                for word in value.words()? {
                    let text = word.text.letters();
                    let Some(at) = text.iter().position(|(letter, _)| *letter == '=') else {
                        migrated.refuse(place, key, "NAME=VALUE is wanted");
                        continue;
                    };
                    let name: String = text[..at].iter().map(|(letter, _)| *letter).collect();
                    let mut value = PlacedText::default();
                    text[at + 1..].iter().for_each(|(letter, place)| value.push(*letter, place));
                    self.variables.set(name, word.place, value, None);
                }
                migrated.translated(place, key);
            }
            ("Service", "EnvironmentFile") => self.environment_file(&value.to_string(), place, files, migrated)?,
            ("Service" | "Unit" | "Install", _) => {
                migrated.without_meaning(
                    place,
                    key,
                    "systemd heeds it: our unit varnish.service has the same name, so the drop-in stays",
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn environment_file(
        &mut self,
        value: &str,
        place: &SourcePlace,
        files: &dyn FileSource,
        migrated: &mut Migrated,
    ) -> Result<(), String> {
        let name = value.trim();
        let path = name.strip_prefix('-').unwrap_or(name);
        if path.is_empty() {
            migrated.translated(place, "EnvironmentFile");
            return Ok(());
        }
        match files.read(path) {
            Ok(text) if text.len() > super::MAX_BYTES => {
                return Err(format!("{path}:1: {} bytes are no file of variables", text.len()));
            }
            Ok(text) => {
                shell::read(&text, &Rc::from(path), VariableLanguage::Systemd, &mut self.variables, migrated)?;
                migrated.translated(place, "EnvironmentFile");
            }
            Err(error) if name.starts_with('-') => migrated.without_meaning(place, "EnvironmentFile", error),
            Err(error) => migrated.refuse(place, "EnvironmentFile", error),
        }
        Ok(())
    }

    /// The words of ExecStart, with the values of its variables.
    ///
    /// # Errors
    /// A quote that nothing closes, or a line that grows without end.
    pub fn words(&self, migrated: &mut Migrated) -> Result<Vec<PlacedWord>, String> {
        let Some((place, line)) = &self.exec else { return Ok(Vec::new()) };
        let mut out: Vec<PlacedWord> = Vec::new();
        let mut count = 0;
        for word in line.words()? {
            let text = word.text.to_string();
            let alone = text.strip_prefix('$').filter(|name| is_name(name));
            match alone {
                Some(name) => {
                    let value = self.value(name, place, migrated);
                    count += value.len() + 1;
                    out.extend(value.words()?);
                }
                None => {
                    let text = self.substituted(&word, migrated)?;
                    count += text.len() + 1;
                    out.push(PlacedWord { text, place: word.place });
                }
            }
            if count > MAX_VALUE {
                return Err(format!("{place}: ExecStart is longer than {MAX_VALUE} letters"));
            }
        }
        // Letters before the program that say how systemd starts it.
        if let Some(first) = out.first_mut() {
            let mut text = PlacedText::default();
            let rest = first.text.letters().iter().skip_while(|(letter, _)| "-@:+!|".contains(*letter));
            rest.for_each(|(letter, place)| text.push(*letter, place));
            first.text = text;
        }
        Ok(out)
    }

    fn value(&self, name: &str, place: &SourcePlace, migrated: &mut Migrated) -> PlacedText {
        match self.variables.get(name) {
            Some(variable) => variable.value.clone(),
            None => {
                migrated.note(place, "ExecStart", format!("${name} is set in none of these files: it is empty"));
                PlacedText::default()
            }
        }
    }

    /// A word with `${NAME}`, `$$` and `%%` replaced.
    fn substituted(&self, word: &PlacedWord, migrated: &mut Migrated) -> Result<PlacedText, String> {
        let letters = word.text.letters();
        let mut out = PlacedText::default();
        let mut at = 0;
        while let Some((letter, place)) = letters.get(at) {
            let next = letters.get(at + 1).map(|(letter, _)| *letter);
            at += 1;
            match (letter, next) {
                ('$' | '%', Some(same)) if same == *letter => at += 1,
                ('%', Some(specifier)) => {
                    migrated.refuse(
                        place,
                        "ExecStart",
                        format!("%{specifier} is known to systemd alone: write its value"),
                    );
                }
                ('$', Some('{')) => {
                    let name: String = letters[at + 1..]
                        .iter()
                        .map(|(letter, _)| *letter)
                        .take_while(|letter| *letter != '}')
                        .collect();
                    at += name.chars().count() + 2;
                    out.extend(&self.value(&name, place, migrated));
                    if out.len() > MAX_VALUE {
                        return Err(format!("{place}: the word is longer than {MAX_VALUE} letters"));
                    }
                    continue;
                }
                _ => {}
            }
            out.push(*letter, place);
        }
        Ok(out)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The lines of a unit without comments; one that ends with a backslash goes on in the next that is no comment.
fn joined(text: &str, file: &Rc<str>) -> Vec<(SourcePlace, PlacedText)> {
    let mut letters = Letters::new(text, file);
    let mut out: Vec<(SourcePlace, PlacedText)> = Vec::new();
    let mut open: Option<(SourcePlace, PlacedText)> = None;
    while letters.peek().is_some() {
        let place = letters.place();
        let mut line = PlacedText::default();
        loop {
            let at = letters.place();
            match letters.take() {
                None | Some('\n') => break,
                Some(letter) => line.push(letter, &at),
            }
        }
        let first = line.letters().iter().map(|(letter, _)| *letter).find(|letter| !letter.is_whitespace());
        if matches!(first, Some('#' | ';')) || first.is_none() && open.is_none() {
            continue;
        }
        line.trim_end();
        let is_open = line.letters().last().is_some_and(|(letter, _)| *letter == '\\');
        let (begin, mut whole) = open.take().unwrap_or((place, PlacedText::default()));
        let count = line.len() - usize::from(is_open);
        line.letters()[..count].iter().for_each(|(letter, place)| whole.push(*letter, place));
        match is_open {
            true => {
                whole.push(' ', &begin);
                open = Some((begin, whole));
            }
            false => out.push((begin, whole)),
        }
    }
    out.extend(open);
    out
}
