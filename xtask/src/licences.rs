// SPDX-License-Identifier: BSD-2-Clause
//! What we build from must be permissively licensed: every dependency's SPDX expression must be satisfiable from a short list.

use crate::metadata;
use std::path::Path;

/// Licences whose only condition is that their text stays with the source.
const PERMISSIVE: [&str; 12] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unlicense",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
    "Unicode-3.0",
    "MIT-0",
];

/// One line per package from elsewhere whose licence we can't choose from the list.
pub fn check(root: &Path) -> crate::Findings {
    let packages = metadata::packages(root, true)?;
    let bad = |p: &&metadata::Package| p.foreign && !allowed(&p.licence);
    Ok(packages.iter().filter(bad).map(|p| format!("{}: `{}`", p.name, p.licence)).collect())
}

/// True if an SPDX expression can be satisfied: `OR` (also written `/`) needs one side, `AND` both; `WITH` only adds
/// rights.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at) && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> bool {
    let mut ok = every(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        ok |= every(words, at);
    }
    ok
}

fn every(words: &[&str], at: &mut usize) -> bool {
    let mut ok = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        ok &= one(words, at);
    }
    ok
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let ok = any(words, at);
        let closed = words.get(*at) == Some(&")");
        *at += usize::from(closed);
        return ok && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    PERMISSIVE.contains(&word)
}

#[cfg(test)]
mod tests {
    #[test]
    fn expressions() {
        let check = |text: &str, expect: bool| assert_eq!(super::allowed(text), expect, "{text}");
        check("MIT", true);
        check("MIT OR Apache-2.0", true);
        check("MIT/Apache-2.0", true);
        check("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true);
        check("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        check("GPL-2.0", false);
        check("MIT AND GPL-2.0", false);
        check("(MIT", false);
        check("", false);
    }
}
