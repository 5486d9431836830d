// SPDX-License-Identifier: BSD-2-Clause
//! Help texts of `lacquer vcl` and its commands. Commands and options are declared only here, also which option applies to which command.

use crate::args::VclToolCommand::{self, Check, Codes, Explain, Fmt, Lsp, Migrate};

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

/// An option: its names, its value, its commands, and a description.
struct Opt(&'static [&'static str], &'static str, &'static [VclToolCommand], &'static str);

/// The names of all options.
pub fn options() -> String {
    OPTIONS.iter().flat_map(|option| option.0.iter().copied()).collect::<Vec<_>>().join(" ")
}

const COMPILING: &[VclToolCommand] = &[Check, Migrate, Explain, Lsp];

const OPTIONS: &[Opt] = &[
    Opt(
        &["-I"],
        "DIR",
        COMPILING,
        "where to look for relative names (vcl_path); may be given several times (default: /etc/varnish)",
    ),
    Opt(
        &["--syntax"],
        "4.0|4.1",
        COMPILING,
        "of a part of a VCL 4: what the file that includes it begins with (default: 4.1)",
    ),
    Opt(
        &["--dialect", "--vcl-dialect"],
        "2.0|2.1|3.0",
        COMPILING,
        "for files without `vcl 4.x;` (default: told by their words)",
    ),
    Opt(&["--label"], "NAME", COMPILING, "a label that `return (vcl(NAME))` may name; may be given several times"),
    Opt(
        &["--store"],
        "NAME",
        COMPILING,
        "a store (`-s NAME=...`) that `storage.NAME` may name; may be given several times",
    ),
    Opt(
        &["--part"],
        "",
        &[Check, Explain, Lsp],
        "a file that can't be loaded by itself is a part of a VCL: what it doesn't declare is declared elsewhere",
    ),
    Opt(
        &["--resolve"],
        "",
        &[Check],
        "look host names up, and report those that have no address; else no network is asked",
    ),
    Opt(&["--format"], "text|json", &[Check, Explain, Migrate], "for people, or for programs"),
    Opt(&["--check"], "", &[Fmt], "change nothing; name the files that would be changed"),
    Opt(&["--diff"], "", &[Fmt], "change nothing; show what would be changed, as diff -u does"),
    Opt(
        &["--ascii"],
        "",
        &[Fmt],
        "first replace what looks like VCL and isn't: no-break spaces, typographic quotes around texts, dashes",
    ),
    Opt(&["--indent"], "N|tab", &[Fmt], "what a level is indented by (default: 4 spaces)"),
    Opt(&["--code"], "", &[Explain], "the bytecode of each subroutine, below the lines that it comes from"),
    Opt(&["--plain"], "", &[Explain], "of --code: without the optimiser"),
    Opt(&["--sub"], "NAME", &[Explain], "only this subroutine"),
    Opt(&["--builtin"], "", &[Explain], "of --code: the built-in VCL's subroutines too"),
];

const STATUS: &str = "Exit status: 0 all files are good, 2 one isn't, 1 it can't be used so.";

/// True if an option applies to a command. Unknown options pass; the parser rejects them later.
pub(crate) fn is_for(name: &str, command: &VclToolCommand) -> bool {
    let name = if name.starts_with("-I") { "-I" } else { name };
    OPTIONS.iter().find(|option| option.0.contains(&name)).is_none_or(|option| option.2.contains(command))
}

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
    OPTIONS.iter().filter(|option| option.2.contains(command)).for_each(|option| out.push_str(&row(option, "")));
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
    for option in OPTIONS {
        let names: Vec<&str> = option.2.iter().map(name).collect();
        out.push_str(&row(option, &format!("{}: ", names.join(", "))));
    }
    out.push_str(&format!("\n{STATUS}\n\nExamples:\n"));
    TOPICS.iter().filter(|topic| !topic.5.is_empty()).for_each(|topic| out.push_str(&format!("  {}\n", topic.5)));
    out
}

fn row(Opt(names, value, _, what): &Opt, before: &str) -> String {
    entry(format!("{} {value}", names[0]).trim_end(), &format!("{before}{what}"))
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
        for option in OPTIONS {
            assert!(manual().contains(&format!("  {}", option.0[0])), "{}", option.0[0]);
        }
    }

    #[test]
    fn an_option_is_for_some_commands() {
        assert!(is_for("-Ib", &Check) && !is_for("-Ib", &Fmt) && is_for("--nosuch", &Fmt));
        assert!(is_for("--vcl-dialect", &Lsp) && !is_for("--sub", &Check));
    }
}
