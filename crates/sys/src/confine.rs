// SPDX-License-Identifier: BSD-2-Clause
//! AppArmor: a process that gives up rights of its own accord.

use std::fs;
use std::io;

/// File in which a thread asks to change its profile: since Linux 5.8 one of AppArmor's own, before that one that all
/// such modules share.
const OWN: &str = "/proc/self/attr/apparmor/current";
const SHARED: &str = "/proc/self/attr/current";
/// "Y" where the kernel has AppArmor and uses it.
const ENABLED: &str = "/sys/module/apparmor/parameters/enabled";

/// Goes over into the AppArmor profile `name`, for good. False: there is no AppArmor, or no such profile is loaded. It is the calling thread that
/// goes, and threads that it starts later go with it: call it before the first one.
///
/// # Errors
/// The kernel refuses: this process is in another profile, which doesn't allow it.
pub fn enter_profile(name: &str) -> io::Result<bool> {
    if fs::read(ENABLED).map_or(true, |value| !value.starts_with(b"Y")) {
        return Ok(false);
    }
    let file = if fs::exists(OWN)? { OWN } else { SHARED };
    match fs::write(file, format!("changeprofile {name}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        written => written.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_nobody_has_loaded_changes_nothing() {
        assert!(!enter_profile("lacquer-no-such-profile").unwrap_or(false));
    }
}
