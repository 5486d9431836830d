// SPDX-License-Identifier: BSD-2-Clause
//! What the tools' command lines have in common: reading options, usage, version, how failures are told.

use toolkit::print;

use crate::getopt::{self, OptMatch, ToolOption};
use crate::tool::ToolFailure;

#[derive(Clone, Copy, Debug)]
pub struct ToolCli<'a> {
    pub options: &'a [ToolOption],
    /// Long options, which are ours alone, beside `--help` and `--optstring`.
    pub long: &'a [&'a str],
    /// Those of them that take the next word as their value.
    pub valued: &'a [&'a str],
    pub more: &'a str,
}

pub trait ToolProgram: Sized {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure>;

    fn run(self) -> Result<i32, ToolFailure>;
}

/// Reads the command line, runs the tool: its exit status.
pub fn main(program: &str, args: &[String], cli: &ToolCli<'_>, mut tool: impl ToolProgram) -> i32 {
    let mut start = || {
        let usage = || getopt::usage(program, cli.options, cli.more);
        let long: Vec<&str> = cli.long.iter().copied().chain(["help", "optstring"]).collect();
        let (found, rest) = match getopt::parse_with_values(args, cli.options, &long, cli.valued) {
            Ok(parsed) => parsed,
            Err(error) => {
                print::err(format_args!("{program}: {error}\n{}", usage()));
                return Ok(Some(1));
            }
        };
        for option in found {
            match &option {
                // On standard error, where Varnish's tools have it.
                OptMatch::Short('h', _) => print::err(usage()),
                OptMatch::Short('V', _) => print::err(crate::version::text(program)),
                OptMatch::Long(name, _) if name == "help" => print::out(usage()),
                OptMatch::Long(name, _) if name == "optstring" => {
                    print::out(format_args!("{}\n", getopt::optstring(cli.options)));
                }
                _ => {
                    tool.option(option)?;
                    continue;
                }
            }
            return Ok(Some(0));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        print::err(usage());
        Ok(Some(1))
    };
    let ended = match start() {
        Ok(Some(status)) => Ok(status),
        Ok(None) => tool.run(),
        Err(failure) => Err(failure),
    };
    ended.unwrap_or_else(|failure: ToolFailure| {
        print::err(format_args!("{failure}\n"));
        failure.status
    })
}
