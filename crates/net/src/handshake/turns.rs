// SPDX-License-Identifier: BSD-2-Clause
//! Whose step of a handshake a server does next.
//!
//! Answering a hello takes a thread from a tenth of a millisecond (a session that is taken up again) to a whole one (RSA): nothing else
//! that a client gets so cheaply costs as much. So between two answers a thread does what else is due. Clients have their turns by
//! address: who sends thousands at once holds up neither the connections that there are nor other clients' handshakes. Addresses that
//! have finished a handshake lately ([`known`]) get three answers of four. What a client sends behind its hello has a line of its own,
//! and a turn in each round: it belongs to an answer that was given, and few of those who only want to cost us anything come so far.
//!
//! Who waits is bounded with the handshakes in progress, and in time by each one's deadline.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub mod known;

/// Share of answers for addresses that aren't known, while both wait: one in this many.
const SHARE_OF_STRANGERS: u32 = 4;

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

/// Steps of a handshake that have turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// Answer the client's hello.
    Answer,
    /// Look at what the client sends behind it.
    Next,
}

/// Those of a thread.
#[derive(Default)]
struct Turns {
    /// There is a task that calls those who wait.
    is_paced: bool,
    /// When the last step of each kind was done without one: how often the thread had waited for events then.
    done_at: [Option<u64>; 2],
    known: Line,
    strangers: Line,
    /// Answers to known addresses since one was for a stranger.
    in_a_row: u32,
    next: Line,
}

#[derive(Default)]
struct Line {
    /// The next one first.
    order: VecDeque<IpAddr>,
    /// Their steps, the oldest first.
    waiting: HashMap<IpAddr, VecDeque<Rc<Waiter>>>,
}

#[derive(Default)]
struct Waiter {
    state: Cell<TurnState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum TurnState {
    #[default]
    Waits,
    Called,
    Gone,
}

/// Waits until that step may be done for that client; whether there was anything to wait for. What is done next without a wait is
/// its turn.
pub async fn wait(client: IpAddr, step: HandshakeStep) -> bool {
    let client = network(client);
    let is_known = step == HandshakeStep::Answer && known::is_known(client);
    let joined = TURNS.with_borrow_mut(|turns| turns.join(client, step, is_known, rt::park_count()));
    let Some(Joined { place, is_first }) = joined else { return false };
    if is_first {
        rt::spawn(pace());
    }
    poll_fn(|cx| place.poll(cx)).await;
    true
}

/// A client has finished a handshake: its address is its own, and what it begins next has its turn before those of strangers.
pub fn finished(client: IpAddr) {
    known::learn(network(client));
}

/// Address that counts as one client: of IPv6 the network that is given to one.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
    }
}

/// Calls those who wait, and lets other tasks run, and what the system has to tell be heard, before each round.
async fn pace() {
    let _pacing = Pacing;
    loop {
        rt::yield_now().await;
        let called = TURNS.with_borrow_mut(Turns::round);
        if called.iter().all(Option::is_none) {
            return;
        }
        called.into_iter().flatten().for_each(|waiter| waiter.call());
    }
}

/// There is a task that calls. Should it end before it is done, as its runtime ends, the next one who waits begins another.
struct Pacing;

impl Drop for Pacing {
    fn drop(&mut self) {
        // A thread that is ending paces nobody any more.
        let _ = TURNS.try_with(|turns| turns.borrow_mut().is_paced = false);
    }
}

/// One who has to wait.
struct Joined {
    place: TurnPlace,
    /// Somebody has to call it.
    is_first: bool,
}

impl Turns {
    /// A place among those who wait; `None`: it is this one's turn, the only one of its kind since the thread last waited for events.
    fn join(&mut self, client: IpAddr, step: HandshakeStep, is_known: bool, parks: u64) -> Option<Joined> {
        let done_at = &mut self.done_at[step as usize];
        if !self.is_paced && done_at.replace(parks) != Some(parks) {
            return None;
        }
        let line = match step {
            HandshakeStep::Answer if is_known => &mut self.known,
            HandshakeStep::Answer => &mut self.strangers,
            HandshakeStep::Next => &mut self.next,
        };
        let place = line.join(client);
        Some(Joined { place, is_first: !std::mem::replace(&mut self.is_paced, true) })
    }

    /// The waiters whose turns come now: one for an answer, one for what comes behind it.
    fn round(&mut self) -> [Option<Rc<Waiter>>; 2] {
        [self.answer(), self.next.next()]
    }

    fn answer(&mut self) -> Option<Rc<Waiter>> {
        let is_strangers = self.in_a_row + 1 >= SHARE_OF_STRANGERS;
        let first = if is_strangers { self.strangers.next() } else { None };
        if let Some(waiter) = first.is_none().then(|| self.known.next()).flatten() {
            self.in_a_row = (self.in_a_row + 1).min(SHARE_OF_STRANGERS);
            return Some(waiter);
        }
        self.in_a_row = 0;
        first.or_else(|| self.strangers.next())
    }
}

impl Line {
    fn join(&mut self, client: IpAddr) -> TurnPlace {
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
        TurnPlace(waiter)
    }

    /// The waiter whose turn it is: that of the client that has waited longest for one.
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
        None
    }
}

impl Waiter {
    fn is_gone(&self) -> bool {
        self.state.get() == TurnState::Gone
    }

