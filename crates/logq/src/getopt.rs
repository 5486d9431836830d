// SPDX-License-Identifier: BSD-2-Clause
//! Options as getopt(3) reads them: clustered letters, values glued or apart, `--` ends, the first plain word ends.

use std::fmt;

/// An option with its help: the letter, the value's name (empty: none), what it does.
#[derive(Clone, Copy, Debug)]
pub struct ToolOption(pub char, pub &'static str, pub &'static str);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptError {
    Unknown(char),
    NoValue(char),
    /// An unknown long option, and the one that may be meant.
    Long(String, Option<String>),
    /// A long option without the value that it needs.
    NoLongValue(String),
}

impl fmt::Display for OptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptError::Unknown(letter) => write!(f, "invalid option -- '{letter}'"),
            OptError::NoValue(letter) => write!(f, "option requires an argument -- '{letter}'"),
            OptError::Long(word, None) => write!(f, "unknown option {word}"),
            OptError::Long(word, Some(near)) => write!(f, "unknown option {word}: is --{near} meant?"),
            OptError::NoLongValue(word) => write!(f, "option {word} requires an argument"),
        }
    }
}

/// An option found: its letter, or its name for long ones (which are ours alone: `--json`), and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptMatch {
    /// `-x` or `-x value`.
    Short(char, String),
    Long(String, String),
}

/// Reads options off `args`; what is left are the plain words.
///
/// # Errors
/// An unknown option, or one without the value it needs.
pub fn parse<'a>(
    args: &'a [String],
    options: &[ToolOption],
    long: &[&str],
) -> Result<(Vec<OptMatch>, &'a [String]), OptError> {
    parse_with_values(args, options, long, &[])
}

/// Reads options as [`parse`] does, but the long options in `valued` take the next word as their value when it isn't
/// glued.
///
/// # Errors
/// The same as for [`parse`].
pub fn parse_with_values<'a>(
    args: &'a [String],
    options: &[ToolOption],
    long: &[&str],
    valued: &[&str],
) -> Result<(Vec<OptMatch>, &'a [String]), OptError> {
    let mut found = Vec::new();
    let mut rest = args;
    while let Some((word, tail)) = rest.split_first() {
        if word == "--" {
            return Ok((found, tail));
        }
        if let Some(name) = word.strip_prefix("--") {
            let (name, value) = name.split_once('=').unwrap_or((name, ""));
            if !long.contains(&name) {
                let near = base::spelling::nearest(name, long.iter().copied());
                return Err(OptError::Long(word.clone(), near.map(str::to_owned)));
            }
            rest = tail;
            let mut value = value;
            if value.is_empty() && valued.contains(&name) {
                let Some((next, tail)) = tail.split_first() else { return Err(OptError::NoLongValue(word.clone())) };
                (value, rest) = (next, tail);
            }
            found.push(OptMatch::Long(name.to_owned(), value.to_owned()));
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else { break };
        rest = cluster(letters, tail, options, &mut found)?;
    }
    Ok((found, rest))
}

fn cluster<'a>(
    letters: &str,
    tail: &'a [String],
    options: &[ToolOption],
    found: &mut Vec<OptMatch>,
) -> Result<&'a [String], OptError> {
    for (at, letter) in letters.char_indices() {
        let option = options.iter().find(|o| o.0 == letter).ok_or(OptError::Unknown(letter))?;
        if option.1.is_empty() {
            found.push(OptMatch::Short(letter, String::new()));
            continue;
        }
        let glued = &letters[at + letter.len_utf8()..];
        if !glued.is_empty() {
            found.push(OptMatch::Short(letter, glued.to_owned()));
            return Ok(tail);
        }
        let (value, tail) = tail.split_first().ok_or(OptError::NoValue(letter))?;
        found.push(OptMatch::Short(letter, value.clone()));
        return Ok(tail);
    }
    Ok(tail)
}

/// The option letters in getopt(3)'s notation, for scripts that wrap a tool.
pub fn optstring(options: &[ToolOption]) -> String {
    options.iter().map(|o| format!("{}{}", o.0, if o.1.is_empty() { "" } else { ":" })).collect()
}

/// The usage text: options in order, then whatever else is to be said (examples).
pub fn usage(program: &str, options: &[ToolOption], more: &str) -> String {
    let mut text = format!("Usage: {program} <options>\n\nOptions:\n");
    for ToolOption(letter, value, help) in options {
        let option = if value.is_empty() { format!("[-{letter}]") } else { format!("[-{letter} <{value}>]") };
        text.push_str(&format!(" {option:<25} {help}\n"));
    }
    text.push_str(more);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &[ToolOption] = &[ToolOption('a', "", ""), ToolOption('b', "", ""), ToolOption('n', "dir", "")];

    fn check(line: &str, expected: &str) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let got = match parse(&args, OPTIONS, &["json"]) {
            Ok((found, rest)) => {
                let found = found.iter().map(|f| match f {
                    OptMatch::Short(letter, value) => format!("{letter}{value}"),
                    OptMatch::Long(name, value) => format!("{name}={value}"),
                });
                format!("{} | {}", found.collect::<Vec<_>>().join(" "), rest.join(" "))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn options() {
        check("", " | ");
        check("-ab -n x y -a", "a b nx | y -a");
        check("-abnx", "a b nx | ");
        check("-a -- -b", "a | -b");
        check("-a -", "a | -");
        check("--json --json=1", "json= json=1 | ");
        check("-c", "invalid option -- 'c'");
        check("-an", "option requires an argument -- 'n'");
        check("--nope", "unknown option --nope");
        check("--jsno", "unknown option --jsno: is --json meant?");
        assert_eq!(optstring(OPTIONS), "abn:");
    }
}
