// SPDX-License-Identifier: BSD-2-Clause
//! Messages that our documents quote: each is one that the program writes.
//!
//! A message is quoted in three forms: in backticks in the first column of a table whose header there says *message*; as a line of a
//! fence `text message`; and in backticks anywhere if it reads as a sentence. A message is cut into runs of words at punctuation and at
//! what varies: words in capitals, with a digit, a slash or a dot. Each run has to stand in a string literal of our Rust sources, tests
//! aside. A placeholder of the literal stands for one word.

use std::path::Path;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::tree::{self, is, name, read};

/// Directories with the sources of the program.
const SOURCES: [&str; 2] = ["crates", "tools"];

/// Messages and parts of messages that others write: the C library (strerror), OpenSSL's names, a CA (RFC 8555, 6.7).
const FOREIGN: [&str; 9] = [
    "Address already in use",
    "Connection refused",
    "Connection timed out",
    "Exec format error",
    "Permission denied",
    "Protocol error",
    "Success",
    "rateLimited",
    "unauthorized",
];

/// First words of code spans that are commands, not messages.
const COMMANDS: [&str; 6] = ["apt", "docker", "lacquer", "make", "podman", "systemctl"];

/// A code span with as many plain words as this reads as a sentence.
const SENTENCE: usize = 4;

/// Stands for a placeholder in the text of a literal.
const PLACEHOLDER: char = '\u{0}';

/// One line per quoted message that no source has.
pub fn check(root: &Path) -> crate::Findings {
    let mut literals: Vec<Vec<String>> = FOREIGN.iter().map(|text| words(text)).collect();
    for dir in SOURCES {
        let files = tree::files(&root.join(dir))?.into_iter().filter(|file| is(file, "rs"));
        for file in files.filter(|file| !is_test(&name(root, file))) {
            literals.extend(literals_of(program_of(&read(&file)?)).iter().map(|literal| words(literal)));
        }
    }
    let mut found = Vec::new();
    let documents = tree::files(&root.join("docs"))?.into_iter().filter(|file| is(file, "md"));
    for file in documents.chain([root.join("README.md"), root.join("SECURITY.md")]) {
        for (line, message) in quoted(&read(&file)?) {
            if let Some(run) = runs(&message).into_iter().find(|run| !literals.iter().any(|text| has(text, run))) {
                let place = name(root, &file);
                found.push(format!("{place}:{line}: no code writes {:?} of the message {message:?}", run.join(" ")));
            }
        }
    }
    Ok(found)
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// A source file without its tests, which come last.
fn program_of(text: &str) -> &str {
    let ends =
        |&(at, mark): &(usize, &str)| text[at + mark.len()..].lines().next().is_some_and(|line| line.ends_with('{'));
    text.match_indices("#[cfg(test)]\nmod ").find(ends).map_or(text, |(at, _)| &text[..at])
}

/// The messages in a document, with their lines.
fn quoted(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut column, mut is_head, mut head, mut is_fence) = (0, false, String::new(), false);
    for (event, at) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let line = text[..at.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::TableHead) => (column, is_head, head) = (0, true, String::new()),
            Event::End(TagEnd::TableHead) => is_head = false,
            Event::Start(Tag::TableRow) => column = 0,
            Event::End(TagEnd::TableCell) => column += 1,
            Event::End(TagEnd::Table) => head.clear(),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => is_fence = &*info == "text message",
            Event::End(TagEnd::CodeBlock) => is_fence = false,
            Event::Text(text) if is_fence => {
                found.extend(text.lines().enumerate().map(|(n, message)| (line + n, message.to_owned())));
            }
            Event::Text(text) if is_head && column == 0 => head.push_str(&text),
            Event::Code(code) if !is_head => {
                let is_listed = column == 0 && head.contains("message");
                if is_listed || is_sentence(&code) {
                    found.push((line, code.to_string()));
                }
            }
            _ => {}
        }
    }
    found
}

/// True for a code span that is neither a command nor code.
fn is_sentence(code: &str) -> bool {
    let is_plain = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic() || c == '\'');
    let cut = code.split_ascii_whitespace().map(|word| word.trim_end_matches([',', ';', ':', '.']));
    let is_code = code.contains(['=', '{', '}', '(', ')', ';', '"', '/', '_', '|']) || code.contains(" -");
    let command = code.split_ascii_whitespace().next().is_some_and(|first| COMMANDS.contains(&first));
    !is_code && !command && cut.filter(is_plain).count() >= SENTENCE
}

/// The runs of words of a message.
fn runs(message: &str) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    for word in message.split_ascii_whitespace() {
        let core = trimmed(word);
        if word.starts_with(['(', '[', '"', '\'', '<']) || varies(core) {
            found.push(Vec::new());
        }
        if !varies(core) {
            found.last_mut().expect("there is one").push(core.to_owned());
        }
        if word.ends_with([',', ';', ':', '.', ')', ']', '"', '\'', '>']) {
            found.push(Vec::new());
        }
    }
    found.retain(|run| !run.is_empty());
    found
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(['(', ')', '[', ']', '"', '\'', '<', '>', ',', ';', ':', '.'])
}

fn varies(core: &str) -> bool {
    core.contains(['/', '=', '.']) || core.chars().any(|c| c.is_ascii_digit()) || {
        !core.chars().any(char::is_lowercase)
    }
}

