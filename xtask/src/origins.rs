// SPDX-License-Identifier: BSD-2-Clause
//! What we build from comes from the one registry, as it was when it was locked, and some things aren't built from at all.

use std::path::Path;

use crate::metadata::{self, Package};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that no dependency may bring in, and why.
const BANNED: [(&str, &str); 5] = [
    ("openssl-sys", "TLS is rustls, and nothing links with a system's library"),
    ("native-tls", "TLS is rustls"),
    ("aws-lc-sys", "its build wants cmake; ring is there"),
    ("libz-sys", "compression is Rust's"),
    ("reqwest", "a second HTTP client"),
];

/// One line per package that comes from elsewhere, isn't pinned by a checksum, or is banned.
pub fn check(root: &Path) -> crate::Findings {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    let mut found: Vec<String> = lock.split("[[package]]").filter_map(unpinned).collect();
    found.extend(metadata::packages(root, true)?.iter().filter_map(unwanted));
    Ok(found)
}

fn unpinned(entry: &str) -> Option<String> {
    let value = |key: &str| entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    let (name, source) = (value("name")?, value("source")?);
    if source.trim_matches('"') != REGISTRY {
        return Some(format!("{name} comes from {source}"));
    }
    value("checksum").is_none().then(|| format!("{name} has no checksum"))
}

fn unwanted(package: &Package) -> Option<String> {
    let banned = BANNED.iter().find(|(name, _)| package.foreign && package.name == *name);
    if let Some((name, reason)) = banned {
        return Some(format!("{name} is banned: {reason}"));
    }
    (package.foreign && package.source != REGISTRY).then(|| format!("{} comes from {}", package.name, package.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_lock() {
        let check = |entry: &str, expect: Option<&str>| assert_eq!(unpinned(entry).as_deref(), expect, "{entry}");
        check("\nname = \"ours\"\nversion = \"1\"\n", None);
        check(&format!("name = \"a\"\nsource = \"{REGISTRY}\"\nchecksum = \"00\"\n"), None);
        check(&format!("name = \"a\"\nsource = \"{REGISTRY}\"\n"), Some("\"a\" has no checksum"));
        check("name = \"a\"\nsource = \"git+https://x/y\"\n", Some("\"a\" comes from \"git+https://x/y\""));
    }
}
