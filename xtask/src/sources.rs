// SPDX-License-Identifier: BSD-2-Clause
//! Checks of the text of our source files: licence line, opening comment, nothing left unfinished.

use std::path::{Path, PathBuf};

const LICENCE: &str = "SPDX-License-Identifier: BSD-2-Clause";

/// Directories that hold no source of ours.
const SKIP: [&str; 4] = ["target", "dist", ".git", "__pycache__"];

/// Endings of the files that must name their licence.
const KINDS: [&str; 3] = ["rs", "py", "vtc"];

/// Macros that stand for code somebody still has to write. Written in two parts so that this file is no finding.
const STUBS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// One line per source file that doesn't name its licence in its first two lines, or (Rust) doesn't say what it is.
pub fn heads(root: &Path) -> crate::Findings {
    let mut found = Vec::new();
    for file in files(root)? {
        let text = read(&file)?;
        let name = file.strip_prefix(root).unwrap_or(&file).display();
        if !text.lines().take(2).any(|l| l.contains(LICENCE)) {
            found.push(format!("{name} does not start with its {LICENCE} line"));
        }
        if is(&file, "rs") && !text.lines().take(4).any(|l| l.starts_with("//!")) {
            found.push(format!("{name} does not say with `//!` what it is"));
        }
    }
    Ok(found)
}

/// One line per macro in Rust code that stands for missing code.
pub fn unfinished(root: &Path) -> crate::Findings {
    let mut found = Vec::new();
    for file in files(root)?.into_iter().filter(|f| is(f, "rs")) {
        for (at, line) in read(&file)?.lines().enumerate() {
            if STUBS.iter().any(|s| line.contains(s)) {
                let name = file.strip_prefix(root).unwrap_or(&file).display();
                found.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    Ok(found)
}

/// Lines of the Rust files below `dir`.
pub fn rust_lines(dir: &Path) -> Result<usize, String> {
    let rust = files(dir)?.into_iter().filter(|file| is(file, "rs"));
    rust.map(|file| Ok(read(&file)?.lines().count())).sum()
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

fn is(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|e| e == extension)
}

/// Every file of one of our `KINDS` below `root`, sorted.
fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut dirs) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for path in entries.flatten().map(|e| e.path()) {
            let skipped = path.file_name().is_some_and(|n| SKIP.iter().any(|s| n == *s));
            match (skipped, path.is_symlink(), path.is_dir()) {
                (true, ..) | (_, true, _) => {}
                (_, _, true) => dirs.push(path),
                _ if KINDS.iter().any(|k| is(&path, k)) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}
