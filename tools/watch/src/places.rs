// SPDX-License-Identifier: BSD-2-Clause
//! Limits on connections, in total and per client. No client can lock others out: when a limit is reached, the oldest connection is closed,
//! so a probe of `/healthz` always gets in. Viewers, who receive updates, keep their connections; only a part of the slots may be theirs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

use tokio::sync::Notify;

/// Maximum number of connections.
const MOST: usize = 4_000;
/// Maximum number of connections of one client, or of an IPv6 network of 64 bits.
const MOST_OF_CLIENT: usize = 2_000;
const MOST_VIEWERS: usize = 3_000;

#[derive(Default, Clone)]
pub struct Places(Rc<RefCell<Book>>);

#[derive(Default)]
struct Book {
    next: u64,
    viewers: usize,
    clients: HashMap<IpAddr, usize>,
    /// Connections that can be closed for others, the oldest first.
    guests: BTreeMap<u64, (IpAddr, Rc<Notify>)>,
}

/// A connection's slot, until it is dropped.
pub struct ViewerSlot {
    places: Places,
    number: u64,
    client: IpAddr,
    is_viewers: Cell<bool>,
    bell: Rc<Notify>,
}

impl Places {
    /// A slot for a connection of this client. `None` if viewers have all of the client's slots, or all slots.
    pub fn enter(&self, client: IpAddr) -> Option<ViewerSlot> {
        let client = network(client);
        let mut book = self.0.borrow_mut();
        if book.clients.get(&client).is_some_and(|count| *count >= MOST_OF_CLIENT) {
            let own = book.guests.iter().find(|(_, (other, _))| *other == client).map(|(number, _)| *number);
            book.call(own?);
        }
        if book.guests.len() + book.viewers >= MOST {
            book.call_oldest()?;
        }
        let (number, bell) = (book.next, Rc::<Notify>::default());
        book.next += 1;
        *book.clients.entry(client).or_default() += 1;
        book.guests.insert(number, (client, bell.clone()));
        Some(ViewerSlot { places: self.clone(), number, client, is_viewers: Cell::new(false), bell })
    }

    /// Closes the oldest connection, because no file descriptor is left for a new one.
    pub fn end_oldest(&self) {
        self.0.borrow_mut().call_oldest();
    }
}

impl Book {
    fn call_oldest(&mut self) -> Option<()> {
        let oldest = self.guests.first_key_value().map(|(number, _)| *number)?;
        self.call(oldest);
        Some(())
    }

    /// Tells the connection to end, and frees its slot.
    fn call(&mut self, number: u64) {
        let Some((client, bell)) = self.guests.remove(&number) else { return };
        self.leave(client);
        bell.notify_one();
    }

    fn leave(&mut self, client: IpAddr) {
        if let Some(count) = self.clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&client);
            }
        }
    }
}

impl ViewerSlot {
    /// Resolves when the slot was given to another connection.
    pub async fn called(&self) {
        self.bell.notified().await;
    }

    /// Makes the connection a viewer's, which is never ended for another one. Returns `false` if there are too many viewers.
    pub fn stay(&self) -> bool {
        let mut book = self.places.0.borrow_mut();
        let stays = book.viewers < MOST_VIEWERS && book.guests.remove(&self.number).is_some();
        book.viewers += usize::from(stays);
        self.is_viewers.set(stays);
        stays
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        let mut book = self.places.0.borrow_mut();
        if self.is_viewers.get() {
            book.viewers -= 1;
            book.leave(self.client);
        } else if book.guests.remove(&self.number).is_some() {
            // A connection that was told to end has already left.
            book.leave(self.client);
        }
    }
}

/// The network that counts as one client: an IPv6 network of 64 bits, or an IPv4 address.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn is_called(place: &ViewerSlot) -> bool {
        !place.is_viewers.get() && !place.places.0.borrow().guests.contains_key(&place.number)
    }

    #[test]
    fn one_client_loses_its_own_oldest_and_nobody_elses() {
        let places = Places::default();
        let other = places.enter(client(1)).unwrap();
        let crowd: Vec<ViewerSlot> = (0..MOST_OF_CLIENT + 5).map(|_| places.enter(client(2)).unwrap()).collect();
        assert!(crowd[..5].iter().all(is_called) && !crowd[5..].iter().any(is_called) && !is_called(&other));
        drop((crowd, other));
        let book = places.0.borrow();
        assert_eq!((book.clients.len(), book.guests.len(), book.viewers), (0, 0, 0));
    }

    #[test]
    fn a_probe_gets_in_where_all_places_are_taken() {
        let places = Places::default();
        let crowd: Vec<ViewerSlot> = (0..MOST as u32).map(|n| places.enter(client(n / 500)).unwrap()).collect();
        let staying = crowd.iter().filter(|place| place.stay()).count();
        assert_eq!(staying, MOST_VIEWERS);
        let probe = places.enter(client(99)).unwrap();
        let called: Vec<usize> = (0..MOST).filter(|n| is_called(&crowd[*n])).collect();
        assert_eq!((called, is_called(&probe)), (vec![MOST_VIEWERS], false), "the oldest that is no viewer");
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:ffff::4"));
        assert_ne!(of("2001:db8:1:2::3"), of("2001:db8:1:3::3"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
