// SPDX-License-Identifier: BSD-2-Clause
//! Checks of the code base that are not tests of a crate: layers, features, licences and sources of dependencies, file heads, unfinished code,
//! one program in all profiles, counters that nobody counts, files that the glossary names, links, paths and messages in documents, rows of
//! tests/README.md, plain English, syntax of shell scripts and Python.
//!
//! `cargo run -p xtask -- check` prints one line per finding and one closing line; it exits non-zero when there is a finding.
//! `cargo run -p xtask -- english` lists the comments and words that the rule for plain English counts.
//! `cargo run -p xtask -- sbom DIR` writes what the program is built from, and the licences' texts.
//! `cargo run -p xtask -- book DIR [--reference DIR]` makes the site of the book, likewise.
//! `cargo run -p xtask -- rebuilds [CRATE...]` prints how many crates and lines are compiled again after a change in a crate.
#![expect(clippy::disallowed_macros, reason = "a developer's tool may panic")]

mod book;
mod counters;
mod documents;
mod english;
mod features;
mod glossary;
mod layers;
mod licences;
mod messages;
mod metadata;
mod origins;
mod rebuilds;
mod sbom;
mod scripts;
mod sources;
mod standards;
mod suites;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The answer of every check: one line of text per finding, or the reason why it could not look.
type Findings = Result<Vec<String>, String>;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("check") => check(),
        Some("book") => book(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("english") => told("english", "listed", english::list(&root())),
        Some("rebuilds") => rebuilds(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("sbom") if let Some(dir) = std::env::args().nth(2) => {
            told("sbom", &dir, sbom::write(&root(), Path::new(&dir)))
        }
        _ => {
            eprintln!(
                "usage: cargo run -p xtask -- check | english | book DIR [--reference DIR] | rebuilds [CRATE...] | sbom DIR"
            );
            ExitCode::from(2)
        }
    }
}

fn book(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (out, reference) = match words[..] {
        [out] => (out, None),
        [out, "--reference", reference] => (out, Some(Path::new(reference))),
        _ => {
            eprintln!("usage: cargo run -p xtask -- book DIR [--reference DIR]");
            return ExitCode::from(2);
        }
    };
    told("book", out, book::build(&root(), Path::new(out), reference))
}

fn rebuilds(names: &[String]) -> ExitCode {
    match rebuilds::table(&root(), names) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask rebuilds: {error}");
            ExitCode::from(2)
        }
    }
}

/// Tells what was found while `out` was written: the exit status.
fn told(what: &str, out: &str, findings: Findings) -> ExitCode {
    match findings {
        Ok(findings) => {
            findings.iter().for_each(|line| println!("{line}"));
            println!("xtask {what}: {out}, {} findings", findings.len());
            ExitCode::from(u8::from(!findings.is_empty()))
        }
        Err(error) => {
            eprintln!("xtask {what}: {error}");
            ExitCode::from(2)
        }
    }
}

fn check() -> ExitCode {
    let root = root();
    let checks: [(&str, Findings); 17] = [
        ("layers", layers::check(&root)),
        ("one feature set", features::check(&root)),
        ("licences of dependencies", licences::check(&root)),
        ("sources of dependencies", origins::check(&root)),
        ("file heads", sources::heads(&root)),
        ("unfinished code", sources::unfinished(&root)),
        ("one program", sources::profiles(&root)),
        ("counters", counters::check(&root)),
        ("glossary", glossary::check(&root)),
        ("links of the book", book::check(&root)),
        ("documents", documents::check(&root)),
        ("messages in documents", messages::check(&root)),
        ("standards", standards::check(&root)),
        ("tests/README", suites::check(&root)),
        ("plain English", english::check(&root)),
        ("shell scripts", scripts::shell(&root)),
        ("Python", scripts::python(&root)),
    ];
    let mut bad = 0;
    for (name, findings) in &checks {
        match findings {
            Ok(lines) => lines.iter().for_each(|l| println!("{name}: {l}")),
            Err(e) => println!("{name}: could not be checked: {e}"),
        }
        bad += usize::from(!matches!(findings, Ok(lines) if lines.is_empty()));
    }
    println!("xtask check: {} passed, {bad} failed", checks.len() - bad);
    ExitCode::from(u8::from(bad > 0))
}

/// The workspace's directory: the one above this crate's.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    fn check(findings: super::Findings) {
        assert_eq!(findings, Ok(Vec::new()));
    }

    #[test]
    fn crates_import_only_lower_layers() {
        check(super::layers::check(&super::root()));
    }

    #[test]
    fn words_of_the_glossary_live_where_it_says() {
        check(super::glossary::check(&super::root()));
    }

    #[test]
    fn every_source_file_names_its_licence() {
        check(super::sources::heads(&super::root()));
    }
}
