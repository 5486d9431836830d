// SPDX-License-Identifier: BSD-2-Clause
//! -T: addresses where the CLI listens. -M: addresses that the CLI connects to, again and again until somebody answers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use base::clock::Mono;
use sys::fd::Interest;
use sys::holder::{self, SocketProtocol};
use sys::sock::{self, SocketName};

use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::listen::resolve;
use crate::report::{ReportSeverity, print};

/// Default of -T: a port of the kernel's choice on this machine only.
pub const DEFAULT_CLI: &str = "localhost:0";

/// Connections that wait to be taken.
const BACKLOG: i32 = 128;

/// Listens on every address that the argument names; adds a line `addr port` for each to `lines`.
pub fn listen(arg: &str, jail: &Jail, lines: &mut String) -> Result<Vec<OwnedFd>, Fatal> {
    let addresses = resolve(arg, 0)
        .map_err(|reason| Fatal::Argument(format!("Could not resolve -T argument to address\n\t{reason}")))?;
    let (mut sockets, mut failure) = (Vec::new(), None);
    for address in addresses {
        match jail.privileged(|| sock::bind_tcp_group(address, 1)).and_then(listening) {
            Ok(group) => group.into_iter().for_each(|(socket, bound)| {
                lines.push_str(&format!("{} {}\n", bound.ip(), bound.port()));
                sockets.push(socket);
            }),
            Err(error) => failure = Some((address, error)),
        }
    }
    match failure {
        Some((address, error)) if sockets.is_empty() => {
            let by = jail.privileged(|| holder::of(address, SocketProtocol::Tcp));
            let by = by.map(|holder| format!(" It is taken by {holder}.")).unwrap_or_default();
            let reason = errno_text(&error);
            argument(format!(
                "-T {arg} could not be listened on: {reason}.{by} Name a free address and port of this machine"
            ))
        }
        _ => Ok(sockets),
    }
}

/// The sockets, listening, each with its address.
fn listening(group: Vec<OwnedFd>) -> io::Result<Vec<(OwnedFd, SocketAddr)>> {
    let begun = group.into_iter().map(|socket| {
        sock::listen(&socket, BACKLOG)?;
        sys::fd::set_nonblocking(&socket, true)?;
        match sock::local_name(&socket)? {
            SocketName::Inet(bound) => Ok((socket, bound)),
            _ => Err(io::Error::other("it has no address of the internet")),
        }
    });
    begun.collect()
}

/// Both ends of a connection, as sessions are called: `telnet <peer> <port> <own> <port>`.
pub fn identity(kind: &str, socket: &OwnedFd) -> String {
    let word = |name: std::io::Result<SocketName>| match name {
        Ok(SocketName::Inet(address)) => format!("{} {}", address.ip(), address.port()),
        Ok(SocketName::Unix(path)) => format!("{} -", path.display()),
        Err(_) => "? ?".into(),
    };
    format!("{kind} {} {}", word(sock::peer_name(socket)), word(sock::local_name(socket)))
}

/// The pause before the next attempt, after a connection that succeeded; it grows by this much with each failure.
const STEP: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum CliTcpState {
    Waiting { until: Mono },
    Connecting(OwnedFd),
    Connected,
}

/// Connects to one of some addresses and does so again when the connection ends.
#[derive(Debug)]
pub struct Masters {
    addresses: Vec<SocketAddr>,
    next: usize,
    pause: Duration,
    state: CliTcpState,
}

impl Masters {
    /// Resolves the arguments; None when there are none.
    pub fn new(args: &[String], now: Mono) -> Result<Option<Masters>, Fatal> {
        let mut addresses = Vec::new();
        for arg in args {
            let found = resolve(arg, 0)
                .map_err(|reason| Fatal::Argument(format!("Could not resolve -M argument to address\n\t{reason}")))?;
            addresses.extend(found);
        }
        if addresses.is_empty() {
            return if args.is_empty() { Ok(None) } else { argument("Could not resolve -M argument to address") };
        }
        Ok(Some(Masters {
            addresses,
            next: 0,
            pause: Duration::from_millis(100),
            state: CliTcpState::Waiting { until: now },
        }))
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// One that knew these addresses before; None when there are none. `is_connected`: a session has the connection.
    pub fn resume(addresses: Vec<SocketAddr>, is_connected: bool, now: Mono) -> Option<Masters> {
        let state = if is_connected { CliTcpState::Connected } else { CliTcpState::Waiting { until: now } };
        (!addresses.is_empty()).then_some(Masters { addresses, next: 0, pause: STEP, state })
    }

    pub fn descriptor(&self) -> Option<(std::os::fd::BorrowedFd<'_>, Interest)> {
        match &self.state {
            CliTcpState::Connecting(socket) => Some((socket.as_fd(), Interest::Write)),
            CliTcpState::Waiting { .. } | CliTcpState::Connected => None,
        }
    }

    pub fn due(&self) -> Option<Mono> {
        match self.state {
            CliTcpState::Waiting { until } => Some(until),
            CliTcpState::Connecting(_) | CliTcpState::Connected => None,
        }
    }

    /// Tries, if it's time; gives a connection that was made.
    pub fn poll(&mut self, now: Mono) -> Option<OwnedFd> {
        if matches!(self.state, CliTcpState::Waiting { until } if until <= now) {
            let address = self.addresses[self.next];
            self.state = match sock::start_connect_tcp(address) {
                Ok(socket) => CliTcpState::Connecting(socket),
                Err(_) => CliTcpState::Waiting { until: now + self.pause },
            };
        }
        let CliTcpState::Connecting(socket) = &self.state else { return None };
        if !sys::fd::wait(socket, Interest::Write, Some(Duration::ZERO)).unwrap_or(true) {
            return None;
        }
        let failure = match sock::take_error(socket) {
            Ok(None) => None,
            Ok(Some(e)) | Err(e) => Some(e),
        };
        let CliTcpState::Connecting(socket) = std::mem::replace(&mut self.state, CliTcpState::Connected) else {
            return None;
        };
        match failure {
            None => {
                self.pause = STEP;
                Some(socket)
            }
            Some(e) => {
                print(ReportSeverity::Info, &format!("Could not connect to CLI-master: {}", errno_text(&e)));
                self.next = (self.next + 1) % self.addresses.len();
                self.state = CliTcpState::Waiting { until: now + self.pause };
                self.pause = if self.pause < LONGEST_PAUSE { self.pause + STEP } else { self.pause };
                None
            }
        }
    }

    pub fn closed(&mut self, now: Mono) {
        self.state = CliTcpState::Waiting { until: now + self.pause };
    }
}
