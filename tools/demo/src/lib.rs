// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer demo`: a built-in origin behind the cache, and once a second what the cache does.

use std::process::ExitCode;

/// Runs the demo until SIGINT or SIGTERM; `args` are the words after `lacquer demo`.
///
/// Starts the origin on a free port, the cache in front of it as a child of this process, and prints where both listen.
/// Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String]) -> ExitCode {
    let _ = args;
    todo!()
}
