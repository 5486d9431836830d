// SPDX-License-Identifier: BSD-2-Clause
//! tests/README.md: each suite has its row below the heading of its group, and each such row has its suite.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree::{self, name};

const README: &str = "tests/README.md";

/// Kinds whose suites are directories with a `run.py`. Headings of groups begin with one of them.
const KINDS: [&str; 3] = ["e2e", "field", "timing"];

/// The paths below `tests` of all suites, as `e2e/traffic/why`. What a suite is, is decided here and in `tests/run`.
fn suites(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for file in tree::files(&root.join("tests"))? {
        let name = name(root, &file);
        if let Some(suite) = name.strip_prefix("tests/").and_then(|name| name.strip_suffix("/run.py"))
            && KINDS.contains(&kind(suite))
        {
            found.insert(suite.to_owned());
        }
    }
    Ok(found)
}

fn kind(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

/// One line per suite without a row, per row without a suite, and per suite that has two rows.
pub fn check(root: &Path) -> crate::Findings {
    Ok(findings(&suites(root)?, &rows(&tree::read(&root.join(README))?)))
}

/// The paths of the suites that the tables name: a table's heading is its group, a row's first column the name in backticks.
fn rows(text: &str) -> Vec<String> {
    let (mut group, mut found) = ("", Vec::new());
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            group = heading.trim();
        } else if KINDS.contains(&kind(group))
            && let Some((name, _)) = line.strip_prefix("| `").and_then(|line| line.split_once('`'))
        {
            found.push(format!("{group}/{name}"));
        }
    }
    found
}

fn findings(suites: &BTreeSet<String>, rows: &[String]) -> Vec<String> {
    let missing = suites.iter().filter(|suite| !rows.contains(suite));
    let mut found: Vec<String> = missing.map(|suite| format!("{README} has no row for {suite}")).collect();
    for (at, row) in rows.iter().enumerate() {
        if !suites.contains(row) {
            found.push(format!("{README}: there is no suite {row}"));
        }
        if rows[..at].contains(row) {
            found.push(format!("{README}: {row} has two rows"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(suites: &[&str], text: &str, expect: &[&str]) {
        let suites = suites.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(findings(&suites, &rows(text)), expect);
    }

    #[test]
    fn a_row_for_each_suite() {
        check(
            &["e2e/traffic/a", "timing/a"],
            "# Tests\n| `unit` | x |\n## e2e/traffic\n| suite | what |\n| --- | --- |\n| `a` | x |\n## timing\n| `a` | y |\n## Rules\n| `b` |\n",
            &[],
        );
    }

    #[test]
    fn what_lacks_or_is_too_many() {
        check(
            &["field/a", "field/b"],
            "## field\n| `a` | x |\n| `a` | x |\n| `c` | x |\n",
            &[
                "tests/README.md has no row for field/b",
                "tests/README.md: field/a has two rows",
                "tests/README.md: there is no suite field/c",
            ],
        );
    }
}
