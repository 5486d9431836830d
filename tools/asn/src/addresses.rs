// SPDX-License-Identifier: BSD-2-Clause
//! The list of addresses that a service is asked for in bulk: of each network one, so that no visitor's own address leaves
//! the house.

use std::collections::BTreeSet;
use std::net::IpAddr;

use accesslog::AccessEntry;
use networks::{address, masked};

/// Most networks that are kept.
const MOST: usize = 5_000_000;

/// The clients' networks: no BGP announcement of the Internet is narrower than a /24 or /48.
#[derive(Default)]
pub struct ClientNetworks {
    networks: BTreeSet<IpAddr>,
    /// Entries left out: those without an address, those of private networks, those beyond [`MOST`].
    no_address: u64,
    private: u64,
    too_many: u64,
}

impl ClientNetworks {
    pub fn add(&mut self, entry: &AccessEntry<'_>) {
        let Some(address) = entry.client.as_deref().and_then(address) else {
            self.no_address += 1;
            return;
        };
        if is_private(address) {
            self.private += 1;
            return;
        }
        let network = masked(address, if address.is_ipv4() { 24 } else { 48 });
        if self.networks.len() < MOST || self.networks.contains(&network) {
            self.networks.insert(network);
        } else {
            self.too_many += 1;
        }
    }

    /// The text that `nc whois.cymru.com 43` takes; nothing if there is none.
    pub fn text(&self) -> String {
        if self.networks.is_empty() {
            return String::new();
        }
        let lines: String = self.networks.iter().map(|network| format!("{network}\n")).collect();
        format!("begin\nverbose\n{lines}end\n")
    }

    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    pub fn remarks(&self) -> Vec<String> {
        let counts = [
            (self.no_address, "requests whose client is no address"),
            (self.private, "requests from private addresses"),
            (self.too_many, "requests from more networks than are listed"),
        ];
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what} left out")).collect()
    }
}

/// Nobody announces it on the Internet.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast()
        }
        IpAddr::V6(v6) => {
            v6.is_unique_local()
                || v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6.is_multicast()
        }
    }
}
