// SPDX-License-Identifier: BSD-2-Clause
//! Descriptors: inheritance, pipes, socket pairs, nonblocking mode.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FallocateFlags, FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// Takes possession of a descriptor that this process inherited at exec, by its number, and marks it close-on-exec.
///
/// Call it once for each number: a second owner would close a descriptor under the first one. It is an error (EBADF)
/// when no such descriptor is open; 0, 1 and 2 are refused.
pub fn inherit(raw: RawFd) -> io::Result<OwnedFd> {
    if raw < 3 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: fcntl on any number is defined; a number that isn't open gives EBADF.
    if unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is open (checked above); by the contract of this function nobody else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// A flag of open(2): fails where the name is a link.
pub const NO_LINK: i32 = libc::O_NOFOLLOW;
/// A flag of open(2): fails where the name is no directory.
pub const DIRECTORY: i32 = libc::O_DIRECTORY;

/// A duplicate of a descriptor that this process inherited at exec, by its number; the original stays as it is.
pub fn duplicate_inherited(raw: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl on any number is defined; a number that isn't open gives EBADF.
    let copy = unsafe { libc::fcntl(raw, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: F_DUPFD_CLOEXEC has just made this descriptor; nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Sets whether a descriptor, known by its number, survives exec.
pub fn set_number_inheritable(raw: RawFd, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: fcntl on any number is defined; a number that isn't open gives EBADF.
    match unsafe { libc::fcntl(raw, libc::F_SETFD, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn set_inheritable(fd: impl AsFd, inheritable: bool) -> io::Result<()> {
    let flag = if inheritable { FdFlag::empty() } else { FdFlag::FD_CLOEXEC };
    fcntl(fd, FcntlArg::F_SETFD(flag))?;
    Ok(())
}

/// An empty file in memory, close-on-exec: gone when nobody has it open or mapped any more. `name` is what /proc shows.
pub fn memfd(name: &str) -> io::Result<File> {
    Ok(memfd_create(CString::new(name)?.as_c_str(), MFdFlags::MFD_CLOEXEC)?.into())
}

/// Offset of the file's next bytes, from `at` on, past its holes; `None`: there are none.
pub fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    let at = i64::try_from(at).map_err(|_| io::ErrorKind::FileTooLarge)?;
    match nix::unistd::lseek(file, at, nix::unistd::Whence::SeekData) {
        Ok(data) => Ok(u64::try_from(data).ok()),
        Err(nix::errno::Errno::ENXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file at least `len` bytes long, with room on the disk for all of them.
pub fn allocate(fd: impl AsFd, len: u64) -> io::Result<()> {
    let len = i64::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    Ok(nix::fcntl::posix_fallocate(fd.as_fd(), 0, len)?)
}

/// Makes a hole into a file: what was there reads as zeros, and its room is given back. The file stays as long as it is.
pub fn punch(fd: impl AsFd, at: u64, len: u64) -> io::Result<()> {
    let [at, len] = [at, len].map(|n| i64::try_from(n).map_err(|_| io::ErrorKind::FileTooLarge));
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    Ok(nix::fcntl::fallocate(fd.as_fd(), flags, at?, len?)?)
}

/// Switches nonblocking mode of the open file description (shared with whoever inherited it).
pub fn set_nonblocking(fd: impl AsFd, on: bool) -> io::Result<()> {
    let fd = fd.as_fd();
    let mut flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_NONBLOCK, on);
    fcntl(fd, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// A duplicate with close-on-exec set, numbered 3 or above.
pub fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    let raw = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: F_DUPFD_CLOEXEC has just made this descriptor; nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// A connected pair of stream sockets, close-on-exec.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?)
}

/// A pipe (read end, write end), close-on-exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(OFlag::O_CLOEXEC)?)
}

/// Reads what is there into `buf`: 0 is end of file. Interrupted calls are repeated.
pub fn read(fd: impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::read(fd.as_fd(), buf) {
            Err(nix::Error::EINTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Writes what fits. Interrupted calls are repeated.
pub fn write(fd: impl AsFd, buf: &[u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::write(fd.as_fd(), buf) {
            Err(nix::Error::EINTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Writes everything, waiting when the descriptor is nonblocking and full.
pub fn write_all(fd: impl AsFd, mut buf: &[u8]) -> io::Result<()> {
    let fd = fd.as_fd();
    while !buf.is_empty() {
        match write(fd, buf) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => buf = &buf[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                wait(fd, Interest::Write, None)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, a connection, or end of file.
    Read,
    Write,
}

/// Waits until the descriptor is ready, hung up or in error; false when `timeout` passed first.
#[expect(clippy::disallowed_methods, reason = "poll(2) waits by the machine's clock")]
pub fn wait(fd: impl AsFd, want: Interest, timeout: Option<std::time::Duration>) -> io::Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let flags = match want {
        Interest::Read => PollFlags::POLLIN,
        Interest::Write => PollFlags::POLLOUT,
    };
    let deadline = timeout.map(|t| std::time::Instant::now() + t);
    loop {
        let left = match deadline {
            None => PollTimeout::NONE,
            Some(at) => {
                let left = at.saturating_duration_since(std::time::Instant::now());
                PollTimeout::try_from(left.as_millis().min(i32::MAX as u128) as i32).unwrap_or(PollTimeout::MAX)
            }
        };
        match poll(&mut [PollFd::new(fd.as_fd(), flags)], left) {
            Err(nix::Error::EINTR) => {}
            done => return Ok(done? > 0),
        }
    }
}

/// The same file once more, with a position and locks of its own.
///
/// # Errors
/// The system's.
pub fn reopen(file: &File) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// True if the other end is gone: a terminal that was closed, a pipe without a reader.
///
/// # Errors
/// The descriptor can't be polled.
pub fn is_hung_up(fd: impl AsFd) -> io::Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled = [PollFd::new(fd.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO)?;
    Ok(polled[0].revents().is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)))
}

/// True if the other end of a socket says nothing any more: it is gone, or has stopped writing.
///
/// # Errors
/// The descriptor can't be polled.
pub fn is_silent(fd: impl AsFd) -> io::Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let ends = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
    let mut polled = [PollFd::new(fd.as_fd(), ends)];
    poll(&mut polled, PollTimeout::ZERO)?;
    let all = ends | PollFlags::POLLHUP | PollFlags::POLLERR;
    // `None`: there are flags that have no name there, and this one has none.
    Ok(polled[0].revents().is_none_or(|events| events.intersects(all)))
}

/// Says nothing more on a socket: the other end reads what there is and then its end.
///
/// # Errors
/// The system's.
pub fn stop_writing(fd: impl AsFd) -> io::Result<()> {
    use nix::sys::socket::{Shutdown, shutdown};
    Ok(shutdown(fd.as_fd().as_raw_fd(), Shutdown::Write)?)
}

/// Closes every descriptor from `first` on that isn't close-on-exec safe to keep: all of them. For the very start of a
/// program, before anything was opened.
pub fn close_from(first: RawFd) {
    assert!(first >= 3, "standard descriptors are not closed here");
    // SAFETY: close_range touches only the descriptor table; the caller runs this before it owns a descriptor in the range.
    let rc = unsafe { libc::syscall(libc::SYS_close_range, first as u32, u32::MAX, 0u32) };
    if rc != 0 {
        for raw in first..4096 {
            // SAFETY: as above; numbers that aren't open give EBADF.
            unsafe { libc::close(raw) };
        }
    }
}

pub fn replace_standard(number: RawFd, to: impl AsFd) -> io::Result<()> {
    assert!((0..3).contains(&number), "only standard descriptors are replaced");
    // SAFETY: dup2 onto a standard descriptor; std never closes these and tolerates what they refer to.
    if unsafe { libc::dup2(to.as_fd().as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub fn null_standard(number: RawFd) -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    replace_standard(number, null.as_fd())
}

/// The standard descriptors, borrowed for the life of the process.
pub fn standard(number: RawFd) -> BorrowedFd<'static> {
    assert!((0..3).contains(&number), "only standard descriptors are lent");
    // SAFETY: std opens missing standard descriptors before main, and nothing in this program closes them.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Waits until at least one of the descriptors is ready (or hung up, or in error) and says which; all false when
/// `timeout` passed first.
pub fn wait_any(wants: &[(BorrowedFd<'_>, Interest)], timeout: Option<std::time::Duration>) -> io::Result<Vec<bool>> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds: Vec<PollFd<'_>> = wants
        .iter()
        .map(|(fd, want)| {
            PollFd::new(*fd, if *want == Interest::Read { PollFlags::POLLIN } else { PollFlags::POLLOUT })
        })
        .collect();
    // Rounded up, so that a timer is due when its time has passed.
    let timeout = match timeout {
        None => PollTimeout::NONE,
        Some(t) => {
            PollTimeout::try_from(t.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32).unwrap_or(PollTimeout::MAX)
        }
    };
    match poll(&mut fds, timeout) {
        Ok(_) => Ok(fds.iter().map(|fd| fd.revents().is_some_and(|r| !r.is_empty())).collect()),
        Err(nix::Error::EINTR) => Ok(vec![false; wants.len()]),
        Err(e) => Err(e.into()),
    }
}
