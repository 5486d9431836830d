// SPDX-License-Identifier: BSD-2-Clause
//! Users, groups and the credentials of this process.

use std::io;

use nix::unistd::{Gid, Group, Uid, User};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccount {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

pub const MANAGERS: [&str; 2] = ["varnish", "vinyl"];

pub fn user(name: &str) -> Option<UserAccount> {
    let user = User::from_name(name).ok()??;
    Some(UserAccount { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() })
}

pub fn user_by_id(uid: u32) -> Option<UserAccount> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    Some(UserAccount { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() })
}

pub fn group(name: &str) -> Option<u32> {
    Some(Group::from_name(name).ok()??.gid.as_raw())
}

pub fn effective() -> u32 {
    nix::unistd::geteuid().as_raw()
}

pub fn is_root() -> bool {
    nix::unistd::getuid().is_root()
}

/// Capabilities that root needs to give processes users of their own, and to end them.
const TO_CHANGE_USERS: [(u32, &str); 5] =
    [(0, "CAP_CHOWN"), (1, "CAP_DAC_OVERRIDE"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID")];

/// The capabilities for changing users that this process lacks; none as a rule for root, outside of containers.
pub fn lacks_to_change_users() -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    // Without /proc nothing is known: the attempt will show it.
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(u64::MAX);
    TO_CHANGE_USERS.iter().filter(|(bit, _)| effective & (1 << bit) == 0).map(|(_, name)| *name).collect()
}

pub fn own_groups() -> io::Result<Vec<u32>> {
    Ok(nix::unistd::getgroups()?.into_iter().map(Gid::as_raw).collect())
}

/// Sets the effective user and group, keeping real and saved ids: the way back to root stays open.
/// To become root again pass (0, 0).
pub fn set_effective(uid: u32, gid: u32) -> io::Result<()> {
    // Root first, or the group can't be changed; the user last, for the same reason.
    if !nix::unistd::geteuid().is_root() {
        nix::unistd::seteuid(Uid::from_raw(0))?;
    }
    nix::unistd::setegid(Gid::from_raw(gid))?;
    nix::unistd::seteuid(Uid::from_raw(uid))?;
    Ok(())
}

pub fn chown(path: &std::path::Path, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    Ok(nix::unistd::chown(path, uid.map(Uid::from_raw), gid.map(Gid::from_raw))?)
}

/// Every group that a user belongs to, its primary group included.
pub fn groups_of(account: &UserAccount) -> Vec<u32> {
    let Ok(name) = std::ffi::CString::new(account.name.as_str()) else { return vec![account.gid] };
    match nix::unistd::getgrouplist(&name, Gid::from_raw(account.gid)) {
        Ok(groups) => groups.into_iter().map(Gid::as_raw).collect(),
        Err(_) => vec![account.gid],
    }
}

pub fn group_name(gid: u32) -> Option<String> {
    Some(Group::from_gid(Gid::from_raw(gid)).ok()??.name)
}
