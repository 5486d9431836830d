// SPDX-License-Identifier: BSD-2-Clause
//! `--peers`: which second tier the workers are members of. The manager checks what is said and reads the secret, whose owner may be root.

use cli::handoff::FleetStart;
use fleet::FleetSettings;
use fleet::peers::PeerSettings;

use crate::certs::files::bytes_of;
use crate::fatal::errno_text;
use crate::jail::Jail;

const LONGEST: usize = 4096;

/// Reads what the option says, beside `--fleet`; `None`: there is no second tier. It is read again by a manager that is upgraded.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(spec: Option<&str>, fleet: Option<&str>, jail: &Jail) -> Result<Option<FleetStart>, String> {
    let Some(spec) = spec else { return Ok(None) };
    let mut settings = PeerSettings::parse(spec)?;
    if settings.is_of_fleet {
        let fleet = fleet.ok_or("fleet: the members are nodes of a fleet, and there is no --fleet")?;
        if FleetSettings::parse(fleet).is_ok_and(|fleet| fleet.address.is_none()) {
            return Err(
                "fleet: --fleet requires address=HOST:PORT, the address at which other members reach this node"
                    .to_owned(),
            );
        }
    }
    // A secret, from here on.
    jail.forbid_cores().map_err(|error| format!("can't disable core dumps: {}", errno_text(&error)))?;
    let bad = |reason: String| format!("{}: {reason}", settings.secret_file.display());
    let name = settings.secret_file.to_str().ok_or_else(|| bad("its name isn't text".to_owned()))?;
    let contents = jail.privileged(|| bytes_of(name, LONGEST)).map_err(bad)?.to_vec();
    let told = settings.secret_file.display().to_string();
    settings.provide(&contents).map_err(|reason| format!("{told}: {reason}"))?;
    Ok(Some(FleetStart { spec: spec.to_owned(), files: vec![("secret-file".to_owned(), contents)] }))
}
