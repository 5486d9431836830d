// SPDX-License-Identifier: BSD-2-Clause
//! Files beneath a directory, opened name by name so that no link leads out of it. Opening never waits: not for the writer
//! of a pipe, nor for a device.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    Read,
    /// Write it anew; it is made if it isn't there.
    Write,
    /// Write at its end; it is made if it isn't there.
    Append,
}

impl OpenFor {
    fn flags(self) -> OFlag {
        let flags = match self {
            OpenFor::Read => OFlag::O_RDONLY,
            OpenFor::Write => OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC,
            OpenFor::Append => OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_APPEND,
        };
        flags | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY
    }
}

/// Permissions of new files, less the umask.
fn mode() -> Mode {
    Mode::from_bits_truncate(0o666)
}

pub fn directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// Opens the file at these names beneath `root`, none of which is a link; without names `root` itself. A name is no path:
/// empty, `.`, `..` or with a slash in it is `InvalidInput`.
pub fn open_names(root: impl AsFd, names: &[&[u8]], want: OpenFor) -> io::Result<File> {
    let is_name = |name: &[u8]| !matches!(name, [] | [b'.'] | [b'.', b'.']) && !name.contains(&b'/');
    if !names.iter().all(|name| is_name(name)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let Some((last, directories)) = names.split_last() else {
        return Ok(openat(root, ".", OpenFor::Read.flags(), Mode::empty())?.into());
    };
    let mut at: Option<OwnedFd> = None;
    for name in directories {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let next = match &at {
            Some(at) => openat(at, *name, flags, Mode::empty()),
            None => openat(&root, *name, flags, Mode::empty()),
        };
        at = Some(next?);
    }
    let flags = want.flags() | OFlag::O_NOFOLLOW;
    Ok(match &at {
        Some(at) => openat(at, *last, flags, mode()),
        None => openat(&root, *last, flags, mode()),
    }?
    .into())
}

/// Opens the file at a path, wherever links lead.
pub fn open_path(path: &Path, want: OpenFor) -> io::Result<File> {
    Ok(open(path, want.flags(), mode())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    #[test]
    fn no_name_leads_out() {
        let top = std::env::temp_dir().join(format!("lacquer-beneath-{}", std::process::id()));
        fs::create_dir_all(top.join("root/a/b")).unwrap();
        fs::write(top.join("secret"), "no").unwrap();
        fs::write(top.join("root/a/b/c"), "yes").unwrap();
        symlink("../secret", top.join("root/out")).unwrap();
        symlink("..", top.join("root/up")).unwrap();
        symlink("c", top.join("root/a/b/link")).unwrap();
        let root = directory(&top.join("root")).unwrap();
        let read = |names: &[&str]| {
            let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
            let mut text = String::new();
            open_names(&root, &names, OpenFor::Read)?.read_to_string(&mut text)?;
            Ok::<_, io::Error>(text)
        };
        assert_eq!(read(&["a", "b", "c"]).unwrap(), "yes");
        for names in [
            &["out"][..],
            &["up", "secret"],
            &["a", "b", "link"],
            &["..", "secret"],
            &["a", "..", "..", "secret"],
            &["a/b"],
            &[""],
            &["a", "."],
            &["none"],
            &["a", "b", "c", "d"],
        ] {
            assert!(read(names).is_err(), "{names:?}");
        }
        assert!(open_names(&root, &[], OpenFor::Read).unwrap().metadata().unwrap().is_dir());
        let put = |want, text: &[u8]| open_names(&root, &[b"new"], want).unwrap().write_all(text).unwrap();
        put(OpenFor::Write, b"gone");
        put(OpenFor::Write, b"on");
        put(OpenFor::Append, b"e");
        assert_eq!(read(&["new"]).unwrap(), "one");
        assert!(open_names(&root, &[b"out"], OpenFor::Write).is_err());
        assert_eq!(fs::read(top.join("secret")).unwrap(), b"no");
        assert!(open_path(&top.join("root/out"), OpenFor::Read).is_ok());
        fs::remove_dir_all(&top).unwrap();
    }
}
