// SPDX-License-Identifier: BSD-2-Clause
//! The compiler's text, taken apart: what is wrong, and the first place that it names.

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// What is wrong: the first line that isn't a place.
    pub what: String,
    /// What is wrong in all its words, without places and quoted lines.
    pub prose: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// All that the compiler says of it.
    pub text: String,
    pub place: Option<Position>,
    /// Further places, and what is said of each.
    pub others: Vec<(String, Position)>,
    pub warning: bool,
}

/// A place, as the compiler writes it: lines and columns from 1, a tab goes to the next multiple of eight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    pub source: String,
    pub line: u32,
    pub column: u32,
    /// Columns that are marked.
    pub width: u32,
}

/// The width of a whole line.
pub(crate) const WHOLE: u32 = u32::MAX;

/// What ends a warning.
const WARNING: &str = "(That was just a warning)\n";

impl Message {
    /// An error that is nothing but a text.
    pub fn parse(text: &str) -> Message {
        one(text, false)
    }
}

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
    let mut message = Message {
        what: said.unwrap_or_default().trim().to_owned(),
        prose: String::new(),
        hint: None,
        text: text.trim_end().to_owned(),
        place: None,
        others: Vec::new(),
        warning,
    };
    let (mut prose, mut label): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(mut place) = place(line) {
            // The line and the marks below it.
            let marks = lines.nth(1).unwrap_or_default();
            place.width = marks.bytes().filter(|c| *c == b'#').count().max(1) as u32;
            if message.place.is_none() {
                prose.append(&mut label);
                message.place = Some(place);
            } else {
                let last = label.pop();
                prose.append(&mut label);
                // A stretch that ends elsewhere has no words of its own.
                message.others.extend(last.filter(|last| last != "[...]").map(|last| (last, place)));
            }
        } else if let Some((place, rest)) = line_alone(line).filter(|_| message.place.is_none()) {
            message.place = Some(place);
            message.what = rest.to_owned();
            label.push(rest.to_owned());
        } else if let Some(hint) = line.strip_prefix("Hint: ") {
            message.hint = Some(hint.to_owned());
        } else {
            let line = line.trim().trim_end_matches(" at").trim_end_matches(':');
            if !line.is_empty() && line != "at" {
                label.push(line.to_owned());
            }
        }
    }
    prose.append(&mut label);
    prose.dedup();
    message.prose = prose.join("\n");
    // What begins with a place says what is wrong behind the quoted line.
    if text.trim_start().starts_with("('")
        && let Some(said) = prose.first()
    {
        message.what.clone_from(said);
    }
    message
}

/// `('file' Line 3 Pos 7)`, as the compiler writes places.
fn place(line: &str) -> Option<Position> {
    let (name, rest) = line.split_once("('")?.1.split_once("' Line ")?;
    let (number, rest) = rest.split_once(" Pos ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Position { source: name.to_owned(), line: number.parse().ok()?, column: column.parse().ok()?, width: 1 })
}

/// `('file' Line 3) req.http.x -> ...`: what a translation says of a line.
fn line_alone(line: &str) -> Option<(Position, &str)> {
    let (name, rest) = line.strip_prefix("('")?.split_once("' Line ")?;
    let (number, rest) = rest.split_once(") ")?;
    Some((Position { source: name.to_owned(), line: number.parse().ok()?, column: 1, width: WHOLE }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found() {
        let at = |source: &str, line, column| Some(Position { source: source.to_owned(), line, column, width: 1 });
        assert_eq!(place("('a b.vcl' Line 12 Pos 34) -- (Pos 36)"), at("a b.vcl", 12, 34));
        assert_eq!(place("At: ('x' Line 1 Pos 2)"), at("x", 1, 2));
        assert_eq!(place("nothing"), None);
        let found = parse("('a' Line 7) x -> y: z\n(That was just a warning)\n", false).remove(0);
        assert_eq!((found.prose.as_str(), found.place.map(|p| (p.line, p.width))), ("x -> y: z", Some((7, WHOLE))));
    }

    #[test]
    fn warnings_and_the_error_are_told_apart() {
        let text = "Unused acl a, defined:\n('f' Line 1 Pos 5)\nacl a {}\n----#---\n\n(That was just a warning)\n\
                    Symbol not found: 'xy'\n('f' Line 2 Pos 3)\n  xy;\n--##-\n\n";
        let found = parse(text, true);
        assert_eq!(found.len(), 2);
        assert!(found[0].warning && found[0].what == "Unused acl a, defined:");
        assert_eq!((found[1].warning, found[1].what.as_str()), (false, "Symbol not found: 'xy'"));
        assert_eq!(found[1].place, Some(Position { source: "f".to_owned(), line: 2, column: 3, width: 2 }));
        assert!(parse("", false).is_empty());
    }

    #[test]
    fn words_may_stand_behind_the_place() {
        let found = parse(
            "('f' Line 5 Pos 9) -- (Pos 15)\n  unset req.url;\n--------#######-\n\nVariable cannot be unset.\n",
            true,
        );
        assert_eq!(found[0].what, "Variable cannot be unset.");
    }

    #[test]
    fn all_words_and_places_are_kept() {
        let text = "Expected ')' got '{'\nat\n('f' Line 5 Pos 4)\n if (\n---#\n\nWhile compiling function call:\n\n\
                    ('g' Line 1 Pos 2) -- (Pos 3)\n ab\n-##\n\nNot here.\nHint: Do this.\n";
        let found = parse(text, true).remove(0);
        assert_eq!(
            (found.prose.as_str(), found.hint.as_deref()),
            ("Expected ')' got '{'\nNot here.", Some("Do this."))
        );
        let place = Position { source: "g".to_owned(), line: 1, column: 2, width: 2 };
        assert_eq!(found.others, [("While compiling function call".to_owned(), place)]);
    }
}
