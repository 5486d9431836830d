// SPDX-License-Identifier: BSD-2-Clause
//! Sentinels: threads that do nothing, and tell by their end that their process ends.
//!
//! Of a process that is killed the system takes the memory back first, then it closes the descriptors, and only then does the
//! parent hear of the end: with gigabytes that is 50 ms and more after the last instruction. But threads end one by
//! one, and what a thread has alone goes with it at once. So a sentinel has a table of descriptors of its own with nothing in it
//! but the write end of a pipe: the pipe hangs up when the thread ends. The last thread to end is the one that gives the
//! memory back, hence two sentinels: at least one of them is in time.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc;

use nix::sys::signal::SigSet;

/// Number of sentinels needed for one to be in time.
pub const COUNT: usize = 2;

/// Bytes of a sentinel's stack: it calls nothing deep.
const STACK_BYTES: usize = 64 << 10;

/// Starts one: from now on this process has `pipe` open in that thread alone.
///
/// # Errors
/// No thread, or a system without close_range(2). The pipe hangs up then.
pub fn start(pipe: OwnedFd) -> io::Result<()> {
    let number = pipe.as_raw_fd();
    let (report, reported) = mpsc::channel();
    let thread = std::thread::Builder::new().name("lacquer-sentinel".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        // No signal is for this thread: whoever handles one is another.
        let alone = SigSet::all().thread_block().map_err(io::Error::from).and_then(|()| keep_only(number));
        let is_alone = alone.is_ok();
        let _ = report.send(alone);
        drop(report);
        if is_alone {
            wait_for_end();
        }
    })?;
    // Kept open until the thread has a table of its own.
    let done = reported.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    drop(pipe);
    done
}

fn wait_for_end() -> ! {
    loop {
        nix::unistd::pause();
    }
}

/// Gives this thread a table of descriptors of its own, which holds nothing but `number`.
fn keep_only(number: i32) -> io::Result<()> {
    let number = u32::try_from(number).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    let close = |from: u32, to: u32, flags: u32| {
        // SAFETY: the first call parts this thread's table from the process's, so that all other threads keep their
        // descriptors; this thread owns no value with a descriptor, and uses none from here on.
        match unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    close(number + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if number > 0 { close(0, number - 1, 0) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fd::{Interest, is_hung_up, pipe, read, wait, write_all};

    #[test]
    fn its_pipe_stays_open_in_it_alone_and_other_threads_keep_their_descriptors() {
        let (watched, held) = pipe().unwrap();
        let (out, other) = pipe().unwrap();
        start(held).unwrap();
        assert!(!wait(&watched, Interest::Read, Some(Duration::ZERO)).unwrap(), "the thread holds it");
        write_all(&other, b"x").unwrap();
        assert_eq!(read(&out, &mut [0; 4]).unwrap(), 1);
        drop(other);
        assert!(is_hung_up(&out).unwrap(), "a sentinel holds nothing else");
    }
}