/// The words of a literal, without punctuation.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(trimmed).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// True if a literal has the run. At least half of its words stand there themselves.
fn has(literal: &[String], run: &[String]) -> bool {
    let is_at = |window: &[String]| {
        let literally = window.iter().zip(run).filter(|(text, word)| text == word).count();
        literally * 2 >= run.len()
            && window.iter().zip(run).all(|(text, word)| text == word || text.contains(PLACEHOLDER))
    };
    literal.windows(run.len()).any(is_at)
}

/// The texts of the string literals in Rust code; a placeholder is [`PLACEHOLDER`], a line break a blank.
fn literals_of(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|quotes| (quotes, quotes.len() - quotes.trim_start_matches('#').len()));
        rest = match (first, raw) {
            ('/', _) if rest.starts_with("//") => rest.split_once('\n').map_or("", |(_, after)| after),
            ('/', _) if rest.starts_with("/*") => rest.split_once("*/").map_or("", |(_, after)| after),
            // A character, which may be a quote; else it is a lifetime.
            ('\'', _) => after_character(rest),
            (_, Some((quotes, hashes))) if quotes[hashes..].starts_with('"') => {
                let end = format!("\"{}", "#".repeat(hashes));
                let (text, after) = quotes[hashes + 1..].split_once(&end).unwrap_or(("", ""));
                found.push(without_placeholders(text));
                after
            }
            ('"', _) => {
                let (text, after) = unescaped(&rest[1..]);
                found.push(without_placeholders(&text));
                after
            }
            // A word whole, so that the `r` at its end isn't taken for a raw string's.
            (c, _) if c.is_alphanumeric() || c == '_' => {
                rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
            }
            (c, _) => &rest[c.len_utf8()..],
        };
    }
    found
}

fn after_character(code: &str) -> &str {
    let inner = &code[1..];
    if let Some(escape) = inner.strip_prefix('\\') {
        let skipped = escape.chars().next().map_or(0, char::len_utf8);
        return escape[skipped..].split_once('\'').map_or("", |(_, after)| after);
    }
    let character = inner.chars().next().map_or(0, char::len_utf8);
    inner[character..].strip_prefix('\'').unwrap_or(inner)
}

/// The text up to the closing quote, and the code behind it.
fn unescaped(code: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = code.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, &code[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n' | 't' | 'r')) => text.push(' '),
                // The text goes on at the next line's first word.
                Some((_, '\n')) => {
                    let mut ahead = chars.clone();
                    while ahead.next().is_some_and(|(_, c)| c.is_whitespace()) {
                        chars.next();
                    }
                }
                Some((_, other)) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    (text, "")
}

fn without_placeholders(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        out.push(PLACEHOLDER);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_are_messages() {
        let text = "| message | fix |\n| --- | --- |\n| `No way` | `do this` |\n\n| x | y |\n| --- | --- |\n| `No way` | |\n\n\
                    ```text message\none line\nanother line\n```\n\n```text\nno message\n```\n\nSee `the cache is on fire: run`, \
                    `lacquer vcl check the file` and `set beresp.ttl = one of these times`.\n";
        let found: Vec<(usize, String)> = quoted(text);
        let lines: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(lines, [(3, "No way"), (10, "one line"), (11, "another line"), (18, "the cache is on fire: run")]);
    }

    #[test]
    fn a_message_is_cut_where_it_varies() {
        let check = |message: &str, expect: &[&str]| {
            let found: Vec<String> = runs(message).iter().map(|run| run.join(" ")).collect();
            assert_eq!(found, expect, "{message}");
        };
        check("backend NAME: fail errno 111 (Connection refused)", &["backend", "fail errno", "Connection refused"]);
        check("Could not get socket :80: Permission denied", &["Could not get socket", "Permission denied"]);
        check("is already running (pid=...)", &["is already running"]);
    }

    #[test]
    fn literals_are_read_as_the_compiler_reads_them() {
        let code = "// \"no\"\nlet a = \"one \\\"two\\\" \\\n    three\"; /* \"no\" */ let c = ['\"', 'x', '\\''];\n\
                    fn f<'a>(x: &'a str) { for_r(r#\"raw \"text\"\"#, b\"bytes\", format!(\"{x:?} of {{}\")) }";
        let expect = ["one \"two\" three", "raw \"text\"", "bytes", "\u{0} of \u{0}"];
        assert_eq!(literals_of(code), expect);
    }

    #[test]
    fn a_run_stands_in_one_literal() {
        let literal = words(&without_placeholders("backend {name} ({address}): fail errno {number}"));
        let check = |run: &str, expect: bool| assert_eq!(has(&literal, &words(run)), expect, "{run}");
        check("backend default", true);
        check("fail errno", true);
        check("fail number", false);
        check("frontend default", false);
        check("no such words", false);
    }

    #[test]
    fn tests_are_no_program() {
        let head = "#[cfg(test)]\nmod model;\na\n";
        assert_eq!(program_of(&format!("{head}#[cfg(test)]\nmod tests {{\n\"x\"\n}}\n")), head);
        assert!(
            is_test("crates/a/src/b/tests.rs")
                && is_test("crates/a/tests/c.rs")
                && !is_test("crates/tests_of/src/a.rs")
        );
    }
}
