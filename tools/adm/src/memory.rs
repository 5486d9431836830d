// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer memory`: who holds how much of a running server's memory.

use serde_json::Value;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;

use crate::is_good;
use crate::words::{AdmTool, AdmWords, read, tool};

const INTRODUCTION: &str = "\
Usage: lacquer memory [options]

Shows how much memory a running server takes (manager and worker together) and for what: stores, index, connections,
transactions, other heap memory, the allocator, log, program. If memory_limit is set, it also shows how close the limit
is and which measures are in effect.

";

const HELP: &[HelpPart<AdmWords>] = &[(
    INTRODUCTION,
    &[AdmWords::WORKDIR, AdmWords::ADDRESS, AdmWords::SECRET, AdmWords::TIMEOUT, AdmWords::FORMAT, Opt::HELP],
)];

pub const TOOL: AdmTool = tool("lacquer memory", HELP);

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked.
pub fn main(args: &[String]) -> i32 {
    let words = match read(&TOOL, args, Some("no command")) {
        Ok(words) => words,
        Err(status) => return status,
    };
    let command = match words.last("--format").unwrap_or("text") {
        "text" => "memory.list\n",
        "json" => "memory.list -j\n",
        other => return TOOL.refuse(format!("no format {other}")),
    };
    let Some(mut connection) = words.config().connect() else { return 2 };
    let reply = match connection.ask(command.as_bytes()) {
        Ok(reply) => reply,
        Err(status) => return status.clamp(1, 2),
    };
    let text = reply.text();
    if !is_good(reply.status) {
        print::err(format_args!("lacquer memory: {}\n", admin::refusal(&reply)));
        return 1;
    }
    // Of a JSON reply only what it is about: head and envelope are the CLI's.
    match if command.ends_with("-j\n") { content(&text) } else { Some(text.into_owned()) } {
        Some(shown) => {
            print::foreign(format_args!("{}\n", shown.trim_end()));
            0
        }
        None => {
            print::err("lacquer memory: the server's answer isn't as expected\n");
            1
        }
    }
}

pub(crate) fn content(reply: &str) -> Option<String> {
    match serde_json::from_str(reply).ok()? {
        Value::Array(mut members) => members.pop().filter(Value::is_object).map(|object| format!("{object:#}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_json_reply_the_content_is_shown() {
        assert_eq!(
            content("[ 2, [\"memory.list\", \"-j\"], 1.5,\n{ \"used\": 7 }\n]\n").unwrap(),
            "{\n  \"used\": 7\n}"
        );
        assert_eq!((content("[ 2, [], 1.5\n]\n"), content("x")), (None, None));
    }
}
