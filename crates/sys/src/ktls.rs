// SPDX-License-Identifier: BSD-2-Clause
//! TLS in the kernel (tls(7), linux/tls.h): it seals what is written to a TCP socket once it has been given a key. Records that
//! aren't data go with their type beside them.
//!
//! What is in a key's bytes, and when to give one, others know.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// linux/tls.h has these; the C library's headers don't all.
const SOL_TLS: i32 = 282;
const TLS_TX: i32 = 1;
const TLS_SET_RECORD_TYPE: i32 = 1;
const TCP_ULP: i32 = 31;

/// Room for one control message of one byte, with what the header wants around it.
const CONTROL_BYTES: usize = 32;

/// Puts TLS on a connected socket. Nothing changes in what is sent and received until there is a key.
///
/// # Errors
/// The operating system's word: it has no TLS (ENOENT), or this is no TCP connection that is open.
pub fn attach(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_ULP, b"tls")
}

/// Gives the key for what is sent from now on: `struct tls12_crypto_info_*` as bytes. Another one takes the place of the first, where
/// the kernel can do that (Linux 6.14, TLS 1.3).
///
/// # Errors
/// The operating system's word: it hasn't the cipher, or has a key already.
pub fn set_tx_key(socket: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    set(socket, SOL_TLS, TLS_TX, key)
}

/// Sends a record that isn't data: all of it, or nothing.
///
/// It waits (`WouldBlock`) until the socket has room for more than that. The kernel may hold the end of an earlier record that the
/// socket's buffer had no room for, and shutdown(2) would cut it off; with this room that end goes first.
///
/// # Errors
/// The operating system's word.
pub fn send_record(socket: BorrowedFd<'_>, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut polled = [PollFd::new(socket, PollFlags::POLLOUT)];
    if poll(&mut polled, PollTimeout::ZERO)? == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    match send_typed(socket, kind, bytes)? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Aligned as control messages have to be.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

fn send_typed(socket: BorrowedFd<'_>, kind: u8, bytes: &[u8]) -> io::Result<usize> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros are a valid `msghdr`: null pointers of no length.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    (message.msg_iov, message.msg_iovlen) = (&mut piece, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: it only computes, 24 bytes here.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(1) } as _;
    assert!(message.msg_controllen <= mem::size_of::<Control>(), "the control message has room");
    // SAFETY: it only computes, from two fields of `message`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
    // SAFETY: `msg_control` is aligned, and long enough for one header and its byte, so that this points to its start.
    let header = unsafe { &mut *header };
    (header.cmsg_level, header.cmsg_type) = (SOL_TLS, TLS_SET_RECORD_TYPE);
    // SAFETY: it only computes.
    header.cmsg_len = unsafe { libc::CMSG_LEN(1) } as _;
    // SAFETY: it only computes.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the byte behind the header lies within `control`, as `CMSG_SPACE(1)` bytes do.
    unsafe { data.write(kind) };
    // SAFETY: `message` points to `piece` and `control`, which live; the kernel only reads from both and from `bytes`.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of `value`, which is only read.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_no_tcp_has_no_tls() {
        let (ours, _theirs) = UnixStream::pair().expect("descriptors");
        assert!(attach(ours.as_fd()).is_err());
        assert!(set_tx_key(ours.as_fd(), &[0; 40]).is_err());
    }

    #[test]
    fn a_record_waits_until_there_is_room() {
        use std::io::Write;
        let (mut ours, _theirs) = UnixStream::pair().expect("descriptors");
        ours.set_nonblocking(true).expect("a socket");
        while ours.write(&[0; 65536]).is_ok() {}
        assert_eq!(send_record(ours.as_fd(), 21, &[1, 0]).map_err(|e| e.kind()), Err(io::ErrorKind::WouldBlock));
    }
}
