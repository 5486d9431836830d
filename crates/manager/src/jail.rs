// SPDX-License-Identifier: BSD-2-Clause
//! -j: who the manager, the VCL checker and the worker are.
//!
//! Under the unix jail the manager keeps root as its real user but runs with the effective user of the jail; what needs
//! root (ports, files of others, killing the worker) goes through [`Jail::privileged`].

use std::cell::{Cell, OnceCell};
use std::io;

use sys::process::Credentials;
use sys::user::{self, UserAccount};

use crate::fatal::{Fatal, argument};
use crate::named;
use crate::report;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JailRole {
    Checker,
    Worker,
}

#[derive(Debug)]
pub enum Jail {
    /// Everything runs as who started it.
    None,
    /// Users of their own for manager and worker.
    Unix(Unix),
}

#[derive(Debug)]
pub struct Unix {
    manager: UserAccount,
    worker: UserAccount,
    /// All groups of the worker's user; asked for once, as who answers may be far away.
    worker_groups: OnceCell<Vec<u32>>,
    root_gid: u32,
    depth: Cell<u32>,
    forbids_cores: Cell<bool>,
}

const WORKER_USER: &str = "vcache";

fn manager_user() -> Option<UserAccount> {
    user::MANAGERS.into_iter().find_map(user::user)
}

/// The worker's user where -j names none. One that another package has left in its own group can't read what the manager lets its group read.
fn worker_user(usual: Option<UserAccount>, manager: &UserAccount) -> UserAccount {
    usual.filter(|usual| usual.gid == manager.gid).unwrap_or_else(|| manager.clone())
}

/// The linux jail of releases 7.6 and later is the unix jail, and huge pages besides.
fn linux_to_unix(words: &mut Vec<String>) -> Result<(), Fatal> {
    let is_of_pages = |word: &String| word.starts_with("transparent_hugepage=");
    for word in words.iter().filter(|word| is_of_pages(word)) {
        match &word["transparent_hugepage=".len()..] {
            "ignore" | "enable" | "disable" | "try-disable" => {}
            other => {
                return argument(format!(
                    "Linux jail: transparent_hugepage is ignore, enable, disable or try-disable, not '{other}'"
                ));
            }
        }
        report::stderr(&format!("-j linux: {word} has no effect here: the system's setting applies."));
    }
    words.retain(|word| !is_of_pages(word));
    words[0] = "unix".to_owned();
    Ok(())
}

impl Jail {
    /// Sets the jail up as -j says; without -j it's unix when we are root and the user exists, else none.
    /// The effective user changes at once.
    pub fn enter(arg: Option<&str>) -> Result<Jail, Fatal> {
        let jail = match arg {
            None if user::is_root() && manager_user().is_some() => Jail::default_of_root()?,
            None => Jail::None,
            Some("") => return argument("-j argument is empty"),
            Some(arg) => {
                let mut words = named::words(arg);
                if words[0] == "linux" {
                    linux_to_unix(&mut words)?;
                }
                match words[0].as_str() {
                    "unix" if !user::is_root() => return argument("Unix Jail: Must be root."),
                    "unix" if !user::lacks_to_change_users().is_empty() => {
                        let lacks = user::lacks_to_change_users().join(", ");
                        return argument(format!("Unix Jail: root lacks {lacks}; allow that, or use -j none."));
                    }
                    "unix" => Jail::unix(&words[1..])?,
                    "none" if words.len() > 1 => return argument("-jnone takes no arguments."),
                    "none" => Jail::None,
                    other => {
                        return argument(format!("Unknown jail method \"{other}\"\n\tThere are unix, linux and none."));
                    }
                }
            }
        };
        if let Jail::Unix(unix) = &jail {
            unix.lower();
        }
        Ok(jail)
    }

    /// A root that can't change users, as in a container that drops its capabilities, goes on as it is.
    fn default_of_root() -> Result<Jail, Fatal> {
        let lacks = user::lacks_to_change_users();
        if lacks.is_empty() {
            return Jail::unix(&[]);
        }
        let lacks = lacks.join(", ");
        report::stderr(&format!("Warning: no jail: root lacks {lacks}. All processes run as root."));
        Ok(Jail::None)
    }

    fn unix(words: &[String]) -> Result<Jail, Fatal> {
        let find = |name: &str| user::user(name).ok_or(Fatal::Argument(format!("Unix jail: {name} user not found.")));
        let (mut manager, mut worker) = (None, None);
        for word in words {
            match word.split_once('=') {
                Some(("user", name)) => manager = Some(find(name)?),
                Some(("workuser", name)) => worker = Some(find(name)?),
                Some(("ccgroup", name)) => {
                    // No C compiler runs here; the group only has to exist.
                    if user::group(name).is_none() {
                        return argument(format!("Unix jail: {name} group not found."));
                    }
                }
                _ => return argument(format!("Unix jail: unknown sub-argument '{word}'")),
            }
        }
        let manager = manager.or_else(manager_user).map_or_else(|| find(user::MANAGERS[0]), Ok)?;
        let worker = worker.unwrap_or_else(|| {
            let usual = user::user(WORKER_USER);
            let worker = worker_user(usual.clone(), &manager);
            if usual.is_some() && worker.uid == manager.uid {
                report::stderr(&format!(
                    "Warning: the worker runs as {0}, too: {WORKER_USER} isn't in its login group (usermod -g {0} {WORKER_USER}).",
                    manager.name
                ));
            }
            worker
        });
        if worker.gid != manager.gid {
            return argument(format!(
                "Unix jail: user {} and {} have different login groups",
                manager.name, worker.name
            ));
        }
        Ok(Jail::Unix(Unix {
            manager,
            worker,
            worker_groups: OnceCell::new(),
            root_gid: 0,
            depth: Cell::new(0),
            forbids_cores: Cell::new(false),
        }))
    }

