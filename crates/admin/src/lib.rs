// SPDX-License-Identifier: BSD-2-Clause
//! A tool's way to a running manager: where its command line interface is, and an authenticated connection to it.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod connection;

use std::path::Path;
use std::time::Duration;

use cli::{CliReply, CliStatus};

pub use connection::AdminConnection;

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

    /// A connection to the first address that takes one. `timeout`: how long a reply may take.
    ///
    /// # Errors
    /// No address takes a connection: a line for each cause.
    pub fn open(&self, timeout: Option<Duration>) -> Result<AdminConnection, String> {
        let mut failures: Vec<String> = Vec::new();
        for address in &self.addresses {
            match AdminConnection::open(address, self.secret.as_deref(), timeout) {
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

pub fn is_good(status: CliStatus) -> bool {
    matches!(status, CliStatus::Ok | CliStatus::Truncated)
}

const NO_WORKER: &str = "Unknown request in manager process";

/// The text of a refusal for the users of a tool that asks with a command of its own: they have typed none, so "Unknown
/// request" tells them nothing.
pub fn refusal(reply: &CliReply) -> String {
    let text = reply.text();
    let text = text.trim_end();
    match reply.status {
        // Lacquer's says more behind the two lines that Varnish's has, too.
        CliStatus::Unknown if text.starts_with(NO_WORKER) => match text.lines().nth(2) {
            Some(_) => text.lines().skip(2).collect::<Vec<_>>().join("\n"),
            None => "The server's worker isn't running. To start it, type: varnishadm start".to_owned(),
        },
        CliStatus::Unknown => {
            "The server doesn't know this command: it is Varnish's varnishd, or an older Lacquer".to_owned()
        }
        _ => text.to_owned(),
    }
}

/// Name and version of the server whose banner this is: `Lacquer 0.1.0 (varnish-7.1.1 revision ...)`, or the parentheses' text alone where
/// it is Varnish's own. `None`: the banner has no line of a version.
pub fn version_in_banner(banner: &str) -> Option<String> {
    let compatible = banner.lines().find(|line| line.contains(" revision "))?;
    let own = banner.lines().find(|line| line.starts_with("Lacquer "));
    Some(own.map_or_else(|| compatible.to_owned(), |own| format!("{own} ({compatible})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_type() {
        let said = |text: &str| refusal(&CliReply::new(CliStatus::Unknown, text));
        let alone = format!("{NO_WORKER} (child not running).\nType 'help' for more info.");
        assert!(said(&alone).ends_with("isn't running. To start it, type: varnishadm start"));
        assert_eq!(said(&format!("{alone}\nIt died.\n")), "It died.");
        assert!(said("Unknown request.\nType 'help' for more info.\n").contains("it is Varnish's varnishd"));
        assert_eq!(refusal(&CliReply::cant("No VCL is in use.\n")), "No VCL is in use.");
    }

    #[test]
    fn a_banner_names_the_server() {
        let rule = "-----------------------------\n";
        let banner = format!("{rule}Varnish Cache CLI 1.0\n{rule}Linux,6.1\nvarnish-7.1.1 revision 0\n");
        assert_eq!(version_in_banner(&banner).as_deref(), Some("varnish-7.1.1 revision 0"));
        let ours = format!("{banner}Lacquer 0.1.0\nType 'help' for command list.\n");
        assert_eq!(version_in_banner(&ours).as_deref(), Some("Lacquer 0.1.0 (varnish-7.1.1 revision 0)"));
        assert_eq!(version_in_banner("no banner"), None);
    }
}
