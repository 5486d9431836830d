// SPDX-License-Identifier: BSD-2-Clause
//! A terminal whose keys are kept as they are typed, between the times that a line editor has it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

/// A terminal without echo and line editing of its own. Dropping it gives all back.
#[derive(Debug)]
pub struct RawTerminal<'a> {
    fd: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> RawTerminal<'a> {
    /// Takes the terminal. Output and the keys for signals stay as they are.
    ///
    /// # Errors
    /// It is none.
    pub fn new(fd: BorrowedFd<'a>) -> io::Result<RawTerminal<'a>> {
        let before = tcgetattr(fd.as_fd())?;
        let mut wanted = before.clone();
        wanted.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        wanted.input_flags.remove(InputFlags::ICRNL);
        tcsetattr(fd.as_fd(), SetArg::TCSADRAIN, &wanted)?;
        Ok(RawTerminal { fd, before })
    }
}

impl Drop for RawTerminal<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.fd, SetArg::TCSADRAIN, &self.before);
    }
}
