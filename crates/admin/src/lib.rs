// SPDX-License-Identifier: BSD-2-Clause
//! A tool's way to a running manager: where its command line interface is, and an authenticated connection to it.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod connection;

use std::path::Path;
use std::time::Duration;

use cli::Status;

pub use connection::Connection;

/// Where a manager listens, and the file of its secret, as it tells in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Door {
    /// Any of them will do.
    pub addresses: Vec<String>,
    /// None: it wants none.
    pub secret: Option<String>,
}

impl Door {
    /// That of the manager in `workdir`; None: it has none, or there is no manager.
    pub fn of(workdir: &Path) -> Option<Door> {
        let addresses = shm::reader::manager_arg(workdir, "-T")?;
        let secret = shm::reader::manager_arg(workdir, "-S");
        Some(Door { addresses: addresses.lines().map(str::to_owned).collect(), secret })
    }

    /// A connection to the first address that takes one. `timeout`: how long a reply may take.
    ///
    /// # Errors
    /// What went wrong with each, a line for each cause.
    pub fn open(&self, timeout: Option<Duration>) -> Result<Connection, String> {
        let mut failures: Vec<String> = Vec::new();
        for address in &self.addresses {
            match Connection::open(address, self.secret.as_deref(), timeout) {
                Ok(connection) => return Ok(connection),
                Err(failure) if failures.contains(&failure) => {}
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() {
            Err("the server has no CLI address (-T)".to_owned())
        } else {
            Err(failures.join("\n"))
        }
    }
}

/// Whether a command did what it was asked for.
pub fn is_good(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Truncated)
}

/// The server's version, by the CLI's banner: `Lacquer 0.1.0 (varnish-7.1.1 revision 0123abcd)`, or a genuine varnishd's line.
pub fn version(banner: &str) -> Option<String> {
    let line = |is: fn(&str) -> bool| banner.lines().find(|line| is(line));
    let compatible = line(|text| text.contains(" revision "))?;
    Some(match line(|text| text.starts_with("Lacquer ")) {
        Some(own) => format!("{own} ({compatible})"),
        None => compatible.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_says_who_serves() {
        let genuine =
            "---\nVarnish Cache CLI 1.0\n---\nLinux,6.1,x86_64,-junix\nvarnish-7.1.1 revision 7cee1c\n\nType 'help'";
        assert_eq!(version(genuine).as_deref(), Some("varnish-7.1.1 revision 7cee1c"));
        let ours = genuine.replace("cee1c\n", "cee1c\nLacquer 0.1.0\n");
        assert_eq!(version(&ours).as_deref(), Some("Lacquer 0.1.0 (varnish-7.1.1 revision 7cee1c)"));
        assert_eq!(version(""), None);
    }
}
