// SPDX-License-Identifier: BSD-2-Clause
//! GLOSSARY.md: each row of its tables ends with the files in which the word lives, and these must be there.

use std::path::Path;

/// One line per row that names no file, or one that isn't there.
pub fn check(root: &Path) -> crate::Findings {
    let text = std::fs::read_to_string(root.join("GLOSSARY.md")).map_err(|e| format!("GLOSSARY.md: {e}"))?;
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let mut found = Vec::new();
    for row in rows.filter(|row| !row.starts_with("| word |")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [word, _, files] = cells[..] else {
            found.push(format!("{row}: not word, meaning, files"));
            continue;
        };
        let missing = files.split(", ").map(|file| file.trim_matches('`')).find(|file| !root.join(file).is_file());
        found.extend(missing.map(|file| format!("{word}: there is no {file:?}")));
    }
    Ok(found)
}
