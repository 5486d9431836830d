// SPDX-License-Identifier: BSD-2-Clause
//! Shell patterns: `*`, `?`, `[...]` and backslash, for file names (`include +glob`) and VCL names (`vcl.discard`).

use std::path::{Path, PathBuf};

/// fnmatch(3) without flags: `*` also matches `/`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where to go back to when a character fails: after the last star, one byte of text further on.
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match one(&pattern[p.min(pattern.len())..], text[t]) {
            Some(len) => {
                p += len;
                t += 1;
            }
            None => match star {
                Some((after, at)) => {
                    star = Some((after, at + 1));
                    (p, t) = (after, at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// Length of the pattern's first element if it matches the byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        b'[' => match class(pattern, byte) {
            Some((len, true)) => Some(len),
            Some((_, false)) => None,
            None => (byte == b'[').then_some(1),
        },
        literal => (literal == byte).then_some(1),
    }
}

/// Length of a bracket expression and whether it matches; None when it has no end.
fn class(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    let (mut at, mut hit) = (start, false);
    loop {
        let low = *pattern.get(at)?;
        if low == b']' && at > start {
            return Some((at + 1, hit != negated));
        }
        let range = pattern.get(at + 1) == Some(&b'-') && pattern.get(at + 2).is_some_and(|&b| b != b']');
        let high = if range { pattern[at + 2] } else { low };
        hit |= (low..=high).contains(&byte);
        at += if range { 3 } else { 1 };
    }
}

/// Files below `dir` that match, sorted. Hidden names need a pattern that begins with a dot.
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
            (!name.starts_with(b".") || part.starts_with('.')) && matches(part.as_bytes(), name)
        })
        .map(|name| dir.join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        yes.iter().for_each(|text| assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}"));
        no.iter().for_each(|text| assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}"));
    }

    #[test]
    fn shell_patterns() {
        check("vcl*", &["vcl", "vcl1"], &["vc", "avcl"]);
        check("*a*b", &["ab", "xaxab"], &["a", "ba"]);
        check("v?[0-9]", &["vx1"], &["v1", "vxx"]);
        check("[!a]\\*", &["b*"], &["a*", "bx"]);
        check("[]x]", &["]", "x"], &["y"]);
        check("[", &["["], &["]"]);
        check("", &[""], &["a"]);
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_star_takes_all(pattern in proptest::collection::vec(proptest::num::u8::ANY, 0..12), text in "[a-c*\\[\\]]{0,12}") {
            let _ = matches(&pattern, text.as_bytes());
            assert!(matches(b"*", text.as_bytes()));
        }
    }
}
