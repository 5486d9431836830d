// SPDX-License-Identifier: BSD-2-Clause
//! What the program is built from: a list for other programs (CycloneDX 1.5), and the licences' texts for people.
//!
//! `cargo run -p xtask -- sbom DIR` writes `sbom.cdx.json` and `third-party.txt`.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::metadata;

/// The package whose dependencies count.
const PROGRAM: &str = "lacquer";

/// A crate from elsewhere that is linked into the program, or builds it.
struct Component {
    name: String,
    version: String,
    licence: String,
    checksum: String,
    texts: Vec<String>,
}

/// Writes both files into `out`; one line per crate of which something isn't known.
///
/// # Errors
/// Cargo can't be asked, or a file can't be written.
pub fn write(root: &Path, out: &Path) -> crate::Findings {
    let all = metadata::raw(root)?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    let components = components(&all, &checksums(&lock))?;
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let put = |name: &str, text: String| std::fs::write(out.join(name), text).map_err(|e| format!("{name}: {e}"));
    put("sbom.cdx.json", format!("{:#}\n", list(&all, &components)))?;
    put("third-party.txt", texts(&components))?;
    Ok(components.iter().flat_map(missing).collect())
}

fn missing(component: &Component) -> Vec<String> {
    let Component { name, licence, checksum, .. } = component;
    [("licence", licence.is_empty()), ("checksum", checksum.is_empty())]
        .iter()
        .filter(|(_, is_missing)| *is_missing)
        .map(|(what, _)| format!("{name}: no {what}"))
        .collect()
}

fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |entry: &str, key: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|text| text.trim_matches('"').to_owned())
    };
    let of = |entry: &str| Some(((value(entry, "name")?, value(entry, "version")?), value(entry, "checksum")?));
    lock.split("[[package]]").filter_map(of).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Ids of all that the program needs, without what only its tests do.
fn needed(all: &Value) -> Result<BTreeSet<String>, String> {
    let packages = all["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let program = packages.iter().find(|p| p["name"] == PROGRAM && p["source"].is_null());
    let mut open = vec![text(&program.ok_or("there is no package of the program")?["id"])];
    let nodes: BTreeMap<&str, &Value> =
        all["resolve"]["nodes"].as_array().into_iter().flatten().filter_map(|n| Some((n["id"].as_str()?, n))).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        let Some(node) = nodes.get(id.as_str()) else { continue };
        for dep in node["deps"].as_array().into_iter().flatten() {
            let is_for_tests =
                dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev"));
            if !is_for_tests {
                open.push(text(&dep["pkg"]));
            }
        }
    }
    Ok(found)
}

fn components(all: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Vec<Component>, String> {
    let needed = needed(all)?;
    let foreign = all["packages"].as_array().into_iter().flatten().filter(|p| p["source"].is_string());
    let mut out: Vec<Component> = foreign
        .filter(|p| needed.contains(&text(&p["id"])))
        .map(|p| {
            let (name, version) = (text(&p["name"]), text(&p["version"]));
            let checksum = checksums.get(&(name.clone(), version.clone())).cloned().unwrap_or_default();
            let texts = licence_files(Path::new(&text(&p["manifest_path"])));
            Component { licence: text(&p["license"]).replace('/', " OR "), name, version, checksum, texts }
        })
        .collect();
    out.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(out)
}

/// Files beside a manifest that are called as licences are.
fn licence_files(manifest: &Path) -> Vec<String> {
    let Some(Ok(dir)) = manifest.parent().map(std::fs::read_dir) else { return Vec::new() };
    let mut paths: Vec<_> = dir.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    paths.sort();
    let is_one = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|word| name.starts_with(word))
    };
    paths.iter().filter(|path| is_one(path)).filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn list(all: &Value, components: &[Component]) -> Value {
    let packages = all["packages"].as_array().into_iter().flatten();
    let version = packages.filter(|p| p["name"] == PROGRAM).map(|p| text(&p["version"])).next().unwrap_or_default();
    let one = |c: &Component| {
        json!({
            "type": "library", "name": c.name, "version": c.version, "purl": format!("pkg:cargo/{}@{}", c.name, c.version),
            "licenses": [{ "expression": c.licence }],
            "hashes": [{ "alg": "SHA-256", "content": c.checksum }],
        })
    };
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "name": PROGRAM, "version": version, "licenses": [{ "expression": "BSD-2-Clause" }],
        } },
        "components": components.iter().map(one).collect::<Vec<_>>(),
    })
}

/// Each text once, headed by whose it is.
fn texts(components: &[Component]) -> String {
    let mut by_text: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for component in components {
        for text in &component.texts {
            by_text.entry(text.trim()).or_default().push(format!("{} {}", component.name, component.version));
        }
    }
    let mut out = String::from("Lacquer is built from these crates, each under the licence that is named:\n\n");
    components.iter().for_each(|c| out.push_str(&format!("{} {}: {}\n", c.name, c.version, c.licence)));
    for (text, names) in by_text {
        out.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(78), names.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_need_is_left_out() {
        let dep = |id: &str, kind: &str| {
            let kind = if kind.is_empty() { Value::Null } else { Value::from(kind) };
            json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] })
        };
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1", "source": source, "license": "MIT/Apache-2.0", "manifest_path": "/x" });
        let all = json!({
            "packages": [package("lacquer", Value::Null), package("a", "r".into()), package("b", "r".into()), package("c", "r".into())],
            "resolve": { "nodes": [
                { "id": "lacquer", "deps": [dep("a", ""), dep("b", "dev")] }, { "id": "a", "deps": [dep("c", "build")] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1\"\nchecksum = \"00\"\n";
        let found = components(&all, &checksums(lock)).expect("a graph");
        let names: Vec<&str> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((names, found[0].licence.as_str()), (vec!["a", "c"], "MIT OR Apache-2.0"));
        assert_eq!(found.iter().flat_map(missing).collect::<Vec<_>>(), ["c: no checksum"]);
        assert_eq!(list(&all, &found)["components"][0]["purl"], "pkg:cargo/a@1");
    }
}
