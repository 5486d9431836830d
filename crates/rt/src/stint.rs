// SPDX-License-Identifier: BSD-2-Clause
//! Work is charged to the task that does it. One that has used up its stint goes behind those that haven't: they line up, and of all of
//! them on a thread one goes on at a time, after everything else that is ready has had its turn. So what others wait for is one stint,
//! however many have long work to do.
//!
//! The longest steps are found by sampling: of so many turns of tasks one is timed by the thread's own clock, which stands while the
//! thread has no CPU.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use base::clock;
use sync::{Called, Line, Turn};

/// The work that a task may do in a row, in about nanoseconds of an optimised build.
const STINT: u32 = 200_000;

/// The charge for a piece of a body beside its bytes, in nanoseconds: it is found, handed over and queued.
const PIECE: u32 = 250;

/// Bytes that are moved in about a nanosecond.
const BYTES_A_NANO: usize = 8;

/// Turns of others in which a task that was called should have gone on.
const PATIENCE: u32 = 1000;

/// One turn in so many is timed; 0: none.
static EVERY: AtomicU32 = AtomicU32::new(0);
static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// The functions that are told what serving threads do. Each is called by the thread that did it.
#[derive(Clone, Copy, Debug)]
pub struct Observer {
    /// A step, one turn of a task, was timed: so much of the CPU it took.
    pub timed: fn(Duration),
    /// A task had used up its stint.
    pub gave_way: fn(),
}

thread_local! {
    static STINTS: Stints = const { Stints::new() };
}

/// A thread's stints, and the tasks that have used up theirs.
struct Stints {
    /// A turn of a task that was spawned here is going on.
    is_turn: Cell<bool>,
    /// The charges since it began, in nanoseconds.
    spent: Cell<u32>,
    /// Since when the clock has been looked at, and what had been charged then.
    clocked: Cell<Option<(Instant, u32)>>,
    line: RefCell<Line<()>>,
    /// One of them was called, and its turn isn't over.
    is_called: Cell<bool>,
    is_its_turn: Cell<bool>,
    /// Turns of others since it was called.
    unanswered: Cell<u32>,
    /// Turns since one was timed.
    untimed: Cell<u32>,
}

/// Charges the running task for work of about so many microseconds. True: it has used up its stint and should [`give_way`].
pub fn spend(micros: u32) -> bool {
    spend_nanos(micros.saturating_mul(1000))
}

/// Charges the running task for a piece of a body that was handed on: so many bytes.
pub fn spend_piece(bytes: usize) -> bool {
    spend_nanos(PIECE.saturating_add((bytes / BYTES_A_NANO).min(STINT as usize) as u32))
}

pub fn spend_bytes(bytes: usize) -> bool {
    spend_nanos((bytes / BYTES_A_NANO).min(STINT as usize) as u32)
}

/// Does what [`spend`] does, for work whose length can only be guessed (how long a body takes to be packed hangs on
/// what is in it): from the first such charge of a turn on the clock counts, where it says that more was spent. For
/// pieces of ten microseconds and more, which the look at the clock is nothing beside. In a simulation the guess
/// counts.
pub fn spend_guess(micros: u32) -> bool {
    STINTS.with(|stints| {
        let guessed = stints.spent.get().saturating_add(micros.saturating_mul(1000));
        let spent = if crate::sim::is_on() { guessed } else { stints.by_the_clock(guessed) };
        stints.spent.set(spent);
        spent >= STINT
    })
}

#[inline]
fn spend_nanos(nanos: u32) -> bool {
    STINTS.with(|stints| {
        let spent = stints.spent.get().saturating_add(nanos);
        stints.spent.set(spent);
        spent >= STINT
    })
}

/// Charges the running task, and lets others go first if its stint is over.
pub async fn spent(micros: u32) {
    if spend(micros) {
        give_way().await;
    }
}

/// Does what [`spend_guess`] does, and lets others go first if its stint is over.
pub async fn spent_guess(micros: u32) {
    if spend_guess(micros) {
        give_way().await;
    }
}

/// Lets all others of this thread go first: those that have used up their stint, too, are before us.
pub fn give_way() -> GiveWay {
    GiveWay(Way::New)
}

/// Times one turn in `every`, beginning now; 0: none.
pub fn time_steps(every: u32) {
    EVERY.store(every, Relaxed);
}

/// Says who is told; once in a process.
pub fn observe_steps(observer: Observer) {
    let _ = OBSERVER.set(observer);
}

pub(crate) fn begin() {
    STINTS.with(Stints::begin_stint);
}

pub(crate) fn turn<T>(poll: impl FnOnce() -> T) -> T {
    let is_timed = STINTS.with(|stints| {
        stints.begin_stint();
        stints.is_turn.set(true);
        stints.is_to_be_timed(EVERY.load(Relaxed))
    });
    let _turn = TurnEnd;
    if is_timed { timed(poll) } else { poll() }
}

