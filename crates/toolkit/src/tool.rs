// SPDX-License-Identifier: BSD-2-Clause
//! What commands of the program have in common: words are read, something is done, a status comes of it; what there is to know goes to
//! standard error with the command's name before it.

use std::fmt::Display;

use crate::print;

/// A command: how it is called, and what its help says.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// The name on the command line: `lacquer asn`.
    pub name: &'static str,
    /// The ways to call it, in a few lines: shown to who calls it otherwise.
    pub synopsis: &'static str,
    pub details: &'static str,
}

#[derive(Debug)]
pub enum ToolInvocation<O> {
    Run(O),
    Help,
}

impl Tool {
    pub fn usage(&self) -> String {
        format!("{}{}", self.synopsis, self.details)
    }

    /// Runs it; the exit status. 2: the words were wrong, or `run` couldn't do it.
    pub fn main<O>(
        &self,
        words: &[String],
        parse: impl FnOnce(&[String]) -> Result<ToolInvocation<O>, String>,
        run: impl FnOnce(&O) -> Result<i32, String>,
    ) -> i32 {
        match parse(words) {
            Ok(ToolInvocation::Help) => {
                print::out(self.usage());
                0
            }
            Ok(ToolInvocation::Run(options)) => run(&options).unwrap_or_else(|error| {
                self.remark(error);
                2
            }),
            Err(error) => {
                self.remark(error);
                print::err(self.synopsis);
                2
            }
        }
    }

    /// Something to know, in a line of standard error.
    pub fn remark(&self, what: impl Display) {
        print::foreign_err(format_args!("{}: {what}\n", self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: Tool = Tool { name: "lacquer test", synopsis: "Usage: lacquer test N\n", details: "\nGives N back.\n" };

    fn check(word: &str, status: i32) {
        let parse = |words: &[String]| match words[0].as_str() {
            "-h" => Ok(ToolInvocation::Help),
            word => word.parse().map(ToolInvocation::Run).map_err(|_| format!("{word}: no number")),
        };
        let run = |n: &i32| if *n < 100 { Ok(*n) } else { Err("too much".into()) };
        assert_eq!(TOOL.main(&[word.to_owned()], parse, run), status, "{word}");
    }

    #[test]
    fn a_status_comes_of_the_words() {
        check("7", 7);
        check("100", 2);
        check("x", 2);
        check("-h", 0);
        assert_eq!(TOOL.usage(), "Usage: lacquer test N\n\nGives N back.\n");
    }
}
