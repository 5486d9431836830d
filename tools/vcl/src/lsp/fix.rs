// SPDX-License-Identifier: BSD-2-Clause
//! What an editor can do itself about a message whose hint leaves one thing to do.

use std::ops::Range;

use vcl::outline::Outline;

use crate::messages::Message;

/// A change of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fix {
    pub title: String,
    /// Stretches, and what to put there.
    pub edits: Vec<(Range<usize>, String)>,
}

/// What mends `message`, whose place is `at` in `text`.
pub(super) fn fix(message: &Message, text: &[u8], at: &Range<usize>) -> Option<Fix> {
    let here = std::str::from_utf8(text.get(at.clone())?).ok()?;
    let lines: Vec<&str> = message.hint.as_deref().into_iter().chain(message.prose.lines()).collect();
    lines.iter().find_map(|line| one(line, text, at, here))
}

fn one(line: &str, text: &[u8], at: &Range<usize>, here: &str) -> Option<Fix> {
    let fix = |title: String, at: Range<usize>, new: &str| Some(Fix { title, edits: vec![(at, new.to_owned())] });
    let replace = |new: &str| fix(format!("Replace by {new}"), at.clone(), new);
    let outline = || Outline::parse(text);
    let before = || outline().before(at.start);
    let insert =
        |new: &str| before().and_then(|token| fix(format!("Insert {}", new.trim()), token.end..token.end, new));
    let is_all = text.get(at.end).is_none_or(|c| !matches!(c, b'.' | b'-' | b'_') && !c.is_ascii_alphanumeric());
    let quoted = |new: &str| if is_all { fix("Put it in quotes".to_owned(), at.clone(), new) } else { None };
    // The compiler may mark a part of a dotted name.
    let rename = |new: &str| {
        let names = outline().names(text);
        let whole = names.iter().find(|name| name.at.start <= at.start && at.end <= name.at.end);
        let at = whole.filter(|_| new.contains('.')).map_or(at, |name| &name.at);
        fix(format!("Replace by {new}"), at.clone(), new)
    };
    if let Some(new) = middle(line, "Is ", " meant?") {
        let new = new.trim_matches('\'');
        let new = if here.starts_with('.') { new } else { new.strip_prefix('.').unwrap_or(new) };
        return if is_name(here) && is_name(new) { rename(new) } else { None };
    }
    if let Some(new) = middle(line, "Since 4.0 that is said by ", ".") {
        let statement = new.starts_with("return (") && !new.contains('"') && text.get(at.end) == Some(&b';');
        return if statement && is_name(here) {
            replace(new)
        } else if is_name(here) && is_name(new) {
            rename(new)
        } else {
            None
        };
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
    if let Some(number) = middle(line, "A ';' is missing at the end of line ", ".") {
        let end = text.split_inclusive(|c| *c == b'\n').take(number.parse().ok()?).map(<[u8]>::len).sum();
        let token = outline().before(end)?;
        return fix("Insert ;".to_owned(), token.end..token.end, ";");
    }
    if line.starts_with("A ';' is missing") {
        return insert(";");
    }
    if line.starts_with("Outside of texts and comments there ") {
        let edits = vcl::ascii_edits(text);
        return Some(Fix { title: "Replace all such characters by VCL's".to_owned(), edits });
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

/// Where one more import stands: behind the others, else behind the version.
fn import_place(text: &[u8]) -> usize {
    let outline = Outline::parse(text);
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

#[cfg(test)]
mod tests {
    use vcl::Options;

    use super::*;
    use crate::judge::of_column;
    use crate::messages;

    /// The text with the first message's mend made.
    fn mended(text: &str) -> Option<String> {
        let said = match vcl::compile(
            "f",
            text.as_bytes(),
            &vcl::NoSources,
            &Options { modules: vmods::MODULES, ..Options::default() },
        ) {
            Ok(good) => messages::parse(&good.warnings, false),
            Err(reason) => messages::parse(&reason.text, true),
        };
        let message = said.into_iter().next().expect("something is wrong");
        let place = message.place.clone().expect("it has a place");
        let from = of_column(text.as_bytes(), place.line, place.column);
        let to = of_column(text.as_bytes(), place.line, place.column + place.width);
        let Fix { mut edits, .. } = fix(&message, text.as_bytes(), &(from..to))?;
        edits.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
        let mut text = text.to_owned();
        edits.into_iter().for_each(|(at, new)| text.replace_range(at, &new));
        Some(text)
    }

    #[track_caller]
    fn bad(wrong: &str, right: &str) {
        let whole = |text: &str| format!("vcl 4.1;\nbackend b none;\n{text}\n");
        assert_eq!(mended(&whole(wrong)).as_deref(), Some(&*whole(right)), "{wrong}");
    }

    #[track_caller]
    fn recv(wrong: &str, right: &str) {
        let whole = |text: &str| format!("sub vcl_recv {{\n{text}\n}}");
        bad(&whole(wrong), &whole(right));
    }

    #[test]
    fn marks() {
        recv("set req.url == \"/\";", "set req.url = \"/\";");
        recv("if (req.url = \"/\") { }", "if (req.url == \"/\") { }");
        recv("if (req.url and req.method) { }", "if (req.url && req.method) { }");
        recv("if (req.url | req.method) { }", "if (req.url || req.method) { }");
        recv("set req.url = \"a\" req.url;", "set req.url = \"a\" + req.url;");
        recv("set req.url = \"a\");", "set req.url = \"a\";");
        recv("set req.url = \"a\"\nset req.url = \"b\";", "set req.url = \"a\";\nset req.url = \"b\";");
        recv("if (req.url == \"a\" { }", "if (req.url == \"a\") { }");
        recv("set req.url = regsub(req.url, \"a\", \"b\";", "set req.url = regsub(req.url, \"a\", \"b\");");
        recv("return pass;", "return (pass);");
        recv("unset \"req.http.a\";", "unset req.http.a;");
        recv("set\u{a0}req.url = \"\";", "set req.url = \"\";");
        recv("set req.url = \u{201e}a\u{201c};", "set req.url = \"a\";");
        bad("sub f { };", "sub f { }");
        bad("backend c { host = \"192.0.2.1\"; }", "backend c { .host = \"192.0.2.1\"; }");
        bad("backend c { .host = \"192.0.2.1\"; .port = 80; }", "backend c { .host = \"192.0.2.1\"; .port = \"80\"; }");
        let response = |ttl: &str| format!("sub vcl_backend_response {{ set beresp.ttl = {ttl}; }}");
        bad(&response("120"), &response("120s"));
    }

    #[test]
    fn names() {
        recv("if (req.request == \"GET\") { }", "if (req.method == \"GET\") { }");
        recv("remove req.http.a;", "unset req.http.a;");
        recv("set req.htp.X = \"1\";", "set req.http.X = \"1\";");
        recv("return (lookup);", "return (hash);");
        recv("return (psas);", "return (pass);");
        bad("sub vcl_deliver { deliver; }", "sub vcl_deliver { return (deliver); }");
        bad("probe p { .uri = \"/\"; }", "probe p { .url = \"/\"; }");
        bad("bakend c { }", "backend c { }");
        bad("sub vcl_fetch { }", "sub vcl_backend_response { }");
        let log = "sub vcl_recv { std.log(\"a\"); }";
        let text = |import: &str| format!("vcl 4.1;\n{import}backend b none; {log}\n");
        assert_eq!(mended(&text("")).as_deref(), Some(&*text("import std;\n")));
        let cookie = |import: &str| {
            format!("vcl 4.1;\nimport std;\n{import}backend b none; sub vcl_recv {{ cookie.parse(\"\"); }}\n")
        };
        assert_eq!(mended(&cookie("")).as_deref(), Some(&*cookie("import cookie;\n")));
    }

    #[test]
    fn warnings() {
        recv("if (req.url == \"^/x\") { }", "if (req.url ~ \"^/x\") { }");
        recv("if (req.url != \"^/x\") { }", "if (req.url !~ \"^/x\") { }");
        let pipe = |head: &str| format!("sub vcl_pipe {{ set {head}.http.Connection = \"close\"; }}");
        bad(&pipe("req"), &pipe("bereq"));
    }

    #[test]
    fn what_has_no_one_mend() {
        for text in [
            "acl a { 127.0.0.1; }",
            "sub vcl_recv { error 404; }",
            "sub vcl_recv { return (pass) }",
            "sub f { call g; }",
        ] {
            let text = format!("vcl 4.1;\nbackend b none;\n{text}\n");
            assert!(mended(&text).is_none_or(|new| new.contains("(pass);")), "{text} {:?}", mended(&text));
        }
    }
}
