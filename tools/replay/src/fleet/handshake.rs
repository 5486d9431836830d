// SPDX-License-Identifier: BSD-2-Clause
//! Before a worker takes orders: both ends show that they know the same secret (HMAC-SHA-256 over both ends' random numbers).
//!
//! What follows is neither signed nor hidden: the network between them must be one's own, or a tunnel.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::wire::{Frame, MAX_STRANGER, PROTOCOL, ReplayFrameKind};

/// Longest time of greeting.
const LIMIT: Duration = Duration::from_secs(5);

/// The side that shows that it knows the secret; the other's proof can't be sent back.
#[derive(Clone, Copy)]
enum Role {
    Worker,
    Coordinator,
}

struct Nonces {
    worker: String,
    coordinator: String,
}

fn mac(secret: &[u8], role: Role, nonces: &Nonces) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("HMAC takes keys of any length");
    let role = match role {
        Role::Worker => "worker",
        Role::Coordinator => "coordinator",
    };
    mac.update(format!("lacquer replay {role} {} {}", nonces.worker, nonces.coordinator).as_bytes());
    mac
}

fn proof(secret: &[u8], role: Role, nonces: &Nonces) -> String {
    hex::encode(&mac(secret, role, nonces).finalize().into_bytes())
}

fn is_proven(secret: &[u8], role: Role, nonces: &Nonces, value: &Value) -> bool {
    let given = value["proof"].as_str().and_then(|text| hex::decode(text.as_bytes()));
    given.is_some_and(|given| mac(secret, role, nonces).verify_slice(&given).is_ok())
}

fn nonce() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex::encode(&bytes))
}

/// A stream that gives up at a point in time, however slowly bytes come.
struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(buffer)
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// The worker's side; `busy` says why it can't take a run.
///
/// # Errors
/// The other end isn't a coordinator with the same secret, or was refused.
pub fn by_worker(stream: &TcpStream, secret: &[u8], busy: impl FnOnce() -> Option<String>) -> io::Result<()> {
    let mut from = Timed { stream, end: Instant::now() + LIMIT };
    let mut to = stream;
    stream.set_write_timeout(Some(LIMIT))?;
    let worker = nonce()?;
    Frame::json(ReplayFrameKind::Hello, &json!({"protocol": PROTOCOL, "nonce": worker})).write(&mut to)?;
    let frame = Frame::read(&mut from, MAX_STRANGER)?;
    let value = frame.value()?;
    let nonces = Nonces { worker, coordinator: value["nonce"].as_str().unwrap_or_default().to_owned() };
    let why = if frame.kind != ReplayFrameKind::Proof || value["protocol"] != json!(PROTOCOL) {
        Some("it speaks another version of the protocol".to_owned())
    } else if !is_proven(secret, Role::Coordinator, &nonces, &value) {
        Some("it has another secret (--secret)".to_owned())
    } else {
        busy()
    };
    if let Some(why) = why {
        Frame::text(ReplayFrameKind::No, &why).write(&mut to)?;
        return Err(refused(&why));
    }
    Frame::json(ReplayFrameKind::Welcome, &json!({"proof": proof(secret, Role::Worker, &nonces)})).write(&mut to)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)
}

/// The coordinator's side.
///
/// # Errors
/// The other end isn't a worker with the same secret, or refuses.
pub fn by_coordinator(stream: &TcpStream, secret: &[u8]) -> io::Result<()> {
    let mut from = Timed { stream, end: Instant::now() + LIMIT };
    let mut to = stream;
    stream.set_write_timeout(Some(LIMIT))?;
    let frame = Frame::read(&mut from, MAX_STRANGER)?;
    let value = frame.value()?;
    if frame.kind != ReplayFrameKind::Hello || value["protocol"] != json!(PROTOCOL) {
        return Err(refused("it speaks another version of the protocol"));
    }
    let nonces = Nonces { worker: value["nonce"].as_str().unwrap_or_default().to_owned(), coordinator: nonce()? };
    let own = proof(secret, Role::Coordinator, &nonces);
    let greeting = json!({"protocol": PROTOCOL, "nonce": nonces.coordinator, "proof": own});
    Frame::json(ReplayFrameKind::Proof, &greeting).write(&mut to)?;
    let frame = Frame::read(&mut from, MAX_STRANGER)?;
    if frame.kind == ReplayFrameKind::No {
        return Err(refused(&String::from_utf8_lossy(&frame.payload)));
    }
    if frame.kind != ReplayFrameKind::Welcome || !is_proven(secret, Role::Worker, &nonces, &frame.value()?) {
        return Err(refused("it has another secret (--secret)"));
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(super::SILENCE))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn check(worker: &str, coordinator: &str, busy: Option<&str>) -> (String, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let shown = |result: io::Result<()>| result.map_or_else(|e| e.to_string(), |()| "ok".to_owned());
        std::thread::scope(|scope| {
            let one = scope.spawn(|| shown(by_worker(&far, worker.as_bytes(), || busy.map(str::to_owned))));
            let two = shown(by_coordinator(&near, coordinator.as_bytes()));
            (one.join().unwrap(), two)
        })
    }

    #[test]
    fn only_the_same_secret_opens() {
        let twice = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(check("", "", None), twice("ok"));
        assert_eq!(check("abc", "abc", None), twice("ok"));
        assert_eq!(check("abc", "abd", None), twice("it has another secret (--secret)"));
        assert_eq!(check("abc", "", None), twice("it has another secret (--secret)"));
        assert_eq!(check("abc", "abc", Some("busy")), twice("busy"));
    }

    #[test]
    fn a_proof_of_one_side_is_none_of_the_other() {
        let nonces = Nonces { worker: "a".into(), coordinator: "b".into() };
        let value = json!({"proof": proof(b"s", Role::Worker, &nonces)});
        assert!(is_proven(b"s", Role::Worker, &nonces, &value));
        assert!(!is_proven(b"s", Role::Coordinator, &nonces, &value));
        assert!(!is_proven(b"s", Role::Worker, &nonces, &json!({"proof": "zz"})));
        assert!(!is_proven(b"s", Role::Worker, &nonces, &json!({})));
    }
}
