// SPDX-License-Identifier: BSD-2-Clause
//! The command lines of the commands beside varnishadm: flags with values, and words.

use toolkit::options::{HelpPart, Opt};
use toolkit::tool::{AfterError, Tool};

use crate::Config;

#[derive(Debug, Default, PartialEq)]
pub struct AdmWords {
    flags: Vec<(String, String)>,
    pub(crate) rest: Vec<String>,
}

pub type AdmTool = Tool<AdmWords>;

pub(crate) const fn tool(name: &'static str, help: &'static [HelpPart<AdmWords>]) -> AdmTool {
    Tool { column: 20, word: AdmWords::word, suggests: false, after_error: AfterError::Usage, ..Tool::new(name, help) }
}

/// Reads `args` for a command. `no_word` begins the message for a word that is no flag, where none is wanted. `Err`: the exit status,
/// as help was asked for or something was wrong; it is printed.
pub(crate) fn read(tool: &AdmTool, args: &[String], no_word: Option<&str>) -> Result<AdmWords, i32> {
    let words = tool.settle(tool.read(AdmWords::default(), args))?;
    if let (Some(reason), Some(word)) = (no_word, words.rest.first()) {
        return Err(tool.refuse(format!("{reason} {word}")));
    }
    if words.last("-T").is_some() && words.last("-n").is_some() {
        return Err(tool.refuse("either -T or -n"));
    }
    Ok(words)
}

impl AdmWords {
    pub(crate) const WORKDIR: Opt<AdmWords> = AdmWords::flag("-n <dir>", "Working directory of the server");
    pub(crate) const ADDRESS: Opt<AdmWords> = AdmWords::flag("-T <host:port>", "CLI address of the server");
    pub(crate) const SECRET: Opt<AdmWords> = AdmWords::flag("-S <file>", "CLI secret file");
    pub(crate) const TIMEOUT: Opt<AdmWords> =
        AdmWords::flag("-t <seconds|off>", "How long to wait for the server (default: 5)");
    pub(crate) const FORMAT: Opt<AdmWords> = AdmWords::flag("--format <format>", "text or json (default: text)");

    /// A flag whose value is kept as it is.
    pub(crate) const fn flag(term: &'static str, text: &'static str) -> Opt<AdmWords> {
        Opt::new(term, &[], text, |words, args| {
            words.keep(args.name(), args.value()?);
            Ok(())
        })
    }

    pub(crate) const fn switch(term: &'static str, text: &'static str) -> Opt<AdmWords> {
        Opt::new(term, &[], text, |words, args| {
            words.keep(args.name(), "");
            Ok(())
        })
    }

    pub(crate) fn keep(&mut self, flag: &str, value: &str) {
        self.flags.push((flag.to_owned(), value.to_owned()));
    }

    pub(crate) fn word(&mut self, word: &str) -> Result<(), String> {
        self.rest.push(word.to_owned());
        Ok(())
    }

    pub(crate) fn all(&self, flag: &str) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(move |(name, _)| name == flag).map(|(_, value)| value.as_str())
    }

    /// The last value of a flag.
    pub(crate) fn last(&self, flag: &str) -> Option<&str> {
        self.all(flag).last()
    }

    pub(crate) fn config(&self) -> Config {
        let last = |flag| self.last(flag).map(str::to_owned);
        Config { name: last("-n"), address: last("-T"), secret: last("-S"), timeout: last("-t"), ..Config::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &[HelpPart<AdmWords>] = &[(
        "",
        &[
            AdmWords::WORKDIR,
            AdmWords::TIMEOUT,
            AdmWords::flag("-H <field>", "A header"),
            AdmWords::switch("-j", "JSON"),
        ],
    )];

    fn read(line: &str) -> Result<Option<AdmWords>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        tool("lacquer test", HELP).read(AdmWords::default(), &words)
    }

    #[test]
    fn flags_have_values_and_words_stay_in_order() {
        let words = read("-n a /one -H x -j -H y -n b two").unwrap().unwrap();
        assert_eq!((words.rest.join(" "), words.last("-n"), words.last("-t")), ("/one two".into(), Some("b"), None));
        assert_eq!((words.last("-j"), words.last("-S")), (Some(""), None));
        assert_eq!(words.all("-H").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(words.config().name.as_deref(), Some("b"));
        assert_eq!(read("-n a --help"), Ok(None));
        assert_eq!(read("/ -t"), Err("-t needs a value".into()));
        assert_eq!(read("-x"), Err("no option -x (--help shows the usage)".into()));
    }
}
