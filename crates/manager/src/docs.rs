// SPDX-License-Identifier: BSD-2-Clause
//! -x: what log records and CLI commands there are, as reStructuredText.

use tables::Tag;
use tables::cli_cmds::COMMANDS;

pub fn log_records() -> String {
    let mut out = String::from("\n.. The log records, as varnishd -x vsl writes them\n\n");
    for tag in Tag::ALL {
        let name = tag.name();
        let text: String = tag.text().lines().map(|line| format!("{}\n", line.trim())).collect();
        out.push_str(&format!("\n{name}\n{}\n\n{text}", "-".repeat(name.len())));
    }
    out
}

pub fn commands() -> String {
    let mut out = String::new();
    for command in COMMANDS.iter().filter(|command| !command.debug) {
        out.push_str(&format!(
            ".. _ref_cli_{}:\n\n{}\n{}\n  {}\n",
            command.name.replace('.', "_"),
            command.syntax,
            "~".repeat(command.syntax.len()),
            command.help
        ));
        if !command.doc.is_empty() {
            out.push_str(&format!("\n  {}\n", command.doc));
        }
        out.push('\n');
    }
    out
}
