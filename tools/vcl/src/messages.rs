// SPDX-License-Identifier: BSD-2-Clause
//! The compiler's text, taken apart: what is wrong, and the first place that it names.

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// What is wrong: the first line that isn't a place.
    pub what: String,
    /// All that the compiler says of it.
    pub text: String,
    pub place: Option<Place>,
    pub warning: bool,
}

/// A place, as the compiler writes it: lines and columns from 1, a tab goes to the next multiple of eight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub source: String,
    pub line: u32,
    pub column: u32,
    /// Columns that are marked.
    pub width: u32,
}

/// What ends a warning.
const WARNING: &str = "(That was just a warning)\n";

/// The messages of `text`; `failed` when it ends with the one that stopped the compiler.
pub(crate) fn parse(text: &str, failed: bool) -> Vec<Message> {
    let mut parts: Vec<&str> = text.split(WARNING).collect();
    let last = parts.pop().unwrap_or_default();
    let mut out: Vec<Message> = parts.into_iter().map(|part| one(part, true)).collect();
    if !last.trim().is_empty() {
        out.push(one(last, !failed));
    }
    out
}

fn one(text: &str, warning: bool) -> Message {
    let said = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('('));
    let mut lines = text.lines();
    let place = lines.by_ref().find_map(place).map(|mut place| {
        let marks = lines.nth(1).unwrap_or_default();
        place.width = marks.bytes().filter(|c| *c == b'#').count().max(1) as u32;
        place
    });
    Message { what: said.unwrap_or_default().trim().to_owned(), text: text.trim_end().to_owned(), place, warning }
}

/// `('file' Line 3 Pos 7)`, as the compiler writes places.
fn place(line: &str) -> Option<Place> {
    let (name, rest) = line.split_once("('")?.1.split_once("' Line ")?;
    let (number, rest) = rest.split_once(" Pos ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Place { source: name.to_owned(), line: number.parse().ok()?, column: column.parse().ok()?, width: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found() {
        let at = |source: &str, line, column| Some(Place { source: source.to_owned(), line, column, width: 1 });
        assert_eq!(place("('a b.vcl' Line 12 Pos 34) -- (Pos 36)"), at("a b.vcl", 12, 34));
        assert_eq!(place("At: ('x' Line 1 Pos 2)"), at("x", 1, 2));
        assert_eq!(place("nothing"), None);
    }

    #[test]
    fn warnings_and_the_error_are_told_apart() {
        let text = "Unused acl a, defined:\n('f' Line 1 Pos 5)\nacl a {}\n----#---\n\n(That was just a warning)\n\
                    Symbol not found: 'xy'\n('f' Line 2 Pos 3)\n  xy;\n--##-\n\n";
        let found = parse(text, true);
        assert_eq!(found.len(), 2);
        assert!(found[0].warning && found[0].what == "Unused acl a, defined:");
        assert_eq!((found[1].warning, found[1].what.as_str()), (false, "Symbol not found: 'xy'"));
        assert_eq!(found[1].place, Some(Place { source: "f".to_owned(), line: 2, column: 3, width: 2 }));
        assert!(parse("", false).is_empty());
    }
}
