// SPDX-License-Identifier: BSD-2-Clause
//! The pace of refusals. A refusal costs a tenth or more of what a request with a fetch costs, and an overload may
//! bring many times as many requests. So each thread refuses at a bounded pace. Requests beyond it wait here, which
//! slows their clients down. The first in the queue is admitted when there is room, or refused when the pace allows.
//!
//! A request that finds no slot for its fetch ([`crate::admission`]) waits here itself. If memory is too short for any
//! request, its connection waits and the request isn't read: the kernel holds it, and it costs no more memory than an
//! idle connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker, ready};
use std::time::Duration;

use rt::{Deadline, Instant};
use sync::{Called, Line, Turn};

use crate::admission::Admission;
use crate::sess::Sess;

/// The pace: a thread refuses so often, which takes it about two hundredths of its time.
const EACH: Duration = Duration::from_micros(500);
/// Refusals that may be made at once before the pace counts.
const BURST: u32 = 200;
/// Most waiting connections whose request isn't read; refusing all of them takes five seconds. Further ones are refused
/// at once.
const MAX_UNREAD: usize = 10_000;
/// Most waiting connections whose request was read; each holds about 12 KB.
const MAX_READ: usize = 1_000;

#[derive(Default)]
struct ConnQueue {
    /// When the last refusal was due, by the pace.
    last: Option<Instant>,
    /// Somebody has been called and stands before the others.
    has_first: bool,
    /// The task of that one, which looks again when a fetch has ended.
    first: Option<Waker>,
    others: Line<()>,
}

thread_local! {
    static QUEUE: RefCell<ConnQueue> = RefCell::default();
}

impl ConnQueue {
    /// The moment at which the next connection may be refused.
    fn due(&self, now: Instant) -> Instant {
        let begin = now.checked_sub(EACH * BURST).unwrap_or(now);
        self.last.map_or(begin, |last| last.max(begin)) + EACH
    }

    fn refuses(&mut self, now: Instant) -> bool {
        let due = self.due(now);
        if due <= now {
            self.last = Some(due);
        }
        due <= now
    }

    fn len(&self) -> usize {
        self.others.len() + usize::from(self.has_first)
    }

    /// A place behind the others; `None`: there are too many, or a refusal is due and nobody waits for it.
    fn join(&mut self, most: usize, now: Instant) -> Option<Turn<()>> {
        // Nobody is overtaken, and nobody waits for ever.
        if self.len() >= most || (!self.has_first && self.refuses(now)) {
            return None;
        }
        let turn = self.others.join();
        if !self.has_first {
            // The caller is the first: its task runs.
            let _ = self.call();
        }
        Some(turn)
    }

    fn call(&mut self) -> Option<Called> {
        self.first = None;
        let called = self.others.call(());
        self.has_first = called.is_some();
        called
    }

    fn leave(&mut self, turn: &Turn<()>) -> Option<Called> {
        self.others.leave(turn)?;
        self.call()
    }
}

/// Before a request is read: returns at once unless all requests are refused, and then when this one may be.
pub async fn pass(sess: &Rc<Sess>) {
    if sess.engine.requests.admission.refuses_all() {
        stand_in_line(sess, MAX_UNREAD, Admission::refuses_all).await;
    }
}

/// Holds a request for whose fetch there is no room. Returns when there is, or when it may be refused.
pub(crate) async fn hold(sess: &Rc<Sess>) {
    stand_in_line(sess, MAX_READ, Admission::is_full).await;
}

/// Until `refuses` is over, or the request may be refused.
async fn stand_in_line(sess: &Rc<Sess>, most: usize, refuses: fn(&Admission) -> bool) {
    let joined = QUEUE.with_borrow_mut(|queue| queue.join(most, Instant::now()));
    let Some(place) = joined.map(QueuePlace) else { return };
    sess.engine.main.req_held.inc();
    let mut deadline: Option<Deadline> = None;
    poll_fn(|cx| {
        ready!(place.0.poll(cx));
        let due = QUEUE.with_borrow_mut(|queue| {
            queue.first = Some(cx.waker().clone());
            queue.due(Instant::now())
        });
        if !refuses(&sess.engine.requests.admission) {
            return Poll::Ready(());
        }
        deadline.get_or_insert_with(|| Deadline::until(due)).poll(cx).map(|()| {
            QUEUE.with_borrow_mut(|queue| queue.refuses(Instant::now()));
        })
    })
    .await;
}

struct QueuePlace(Turn<()>);

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let next = QUEUE.try_with(|queue| queue.borrow_mut().leave(&self.0));
        next.ok().flatten().into_iter().for_each(Called::wake);
    }
}

/// A fetch has ended: there may be room for the first in line.
pub(crate) fn call_first() {
    let waker = QUEUE.with_borrow_mut(|queue| queue.first.take());
    waker.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::Context;

    use super::*;

    #[test]
    fn refusals_keep_a_pace_once_a_burst_is_over() {
        let (mut queue, start) = (ConnQueue::default(), Instant::now());
        let burst = |queue: &mut ConnQueue, now| (0..10_000).take_while(|_| queue.refuses(now)).count();
        assert_eq!(burst(&mut queue, start), BURST as usize);
        assert_eq!(queue.due(start), start + EACH);
        for n in 1..1000 {
            assert!(!queue.refuses(start + EACH * n - Duration::from_nanos(1)));
            assert_eq!(burst(&mut queue, start + EACH * n), 1, "one after the other");
        }
        assert_eq!(burst(&mut queue, start + EACH * 1010), 11, "who comes late makes up for it");
        assert_eq!(burst(&mut queue, start + Duration::from_secs(60)), BURST as usize, "a burst again");
    }

    #[derive(Default)]
    struct Doorbell(AtomicU32);

    impl std::task::Wake for Doorbell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn who_leaves_the_line_calls_who_is_first_then() {
        let mut queue = ConnQueue::default();
        let now = Instant::now();
        assert!((0..BURST).all(|_| queue.join(9, now).is_none()), "they may be refused at once");
        let (bells, places): (Vec<_>, Vec<_>) = (0..4)
            .map(|n| {
                let (bell, place) = (Arc::<Doorbell>::default(), queue.join(4, now).unwrap());
                let is_first = place.poll(&Context::from_waker(&bell.clone().into())).is_ready();
                assert_eq!(is_first, n == 0);
                (bell, place)
            })
            .unzip();
        assert!(queue.join(4, now).is_none() && queue.len() == 4, "so many may wait");
        let mut leave = |n: usize| queue.leave(&places[n]).into_iter().for_each(Called::wake);
        let rung = || bells.iter().map(|bell| bell.0.load(Relaxed)).collect::<Vec<_>>();
        leave(0);
        assert_eq!(rung(), [0, 1, 0, 0]);
        leave(2);
        assert_eq!(rung(), [0, 1, 0, 0], "it was called before");
        leave(1);
        assert_eq!(rung(), [0, 1, 0, 1], "the third has left");
        leave(3);
        assert_eq!(queue.len(), 0);
    }
}
