// SPDX-License-Identifier: BSD-2-Clause
//! Addresses of clients that have finished a handshake lately, with any thread of the server.
//!
//! There are two sets. What is learned or seen again goes into the young one; when that is full or old it becomes the old one, and what
//! was old is forgotten. So an address is known for [`AGE`] at least where the sets don't overflow, and the sets are bounded.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use base::lock::Mutex;
use rt::Instant;

use super::network;

/// Time for which the young set is filled.
const AGE: Duration = Duration::from_secs(600);
/// Addresses in each of the two.
const MAX: usize = 16_384;

/// See the module. One for all listeners of a server.
#[derive(Debug, Default)]
pub struct KnownClients(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    young: HashSet<IpAddr>,
    old: HashSet<IpAddr>,
    since: Instant,
}

impl KnownClients {
    pub(crate) fn has(&self, client: IpAddr) -> bool {
        self.0.lock().as_ref().is_some_and(|known| known.has(network(client)))
    }

    /// Notes that a client has finished a handshake: its address is its own, and what it begins next has its turn
    /// before strangers.
    pub(crate) fn learn(&self, client: IpAddr) {
        let now = Instant::now();
        self.0.lock().get_or_insert_with(|| Known::new(now)).learn(network(client), now);
    }
}

impl Known {
    fn new(now: Instant) -> Self {
        Known { young: HashSet::new(), old: HashSet::new(), since: now }
    }

    fn has(&self, client: IpAddr) -> bool {
        self.young.contains(&client) || self.old.contains(&client)
    }

    fn learn(&mut self, client: IpAddr, now: Instant) {
        if self.young.len() >= MAX || now.saturating_duration_since(self.since) >= AGE {
            self.old = std::mem::take(&mut self.young);
            self.since = now;
        }
        self.young.insert(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn who_comes_again_stays_known_and_others_are_forgotten() {
        let begin = Instant::now();
        let mut known = Known::new(begin);
        (1..=2).for_each(|number| known.learn(client(number), begin));
        assert!(known.has(client(1)) && known.has(client(2)) && !known.has(client(3)));
        known.learn(client(1), begin + AGE);
        assert!(known.has(client(1)) && known.has(client(2)), "both sets count");
        known.learn(client(1), begin + AGE * 2);
        assert!(known.has(client(1)) && !known.has(client(2)));
    }

    #[test]
    fn there_are_not_more_than_so_many() {
        let begin = Instant::now();
        let mut known = Known::new(begin);
        for number in 0..5 * MAX as u32 {
            known.learn(client(number), begin);
            assert!(known.has(client(number)) && known.young.len() + known.old.len() <= 2 * MAX);
        }
    }
}
