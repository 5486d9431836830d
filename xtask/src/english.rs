// SPDX-License-Identifier: BSD-2-Clause
//! Plain English, measured: doc comments that open without a subject, that say nothing in three words or fewer, how many
//! there are, and words in the users' texts that have a plainer one. A figure may fall and must not rise.

use std::path::Path;

use crate::tree::{self, is, name, read};

/// Highest figures allowed. Whoever brings one down writes the lower one here.
const ALLOWED: Figures = Figures { subjectless: 1, short: 3, blocks: 44, words: 0 };

/// A comment that opens with one of these has no subject: a clause or a fragment stands for the noun.
const NEVER: [&str; 16] = [
    "as", "by", "how", "it", "its", "of", "so", "that", "what", "where", "whether", "which", "who", "whom", "whose",
    "why",
];

/// These may open a sentence: its main clause comes after a comma or colon.
const BEFORE_CLAUSE: [&str; 15] = [
    "after", "at", "before", "for", "from", "if", "in", "on", "since", "to", "until", "when", "while", "with",
    "without",
];

/// Words for which users' texts have a plainer one: expensive, fix, compressed, calculates, supports, instead of, slot,
/// reported, wait for, killed by.
const WORDS: [&str; 23] = [
    "dear",
    "dearer",
    "dearest",
    "mend",
    "mends",
    "mended",
    "packed",
    "unpacked",
    "packs",
    "unpacks",
    "reckons",
    "reckoned",
    "bears",
    "in the place of",
    "chair",
    "chairs",
    "seat",
    "seats",
    "told",
    "tells",
    "made by vcl",
    "stand in line",
    "died of",
];

/// Constants whose text `--help` prints.
const HELP: [&str; 6] = ["HELP", "USAGE", "INTRODUCTION", "EPILOGUE", "EXAMPLES", "MORE"];

const CODE: [&str; 4] = ["crates", "tools", "xtask", "tests"];

/// Per 1,000 comments, per 1,000 lines, and occurrences; each rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    /// Comments per 1,000 that open without a subject.
    subjectless: usize,
    /// Comments per 1,000 that have three words or fewer.
    short: usize,
    /// Comments per 1,000 lines of Rust.
    blocks: usize,
    /// Occurrences of [`WORDS`] in documents and help.
    words: usize,
}

struct Comment {
    place: String,
    text: String,
}

impl Comment {
    fn is_short(&self) -> bool {
        self.text.split_ascii_whitespace().nth(3).is_none()
    }

    fn is_subjectless(&self) -> bool {
        let first = self.text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default().to_ascii_lowercase();
        let sentence = self.text.split_once(". ").map_or(self.text.as_str(), |(sentence, _)| sentence);
        NEVER.contains(&first.as_str()) || BEFORE_CLAUSE.contains(&first.as_str()) && !sentence.contains([',', ':'])
    }
}

/// One line per figure above the allowed one. Prints all figures.
pub fn check(root: &Path) -> crate::Findings {
    let (comments, lines) = comments(root)?;
    let per_thousand = |count: usize, of: usize| (count * 1000).div_ceil(of.max(1));
    let figures = Figures {
        subjectless: per_thousand(comments.iter().filter(|comment| comment.is_subjectless()).count(), comments.len()),
        short: per_thousand(comments.iter().filter(|comment| comment.is_short()).count(), comments.len()),
        blocks: per_thousand(comments.len(), lines),
        words: words(root)?.len(),
    };
    println!(
        "plain English: of 1,000 doc comments {} without a subject, {} of three words or fewer; {} comments per 1,000 lines; \
         {} words with a plainer one in users' texts",
        figures.subjectless, figures.short, figures.blocks, figures.words
    );
    Ok(above(figures, ALLOWED))
}

fn above(now: Figures, allowed: Figures) -> Vec<String> {
    let rows = [
        ("doc comments per 1,000 that open without a subject", now.subjectless, allowed.subjectless),
        ("doc comments per 1,000 that have three words or fewer", now.short, allowed.short),
        ("doc comments per 1,000 lines", now.blocks, allowed.blocks),
        ("words with a plainer one in documents and help", now.words, allowed.words),
    ];
    let above = rows.into_iter().filter(|(_, now, allowed)| now > allowed);
    above
        .map(|(what, now, allowed)| {
            format!("{now} {what}, {allowed} allowed; `cargo run -p xtask -- english` lists them")
        })
        .collect()
}

/// One line per place that counts towards a figure, but for the number of comments.
pub fn list(root: &Path) -> crate::Findings {
    let mut found = Vec::new();
    for comment in comments(root)?.0 {
        let reason = match (comment.is_subjectless(), comment.is_short()) {
            (true, _) => "no subject",
            (false, true) => "three words or fewer",
            (false, false) => continue,
        };
        found.push(format!("{}: {reason}: {}", comment.place, comment.text));
    }
    found.extend(words(root)?);
    Ok(found)
}

