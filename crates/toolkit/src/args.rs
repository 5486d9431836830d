// SPDX-License-Identifier: BSD-2-Clause
//! The words after a command: options and plain words in any order, `--name VALUE` as well as `--name=VALUE`, after `--` plain
//! words alone. What Varnish's own tools take is read as getopt(3) reads it, and not here.

use std::ops::RangeInclusive;
use std::slice;
use std::time::Duration;

use base::text;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg<'a> {
    /// One of `-h`, `-?`, `--help`.
    Help,
    /// An option's name, with its dashes. Its value, if it has one, is to be asked for.
    Option(&'a str),
    /// No option; `-` is none.
    Word(&'a str),
}

/// See the module. Errors are one line that names the wrong word.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    rest: slice::Iter<'a, String>,
    name: &'a str,
    /// The text behind its `=`, until it is taken.
    joined: Option<&'a str>,
    has_only_words: bool,
}

impl<'a> Args<'a> {
    pub fn new(words: &'a [String]) -> Args<'a> {
        Args { rest: words.iter(), name: "", joined: None, has_only_words: false }
    }

    /// The next option or word; none at the end.
    ///
    /// # Errors
    /// The last option was given a value (`--quiet=x`) which nobody asked for.
    // No Iterator: it borrows nothing from itself, so that values can be asked for while an argument is in hand, and it can fail.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Arg<'a>>, String> {
        if self.joined.is_some() {
            return Err(format!("{} takes no value", self.name));
        }
        let Some(word) = self.rest.next().map(String::as_str) else { return Ok(None) };
        if self.has_only_words || word == "-" || !word.starts_with('-') {
            return Ok(Some(Arg::Word(word)));
        }
        if word == "--" {
            self.has_only_words = true;
            return self.next();
        }
        (self.name, self.joined) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word, None),
        };
        Ok(Some(if matches!(self.name, "-h" | "-?" | "--help") { Arg::Help } else { Arg::Option(self.name) }))
    }

    /// The name of the option in hand, as it was typed.
    pub fn name(&self) -> &'a str {
        self.name
    }

    pub(crate) fn letter(&self) -> Option<&'a str> {
        self.name.get(..2).filter(|_| self.name.len() > 2 && !self.name.starts_with("--"))
    }

    /// Takes `-Ivalue` for `-I value`.
    pub(crate) fn unglue(&mut self) {
        if let Some(letter) = self.letter() {
            self.joined = Some(&self.name[letter.len()..]);
            self.name = letter;
        }
    }

    /// The option's value: behind `=`, or the next word, whatever that is.
    ///
    /// # Errors
    /// There is none.
    pub fn value(&mut self) -> Result<&'a str, String> {
        let value = self.joined.take().or_else(|| self.rest.next().map(String::as_str));
        value.ok_or_else(|| format!("{} needs a value", self.name))
    }

    pub fn text(&mut self) -> Result<String, String> {
        self.value().map(str::to_owned)
    }

    /// The value of an option that may have one: only behind `=`.
    pub fn joined_value(&mut self) -> Option<&'a str> {
        self.joined.take()
    }

    /// The value as `parse` understands it; `expected` is what is said otherwise.
    ///
    /// # Errors
    /// There is none, or it isn't understood.
    pub fn parsed<T>(&mut self, expected: &str, parse: impl FnOnce(&'a str) -> Option<T>) -> Result<T, String> {
        let value = self.value()?;
        parse(value).ok_or_else(|| format!("{} {value}: {expected}", self.name))
    }

    /// The meaning of the value, of these words.
    ///
    /// # Errors
    /// There is none, or it is another word.
    pub fn one_of<T: Copy>(&mut self, words: &[(&str, T)]) -> Result<T, String> {
        let value = self.value()?;
        let found = words.iter().find(|(word, _)| *word == value).map(|(_, meant)| *meant);
        found.ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("{} {value}: one of {}", self.name, all.join(", "))
        })
    }

    /// The value as a number; 1_000_000 is one, too.
    ///
    /// # Errors
    /// There is none, or it is none of these numbers.
    pub fn number<T: TryFrom<u64>>(&mut self, range: RangeInclusive<u64>) -> Result<T, String> {
        let (least, most) = (*range.start(), *range.end());
        let expected = if most == u64::MAX {
            format!("not a number from {least}")
        } else {
            format!("not a number from {least} to {most}")
        };
        self.parsed(&expected, |value| {
            value.replace('_', "").parse().ok().filter(|n| range.contains(n)).and_then(|n| T::try_from(n).ok())
        })
    }

    /// The value as a time: `500ms`, `10s`, `1h`, or seconds.
    ///
    /// # Errors
    /// There is none, or it is none of these times.
    pub fn time(&mut self, range: RangeInclusive<Duration>) -> Result<Duration, String> {
        let value = self.value()?;
        time(self.name, value, range)
    }

    /// The message for an option that nobody knows. `usage` is the text that names the options; an empty one suggests none.
    pub fn unknown(&self, usage: &str) -> String {
        let name = self.name;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words = usage.split(|c: char| !is_part(c)).filter(|word| word.starts_with("--") && word.len() > 3);
        let near = words.clone().find(|word| name.starts_with("--") && word.starts_with(name));
        let near = near.or_else(|| base::spelling::nearest(name, words));
        match near.filter(|_| name.starts_with("--")) {
            Some(near) => format!("no option {name}: is {near} meant? (--help shows the usage)"),
            None => format!("no option {name} (--help shows the usage)"),
        }
    }
}

