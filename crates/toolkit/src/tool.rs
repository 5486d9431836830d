// SPDX-License-Identifier: BSD-2-Clause
//! What commands of the program have in common: words are read, something is done, a status comes of it; what there is to know goes to
//! standard error with the command's name before it.

use std::fmt::Display;

use crate::args::{Arg, Args};
use crate::options::{HelpPart, Opt};
use crate::print;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterError {
    Synopsis,
    Usage,
    Nothing,
}

/// A command whose options are an `O`: its name, its help, and how it reads its words.
pub struct Tool<O: 'static> {
    /// The name on the command line: `lacquer asn`.
    pub name: &'static str,
    /// Begins with the ways to call it, and an empty line.
    pub help: &'static [HelpPart<O>],
    /// Columns in which the help's options and their texts begin.
    pub indent: usize,
    pub column: usize,
    pub word: fn(&mut O, &str) -> Result<(), String>,
    /// True if the message for an unknown option names the one that may be meant.
    pub suggests: bool,
    pub after_error: AfterError,
    /// The exit status if it couldn't do its work.
    pub failure: i32,
}

impl<O> Tool<O> {
    /// A tool that takes no plain words; its fields say what is different.
    pub const fn new(name: &'static str, help: &'static [HelpPart<O>]) -> Tool<O> {
        Tool {
            name,
            help,
            indent: 1,
            column: 22,
            word: |_, word| Err(format!("what is {word}? (--help shows the usage)")),
            suggests: true,
            after_error: AfterError::Synopsis,
            failure: 2,
        }
    }

    pub fn usage(&self) -> String {
        let mut out = String::new();
        for (text, options) in self.help {
            out.push_str(text);
            options.iter().for_each(|option| option.show(self.indent, self.column, &mut out));
        }
        out
    }

    fn synopsis(&self) -> &'static str {
        let text = self.help.first().map_or("", |(text, _)| text);
        &text[..text.find("\n\n").map_or(text.len(), |end| end + 1)]
    }

    pub fn options(&self) -> impl Iterator<Item = &'static Opt<O>> {
        self.help.iter().flat_map(|(_, options)| options.iter())
    }

    /// Reads words into `options`; `None`: help was asked for.
    ///
    /// # Errors
    /// One line that names the wrong word.
    pub fn read(&self, mut options: O, words: &[String]) -> Result<Option<O>, String> {
        let mut args = Args::new(words);
        while let Some(arg) = args.next()? {
            match arg {
                Arg::Help => return Ok(None),
                Arg::Word(word) => (self.word)(&mut options, word)?,
                Arg::Option(_) => match self.options().find(|option| option.is_in_hand(&args)) {
                    Some(option) => option.take(&mut options, &mut args)?,
                    None if self.suggests => return Err(args.unknown(&self.usage())),
                    None => return Err(args.unknown("")),
                },
            }
        }
        Ok(Some(options))
    }

    /// Runs it; the exit status. 2: the words were wrong.
    pub fn main<R>(
        &self,
        words: &[String],
        parse: impl FnOnce(&[String]) -> Result<Option<R>, String>,
        run: impl FnOnce(R) -> Result<i32, String>,
    ) -> i32 {
        match self.settle(parse(words)).map(run) {
            Ok(Ok(status)) | Err(status) => status,
            Ok(Err(error)) => {
                self.remark(error);
                self.failure
            }
        }
    }

    /// The options that were read. `Err`: the exit status, as help was asked for or something was wrong; it is printed.
    pub fn settle<R>(&self, read: Result<Option<R>, String>) -> Result<R, i32> {
        match read {
            Ok(Some(options)) => Ok(options),
            Ok(None) => {
                print::out(self.usage());
                Err(0)
            }
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Prints what is wrong with the words: the exit status.
    pub fn refuse(&self, error: impl Display) -> i32 {
        self.remark(error);
        match self.after_error {
            AfterError::Synopsis => print::err(self.synopsis()),
            AfterError::Usage => print::err(self.usage()),
            AfterError::Nothing => {}
        }
        2
    }

    /// Something to know, in a line of standard error.
    pub fn remark(&self, what: impl Display) {
        print::foreign_err(format_args!("{}: {what}\n", self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opt;

    type Seen = Vec<String>;

    const HELP: &[HelpPart<Seen>] = &[
        (
            "Usage: lacquer test N\n\nGives N back.\n\n",
            &[
                opt!("-d, --duration TIME": "For so long:\na time" => |o, args| o.push(format!("d{}", args.value()?))),
                opt!("--from, --to N": "Of these" => |o, args| o.push(format!("{}{}", args.name(), args.value()?))),
                Opt::glued(opt!("-I DIR": "" => |o, args| o.push(format!("I{}", args.value()?)))),
                opt!("--format text|json|xml": "How" => |o, args| o.push(args.text()?)),
            ],
        ),
        (
            "Other\n",
            &[
                opt!("--load[=N]": "\nMuch" => |o, args| o.push(format!("{:?}", args.joined_value()))),
                opt!("-q" | "--quiet": "Quiet" => |o, _| o.push("q".to_owned())),
                opt!("" | "--child": "" => |o, _| o.push("child".to_owned())),
                Opt::line("-h", "This help"),
            ],
        ),
        ("\nThe end.\n", &[]),
    ];
    const TOOL: Tool<Seen> = Tool {
        word: |o, word| {
            o.push(word.to_owned());
            Ok(())
        },
        ..Tool::new("lacquer test", HELP)
    };

    fn check(line: &str, expected: &str) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let got = match TOOL.read(Seen::new(), &words) {
            Ok(Some(seen)) => seen.join(" "),
            Ok(None) => "help".to_owned(),
            Err(error) => error,
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn options_are_read_by_all_their_names() {
        check("a --duration=1s -d 2s -- -d", "a d1s d2s -d");
        check("--from 1 --to=2", "--from1 --to2");
        check("-Ia -I b", "Ia Ib");
        check("-q --quiet --child --load --load=3", "q q child None Some(\"3\")");
        check("x --help", "help");
        check("--to", "--to needs a value");
        check("-q=1", "no option -q=1 (--help shows the usage)");
        check("--quiet=1", "--quiet takes no value");
        check("--formt x", "no option --formt: is --format meant? (--help shows the usage)");
        check("-dx", "no option -dx (--help shows the usage)");
    }

    #[test]
    fn the_help_has_all_rows() {
        let expected = "\
Usage: lacquer test N

Gives N back.

 -d, --duration TIME  For so long:
                      a time
 --from, --to N       Of these
 -I DIR
 --format text|json|xml  How
Other
 --load[=N]
                      Much
 -q                   Quiet
 -h                   This help

The end.
";
        assert_eq!(TOOL.usage(), expected);
        assert_eq!(TOOL.synopsis(), "Usage: lacquer test N\n");
        let names: Vec<&str> = TOOL.options().flat_map(Opt::names).collect();
        assert_eq!(names.join(" "), "-d --duration --from --to -I --format --load -q -h");
    }

    #[test]
    fn a_status_comes_of_the_words() {
        let status = |word: &str| {
            let parse = |words: &[String]| match words[0].as_str() {
                "-h" => Ok(None),
                word => word.parse().map(Some).map_err(|_| format!("{word}: no number")),
            };
            let run = |n: i32| if n < 100 { Ok(n) } else { Err("too much".into()) };
            TOOL.main(&[word.to_owned()], parse, run)
        };
        assert_eq!(["7", "100", "x", "-h"].map(status), [7, 2, 2, 0]);
    }
}
