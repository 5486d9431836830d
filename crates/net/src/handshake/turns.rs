// SPDX-License-Identifier: BSD-2-Clause
//! Whose step of a handshake a server does next.
//!
//! Answering a hello takes a thread from a tenth of a millisecond (a session that is taken up again) to a whole one (RSA): nothing else
//! that a client gets so cheaply costs as much. So between two answers a thread does what else is due. Clients have their turns by
//! address: who sends thousands at once holds up neither the connections that there are nor other clients' handshakes. Addresses that
//! have finished a handshake lately ([`KnownClients`](known::KnownClients)) get three answers of four. What a client sends behind its hello has a line of its own,
//! and a turn in each round: it belongs to an answer that was given, and few of those who only want to cost us anything come so far.
//!
//! Who waits is bounded with the handshakes in progress, and in time by each one's deadline.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};

use sync::{Called, Line, Turn};

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
    known: ClientLines,
    strangers: ClientLines,
    /// Answers to known addresses since one was for a stranger.
    in_a_row: u32,
    next: ClientLines,
}

/// A line for each client.
#[derive(Default)]
struct ClientLines {
    /// The next one first.
    order: VecDeque<IpAddr>,
    lines: HashMap<IpAddr, Line<()>>,
}

#[derive(Clone, Copy)]
enum TurnKind {
    AnswerKnown,
    AnswerStranger,
    Next,
}

/// Waits until that step may be done for that client; whether there was anything to wait for. What is done next without a wait is
/// its turn.
pub async fn wait(client: IpAddr, step: HandshakeStep, is_known: bool) -> bool {
    let client = network(client);
    let joined = TURNS.with_borrow_mut(|turns| turns.join(client, step, is_known, rt::park_count()));
    let Some(Joined { place, is_first }) = joined else { return false };
    let place = LeftWhenDropped(place);
    if is_first {
        rt::spawn(pace());
    }
    poll_fn(|cx| place.0.turn.poll(cx)).await;
    true
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
        called.into_iter().flatten().for_each(Called::wake);
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
        let kind = match step {
            HandshakeStep::Answer if is_known => TurnKind::AnswerKnown,
            HandshakeStep::Answer => TurnKind::AnswerStranger,
            HandshakeStep::Next => TurnKind::Next,
        };
        let place = TurnPlace { turn: self.lines(kind).join(client), client, kind };
        Some(Joined { place, is_first: !std::mem::replace(&mut self.is_paced, true) })
    }

    /// A call that isn't used costs a round: the next one is called in any case.
    fn leave(&mut self, place: &TurnPlace) {
        if let Some(line) = self.lines(place.kind).lines.get_mut(&place.client) {
            let _ = line.leave(&place.turn);
        }
    }

    fn lines(&mut self, kind: TurnKind) -> &mut ClientLines {
        match kind {
            TurnKind::AnswerKnown => &mut self.known,
            TurnKind::AnswerStranger => &mut self.strangers,
            TurnKind::Next => &mut self.next,
        }
    }

    /// Calls those whose turns come now: one for an answer, one for what comes behind it.
    fn round(&mut self) -> [Option<Called>; 2] {
        [self.answer(), self.next.call()]
    }

    fn answer(&mut self) -> Option<Called> {
        let is_strangers = self.in_a_row + 1 >= SHARE_OF_STRANGERS;
        let first = if is_strangers { self.strangers.call() } else { None };
        if let Some(called) = first.is_none().then(|| self.known.call()).flatten() {
            self.in_a_row = (self.in_a_row + 1).min(SHARE_OF_STRANGERS);
            return Some(called);
        }
        self.in_a_row = 0;
        first.or_else(|| self.strangers.call())
    }
}

impl ClientLines {
    fn join(&mut self, client: IpAddr) -> Turn<()> {
        let line = self.lines.entry(client).or_insert_with(|| {
            self.order.push_back(client);
            Line::new()
        });
        line.join()
    }

    /// Calls the first one of the client that has waited longest for a turn.
    fn call(&mut self) -> Option<Called> {
        while let Some(client) = self.order.pop_front() {
            let Some(line) = self.lines.get_mut(&client) else { continue };
            let called = line.call(());
            match line.is_empty() {
                true => _ = self.lines.remove(&client),
                false => self.order.push_back(client),
            }
            if called.is_some() {
                return called;
            }
        }
        None
    }
}

struct TurnPlace {
    turn: Turn<()>,
    client: IpAddr,
    kind: TurnKind,
}

struct LeftWhenDropped(TurnPlace);

impl Drop for LeftWhenDropped {
    fn drop(&mut self) {
        let _ = TURNS.try_with(|turns| turns.borrow_mut().leave(&self.0));
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

    fn is_called(place: &TurnPlace) -> bool {
        place.turn.take().is_some()
    }

    fn is_next(turns: &mut Turns, place: &TurnPlace) -> bool {
        turns.answer().is_some() && is_called(place)
    }

    fn is_empty(turns: &Turns) -> bool {
        [&turns.known, &turns.strangers, &turns.next]
            .iter()
            .all(|clients| clients.order.is_empty() && clients.lines.is_empty())
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
        let gone = join_as(&mut turns, 2, HandshakeStep::Next, false);
        turns.leave(&gone);
        let behind = join_as(&mut turns, 2, HandshakeStep::Next, false);
        let _ = turns.round();
        assert!(is_called(&hellos[0]) && is_called(&behind));
        let [_, next] = turns.round();
        assert!(is_called(&hellos[1]) && next.is_none() && is_empty(&turns));
    }

    #[test]
    fn who_has_gone_has_no_turn_and_leaves_nothing_behind() {
        let mut turns = busy();
        let many: Vec<TurnPlace> = (0..1000).map(|_| join(&mut turns, 1)).collect();
        many.iter().for_each(|place| turns.leave(place));
        let stays = join(&mut turns, 1);
        assert_eq!(turns.strangers.lines[&client(1)].len(), 1);
        let goes = join(&mut turns, 2);
        turns.leave(&goes);
        assert!(is_next(&mut turns, &stays) && turns.answer().is_none() && is_empty(&turns));
    }
}
