// SPDX-License-Identifier: BSD-2-Clause
//! Streams without a descriptor.

use std::any::Any;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Poll, ready};

use crate::Address;

/// A stream without a descriptor. The product has none: tests and simulations bring theirs (`testkit-net`). Methods do
/// what those of [`super::Stream`] with their names do, unless they say otherwise.
pub trait Socketless: Any + fmt::Debug + Send {
    /// The stream's number in the log, in place of a descriptor's.
    fn number(&self) -> u32;

    /// Address of our end.
    fn local(&self) -> Address;

    /// Address of the peer.
    fn peer(&self) -> Address;

    /// Ready when bytes can be read or the peer has closed.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when bytes can be written.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads what is there; 0 is the end. `WouldBlock` when nothing is.
    ///
    /// # Errors
    /// As a socket's.
    fn try_read(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Writes what fits. `WouldBlock` when nothing does.
    ///
    /// # Errors
    /// As a socket's.
    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Does what a `recv` of one byte with `MSG_PEEK` does.
    ///
    /// # Errors
    /// As a socket's.
    fn peek(&self) -> io::Result<usize>;

    /// Says that nothing more will be written.
    fn shutdown_write(&self);

    /// Makes close reset the connection.
    fn reset_on_close(&self);
}

/// Reads that all [`Socketless`] have.
impl dyn Socketless {
    pub(super) fn try_read_buf(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        const PIECE: usize = 64 * 1024;
        let mut piece = vec![0; (into.capacity() - into.len()).min(PIECE)];
        let read = self.try_read(&mut piece)?;
        into.extend_from_slice(&piece[..read]);
        Ok(read)
    }

    pub(super) fn poll_read_buf(&self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        loop {
            match self.try_read_buf(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.poll_readable(cx))?,
                read => return Poll::Ready(read),
            }
        }
    }
}
