// SPDX-License-Identifier: BSD-2-Clause
//! A connection to the log's server: bytes both ways, sealed or not, each use of which ends by a time. It blocks: it belongs to a thread
//! that has nothing else to do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use base::clock;
use sys::timed::Timed;
use tls::Over;
use tls::origin::{OwnCertificate, TlsOrigin};
use tls::roots::Roots;

use crate::{FleetSettings, LinkFault, LogServer};

/// Addresses of a server that are tried.
const MANY: usize = 8;
const READ: usize = 32 << 10;
/// Sessions that are remembered.
const SESSIONS: usize = 32;
/// Longest time for dropping bytes that were taken before they came.
const DROP_TIME: Duration = Duration::from_secs(30);
const PART_TIME: Duration = Duration::from_secs(2);

/// The TLS client for servers, if TLS is used.
///
/// # Errors
/// Certificates that can't be used.
pub(crate) fn client(settings: &FleetSettings) -> Result<Option<Arc<tls::TlsClient>>, String> {
    if !settings.is_tls {
        return Ok(None);
    }
    let roots = settings.authorities.as_deref().map(Roots::from_pem).transpose();
    let roots = roots.map_err(|error| format!("ca: {error}"))?.unwrap_or_else(Roots::system);
    let certificate = settings.certificate.as_deref().map(OwnCertificate::from_pem).transpose();
    let certificate = certificate.map_err(|error| format!("cert: {error}"))?;
    TlsOrigin { roots, certificate, ..TlsOrigin::of("") }.client_without_protocol(SESSIONS).map(Some)
}

#[derive(Debug)]
enum Stream {
    Clear(Timed),
    Sealed(Box<Over<Timed>>),
    /// The connection is being sealed, or that failed.
    Gone,
}

/// The connection, and what came over it and wasn't taken.
#[derive(Debug)]
pub(crate) struct LogWire {
    stream: Stream,
    input: Vec<u8>,
    /// Bytes of it that were taken: they go all at once, when more is waited for.
    taken: usize,
    /// Bytes that were taken and haven't come: they are dropped as they come.
    ahead: usize,
    until: Instant,
    /// Time by which the dropped bytes must have come.
    dropped_by: Instant,
}

impl LogWire {
    /// Connects in clear text.
    pub fn connect(server: &LogServer, until: Instant) -> Result<LogWire, LinkFault> {
        let addresses = addresses(server, until)?;
        let mut last = LinkFault::new("it has no address");
        for address in addresses {
            let left = until.saturating_duration_since(clock::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => {
                    socket.set_nodelay(true).map_err(|error| fault(&error))?;
                    let stream = Stream::Clear(Timed::new(socket, until));
                    return Ok(LogWire { stream, input: Vec::new(), taken: 0, ahead: 0, until, dropped_by: until });
                }
                Err(error) => last = fault(&error),
            }
        }
        Err(last)
    }

    /// Goes over to TLS. What was said before in clear isn't believed.
    pub fn seal(&mut self, client: &Arc<tls::TlsClient>, host: &str) -> Result<(), LinkFault> {
        (self.input, self.taken, self.ahead) = (Vec::new(), 0, 0);
        match std::mem::replace(&mut self.stream, Stream::Gone) {
            Stream::Clear(socket) => {
                let mut over = Over::client(socket, client, host).map_err(|error| LinkFault::new(error.to_string()))?;
                while !over.shake().map_err(|error| LinkFault::new(format!("TLS: {}", fault(&error))))? {}
                self.stream = Stream::Sealed(Box::new(over));
                Ok(())
            }
            Stream::Sealed(_) | Stream::Gone => Err(LinkFault::new("sealed twice")),
        }
    }

    pub fn until(&mut self, until: Instant) {
        (self.until, self.dropped_by) = (until, clock::now() + DROP_TIME);
        self.end_by(until);
    }

