// SPDX-License-Identifier: BSD-2-Clause
//! Expands shell patterns of file names, for `include +glob`.

use std::path::{Path, PathBuf};

use base::fnmatch;

/// Files below `dir` that match, sorted. Hidden names match only a pattern that begins with a dot.
pub fn expand(dir: &Path, pattern: &str) -> Vec<String> {
    let mut found = vec![dir.to_path_buf()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found.iter().flat_map(|dir| step(dir, part)).collect();
    }
    let mut names: Vec<String> = found.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn step(dir: &Path, part: &str) -> Vec<PathBuf> {
    if !part.contains(['*', '?', '[', '\\']) {
        let path = dir.join(part);
        return if path.exists() { vec![path] } else { Vec::new() };
    }
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter(|name| {
            let name = name.as_encoded_bytes();
            (!name.starts_with(b".") || part.starts_with('.'))
                && fnmatch::matches(part.as_bytes(), name, fnmatch::MatchFlags::default())
        })
        .map(|name| dir.join(name))
        .collect()
}
