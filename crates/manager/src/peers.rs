// SPDX-License-Identifier: BSD-2-Clause
//! `--peers`: which second tier the workers are members of. The manager checks what is said and reads the secret, whose owner may be root.

use cli::handoff::FleetStart;
use fleet::peers::PeerSettings;

use crate::certs::files::bytes_of;
use crate::fatal::errno_text;
use crate::jail::Jail;

/// The longest secret.
const LONGEST: usize = 4096;

/// Reads what the option says; `None`: there is no second tier. It is read again by a manager that is upgraded.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(spec: Option<&str>, jail: &Jail) -> Result<Option<FleetStart>, String> {
    let Some(spec) = spec else { return Ok(None) };
    let mut settings = PeerSettings::parse(spec)?;
    // A secret, from here on.
    jail.forbid_cores().map_err(|error| format!("cores can't be forbidden: {}", errno_text(&error)))?;
    let bad = |reason: String| format!("{}: {reason}", settings.secret_file.display());
    let name = settings.secret_file.to_str().ok_or_else(|| bad("its name isn't text".to_owned()))?;
    let contents = jail.privileged(|| bytes_of(name, LONGEST)).map_err(bad)?.to_vec();
    let told = settings.secret_file.display().to_string();
    settings.provide(&contents).map_err(|reason| format!("{told}: {reason}"))?;
    Ok(Some(FleetStart { spec: spec.to_owned(), files: vec![("secret-file".to_owned(), contents)] }))
}
