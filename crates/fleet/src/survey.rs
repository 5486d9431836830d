// SPDX-License-Identifier: BSD-2-Clause
//! Settings of the log's server by which it may lose what it has acknowledged: read for operators, and never changed.

use std::time::Duration;

use base::clock;

use crate::{Connect, FleetSettings};

/// Longest time for one server.
const TIME: Duration = Duration::from_secs(3);

/// A setting of the log's server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFact {
    pub name: &'static str,
    /// The server's words. The error says why they couldn't be read, and which right is missing.
    pub value: Result<String, String>,
}

/// The settings of the first server that can be used, and its address.
///
/// # Errors
/// No server can be used: the reasons.
pub fn survey(connect: &dyn Connect, settings: &FleetSettings) -> Result<(String, Vec<ServerFact>), String> {
    let mut reasons = Vec::new();
    for server in &settings.servers {
        match connect.survey(server, clock::now() + TIME) {
            Ok(facts) => return Ok((server.to_string(), facts)),
            Err(fault) => reasons.push(format!("{server}: {fault}")),
        }
    }
    Err(reasons.join("; "))
}
