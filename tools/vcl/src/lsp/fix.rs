// SPDX-License-Identifier: BSD-2-Clause
//! What an editor can do itself about a message whose hint leaves one thing to do.

use std::ops::Range;

use vcl::outline::{ODD_QUOTES, Outline};

use crate::messages::Message;

/// A change of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fix {
    pub title: String,
    /// Stretches, and what to put there.
    pub edits: Vec<(Range<usize>, String)>,
}

/// What mends `message`, whose place is `at` in `text`.
pub(super) fn of(message: &Message, text: &[u8], at: &Range<usize>) -> Option<Fix> {
    let here = std::str::from_utf8(text.get(at.clone())?).ok()?;
    let lines: Vec<&str> = message.hint.as_deref().into_iter().chain(message.prose.lines()).collect();
    lines.iter().find_map(|line| one(line, text, at, here))
}

fn one(line: &str, text: &[u8], at: &Range<usize>, here: &str) -> Option<Fix> {
    let fix = |title: String, at: Range<usize>, new: &str| Some(Fix { title, edits: vec![(at, new.to_owned())] });
    let replace = |new: &str| fix(format!("Replace by {new}"), at.clone(), new);
    let outline = || Outline::of(text);
    let before = || outline().before(at.start);
    let insert =
        |new: &str| before().and_then(|token| fix(format!("Insert {}", new.trim()), token.end..token.end, new));
    let quoted = |new: &str| fix("Put it in quotes".to_owned(), at.clone(), new);
    if let Some(new) = middle(line, "Is ", " meant?") {
        let same_dot = new.starts_with('.') && !here.starts_with('.');
        let new = if same_dot { &new[1..] } else { new };
        return if is_name(here) && is_name(new) { replace(new) } else { None };
    }
    if let Some(new) = middle(line, "Since 4.0 that is said by ", ".") {
        let statement = new.starts_with("return (") && !new.contains('"') && text.get(at.end) == Some(&b';');
        return if is_name(here) && (is_name(new) || statement) { replace(new) } else { None };
    }
    if let Some(new) = middle(line, "It is called ", " since 4.0.") {
        return if is_name(here) && is_name(new) { replace(new) } else { None };
    }
    if let Some(module) = middle(line, "`import ", ";` is missing") {
        let at = import_place(text);
        return fix(format!("Insert `import {module};`"), at..at, &format!("import {module};\n"));
    }
    if line.starts_with("The '(' of line") {
        return insert(")");
    }
    if line.starts_with("A ';' is missing") {
        return insert(";");
    }
    if let Some(mark) = line.strip_prefix("This is ") {
        let new = [("space", " "), ("a dash", "-"), ("without width", ""), ("byte order mark", "")];
        let new = new.iter().find(|(kind, _)| mark.contains(kind)).map(|(_, new)| new);
        return new
            .map(|new| Fix { title: "Mend this character".to_owned(), edits: vec![(at.clone(), (*new).to_owned())] });
    }
    match line {
        "\"and\" is written &&." => replace("&&"),
        "\"or\" is written ||." => replace("||"),
        "\"doesn't match\" is written !~." => replace("!~"),
        "== compares; = is for `set`." if here == "=" => replace("=="),
        "`set` has one =; == compares." if here == "==" => replace("="),
        "Texts are joined by +." => insert(" +"),
        "There is one ')' too many." if here == ")" => fix("Delete )".to_owned(), at.clone(), ""),
        "No ';' follows a '}'." if here == ";" => fix("Delete ;".to_owned(), at.clone(), ""),
        "This quote is a typographic one; VCL's is the plain \"." => Some(quotes(text, at)),
        "Names have no quotes." => {
            let bare = here.strip_prefix('"')?.strip_suffix('"')?;
            is_name(bare)
                .then(|| Fix { title: "Take the quotes away".to_owned(), edits: vec![(at.clone(), bare.to_owned())] })
        }
        "It is written in quotes." | "Texts stand in quotes." if is_name(here) => quoted(&format!("\"{here}\"")),
        _ if line.starts_with("A text stands in quotes: \"") && is_name(here) => quoted(&format!("\"{here}\"")),
        _ if line.starts_with("A duration has a unit: ") => {
            let number = if is_number(here) { at.clone() } else { before()? };
            let digits = std::str::from_utf8(&text[number.clone()]).ok().filter(|text| is_number(text))?;
            fix(format!("Write {digits}s"), number.clone(), &format!("{digits}s"))
        }
        _ if line.starts_with("Fields begin with a dot: .") => fix("Insert .".to_owned(), at.start..at.start, "."),
        _ if line.starts_with("What is returned stands in brackets: return (") && is_name(here) => {
            replace(&format!("({here})"))
        }
        _ if line.starts_with("== and != compare whole texts") => {
            let operator = before()?;
            match &text[operator.clone()] {
                b"==" => fix("Replace == by ~".to_owned(), operator, "~"),
                b"!=" => fix("Replace != by !~".to_owned(), operator, "!~"),
                _ => None,
            }
        }
        "The request that is piped was copied before vcl_pipe: set bereq.http.Connection." => {
            let new = here.strip_prefix("req.http.")?;
            fix("Set bereq.http.Connection".to_owned(), at.clone(), &format!("bereq.http.{new}"))
        }
        _ => None,
    }
}

/// All odd quotes of the line: they come in pairs.
fn quotes(text: &[u8], at: &Range<usize>) -> Fix {
    let start = text[..at.start].iter().rposition(|c| *c == b'\n').map_or(0, |n| n + 1);
    let end = text[at.start..].iter().position(|c| *c == b'\n').map_or(text.len(), |n| at.start + n);
    let line = String::from_utf8_lossy(&text[start..end]);
    let is_odd = |c: char| ODD_QUOTES.contains(&&*c.encode_utf8(&mut [0; 4]));
    let odd = line.char_indices().filter(|(_, c)| is_odd(*c));
    let edits: Vec<_> = odd.map(|(n, c)| (start + n..start + n + c.len_utf8(), "\"".to_owned())).collect();
    let edits =
        if line.len() == end - start && !edits.is_empty() { edits } else { vec![(at.clone(), "\"".to_owned())] };
    Fix { title: "Use plain quotes".to_owned(), edits }
}

/// Where one more import stands: behind the others, else behind the version.
fn import_place(text: &[u8]) -> usize {
    let outline = Outline::of(text);
    let imports = outline.declarations.iter().filter(|d| d.kind == vcl::outline::Kind::Import).map(|d| d.whole.end);
    let version = outline.names(text).first().filter(|name| &text[name.at.clone()] == b"vcl").map(|name| name.at.end);
    let Some(from) = imports.max().or(version) else { return 0 };
    text[from..].iter().position(|c| *c == b'\n').map_or(text.len(), |n| from + n + 1)
}

fn middle<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(before)?;
    let end = if after == "." { rest.len().checked_sub(1).filter(|n| rest[*n..] == *".") } else { rest.find(after) };
    end.map(|n| &rest[..n])
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}
