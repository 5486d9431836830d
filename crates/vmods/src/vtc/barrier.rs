// SPDX-License-Identifier: BSD-2-Clause
//! varnishtest's barriers: connect to one, and it closes the connection when all have come.

use std::io::Read;
use std::net::TcpStream as StdTcp;
use std::os::unix::net::UnixStream as StdUnix;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};
use vrt::VclFailure;

/// Barriers speak `host port`, `host:port` or a path.
fn tcp(addr: &str) -> Option<(&str, u16)> {
    let (host, port) = addr.rsplit_once([' ', ':'])?;
    Some((host.trim_matches(['[', ']']), port.parse().ok()?))
}

fn refused(error: std::io::Error) -> VclFailure {
    VclFailure::new(format!("Barrier connection failed: {error}"))
}

fn verdict(read: std::io::Result<usize>) -> Result<(), VclFailure> {
    match read {
        Ok(0) => Ok(()),
        Ok(bytes) => Err(format!("Barrier unexpected data ({bytes}B)").into()),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or_default();
            Err(format!("Barrier read failed: {error} (errno={number})").into())
        }
    }
}

/// The error of a read that timed out, as the system's own timeout gives it.
fn timed_out() -> std::io::Error {
    std::io::Error::from_raw_os_error(11)
}

async fn reached(mut stream: impl AsyncRead + Unpin, limit: Duration) -> Result<(), VclFailure> {
    let mut byte = [0; 32];
    match rt::timeout(limit, stream.read(&mut byte)).await {
        Ok(read) => verdict(read),
        Err(rt::Elapsed) => verdict(Err(timed_out())),
    }
}

/// Waits at the barrier; no limit when it is zero.
///
/// # Errors
/// It can't be reached, says something, or the time is up.
pub(super) async fn sync(addr: &str, limit: Duration) -> Result<(), VclFailure> {
    match tcp(addr) {
        Some(addr) if !addr.0.contains('/') => reached(TcpStream::connect(addr).await.map_err(refused)?, limit).await,
        _ => reached(UnixStream::connect(addr).await.map_err(refused)?, limit).await,
    }
}

/// The same where nothing else runs: `vcl_init`, `vcl_fini`.
///
/// # Errors
/// As [`sync`].
pub(super) fn sync_blocking(addr: &str, limit: Duration) -> Result<(), VclFailure> {
    let limit = (!limit.is_zero()).then_some(limit);
    let mut byte = [0; 32];
    let read = match tcp(addr) {
        Some(addr) if !addr.0.contains('/') => {
            let mut stream = StdTcp::connect(addr).map_err(refused)?;
            stream.set_read_timeout(limit).and_then(|()| stream.read(&mut byte))
        }
        _ => {
            let mut stream = StdUnix::connect(addr).map_err(refused)?;
            stream.set_read_timeout(limit).and_then(|()| stream.read(&mut byte))
        }
    };
    verdict(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// A barrier that says `word` and closes.
    fn barrier(word: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a guest");
            stream.write_all(word).expect("written");
        });
        addr.to_string()
    }

    fn check(word: &'static [u8], want: Result<(), &str>) {
        let want = want.map_err(|text| VclFailure::new(text.to_owned()));
        let (one, other) = (barrier(word), barrier(word).replace(':', " "));
        assert_eq!(rt::run(async move { sync(&one, Duration::ZERO).await }).expect("a runtime"), want);
        assert_eq!(sync_blocking(&other, Duration::ZERO), want);
    }

    #[test]
    fn barriers_close() {
        check(b"", Ok(()));
        check(b"x", Err("Barrier unexpected data (1B)"));
    }

    #[test]
    fn nobody_and_never() {
        let failed = sync_blocking("/nowhere/at/all", Duration::ZERO).expect_err("no such path");
        assert!(failed.0.starts_with("Barrier connection failed: "));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("bound").to_string();
        let late = rt::run(async move { sync(&addr, Duration::from_millis(1)).await }).expect("a runtime");
        assert!(late.expect_err("late").0.starts_with("Barrier read failed: "));
    }
}
