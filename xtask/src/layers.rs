// SPDX-License-Identifier: BSD-2-Clause
//! A crate imports only crates of a lower layer (ARCHITECTURE.md). The crates `testkit*` are for tests alone: as a
//! dev-dependency each crate may have them, as a dependency only the simulator and each other.

use crate::metadata::{self, Package};
use std::collections::HashMap;
use std::path::Path;

/// Pairs that no layer number forbids and that must be absent all the same: (who, must never name).
const NEVER: [(&str, &str); 7] = [
    ("manager", "cache"),
    ("manager", "engine"),
    ("manager", "fronts"),
    ("vmod-support", "engine"),
    ("vmods", "engine"),
    ("vmods-crypto", "engine"),
    ("cache", "vcl"),
];

/// One line per import that goes upwards or sideways, per crate without a layer, and per pair that must not meet.
pub fn check(root: &Path) -> crate::Findings {
    Ok(findings(&metadata::packages(root, false)?))
}

fn findings(packages: &[Package]) -> Vec<String> {
    let layer: HashMap<&str, u64> = packages.iter().filter_map(|p| Some((p.name.as_str(), p.layer?))).collect();
    let mut found = Vec::new();
    for p in packages {
        let Some(&own) = layer.get(p.name.as_str()) else {
            found.push(format!("{} has no package.metadata.layer", p.name));
            continue;
        };
        let is_for_tests = is_testkit(&p.name) || p.name == "sim";
        for dep in p.ours.iter().filter(|dep| is_testkit(dep) && !is_for_tests) {
            found.push(format!("{} imports {dep}, which is for tests alone", p.name));
        }
        for dep in p.ours.iter().chain(p.for_tests.iter().filter(|dep| !is_testkit(dep))) {
            match layer.get(dep.as_str()) {
                Some(&below) if below < own => {}
                Some(&other) => found.push(format!("{} (layer {own}) imports {dep} (layer {other})", p.name)),
                None => found.push(format!("{} imports {dep}, which has no layer", p.name)),
            }
            if NEVER.contains(&(p.name.as_str(), dep.as_str())) {
                found.push(format!("{} must never import {dep}", p.name));
            }
        }
    }
    found
}

fn is_testkit(name: &str) -> bool {
    name == "testkit" || name.starts_with("testkit-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, layer: Option<u64>, ours: &[&str]) -> Package {
        let (imports, for_tests): (Vec<&str>, Vec<&str>) = ours.iter().partition(|s| !s.starts_with("dev "));
        let mut package = Package::of_ours(name, layer, &imports);
        package.for_tests = for_tests.iter().map(|s| s["dev ".len()..].to_owned()).collect();
        package
    }

    fn check(packages: &[Package], expect: &[&str]) {
        assert_eq!(findings(packages), expect);
    }

    #[test]
    fn down_is_fine() {
        check(&[package("a", Some(0), &[]), package("b", Some(1), &["a"])], &[]);
    }

    #[test]
    fn up_and_sideways_are_findings() {
        check(
            &[package("a", Some(1), &["b"]), package("b", Some(1), &[]), package("c", Some(0), &["a"])],
            &["a (layer 1) imports b (layer 1)", "c (layer 0) imports a (layer 1)"],
        );
    }

    #[test]
    fn the_manager_never_sees_the_cache() {
        check(
            &[package("cache", Some(4), &[]), package("manager", Some(8), &["cache"])],
            &["manager must never import cache"],
        );
    }

    #[test]
    fn what_is_for_tests_is_a_dev_dependency_of_any_layer() {
        check(&[package("a", Some(1), &["dev testkit-b"]), package("testkit-b", Some(2), &["a"])], &[]);
        check(
            &[package("a", Some(3), &["testkit-b"]), package("testkit-b", Some(2), &[])],
            &["a imports testkit-b, which is for tests alone"],
        );
        check(&[package("a", Some(1), &["dev b"]), package("b", Some(2), &[])], &["a (layer 1) imports b (layer 2)"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_a_finding() {
        check(&[package("a", None, &[])], &["a has no package.metadata.layer"]);
    }
}