    fn call(&self) {
        self.state.set(TurnState::Called);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

struct TurnPlace(Rc<Waiter>);

impl TurnPlace {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.0.state.get() == TurnState::Called {
            return Poll::Ready(());
        }
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        self.0.state.set(TurnState::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn join_as(turns: &mut Turns, number: u8, step: HandshakeStep, is_known: bool) -> TurnPlace {
        turns.join(client(number), step, is_known, 0).unwrap().place
    }

    fn join(turns: &mut Turns, number: u8) -> TurnPlace {
        join_as(turns, number, HandshakeStep::Answer, false)
    }

    fn is(waiter: Option<&Rc<Waiter>>, place: &TurnPlace) -> bool {
        waiter.is_some_and(|waiter| Rc::ptr_eq(waiter, &place.0))
    }

    fn is_next(turns: &mut Turns, place: &TurnPlace) -> bool {
        is(turns.answer().as_ref(), place)
    }

    fn is_empty(turns: &Turns) -> bool {
        [&turns.known, &turns.strangers, &turns.next]
            .iter()
            .all(|line| line.order.is_empty() && line.waiting.is_empty())
    }

    /// Somebody was answered before.
    fn busy() -> Turns {
        let mut turns = Turns::default();
        assert!(turns.join(client(1), HandshakeStep::Answer, false, 0).is_none(), "nobody is there");
        turns
    }

    #[test]
    fn clients_take_turns() {
        let mut turns = busy();
        let of_many: Vec<TurnPlace> = (0..3).map(|_| join(&mut turns, 1)).collect();
        let of_one = join(&mut turns, 2);
        assert!(is_next(&mut turns, &of_many[0]) && is_next(&mut turns, &of_one));
        let again = join(&mut turns, 2);
        assert!(is_next(&mut turns, &of_many[1]) && is_next(&mut turns, &again) && is_next(&mut turns, &of_many[2]));
        assert!(turns.answer().is_none() && is_empty(&turns));
    }

    #[test]
    fn one_of_each_kind_is_done_at_once_whenever_the_thread_has_waited() {
        let mut turns = busy();
        let mut is_at_once = |step, parks| match turns.join(client(1), step, false, parks) {
            None => true,
            Some(Joined { place, is_first }) => {
                assert!(is_first);
                drop(place);
                turns.is_paced = false;
                false
            }
        };
        assert!(
            !is_at_once(HandshakeStep::Answer, 0)
                && is_at_once(HandshakeStep::Next, 0)
                && !is_at_once(HandshakeStep::Next, 0)
        );
        assert!(
            is_at_once(HandshakeStep::Answer, 1)
                && !is_at_once(HandshakeStep::Answer, 1)
                && is_at_once(HandshakeStep::Next, 2)
        );
    }

    #[test]
    fn while_some_are_called_all_wait_for_that() {
        let mut turns = busy();
        let first = turns.join(client(1), HandshakeStep::Answer, false, 0).unwrap();
        let second = turns.join(client(1), HandshakeStep::Answer, false, 7).unwrap();
        assert!(first.is_first && !second.is_first);
    }

    #[test]
    fn known_addresses_get_three_of_four_answers_and_all_where_no_stranger_waits() {
        let mut turns = busy();
        let of_known: Vec<TurnPlace> = (0..6).map(|_| join_as(&mut turns, 3, HandshakeStep::Answer, true)).collect();
        let strangers: Vec<TurnPlace> = (10..12).map(|number| join(&mut turns, number)).collect();
        let order = [&of_known[0], &of_known[1], &of_known[2], &strangers[0], &of_known[3], &of_known[4], &of_known[5]];
        for place in order {
            assert!(is_next(&mut turns, place));
        }
        assert!(is_next(&mut turns, &strangers[1]));
        let of_known: Vec<TurnPlace> = (0..6).map(|_| join_as(&mut turns, 3, HandshakeStep::Answer, true)).collect();
        assert!(of_known.iter().all(|place| is_next(&mut turns, place)) && is_empty(&turns));
    }

    #[test]
    fn what_comes_behind_a_hello_has_a_turn_in_each_round() {
        let mut turns = busy();
        let hellos: Vec<TurnPlace> = (0..2).map(|_| join(&mut turns, 1)).collect();
        assert!(turns.join(client(2), HandshakeStep::Next, false, 0).is_some());
        let behind = join_as(&mut turns, 2, HandshakeStep::Next, false);
        let [answer, next] = turns.round();
        assert!(is(answer.as_ref(), &hellos[0]) && is(next.as_ref(), &behind));
        let [answer, next] = turns.round();
        assert!(is(answer.as_ref(), &hellos[1]) && next.is_none() && is_empty(&turns));
    }

    #[test]
    fn who_has_gone_has_no_turn_and_leaves_nothing_behind() {
        let mut turns = busy();
        drop((0..1000).map(|_| join(&mut turns, 1)).collect::<Vec<_>>());
        let stays = join(&mut turns, 1);
        assert_eq!(turns.strangers.waiting[&client(1)].len(), 1, "the others are forgotten when one more comes");
        drop(join(&mut turns, 2));
        assert!(is_next(&mut turns, &stays) && turns.answer().is_none() && is_empty(&turns));
    }
}