/// The doc comments of our Rust files, and the lines of these files.
fn comments(root: &Path) -> Result<(Vec<Comment>, usize), String> {
    let (mut found, mut lines) = (Vec::new(), 0);
    for dir in CODE {
        for file in tree::files(&root.join(dir))?.into_iter().filter(|file| is(file, "rs")) {
            let text = read(&file)?;
            lines += text.lines().count();
            found.extend(comments_of(&name(root, &file), &text));
        }
    }
    Ok((found, lines))
}

/// The comments in `vmod!` are left out: the module's manual is made of them.
fn comments_of(file: &str, text: &str) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let (mut is_open, mut is_manual) = (false, false);
    for (at, line) in text.lines().enumerate() {
        is_manual = if is_manual { line != "}" } else { line.ends_with("vmod! {") };
        let piece =
            line.trim_start().strip_prefix("///").filter(|rest| !is_manual && !rest.starts_with('/')).map(str::trim);
        match (piece, found.last_mut()) {
            (Some(piece), Some(comment)) if is_open => {
                comment.text.push(' ');
                comment.text.push_str(piece);
            }
            (Some(piece), _) => found.push(Comment { place: format!("{file}:{}", at + 1), text: piece.to_owned() }),
            (None, _) => {}
        }
        is_open = piece.is_some();
    }
    found
}

/// Places of [`WORDS`] in README, `docs` and the texts of `--help`.
fn words(root: &Path) -> Result<Vec<String>, String> {
    let mut found = words_in("README.md", &read(&root.join("README.md"))?);
    for file in tree::files(&root.join("docs"))?.into_iter().filter(|file| is(file, "md")) {
        found.extend(words_in(&name(root, &file), &read(&file)?));
    }
    for dir in CODE {
        for file in tree::files(&root.join(dir))?.into_iter().filter(|file| is(file, "rs")) {
            found.extend(words_in(&name(root, &file), &help_in(&read(&file)?)));
        }
    }
    Ok(found)
}

/// The file's text with every line blank that is neither in a constant of [`HELP`] nor in an option's row.
fn help_in(text: &str) -> String {
    let (mut is_help, mut is_row) = (false, false);
    let mut kept = String::new();
    for line in text.lines() {
        let constant =
            line.trim_start_matches("pub ").strip_prefix("const ").and_then(|rest| rest.split_once(": &str = "));
        is_help |= constant.is_some_and(|(name, _)| HELP.contains(&name));
        is_row |= line.trim_start().starts_with("opt!(");
        if is_help || is_row {
            kept.push_str(line);
        }
        kept.push('\n');
        is_row &= !line.contains(" =>");
        is_help &= !line.ends_with("\";");
    }
    kept
}

fn words_in(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
        let spaced: String = format!(" {line} ").chars().map(letters).collect();
        for word in WORDS.iter().filter(|word| spaced.contains(&format!(" {word} "))) {
            found.push(format!("{file}:{}: {word:?} in {}", at + 1, line.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_without_a_subject() {
        let check = |text: &str, expect: bool| {
            let comment = Comment { place: String::new(), text: text.to_owned() };
            assert_eq!(comment.is_subjectless(), expect, "{text}");
        };
        check("Whether the client has gone.", true);
        check("Its body.", true);
        check("As [`load`], from a file.", true);
        check("For the log.", true);
        check("In seconds. A limit, of course.", true);
        check("When the client has gone, returns `None`.", false);
        check("True if the client has gone.", false);
        check("Itself.", false);
        check("Returns the length.", false);
    }

    #[test]
    fn runs_of_lines_are_one_comment_and_manuals_are_none() {
        let text = "/// A b c\n/// d.\nfn e();\n    /// F.\nvrt::vmod! {\n    /// G\n}\n/// H i j.\n//// no\n";
        let comments = comments_of("x.rs", text);
        let seen: Vec<(&str, &str, bool)> =
            comments.iter().map(|c| (c.place.as_str(), c.text.as_str(), c.is_short())).collect();
        assert_eq!(seen, [("x.rs:1", "A b c d.", false), ("x.rs:4", "F.", true), ("x.rs:8", "H i j.", true)]);
    }

    #[test]
    fn words_are_looked_for_in_documents_and_help() {
        assert_eq!(words_in("a.md", "A seat,\nin the place of it\nunseated\n").len(), 2);
        let help =
            help_in("const OTHER: &str = \"a seat\";\npub const HELP: &str = \"\\\nUsage\nTells\n\";\n// told\n");
        assert_eq!(words_in("a.rs", &help), ["a.rs:4: \"tells\" in Tells"]);
    }

    #[test]
    fn a_figure_that_rises_is_a_finding() {
        let allowed = Figures { subjectless: 30, short: 50, blocks: 45, words: 0 };
        assert!(above(allowed, allowed).is_empty());
        let now = Figures { short: 51, ..allowed };
        assert_eq!(
            above(now, allowed),
            [
                "51 doc comments per 1,000 that have three words or fewer, 50 allowed; `cargo run -p xtask -- english` lists them"
            ]
        );
    }
}
