// SPDX-License-Identifier: BSD-2-Clause
//! Where a tier's members come from: a set of names and addresses that may change. Asked off the serving threads, about once a second.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use super::Member;
use crate::Server;

/// A set of members that may change.
pub trait Membership: Send {
    /// The members now. May block.
    ///
    /// # Errors
    /// Nobody knows now: those that were known stay.
    fn members(&mut self) -> io::Result<Vec<Member>>;

    /// Which of them this node is, where the source knows that better than its settings.
    fn own_name(&self) -> Option<String> {
        None
    }
}

/// Members that an operator has named.
pub struct Fixed(pub Vec<Member>);

impl Membership for Fixed {
    fn members(&mut self) -> io::Result<Vec<Member>> {
        Ok(self.0.clone())
    }
}

/// The addresses that names stand for, each of them a member that is called by its address and port.
pub struct Dns {
    names: Vec<Server>,
    every: Duration,
    looked: Option<Instant>,
    found: Vec<Member>,
    own: Option<String>,
}

impl Dns {
    /// Of these names, looked up again after so long.
    pub fn new(names: Vec<Server>, every: Duration) -> Dns {
        Dns { names, every, looked: None, found: Vec::new(), own: None }
    }
}

impl Membership for Dns {
    fn members(&mut self) -> io::Result<Vec<Member>> {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.every) {
            return Ok(self.found.clone());
        }
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for name in &self.names {
            addresses.extend((name.host.as_str(), name.port).to_socket_addrs()?);
        }
        addresses.sort_unstable();
        addresses.dedup();
        // Only what is an address of this machine can be bound.
        let is_own = |address: &&SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
        self.own = addresses.iter().find(is_own).map(SocketAddr::to_string);
        self.found = addresses.iter().map(member).collect();
        self.looked = Some(Instant::now());
        Ok(self.found.clone())
    }

    fn own_name(&self) -> Option<String> {
        self.own.clone()
    }
}

fn member(address: &SocketAddr) -> Member {
    let server = Server { host: address.ip().to_string(), port: address.port() };
    Member { name: address.to_string(), server, weight: 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_this_machine_makes_it_a_member_that_knows_itself() {
        let mut dns = Dns::new(vec![Server { host: "localhost".to_owned(), port: 8080 }], Duration::from_secs(60));
        let members = dns.members().unwrap();
        assert!(members.iter().any(|one| one.name == "127.0.0.1:8080" || one.name == "[::1]:8080"), "{members:?}");
        assert!(dns.own_name().is_some_and(|own| members.iter().any(|one| one.name == own)));
    }
}
