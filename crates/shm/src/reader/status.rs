// SPDX-License-Identifier: BSD-2-Clause
//! Who runs in a workdir, and small texts the manager publishes there.

use std::path::Path;

use super::{index, index_head, index_text, load_text};
use crate::vsm::SetOwner;

/// Processes of a workdir. A change of a head means another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkdirStatus {
    /// The manager's pid and birth, while it runs.
    pub manager: Option<(u64, u64)>,
    /// The worker's, while both run.
    pub worker: Option<(u64, u64)>,
}

/// Looks who runs in `workdir` now.
pub fn status(workdir: &Path) -> WorkdirStatus {
    let head = |home: SetOwner| index_head(&index_text(&workdir.join(home.dir_name())));
    let manager = head(SetOwner::Manager);
    WorkdirStatus { manager, worker: manager.and_then(|_| head(SetOwner::Worker)) }
}

/// The text of a segment of class `Arg` in the manager's set (`-T`: its CLI addresses, `-S`: its secret file), up to
/// its NUL.
pub fn manager_arg(workdir: &Path, ident: &str) -> Option<String> {
    let dir = workdir.join(SetOwner::Manager.dir_name());
    let lines = index(&index_text(&dir))?;
    let line = lines.iter().find(|line| line.class == "Arg" && line.ident == ident)?;
    load_text(&dir, line)
}
