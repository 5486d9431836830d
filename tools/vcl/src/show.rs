// SPDX-License-Identifier: BSD-2-Clause
//! Findings for people: the message, the source lines, and marks below them, in the layout of Rust's compiler.

use std::fmt::Write;
use std::io::IsTerminal;
use std::ops::Range;

use vcl::DiagnosticSeverity;

use crate::judge::{LocatedDiagnostic, Location};

/// Maximum number of columns that are quoted from a line.
const QUOTED: usize = 160;
/// Columns before the mark when a line is cut.
const BEFORE: usize = 60;

/// True if the output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours(bool);

impl Colours {
    #[cfg(test)]
    pub const NONE: Colours = Colours(false);

    /// Colours for a terminal that supports them, unless NO_COLOR is set.
    pub fn of(stream: &impl IsTerminal) -> Colours {
        let says_no = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Colours(stream.is_terminal() && !says_no && !is_dumb)
    }

    fn paint(self, style: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const ERROR: &str = "1;31";
const WARNING: &str = "1;33";
const NOTE: &str = "1;32";
const RULE: &str = "1;34";
const BOLD: &str = "1";

pub(crate) fn finding(found: &LocatedDiagnostic, colours: Colours) -> String {
    let said = &found.diagnostic;
    let (word, style) = match said.severity {
        DiagnosticSeverity::Error => ("error", ERROR),
        DiagnosticSeverity::Warning => ("warning", WARNING),
    };
    let mut lines = said.message.lines();
    let mut out = colours.paint(style, &format!("{word}[{}]", said.code));
    out.push_str(&colours.paint(BOLD, &format!(": {}", lines.next().unwrap_or_default())));
    out.push('\n');
    let width = gutter(found);
    let mut marks: Vec<Mark<'_>> =
        found.location.iter().map(|location| Mark { location, label: "", is_first: true }).collect();
    marks.extend(found.labels.iter().map(|(label, location)| Mark { location, label, is_first: false }));
    let mut files: Vec<&str> = Vec::new();
    for mark in &marks {
        if !files.contains(&mark.location.path.as_str()) {
            files.push(&mark.location.path);
        }
    }
    for (n, file) in files.iter().enumerate() {
        let here: Vec<&Mark<'_>> = marks.iter().filter(|mark| mark.location.path == *file).collect();
        let arrow = if n == 0 { "-->" } else { ":::" };
        snippet(&here, arrow, style, width, colours, &mut out);
    }
    let rest = lines.map(|line| ("note", line));
    for (word, line) in rest.chain(said.hint.iter().map(|hint| ("help", hint.as_str()))) {
        let _ = writeln!(out, "{:width$} {} {}: {line}", "", colours.paint(RULE, "="), colours.paint(BOLD, word));
    }
    out
}

/// A remark that is no error.
pub(crate) fn note(text: &str, colours: Colours) -> String {
    format!("{}{}\n", colours.paint(NOTE, "note"), colours.paint(BOLD, &format!(": {text}")))
}

struct Mark<'a> {
    location: &'a Location,
    label: &'a str,
    /// True for the finding's own place, false for a related one.
    is_first: bool,
}

/// Width of the line numbers.
fn gutter(found: &LocatedDiagnostic) -> usize {
    let locations = found.location.iter().chain(found.labels.iter().map(|(_, location)| location));
    locations.map(Location::line).max().unwrap_or(0).to_string().len()
}

fn snippet(marks: &[&Mark<'_>], arrow: &str, style: &str, width: usize, colours: Colours, out: &mut String) {
    let Some(first) = marks.first() else { return };
    let (line, column) = (first.location.line(), first.location.column());
    let rule = |text: &str| colours.paint(RULE, text);
    let _ = writeln!(out, "{:width$}{} {}:{line}:{column}", "", rule(arrow), printable(&first.location.path));
    if first.location.text.is_empty() {
        return;
    }
    let _ = writeln!(out, "{:width$} {}", "", rule("|"));
    let mut lines: Vec<usize> = marks.iter().map(|mark| mark.location.line()).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut last = None;
    for line in lines {
        if last.is_some_and(|last| last + 1 < line) {
            let _ = writeln!(out, "{}", rule("..."));
        }
        last = Some(line);
        let here: Vec<&&Mark<'_>> = marks.iter().filter(|mark| mark.location.line() == line).collect();
        let Some(one) = here.first() else { continue };
        let quoted = QuotedLine::new(one.location);
        let _ = writeln!(out, "{} {}", rule(&format!("{line:>width$} |")), quoted.text);
        for mark in here {
            let (sign, style) = if mark.is_first { ("^", style) } else { ("-", RULE) };
            let (from, len) = quoted.columns(&mark.location.at);
            let signs = format!("{} {}", sign.repeat(len), mark.label);
            let _ = writeln!(
                out,
                "{:width$} {} {}{}",
                "",
                rule("|"),
                " ".repeat(from),
                colours.paint(style, signs.trim_end())
            );
        }
    }
}

/// A line for display. Tabs take four columns, and a very long line is cut around the mark.
struct QuotedLine {
    text: String,
    /// Byte offset and column of each displayed character, and of the end.
    columns: Vec<(usize, usize)>,
}

impl QuotedLine {
    fn new(location: &Location) -> QuotedLine {
        let (start, end) = location.line_ends();
        let line = String::from_utf8_lossy(&location.text[start..end]);
        // The replacement for an invalid byte takes three bytes: only the lengths of valid characters count.
        let mut chars: Vec<(usize, char)> = Vec::new();
        let mut at = start;
        for chunk in location.text[start..end].utf8_chunks() {
            for c in chunk.valid().chars() {
                chars.push((at, c));
                at += c.len_utf8();
            }
            if !chunk.invalid().is_empty() {
                chars.push((at, char::REPLACEMENT_CHARACTER));
                at += chunk.invalid().len();
            }
        }
        let before = chars.iter().filter(|(at, _)| *at < location.at.start).count();
        let skip = if line.len() > QUOTED { before.saturating_sub(BEFORE) } else { 0 };
        let mut quoted = QuotedLine { text: String::new(), columns: Vec::new() };
        let mut column = 0;
        if skip > 0 {
            quoted.text.push_str("...");
            column = 3;
        }
        for (at, c) in chars.iter().copied().skip(skip) {
            if column > QUOTED {
                quoted.text.push_str("...");
                break;
            }
            quoted.columns.push((at, column));
            match c {
                '\t' => quoted.text.push_str("    "),
                c if c.is_control() => quoted.text.push('?'),
                c => quoted.text.push(c),
            }
            column += if c == '\t' { 4 } else { 1 };
        }
        quoted.columns.push((end, column));
        quoted.text.truncate(quoted.text.trim_end().len());
        quoted
    }

    /// First column of a range, and its number of columns (at least one).
    fn columns(&self, at: &Range<usize>) -> (usize, usize) {
        let of = |byte: usize| {
            let after = self.columns.partition_point(|(here, _)| *here < byte);
            self.columns.get(after).or(self.columns.last()).map_or(0, |(_, column)| *column)
        };
        let from = of(at.start);
        (from, of(at.end).saturating_sub(from).max(1))
    }
}

/// Replaces control characters, so that quoted text can't send commands to a terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vcl::{Diagnostic, DiagnosticCode};

    fn location(text: &str, word: &str) -> Location {
        let start = text.rfind(word).unwrap();
        Location { path: "a.vcl".to_owned(), text: text.as_bytes().to_vec(), at: start..start + word.len() }
    }

    fn of(location: Location, labels: Vec<(String, Location)>) -> LocatedDiagnostic {
        let hint = Some("Once is enough.".to_owned());
        let diagnostic = Diagnostic { hint, ..Diagnostic::error(DiagnosticCode::Syntax, "Twice\nReally.") };
        LocatedDiagnostic { diagnostic, location: Some(location), labels, fix: None }
    }

    #[test]
    fn several_marks_stand_below_their_lines() {
        let text = "sub a {\n}\n\n\tsub \u{e4}a {\n}\n";
        let found = of(
            location(text, "\u{e4}a"),
            vec![("First here".to_owned(), location("sub a {\n}\n\n\tsub \u{e4}a {\n}\n", "sub a"))],
        );
        let want = "error[syntax]: Twice\n --> a.vcl:4:6\n  |\n1 | sub a {\n  | ----- First here\n...\n4 |     sub \u{e4}a {\n  |         ^^\n  = note: Really.\n  = help: Once is enough.\n";
        assert_eq!(finding(&found, Colours::NONE), want);
        let coloured = finding(&found, Colours(true));
        assert!(coloured.contains("\x1b[1;31m^^\x1b[0m") && coloured.contains("\x1b[1;34m----- First here\x1b[0m"));
    }

    #[test]
    fn another_file_and_a_long_line_are_shown() {
        let long = format!("{}bad;", "x".repeat(1000));
        let mut other = location("acl b {}\n", "b");
        other.path = "b.vcl".to_owned();
        let shown = finding(&of(location(&long, "bad"), vec![("Here".to_owned(), other)]), Colours::NONE);
        assert!(shown.lines().all(|line| line.len() < 200), "{shown}");
        assert!(shown.contains("xxxbad;\n") && shown.contains(" ::: b.vcl:1:5\n"), "{shown}");
        let marks = shown.lines().find(|line| line.contains('^')).unwrap();
        let quoted = shown.lines().find(|line| line.contains("bad;")).unwrap();
        assert_eq!(marks.find('^'), quoted.find("bad"), "{shown}");
    }
}
