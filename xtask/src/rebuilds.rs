// SPDX-License-Identifier: BSD-2-Clause
//! The cost of touching a crate: how many crates of the workspace Cargo compiles again, and how many lines of Rust these have in `src`.
//!
//! Only normal dependencies count: a crate whose tests alone use the touched one isn't compiled again by `cargo build`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::metadata::{self, Package};
use crate::sources;

/// Crates and lines that a change compiles again, the touched crate included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    crates: usize,
    lines: usize,
}

/// The table for the named crates; for every crate, the most expensive first, when none is named.
pub fn table(root: &Path, names: &[String]) -> Result<String, String> {
    let packages = metadata::packages(root, false)?;
    let lines = lines(&packages)?;
    let known = |name: &&String| packages.iter().any(|p| p.name == **name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(format!("the workspace has no crate {unknown}"));
    }
    let costs: Vec<(&str, Cost)> = match names {
        [] => {
            let mut all: Vec<_> =
                packages.iter().map(|p| (p.name.as_str(), cost(&packages, &lines, &p.name))).collect();
            all.sort_by_key(|(name, cost)| (std::cmp::Reverse(cost.lines), *name));
            all
        }
        names => names.iter().map(|name| (name.as_str(), cost(&packages, &lines, name))).collect(),
    };
    let whole = Cost { crates: packages.len(), lines: lines.values().sum() };
    Ok(format(&costs, whole))
}

/// The crate and every crate that depends on it, directly or through others.
fn cost(packages: &[Package], lines: &HashMap<&str, usize>, touched: &str) -> Cost {
    let (mut rebuilt, mut open) = (HashSet::from([touched]), vec![touched]);
    while let Some(name) = open.pop() {
        let users = packages.iter().filter(|p| p.ours.iter().any(|dep| dep == name));
        open.extend(users.map(|p| p.name.as_str()).filter(|user| rebuilt.insert(user)));
    }
    Cost { crates: rebuilt.len(), lines: rebuilt.iter().filter_map(|name| lines.get(name)).sum() }
}

fn lines(packages: &[Package]) -> Result<HashMap<&str, usize>, String> {
    packages.iter().map(|p| Ok((p.name.as_str(), sources::rust_lines(&p.dir.join("src"))?))).collect()
}

fn format(costs: &[(&str, Cost)], whole: Cost) -> String {
    let width = costs.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max("touched".len());
    let mut out = format!("{:width$}  crates  lines of src\n", "touched");
    for (name, cost) in costs {
        let percent = 100 * cost.lines / whole.lines.max(1);
        out.push_str(&format!("{name:width$}  {:>6}  {:>7} {percent:>3} %\n", cost.crates, cost.lines));
    }
    out + &format!("{:width$}  {:>6}  {:>7} 100 %\n", "(all)", whole.crates, whole.lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `base` below `codec` below `server`; only the tests of `tool` use `base`.
    fn check(touched: &str, crates: usize, lines: usize) {
        let package = |name: &str, ours: &[&str], for_tests: &[&str]| Package {
            for_tests: for_tests.iter().map(|&dep| dep.to_owned()).collect(),
            ..Package::of_ours(name, None, ours)
        };
        let packages = [
            package("base", &[], &[]),
            package("codec", &["base"], &[]),
            package("server", &["codec", "base"], &[]),
            package("tool", &[], &["base"]),
        ];
        let sizes = HashMap::from([("base", 1), ("codec", 10), ("server", 100), ("tool", 1000)]);
        assert_eq!(cost(&packages, &sizes, touched), Cost { crates, lines }, "{touched}");
    }

    #[test]
    fn users_of_users_are_rebuilt_once() {
        check("base", 3, 111);
        check("codec", 2, 110);
        check("server", 1, 100);
        check("tool", 1, 1000);
    }

    #[test]
    fn a_row_shows_crates_lines_and_their_share() {
        let whole = Cost { crates: 4, lines: 1111 };
        let text = format(&[("codec", Cost { crates: 2, lines: 110 })], whole);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1..], [vec!["codec", "2", "110", "9", "%"], vec!["(all)", "4", "1111", "100", "%"]]);
    }

    #[test]
    fn this_workspace_has_a_table() {
        let text = table(&crate::root(), &["xtask".to_owned()]).unwrap();
        let row: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(row[..2], ["xtask", "1"], "{text}");
        assert!(row[2].parse::<usize>().is_ok_and(|lines| lines > 1000), "{text}");
        assert!(table(&crate::root(), &["xtusk".to_owned()]).is_err_and(|error| error.contains("xtusk")));
    }
}
