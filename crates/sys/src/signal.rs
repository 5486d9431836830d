// SPDX-License-Identifier: BSD-2-Clause
//! Signals as readable events (signalfd), ignoring them. What a process dies of is [`crate::fault`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};

pub use libc::{
    SIGABRT, SIGBUS, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSEGV, SIGTERM, SIGUSR1, SIGXCPU,
};

/// Blocked signals, delivered through a descriptor that polls readable. Dropping it leaves them blocked.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks `numbers` for this thread (call it before there are others) and makes them readable.
    pub fn new(numbers: &[i32]) -> io::Result<Signals> {
        let mut set = SigSet::empty();
        for &number in numbers {
            set.add(Signal::try_from(number)?);
        }
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next signal's number, if one is waiting.
    pub fn take(&mut self) -> io::Result<Option<i32>> {
        Ok(self.0.read_signal()?.map(|info| info.ssi_signo as i32))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Ignores a signal from now on. Children inherit that over exec; `process::Spawn` resets it.
pub fn ignore(number: i32) -> io::Result<()> {
    set(number, SigHandler::SigIgn)
}

pub fn default(number: i32) -> io::Result<()> {
    set(number, SigHandler::SigDfl)
}

fn set(number: i32, handler: SigHandler) -> io::Result<()> {
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: neither SIG_IGN nor SIG_DFL runs code of ours in a handler.
    unsafe { sigaction(Signal::try_from(number)?, &action) }?;
    Ok(())
}

/// Unblocks every signal but `numbers` in this thread (a child that was exec'd inherits its parent's mask). Those stay as
/// they are.
pub fn unblock_all_but(numbers: &[i32]) -> io::Result<()> {
    let mut set = SigSet::all();
    for &number in numbers {
        set.remove(Signal::try_from(number)?);
    }
    set.thread_unblock()?;
    Ok(())
}

/// A signal's name as `SIGTERM`, or its number.
pub fn name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| number.to_string(), |s| s.as_str().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_read() {
        let mut signals = Signals::new(&[SIGUSR1]).unwrap();
        assert_eq!(signals.take().unwrap(), None);
        nix::sys::signal::raise(Signal::SIGUSR1).unwrap();
        assert_eq!(signals.take().unwrap(), Some(SIGUSR1));
        assert_eq!(name(SIGTERM), "SIGTERM");
    }
}