#[cold]
fn timed<T>(poll: impl FnOnce() -> T) -> T {
    let begin = sys::cpu::thread_time();
    let polled = poll();
    let took = sys::cpu::thread_time().saturating_sub(begin);
    if let Some(observer) = OBSERVER.get() {
        (observer.timed)(took);
    }
    polled
}

/// Ends a turn, also one that panics.
struct TurnEnd;

impl Drop for TurnEnd {
    fn drop(&mut self) {
        STINTS.with(|stints| {
            stints.is_turn.set(false);
            if stints.is_its_turn.replace(false) || (stints.is_called.get() && stints.is_unanswered()) {
                stints.is_called.set(false);
                stints.call();
            }
        });
    }
}

impl Stints {
    const fn new() -> Self {
        Stints {
            is_turn: Cell::new(false),
            spent: Cell::new(0),
            clocked: Cell::new(None),
            line: RefCell::new(Line::new()),
            is_called: Cell::new(false),
            is_its_turn: Cell::new(false),
            unanswered: Cell::new(0),
            untimed: Cell::new(0),
        }
    }

    /// True for one turn in `every`; 0: for none.
    fn is_to_be_timed(&self, every: u32) -> bool {
        if every == 0 {
            return false;
        }
        let untimed = self.untimed.get() + 1;
        let is_timed = untimed >= every;
        self.untimed.set(if is_timed { 0 } else { untimed });
        is_timed
    }

    fn begin_stint(&self) {
        self.spent.set(0);
        self.clocked.set(None);
    }

    /// The nanoseconds spent, by the clock if that is more than `guessed`.
    fn by_the_clock(&self, guessed: u32) -> u32 {
        let now = clock::now();
        let Some((since, before)) = self.clocked.get() else {
            self.clocked.set(Some((now, guessed)));
            return guessed;
        };
        let nanos = now.saturating_duration_since(since).as_nanos().min(u128::from(u32::MAX)) as u32;
        guessed.max(before.saturating_add(nanos))
    }

    /// The running task goes to the line's end.
    fn enter(&self, cx: &Context<'_>) -> Way {
        if !self.is_turn.get() || crate::sim::is_on() {
            cx.waker().wake_by_ref();
            return Way::Alone;
        }
        let turn = self.line.borrow_mut().join();
        let _waits = turn.poll(cx);
        self.call();
        Way::Line(turn)
    }

    /// One more turn of somebody else: whether the one that was called does something else by now, and holds up the line.
    fn is_unanswered(&self) -> bool {
        self.unanswered.set(self.unanswered.get() + 1);
        self.unanswered.get() > PATIENCE
    }

    /// Calls the first, unless one was called already: it is woken when the runtime has looked for events.
    fn call(&self) {
        if self.is_called.get() {
            return;
        }
        let called = self.line.borrow_mut().call(());
        let Some(waker) = called.and_then(Called::into_waker) else { return };
        self.is_called.set(true);
        self.unanswered.set(0);
        let later = pin!(tokio::task::yield_now());
        if later.poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
    }
}

#[must_use = "a future does nothing by itself"]
pub struct GiveWay(Way);

enum Way {
    New,
    Line(Turn<()>),
    /// The task wasn't spawned here, or is in a simulation, which draws who goes on.
    Alone,
}

impl Future for GiveWay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        STINTS.with(|stints| match &self.0 {
            Way::New => {
                if let Some(observer) = OBSERVER.get() {
                    (observer.gave_way)();
                }
                self.0 = stints.enter(cx);
                Poll::Pending
            }
            Way::Line(turn) => {
                ready!(turn.poll(cx));
                if turn.take().is_some() {
                    stints.is_its_turn.set(true);
                    stints.begin_stint();
                }
                Poll::Ready(())
            }
            Way::Alone => {
                stints.begin_stint();
                Poll::Ready(())
            }
        })
    }
}

impl Drop for GiveWay {
    fn drop(&mut self) {
        let Way::Line(turn) = &self.0 else { return };
        // With the thread its line goes, too.
        let _ = STINTS.try_with(|stints| {
            let unused = stints.line.borrow_mut().leave(turn);
            if unused.is_some() {
                stints.is_called.set(false);
                stints.call();
            }
        });
    }
}

