// SPDX-License-Identifier: BSD-2-Clause
//! One feature set: a package is built with the same features whatever is selected, so that `cargo test -p X`,
//! `cargo test --workspace` and `cargo build -p lacquer` share what they build. Cargo's own resolver is asked, once for each
//! selection.

use crate::metadata;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const MAY_DIFFER: [(&str, &str); 1] =
    [("xtask", "it is small, needs few packages, and none of ours: they are built once more, and then kept")];

/// Programs that are built without tests, and so without dev-dependencies.
const PROGRAMS: [&str; 2] = ["lacquer", "sim"];

/// Packages with their features: for one of them several sets, where build scripts want it with others.
type Selected = BTreeMap<String, BTreeSet<String>>;

/// One line per package whose features depend on what is selected.
pub fn check(root: &Path) -> crate::Findings {
    let may_differ = |name: &String| MAY_DIFFER.iter().any(|(differs, _)| differs == name);
    let names = metadata::packages(root, false)?.into_iter().map(|p| p.name).filter(|name| !may_differ(name));
    let mut selections: Vec<Vec<String>> = vec![words("--workspace --edges normal,build,dev")];
    selections.extend(names.map(|name| words(&format!("-p {name} --edges normal,build,dev"))));
    selections.extend(PROGRAMS.map(|name| words(&format!("-p {name} --edges normal,build"))));
    let mut selected = ask(root, &selections)?.into_iter();
    let whole = selected.next().ok_or("cargo tree: no answer")?;
    let labels = selections.iter().skip(1).map(|words| words.join(" "));
    Ok(findings(&whole, labels.zip(selected)))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The answers in order; some selections are asked at a time.
fn ask(root: &Path, selections: &[Vec<String>]) -> Result<Vec<Selected>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut answers = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(words) = selections.get(at) else { return answers };
            answers.push((at, tree(root, words)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut answers: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    });
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn tree(root: &Path, words: &[String]) -> Result<Selected, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}"]).args(words);
    let out = cargo.output().map_err(|e| format!("cargo tree: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    Ok(read(&String::from_utf8_lossy(&out.stdout)))
}

/// Lines as `serde v1.0.229|default,std (*)`; packages of the workspace have their path behind the version.
fn read(text: &str) -> Selected {
    let mut selected = Selected::new();
    for (package, features) in text.lines().filter_map(|line| line.trim_end_matches(" (*)").split_once('|')) {
        let name = package.split(' ').take(2).collect::<Vec<_>>().join(" ");
        selected.entry(name).or_default().insert(features.to_owned());
    }
    selected
}

fn findings(whole: &Selected, selections: impl Iterator<Item = (String, Selected)>) -> Vec<String> {
    let mut differing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (label, selected) in selections {
        for (package, sets) in &selected {
            let known = whole.get(package);
            for set in sets.iter().filter(|set| known.is_none_or(|known| !known.contains(*set))) {
                let all = known.into_iter().flatten().cloned().collect::<Vec<_>>().join(" or ");
                let what = format!("{package} is built with [{set}], by the whole workspace with [{all}]");
                differing.entry(what).or_default().push(label.clone());
            }
        }
    }
    let line = |(what, labels): (String, Vec<String>)| {
        let more = if labels.len() > 1 { format!(" and {} more", labels.len() - 1) } else { String::new() };
        format!("{what}: cargo ... {}{more}; crates/testkit-features has to ask for the rest", labels[0])
    };
    differing.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(whole: &str, selection: &str, expect: &[&str]) {
        assert_eq!(findings(&read(whole), [("-p a".to_owned(), read(selection))].into_iter()), expect);
    }

    #[test]
    fn the_same_features_are_fine_and_a_host_may_have_others() {
        check(
            "a v0.1.0 (/w/a)|\nlibc v0.2.1|std\nlibc v0.2.1|default,std\n",
            "a v0.1.0 (/w/a)|\nlibc v0.2.1|std (*)\n",
            &[],
        );
    }

    #[test]
    fn fewer_features_are_a_finding() {
        check(
            "libc v0.2.1|default,std\n",
            "libc v0.2.1|std\n",
            &["libc v0.2.1 is built with [std], by the whole workspace with [default,std]: cargo ... -p a; \
               crates/testkit-features has to ask for the rest"],
        );
    }
}
