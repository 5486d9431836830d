// SPDX-License-Identifier: BSD-2-Clause
//! A descriptor that is neither a socket nor a pipe of ours, and that a task waits for.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor of whose readability one task is told, each time that it begins anew.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// To be called by a task ([`crate::is_task`]).
    ///
    /// # Errors
    /// The system's: the descriptor can't be waited for.
    #[expect(deprecated, reason = "an OwnedFd stays the same and open, which the general case can't promise")]
    pub fn new(fd: OwnedFd) -> io::Result<Readable> {
        AsyncFd::with_interest(fd, Interest::READABLE).map(Readable)
    }

    /// `Ready` once after each time that something came: who gets it looks for what came, and asks again.
    ///
    /// # Errors
    /// The runtime ends.
    pub fn poll_news(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_read_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }
}
