// SPDX-License-Identifier: BSD-2-Clause
//! `--fleet`: which fleet the workers belong to. The manager checks what is said and reads the files that it names, whose owner may be root;
//! it never speaks with the log's server.

use base::clock::Mono;
use cli::handoff::FleetStart;
use fleet::{FleetSettings, NodeRole};

use crate::certs::files::bytes_of;
use crate::companion::Companion;
use crate::fatal::errno_text;
use crate::jail::Jail;
use crate::options::ManagerOptions;
use crate::rollout::NodeTrial;

const LONGEST: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct FleetMembership {
    pub start: Option<FleetStart>,
    /// The second tier that workers are members of.
    pub peers: Option<FleetStart>,
    /// The agent for the fleet's roll-outs, if this node takes part.
    pub agent: Companion,
    pub trial: NodeTrial,
    /// The first worker waits until then for the group's program.
    pub wait_until: Option<Mono>,
}

impl FleetMembership {
    /// Reads what `--fleet` and `--peers` say.
    ///
    /// # Errors
    /// The fault, with the option.
    pub fn read(options: &ManagerOptions, jail: &Jail) -> Result<FleetMembership, String> {
        let fleet = options.fleet.as_deref();
        let start = read(fleet, jail).map_err(|reason| format!("--fleet {reason}"))?;
        let peers = crate::peers::read(options.peers.as_deref(), fleet, jail);
        let peers = peers.map_err(|reason| format!("--peers {reason}"))?;
        let (agent, trial) = (crate::rollout::agent(), NodeTrial::default());
        Ok(FleetMembership { start, peers, agent, trial, wait_until: None })
    }
}

/// Reads what the option says; `None`: there is no fleet. It is read again by a manager that is upgraded.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(spec: Option<&str>, jail: &Jail) -> Result<Option<FleetStart>, String> {
    let Some(spec) = spec else { return Ok(None) };
    let mut settings = FleetSettings::parse(spec)?;
    // Passwords and keys, from here on.
    if settings.password.is_some() || !settings.files.is_empty() {
        jail.forbid_cores().map_err(|error| format!("can't disable core dumps: {}", errno_text(&error)))?;
    }
    let mut start = FleetStart { spec: spec.to_owned(), files: Vec::new() };
    for (role, path) in settings.files.clone() {
        let bad = |reason: String| format!("{}: {reason}", path.display());
        let name_of_file = path.to_str().ok_or_else(|| bad("its name isn't text".to_owned()))?;
        let contents = jail.privileged(|| bytes_of(name_of_file, LONGEST)).map_err(bad)?;
        settings.provide(role, &contents).map_err(bad)?;
        let name = NodeRole::ALL.into_iter().find(|(_, known)| *known == role).map_or("", |(name, _)| name);
        start.files.push((name.to_owned(), contents.to_vec()));
    }
    // What a worker will make of it.
    fleet::connector(&settings)?;
    Ok(Some(start))
}
