// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer upgrade`: has a running server go on as the program that is installed now.

use toolkit::print;

use crate::words::CommandLine;
use crate::{Config, is_good};

const USAGE: &str = "\
Usage: lacquer upgrade [options]

Has a running server go on as the program that is installed now: the same process, sockets, VCLs and parameters, and no
request fails. The new program is tried first; if it can't take over, nothing has changed.

 -n <dir>         The working directory of the server
 -T <host:port>   Where its manager listens
 -S <file>        The secret file
 -t <seconds|off> How long to wait (default: 120)
 -h               This text

The exit status is 0 when the server was upgraded, 1 when it goes on as it was, 2 when it wasn't asked.
";

/// Seconds that a trial and a new worker may take.
const PATIENCE: &str = "120";

const COMMAND: CommandLine = CommandLine {
    name: "lacquer upgrade",
    usage: USAGE,
    flags: &["-t"],
    no_word: Some("the program that lies where the server was started from takes over, no argument says which; not"),
};

/// Runs it: the exit status.
pub fn main(args: &[String]) -> i32 {
    let config = match COMMAND.read(args) {
        Ok(words) => words.config(),
        Err(status) => return status,
    };
    let timeout = config.timeout.clone().or_else(|| Some(PATIENCE.to_owned()));
    ask(&Config { timeout, ..config })
}

fn ask(config: &Config) -> i32 {
    let Some(mut connection) = config.connect() else { return 2 };
    match connection.ask(b"upgrade\n") {
        Ok(reply) if is_good(reply.status) => {
            print::foreign(reply.text());
            0
        }
        Ok(reply) => {
            print::foreign_err(format_args!("{}\n", reply.text().trim_end()));
            1
        }
        Err(status) => status.clamp(1, 2),
    }
}
