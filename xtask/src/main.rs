// SPDX-License-Identifier: BSD-2-Clause
//! Checks of the code base that are not tests of a crate: layers, licences and sources of dependencies, file heads, unfinished code,
//! files that the glossary names.
//!
//! `cargo run -p xtask -- check` prints one line per finding and one closing line; it exits non-zero when there is a finding.

mod glossary;
mod layers;
mod licences;
mod metadata;
mod origins;
mod sources;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What every check answers: one line of text per finding, or why it could not look.
type Findings = Result<Vec<String>, String>;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("check") => check(),
        _ => {
            eprintln!("usage: cargo run -p xtask -- check");
            ExitCode::from(2)
        }
    }
}

fn check() -> ExitCode {
    let root = root();
    let checks: [(&str, Findings); 6] = [
        ("layers", layers::check(&root)),
        ("licences of dependencies", licences::check(&root)),
        ("sources of dependencies", origins::check(&root)),
        ("file heads", sources::heads(&root)),
        ("unfinished code", sources::unfinished(&root)),
        ("glossary", glossary::check(&root)),
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