    fn end_by(&mut self, until: Instant) {
        match &mut self.stream {
            Stream::Clear(socket) => socket.end_by(until),
            Stream::Sealed(over) => over.below_mut().end_by(until),
            Stream::Gone => {}
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), LinkFault> {
        let sent = match &mut self.stream {
            Stream::Clear(socket) => socket.write_all(bytes),
            Stream::Sealed(over) => over.write_all(bytes).and_then(|()| over.flush()),
            Stream::Gone => Err(ErrorKind::NotConnected.into()),
        };
        sent.map_err(|error| fault(&error))
    }

    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// Takes `count` bytes, which needn't all have come: the later ones are dropped as they come.
    pub fn take(&mut self, count: usize) {
        let left = self.input.len() - self.taken;
        self.taken += count.min(left);
        self.ahead += count.saturating_sub(left);
    }

    pub fn more(&mut self) -> Result<(), LinkFault> {
        self.input.drain(..std::mem::take(&mut self.taken));
        if self.ahead > 0 {
            return self.drop_ahead();
        }
        self.read()
    }

    /// Drops what was taken before it came. That is long, and may take longer than what is waited for.
    fn drop_ahead(&mut self) -> Result<(), LinkFault> {
        let begun = clock::now();
        while self.ahead > 0 {
            self.end_by((clock::now() + PART_TIME).min(self.dropped_by));
            self.read()?;
            let dropped = self.ahead.min(self.input.len());
            self.input.drain(..dropped);
            self.ahead -= dropped;
        }
        self.until += begun.elapsed();
        self.end_by(self.until);
        Ok(())
    }

    fn read(&mut self) -> Result<(), LinkFault> {
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
            Ok(0) => Err(LinkFault::new("it closed the connection")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(fault(&error)),
        }
    }
}

/// The server's addresses. A resolver takes its own time: a thread waits for it.
fn addresses(server: &LogServer, until: Instant) -> Result<Vec<SocketAddr>, LinkFault> {
    if let Ok(address) = server.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, server.port)]);
    }
    let LogServer { host, port } = server.clone();
    let look = move || base::lookup::addresses(&host, port).map(|found| found.into_iter().take(MANY).collect());
    in_time(until, look)?.map_err(|error| fault(&error))
}

/// Does `work` on a thread of its own, which goes on if it takes longer than that.
fn in_time<T: Send + 'static>(until: Instant, work: impl FnOnce() -> T + Send + 'static) -> Result<T, LinkFault> {
    let (to, done) = sync_channel(1);
    let thread = std::thread::Builder::new().name("lacquer-fleet-n".to_owned());
    // Nobody may wait for it any more.
    thread.spawn(move || to.try_send(work())).map_err(|error| fault(&error))?;
    let left = until.saturating_duration_since(clock::now());
    done.recv_timeout(left).map_err(|_| LinkFault::new("its name can't be resolved in time"))
}

fn fault(error: &io::Error) -> LinkFault {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => LinkFault::new("it doesn't answer in time"),
        ErrorKind::ConnectionRefused => LinkFault::new("nothing listens there"),
        ErrorKind::UnexpectedEof => LinkFault::new("it closed the connection"),
        _ => LinkFault::new(base::text::printable(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection to somebody who says that, and goes on listening.
    fn wire(said: Vec<u8>) -> LogWire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = LogServer { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(&said).unwrap();
            // Until the other end closes.
            let _ = socket.read(&mut [0]);
        });
        LogWire::connect(&server, clock::now() + Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn what_is_taken_before_it_comes_is_never_held() {
        let mut said = vec![b'x'; 3 << 20];
        said.extend_from_slice(b"end");
        let mut wire = wire(said);
        wire.more().unwrap();
        wire.take(3 << 20);
        assert_eq!(wire.input(), b"");
        while wire.input() != b"end" {
            wire.more().unwrap();
            assert!(wire.input().len() <= 3 && wire.input.capacity() <= 4 * READ, "{}", wire.input.capacity());
        }
    }

    #[test]
    fn what_never_comes_is_not_waited_for_without_end() {
        let mut wire = wire(vec![b'x'; 100]);
        wire.more().unwrap();
        wire.take(1000);
        let begun = clock::now();
        assert_eq!(wire.more(), Err(LinkFault::new("it doesn't answer in time")));
        assert!(begun.elapsed() < 10 * PART_TIME);
    }

    #[test]
    fn a_resolver_that_hangs_is_left() {
        let (end, hangs) = sync_channel::<()>(0);
        let begun = clock::now();
        let found = in_time(begun + Duration::from_millis(50), move || hangs.recv().is_ok());
        assert_eq!(found, Err(LinkFault::new("its name can't be resolved in time")));
        assert_eq!(in_time(begun + Duration::from_secs(20), || 7), Ok(7));
        drop(end);
    }
}
