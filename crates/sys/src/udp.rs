// SPDX-License-Identifier: BSD-2-Clause
//! Datagram sockets in bulk: many datagrams a call, big receive buffers, what the kernel dropped.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

mod steer;

pub use steer::{Steering, steer};

use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{getsockopt, setsockopt};
use socket2::{Domain, Socket, Type};

/// The largest datagram, in bytes.
pub const LARGEST: usize = 65_535;

/// Distance of two buffers. Not a power of two: then the first bytes of all datagrams would share one line of the cache.
const STRIDE: usize = 65_536 + 64;

/// The receive buffer that a socket for QUIC asks for, in bytes: what comes while its thread is busy for some milliseconds.
pub const QUIC_BUFFER: usize = 4 << 20;

/// Binds `members` (at least 1) UDP sockets to one address; port 0 picks a free port, the same for all. The kernel gives
/// all datagrams of one sender to one member. A single socket refuses to share its address (EADDRINUSE).
pub fn bind_group(addr: SocketAddr, members: usize) -> io::Result<Vec<OwnedFd>> {
    let first = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
    first.bind(&addr.into())?;
    let bound = first.local_addr()?;
    if members > 1 {
        // Only from here on may others of our user share the address.
        first.set_reuse_port(true)?;
    }
    let mut group = vec![OwnedFd::from(first)];
    for _ in 1..members {
        let member = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
        member.set_reuse_port(true)?;
        member.bind(&bound)?;
        group.push(member.into());
    }
    Ok(group)
}

/// Binds two sets of `members` UDP sockets to one address for QUIC, the first of which gets what comes ([`steer`]). Port 0 picks a
/// free port. Their receive buffers are large, past `net.core.rmem_max` if we may.
pub fn bind_steered(addr: SocketAddr, members: usize) -> io::Result<Vec<OwnedFd>> {
    let bind = |addr: SocketAddr, is_shared: bool| {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if is_shared {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&addr.into())?;
        set_receive_buffer(&socket, QUIC_BUFFER)?;
        Ok::<Socket, io::Error>(socket)
    };
    let first = bind(addr, false)?;
    let bound = first.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    // Only from here on may others of our user share the address. The order of binding is that of the group.
    first.set_reuse_port(true)?;
    let mut group = vec![OwnedFd::from(first)];
    for _ in 1..2 * members {
        group.push(bind(bound, true)?.into());
    }
    steer(&group[0], &Steering { members, set: 0, former: None })?;
    Ok(group)
}

/// Asks for a receive buffer of `bytes`, past `net.core.rmem_max` if we may; answers what the kernel accounts with, which
/// is twice what it granted.
pub fn set_receive_buffer(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = fd.as_fd();
    if setsockopt(&fd, RcvBufForce, &bytes).is_err() {
        setsockopt(&fd, RcvBuf, &bytes)?;
    }
    receive_buffer(fd)
}

/// The size that the kernel accounts with: bytes of datagrams and of their descriptors that may wait.
pub fn receive_buffer(fd: impl AsFd) -> io::Result<usize> {
    Ok(getsockopt(&fd.as_fd(), RcvBuf)?)
}

