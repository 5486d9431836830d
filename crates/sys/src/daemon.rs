// SPDX-License-Identifier: BSD-2-Clause
//! Going into the background: the parent waits until the daemon says how its start went.

use std::io;
use std::os::fd::OwnedFd;

use nix::unistd::{ForkResult, fork, setsid};

const STARTED: u32 = 0x2246_988a;

/// The daemon's end: tells the waiting parent the outcome, once.
#[derive(Debug)]
pub struct Daemon(OwnedFd);

/// Forks. Only the child returns, in a session of its own with stdin on /dev/null; the parent exits when the child
/// reports: 0 for success, the reported status otherwise, 255 when the child ended without a word.
///
/// Call it while the process has one thread.
pub fn detach() -> io::Result<Daemon> {
    let (reader, writer) = crate::fd::pipe()?;
    // SAFETY: the process has one thread (contract), so the child may go on with ordinary code.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(reader);
            setsid()?;
            crate::fd::null_standard(0)?;
            Ok(Daemon(writer))
        }
        ForkResult::Parent { .. } => {
            drop(writer);
            let mut word = [0; 4];
            let status = match crate::fd::read(&reader, &mut word) {
                Ok(4) => match u32::from_ne_bytes(word) {
                    STARTED => 0,
                    0 => 255,
                    status => status as i32,
                },
                _ => 255,
            };
            std::process::exit(status);
        }
    }
}

impl Daemon {
    /// Reports the start's outcome (0 = fine) and lets go of the terminal: standard descriptors go to /dev/null.
    pub fn report(self, status: u32) -> io::Result<()> {
        for number in 0..3 {
            crate::fd::null_standard(number)?;
        }
        let word = if status == 0 { STARTED } else { status };
        crate::fd::write_all(&self.0, &word.to_ne_bytes())
    }
}
