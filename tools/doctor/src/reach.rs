// SPDX-License-Identifier: BSD-2-Clause
//! Tries a connection to a backend from this machine. Nothing is sent over it.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use base::lookup::addresses_of_text;
use logq::source::strerror;

use crate::server::ListedBackend;

/// The longest that one address is waited for.
const LIMIT: Duration = Duration::from_secs(1);

/// Time that all backends together may take. A socket whose queue is full and a name server that is silent have no limit of their own.
const LIMIT_OF_ALL: Duration = Duration::from_secs(3);

/// Connects to these backends at the same time, and notes what happened.
pub fn reach_all<'b>(backends: impl Iterator<Item = &'b mut ListedBackend>) {
    let until = Instant::now() + LIMIT_OF_ALL;
    let tried: Vec<_> = backends
        .map(|backend| {
            let (result, address) = (mpsc::channel(), backend.address.clone());
            let (sender, receiver) = result;
            let thread = thread::Builder::new().spawn(move || sender.send(reach(&address)));
            (backend, thread.is_ok().then_some(receiver))
        })
        .collect();
    for (backend, receiver) in tried {
        let Some(receiver) = receiver else { continue };
        backend.reached = match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(reached) => reached,
            Err(_) => Some(format!("{}: nothing within {} s", backend.address, LIMIT_OF_ALL.as_secs())),
        };
    }
}

/// Connects to the first of these addresses that takes a connection; they are separated by `, `. Each address and what happened, or
/// `None` if there is no address.
pub fn reach(addresses: &str) -> Option<String> {
    let mut tried = Vec::new();
    for address in addresses.split(", ").filter(|address| address.starts_with('/') || address.contains(':')) {
        let begin = Instant::now();
        let result = connect(address);
        let is_there = result.is_ok();
        let what = match result {
            Ok(()) => format!("accepted after {:.1} ms", begin.elapsed().as_secs_f64() * 1e3),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => format!("nothing within {} s", LIMIT.as_secs()),
            Err(error) => strerror(&error),
        };
        tried.push(format!("{address}: {what}"));
        if is_there {
            break;
        }
    }
    (!tried.is_empty()).then(|| tried.join(", "))
}

fn connect(address: &str) -> io::Result<()> {
    if address.starts_with('/') {
        return UnixStream::connect(address).map(drop);
    }
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for target in addresses_of_text(address)? {
        match TcpStream::connect_timeout(&target, LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn each_address_is_tried_until_one_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let said = reach(&format!("{there}, {gone}")).unwrap();
        assert!(said.starts_with(&format!("{there}: accepted after ")) && !said.contains(&gone.to_string()), "{said}");
        let said = reach(&format!("{gone}, {there}")).unwrap();
        assert!(said.starts_with(&format!("{gone}: Connection refused, {there}: accepted after ")), "{said}");
        assert_eq!(reach("/nonexistent/socket").as_deref(), Some("/nonexistent/socket: No such file or directory"));
        assert_eq!(reach(""), None);
        assert_eq!(reach("no address"), None);
    }
}