/// Number of datagrams that the kernel has dropped at this socket since it was made (a count of 32 bits that wraps).
pub fn drops(fd: impl AsFd) -> io::Result<u32> {
    // SK_MEMINFO_VARS words; the last is SK_MEMINFO_DROPS (linux/sock_diag.h).
    let mut words = [0u32; 9];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` has room for `len` bytes, which is all the kernel writes.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(words[8]) }
}

pub struct DatagramBatch {
    memory: Box<[u8]>,
    /// Each points into `memory` at a multiple of STRIDE.
    vectors: Box<[libc::iovec]>,
    /// Each points to its member of `vectors`.
    heads: Box<[libc::mmsghdr]>,
    filled: usize,
}

// SAFETY: the pointers are to memory that this value owns and nobody else knows.
unsafe impl Send for DatagramBatch {}

impl DatagramBatch {
    /// Room for `slots` (at least 1) datagrams of any size. Memory that no datagram reached isn't touched.
    pub fn new(slots: usize) -> DatagramBatch {
        let slots = slots.max(1);
        let mut memory = vec![0u8; slots * STRIDE].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = memory
            .chunks_exact_mut(STRIDE)
            .map(|slot| libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: LARGEST })
            .collect();
        let heads = vectors.iter_mut().map(|vector| {
            // SAFETY: all zero bytes are a valid mmsghdr: null pointers and lengths of 0.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            head.msg_hdr.msg_iov = vector;
            head.msg_hdr.msg_iovlen = 1;
            head
        });
        let heads = heads.collect();
        DatagramBatch { memory, vectors, heads, filled: 0 }
    }

    pub fn slots(&self) -> usize {
        self.vectors.len()
    }

    /// Receives what is there, in place of what was received before. With `wait` it waits for the first one; without, no
    /// datagram is 0. Interrupted calls are repeated.
    pub fn receive(&mut self, fd: impl AsFd, wait: bool) -> io::Result<usize> {
        self.filled = 0;
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let (raw, slots) = (fd.as_fd().as_raw_fd(), self.heads.len() as libc::c_uint);
        loop {
            // SAFETY: `heads` has `slots` members, each with one vector of LARGEST bytes within `memory`; the kernel
            // writes there, to the lengths and to the flags only. All of it lives as long as `self`, which is borrowed.
            let n = unsafe { libc::recvmmsg(raw, self.heads.as_mut_ptr(), slots, flags as _, std::ptr::null_mut()) };
            if n >= 0 {
                self.filled = (n as usize).min(self.heads.len());
                return Ok(self.filled);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(0),
                _ => return Err(error),
            }
        }
    }

    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let filled = self.heads[..self.filled].iter().zip(self.memory.chunks_exact(STRIDE));
        filled.map(|(head, slot)| &slot[..(head.msg_len as usize).min(LARGEST)])
    }
}

impl std::fmt::Debug for DatagramBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramBatch").field("slots", &self.slots()).field("filled", &self.filled).finish()
    }
}

/// Sends the datagrams on a connected socket, many a call; answers how many the kernel took. Waits for room when the
/// socket is blocking.
pub fn send_all(fd: impl AsFd, datagrams: &[&[u8]]) -> io::Result<usize> {
    let mut vectors: Vec<libc::iovec> =
        datagrams.iter().map(|d| libc::iovec { iov_base: d.as_ptr().cast_mut().cast(), iov_len: d.len() }).collect();
    let mut heads: Vec<libc::mmsghdr> = vectors
        .iter_mut()
        .map(|vector| {
            // SAFETY: as in `DatagramBatch::new`.
            let mut head: libc::mmsghdr = unsafe { std::mem::zeroed() };
            head.msg_hdr.msg_iov = vector;
            head.msg_hdr.msg_iovlen = 1;
            head
        })
        .collect();
    let mut sent = 0;
    while sent < heads.len() {
        let rest = &mut heads[sent..];
        // SAFETY: `rest` is valid for its length; its vectors point to `datagrams`, which are only read.
        let n = unsafe { libc::sendmmsg(fd.as_fd().as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
        if n > 0 {
            sent += n as usize;
            continue;
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            _ if sent > 0 => return Ok(sent),
            _ => return Err(error),
        }
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn pair() -> (OwnedFd, UdpSocket) {
        let receiver = bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let crate::sock::SocketName::Inet(addr) = crate::sock::local_name(&receiver).unwrap() else {
            panic!("UDP is inet")
        };
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(addr).unwrap();
        (receiver, sender)
    }

    #[test]
    fn datagrams_arrive_whole_and_in_order() {
        let (receiver, sender) = pair();
        let large = vec![7u8; 60_000];
        assert_eq!(send_all(&sender, &[b"one", b"", &large]).unwrap(), 3);
        let mut batch = DatagramBatch::new(2);
        assert_eq!(batch.receive(&receiver, true).unwrap(), 2);
        assert_eq!(batch.datagrams().collect::<Vec<_>>(), [&b"one"[..], b""]);
        assert_eq!(batch.receive(&receiver, true).unwrap(), 1);
        assert_eq!(batch.datagrams().next(), Some(&large[..]));
        assert_eq!(batch.receive(&receiver, false).unwrap(), 0);
        assert_eq!(batch.datagrams().count(), 0);
    }

    #[test]
    fn drops_are_counted() {
        let (receiver, sender) = pair();
        let effective = set_receive_buffer(&receiver, 4096).unwrap();
        assert!(effective >= 4096);
        for _ in 0..1000 {
            sender.send(b"x").unwrap();
        }
        let mut batch = DatagramBatch::new(1000);
        let received = batch.receive(&receiver, false).unwrap();
        assert_eq!(received + drops(&receiver).unwrap() as usize, 1000);
    }

    #[test]
    fn a_group_shares_an_address_and_a_single_socket_does_not() {
        let group = bind_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        assert_eq!(group.len(), 3);
        let crate::sock::SocketName::Inet(addr) = crate::sock::local_name(&group[2]).unwrap() else {
            panic!("UDP is inet")
        };
        assert_eq!(bind_group(addr, 1).unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
    }
}
