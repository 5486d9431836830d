// SPDX-License-Identifier: BSD-2-Clause
//! A connection to the log's server: bytes both ways, sealed or not, each use of which ends by a time. It blocks: it belongs to a thread
//! that has nothing else to do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Instant;

use sys::timed::Timed;
use tls::Over;
use tls::origin::{Origin, OwnCertificate};
use tls::roots::Roots;

use crate::{Fault, Server, Settings};

/// Addresses of a server that are tried.
const MANY: usize = 8;
/// What is read at once.
const READ: usize = 32 << 10;
/// Sessions that are remembered.
const SESSIONS: usize = 32;

/// Who we are to servers over TLS, if they are spoken to so.
///
/// # Errors
/// Certificates that can't be used.
pub(crate) fn client(settings: &Settings) -> Result<Option<Arc<tls::Client>>, String> {
    if !settings.is_tls {
        return Ok(None);
    }
    let roots = settings.authorities.as_deref().map(Roots::from_pem).transpose();
    let roots = roots.map_err(|error| format!("ca: {error}"))?.unwrap_or_else(Roots::system);
    let certificate = settings.certificate.as_deref().map(OwnCertificate::from_pem).transpose();
    let certificate = certificate.map_err(|error| format!("cert: {error}"))?;
    Origin { roots, certificate, ..Origin::of("") }.client_without_protocol(SESSIONS).map(Some)
}

#[derive(Debug)]
enum Stream {
    Clear(Timed),
    Sealed(Box<Over<Timed>>),
    /// It is being sealed, or that failed.
    Gone,
}

/// The connection, and what came over it and wasn't taken.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// What came.
    input: Vec<u8>,
    /// Bytes of it that were taken: they go all at once, when more is waited for.
    taken: usize,
}

impl Wire {
    /// Connects, in clear.
    pub fn connect(server: &Server, until: Instant) -> Result<Wire, Fault> {
        let addresses = (server.host.as_str(), server.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = addresses.map_err(|error| fault(&error))?.take(MANY).collect();
        let mut last = Fault::new("it has no address");
        for address in addresses {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => {
                    socket.set_nodelay(true).map_err(|error| fault(&error))?;
                    return Ok(Wire { stream: Stream::Clear(Timed::new(socket, until)), input: Vec::new(), taken: 0 });
                }
                Err(error) => last = fault(&error),
            }
        }
        Err(last)
    }

    /// Goes over to TLS. What was said before in clear isn't believed.
    pub fn seal(&mut self, client: &Arc<tls::Client>, host: &str) -> Result<(), Fault> {
        (self.input, self.taken) = (Vec::new(), 0);
        match std::mem::replace(&mut self.stream, Stream::Gone) {
            Stream::Clear(socket) => {
                let mut over = Over::client(socket, client, host).map_err(|error| Fault::new(error.to_string()))?;
                while !over.shake().map_err(|error| Fault::new(format!("TLS: {}", fault(&error))))? {}
                self.stream = Stream::Sealed(Box::new(over));
                Ok(())
            }
            Stream::Sealed(_) | Stream::Gone => Err(Fault::new("sealed twice")),
        }
    }

    /// By when what is done next must have ended.
    pub fn until(&mut self, until: Instant) {
        match &mut self.stream {
            Stream::Clear(socket) => socket.end_by(until),
            Stream::Sealed(over) => over.below_mut().end_by(until),
            Stream::Gone => {}
        }
    }

    /// Sends all of it.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let sent = match &mut self.stream {
            Stream::Clear(socket) => socket.write_all(bytes),
            Stream::Sealed(over) => over.write_all(bytes).and_then(|()| over.flush()),
            Stream::Gone => Err(ErrorKind::NotConnected.into()),
        };
        sent.map_err(|error| fault(&error))
    }

    /// What came and wasn't taken.
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// So many bytes of that are taken.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
        assert!(self.taken <= self.input.len(), "more was taken than came");
    }

    /// Waits for more input.
    pub fn more(&mut self) -> Result<(), Fault> {
        self.input.drain(..std::mem::take(&mut self.taken));
        let begin = self.input.len();
        self.input.resize(begin + READ, 0);
        let room = &mut self.input[begin..];
        let read = match &mut self.stream {
            Stream::Clear(socket) => socket.read(room),
            Stream::Sealed(over) => over.read(room),
            Stream::Gone => Err(ErrorKind::NotConnected.into()),
        };
        self.input.truncate(begin + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Fault::new("it closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(fault(&error)),
        }
    }
}

fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Fault::new("it doesn't answer in time"),
        ErrorKind::ConnectionRefused => Fault::new("nothing listens there"),
        ErrorKind::UnexpectedEof => Fault::new("it closed the connection"),
        _ => Fault::new(base::text::printable(&error.to_string())),
    }
}
