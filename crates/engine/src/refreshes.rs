// SPDX-License-Identifier: BSD-2-Clause
//! Chooses the stale object to be refreshed next when `bgfetch_limit` is reached: the one with the most requests. After
//! a soft purge of many objects the hot ones are fresh first, and the origin gets no more fetches at a time than the
//! limit.
//!
//! Nothing waits here: a request that may not refresh delivers the stale object, and the next request asks again. So
//! the board only holds which objects were asked for, and how often. An object that wasn't asked for within a moment is
//! forgotten, so that no free place is kept for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base::Mono;
use base::critical::Lock;
use cache::Digest;

/// Objects on the board; the coldest makes room.
const BOARD: usize = 256;
/// Seconds for which a free place is kept for an object that was asked for.
const MEMORY: f64 = 0.25;

/// The queue of background refreshes; see the module.
#[derive(Default)]
pub struct Refreshes {
    /// Set when an object may be on the board. Otherwise no lock is taken.
    is_contended: AtomicBool,
    board: Lock<Vec<Wish>>,
}

struct Wish {
    digest: Digest,
    asked: u32,
    last: Mono,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    Begins,
    /// The limit of refreshes that run at once is reached.
    Limited,
    /// There is a free place, but another object is asked for more.
    Deferred,
}

impl Refreshes {
    /// A request would have an object refreshed, and `free` more may run.
    pub fn ask(&self, digest: &Digest, free: u64, now: Mono) -> Refresh {
        if free > 0 && !self.is_contended.load(Relaxed) {
            return Refresh::Begins;
        }
        let mut board = self.board.lock();
        board.retain(|wish| now.since(wish.last) < MEMORY);
        let at = note(&mut board, digest, now);
        let asked = board[at].asked;
        let hotter = board.iter().filter(|wish| wish.asked > asked).count() as u64;
        let begins = hotter < free;
        if begins {
            board.swap_remove(at);
        }
        self.is_contended.store(!board.is_empty(), Relaxed);
        match (begins, free) {
            (true, _) => Refresh::Begins,
            (false, 0) => Refresh::Limited,
            (false, _) => Refresh::Deferred,
        }
    }
}

/// Notes that an object was asked for: its place on the board.
fn note(board: &mut Vec<Wish>, digest: &Digest, now: Mono) -> usize {
    if let Some(at) = board.iter().position(|wish| wish.digest == *digest) {
        board[at].asked = board[at].asked.saturating_add(1);
        board[at].last = now;
        return at;
    }
    if board.len() >= BOARD {
        let coldest = (0..board.len()).min_by_key(|at| board[*at].asked).expect("a full board isn't empty");
        board.swap_remove(coldest);
    }
    board.push(Wish { digest: *digest, asked: 1, last: now });
    board.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(name: u16) -> Digest {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&name.to_le_bytes());
        Digest(bytes)
    }

    #[test]
    fn all_begin_while_there_is_room() {
        let refreshes = Refreshes::default();
        assert!((0..1000).all(|name| refreshes.ask(&digest(name), 1, Mono(0.0)) == Refresh::Begins));
    }

    #[test]
    fn the_hottest_go_first_and_those_who_stay_away_hold_up_nobody() {
        let refreshes = Refreshes::default();
        let (cold, warm, hot, now) = (digest(1), digest(2), digest(3), Mono(10.0));
        assert_eq!(refreshes.ask(&cold, 0, now), Refresh::Limited);
        (0..2).for_each(|_| assert_eq!(refreshes.ask(&warm, 0, now), Refresh::Limited));
        (0..5).for_each(|_| assert_eq!(refreshes.ask(&hot, 0, now), Refresh::Limited));
        assert_eq!(refreshes.ask(&cold, 1, now), Refresh::Deferred);
        assert_eq!(refreshes.ask(&warm, 2, now), Refresh::Begins, "there is room for two, and one is hotter");
        assert_eq!(refreshes.ask(&cold, 1, now), Refresh::Deferred);
        assert_eq!(refreshes.ask(&hot, 1, now), Refresh::Begins);
        assert_eq!(refreshes.ask(&cold, 1, now), Refresh::Begins);
        (0..9).for_each(|_| assert_eq!(refreshes.ask(&hot, 0, now), Refresh::Limited));
        assert_eq!(refreshes.ask(&cold, 1, now.plus(MEMORY / 2.0)), Refresh::Deferred);
        assert_eq!(refreshes.ask(&cold, 1, now.plus(MEMORY)), Refresh::Begins, "the hot one isn't asked for any more");
        assert_eq!(refreshes.ask(&warm, 1, now.plus(MEMORY)), Refresh::Begins, "the board is empty again");
    }

    #[test]
    fn the_board_is_bounded_and_keeps_the_hottest() {
        let refreshes = Refreshes::default();
        let now = Mono(10.0);
        (0..2).for_each(|_| assert_eq!(refreshes.ask(&digest(9999), 0, now), Refresh::Limited));
        (0..2000).for_each(|name| assert_eq!(refreshes.ask(&digest(name), 0, now), Refresh::Limited));
        assert_eq!(refreshes.board.lock().len(), BOARD);
        assert_eq!(refreshes.ask(&digest(3000), 1, now), Refresh::Deferred);
        assert_eq!(refreshes.ask(&digest(9999), 1, now), Refresh::Begins);
    }
}
