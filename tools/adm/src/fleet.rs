// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer fleet`: how a running server fares as a node of its fleet ([`main`] with `status`), and roll-outs ([`deploy`]).

mod deploy;

use toolkit::options::{HelpPart, Opt};
use toolkit::print;

use crate::is_good;
use crate::words::{AdmTool, AdmWords, read, tool};

const INTRODUCTION: &str = "\
Usage: lacquer fleet status [options]
       lacquer fleet deploy [FILE] [--param NAME=VALUE]... [options]

status shows the state of a running server as a fleet node: whether the fleet's log of bans and purges can be reached,
how far the node has caught up with it, and which cached objects are served. Then it lists all nodes of the fleet.

deploy rolls out a VCL with its included files, and parameters, to the nodes of a group that accept roll-outs
(--fleet ...,deploy=on), in stages. It rolls back if the VCL can't be loaded, a node panics, or errors increase.

";

const HELP: &[HelpPart<AdmWords>] = &[(
    INTRODUCTION,
    &[
        AdmWords::flag("-n <dir>", "Working directory of the server; for deploy, any node of the group"),
        AdmWords::ADDRESS,
        AdmWords::SECRET,
        AdmWords::flag("-t <seconds|off>", "How long to wait for the server (default: 5; deploy: 120)"),
        AdmWords::flag("--format <format>", "status: text or json (default: text)"),
        AdmWords::switch(
            "--check",
            "status, for monitoring: exit status 3 if the log can't be reached or this node isn't up to date",
        ),
        AdmWords::flag("--group <name>", "deploy: the nodes of this group (default: all nodes)"),
        AdmWords::flag("--stages <list>", "deploy: number of nodes in each stage (default: 1,10%,all)"),
        AdmWords::flag("--watch <time>", "deploy: observation time of each stage (default: 30s)"),
        AdmWords::flag("--max-5xx <share>", "deploy: acceptable increase of the share of 5xx responses (default: 1%)"),
        AdmWords::flag("--param <name>=<value>", "deploy: a parameter to set"),
        Opt::HELP,
    ],
)];

pub const TOOL: AdmTool = tool("lacquer fleet", HELP);

/// Seconds that the CLI may take while something is rolled out.
const DEPLOY_TIME: &str = "120";

/// The exit status of `--check` when something is wrong.
const WRONG: i32 = 3;

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked; 3: `--check` found something.
pub fn main(args: &[String]) -> i32 {
    let words = match read(&TOOL, args, None) {
        Ok(words) => words,
        Err(status) => return status,
    };
    match &words.rest[..] {
        [status] if status == "status" => {}
        [deploy, ..] if deploy == "deploy" => {
            let mut config = words.config();
            config.timeout = config.timeout.or_else(|| Some(DEPLOY_TIME.to_owned()));
            let Some(connection) = config.connect() else { return 2 };
            return deploy::run(connection, &words).unwrap_or_else(|reason| TOOL.refuse(reason));
        }
        [] => return TOOL.refuse("what about the fleet? status, deploy"),
        [other, ..] => return TOOL.refuse(format!("no command {other}")),
    }
    let is_json = match words.last("--format").unwrap_or("text") {
        "text" => false,
        "json" => true,
        other => return TOOL.refuse(format!("no format {other}")),
    };
    let Some(mut connection) = words.config().connect() else { return 2 };
    let mut ask = |command: &str| match connection.ask(command.as_bytes()) {
        Ok(reply) if is_good(reply.status) => Ok(reply.text().into_owned()),
        Ok(reply) => {
            print::err(format_args!("lacquer fleet: {}\n", admin::refusal(&reply)));
            Err(1)
        }
        Err(status) => Err(status.clamp(1, 2)),
    };
    let mut facts_of = |command: &str| {
        let reply = ask(command)?;
        let content = crate::memory::content(&reply);
        content.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok()).ok_or_else(|| {
            print::err("lacquer fleet: the server's answer isn't as expected\n");
            1
        })
    };
    let facts = facts_of("fleet.status -j\n").and_then(|mut facts| {
        // Peers without a log of the fleet know of no nodes.
        if has_log(&facts) {
            let known = facts_of("fleet.nodes -j\n")?;
            (facts["nodes"], facts["unknown"]) = (known["nodes"].clone(), known["unknown"].clone());
        }
        Ok(facts)
    });
    let facts = match facts {
        Ok(facts) => facts,
        Err(status) => return status,
    };
    let shown = match is_json {
        true => Ok(format!("{facts:#}")),
        false if has_log(&facts) => {
            ask("fleet.status\n").and_then(|status| Ok(format!("{}\n\n{}", status.trim_end(), ask("fleet.nodes\n")?)))
        }
        false => ask("fleet.status\n"),
    };
    match shown {
        Ok(text) => print::foreign(format_args!("{}\n", text.trim_end())),
        Err(status) => return status,
    }
    if words.last("--check").is_some() && is_wrong(&facts) { WRONG } else { 0 }
}

fn has_log(facts: &serde_json::Value) -> bool {
    facts.get("append").is_some()
}

fn is_wrong(facts: &serde_json::Value) -> bool {
    let is = |name: &str| facts[name]["up"] == serde_json::json!(true);
    let has_peers_alone = !has_log(facts) && facts.get("peers").is_some();
    !has_peers_alone && (!is("append") || !is("follow") || facts["serves"] != serde_json::json!("all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong() {
        let facts = |append: bool, follow: bool, serves: &str| serde_json::json!({ "append": { "up": append }, "follow": { "up": follow }, "serves": serves });
        assert!(!is_wrong(&facts(true, true, "all")) && !is_wrong(&serde_json::json!({ "peers": {} })));
        for wrong in
            [facts(false, true, "all"), facts(true, false, "all"), facts(true, true, "young"), serde_json::json!({})]
        {
            assert!(is_wrong(&wrong), "{wrong}");
        }
    }
}
