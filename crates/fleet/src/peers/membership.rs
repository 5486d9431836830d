// SPDX-License-Identifier: BSD-2-Clause
//! Where a tier's members come from: a set of names and addresses that may change. Asked off the serving threads, about once a second.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::settings::{MANY, is_name};
use super::{MembershipProof, TierMember};
use crate::board::LEASE;
use crate::{FleetSettings, KnownNodes, LogServer, Node};
use base::clock;

pub trait Membership: Send {
    /// The members now. May block.
    ///
    /// # Errors
    /// Nobody knows now: those that were known stay.
    fn members(&mut self) -> io::Result<Vec<TierMember>>;

    /// Name of this node among them, where the source knows that better than its settings.
    fn own_name(&self) -> Option<String> {
        None
    }
}

pub struct Fixed(pub Vec<TierMember>);

impl Membership for Fixed {
    fn members(&mut self) -> io::Result<Vec<TierMember>> {
        Ok(self.0.clone())
    }
}

/// The addresses that names stand for, each of them a member that is called by its address and port.
pub struct Dns {
    names: Vec<LogServer>,
    every: Duration,
    looked: Option<Instant>,
    found: Vec<TierMember>,
    own: Option<String>,
}

impl Dns {
    /// Members at these names, which are looked up again after that time.
    pub fn new(names: Vec<LogServer>, every: Duration) -> Dns {
        Dns { names, every, looked: None, found: Vec::new(), own: None }
    }
}

impl Membership for Dns {
    fn members(&mut self) -> io::Result<Vec<TierMember>> {
        if self.looked.is_some_and(|looked| looked.elapsed() < self.every) {
            return Ok(self.found.clone());
        }
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for name in &self.names {
            addresses.extend(base::lookup::addresses(&name.host, name.port)?);
        }
        addresses.sort_unstable();
        addresses.dedup();
        // Only what is an address of this machine can be bound.
        let is_own = |address: &&SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
        self.own = addresses.iter().find(is_own).map(SocketAddr::to_string);
        self.found = addresses.iter().map(member).collect();
        self.looked = Some(clock::now());
        Ok(self.found.clone())
    }

    fn own_name(&self) -> Option<String> {
        self.own.clone()
    }
}

/// The nodes of this node's group that are there, and whose reports say, by a code that only members can make, that they are members. While
/// the board is away, and until all have had time to report once it is back, those that were known stay.
pub struct OfFleet {
    node: Node,
    secret: Vec<u8>,
    kept: Vec<TierMember>,
    /// Time since which the board is known without a break.
    since: Option<Instant>,
}

impl OfFleet {
    pub fn new(node: Node, secret: &[u8]) -> OfFleet {
        OfFleet { node, secret: secret.to_vec(), kept: Vec::new(), since: None }
    }

    fn renew(&mut self, known: &KnownNodes, now: Instant) -> io::Result<Vec<TierMember>> {
        if let Some((_, why)) = &known.away {
            self.since = None;
            return Err(io::Error::other(why.clone()));
        }
        let since = *self.since.get_or_insert(now);
        let there = known.members.iter().filter(|member| !member.is_away());
        let mut found: Vec<TierMember> =
            there.filter_map(|member| peer(&self.secret, self.node.settings(), member)).take(MANY).collect();
        if now.duration_since(since) < LEASE {
            let is_lost = |one: &&TierMember| found.iter().all(|other| other.name != one.name);
            let lost: Vec<TierMember> = self.kept.iter().filter(is_lost).cloned().collect();
            found.extend(lost);
        }
        self.kept.clone_from(&found);
        Ok(found)
    }
}

impl Membership for OfFleet {
    fn members(&mut self) -> io::Result<Vec<TierMember>> {
        self.renew(&self.node.members(), clock::now())
    }
}

fn peer(secret: &[u8], own: &FleetSettings, node: &crate::KnownNode) -> Option<TierMember> {
    let (report, name) = (&node.report, &node.name);
    let (joined, address): (&MembershipProof, _) = (report.peer.as_ref()?, report.address.as_deref()?);
    if report.group != own.group || !is_name(name) || !joined.is_of(secret, &own.name, name, &report.group, address) {
        return None;
    }
    let server = LogServer::parse(address, 0).filter(|server| server.port != 0)?;
    Some(TierMember { name: name.clone(), server, weight: joined.weight })
}

