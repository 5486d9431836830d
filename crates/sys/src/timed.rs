// SPDX-License-Identifier: BSD-2-Clause
//! A blocking socket with one deadline for all that is done over it: for threads that have nothing else to do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A socket, each use of which ends by a time; what doesn't is `TimedOut` or `WouldBlock`.
#[derive(Debug)]
pub struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    pub fn new(socket: TcpStream, until: Instant) -> Timed {
        Timed { socket, until }
    }

    pub fn end_by(&mut self, until: Instant) {
        self.until = until;
    }

    #[expect(clippy::disallowed_methods, reason = "the system's sockets wait by the machine's clock")]
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buf)
    }
}

impl Write for Timed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the system's sockets wait by the machine's clock")]
    fn what_nobody_answers_ends_in_time_and_what_is_over_does_not_begin() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut timed = Timed::new(socket, Instant::now() + Duration::from_millis(20));
        timed.write_all(b"x").unwrap();
        let error = timed.read(&mut [0]).unwrap_err().kind();
        assert!(matches!(error, ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error:?}");
        assert_eq!(timed.write(b"x").unwrap_err().kind(), ErrorKind::TimedOut);
        timed.end_by(Instant::now() + Duration::from_secs(20));
        timed.write_all(b"x").unwrap();
    }
}
