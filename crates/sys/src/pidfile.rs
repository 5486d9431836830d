// SPDX-License-Identifier: BSD-2-Clause
//! Pid files: decimal pid without a newline, locked as long as the owner lives.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// An open, locked pid file. The lock goes with the value (or the process).
#[derive(Debug)]
pub struct PidFile {
    file: Flock<File>,
    path: PathBuf,
}

#[derive(Debug)]
pub enum PidFileError {
    /// Another process holds it; its pid if the file shows one.
    Running(Option<i32>),
    Io(io::Error),
}

impl PidFile {
    /// Opens (creates) and locks the file; nothing is written yet. `flags` are further ones of open(2).
    pub fn open(path: &Path, mode: u32, flags: i32) -> Result<PidFile, PidFileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(mode).custom_flags(flags);
        let file = options.open(path).map_err(PidFileError::Io)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(PidFile { file, path: path.to_path_buf() }),
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                Err(PidFileError::Running(text.trim().parse().ok()))
            }
            Err((_, errno)) => Err(PidFileError::Io(errno.into())),
        }
    }

    /// One that this process opened before it ran this program, still locked.
    pub fn resume(file: OwnedFd, path: &Path) -> io::Result<PidFile> {
        let file = Flock::lock(File::from(file), FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)?;
        Ok(PidFile { file, path: path.to_path_buf() })
    }

    pub fn write(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(std::process::id().to_string().as_bytes())
    }

    /// Removes the file, if the path still names ours, and unlocks.
    pub fn remove(self) {
        let same = match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
            _ => false,
        };
        if same {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for PidFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens another process's pid file. A link or a pipe that somebody put there is neither followed nor waited for.
fn open_foreign(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// The pid in a pid file.
///
/// # Errors
/// The file can't be read, or holds no pid.
pub fn read(path: &Path) -> io::Result<u32> {
    let mut text = String::new();
    open_foreign(path)?.take(16).read_to_string(&mut text)?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// True if a process holds the lock of a pid file, in whatever container it runs. Ask only where the owner seems dead:
/// for a moment the lock is ours when nobody has it, and a server that starts just then finds it taken.
///
/// # Errors
/// The file can't be opened.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    match Flock::lock(open_foreign(path)?, FlockArg::LockSharedNonblock) {
        Ok(_) => Ok(false),
        Err((_, Errno::EWOULDBLOCK)) => Ok(true),
        Err((_, errno)) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_told_the_first_ones_pid() {
        let path = std::env::temp_dir().join(format!("lacquer-pidfile-{}", std::process::id()));
        let mut first = PidFile::open(&path, 0o644, 0).unwrap();
        first.write().unwrap();
        match PidFile::open(&path, 0o644, 0) {
            Err(PidFileError::Running(Some(pid))) => assert_eq!(pid as u32, std::process::id()),
            other => panic!("{other:?}"),
        }
        assert!(read(&path).unwrap() == std::process::id() && is_locked(&path).unwrap());
        first.remove();
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_owner_left_is_not_locked_and_links_are_not_followed() {
        let path = std::env::temp_dir().join(format!("lacquer-pidfile-left-{}", std::process::id()));
        std::fs::write(&path, "4711").unwrap();
        assert!(read(&path).unwrap() == 4711 && !is_locked(&path).unwrap());
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link).is_err() && is_locked(&link).is_err());
        std::fs::write(&path, "no pid").unwrap();
        assert!(read(&path).is_err());
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
