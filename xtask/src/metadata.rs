// SPDX-License-Identifier: BSD-2-Clause
//! `cargo metadata`, as far as the checks need it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Package {
    pub name: String,
    /// The SPDX expression, empty when the package declares none.
    pub licence: String,
    /// `package.metadata.layer`, for packages of this workspace.
    pub layer: Option<u64>,
    /// Names of the packages of this workspace that it depends on.
    pub ours: Vec<String>,
    /// The same of its dev-dependencies.
    pub for_tests: Vec<String>,
    pub dir: PathBuf,
    pub foreign: bool,
    /// The source in Cargo's words; empty for our own.
    pub source: String,
}

#[cfg(test)]
impl Package {
    pub fn of_ours(name: &str, layer: Option<u64>, ours: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            licence: String::new(),
            layer,
            ours: ours.iter().map(|&dep| dep.to_owned()).collect(),
            for_tests: Vec::new(),
            dir: PathBuf::new(),
            foreign: false,
            source: String::new(),
        }
    }
}

/// Every package of the workspace and, with `deps`, every package they are built from on this platform.
pub fn packages(root: &Path, deps: bool) -> Result<Vec<Package>, String> {
    let all = asked(root, deps)?;
    let used: Option<Vec<&str>> =
        all["resolve"]["nodes"].as_array().map(|n| n.iter().filter_map(|n| n["id"].as_str()).collect());
    let packages = all["packages"].as_array().ok_or("cargo metadata names no packages")?;
    Ok(packages
        .iter()
        .filter(|p| used.as_ref().is_none_or(|u| p["id"].as_str().is_some_and(|id| u.contains(&id))))
        .map(package)
        .collect())
}

/// All that it says, with what the packages are built from on this platform.
pub fn raw(root: &Path) -> Result<Value, String> {
    asked(root, true)
}

fn asked(root: &Path, deps: bool) -> Result<Value, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["metadata", "--format-version", "1", "--locked"]);
    match deps {
        true => cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]),
        false => cargo.arg("--no-deps"),
    };
    let out = cargo.output().map_err(|e| format!("cargo metadata: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn package(p: &Value) -> Package {
    let ours = |for_tests: bool| {
        let all = p["dependencies"].as_array().into_iter().flatten().filter(|d| d["path"].is_string());
        all.filter(|d| (d["kind"] == "dev") == for_tests).map(|d| text(&d["name"])).collect()
    };
    Package {
        name: text(&p["name"]),
        licence: text(&p["license"]),
        layer: p["metadata"]["layer"].as_u64(),
        ours: ours(false),
        for_tests: ours(true),
        dir: Path::new(&text(&p["manifest_path"])).parent().map(Path::to_path_buf).unwrap_or_default(),
        foreign: p["source"].is_string(),
        source: text(&p["source"]),
    }
}

fn text(v: &Value) -> String {
    v.as_str().unwrap_or_default().to_owned()
}
