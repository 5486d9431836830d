// SPDX-License-Identifier: BSD-2-Clause
//! The command lines of the commands beside varnishadm: flags with values, and words.

use toolkit::args::{Arg, Args};
use toolkit::print;

use crate::Config;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct AdmWords {
    flags: Vec<(String, String)>,
    pub rest: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandLine {
    /// The words that call it: `lacquer status`.
    pub name: &'static str,
    pub usage: &'static str,
    /// Flags beside -n, -T and -S.
    pub flags: &'static [&'static str],
    /// The message for a word that is no flag, where none is wanted.
    pub no_word: Option<&'static str>,
}

impl CommandLine {
    /// Reads `args`. `Err`: there is nothing to be done any more, and this is the exit status: help was asked for and shown, or
    /// something was wrong and is said.
    pub fn read(&self, args: &[String]) -> Result<AdmWords, i32> {
        let words = match AdmWords::read(args, self.flags) {
            Ok(Some(words)) => words,
            Ok(None) => {
                print::out(format_args!("{}", self.usage));
                return Err(0);
            }
            Err(reason) => return Err(self.refuse(&reason)),
        };
        if let (Some(reason), Some(word)) = (self.no_word, words.rest.first()) {
            return Err(self.refuse(&format!("{reason} {word}")));
        }
        if words.last("-T").is_some() && words.last("-n").is_some() {
            return Err(self.refuse("either -T or -n"));
        }
        Ok(words)
    }

    /// Says what is wrong: the exit status.
    pub fn refuse(&self, reason: &str) -> i32 {
        print::err(format_args!("{}: {reason}\n{}", self.name, self.usage));
        2
    }
}

impl AdmWords {
    /// Reads `args`; -n, -T and -S are known, `more` are further flags. `None`: help was asked for.
    ///
    /// # Errors
    /// What is wrong.
    pub fn read(args: &[String], more: &[&str]) -> Result<Option<AdmWords>, String> {
        let mut words = AdmWords::default();
        let mut args = Args::new(args);
        while let Some(arg) = args.next()? {
            match arg {
                Arg::Help => return Ok(None),
                Arg::Word(word) => words.rest.push(word.to_owned()),
                Arg::Option(flag) if ["-n", "-T", "-S"].contains(&flag) || more.contains(&flag) => {
                    words.flags.push((flag.to_owned(), args.value()?.to_owned()));
                }
                Arg::Option(_) => return Err(args.unknown("")),
            }
        }
        Ok(Some(words))
    }

    pub fn all(&self, flag: &str) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(move |(name, _)| name == flag).map(|(_, value)| value.as_str())
    }

    /// The last value of a flag.
    pub fn last(&self, flag: &str) -> Option<&str> {
        self.all(flag).last()
    }

    pub fn config(&self) -> Config {
        let last = |flag| self.last(flag).map(str::to_owned);
        Config { name: last("-n"), address: last("-T"), secret: last("-S"), timeout: last("-t"), ..Config::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<AdmWords>, String> {
        AdmWords::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), &["-H", "-t"])
    }

    #[test]
    fn flags_have_values_and_words_stay_in_order() {
        let words = read("-n a /one -H x -H y -n b two").unwrap().unwrap();
        assert_eq!((words.rest.join(" "), words.last("-n"), words.last("-t")), ("/one two".into(), Some("b"), None));
        assert_eq!(words.all("-H").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(words.config().name.as_deref(), Some("b"));
        assert_eq!(read("-n a --help"), Ok(None));
        assert_eq!(read("/ -t"), Err("-t needs a value".into()));
        assert_eq!(read("-x"), Err("no option -x (--help shows the usage)".into()));
    }
}
