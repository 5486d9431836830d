// SPDX-License-Identifier: BSD-2-Clause
//! A connection to a manager: found, authenticated, and asked whether it lives.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use base::text::bad_address;
use cli::client::ReplyError;
use cli::{CliReply, CliStatus, ReplyDecoder};
use logq::source::strerror;
use shm::reader::who_may_read;
use toolkit::print;

use crate::is_good;

#[derive(Debug)]
pub struct AdminConnection {
    pub stream: TcpStream,
    decoder: ReplyDecoder,
}

/// `host:port`, `[host]:port`, `:port`, or as the manager publishes it: `host port`.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once([':', ' '])?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Some((if host.is_empty() { "localhost" } else { host }, port.parse().ok()?))
}

fn connect(address: &str, timeout: Option<Duration>) -> Result<TcpStream, String> {
    let (host, port) = split(address).ok_or_else(|| match address.starts_with('/') {
        true => "that is a path: -T takes an address and a port, -n a server's working directory".to_owned(),
        false => bad_address(address),
    })?;
    let addresses = base::lookup::addresses(host, port).map_err(|e| strerror(&e))?;
    let mut failure = "no such address".to_owned();
    for address in addresses {
        let stream = match timeout {
            Some(timeout) => TcpStream::connect_timeout(&address, timeout.max(Duration::from_millis(1))),
            None => TcpStream::connect(address),
        };
        match stream {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = strerror(&error),
        }
    }
    Err(failure)
}

fn unreadable(path: &str, error: &io::Error) -> String {
    let text = format!("Cannot open \"{path}\": {}", strerror(error));
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{text}: {}", who_may_read("the secret", Path::new(path))),
        _ => text,
    }
}

impl AdminConnection {
    /// Connects, authenticates and pings.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn open(address: &str, secret: Option<&str>, timeout: Option<Duration>) -> Result<AdminConnection, String> {
        let stream = connect(address, timeout).map_err(|e| format!("Connection failed ({address}): {e}"))?;
        let limit = timeout.filter(|t| !t.is_zero());
        let _ = (stream.set_read_timeout(limit), stream.set_nodelay(true));
        let mut connection = AdminConnection { stream, decoder: ReplyDecoder::new() };
        // A reply that can't be read counts as one of status 400; one of a status nobody has keeps it.
        let lost = |status: i32| {
            let number = if status > 1 { status } else { 400 };
            format!("Rejected {number}\nCLI communication error (hdr)")
        };
        let mut reply = connection.reply().map_err(lost)?;
        if reply.status == CliStatus::Auth {
            let path = secret.ok_or("Authentication required")?;
            let secret = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
            let challenge = cli::auth::CliChallenge::from_reply(&reply.body).ok_or("Authentication required")?;
            let answer = challenge.answer(&secret);
            reply = connection.ask(format!("auth {answer}\n").as_bytes()).map_err(lost)?;
        }
        if !is_good(reply.status) {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            return Err(format!("Rejected {}\n{text}", reply.status.number()));
        }
        let pong = connection.ask(b"ping\n");
        let is_pong = |reply: &CliReply| reply.status == CliStatus::Ok && reply.text().contains("PONG");
        if !pong.as_ref().is_ok_and(is_pong) {
            return Err("No pong received from server".into());
        }
        Ok(connection)
    }

    /// Over a socket that the manager has connected for us and asks no secret on. `timeout`: how long a reply may take.
    ///
    /// # Errors
    /// It doesn't greet us.
    pub fn given(socket: OwnedFd, timeout: Duration) -> Result<AdminConnection, String> {
        // A unix socket, really: what is done with it, reading and writing with time limits, is the same for both.
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(timeout)).map_err(|e| strerror(&e))?;
        let mut connection = AdminConnection { stream, decoder: ReplyDecoder::new() };
        let greeting = connection.reply().map_err(|_| "the manager doesn't greet".to_owned())?;
        if is_good(greeting.status) { Ok(connection) } else { Err(greeting.text().into_owned()) }
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream
            .write_all(bytes)
            .inspect_err(|e| print::err(format_args!("Write error CLI socket: {}\n", strerror(e))))
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// The exit status: 0 when the manager has closed the connection; more than 1 is a status that no reply may have.
    pub fn ask(&mut self, line: &[u8]) -> Result<CliReply, i32> {
        self.send(line).map_err(|_| 1)?;
        self.reply()
    }

    /// Like [`AdminConnection::ask`], for a command that has to succeed.
    ///
    /// # Errors
    /// The refusal, or that the server has gone.
    pub fn ask_for(&mut self, command: &str) -> Result<CliReply, String> {
        let reply = self.ask(format!("{command}\n").as_bytes()).map_err(|_| "the server has gone".to_owned())?;
        if is_good(reply.status) { Ok(reply) } else { Err(crate::refusal(&reply)) }
    }

    /// Waits for a reply.
    ///
    /// # Errors
    /// As [`AdminConnection::ask`].
    pub fn reply(&mut self) -> Result<CliReply, i32> {
        loop {
            if let Some(reply) = self.decoded()? {
                return Ok(reply);
            }
            self.read()?;
        }
    }

    /// A reply, if one is complete; reads once when the socket has something.
    pub fn try_reply(&mut self) -> Result<Option<CliReply>, i32> {
        if let Some(reply) = self.decoded()? {
            return Ok(Some(reply));
        }
        if !sys::fd::wait(&self.stream, sys::fd::Interest::Read, Some(Duration::ZERO)).map_err(|_| 1)? {
            return Ok(None);
        }
        self.read()?;
        self.decoded()
    }

    fn decoded(&mut self) -> Result<Option<CliReply>, i32> {
        self.decoder.next_reply().map_err(|error| match error {
            ReplyError::Status(number) => i32::from(number),
            ReplyError::Head | ReplyError::TooLong | ReplyError::End => {
                print::err(format_args!("{error}\n"));
                1
            }
        })
    }

    fn read(&mut self) -> Result<(), i32> {
        let mut buffer = [0; 16 << 10];
        // A read with a time limit is interrupted, too, when the process is stopped and goes on (signal(7)): it is repeated.
        match sys::fd::read(&self.stream, &mut buffer) {
            Ok(0) => Err(0),
            Ok(n) => {
                self.decoder.feed(&buffer[..n]);
                Ok(())
            }
            Err(error) => {
                print::err(format_args!("CLI communication error: {}\n", strerror(&error)));
                Err(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(split("localhost:80"), Some(("localhost", 80)));
        assert_eq!(split("127.0.0.1 80"), Some(("127.0.0.1", 80)));
        assert_eq!(split("[::1]:80"), Some(("::1", 80)));
        assert_eq!(split("::1 80"), Some(("::1", 80)));
        assert_eq!(split(":80"), Some(("localhost", 80)));
        assert_eq!(split("80"), None);
        assert_eq!(split("x:y"), None);
    }
}