    /// The user that reads files of VCL, where that isn't who started the program.
    pub fn reader(&self) -> Option<&str> {
        match self {
            Jail::None => None,
            Jail::Unix(unix) => Some(&unix.manager.name),
        }
    }

    /// `unix` or `none`, as in the banner.
    pub fn name(&self) -> &'static str {
        match self {
            Jail::None => "none",
            Jail::Unix(_) => "unix",
        }
    }

    /// There are keys: no core of this process from now on, whichever user it runs as.
    ///
    /// # Errors
    /// The system's.
    pub fn forbid_cores(&self) -> io::Result<()> {
        if let Jail::Unix(unix) = self {
            unix.forbids_cores.set(true);
        }
        sys::secret::forbid_core()
    }

    pub fn privileged<T>(&self, what: impl FnOnce() -> T) -> T {
        let Jail::Unix(unix) = self else { return what() };
        if unix.depth.get() == 0 {
            user::set_effective(0, unix.root_gid).expect("a process whose real user is root can become root");
            unix.forbid_cores_again();
        }
        unix.depth.set(unix.depth.get() + 1);
        let done = what();
        unix.depth.set(unix.depth.get() - 1);
        if unix.depth.get() == 0 {
            unix.lower();
        }
        done
    }

    /// Credentials that a child changes to before exec; `None`: it keeps ours.
    pub fn credentials(&self, role: JailRole) -> Option<Credentials> {
        let Jail::Unix(unix) = self else { return None };
        let (account, groups) = match role {
            JailRole::Checker => (&unix.manager, user::groups_of(&unix.manager)),
            JailRole::Worker => (&unix.worker, unix.worker_groups().to_vec()),
        };
        Some(Credentials { uid: account.uid, gid: account.gid, groups })
    }

    /// Owner (user, group) of directories that only the manager writes; None without a jail.
    pub fn manager_ids(&self) -> Option<(u32, u32)> {
        match self {
            Jail::None => None,
            Jail::Unix(unix) => Some((unix.manager.uid, unix.manager.gid)),
        }
    }

    pub fn worker_ids(&self) -> Option<(u32, u32)> {
        match self {
            Jail::None => None,
            Jail::Unix(unix) => Some((unix.worker.uid, unix.worker.gid)),
        }
    }
}

impl Unix {
    fn worker_groups(&self) -> &[u32] {
        self.worker_groups.get_or_init(|| user::groups_of(&self.worker))
    }

    fn lower(&self) {
        user::set_effective(self.manager.uid, self.manager.gid).expect("root can take any effective user");
        self.forbid_cores_again();
    }

    /// With another effective user the kernel may allow cores again, by fs.suid_dumpable.
    fn forbid_cores_again(&self) {
        if self.forbids_cores.get() {
            sys::secret::forbid_core().expect("what could be forbidden before can be forbidden again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arg: &str, text: &str) {
        match Jail::enter(Some(arg)) {
            Err(Fatal::Argument(said)) => assert!(said.contains(text), "{said}"),
            other => panic!("{arg}: {other:?}"),
        }
    }

    #[test]
    fn cores_stay_forbidden_when_the_user_changes() {
        let account = UserAccount {
            name: "me".into(),
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        };
        let jail = Jail::Unix(Unix {
            manager: account.clone(),
            worker: account,
            worker_groups: OnceCell::new(),
            root_gid: nix::unistd::getegid().as_raw(),
            depth: Cell::new(0),
            forbids_cores: Cell::new(false),
        });
        let is_dumpable = || nix::sys::prctl::get_dumpable().unwrap();
        if user::is_root() {
            jail.privileged(|| ());
            jail.forbid_cores().unwrap();
            // As the kernel may do by itself.
            sys::limits::set_dumpable(true).unwrap();
            jail.privileged(|| assert!(!is_dumpable()));
            assert!(!is_dumpable());
            sys::limits::set_dumpable(true).unwrap();
        }
    }

    #[test]
    fn a_worker_is_of_its_managers_group() {
        let account = |name: &str, uid, gid| UserAccount { name: name.into(), uid, gid };
        let (varnish, vcache) = (account("varnish", 101, 200), account("vcache", 102, 200));
        assert_eq!(worker_user(Some(vcache.clone()), &varnish), vcache);
        assert_eq!(worker_user(Some(account("vcache", 102, 300)), &varnish), varnish, "left by Vinyl Cache's package");
        assert_eq!(worker_user(None, &varnish), varnish);
    }

    #[test]
    fn bad_arguments_are_named() {
        refused("xyz", "Unknown jail method \"xyz\"\n\tThere are unix, linux and none.");
        refused("linux,transparent_hugepage=x", "ignore, enable, disable or try-disable, not 'x'");
        refused("none,a", "-jnone takes no arguments.");
        refused("", "-j argument is empty");
        if user::is_root() {
            refused("unix,bla=foo", "unknown sub-argument 'bla=foo'");
            refused("unix,user=///", "user not found");
            refused("linux,transparent_hugepage=disable,user=///", "user not found");
            refused("unix,ccgroup=///", "group not found");
        } else {
            refused("unix", "Must be root");
        }
    }
}
