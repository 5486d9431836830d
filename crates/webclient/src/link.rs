// SPDX-License-Identifier: BSD-2-Clause
//! A connection that ends by a time, sealed or not.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::text::printable;
use sys::timed::Timed;
use tls::Over;

use crate::{WebTarget, junk};

/// Time for one address.
const CONNECT_TIME: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub enum WebLink {
    Clear(Timed),
    /// Over TLS: what ends without the server's word for it is an error.
    Sealed(Box<Over<Timed>>),
}

impl WebLink {
    /// All that is done over it from now on ends by then.
    pub fn end_by(&mut self, until: Instant) {
        match self {
            WebLink::Clear(socket) => socket.end_by(until),
            WebLink::Sealed(over) => over.below_mut().end_by(until),
        }
    }
}

impl Read for WebLink {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            WebLink::Clear(socket) => socket.read(buf),
            WebLink::Sealed(over) => match over.read(buf)? {
                0 if over.was_cut() => Err(junk("the connection is cut off")),
                count => Ok(count),
            },
        }
    }
}

impl Write for WebLink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            WebLink::Clear(socket) => socket.write(buf),
            WebLink::Sealed(over) => over.write(buf),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            WebLink::Clear(socket) => socket.flush(),
            WebLink::Sealed(over) => over.flush(),
        }
    }
}

/// Connects; all that is done over it ends by `until`.
///
/// # Errors
/// Nobody is there, or the target's name can't be one in TLS.
pub fn connect(target: &WebTarget, tls: &Arc<tls::TlsClient>, until: Instant) -> io::Result<WebLink> {
    connect_where(target, tls, until, &|_| true)
}

/// Does what [`connect`] does, at those addresses of the host that `may_ask` allows.
///
/// # Errors
/// The same as for [`connect`], or none of the addresses is allowed.
pub fn connect_where(
    target: &WebTarget,
    tls: &Arc<tls::TlsClient>,
    until: Instant,
    may_ask: &dyn Fn(&SocketAddr) -> bool,
) -> io::Result<WebLink> {
    let socket = Timed::new(connect_socket(target, until, may_ask)?, until);
    if !target.is_tls {
        return Ok(WebLink::Clear(socket));
    }
    Ok(WebLink::Sealed(Box::new(Over::client(socket, tls, &target.host).map_err(io::Error::other)?)))
}

fn connect_socket(target: &WebTarget, until: Instant, may_ask: &dyn Fn(&SocketAddr) -> bool) -> io::Result<TcpStream> {
    const MOST: usize = 8;
    let addresses = base::lookup::addresses(&target.host, target.port)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address that may be asked");
    for address in addresses.into_iter().filter(may_ask).take(MOST) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left.min(CONNECT_TIME)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "does not answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "closes before it has answered".to_owned(),
        _ => printable(&error.to_string()),
    }
}
