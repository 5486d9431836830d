// SPDX-License-Identifier: BSD-2-Clause
//! Files of shell variables (/etc/default/varnish, /etc/sysconfig/varnish, varnish.params), as a shell that sources them reads them, and as systemd
//! reads its EnvironmentFile. Nothing is run: what only a shell can tell (command substitution, `if`, any command) is refused by its line.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::text::{Letters, MAX_VALUE, PlacedText};
use crate::migrated::Migrated;
use crate::source::SourcePlace;

/// The program that reads a file of variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariableLanguage {
    Shell,
    /// systemd's EnvironmentFile: `$` is a letter as any other.
    Systemd,
}

pub struct ShellVariable {
    pub place: SourcePlace,
    pub value: PlacedText,
    /// The part of the value that only a shell can tell.
    pub needs_shell: Option<String>,
    pub is_used: Cell<bool>,
}

/// Variables by name, with their last values.
#[derive(Default)]
pub struct ShellVariables {
    all: BTreeMap<String, ShellVariable>,
    /// Letters of values that were put into others.
    copied: usize,
}

/// Letters that values may put into others, all together.
const MAX_COPIED: usize = 8 * MAX_VALUE;

impl ShellVariables {
    /// A variable's value, which is used from now on.
    pub fn get(&self, name: &str) -> Option<&ShellVariable> {
        let found = self.all.get(name)?;
        found.is_used.set(true);
        Some(found)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &ShellVariable)> {
        self.all.iter()
    }

    /// Counts a value that is put into another.
    ///
    /// # Errors
    /// All together are too long.
    pub fn count_copy(&mut self, letters: usize, place: &SourcePlace) -> Result<(), String> {
        self.copied += letters;
        match self.copied > MAX_COPIED {
            true => Err(format!("{place}: more than {MAX_COPIED} letters come of variables within values")),
            false => Ok(()),
        }
    }

    pub fn set(&mut self, name: String, place: SourcePlace, value: PlacedText, needs_shell: Option<String>) {
        self.all.insert(name, ShellVariable { place, value, needs_shell, is_used: Cell::default() });
    }
}

/// Reads a file's assignments into `variables`.
///
/// # Errors
/// A quote or bracket that nothing closes, or a value that grows without end; the text says where.
pub fn read(
    text: &str,
    file: &Rc<str>,
    language: VariableLanguage,
    variables: &mut ShellVariables,
    migrated: &mut Migrated,
) -> Result<(), String> {
    let mut reader = VariableReader { letters: Letters::new(text, file), language, variables };
    while reader.step(migrated)? {}
    Ok(())
}

struct VariableReader<'a> {
    letters: Letters,
    language: VariableLanguage,
    variables: &'a mut ShellVariables,
}

/// A value under way.
#[derive(Default)]
struct ShellValue {
    text: PlacedText,
    needs_shell: Option<String>,
}

/// Words that a shell gives a variable another quality by, and that change nothing of its value.
const DECLARING: [&str; 3] = ["export", "readonly", "declare"];

