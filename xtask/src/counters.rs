// SPDX-License-Identifier: BSD-2-Clause
//! The declared counters: each is written somewhere in the program, or its text says that it is always 0; documents name no others.

use std::collections::HashMap;
use std::path::Path;

use crate::tree::{self, is, name};

const DECLARED: &str = "crates/tables/src/counters/sets.rs";

/// The beginning of the text of a counter that nobody writes.
const UNUSED: &str = "Always 0";

/// Methods of `Counter` that change it, and the one of `disk`'s own counters that are copied into a set.
const WRITERS: [&str; 9] = ["inc", "add", "dec", "sub", "set", "tally", "tally_add", "untally", "count"];

/// Sets of which a server has one.
const SINGLE_SETS: [&str; 6] = ["MAIN", "MGT", "XKEY", "FLEET", "PEERS", "COSTS"];

#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    /// Name of the set's type.
    set: &'a str,
    /// Name of the set, in quotes.
    prefix: &'a str,
    name: &'a str,
    is_unused: bool,
}

/// One line per counter that nobody writes and whose text doesn't say so, and per counter that is written although its text says that
/// it is always 0.
pub fn check(root: &Path) -> crate::Findings {
    let declared = tree::read(&root.join(DECLARED))?;
    let mut sources = Vec::new();
    for file in tree::files(&root.join("crates"))? {
        let name = name(root, &file);
        if is(&file, "rs") && !is_for_tests(&name) && !name.starts_with("crates/tables/src/counters") {
            sources.push(tree::read(&file)?);
        }
    }
    let rows = rows(&declared);
    if rows.is_empty() {
        return Err(format!("{DECLARED} has no row that this check can read"));
    }
    let mut found = findings(&rows, &sources.iter().map(|text| Source::new(text)).collect::<Vec<_>>());
    for top in ["docs", "packaging"] {
        for file in tree::files(&root.join(top))?.iter().filter(|file| is(file, "md")) {
            let text = tree::read(file)?;
            let said = |(line, word)| format!("{}:{line}: no counter is called {word}", name(root, file));
            found.extend(unknown(&rows, &text).into_iter().map(said));
        }
    }
    Ok(found)
}

/// Line and word of each `SET.counter` in a document that isn't declared. `SET.begin*` stands for several. Names of sets of which there
/// are several have three parts (`VBE.vcl1.b.happy`) and aren't judged.
fn unknown<'a>(rows: &[Row<'_>], text: &'a str) -> Vec<(usize, &'a str)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '*');
    let is_known = |word: &str| {
        let Some((set, counter)) = word.split_once('.') else { return true };
        let mut of_set =
            rows.iter().filter(|row| SINGLE_SETS.contains(&set) && row.prefix.trim_matches('"') == set).peekable();
        of_set.peek().is_none()
            || of_set.any(|row| match counter.strip_suffix('*') {
                Some(begin) => row.name.starts_with(begin),
                None => row.name == counter,
            })
    };
    let words = text
        .lines()
        .zip(1..)
        .flat_map(|(line, n)| line.split(|c| !is_of_name(c)).map(move |word| (n, word.trim_end_matches('.'))));
    words.filter(|(_, word)| !is_known(word)).collect()
}

fn is_for_tests(name: &str) -> bool {
    name.ends_with("/tests.rs")
        || ["/tests/", "/benches/", "/examples/"].iter().any(|dir| name.contains(dir))
        || name.starts_with("crates/testkit")
        || name.starts_with("crates/sim/")
}

/// The rows of all sets: `name: Kind Level Format "group" "text" => "more";` below `Type "NAME" ORDER "text";`.
fn rows(declared: &str) -> Vec<Row<'_>> {
    let (mut set, mut prefix, mut rows) = ("", "", Vec::new());
    for line in declared.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
        match words[..] {
            [name, "Counter" | "Gauge" | "Bitmap", ..] if name.ends_with(':') => {
                let is_unused = line.contains(&format!("=> \"{UNUSED}"));
                rows.push(Row { set, prefix, name: name.trim_end_matches(':'), is_unused });
            }
            [name, quoted, order, ..] if quoted.starts_with('"') && order.parse::<u32>().is_ok() => {
                (set, prefix) = (name, quoted);
            }
            _ => {}
        }
    }
    rows
}

fn findings(rows: &[Row<'_>], sources: &[Source<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        match (sources.iter().any(|source| writes(source, row)), row.is_unused) {
            (false, false) => found.push(format!(
                "{DECLARED}: nobody writes {}.{}: count it, or let its text begin with \"{UNUSED}: \" and why",
                row.set, row.name
            )),
            (true, true) => {
                found.push(format!("{DECLARED}: {}.{} is written, so it isn't always 0", row.set, row.name))
            }
            _ => {}
        }
    }
    found
}

/// A word of code, or one other character.
type Token<'a> = &'a str;

