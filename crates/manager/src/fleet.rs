// SPDX-License-Identifier: BSD-2-Clause
//! `--fleet`: which fleet the workers belong to. The manager checks what is said and reads the files that it names, whose owner may be root;
//! it never speaks with the log's server.

use cli::handoff::FleetStart;
use fleet::{FleetSettings, NodeRole};

use crate::certs::files::bytes_of;
use crate::fatal::errno_text;
use crate::jail::Jail;

const LONGEST: usize = 1 << 20;

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