impl VariableReader<'_> {
    /// One assignment, comment or command; false at the end.
    fn step(&mut self, migrated: &mut Migrated) -> Result<bool, String> {
        let is_shell = self.language == VariableLanguage::Shell;
        let Some(letter) = self.letters.peek() else { return Ok(false) };
        match letter {
            '#' => self.letters.skip_line(),
            ';' if !is_shell => self.letters.skip_line(),
            letter if letter.is_whitespace() || letter == ';' => _ = self.letters.take(),
            '\\' if self.letters.is_at("\\\n") => self.letters.skip_line(),
            _ => self.command(migrated)?,
        }
        Ok(true)
    }

    fn command(&mut self, migrated: &mut Migrated) -> Result<(), String> {
        let place = self.letters.place();
        let name = self.letters.name();
        if DECLARING.contains(&name.as_str()) && self.letters.peek().is_some_and(|c| c == ' ' || c == '\t') {
            return Ok(());
        }
        let is_more = self.letters.is_at("+=") && self.language == VariableLanguage::Shell;
        if name.is_empty() || !is_more && self.letters.peek() != Some('=') {
            self.letters.back_to(&place);
            let word = self.skip_command()?;
            migrated.refuse(&place, &word, "a command needs a shell: write its result as NAME=VALUE");
            return Ok(());
        }
        if is_more {
            self.letters.take();
        }
        self.letters.take();
        let mut value = ShellValue::default();
        if is_more && let Some(before) = self.variables.get(&name) {
            value.text.extend(&before.value);
            value.needs_shell.clone_from(&before.needs_shell);
        }
        self.variables.count_copy(value.text.len(), &place)?;
        match self.language {
            VariableLanguage::Shell => self.shell_value(&mut value)?,
            VariableLanguage::Systemd => self.systemd_value(&mut value)?,
        }
        migrated.account.read(&place, &name);
        self.variables.set(name, place, value.text, value.needs_shell);
        Ok(())
    }

    /// A command up to its end; gives its first word.
    fn skip_command(&mut self) -> Result<String, String> {
        let mut first = String::new();
        let mut is_first = true;
        let mut before = ' ';
        while let Some(letter) = self.letters.take_if(|c| c != '\n') {
            match letter {
                '#' if begins_word(before) => while self.letters.take_if(|c| c != '\n').is_some() {},
                letter if self.skip_quoted(letter)? => {}
                letter if letter.is_whitespace() => is_first = false,
                letter if is_first && first.len() < 40 => first.push(letter),
                _ => {}
            }
            before = letter;
        }
        Ok(first)
    }

    /// Skips what a letter quotes, if it quotes anything: an escaped letter, a text in quotes, a command within the command.
    fn skip_quoted(&mut self, letter: char) -> Result<bool, String> {
        match letter {
            '\\' => _ = self.letters.take(),
            '\'' | '"' | '`' => self.skip_to(letter)?,
            '$' if self.letters.peek() == Some('(') => self.skip_brackets('(', ')')?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn skip_to(&mut self, end: char) -> Result<(), String> {
        let place = self.letters.place();
        loop {
            match self.letters.take() {
                None => return Err(format!("{place}: a {end} has no other one")),
                Some('\\') if end != '\'' => _ = self.letters.take(),
                Some(letter) if letter == end => return Ok(()),
                Some('$') if end == '"' && self.letters.peek() == Some('(') => self.skip_brackets('(', ')')?,
                Some(_) => {}
            }
        }
    }

    fn push(&self, value: &mut ShellValue, letter: char, place: &SourcePlace) -> Result<(), String> {
        value.text.push(letter, place);
        self.check(value)
    }

    fn check(&self, value: &ShellValue) -> Result<(), String> {
        match value.text.len() > MAX_VALUE {
            true => Err(format!("{}: the value is longer than {MAX_VALUE} letters", self.letters.place())),
            false => Ok(()),
        }
    }

    fn shell_value(&mut self, value: &mut ShellValue) -> Result<(), String> {
        loop {
            let place = self.letters.place();
            let Some(letter) = self.letters.take_if(|c| !(c.is_whitespace() || ";&|<>()".contains(c))) else {
                return Ok(());
            };
            match letter {
                '\'' => self.single_quoted(value, &place)?,
                '"' => self.double_quoted(value, &place)?,
                '\\' => match self.letters.take() {
                    Some('\n') | None => {}
                    Some(letter) => self.push(value, letter, &place)?,
                },
                '$' | '`' => self.expansion(letter, value, &place)?,
                letter => self.push(value, letter, &place)?,
            }
        }
    }

    fn single_quoted(&mut self, value: &mut ShellValue, begin: &SourcePlace) -> Result<(), String> {
        loop {
            let place = self.letters.place();
            match self.letters.take() {
                None => return Err(format!("{begin}: a ' has no other one")),
                Some('\'') => return Ok(()),
                Some(letter) => self.push(value, letter, &place)?,
            }
        }
    }

    fn double_quoted(&mut self, value: &mut ShellValue, begin: &SourcePlace) -> Result<(), String> {
        loop {
            let place = self.letters.place();
            match self.letters.take() {
                None => return Err(format!("{begin}: a \" has no other one")),
                Some('"') => return Ok(()),
                Some('\\') => match self.letters.take() {
                    Some('\n') | None => {}
                    Some(letter @ ('$' | '`' | '"' | '\\')) => self.push(value, letter, &place)?,
                    Some(letter) => {
                        self.push(value, '\\', &place)?;
                        self.push(value, letter, &place)?;
                    }
                },
                Some(letter @ ('$' | '`')) if self.language == VariableLanguage::Shell => {
                    self.expansion(letter, value, &place)?;
                }
                Some(letter) => self.push(value, letter, &place)?,
            }
        }
    }

    /// Reads the name or command after `$`, or a command in backquotes.
    fn expansion(&mut self, letter: char, value: &mut ShellValue, place: &SourcePlace) -> Result<(), String> {
        let needs_shell = |value: &mut ShellValue, what: &str| {
            value.needs_shell.get_or_insert_with(|| format!("{what} needs a shell: write its result"));
            // In the place of what isn't known.
            value.text.push('?', place);
        };
        if letter == '`' {
            self.skip_to('`')?;
            needs_shell(value, "a command in backquotes");
            return Ok(());
        }
        match self.letters.peek() {
            Some('(') => {
                self.skip_brackets('(', ')')?;
                needs_shell(value, "$(...)");
            }
            Some('{') => {
                self.letters.take();
                self.braced(value, place)?;
            }
            Some('\'' | '"') => needs_shell(value, "$'...'"),
            _ => match self.letters.name() {
                name if !name.is_empty() => self.put(&name, value)?,
                _ if self.letters.take_if(|c| "0123456789@*#?!-$".contains(c)).is_some() => {
                    needs_shell(value, "a parameter of the shell");
                }
                _ => self.push(value, '$', place)?,
            },
        }
        Ok(())
    }

    fn skip_brackets(&mut self, open: char, close: char) -> Result<(), String> {
        let (place, mut depth, mut before) = (self.letters.place(), 0_usize, ' ');
        loop {
            let Some(letter) = self.letters.take() else { return Err(format!("{place}: a {open} has no {close}")) };
            match letter {
                '#' if begins_word(before) => self.letters.skip_line(),
                '\\' => _ = self.letters.take(),
                '\'' | '"' => self.skip_to(letter)?,
                _ if letter == open => depth += 1,
                _ if letter == close && depth <= 1 => return Ok(()),
                _ if letter == close => depth -= 1,
                _ => {}
            }
            before = letter;
        }
    }

    /// `${NAME}`, and with a text for a variable that isn't set: `:-`, `-`, `:=`, `=`, `:+`, `+`.
    fn braced(&mut self, value: &mut ShellValue, place: &SourcePlace) -> Result<(), String> {
        let name = self.letters.name();
        let is_colon = !name.is_empty() && self.letters.take_if(|c| c == ':').is_some();
        let operator = self.letters.take();
        let is_there = self.variables.get(&name).is_some_and(|variable| !is_colon || variable.value.len() > 0);
        match operator {
            None => Err(format!("{place}: a {{ has no }}")),
            Some('}') if !name.is_empty() && !is_colon => self.put(&name, value),
            Some(operator @ ('-' | '=' | '+')) if !name.is_empty() => {
                let mut other = ShellValue::default();
                self.until_brace(&mut other, place)?;
                match (is_there, operator) {
                    (true, '+') | (false, '-' | '=') => {
                        value.text.extend(&other.text);
                        value.needs_shell = value.needs_shell.take().or(other.needs_shell.clone());
                        if operator == '=' {
                            self.variables.set(name, place.clone(), other.text, other.needs_shell);
                        }
                        self.check(value)
                    }
                    (true, _) => self.put(&name, value),
                    (false, _) => Ok(()),
                }
            }
            Some(_) => {
                let mut depth = 1;
                while depth > 0 {
                    match self.letters.take() {
                        None => return Err(format!("{place}: a {{ has no }}")),
                        Some('{') => depth += 1,
                        Some('}') => depth -= 1,
                        Some(_) => {}
                    }
                }
                value.needs_shell.get_or_insert_with(|| format!("${{{name}...}} needs a shell: write its result"));
                value.text.push('?', place);
                Ok(())
            }
        }
    }

    fn until_brace(&mut self, value: &mut ShellValue, begin: &SourcePlace) -> Result<(), String> {
        loop {
            let place = self.letters.place();
            match self.letters.take() {
                None => return Err(format!("{begin}: a {{ has no }}")),
                Some('}') => return Ok(()),
                Some('\'') => self.single_quoted(value, &place)?,
                Some('"') => self.double_quoted(value, &place)?,
                Some('\\') => match self.letters.take() {
                    Some('\n') | None => {}
                    Some(letter) => self.push(value, letter, &place)?,
                },
                // Depth is bounded by the recursion's own limit: a value in a value in a value.
                Some('$') if self.letters.peek() == Some('{') => {
                    return Err(format!("{place}: ${{...}} within ${{...}} isn't read here: write its value"));
                }
                Some(letter @ ('$' | '`')) => self.expansion(letter, value, &place)?,
                Some(letter) => self.push(value, letter, &place)?,
            }
        }
    }

    /// Puts a variable's value in. One that isn't set is empty, as in a shell.
    fn put(&mut self, name: &str, value: &mut ShellValue) -> Result<(), String> {
        let count = self.variables.get(name).map_or(0, |variable| variable.value.len());
        self.variables.count_copy(count, &self.letters.place())?;
        if let Some(variable) = self.variables.get(name) {
            value.text.extend(&variable.value);
            let inherited = variable.needs_shell.as_ref().map(|_| format!("it uses {name}, which needs a shell"));
            value.needs_shell = value.needs_shell.take().or(inherited);
        }
        self.check(value)
    }

    /// Reads to the end of the line; quotes count where a value or a part of it begins.
    fn systemd_value(&mut self, value: &mut ShellValue) -> Result<(), String> {
        let mut is_beginning = true;
        loop {
            let place = self.letters.place();
            match self.letters.take() {
                None | Some('\n') => {
                    value.text.trim_end();
                    return Ok(());
                }
                Some('\'') if is_beginning => self.single_quoted(value, &place)?,
                Some('"') if is_beginning => self.double_quoted(value, &place)?,
                Some('\\') => match self.letters.take() {
                    Some('\n') | None => {}
                    Some(letter) => self.push(value, letter, &place)?,
                },
                Some(letter) if letter.is_whitespace() && is_beginning => {}
                Some(letter) => {
                    is_beginning = false;
                    self.push(value, letter, &place)?;
                }
            }
        }
    }
}

/// True if a word may begin behind this letter: only there `#` begins a comment.
fn begins_word(before: char) -> bool {
    before.is_whitespace() || ";&|()".contains(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables and the refusals of a text, one to a line.
    fn of(text: &str, language: VariableLanguage) -> String {
        let (mut variables, mut migrated) = (ShellVariables::default(), Migrated::default());
        if let Err(error) = read(text, &Rc::from("f"), language, &mut variables, &mut migrated) {
            return error;
        }
        let show = |(name, variable): (&String, &ShellVariable)| match &variable.needs_shell {
            Some(reason) => format!("{name}@{}: {reason}", variable.place.line),
            None => format!("{name}@{}={}", variable.place.line, variable.value),
        };
        let refused = migrated.notes.iter().map(ToString::to_string);
        variables.iter().map(show).chain(refused).collect::<Vec<_>>().join("\n")
    }

    fn check(text: &str, expect: &str) {
        assert_eq!(of(text, VariableLanguage::Shell), expect, "{text}");
    }

    #[test]
    fn assignments_as_a_shell_reads_them() {
        check("# c\nA=1 # c\nB='a b'\"c\\\"d\"e\\ f; export C=x#y\n", "A@2=1\nB@3=a bc\"de f\nC@3=x#y");
        check("A=\"-a :80 \\\n  -s malloc\"\n", "A@1=-a :80   -s malloc");
        check("A=a\\\nb", "A@1=ab");
        check("A=1\nA+=2\nB=$A${A}\"$A\"'$A'\\$A$", "A@2=12\nB@3=121212$A$A$");
        check("A=${X:-d}${X-e}${X+f}\nE=\nB=${E:-g}${E-h}${E+i}\nC=${D:=z}$D", "A@1=de\nB@3=gi\nC@4=zz\nD@4=z\nE@2=");
    }

    #[test]
    fn what_only_a_shell_can_tell_is_named() {
        let sub = "$(...) needs a shell: write its result";
        check(
            "I=$(uname -n)\nJ=\"a$(b \"(\" c)d\"\nK=$I",
            &format!("I@1: {sub}\nJ@2: {sub}\nK@3: it uses I, which needs a shell"),
        );
        check("I=`a \\` b`c", "I@1: a command in backquotes needs a shell: write its result");
        check("I=${A%%x}y", "I@1: ${A...} needs a shell: write its result");
        check("I=$1", "I@1: a parameter of the shell needs a shell: write its result");
        let command = "a command needs a shell: write its result as NAME=VALUE";
        check(
            "ulimit -n 1 \\\n 2\nif [ x ]; then\nA=1\nfi",
            &format!(
                "A@4=1\nf:1: refused: ulimit: {command}\nf:3: refused: if: {command}\nf:5: refused: fi: {command}"
            ),
        );
    }

    #[test]
    fn quotes_in_comments_and_quotes_of_commands_quote_nothing() {
        let command = "a command needs a shell: write its result as NAME=VALUE";
        for text in [
            "ulimit -n 1 # don't",
            "echo \"isn't\"",
            "x;# don't",
            "x a#b",
            "x 'a # b'",
            "x \"a # b\"",
            "x \"$(y \"it's\" # don't\n)\"",
            "x `y \"`",
            "x $(y # don't\n)",
            "x \\'",
            "x \\# 'y'",
            "x $# \"a\nb\"",
            "x \"\\\"'\"",
        ] {
            let word: String = text.chars().take_while(|c| *c != ' ').collect();
            let word = if text.starts_with("x;") { "x;" } else { &word };
            check(
                &format!("{text}\nA=1"),
                &format!("A@{}=1\nf:1: refused: {word}: {command}", text.lines().count() + 1),
            );
        }
        check("I=$(x # don't\n)\nA=1", "A@3=1\nI@1: $(...) needs a shell: write its result");
    }

    /// Each value is short enough, all together are not.
    #[test]
    fn values_of_values_are_bounded_together() {
        let long = format!("A={}\n", "x".repeat(MAX_VALUE / 2));
        for line in ["B#=$A\n", "B=$A\n", "B=${A}\n", "B=${A:-x}\n", "B=${X:-$A}\n", "B=${X:+$A}\n", "B=x\nB+=$A\n"] {
            let text: String = (0..2000).map(|i| line.replace('#', &i.to_string())).collect();
            let error = of(&format!("{long}{text}"), VariableLanguage::Shell);
            assert!(error.contains("letters come of variables") && error.len() < 200, "{line}: {error:.200}");
        }
        let once: String = (0..2000).map(|i| format!("B{i}=$A\n")).collect();
        assert!(of(&format!("A=x\n{once}"), VariableLanguage::Shell).contains("B1999@2001=x"));
    }

    #[test]
    fn what_is_not_closed_is_an_error() {
        for (text, error) in [
            ("A=1\nB='x\ny", "f:2: a ' has no other one"),
            ("B=\"x", "f:1: a \" has no other one"),
            ("B=$(x", "f:1: a ( has no )"),
            ("B=${x", "f:1: a { has no }"),
            ("B=${x:-y", "f:1: a { has no }"),
        ] {
            check(text, error);
        }
        let doubling: String = (1..40).map(|i| format!("A{i}=$A{}$A{}\n", i - 1, i - 1)).collect();
        let error = of(&format!("A0=ab\n{doubling}"), VariableLanguage::Shell);
        assert!(error.contains("longer than 131072 letters"), "{error}");
    }

    #[test]
    fn systemd_reads_a_line_as_it_is() {
        let text = "; c\n# c\nA=-p a=b -p c=$D  \nB=\"x \\\"y\\\"\" \nC='a b'\nE=a'b\nF=a\\\nb";
        assert_eq!(of(text, VariableLanguage::Systemd), "A@3=-p a=b -p c=$D\nB@4=x \"y\"\nC@5=a b\nE@6=a'b\nF@7=ab");
    }
}
