// SPDX-License-Identifier: BSD-2-Clause
//! The server's name and version, as the page shows them beside the logo.

use std::os::unix::fs::MetadataExt;

use crate::counters::Counters;
use crate::state::Shared;

/// This program's, and so that of the server that has started it.
const OWN: &str = concat!("Lacquer ", env!("CARGO_PKG_VERSION"));

/// `Lacquer 0.1.0`; without a version where only its kind is known: a server that was installed apart from this program doesn't write its
/// version where tools could read it. Empty: no server runs.
pub fn name(shared: &Shared, manager: Option<(u64, u64)>, counters: &Counters<'_>) -> String {
    let Some((pid, _)) = manager else { return String::new() };
    let file = |path: &str| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let is_same_program = || file("/proc/self/exe").is_some_and(|own| file(&format!("/proc/{pid}/exe")) == Some(own));
    let is_ours = counters.main.contains_key("txn_busy");
    match () {
        () if shared.options.is_child || is_same_program() => OWN,
        () if is_ours => "Lacquer",
        () if counters.main.is_empty() => "",
        () => "varnishd",
    }
    .to_owned()
}
