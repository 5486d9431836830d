// SPDX-License-Identifier: BSD-2-Clause
//! The patterns that occur in real VCL, against PCRE2 itself: our own sites' files, and with `LACQUER_VCL_CORPUS` every
//! `.vcl` file below that directory. Each string constant is taken as a pattern, and the others, with changes, as subjects.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Regex;

/// Patterns for which a difference is meant: what Lacquer refuses by name.
const REFUSED: [&str; 2] = ["supported by Lacquer", "too large"];
const SUBJECTS: usize = 60;

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files(&path, found);
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".vcl")) {
            found.push(path);
        }
    }
}

/// The string constants of a text: `"..."` on one line, and `{"..."}`.
fn constants(text: &str, found: &mut BTreeSet<String>) {
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let long = rest[..at].ends_with('{');
        let body = &rest[at + 1..];
        let end = if long { body.find("\"}") } else { body.find(['"', '\n']) };
        let Some(end) = end else { return };
        if body.as_bytes()[end] == b'"' && end < 4000 {
            found.insert(body[..end].to_owned());
        }
        rest = &body[end + 1..];
    }
}

/// Texts that a pattern may find something in: constants, parts of the pattern itself, and changes of both.
fn subjects(pattern: &str, all: &[String], state: &mut u64) -> Vec<String> {
    let mut pick = |len: usize| step(state) % len.max(1);
    let plain: String = pattern.chars().filter(|c| !"^$()[]*+?|\\{}".contains(*c)).collect();
    let mut out =
        vec![String::new(), plain.clone(), pattern.to_owned(), format!("/x{plain}?a=1"), plain.to_uppercase()];
    for part in pattern.split(['|', '(', ')', '[', ']']) {
        out.push(part.replace(['^', '$', '\\', '?', '*', '+'], ""));
    }
    out.truncate(SUBJECTS / 2);
    while out.len() < SUBJECTS {
        let (a, b) = (&all[pick(all.len())], &out[pick(out.len())]);
        let cut = pick(a.len() + 1);
        let cut = (0..=cut).rev().find(|at| a.is_char_boundary(*at)).unwrap_or(0);
        out.push(match pick(4) {
            0 => a.clone(),
            1 => format!("{}{b}", &a[..cut]),
            2 => format!("{b}{}", &a[cut..]),
            _ => format!("{b}\n"),
        });
    }
    out
}

/// A step of xorshift: the same subjects in every run.
fn step(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

#[test]
fn patterns_of_real_vcl_match_as_in_pcre2() {
    let mut paths = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/vcl/vcl_oracle/sites"), &mut paths);
    if let Ok(corpus) = std::env::var("LACQUER_VCL_CORPUS") {
        files(Path::new(&corpus), &mut paths);
    }
    let mut found = BTreeSet::new();
    for path in &paths {
        constants(&String::from_utf8_lossy(&std::fs::read(path).expect("a file")), &mut found);
    }
    let all: Vec<String> = found.into_iter().filter(|text| text.is_ascii()).collect();
    assert!(all.len() > 200, "only {} constants", all.len());
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let (mut compared, mut bad) = (0, Vec::new());
    for pattern in &all {
        let theirs = pcre2::bytes::RegexBuilder::new().build(pattern);
        let ours = match (Regex::new(pattern.as_bytes()), &theirs) {
            (Ok(ours), Ok(_)) => ours,
            (Err(_), Err(_)) => continue,
            (Err(error), Ok(_)) if REFUSED.iter().any(|words| error.text.contains(words)) => continue,
            (Ok(_), Err(error)) => {
                bad.push(format!("{pattern:?}: PCRE2 refuses it: {error}"));
                continue;
            }
            (Err(error), Ok(_)) => {
                bad.push(format!("{pattern:?}: only Lacquer refuses it: {}", error.text));
                continue;
            }
        };
        let theirs = theirs.expect("both took it");
        let needs = ours.needs();
        for subject in subjects(pattern, &all, &mut state) {
            let Ok(want) = theirs.find(subject.as_bytes()) else { continue };
            let want = want.map(|m| m.start()..m.end());
            let bytes = subject.as_bytes();
            // `$` before a newline at the very end runs on the backtracker, which gives up on very large patterns.
            if bytes.ends_with(b"\n") && ours.find(bytes).is_err() {
                continue;
            }
            compared += 1;
            if ours.find(bytes) != Ok(want.clone()) || ours.is_match(bytes) != Ok(want.is_some()) {
                bad.push(format!("{pattern:?} in {subject:?}: {want:?}, ours {:?}", ours.find(bytes)));
            }
            let lower = subject.to_ascii_lowercase().into_bytes();
            let has = |text: &Vec<u8>| memchr::memmem::find(&lower, text).is_some();
            if want.is_some() && !needs.is_empty() && !needs.iter().any(has) {
                bad.push(format!("{pattern:?} in {subject:?}: matches without any of {needs:?}"));
            }
        }
    }
    println!("{} files, {} constants, {compared} matches compared", paths.len(), all.len());
    assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad[..bad.len().min(40)].join("\n"));
}