fn member(address: &SocketAddr) -> TierMember {
    let server = LogServer { host: address.ip().to_string(), port: address.port() };
    TierMember { name: address.to_string(), server, weight: 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"what all members have in common";

    fn settings(node: &str, group: &str) -> FleetSettings {
        FleetSettings::parse(&format!("nats://a,node={node},group={group},address={node}.example:80")).unwrap()
    }

    fn reported(node: &str, group: &str, secret: &[u8], age: u64) -> crate::KnownNode {
        let settings = settings(node, group);
        let report = crate::NodeReport {
            peer: MembershipProof::new(secret, &settings, 2.0),
            address: settings.address,
            group: settings.group,
            ..crate::NodeReport::default()
        };
        // As it comes over the board.
        let report = crate::NodeReport::read(report.json().to_string().as_bytes()).unwrap();
        crate::KnownNode { name: node.to_owned(), age: Duration::from_secs(age), report }
    }

    fn known(members: Vec<crate::KnownNode>) -> KnownNodes {
        KnownNodes { members, looked: Duration::ZERO, away: None }
    }

    fn names(found: &io::Result<Vec<TierMember>>) -> Vec<&str> {
        found.as_ref().unwrap().iter().map(|member| &member.name[..]).collect()
    }

    #[test]
    fn nodes_that_say_so_by_the_secret_are_members() {
        let mut source = OfFleet::new(Node::new(settings("a", "g")), SECRET);
        let (a, b) = (reported("a", "g", SECRET, 0), reported("b", "g", SECRET, 0));
        let found = source.renew(&known(vec![a.clone(), b.clone()]), clock::now()).unwrap();
        let server = LogServer { host: "b.example".to_owned(), port: 80 };
        assert_eq!(found[1], TierMember { name: "b".to_owned(), server, weight: 2.0 });
        let mut none = vec![
            reported("c", "other", SECRET, 0),
            reported("d", "g", b"a secret that is guessed", 0),
            reported("e", "g", SECRET, 6),
        ];
        // What another node has said, said by one without the secret: of itself, of another place, with another share, in another group.
        for change in [
            |f: &mut crate::KnownNode| f.name = "f".to_owned(),
            |f: &mut crate::KnownNode| f.report.address = Some("elsewhere.example:80".to_owned()),
            |f: &mut crate::KnownNode| f.report.peer.as_mut().unwrap().weight = 100.0,
            |f: &mut crate::KnownNode| f.report.group = "G".to_owned(),
            |f: &mut crate::KnownNode| f.report.peer = None,
        ] {
            let mut forged = b.clone();
            change(&mut forged);
            none.push(forged);
        }
        let mut source = OfFleet::new(Node::new(settings("a", "g")), SECRET);
        for node in none {
            assert_eq!(names(&source.renew(&known(vec![a.clone(), node]), clock::now())), ["a"]);
        }
    }

    #[test]
    fn members_stay_while_nobody_knows() {
        let mut source = OfFleet::new(Node::new(settings("a", "g")), SECRET);
        let (a, b, begun) = (reported("a", "g", SECRET, 0), reported("b", "g", SECRET, 0), clock::now());
        assert_eq!(names(&source.renew(&known(vec![a.clone(), b.clone()]), begun)), ["a", "b"]);
        let away = KnownNodes { away: Some((begun, "gone".to_owned())), ..known(Vec::new()) };
        assert!(source.renew(&away, begun + LEASE).is_err());
        // A board that has come back knows of nobody yet.
        let back = begun + 4 * LEASE;
        assert_eq!(names(&source.renew(&known(vec![a.clone()]), back)), ["a", "b"]);
        assert_eq!(names(&source.renew(&known(vec![a.clone(), b]), back + LEASE / 2)), ["a", "b"]);
        assert_eq!(names(&source.renew(&known(vec![a]), back + LEASE)), ["a"]);
    }

    #[test]
    fn a_name_of_this_machine_makes_it_a_member_that_knows_itself() {
        let mut dns = Dns::new(vec![LogServer { host: "localhost".to_owned(), port: 8080 }], Duration::from_secs(60));
        let members = dns.members().unwrap();
        assert!(members.iter().any(|one| one.name == "127.0.0.1:8080" || one.name == "[::1]:8080"), "{members:?}");
        assert!(dns.own_name().is_some_and(|own| members.iter().any(|one| one.name == own)));
    }
}