/// Forgets the line that a runtime leaves behind for the next one on its thread.
pub(crate) fn forget_line() {
    STINTS.with(|stints| {
        stints.line.take();
        stints.is_called.set(false);
        stints.is_its_turn.set(false);
    });
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;

    use super::*;

    /// The deeds of tasks, in order.
    type Told = Rc<RefCell<Vec<&'static str>>>;

    /// A task with work for so many stints.
    fn long(told: &Told, name: &'static str, stints: usize) -> crate::JoinHandle<()> {
        let told = told.clone();
        crate::spawn(async move {
            for _ in 0..stints {
                told.borrow_mut().push(name);
                assert!(spend_nanos(STINT));
                give_way().await;
            }
        })
    }

    fn order(told: &Told) -> String {
        told.borrow().concat()
    }

    #[test]
    fn of_all_that_have_long_work_one_goes_on_while_others_have_their_turn() {
        crate::run(async {
            let told = Told::default();
            let ends: Vec<_> = ["a", "b", "c"].map(|name| long(&told, name, 3)).into();
            let quick = told.clone();
            let quick = crate::spawn(async move {
                for _ in 0..8 {
                    quick.borrow_mut().push(".");
                    crate::yield_now().await;
                }
            });
            for end in ends {
                end.await.unwrap();
            }
            quick.await.unwrap();
            let order = order(&told);
            assert_eq!(order.replace('.', ""), "abcabcabc");
            // Each had its first stint; from then on one has its turn in each round, before the quick one or after it.
            let later = order.split_once('.').unwrap().1;
            let quick = &later[..later.rfind('.').unwrap()];
            assert!(quick.split('.').all(|between| between.len() <= 2), "{order}");
        })
        .unwrap();
    }

    #[test]
    fn who_is_called_and_ends_or_waits_for_something_else_lets_the_next_one_go_on() {
        crate::run(async {
            let told = Told::default();
            let waits = told.clone();
            let never = crate::spawn(async move {
                give_way().await;
                waits.borrow_mut().push("w");
                std::future::pending().await
            });
            long(&told, "a", 2).await.unwrap();
            assert_eq!(order(&told), "awa");
            never.abort();
        })
        .unwrap();
    }

    #[test]
    fn who_is_gone_holds_up_nobody() {
        crate::run(async {
            let told = Told::default();
            // Called, and dropped before its turn; then one that waits behind another.
            for aborted in 1..=2 {
                let ends: Vec<_> = (0..3).map(|_| long(&told, "x", 1)).collect();
                crate::yield_now().await;
                ends[aborted - 1].abort();
                let after = long(&told, "a", 2);
                after.await.unwrap();
            }
            assert_eq!(order(&told).replace('x', ""), "aaaa");
            STINTS.with(|stints| assert!(stints.line.borrow().is_empty() && !stints.is_called.get()));
        })
        .unwrap();
    }

    #[test]
    fn who_is_called_and_does_something_else_holds_up_nobody() {
        crate::run(async {
            let told = Told::default();
            let (away, is_away) = tokio::sync::oneshot::channel::<()>();
            let absent = crate::spawn(async move {
                let mut turn = give_way();
                poll_fn(|cx| {
                    assert!(Pin::new(&mut turn).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                let _ = is_away.await;
                turn.await;
            });
            crate::yield_now().await;
            let quick = crate::spawn(async {
                for _ in 0..2 * PATIENCE {
                    crate::yield_now().await;
                }
            });
            long(&told, "a", 2).await.unwrap();
            assert_eq!(order(&told), "aa");
            away.send(()).unwrap();
            absent.await.unwrap();
            quick.abort();
        })
        .unwrap();
    }

    #[test]
    fn a_turn_begins_with_nothing_spent() {
        crate::run(async {
            let task = crate::spawn(async {
                assert!(!spend_nanos(STINT - 1));
                assert!(spend_nanos(1));
                give_way().await;
                assert!(!spend(STINT / 1000 - 1));
                spent(1).await;
                assert!(!spend_bytes(BYTES_A_NANO * (STINT as usize - 1)));
            });
            task.await.unwrap();
            // What is no task of ours goes on as well.
            give_way().await;
        })
        .unwrap();
    }

    #[test]
    fn a_page_in_crumbs_is_charged_for_each() {
        crate::run(async {
            let task = crate::spawn(async {
                let crumbs = (1..).find(|_| spend_piece(11)).unwrap();
                assert_eq!(crumbs, (STINT as usize).div_ceil(PIECE as usize + 1));
            });
            task.await.unwrap();
        })
        .unwrap();
    }

    #[test]
    fn a_guess_counts_unless_the_clock_says_more() {
        crate::run(async {
            let task = crate::spawn(async {
                assert!(spend_guess(STINT / 1000), "by the guess alone");
                give_way().await;
                let began = clock::now();
                spend_guess(0);
                while began.elapsed() < Duration::from_nanos(2 * u64::from(STINT)) {}
                assert!(spend_guess(0), "by the clock");
                give_way().await;
                assert_eq!(STINTS.with(|stints| (stints.spent.get(), stints.clocked.get())), (0, None));
            });
            task.await.unwrap();
        })
        .unwrap();
    }

    #[test]
    fn turns_are_timed_by_the_threads_own_clock() {
        thread_local! {
            static LONGEST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        }
        observe_steps(Observer { timed: |took| LONGEST.set(LONGEST.get().max(took)), gave_way: || {} });
        time_steps(1);
        crate::run(async {
            let task = crate::spawn(async {
                let begin = sys::cpu::thread_time();
                while sys::cpu::thread_time() - begin < Duration::from_millis(2) {}
                poll_fn(|_| Poll::Ready(())).await;
            });
            task.await.unwrap();
        })
        .unwrap();
        time_steps(0);
        assert!(LONGEST.get() >= Duration::from_millis(2));
    }
}
