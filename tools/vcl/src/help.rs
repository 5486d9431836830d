// SPDX-License-Identifier: BSD-2-Clause
//! Help texts of `lacquer vcl` and its commands. Commands are declared only here; `args` declares the options.

use crate::args::VclToolCommand::{self, Check, Codes, Explain, Fmt, Lsp, Migrate};
use crate::args::{VclArgs, options};
use toolkit::options::Opt;

const WIDTH: usize = 80;
/// Column in which the texts of commands and options begin.
const COLUMN: usize = 20;

/// A command: its name, its arguments, a summary, details, and an example.
struct Topic(Option<VclToolCommand>, &'static str, &'static str, &'static str, &'static str, &'static str);

const TOPICS: &[Topic] = &[
    Topic(
        Some(Check),
        "check",
        "[options] FILE...",
        "says all that is wrong with VCL files",
        "A file is good if varnishd would load it; a part of a VCL, if the file that includes it would be: that is looked for in its own \
         folder and two above. In colour on a terminal, unless NO_COLOR is set. With \
         --format json it prints an object per file and line: file, ok, errors and warnings (message, hint, code, source, line, column, \
         text, labels: message, source, line, column; fix: title, edits: source, line, column, start and end in bytes, new), notes. \
         `lacquer vcl codes CODE` explains a code.",
        "lacquer vcl check --format json /etc/varnish/default.vcl",
    ),
    Topic(
        Some(Codes),
        "codes",
        "[CODE...]",
        "explains the codes of errors and warnings",
        "Without a CODE it lists all. Each has an example that fails or is warned of, and one that works.",
        "lacquer vcl codes unknown-name",
    ),
    Topic(
        Some(Fmt),
        "fmt",
        "[options] FILE...",
        "lays files out in one way, in place",
        "What is read from standard input goes to standard output.",
        "lacquer vcl fmt --check /etc/varnish/*.vcl",
    ),
    Topic(
        Some(Migrate),
        "migrate",
        "[options] FILE",
        "prints a file of VCL 2.0, 2.1 or 3.0 as VCL 4.1",
        "The new text, its includes in their places, goes to standard output; what was changed and why, to standard error. With --format \
         json it prints one object: file, ok, dialect, vcl, and notes (source, line, old, new, why, warning) or errors.",
        "lacquer vcl migrate old.vcl > new.vcl",
    ),
    Topic(
        Some(Explain),
        "explain",
        "[options] FILE",
        "tells in words what a VCL does",
        "For each subroutine: what becomes of a request or an answer, if what holds, and on which line. With --format json it prints one \
         object: file, dialect, lines_of, backends, acls, subs (name, facts: source, line, about, text, when; builtin). With --code it \
         shows the bytecode of each subroutine below its source.",
        "lacquer vcl explain --sub vcl_recv default.vcl",
    ),
    Topic(None, "profile", "[options] [VCL]", "tells what each line of a VCL costs on a running server", "", ""),
    Topic(
        Some(Lsp),
        "lsp",
        "[options]",
        "serves an editor (Language Server Protocol)",
        "It speaks on standard input and output: an editor starts it and names the files.",
        "lacquer vcl lsp -I /etc/varnish",
    ),
];

const STATUS: &str = "Exit status: 0 all files are good, 2 one isn't, 1 it can't be used so.";

pub(crate) fn is_command(word: &str) -> bool {
    TOPICS.iter().any(|topic| topic.1 == word)
}

pub(crate) fn name(command: &VclToolCommand) -> &'static str {
    TOPICS.iter().find(|topic| topic.0.as_ref() == Some(command)).map_or("", |topic| topic.1)
}