struct Source<'a> {
    tokens: Vec<Token<'a>>,
    places: HashMap<Token<'a>, Vec<usize>>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let tokens = code(text);
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, token) in tokens.iter().enumerate() {
            places.entry(*token).or_default().push(at);
        }
        Source { tokens, places }
    }
}

/// True if the source changes the counter: by a method, by handing out a reference, or as a word of a macro's list.
/// Names without an underline are words of everyday use: a reference to one counts where the set's type is named, too.
fn writes(source: &Source<'_>, row: &Row<'_>) -> bool {
    let Some(places) = source.places.get(row.name) else { return false };
    let is_plain = !row.name.contains('_');
    let is_near = source.places.contains_key(row.set);
    let source = &source.tokens;
    places.iter().any(|&at| {
        let (before, after) = (at.checked_sub(1).map(|at| source[at]), |n: usize| source.get(at + n).copied());
        if before == Some(".") {
            return match (after(1), after(2)) {
                (Some("."), Some(method)) => WRITERS.contains(&method) && after(3) == Some("("),
                (Some("("), _) => false,
                _ => is_reference(source, at) && (is_near || !is_plain),
            };
        }
        // In the list of a macro: `name;` of its own, or followed by other words.
        let ends_line = after(1) == Some(";") && matches!(before, Some(";" | "}" | "{" | "]") | None);
        ends_line || !is_plain && matches!(after(1), Some("true" | "false"))
    })
}

/// True if the path of fields that ends at `at` begins with `&`.
fn is_reference(source: &[Token<'_>], at: usize) -> bool {
    let path =
        |token: &&&str| matches!(**token, "." | "(" | ")") || token.chars().all(|c| c.is_alphanumeric() || c == '_');
    source[..at].iter().rev().find(|token| !path(token)) == Some(&"&")
}

/// The code of a source in words and single characters, without comments, strings and its unit tests.
fn code(text: &str) -> Vec<Token<'_>> {
    let mut rest = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => string_length(rest),
            'r' if rest.starts_with("r#\"") => rest.find("\"#").map_or(rest.len(), |end| end + 2),
            // A character or a lifetime.
            '\'' => rest.strip_prefix("'\\").map_or(1, |escaped| escaped.find('\'').map_or(1, |end| end + 3)),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, more) = rest.split_at(length);
        if !matches!(first, '"' | '\'') && !first.is_whitespace() && !token.starts_with("//") && !token.contains('"') {
            tokens.push(token);
        }
        rest = more;
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the string literal at the beginning of `text`, quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = true; // The quote that opens it ends nothing.
    let end = text.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARATION: &str = r#"
set! {
    /// The worker.
    Main "MAIN" 10 "Main counters";
    losthdr: Counter Info Integer "" "Lost";
    summs: Counter Debug Integer "wrk" "Sums" => "Always 0: nobody sums.";
}
set! {
    Pool "POOL" 30 "A pool";
    live: Gauge Debug Integer "" "In use" => "Now.";
}
"#;

    fn check(sources: &[&str], expect: &[&str]) {
        let sources: Vec<_> = sources.iter().map(|text| Source::new(text)).collect();
        let found = findings(&rows(DECLARATION), &sources);
        assert_eq!(found.len(), expect.len(), "{found:?}");
        assert!(found.iter().zip(expect).all(|(found, expect)| found.contains(expect)), "{found:?}");
    }

    #[test]
    fn a_counter_is_written_or_says_that_it_is_0() {
        check(&["main.losthdr.inc(); set.live.set(1);"], &[]);
        check(&["main.losthdr.get(); set.live.set(1);"], &["nobody writes Main.losthdr"]);
        check(&["main.losthdr.inc();", "set.live.set(1); main.summs\n .add(2)"], &["Main.summs is written"]);
    }

    #[test]
    fn what_mentions_a_counter_without_writing_it() {
        let unwritten = ["nobody writes Main.losthdr", "nobody writes Pool.live"];
        check(&["// main.losthdr.inc()\nlet live = \"set.live.set(1) \\\" main.losthdr.inc()\";"], &unwritten);
        check(
            &["let c = '\"'; f(head.losthdr()); losthdr(live)\n#[cfg(test)]\nmod tests { main.losthdr.inc() }"],
            &unwritten,
        );
        check(&["bump(&self.losthdr, 1); x(&set.live)"], &unwritten);
    }

    #[test]
    fn other_ways_of_writing() {
        check(&["use Main; bump(&self.main.losthdr, 1);", "Pool; f(&a.b().live, 1)"], &[]);
        check(&["list! { losthdr; live; }"], &[]);
        check(&["A \"losthdr\" losthdr true; set.live.dec()"], &["nobody writes Main.losthdr"]);
    }

    #[test]
    fn documents_name_declared_counters() {
        let rows = rows(DECLARATION);
        let text = "`MAIN.losthdr`, MAIN.lost*.\n`MAIN.losthdrs` `POOL.live` POOL.a.nothing README.md MAIN.loss*";
        assert_eq!(unknown(&rows, text), [(2, "MAIN.losthdrs"), (2, "MAIN.loss*")]);
    }
}
