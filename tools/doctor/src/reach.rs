// SPDX-License-Identifier: BSD-2-Clause
//! Tries a connection to a backend from this machine. Nothing is sent over it.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use logq::source::strerror;

/// The longest that one address is waited for.
const LIMIT: Duration = Duration::from_secs(1);

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
    for target in address.to_socket_addrs()? {
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
