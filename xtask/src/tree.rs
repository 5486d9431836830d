// SPDX-License-Identifier: BSD-2-Clause
//! The files of the repository that checks look through.

use std::path::{Path, PathBuf};

/// Directories that hold no source of ours.
const SKIP: [&str; 4] = ["target", "dist", ".git", "__pycache__"];

/// Every regular file below `root`, sorted. Symbolic links are left out.
pub fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut dirs) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for path in entries.flatten().map(|e| e.path()) {
            let skipped = path.file_name().is_some_and(|n| SKIP.iter().any(|s| n == *s));
            match (skipped, path.is_symlink(), path.is_dir()) {
                (true, ..) | (_, true, _) => {}
                (_, _, true) => dirs.push(path),
                (_, _, false) => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

pub fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// True if the file's name ends in `.extension`.
pub fn is(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|e| e == extension)
}

/// Path of `file` within the repository, for messages.
pub fn name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The program named in the file's `#!` line, without its directory and `env`: "sh", "bash", "python3".
pub fn interpreter(file: &Path) -> Result<Option<String>, String> {
    let mut head = [0; 64];
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    let count = std::io::Read::read(&mut std::fs::File::open(file).map_err(failed)?, &mut head).map_err(failed)?;
    let Some(line) = head.get(..count).and_then(|head| head.strip_prefix(b"#!")) else { return Ok(None) };
    let line = String::from_utf8_lossy(line);
    let mut words = line.lines().next().unwrap_or_default().split_ascii_whitespace();
    let program = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let program = if program == "env" { words.next().unwrap_or_default() } else { program };
    Ok(Some(program.to_owned()))
}
