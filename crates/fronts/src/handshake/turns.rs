// SPDX-License-Identifier: BSD-2-Clause
//! Whose hello is answered next.
//!
//! Answering one takes a thread from a tenth of a millisecond (a session that is taken up again) to a whole one (RSA): nothing else
//! that a client gets so cheaply costs as much. So a thread answers one at a time and does what else is due in between, and clients
//! have their turns by address: who sends thousands at once holds up neither the connections that there are nor other clients'
//! handshakes.
//!
//! Who waits is bounded with the handshakes in progress, and in time by each one's deadline.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

/// Those of a thread.
#[derive(Default)]
struct Turns {
    /// One was answered, and other tasks haven't had their turn since.
    is_paced: bool,
    /// Clients that wait, the next one first.
    order: VecDeque<IpAddr>,
    /// Their hellos, the oldest first.
    waiting: HashMap<IpAddr, VecDeque<Rc<Waiter>>>,
}

#[derive(Default)]
struct Waiter {
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waits,
    /// Its turn has come.
    Called,
    /// It waits no more.
    Gone,
}

/// Waits until a hello of that client may be answered; whether there was anything to wait for. What is done next without a wait is
/// its turn.
pub(super) async fn wait(client: IpAddr) -> bool {
    let joined = TURNS.with_borrow_mut(|turns| turns.join(network(client)));
    match joined {
        Some(place) => {
            poll_fn(|cx| place.poll(cx)).await;
            true
        }
        None => {
            rt::spawn(pace());
            false
        }
    }
}

/// What counts as one client: of IPv6 the network that is given to one.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

/// Calls one after the other, and lets other tasks run, and what the system has to tell be heard, before each.
async fn pace() {
    let _pacing = Pacing;
    loop {
        rt::yield_now().await;
        match TURNS.with_borrow_mut(Turns::next) {
            Some(waiter) => waiter.call(),
            None => return,
        }
    }
}

/// There is a task that calls. Should it end before it is done, as its runtime ends, the next hello begins another.
struct Pacing;

impl Drop for Pacing {
    fn drop(&mut self) {
        // A thread that is ending paces nobody any more.
        let _ = TURNS.try_with(|turns| turns.borrow_mut().is_paced = false);
    }
}

impl Turns {
    /// A place among those who wait; `None`: it is this one's turn, and then somebody has to pace the others.
    fn join(&mut self, client: IpAddr) -> Option<Place> {
        if !self.is_paced {
            self.is_paced = true;
            return None;
        }
        let queue = self.waiting.entry(client).or_insert_with(|| {
            self.order.push_back(client);
            VecDeque::new()
        });
        // All have the same patience: who has lost it stands in front.
        while queue.front().is_some_and(|waiter| waiter.is_gone()) {
            queue.pop_front();
        }
        let waiter = Rc::new(Waiter::default());
        queue.push_back(waiter.clone());
        Some(Place(waiter))
    }

    /// Whose turn it is: the client's that has waited longest for one.
    fn next(&mut self) -> Option<Rc<Waiter>> {
        while let Some(client) = self.order.pop_front() {
            let Some(queue) = self.waiting.get_mut(&client) else { continue };
            let mut next = queue.pop_front();
            while next.as_ref().is_some_and(|waiter| waiter.is_gone()) {
                next = queue.pop_front();
            }
            match queue.is_empty() {
                true => _ = self.waiting.remove(&client),
                false => self.order.push_back(client),
            }
            if next.is_some() {
                return next;
            }
        }
        self.is_paced = false;
        None
    }
}

impl Waiter {
    fn is_gone(&self) -> bool {
        self.state.get() == State::Gone
    }

    fn call(&self) {
        self.state.set(State::Called);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One who waits.
struct Place(Rc<Waiter>);

impl Place {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.0.state.get() == State::Called {
            return Poll::Ready(());
        }
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.state.set(State::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    /// Joins, and who it is can be told by the address of its waiter.
    fn join(turns: &mut Turns, number: u8) -> Place {
        turns.join(client(number)).unwrap()
    }

    fn is_next(turns: &mut Turns, place: &Place) -> bool {
        turns.next().is_some_and(|waiter| Rc::ptr_eq(&waiter, &place.0))
    }

    #[test]
    fn the_first_one_waits_for_nobody_and_clients_take_turns_behind_it() {
        let mut turns = Turns::default();
        assert!(turns.join(client(1)).is_none(), "nobody is there");
        let of_many: Vec<Place> = (0..3).map(|_| join(&mut turns, 1)).collect();
        let of_one = join(&mut turns, 2);
        assert!(is_next(&mut turns, &of_many[0]) && is_next(&mut turns, &of_one));
        let again = join(&mut turns, 2);
        assert!(is_next(&mut turns, &of_many[1]) && is_next(&mut turns, &again) && is_next(&mut turns, &of_many[2]));
        assert!(turns.next().is_none() && turns.waiting.is_empty() && turns.order.is_empty());
        assert!(turns.join(client(1)).is_none(), "nobody is there any more");
    }

    #[test]
    fn who_has_gone_has_no_turn_and_leaves_nothing_behind() {
        let mut turns = Turns::default();
        assert!(turns.join(client(1)).is_none());
        drop((0..1000).map(|_| join(&mut turns, 1)).collect::<Vec<_>>());
        let stays = join(&mut turns, 1);
        assert_eq!(turns.waiting[&client(1)].len(), 1, "the others are forgotten when one more comes");
        drop(join(&mut turns, 2));
        assert!(is_next(&mut turns, &stays) && turns.next().is_none());
        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }
}