/// Does what [`Args::time`] does, for an option whose value was taken before.
///
/// # Errors
/// It is none of these times.
pub fn time(name: &str, value: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let seconds = text::parse_duration(value).or_else(|| value.parse().ok());
    let time =
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).filter(|time| range.contains(time));
    time.ok_or_else(|| {
        let (least, most) = (text::show_duration(*range.start()), text::show_duration(*range.end()));
        format!("{name} {value}: not a time from {least} to {most}, as 500ms, 10s or 1h")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks how a command with `-n N`, `-d TIME`, `--db FILE`, `--as text|json`, `--live[=NAME]` and `-q` reads a
    /// line.
    fn check(line: &str, expected: &str) {
        let words: Vec<String> = line.split('|').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let mut args = Args::new(&words);
        let mut seen = Vec::new();
        let error = loop {
            let step = match args.next() {
                Err(error) => break error,
                Ok(None) => break "end".to_owned(),
                Ok(Some(Arg::Help)) => Ok("help".to_owned()),
                Ok(Some(Arg::Word(word))) => Ok(word.to_owned()),
                Ok(Some(Arg::Option("-n"))) => args.number::<u8>(1..=1000).map(|n| format!("n{n}")),
                Ok(Some(Arg::Option("-d"))) => {
                    args.time(Duration::from_millis(1)..=Duration::from_hours(24)).map(|time| format!("{time:?}"))
                }
                Ok(Some(Arg::Option("--db"))) => args.value().map(|file| format!("db:{file}")),
                Ok(Some(Arg::Option("--as"))) => args.one_of(&[("text", 't'), ("json", 'j')]).map(String::from),
                Ok(Some(Arg::Option("--live"))) => Ok(format!("{:?}", args.joined_value())),
                Ok(Some(Arg::Option("-q"))) => Ok("q".to_owned()),
                Ok(Some(Arg::Option(_))) => {
                    Err(args.unknown("Usage: it [options]\n -n N  --db FILE  --live[=NAME], --quiet"))
                }
            };
            match step {
                Ok(text) => seen.push(text),
                Err(error) => break error,
            }
        };
        seen.push(error);
        assert_eq!(seen.join(" "), expected, "{line}");
    }

    #[test]
    fn options_and_words_mix() {
        check("", "end");
        check("a|--db|x|b|--db=y=z|-", "a db:x b db:y=z - end");
        check("--db|--db|--db=|-q", "db:--db db: q end");
        check("a|--|--db|-h", "a --db -h end");
        check("-h|-?|--help", "help help help end");
        check("--live|--live=x|--as|json|--as=text", "None Some(\"x\") j t end");
        check("-n|1_0|-d|1h|-d|90|-d|0.5", "n10 3600s 90s 500ms end");
    }

    #[test]
    fn what_is_wrong_is_named() {
        check("a|--db", "a --db needs a value");
        check("--live=x|--live|y", "Some(\"x\") None y end");
        check("-q|--help=x|a", "q help --help takes no value");
        check("-q=x", "no option -q=x (--help shows the usage)");
        check("--frob=1|a", "no option --frob (--help shows the usage)");
        check("--liev", "no option --liev: is --live meant? (--help shows the usage)");
        check("--qui|a", "no option --qui: is --quiet meant? (--help shows the usage)");
        check("-x", "no option -x (--help shows the usage)");
        check("--as|xml", "--as xml: one of text, json");
        for number in ["0", "1001", "x", "-1", "300"] {
            check(&format!("-n|{number}"), &format!("-n {number}: not a number from 1 to 1000"));
        }
        for time in ["0", "25h", "soon", "NaN", "-1", "inf"] {
            check(&format!("-d|{time}"), &format!("-d {time}: not a time from 1ms to 1d, as 500ms, 10s or 1h"));
        }
    }
}
