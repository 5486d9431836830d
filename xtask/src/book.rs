// SPDX-License-Identifier: BSD-2-Clause
//! The book as a static site: `cargo run -p xtask -- book DIR [--reference DIR]`.
//!
//! Its pages are plain Markdown below `docs`, in the order of `docs/SUMMARY.md` (mdbook's format, so that mdbook can read it, too). The
//! reference is what `lacquer man --markdown DIR` writes. A link within the book that leads nowhere, a page that the list lacks, and a picture that isn't
//! there are findings.

mod links;
mod page;
mod search;
mod summary;

pub use links::joined;
use page::BookPage;
pub use page::anchor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use summary::SummaryEntry;

const STYLE: &str = include_str!("book/book.css");
const SCRIPT: &str = include_str!("book/book.js");
/// The path of the reference's pages, below the book.
const REFERENCE: &str = "reference";
/// Pages of `docs` that are no part of the book.
const LEFT_OUT: [&str; 1] = ["SUMMARY.md"];

/// Writes the site into `out`; `reference` is the directory with the reference's pages. One line per finding.
///
/// # Errors
/// A file can't be read or written.
pub fn build(root: &Path, out: &Path, reference: Option<&Path>) -> crate::Findings {
    let book = Book::read(root, reference)?;
    write(out, &book, &root.join("docs"))?;
    Ok(book.findings(root, reference.is_some()))
}

struct Book {
    entries: Vec<SummaryEntry>,
    /// In the order of the list, those of the reference behind.
    order: Vec<String>,
    pages: BTreeMap<String, BookPage>,
    unlisted: Vec<String>,
}

impl Book {
    fn read(root: &Path, reference: Option<&Path>) -> Result<Book, String> {
        let docs = root.join("docs");
        let entries = summary::read(&text_of(&docs.join("SUMMARY.md"))?)?;
        let listed: Vec<&str> = entries.iter().filter_map(SummaryEntry::path).collect();
        let is_missing = |file: &String| {
            !listed.contains(&file.as_str()) && !LEFT_OUT.contains(&file.as_str()) && !file.starts_with("man/")
        };
        let unlisted = markdown_below(&docs, &docs)?.into_iter().filter(is_missing).collect();
        let mut order = Vec::new();
        let mut pages = BTreeMap::new();
        let own =
            listed.iter().filter(|path| !path.starts_with(REFERENCE)).map(|path| ((*path).to_owned(), docs.join(path)));
        let made = match reference {
            Some(dir) => markdown_below(dir, dir)?
                .into_iter()
                .map(|file| (format!("{REFERENCE}/{file}"), dir.join(file)))
                .collect(),
            None => Vec::new(),
        };
        for (path, file) in own.chain(made) {
            pages.insert(path.clone(), BookPage::read(&path, &text_of(&file)?, &docs)?);
            order.push(path);
        }
        Ok(Book { entries, order, pages, unlisted })
    }

    fn findings(&self, root: &Path, has_reference: bool) -> Vec<String> {
        let unlisted = self.unlisted.iter().map(|file| format!("docs/{file} isn't in docs/SUMMARY.md"));
        unlisted.chain(links::check(&self.pages, &root.join("docs"), has_reference)).collect()
    }
}

/// The findings of `build`, without a site: links into the reference aren't judged.
pub fn check(root: &Path) -> crate::Findings {
    let book = Book::read(root, None)?;
    Ok(book.findings(root, false))
}

fn write(out: &Path, book: &Book, docs: &Path) -> Result<(), String> {
    let all = || book.order.iter().filter_map(|path| book.pages.get(path));
    put(&out.join("book.css"), STYLE)?;
    put(&out.join("book.js"), SCRIPT)?;
    put(&out.join("index.js"), &search::index(all()))?;
    for page in all() {
        put(&out.join(page.html_path()), &page.html(&book.entries))?;
        for picture in page.pictures.iter().filter(|picture| docs.join(picture).exists()) {
            let to = out.join(picture);
            std::fs::create_dir_all(to.parent().unwrap_or(out)).map_err(|e| format!("{}: {e}", to.display()))?;
            std::fs::copy(docs.join(picture), &to).map_err(|e| format!("{picture}: {e}"))?;
        }
    }
    // The first page is what a server shows for the directory.
    if let Some(first) = all().next() {
        put(&out.join("index.html"), &first.html(&book.entries))?;
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    std::fs::write(path, text).map_err(failed)
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn markdown_below(root: &Path, dir: &Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(markdown_below(root, &path)?);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned());
        }
    }
    Ok(found)
}
