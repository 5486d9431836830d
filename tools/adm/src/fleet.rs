// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer fleet status`: how a running server fares as a node of its fleet.

use base::print;

use crate::is_good;
use crate::words::CommandLine;

const USAGE: &str = "\
Usage: lacquer fleet status [options]

Says how a running server fares as a node of a fleet: whether the log of what is banned and purged can be reached,
how far it has been carried out here, and what of the cache is served.

 -n <dir>           The working directory of the server
 -T <host:port>     Where its manager listens
 -S <file>          The secret file
 -t <seconds|off>   How long to wait (default: 5)
 --format <format>  text or json (default: text)
 --check            For monitoring: exit status 3 when the log can't be reached, or isn't followed up to its end
 -h                 This text
";

const COMMAND: CommandLine =
    CommandLine { name: "lacquer fleet", usage: USAGE, flags: &["-t", "--format"], no_word: None };

/// What `--check` answers when something is wrong.
const WRONG: i32 = 3;

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked; 3: `--check` found something.
pub fn main(args: &[String]) -> i32 {
    let is_check = args.iter().any(|arg| arg == "--check");
    let args: Vec<String> = args.iter().filter(|arg| *arg != "--check").cloned().collect();
    let words = match COMMAND.read(&args) {
        Ok(words) => words,
        Err(status) => return status,
    };
    match &words.rest[..] {
        [status] if status == "status" => {}
        [] => return COMMAND.refuse("what about the fleet? status"),
        [other, ..] => return COMMAND.refuse(&format!("no command {other}")),
    }
    let is_json = match words.last("--format").unwrap_or("text") {
        "text" => false,
        "json" => true,
        other => return COMMAND.refuse(&format!("no format {other}")),
    };
    let Some(mut connection) = words.config().connect() else { return 2 };
    let mut ask = |command: &str| match connection.ask(command.as_bytes()) {
        Ok(reply) if is_good(reply.status) => Ok(reply.text().into_owned()),
        Ok(reply) => {
            print::err(format_args!("lacquer fleet: {}\n", reply.text().trim_end()));
            Err(1)
        }
        Err(status) => Err(status.clamp(1, 2)),
    };
    let facts = match ask("fleet.status -j\n") {
        Ok(reply) => {
            crate::memory::content(&reply).and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        }
        Err(status) => return status,
    };
    let Some(facts) = facts else {
        print::err("lacquer fleet: the server's answer isn't as expected\n");
        return 1;
    };
    let shown = if is_json { Ok(format!("{facts:#}")) } else { ask("fleet.status\n") };
    match shown {
        Ok(text) => print::foreign(format_args!("{}\n", text.trim_end())),
        Err(status) => return status,
    }
    if is_check && is_wrong(&facts) { WRONG } else { 0 }
}

fn is_wrong(facts: &serde_json::Value) -> bool {
    let is = |name: &str| facts[name]["up"] == serde_json::json!(true);
    !is("append") || !is("follow") || facts["serves"] != serde_json::json!("all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong() {
        let facts = |append: bool, follow: bool, serves: &str| serde_json::json!({ "append": { "up": append }, "follow": { "up": follow }, "serves": serves });
        assert!(!is_wrong(&facts(true, true, "all")));
        for wrong in
            [facts(false, true, "all"), facts(true, false, "all"), facts(true, true, "young"), serde_json::json!({})]
        {
            assert!(is_wrong(&wrong), "{wrong}");
        }
    }
}
