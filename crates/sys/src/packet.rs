// SPDX-License-Identifier: BSD-2-Clause
//! Sockets between processes that keep messages apart.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, setsockopt, socketpair, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

/// A connected pair, close-on-exec. Calls wait.
///
/// # Errors
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Bounds how long a call waits: `WouldBlock` then.
///
/// # Errors
/// The system's.
pub fn set_patience(socket: &OwnedFd, patience: Duration) -> io::Result<()> {
    let patience = TimeVal::milliseconds(i64::try_from(patience.as_millis()).unwrap_or(i64::MAX));
    setsockopt(socket, sockopt::ReceiveTimeout, &patience)?;
    Ok(setsockopt(socket, sockopt::SendTimeout, &patience)?)
}

/// Sends one message. A peer that is gone is an error, and no signal.
///
/// # Errors
/// The system's.
pub fn send(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    nix::sys::socket::send(socket.as_fd().as_raw_fd(), message, MsgFlags::MSG_NOSIGNAL)?;
    Ok(())
}

/// Takes one message, as much of it as `into` has room for; 0 when the peer is gone.
///
/// # Errors
/// The system's.
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::sys::socket::recv(socket.as_fd().as_raw_fd(), into, MsgFlags::empty()) {
            Err(nix::Error::EINTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_apart_and_nobody_waits_for_ever() {
        let (one, other) = pair().unwrap();
        send(&one, b"first").unwrap();
        send(&one, b"second").unwrap();
        let mut room = [0; 100];
        assert_eq!((receive(&other, &mut room).unwrap(), &room[..5]), (5, &b"first"[..]));
        assert_eq!(receive(&other, &mut room).unwrap(), 6);
        set_patience(&other, Duration::from_millis(5)).unwrap();
        assert_eq!(receive(&other, &mut room).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(one);
        assert_eq!(receive(&other, &mut room).unwrap(), 0);
        assert_eq!(send(&other, b"to nobody").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
