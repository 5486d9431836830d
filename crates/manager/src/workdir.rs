// SPDX-License-Identifier: BSD-2-Clause
//! -n: the working directory, which is also the current directory of manager and worker.
//!
//! Both reach all in it from there ([`HERE`]), never by its path: the directories above may be closed to the users that
//! they run as, or be closed or renamed while they run.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use sys::user;

use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;

/// The working directory, to whoever is in it.
pub const HERE: &str = ".";

pub const SECRET: &str = "_.secret";

/// A private directory for -C without -n; its owner removes it.
pub fn temporary() -> Result<PathBuf, Fatal> {
    let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    for attempt in 0..100u32 {
        let path = base.join(format!("varnishd_C_{}_{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o750).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return argument(format!("Cannot create working directory '{}': {}", path.display(), errno_text(&e)));
            }
        }
    }
    argument(format!("Cannot create a directory in '{}'", base.display()))
}

/// Makes the directory (its parent must exist), enters it and sees whether files can be made there.
pub fn enter(path: &Path, jail: &Jail) -> Result<(), Fatal> {
    jail.privileged(|| {
        make_dir(path, 0o755).or_else(|e| {
            argument(format!("Cannot create working directory '{}': {}", path.display(), errno_text(&e)))
        })?;
        std::env::set_current_dir(path).or_else(|e| {
            argument(format!("Cannot change to working directory '{}': {}", path.display(), errno_text(&e)))
        })?;
        if let Some((_, gid)) = jail.manager_ids() {
            let here = Path::new(HERE);
            let _ = user::chown(here, None, Some(gid)).and_then(|()| let_group_enter(here));
        }
        let test = Path::new("_.testfile");
        // One that a former start could not remove.
        let _ = fs::remove_file(test);
        let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(test);
        if let Err(e) = made {
            return argument(format!(
                "Cannot create test-file in {} ({})\nCheck permissions (or delete old directory)",
                path.display(),
                errno_text(&e)
            ));
        }
        let _ = fs::remove_file(test);
        Ok(())
    })
}

/// Warning for a working directory on a disk: the log's memory is a file there, which the system writes out every now
/// and then.
pub fn disk_warning(path: &Path) -> Option<String> {
    (!sys::disk::is_in_memory(Path::new(HERE)).ok()?).then(|| {
        format!(
            "{} is on a disk, to which the log's memory is written again and again: better have a tmpfs there",
            path.display()
        )
    })
}

/// A directory that was there, or was made under a narrow umask, may be closed to the users of the jail.
fn let_group_enter(path: &Path) -> io::Result<()> {
    const GROUP: u32 = 0o050;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & GROUP == GROUP {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() | GROUP);
    fs::set_permissions(path, permissions)
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

pub fn make_subdir(path: &Path, jail: &Jail) -> io::Result<()> {
    jail.privileged(|| {
        make_dir(path, 0o755)?;
        // By its descriptor: in a directory of another user's its name may be a link to somewhere else.
        let dir = OpenOptions::new().read(true).custom_flags(sys::fd::NO_LINK | sys::fd::DIRECTORY).open(path)?;
        // Whatever the umask: the worker is another user.
        dir.set_permissions(fs::Permissions::from_mode(0o755))?;
        match jail.manager_ids() {
            Some((uid, gid)) => fchown(&dir, Some(uid), Some(gid)),
            None => Ok(()),
        }
    })
}

/// Makes a directory (mode 0750) that belongs to the worker's user. It gets its name when it's complete, as readers
/// look at it again when its mode changes.
pub fn make_worker_dir(path: &Path, jail: &Jail) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let _ = fs::remove_dir_all(&fresh);
    DirBuilder::new().mode(0o750).create(&fresh)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o750))?;
    if let Some((uid, gid)) = jail.worker_ids() {
        user::chown(&fresh, Some(uid), Some(gid))?;
    }
    fs::rename(&fresh, path)
}

/// Writes a file that our group may read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o640))?;
    file.write_all(bytes)
}

pub fn remove_tree(path: &Path, jail: &Jail) {
    let _ = jail.privileged(|| fs::remove_dir_all(path));
}

/// Writes a new secret of 256 random bytes (mode 0640) and returns its path.
pub fn make_secret(dir: &Path, jail: &Jail) -> Result<PathBuf, Fatal> {
    let path = dir.join(SECRET);
    let write = || -> io::Result<()> {
        let mut secret = [0; 256];
        io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut secret)?;
        // The name may be another user's link to a file of root's.
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path)?;
        file.write_all(&secret).inspect_err(|_| _ = fs::remove_file(&path))
    };
    match jail.privileged(write) {
        Ok(()) => Ok(path),
        Err(e) => argument(format!("Cannot create secret-file in {} ({})", dir.display(), errno_text(&e))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_were_there_before_are_not_followed() {
        let dir = std::env::temp_dir().join(format!("workdir-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (victim, closed) = (dir.join("victim"), dir.join("closed"));
        fs::write(&victim, "of somebody else's").unwrap();
        DirBuilder::new().mode(0o700).create(&closed).unwrap();
        let jail = Jail::enter(Some("none")).unwrap_or_else(|_| panic!("no jail at all is always there"));
        std::os::unix::fs::symlink(&victim, dir.join(SECRET)).unwrap();
        let secret = make_secret(&dir, &jail).unwrap_or_else(|_| panic!("a secret"));
        assert_eq!(fs::read(&victim).unwrap(), b"of somebody else's");
        assert_eq!(fs::symlink_metadata(&secret).unwrap().len(), 256);
        let link = dir.join("vmod_cache");
        std::os::unix::fs::symlink(&closed, &link).unwrap();
        assert!(make_subdir(&link, &jail).is_err());
        assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir_all(&dir).unwrap();
    }
}
