// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer upgrade`: has a running server go on as the program that is installed now.

use toolkit::options::{HelpPart, Opt};
use toolkit::print;
use toolkit::tool::Tool;

use crate::words::{AdmTool, AdmWords, read, tool};
use crate::{Config, is_good};

const INTRODUCTION: &str = "\
Usage: lacquer upgrade [options]

Upgrades a running server to the installed program without downtime: it keeps its process ID, sockets, VCLs and
parameters, and no request fails. The new program is tested first; if it can't take over, nothing changes.

";

const EPILOGUE: &str = "
The exit status is 0 if the server was upgraded, 1 if it continues unchanged, 2 if it couldn't be asked.
";

const HELP: &[HelpPart<AdmWords>] = &[
    (
        INTRODUCTION,
        &[
            AdmWords::WORKDIR,
            AdmWords::ADDRESS,
            AdmWords::SECRET,
            AdmWords::flag("-t <seconds|off>", "How long to wait for the server (default: 120)"),
            Opt::HELP,
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: AdmTool = Tool { column: 18, ..tool("lacquer upgrade", HELP) };

/// Seconds that a trial and a new worker may take.
const PATIENCE: u64 = 120;

const NO_WORD: &str =
    "no arguments are accepted (the program at the path from which the server was started takes over); not";

pub fn main(args: &[String]) -> i32 {
    let config = match read(&TOOL, args, Some(NO_WORD)) {
        Ok(words) => words.config(),
        Err(status) => return status,
    };
    ask(&Config { patience: Some(PATIENCE), ..config })
}

fn ask(config: &Config) -> i32 {
    let Some(mut connection) = config.connect() else { return 2 };
    match connection.ask(b"upgrade\n") {
        Ok(reply) if is_good(reply.status) => {
            print::foreign(reply.text());
            0
        }
        Ok(reply) => {
            print::foreign_err(format_args!("{}\n", admin::refusal(&reply)));
            1
        }
        Err(status) => status.clamp(1, 2),
    }
}
