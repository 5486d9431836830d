// SPDX-License-Identifier: BSD-2-Clause
//! Checks of the text of our source files: licence line, opening comment, nothing left unfinished, one program in all profiles.

use std::path::Path;

use crate::tree::{self, is, name, read};

const LICENCE: &str = "SPDX-License-Identifier: BSD-2-Clause";

/// Endings of the files that must name their licence. Scripts, which have a `#!` line, must do so, too.
const KINDS: [&str; 3] = ["rs", "py", "vtc"];

/// Lines of a script among which its licence is: an init script begins with a comment for the system.
const SCRIPT_HEAD: usize = 12;

/// Macros that stand for code somebody still has to write. Written in two parts so that this file is no finding.
const STUBS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// One line per source file that doesn't name its licence in its first two lines, or (Rust) doesn't say what it is.
pub fn heads(root: &Path) -> crate::Findings {
    let mut found = Vec::new();
    for file in tree::files(root)? {
        let lines = match KINDS.iter().any(|kind| is(&file, kind)) {
            true => 2,
            false if tree::interpreter(&file)?.is_some() => SCRIPT_HEAD,
            false => continue,
        };
        let (text, name) = (read(&file)?, name(root, &file));
        if !text.lines().take(lines).any(|l| l.contains(LICENCE)) {
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
    for file in tree::files(root)?.into_iter().filter(|f| is(f, "rs")) {
        for (at, line) in read(&file)?.lines().enumerate() {
            if STUBS.iter().any(|s| line.contains(s)) {
                found.push(format!("{}:{}: {}", name(root, &file), at + 1, line.trim()));
            }
        }
    }
    Ok(found)
}

/// One line per item that only builds with debug assertions have, or only those without: tests would compile another program than
/// a release. `cfg!(debug_assertions)` decides between two ways that both compile.
pub fn profiles(root: &Path) -> crate::Findings {
    let mut found = Vec::new();
    for file in tree::files(root)?.into_iter().filter(|f| is(f, "rs")) {
        let text = read(&file)?;
        let mut lines = text.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let is_conditional = line.trim_start().starts_with("#[cfg") && line.contains("debug_assertions");
            let is_refusal = lines.peek().is_some_and(|(_, next)| next.starts_with("compile_error!"));
            if is_conditional && !is_refusal {
                found.push(format!(
                    "{}:{}: use `cfg!(debug_assertions)` in place of {}",
                    name(root, &file),
                    at + 1,
                    line.trim()
                ));
            }
        }
    }
    Ok(found)
}

pub fn rust_lines(dir: &Path) -> Result<usize, String> {
    let rust = tree::files(dir)?.into_iter().filter(|file| is(file, "rs"));
    rust.map(|file| Ok(read(&file)?.lines().count())).sum()
}
