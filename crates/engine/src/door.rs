// SPDX-License-Identifier: BSD-2-Clause
//! Where a connection waits with its next request while all turns are taken (see `turns`). The request isn't read yet: the
//! kernel has it, and who waits costs no more memory than who is idle. What is in progress keeps the processor's caches.
//!
//! When there isn't even room to wait, a request is refused. That costs a tenth of what it costs to serve one that is
//! fetched, or more, and under overload many times as many may come: so a thread refuses at a bounded pace. Beyond it they
//! wait here, too, and slow down who sent them. The first in line comes in when there is room, or is refused when the
//! pace allows.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use rt::{Instant, Patience};

use crate::sess::Sess;
use crate::turns::{self, Entry, Turn};

/// The pace: a thread refuses so often, which takes it about two hundredths of its time.
const EACH: Duration = Duration::from_micros(500);
/// So many may be refused at once before the pace counts.
const BURST: u32 = 200;
/// So many wait in line, which takes five seconds if all of them are refused; who comes then is refused at once.
const MOST: usize = 10_000;

/// The line of one thread.
#[derive(Default)]
struct Line {
    /// When the last refusal was due, by the pace.
    last: Option<Instant>,
    waiting: VecDeque<Rc<Spot>>,
}

#[derive(Default)]
struct Spot {
    waker: Cell<Option<Waker>>,
    has_left: Cell<bool>,
}

thread_local! {
    static LINE: RefCell<Line> = RefCell::default();
}

impl Line {
    /// When the next one may be refused.
    fn due(&self, now: Instant) -> Instant {
        let begin = now.checked_sub(EACH * BURST).unwrap_or(now);
        self.last.map_or(begin, |last| last.max(begin)) + EACH
    }

    /// Whether one may be refused now; it is, then.
    fn refuses(&mut self, now: Instant) -> bool {
        let due = self.due(now);
        if due <= now {
            self.last = Some(due);
        }
        due <= now
    }

    fn is_first(&self, spot: &Rc<Spot>) -> bool {
        self.waiting.front().is_some_and(|first| Rc::ptr_eq(first, spot))
    }

    /// Who is first now is to look.
    fn first(&self) -> Option<Waker> {
        self.waiting.front()?.waker.take()
    }

    fn leave(&mut self, spot: &Spot) -> Option<Waker> {
        spot.has_left.set(true);
        while self.waiting.front().is_some_and(|first| first.has_left.get()) {
            self.waiting.pop_front();
        }
        self.first()
    }
}

/// Returns at once while turns are free. Else waits for one and gives it; `None`: ask again once the request is read.
pub async fn pass(sess: &Rc<Sess>) -> Option<Turn> {
    let turns = &sess.engine.turns;
    if turns.is_full() {
        stand_in_line(sess).await;
    }
    if turns.is_full() || !turns.is_saturated() {
        return None;
    }
    match turns::enter(sess) {
        Ok(Entry::Now(turn)) => Some(turn),
        Ok(Entry::Later(wait)) => Some(wait.await),
        Err(turns::Full) => None,
    }
}

/// Until there is room to wait for a turn, or the request may be refused.
async fn stand_in_line(sess: &Rc<Sess>) {
    let spot = Rc::<Spot>::default();
    let may_refuse = LINE.with_borrow_mut(|line| {
        // Nobody is overtaken, and nobody waits for ever.
        let is_done = line.waiting.len() >= MOST || (line.waiting.is_empty() && line.refuses(Instant::now()));
        if !is_done {
            line.waiting.push_back(spot.clone());
        }
        is_done
    });
    if may_refuse {
        return;
    }
    sess.engine.main.req_held.inc();
    let _standing = Standing(&spot);
    let mut patience: Option<Patience> = None;
    poll_fn(|cx| {
        spot.waker.set(Some(cx.waker().clone()));
        let first = LINE.with_borrow_mut(|line| line.is_first(&spot).then(|| line.due(Instant::now())));
        let Some(due) = first else { return Poll::Pending };
        if !sess.engine.turns.is_full() {
            return Poll::Ready(());
        }
        patience.get_or_insert_with(|| Patience::until(due)).poll(cx).map(|()| {
            LINE.with_borrow_mut(|line| line.refuses(Instant::now()));
        })
    })
    .await;
}

/// A spot in line, until it is left.
struct Standing<'a>(&'a Rc<Spot>);

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let next = LINE.try_with(|line| line.borrow_mut().leave(self.0));
        next.ok().flatten().into_iter().for_each(Waker::wake);
    }
}

/// A turn has ended: there may be room for the first in line.
pub(crate) fn call_first() {
    let waker = LINE.with_borrow(Line::first);
    waker.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn refusals_keep_a_pace_once_a_burst_is_over() {
        let (mut line, start) = (Line::default(), Instant::now());
        let burst = |line: &mut Line, now| (0..10_000).take_while(|_| line.refuses(now)).count();
        assert_eq!(burst(&mut line, start), BURST as usize);
        assert_eq!(line.due(start), start + EACH);
        for n in 1..1000 {
            assert!(!line.refuses(start + EACH * n - Duration::from_nanos(1)));
            assert_eq!(burst(&mut line, start + EACH * n), 1, "one after the other");
        }
        assert_eq!(burst(&mut line, start + EACH * 1010), 11, "who comes late makes up for it");
        assert_eq!(burst(&mut line, start + Duration::from_secs(60)), BURST as usize, "a burst again");
    }

    #[derive(Default)]
    struct Bell(AtomicU32);

    impl std::task::Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn who_leaves_the_line_calls_who_is_first_then() {
        let mut line = Line::default();
        let (bells, spots): (Vec<_>, Vec<_>) = (0..4)
            .map(|_| {
                let (bell, spot) = (Arc::<Bell>::default(), Rc::<Spot>::default());
                spot.waker.set(Some(bell.clone().into()));
                line.waiting.push_back(spot.clone());
                (bell, spot)
            })
            .unzip();
        let mut leave = |n: usize| line.leave(&spots[n]).into_iter().for_each(Waker::wake);
        let rung = || bells.iter().map(|bell| bell.0.load(Relaxed)).collect::<Vec<_>>();
        leave(0);
        assert_eq!(rung(), [0, 1, 0, 0]);
        leave(2);
        assert_eq!(rung(), [0, 1, 0, 0], "it was called before");
        leave(1);
        assert_eq!(rung(), [0, 1, 0, 1], "the third has left");
        leave(3);
        assert!(line.waiting.is_empty());
    }
}
