// SPDX-License-Identifier: BSD-2-Clause
//! Links within the book: the page is there, and so is the heading.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::page::BookPage;

/// One line per link that leads nowhere. Links into the reference are judged where that is at hand.
pub fn check(pages: &BTreeMap<String, BookPage>, docs: &Path, has_reference: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, page) in pages {
        for link in &page.links {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { path.clone() } else { joined(path, target) };
            if target.starts_with("reference/") && !has_reference {
                continue;
            }
            match pages.get(&target) {
                Some(other) if anchor.is_empty() || other.anchors.iter().any(|a| a == anchor) => {}
                Some(_) => found.push(format!("docs/{path}: no heading {link}")),
                // What lies beside the book, in the source: readers of the site can't follow it, those of the files can.
                None if !target.ends_with(".md") && docs.join(&target).exists() => {}
                None => found.push(format!("docs/{path}: no page {link}")),
            }
        }
        for picture in page.pictures.iter().filter(|picture| !docs.join(picture).exists()) {
            found.push(format!("docs/{path}: no picture {picture}"));
        }
    }
    found
}

/// `link` as it is meant in the page `path`, without `.` and `..`.
pub fn joined(path: &str, link: &str) -> String {
    let mut out = PathBuf::new();
    let whole = Path::new(path).parent().unwrap_or(Path::new("")).join(link);
    for part in whole.components() {
        match part {
            Component::ParentDir if out.pop() => {}
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(joined("a/b.md", "../c.md"), "c.md");
        assert_eq!(joined("a/b.md", "c.md"), "a/c.md");
        assert_eq!(joined("b.md", "../README.md"), "../README.md");
    }

    #[test]
    fn what_leads_nowhere_is_found() {
        let docs = Path::new("/nonexistent");
        let page = |path: &str, text: &str| (path.to_owned(), BookPage::read(path, text, docs).expect("a page"));
        let pages = BTreeMap::from([
            page("a.md", "# A\n\n[x](b.md#two) [y](b.md#three) [z](c.md) [e](https://example.org/) [h](#a)\n"),
            page("b.md", "# B\n\n## Two\n"),
        ]);
        assert_eq!(check(&pages, docs, true), ["docs/a.md: no heading b.md#three", "docs/a.md: no page c.md"]);
    }
}
