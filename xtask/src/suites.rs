// SPDX-License-Identifier: BSD-2-Clause
//! tests/README.md: each suite has its row in the table, and each row has its suite.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree::{self, name};

const README: &str = "tests/README.md";

/// Suites that are in no directory of their own: `tests/run_all` declares them.
const IN_RUN_ALL: [&str; 3] = ["cargo", "costs", "vtc"];

/// The names of all suites. What a suite is, is decided here alone: every `tests/NAME/run.py` is one.
fn suites(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut found: BTreeSet<String> = IN_RUN_ALL.iter().map(|&name| name.to_owned()).collect();
    for file in tree::files(&root.join("tests"))? {
        let name = name(root, &file);
        if let Some(suite) = name.strip_prefix("tests/").and_then(|name| name.strip_suffix("/run.py")) {
            found.insert(suite.to_owned());
        }
    }
    Ok(found)
}

/// One line per suite without a row, per row without a suite, and per name that has two rows.
pub fn check(root: &Path) -> crate::Findings {
    let text = tree::read(&root.join(README))?;
    // A program beside the suites, which its row names with its directory, isn't run by `tests/run_all`.
    let is_program = |row: &str| row.contains('/') && root.join("tests").join(row).is_file();
    Ok(findings(&suites(root)?, &rows(&text), is_program))
}

/// The names in the first column, which are in backticks.
fn rows(text: &str) -> Vec<&str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `"));
    cells.filter_map(|line| Some(line.split_once('`')?.0)).collect()
}

fn findings(suites: &BTreeSet<String>, rows: &[&str], is_program: impl Fn(&str) -> bool) -> Vec<String> {
    let missing = suites.iter().filter(|suite| !rows.contains(&suite.as_str()));
    let mut found: Vec<String> = missing.map(|suite| format!("{README} has no row for {suite}")).collect();
    for (at, row) in rows.iter().enumerate() {
        if !suites.contains(*row) && !is_program(row) {
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

    fn check(suites: &[&str], table: &str, expect: &[&str]) {
        let suites = suites.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(findings(&suites, &rows(table), |row| row == "a/in_qemu"), expect);
    }

    #[test]
    fn a_row_for_each_suite() {
        check(&["a", "b"], "| suite | what |\n| --- | --- |\n| `a` | x |\n| `a/in_qemu` | z |\n| `b` | y |\n", &[]);
    }

    #[test]
    fn what_lacks_or_is_too_many() {
        check(
            &["a", "b"],
            "| `a` | x |\n| `a` | x |\n| `c` | x |\n",
            &[
                "tests/README.md has no row for b",
                "tests/README.md: a has two rows",
                "tests/README.md: there is no suite c",
            ],
        );
    }
}
