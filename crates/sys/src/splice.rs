// SPDX-License-Identifier: BSD-2-Clause
//! Sending extents without a copy: their pages go into a pipe (vmsplice(2)) and from there to a socket (splice(2)), whose
//! packets refer to them until the peer has them.
//!
//! That is sound because an extent's bytes never change and lent pages aren't used again ([`crate::extent`]).

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, vmsplice};
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::pipe2;

use crate::extent::Extent;

pub const RANGES: usize = 32;

const PIPE_BYTES: i32 = 256 << 10;

#[derive(Debug)]
pub struct SpliceRanges<'a> {
    ranges: [IoSlice<'a>; RANGES],
    count: usize,
}

/// A lender of extents to sockets; one for a thread.
#[derive(Debug)]
pub struct Splicer {
    pipe: Option<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

#[derive(Debug)]
pub enum SpliceOutcome {
    Bytes(usize),
    /// Lending isn't possible here: send a copy.
    Impossible,
}

/// Sends what fits of bytes that are copied and that a loan follows: the kernel waits for it to fill the packet.
///
/// # Errors
/// `WouldBlock` when nothing fits; the socket's.
pub fn begin(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::from_bits_retain(libc::MSG_MORE | libc::MSG_NOSIGNAL);
    Ok(send(socket.as_raw_fd(), bytes, flags)?)
}

impl<'a> SpliceRanges<'a> {
    /// Adds a part of an extent. False: that can't be lent, or there are [`RANGES`] already.
    pub fn add(&mut self, extent: &'a Extent, range: Range<usize>) -> bool {
        let Some(slot) = self.ranges.get_mut(self.count) else { return false };
        let Some(bytes) = extent.lend().get(range) else { return false };
        *slot = IoSlice::new(bytes);
        self.count += 1;
        true
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Default for SpliceRanges<'_> {
    fn default() -> Self {
        Self { ranges: [IoSlice::new(&[]); RANGES], count: 0 }
    }
}

impl Splicer {
    pub const fn new() -> Self {
        Self { pipe: None }
    }

    /// Sends what fits, without waiting. `more`: further bytes follow at once.
    ///
    /// # Errors
    /// `WouldBlock` when nothing fits; the socket's.
    pub fn send(&mut self, socket: BorrowedFd<'_>, loans: &SpliceRanges<'_>, more: bool) -> io::Result<SpliceOutcome> {
        // Taken, so that a pipe with something left in it is never used again.
        let Some(pipe) = self.pipe.take().or_else(|| Pipe::open().ok()) else { return Ok(SpliceOutcome::Impossible) };
        let (filled, sent) = pipe.pass(socket, loans, more);
        if sent == Ok(filled) {
            self.pipe = Some(pipe);
        }
        match sent {
            Ok(0) => Ok(SpliceOutcome::Impossible),
            Ok(sent) => Ok(SpliceOutcome::Bytes(sent)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Default for Splicer {
    fn default() -> Self {
        Self::new()
    }
}

impl Pipe {
    fn open() -> nix::Result<Self> {
        let (out, into) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // A user may have only so much in pipes; a small one does it in more steps.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Ok(Self { out, into })
    }

    /// Number of bytes that went into the pipe, and from there to the socket.
    fn pass(&self, socket: BorrowedFd<'_>, loans: &SpliceRanges<'_>, more: bool) -> (usize, nix::Result<usize>) {
        let ranges = &loans.ranges[..loans.count];
        let Ok(filled) = vmsplice(&self.into, ranges, SpliceFFlags::SPLICE_F_NONBLOCK) else { return (0, Ok(0)) };
        let wanted: usize = ranges.iter().map(|range| range.len()).sum();
        let mut flags = SpliceFFlags::SPLICE_F_NONBLOCK;
        flags.set(SpliceFFlags::SPLICE_F_MORE, more || filled < wanted);
        match splice(&self.out, None, socket, None, filled, flags) {
            // Some kinds of sockets can't be spliced to.
            Err(Errno::EINVAL) => (filled, Ok(0)),
            sent => (filled, sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::Arc;

    use super::*;
    use crate::extent::{PAGE, Region};

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    fn lend(lender: &mut Splicer, to: &TcpStream, extent: &Extent, range: Range<usize>) -> io::Result<usize> {
        let mut loans = SpliceRanges::default();
        assert!(loans.add(extent, range));
        match lender.send(to.as_fd(), &loans, false)? {
            SpliceOutcome::Bytes(sent) => Ok(sent),
            SpliceOutcome::Impossible => panic!("a TCP socket can be lent to"),
        }
    }

    fn filled(region: &Arc<Region>, byte: u8, pages: usize) -> Extent {
        region.extent(&[&vec![byte; pages * PAGE]]).unwrap()
    }

    #[test]
    fn what_is_on_its_way_stays_as_it_was() {
        let region = Region::anonymous(4 * PAGE, 4 * PAGE as u64).unwrap();
        let (ours, mut theirs) = connection();
        let old = filled(&region, 1, 4);
        assert_eq!(lend(&mut Splicer::new(), &ours, &old, 0..4 * PAGE).unwrap(), 4 * PAGE);
        drop(old);
        assert_eq!(region.kept_bytes(), 0, "lent pages are given back");
        // The same addresses.
        let _new = filled(&region, 2, 4);
        let mut got = vec![0; 4 * PAGE];
        theirs.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_full_socket_takes_a_part_and_the_rest_can_follow() {
        let region = Region::anonymous(64 << 20, 0).unwrap();
        let bytes: Vec<u8> = (0..40 << 20).map(|n: u32| (n / 7) as u8).collect();
        let extent = region.extent(&[&bytes]).unwrap();
        let (ours, mut theirs) = connection();
        let mut lender = Splicer::new();
        let mut at = 0;
        let would_block = loop {
            match lend(&mut lender, &ours, &extent, at..bytes.len()) {
                Ok(sent) => at += sent,
                Err(error) => break error,
            }
        };
        assert_eq!(would_block.kind(), io::ErrorKind::WouldBlock);
        assert!(at > 0 && at < bytes.len());
        ours.set_nonblocking(false).unwrap();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).map(|_| got)
        });
        while at < bytes.len() {
            at += lend(&mut lender, &ours, &extent, at..bytes.len()).unwrap();
        }
        drop(ours);
        assert!(reader.join().unwrap().unwrap() == bytes, "all bytes come once and in order");
    }
}
