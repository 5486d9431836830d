// SPDX-License-Identifier: BSD-2-Clause
//! What the kernel knows of a TCP connection, and what it may be told about it: congestion control, pacing.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// A socket's number, to ask about the connection of a session that runs. It doesn't keep the socket open; a number that is
/// another socket's by now, or none's, gives wrong answers or an error, nothing worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketNumber(RawFd);

/// Some of Linux' `TCP_INFO`; times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in tcp(7)")]
pub struct TcpInfo {
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub lost: u32,
    pub retrans: u32,
    pub pmtu: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
}

/// Losses of a connection from `TCP_INFO`: on this side's way, and on the other's as far as that shows here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in tcp(7) and linux/tcp.h")]
pub struct Losses {
    /// Segments sent again, SYNs among them.
    pub total_retrans: u32,
    /// Segments that came before an earlier one.
    pub rcv_ooopack: u32,
}

/// Offset of the field in linux/tcp.h's `struct tcp_info`: the C library's own doesn't have all fields.
const TOTAL_RETRANS_AT: usize = 100;
const RCV_OOOPACK_AT: usize = 224;

const LONGEST_NAME: usize = 16;

impl SocketNumber {
    /// Number for a client that has no socket of its own: all calls fail, as with a socket that isn't TCP.
    pub const NONE: SocketNumber = SocketNumber(-1);

    pub const fn new(fd: RawFd) -> SocketNumber {
        SocketNumber(fd)
    }

    /// `TCP_INFO`
    ///
    /// # Errors
    /// The operating system's word: not TCP, not open.
    pub fn info(self) -> io::Result<TcpInfo> {
        let mut raw = MaybeUninit::<libc::tcp_info>::zeroed();
        let to = raw.as_mut_ptr().cast();
        // SAFETY: the kernel writes no more than the length says, which is that of `raw`.
        unsafe { get(self.0, libc::IPPROTO_TCP, libc::TCP_INFO, to, size_of::<libc::tcp_info>()) }?;
        // SAFETY: all zeros are a valid `tcp_info`, which is integers; so is what the kernel wrote.
        let raw = unsafe { raw.assume_init() };
        Ok(TcpInfo {
            snd_mss: raw.tcpi_snd_mss,
            rcv_mss: raw.tcpi_rcv_mss,
            lost: raw.tcpi_lost,
            retrans: raw.tcpi_retrans,
            pmtu: raw.tcpi_pmtu,
            rtt: raw.tcpi_rtt,
            rttvar: raw.tcpi_rttvar,
            snd_cwnd: raw.tcpi_snd_cwnd,
            advmss: raw.tcpi_advmss,
            reordering: raw.tcpi_reordering,
        })
    }

    /// The connection's losses.
    ///
    /// # Errors
    /// The operating system's word: not TCP, not open. A kernel before 5.4 doesn't tell.
    pub fn losses(self) -> io::Result<Losses> {
        let mut raw = [0u8; RCV_OOOPACK_AT + 4];
        // SAFETY: the pointer and the length are those of `raw`.
        let len = unsafe { get_up_to(self.0, libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), raw.len())? };
        if len < raw.len() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        Ok(Losses { total_retrans: word(TOTAL_RETRANS_AT), rcv_ooopack: word(RCV_OOOPACK_AT) })
    }

    /// Chooses the congestion control algorithm.
    ///
    /// # Errors
    /// The operating system's word: no such algorithm, or not for this user.
    pub fn set_congestion(self, name: &[u8]) -> io::Result<()> {
        set(self.0, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name)
    }

    pub fn congestion(self) -> io::Result<Vec<u8>> {
        let mut name = [0u8; LONGEST_NAME];
        // SAFETY: the pointer and the length are those of `name`.
        unsafe { get(self.0, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_mut_ptr().cast(), name.len())? };
        Ok(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }

    /// Limits how fast it sends, in bytes a second.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn set_pacing_rate(self, rate: u32) -> io::Result<()> {
        set(self.0, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.to_ne_bytes())
    }

    /// The limit of its pace, in bytes a second.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn pacing_rate(self) -> io::Result<u32> {
        let mut rate = [0u8; 4];
        // SAFETY: the pointer and the length are those of `rate`.
        unsafe { get(self.0, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate.as_mut_ptr().cast(), rate.len())? };
        Ok(u32::from_ne_bytes(rate))
    }
}

/// # Safety
/// `to` may be written for `len` bytes.
unsafe fn get(fd: RawFd, level: i32, option: i32, to: *mut libc::c_void, len: usize) -> io::Result<()> {
    // SAFETY: as above.
    unsafe { get_up_to(fd, level, option, to, len).map(drop) }
}

/// Reads an option; returns its length.  # Safety `to` may be written for `len` bytes.
unsafe fn get_up_to(fd: RawFd, level: i32, option: i32, to: *mut libc::c_void, len: usize) -> io::Result<usize> {
    let mut len = len as libc::socklen_t;
    // SAFETY: as above; the kernel writes at most `len` bytes.
    let done = unsafe { libc::getsockopt(fd, level, option, to, &mut len) };
    if done == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

fn set(fd: RawFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which is only read.
    let done = unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_connection_tells_of_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let socket = SocketNumber::new(stream.as_raw_fd());
        assert_eq!(socket.losses().expect("TCP"), Losses { total_retrans: 0, rcv_ooopack: 0 });
        let info = socket.info().expect("TCP");
        assert!(info.snd_mss > 0 && info.snd_cwnd > 0);
        let name = socket.congestion().expect("TCP");
        socket.set_congestion(&name).expect("it has it already");
        assert!(socket.set_congestion(b"no such algorithm").is_err());
        socket.set_pacing_rate(1_024_000).expect("any socket can");
        assert_eq!(socket.pacing_rate().expect("any socket can"), 1_024_000);
        assert!(SocketNumber::NONE.info().is_err());
    }
}
