// SPDX-License-Identifier: BSD-2-Clause
//! docs/standards.md: each row names a test, and each RFC that the code cites is on the page. `documents` checks that the tests exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tree::{self, is, name};

const PAGE: &str = "docs/standards.md";

pub fn check(root: &Path) -> crate::Findings {
    let page = tree::read(&root.join(PAGE))?;
    let mut cited = BTreeMap::new();
    for dir in ["crates", "tools"] {
        for file in tree::files(&root.join(dir))?.into_iter().filter(|file| is(file, "rs")) {
            cited.extend(rfcs(&tree::read(&file)?).map(|rfc| (rfc, name(root, &file))));
        }
    }
    Ok(findings(&page, &cited))
}

/// The numbers behind `RFC `. Those below 1000 are left out, because a log record of a TTL looks the same.
fn rfcs(text: &str) -> impl Iterator<Item = u32> {
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    text.split("RFC ").skip(1).filter_map(number).filter(|&rfc| rfc >= 1000)
}

/// One line per row without a test, and per RFC of `cited` that isn't on the page.
fn findings(page: &str, cited: &BTreeMap<u32, String>) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let has_test = |row: &&str| match row.trim_matches('|').split(" | ").collect::<Vec<_>>()[..] {
        [_, _, tests] => tests.trim() == "test" || tests.contains("`tests/") || tests.contains("`crates/"),
        _ => false,
    };
    let mut found: Vec<String> =
        rows.filter(|row| !has_test(row)).map(|row| format!("{PAGE}: no test: {row}")).collect();
    let listed: BTreeSet<u32> = rfcs(page).collect();
    let missing = cited.iter().filter(|(rfc, _)| !listed.contains(rfc));
    found.extend(missing.map(|(rfc, file)| format!("{file} cites RFC {rfc}, which {PAGE} doesn't have")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_tests_and_no_citation_is_left_out() {
        let check = |page: &str, source: &str, expect: &[&str]| {
            let cited = rfcs(source).map(|rfc| (rfc, "crates/x.rs".to_owned())).collect();
            assert_eq!(findings(page, &cited), expect, "{page}");
        };
        let page = "| standard | extent | test |\n| --- | --- | --- |\n| RFC 9110 | whole | `tests/vtc` |\n";
        check(page, "(RFC 9110, 3.1) RFC nnnn", &[]);
        check(page, "RFC 120 10, RFC 9111", &["crates/x.rs cites RFC 9111, which docs/standards.md doesn't have"]);
        check("| RFC 1 | whole | none |\n", "", &["docs/standards.md: no test: | RFC 1 | whole | none |"]);
        check("| RFC 1 | `tests/vtc` |\n", "", &["docs/standards.md: no test: | RFC 1 | `tests/vtc` |"]);
    }
}
