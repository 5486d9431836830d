// SPDX-License-Identifier: BSD-2-Clause
//! Sending without a copy.

use std::io;
use std::os::fd::AsFd;

use sys::splice::{self, SpliceOutcome, SpliceRanges, Splicer};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::sealed::SealedStream;

/// A stream that the kernel sends from without a copy: see [`super::Stream::zero_copy`].
#[derive(Debug)]
pub struct ZeroCopy<'a> {
    pub(super) socket: &'a TcpStream,
    pub(super) sealed: Option<&'a SealedStream>,
}

impl ZeroCopy<'_> {
    /// Writes what fits of `bytes`, which more follows at once: the kernel may wait for that to fill a packet.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_write_begin(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(|| splice::begin(self.socket.as_fd(), bytes), |sent| *sent)
    }

    /// Sends what fits of `loans` without a copy; `more` follows at once. `WouldBlock` when nothing fits.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn try_lend(&self, lender: &mut Splicer, loans: &SpliceRanges<'_>, more: bool) -> io::Result<SpliceOutcome> {
        let lend = || lender.send(self.socket.as_fd(), loans, more);
        self.send(lend, |outcome| if let SpliceOutcome::Bytes(sent) = outcome { *sent } else { 0 })
    }

    /// `sent`: how many bytes went.
    fn send<T>(&self, send: impl FnOnce() -> io::Result<T>, sent: impl FnOnce(&T) -> usize) -> io::Result<T> {
        let send = || self.socket.try_io(Interest::WRITABLE, send);
        match self.sealed {
            None => send(),
            Some(sealed) => sealed.give(send, sent),
        }
    }
}
