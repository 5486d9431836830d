// SPDX-License-Identifier: BSD-2-Clause
//! The server's name and version for the page.

use std::os::unix::fs::MetadataExt;

use crate::counters::WatchedCounters;
use crate::state::WatchShared;

/// The version of this program, and so of the server that has started it.
const OWN: &str = concat!("Lacquer ", env!("CARGO_PKG_VERSION"));

/// The name and version, such as `Lacquer 0.1.0 --compat 9`. The version is missing if the server was installed separately from this program: its
/// version can't be read from outside. Empty if no server runs.
pub fn name(shared: &WatchShared, manager: Option<(u64, u64)>, counters: &WatchedCounters<'_>) -> String {
    let Some((pid, _)) = manager else { return String::new() };
    let file = |path: &str| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let is_same_program = || file("/proc/self/exe").is_some_and(|own| file(&format!("/proc/{pid}/exe")) == Some(own));
    let is_ours = counters.main.contains_key("txn_busy");
    let name = match () {
        () if shared.options.is_child || is_same_program() => OWN,
        () if is_ours => "Lacquer",
        () if counters.main.is_empty() => "",
        () => "varnishd",
    };
    let compat = shm::reader::manager_arg(&shared.workdir, "--compat");
    compat.map_or_else(|| name.to_owned(), |compat| format!("{name} --compat {compat}"))
}