pub(crate) fn text(command: Option<&VclToolCommand>) -> String {
    let topic = TOPICS.iter().find(|topic| command.is_some() && topic.0.as_ref() == command);
    let Some(Topic(Some(command), name, operands, what, more, example)) = topic else { return overview() };
    let mut out = format!("Usage: lacquer vcl {name} {operands}\n\n");
    let (first, rest) = what.split_at(1);
    out.push_str(&wrapped(&format!("{}{rest}. {more}", first.to_uppercase()), 0));
    out.push('\n');
    options().filter(|option| option.0.contains(command)).for_each(|option| out.push_str(&row(option.1, "")));
    out.push_str(&entry("-h, --help", "this text"));
    if !matches!(command, Codes | Lsp) {
        out.push_str(&format!("\nA FILE called - is standard input.\n{STATUS}\n"));
    }
    out.push_str(&format!("\nExamples:\n  {example}\n"));
    out
}

fn overview() -> String {
    let mut out =
        "Usage: lacquer vcl COMMAND [options] [FILE...]\n\nLooks at VCL files, without a server but for profile.\n\n"
            .to_owned();
    for Topic(_, name, operands, what, ..) in TOPICS {
        out.push_str(&entry(&format!("{name} {}", operands.trim_start_matches("[options]").trim()), what));
    }
    out.push_str(&format!("\nlacquer vcl COMMAND --help says what one takes.\n{STATUS}\n"));
    out
}

/// The whole help for the manual: each command's usage, then the options with their commands.
pub fn manual() -> String {
    let mut out = String::new();
    for Topic(_, name, operands, ..) in TOPICS {
        let usage = if out.is_empty() { "Usage:" } else { "      " };
        out.push_str(&format!("{usage} lacquer vcl {name} {operands}\n"));
    }
    out.push_str("\nLooks at VCL files, without a server but for profile. A FILE called - is standard input.\n");
    for Topic(_, name, _, what, more, _) in TOPICS {
        out.push_str(&format!("\n{name} {what}. {more}\n"));
    }
    out.push_str("\nOptions:\n");
    for (commands, option) in options() {
        let names: Vec<&str> = commands.iter().map(name).collect();
        out.push_str(&row(option, &format!("{}: ", names.join(", "))));
    }
    out.push_str(&format!("\n{STATUS}\n\nExamples:\n"));
    TOPICS.iter().filter(|topic| !topic.5.is_empty()).for_each(|topic| out.push_str(&format!("  {}\n", topic.5)));
    out
}

/// Each option with a command that has it: `check --format`.
pub fn options_by_command() -> impl Iterator<Item = String> {
    let shown = options().filter(|(_, option)| !option.is_hidden());
    let each = |(commands, option): (&'static [VclToolCommand], &'static Opt<VclArgs>)| {
        commands
            .iter()
            .flat_map(move |command| option.all_names().map(move |option| format!("{} {option}", name(command))))
    };
    shown.flat_map(each)
}

fn row(option: &Opt<VclArgs>, before: &str) -> String {
    if option.is_hidden() { String::new() } else { entry(option.term(), &format!("{before}{}", option.text())) }
}

/// A term with its text, beside or below it.
fn entry(term: &str, text: &str) -> String {
    let text = wrapped(text, COLUMN);
    match term.len() + 4 <= COLUMN {
        true => format!("  {term:width$}{}", text.trim_start(), width = COLUMN - 2),
        false => format!("  {term}\n{text}"),
    }
}

/// Wraps text to [`WIDTH`] columns, indented.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let (mut out, mut column) = (" ".repeat(indent), indent);
    for word in text.split_whitespace() {
        if column > indent && column + 1 + word.len() > WIDTH {
            out.push_str(&format!("\n{}", " ".repeat(indent)));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_help_that_fits_a_terminal() {
        for command in [None, Some(Check), Some(Codes), Some(Fmt), Some(Migrate), Some(Explain), Some(Lsp)] {
            let text = text(command.as_ref());
            let usage = format!("Usage: lacquer vcl {}", command.as_ref().map_or("COMMAND", name));
            assert!(text.starts_with(&usage), "{text}");
            assert_eq!(text.lines().find(|line| line.len() > WIDTH), None);
            assert_eq!(text.contains("--indent"), command == Some(Fmt), "{text}");
        }
        for (_, option) in options() {
            assert!(manual().contains(&format!("  {}", option.term())), "{}", option.term());
        }
    }
}
