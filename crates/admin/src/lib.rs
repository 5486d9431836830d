// SPDX-License-Identifier: BSD-2-Clause
//! A tool's way to a running manager: where its command line interface is, and an authenticated connection to it.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod connection;

use std::path::Path;

use cli::Status;

pub use connection::Connection;

/// The address on which a manager listens, and the file of its secret, as it tells in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// Any of them will do.
    pub addresses: Vec<String>,
    /// None: it wants none.
    pub secret: Option<String>,
}

impl Door {
    /// The door of the manager in `workdir`; None: it has none, or there is no manager.
    pub fn of(workdir: &Path) -> Option<Door> {
        let addresses = shm::reader::manager_arg(workdir, "-T")?;
        let secret = shm::reader::manager_arg(workdir, "-S");
        Some(Door { addresses: addresses.lines().map(str::to_owned).collect(), secret })
    }
}

/// True if a command did what it was asked for.
pub fn is_good(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Truncated)
}
