// SPDX-License-Identifier: BSD-2-Clause
//! Our Markdown: each relative link leads to a file and, with an anchor, to a heading in it; each path of the repository
//! that is in backticks exists.

use std::collections::BTreeMap;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::book::{anchor, joined};
use crate::tree::{self, is, name};

/// Directories below which a path in backticks is one of the repository.
const ROOTS: [&str; 9] = ["crates/", "tools/", "tests/", "scripts/", "docs/", "bench/", "packaging/", "xtask/", ".ci/"];

/// Documents whose paths in backticks may be of the past.
const HISTORY: [&str; 1] = ["CHANGELOG.md"];

/// The path that `lacquer man --markdown` writes to. Only a build of the book has it, so only the book's list links to it; its pages name
/// the command (`lacquer man vcl`), which the build makes a link of.
const REFERENCE: &str = "docs/reference/";
const LIST: &str = "docs/SUMMARY.md";

/// The parts of one document that are judged. Each link and path has its line.
#[derive(Debug, Default)]
struct Document {
    links: Vec<(usize, String)>,
    paths: Vec<(usize, String)>,
    anchors: Vec<String>,
}

impl Document {
    fn read(text: &str) -> Document {
        let mut document = Document::default();
        let mut heading: Option<String> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        for (event, at) in Parser::new_ext(text, options).into_offset_iter() {
            let line = || text[..at.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default(), &document.anchors);
                    document.anchors.push(anchor);
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line(), dest_url.to_string()));
                }
                Event::Code(code) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&code));
                    document.paths.extend(path_in(&code).map(|path| (line(), path.to_owned())));
                }
                Event::Text(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
                _ => {}
            }
        }
        document
    }
}

/// The path of the repository that a text in backticks begins with; `None` for a pattern (`tests/NAME/run.py`, `crates/*`).
fn path_in(code: &str) -> Option<&str> {
    let word = code.split_ascii_whitespace().next()?;
    let word = word.split_once([':', '#']).map_or(word, |(path, _)| path);
    let is_name = |part: &str| part.chars().all(|c| c.is_ascii_uppercase() || c == '_') && part.len() > 1;
    let is_path = ROOTS.iter().any(|root| word.starts_with(root))
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
        && !word.split('/').any(|part| is_name(part.split('.').next().unwrap_or(part)) && part != "README.md");
    is_path.then_some(word)
}

/// One line per link and per path that leads nowhere.
pub fn check(root: &Path) -> crate::Findings {
    let mut documents = BTreeMap::new();
    for file in tree::files(root)?.into_iter().filter(|file| is(file, "md")) {
        documents.insert(name(root, &file), Document::read(&tree::read(&file)?));
    }
    Ok(findings(&documents, |path| root.join(path).exists()))
}

fn findings(documents: &BTreeMap<String, Document>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, document) in documents {
        for (line, link) in &document.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { path.clone() } else { joined(path, target) };
            match documents.get(&target) {
                Some(other) if anchor.is_empty() || other.anchors.iter().any(|a| a == anchor) => {}
                Some(_) => found.push(format!("{path}:{line}: {target} has no heading #{anchor}")),
                None if path == LIST && target.starts_with(REFERENCE) || exists(&target) => {}
                None => found.push(format!("{path}:{line}: there is no {target}")),
            }
        }
        let is_history = HISTORY.contains(&path.as_str());
        for (line, named) in document.paths.iter().filter(|(_, named)| !is_history && !exists(named)) {
            found.push(format!("{path}:{line}: there is no {named}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(documents: &[(&str, &str)], expect: &[&str]) {
        let documents = documents.iter().map(|&(path, text)| (path.to_owned(), Document::read(text))).collect();
        assert_eq!(findings(&documents, |path| path == "crates/base" || path == "LICENSE"), expect);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        check(
            &[
                ("README.md", "# One\n[a](docs/b.md#two-three) [b](LICENSE) [c](https://example.org/x) [d](#one)\n"),
                ("docs/b.md", "# `two` three\n[a](../README.md)\n"),
                ("docs/SUMMARY.md", "[r](reference/x.md)\n"),
            ],
            &[],
        );
        check(
            &[
                ("README.md", "# One\n\n[a](docs/b.md#two) [b](LICENCE)\n"),
                ("docs/b.md", "# Three\n\n[a](README.md) [r](reference/x.md)\n"),
            ],
            &[
                "README.md:3: docs/b.md has no heading #two",
                "README.md:3: there is no LICENCE",
                "docs/b.md:3: there is no docs/README.md",
                "docs/b.md:3: there is no docs/reference/x.md",
            ],
        );
    }

    #[test]
    fn paths_in_backticks_exist() {
        check(&[("a.md", "`crates/base` and `crates/base:12`, `crates/NAME/src`, `crates/*`, `src/x.rs`\n")], &[]);
        check(
            &[("a.md", "x\n`crates/gone --help`\n"), ("CHANGELOG.md", "`crates/gone`\n")],
            &["a.md:2: there is no crates/gone"],
        );
    }
}
