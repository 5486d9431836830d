// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer upgrade`: has a running server go on as the program that is installed now.

use toolkit::print;

use crate::words::CommandLine;
use crate::{Config, is_good};

const USAGE: &str = "\
Usage: lacquer upgrade [options]

Upgrades a running server to the installed program without downtime: it keeps its process ID, sockets, VCLs and
parameters, and no request fails. The new program is tested first; if it can't take over, nothing changes.

 -n <dir>         Working directory of the server
 -T <host:port>   CLI address of the server
 -S <file>        CLI secret file
 -t <seconds|off> How long to wait for the server (default: 120)
 -h               Show this help

The exit status is 0 if the server was upgraded, 1 if it continues unchanged, 2 if it couldn't be asked.
";

/// Seconds that a trial and a new worker may take.
const PATIENCE: u64 = 120;

const COMMAND: CommandLine = CommandLine {
    name: "lacquer upgrade",
    usage: USAGE,
    flags: &["-t"],
    no_word: Some(
        "no arguments are accepted (the program at the path from which the server was started takes over); not",
    ),
};

pub fn main(args: &[String]) -> i32 {
    let config = match COMMAND.read(args) {
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
