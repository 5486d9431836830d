// SPDX-License-Identifier: BSD-2-Clause
//! One thread's tasks in an order that a seed draws, on a clock that jumps: what [`crate::run`] is to the product, [`run`]
//! is to the simulator. Only builds with debug assertions simulate, so that tests, simulator and program share one build of
//! this crate; threads that simulate nothing notice a look at a thread-local variable. Other builds have the same types, and
//! never look.
//!
//! Time stands still while a task is ready, and jumps to the next timer when none is. Timers fire at whole milliseconds, as
//! tokio's do; deadlines and patience ([`crate::Deadline`]) run the code that they always run. What is drawn is which of the
//! ready tasks goes on; several that became ready at one moment may run in any order, as on several threads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use base::Clock;
use base::lock::Mutex;
use tokio::sync::oneshot;

use crate::BoxedTask;

#[derive(Clone, Copy, Debug)]
pub struct SimLimits {
    /// Steps of tasks; who needs more runs in a circle.
    pub steps: u64,
    /// Time on the simulated clock; who needs more waits for what never comes.
    pub time: Duration,
}

/// The reason why a simulation came to no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endless {
    /// Tasks stay ready for ever.
    Busy,
    /// Tasks wait for ever.
    Waiting,
}

/// Runs `main` and all that it spawns on this thread, in an order that `seed` draws; `watch` runs after each step, and
/// ends the simulation with an error of its own. `clock` must be a manual one: it goes with the simulated time.
///
/// # Errors
/// The simulation came to no end within `limits`, or `watch` ended it.
///
/// # Panics
/// Within another simulation, or in a build without debug assertions.
pub fn run<F: Future, E: From<Endless>>(
    seed: u64,
    limits: SimLimits,
    clock: &Clock,
    mut watch: impl FnMut() -> Result<(), E>,
    main: F,
) -> Result<F::Output, E> {
    let tasks = Rc::new(Tasks::new(seed));
    let simulating = Simulating::begin(tasks.clone());
    let output = follow(&tasks, limits, clock, &mut watch, main);
    // Values that tasks hold may use the simulation's timers while they are dropped.
    tasks.forget();
    drop(simulating);
    output
}

fn follow<F: Future, E: From<Endless>>(
    tasks: &Tasks,
    limits: SimLimits,
    clock: &Clock,
    watch: &mut impl FnMut() -> Result<(), E>,
    main: F,
) -> Result<F::Output, E> {
    let mut main = pin!(main);
    let main_waker = tasks.add_main();
    let end = tasks.time.now() + limits.time;
    let mut steps = 0;
    loop {
        while let Some(id) = tasks.draw() {
            let ended = match id {
                MAIN => main.as_mut().poll(&mut Context::from_waker(&main_waker)),
                id => {
                    tasks.step(id);
                    Poll::Pending
                }
            };
            steps += 1;
            watch()?;
            match ended {
                Poll::Ready(output) => return Ok(output),
                Poll::Pending if steps >= limits.steps => return Err(Endless::Busy.into()),
                Poll::Pending => {}
            }
        }
        let passed = tasks.time.jump(end).ok_or(Endless::Waiting)?;
        clock.advance(passed);
    }
}

/// A number below `bound`, drawn from this thread's simulation; `None` where there is none.
pub fn draw(bound: u64) -> Option<u64> {
    current().map(|tasks| tasks.random(bound))
}

pub fn is_on() -> bool {
    current().is_some()
}

/// Number of tasks of this thread's simulation that haven't ended, `main` aside.
pub fn tasks() -> usize {
    current().map_or(0, |tasks| tasks.slots.borrow().iter().flatten().count() - 1)
}

/// A task that was spawned, to be awaited; dropping it leaves the task alone.
#[derive(Debug)]
pub enum JoinHandle<T> {
    Real(tokio::task::JoinHandle<T>),
    /// One of a simulation's, and what it ends with.
    Simulated(usize, oneshot::Receiver<T>),
}

/// The task came to no end: it was aborted, or panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unended;

impl<T> JoinHandle<T> {
    pub fn abort(&self) {
        match self {
            JoinHandle::Real(task) => task.abort(),
            JoinHandle::Simulated(id, _) => current().into_iter().for_each(|tasks| tasks.end(*id)),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Unended>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            JoinHandle::Real(task) => Pin::new(task).poll(cx).map_err(|_| Unended),
            JoinHandle::Simulated(_, end) => Pin::new(end).poll(cx).map_err(|_| Unended),
        }
    }
}

/// Spawns a task of this thread's simulation; gives it back where there is none.
pub(crate) fn spawn(task: BoxedTask) -> Result<JoinHandle<()>, BoxedTask> {
    let Some(tasks) = current() else { return Err(task) };
    let (ended, end) = oneshot::channel();
    let id = tasks.add(Box::pin(async move {
        task.await;
        // Mostly nobody waits for it.
        let _ = ended.send(());
    }));
    Ok(JoinHandle::Simulated(id, end))
}

pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

const MAIN: usize = 0;

struct Tasks {
    slots: RefCell<Vec<Option<Slot>>>,
    ready: Arc<Ready>,
    random: Cell<u64>,
    time: Time,
}

struct Slot {
    /// Away while it runs.
    task: Option<BoxedTask>,
    waker: Waker,
}

/// The tasks that were woken, each once.
#[derive(Default)]
struct Ready(Mutex<Vec<usize>>);

struct TaskWaker {
    id: usize,
    ready: Arc<Ready>,
}

impl Ready {
    fn push(&self, id: usize) {
        let mut woken = self.0.lock();
        if !woken.contains(&id) {
            woken.push(id);
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.id);
    }
}

impl Tasks {
    fn new(seed: u64) -> Self {
        Tasks { slots: RefCell::default(), ready: Arc::default(), random: Cell::new(seed), time: Time::new() }
    }

    fn add_main(&self) -> Waker {
        assert_eq!(self.add(Box::pin(std::future::pending())), MAIN, "the first task is the simulation's own");
        self.slots.borrow()[MAIN].as_ref().expect("just added").waker.clone()
    }

    fn add(&self, task: BoxedTask) -> usize {
        let mut slots = self.slots.borrow_mut();
        let id = slots.len();
        let waker = Waker::from(Arc::new(TaskWaker { id, ready: self.ready.clone() }));
        slots.push(Some(Slot { task: Some(task), waker }));
        drop(slots);
        self.ready.push(id);
        id
    }

    fn draw(&self) -> Option<usize> {
        let mut woken = self.ready.0.lock();
        let count = woken.len() as u64;
        (count > 0).then(|| woken.swap_remove(self.random(count) as usize))
    }

    fn step(&self, id: usize) {
        let taken = {
            let mut slots = self.slots.borrow_mut();
            slots[id].as_mut().and_then(|slot| Some((slot.task.take()?, slot.waker.clone())))
        };
        let Some((mut task, waker)) = taken else { return };
        crate::stint::begin();
        let is_done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut slots = self.slots.borrow_mut();
        let dropped = match &mut slots[id] {
            Some(slot) if !is_done => slot.task.replace(task),
            slot => {
                *slot = None;
                Some(task)
            }
        };
        drop(slots);
        // What it holds may spawn or wake while it goes.
        drop(dropped);
    }

    fn end(&self, id: usize) {
        let slot = self.slots.borrow_mut()[id].take();
        drop(slot);
    }

    /// Drops all tasks; those that they spawn meanwhile, too.
    fn forget(&self) {
        loop {
            let slots = self.slots.take();
            if slots.is_empty() {
                return;
            }
            drop(slots);
        }
    }

    /// splitmix64: every seed is as good as every other.
    fn random(&self, bound: u64) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

/// A simulation's clock, and the timers that wait for it.
struct Time {
    start: Instant,
    now: Cell<Instant>,
    timers: RefCell<Timers>,
}

#[derive(Default)]
struct Timers {
    last: u64,
    /// Timers by the moment at which they fire; those of one moment in the order in which they began to wait.
    waiting: BTreeMap<Key, Waker>,
}

/// When a timer fires, and its number among those of its simulation.
type Key = (Instant, u64);

impl Time {
    fn new() -> Self {
        let start = base::clock::now();
        Time { start, now: Cell::new(start), timers: RefCell::default() }
    }

    fn now(&self) -> Instant {
        self.now.get()
    }

    /// The whole millisecond at which a timer fires.
    fn tick(&self, deadline: Instant) -> Instant {
        let wait = deadline.saturating_duration_since(self.start);
        let past = Duration::from_nanos(u64::from(wait.subsec_nanos()) % 1_000_000);
        if past.is_zero() { deadline } else { deadline + (Duration::from_millis(1) - past) }
    }

    /// Goes on to the next timer, and wakes all that are due: how much time passed. `None` when none fires before `end`.
    fn jump(&self, end: Instant) -> Option<Duration> {
        let due = {
            let waiting = &mut self.timers.borrow_mut().waiting;
            let next = waiting.first_key_value().map(|((at, _), _)| *at).filter(|at| *at < end)?;
            let later = waiting.split_off(&(next, u64::MAX));
            std::mem::replace(waiting, later)
        };
        let next = due.last_key_value().map(|((at, _), _)| *at)?;
        let before = self.now.replace(next);
        due.into_values().for_each(Waker::wake);
        Some(next - before)
    }

    fn cancel(&self, key: Key) {
        let cancelled = self.timers.borrow_mut().waiting.remove(&key);
        drop(cancelled);
    }
}

/// A timer of this thread's simulation. One that outlives its simulation never fires.
#[derive(Debug)]
pub(crate) struct SimTimer {
    deadline: Instant,
    key: Option<Key>,
}

impl SimTimer {
    /// `None` on a thread that simulates nothing.
    pub fn until(deadline: Instant) -> Option<SimTimer> {
        is_on().then_some(SimTimer { deadline, key: None })
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    pub fn reset(&mut self, deadline: Instant) {
        self.cancel();
        self.deadline = deadline;
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(tasks) = current() else { return Poll::Pending };
        let at = tasks.time.tick(self.deadline);
        if at <= tasks.time.now() {
            return Poll::Ready(());
        }
        let replaced = {
            let timers = &mut *tasks.time.timers.borrow_mut();
            let key = *self.key.get_or_insert_with(|| {
                timers.last += 1;
                (at, timers.last)
            });
            timers.waiting.insert(key, cx.waker().clone())
        };
        // A waker may hold tasks, whose timers go with it.
        drop(replaced);
        Poll::Pending
    }

    fn cancel(&mut self) {
        if let (Some(key), Some(tasks)) = (self.key.take(), current()) {
            tasks.time.cancel(key);
        }
    }
}

impl Drop for SimTimer {
    fn drop(&mut self) {
        self.cancel();
    }
}

pub(crate) fn now() -> Option<Instant> {
    current().map(|tasks| tasks.time.now())
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Tasks>>> = const { RefCell::new(None) };
}

fn current() -> Option<Rc<Tasks>> {
    if !cfg!(debug_assertions) {
        return None;
    }
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

struct Simulating;

impl Simulating {
    fn begin(tasks: Rc<Tasks>) -> Self {
        if !cfg!(debug_assertions) {
            panic!("builds without debug assertions don't simulate");
        }
        let before = CURRENT.replace(Some(tasks));
        assert!(before.is_none(), "a simulation within a simulation");
        Simulating
    }
}

impl Drop for Simulating {
    fn drop(&mut self) {
        // After a panic, too: a simulation's timer never fires on a runtime's thread.
        crate::deadline::forget_timers();
        CURRENT.replace(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Notify;

    const LIMITS: SimLimits = SimLimits { steps: 10_000, time: Duration::from_secs(3600) };

    fn simulate<F: Future>(seed: u64, main: F) -> Result<F::Output, Endless> {
        run(seed, LIMITS, &Clock::manual(), || Ok(()), main)
    }

    /// The order in which three tasks of three steps each run.
    fn order(seed: u64) -> String {
        let order = Rc::new(RefCell::new(String::new()));
        let seen = order.clone();
        let main = async move {
            for name in ['a', 'b', 'c'] {
                let order = order.clone();
                crate::spawn(async move {
                    for _ in 0..3 {
                        order.borrow_mut().push(name);
                        crate::yield_now().await;
                    }
                });
            }
            crate::sleep(Duration::from_secs(1)).await;
        };
        simulate(seed, main).unwrap();
        seen.take()
    }

    #[test]
    fn a_seed_draws_the_same_order_again_and_others_draw_others() {
        assert_eq!(order(7), order(7));
        let orders: std::collections::HashSet<_> = (0..50).map(order).collect();
        assert!(orders.len() > 20, "{orders:?}");
    }

    #[test]
    fn time_jumps_and_the_clock_goes_with_it() {
        let (clock, began) = (Clock::manual(), base::clock::now());
        let waited = run::<_, Endless>(1, LIMITS, &clock, || Ok(()), async {
            assert_eq!(
                crate::timeout(Duration::from_secs(600), std::future::pending::<()>()).await,
                Err(crate::Elapsed)
            );
            clock.mono().0
        });
        assert_eq!(waited, Ok(600.0));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn who_waits_for_ever_or_runs_in_a_circle_is_told() {
        assert_eq!(simulate(1, std::future::pending::<()>()), Err(Endless::Waiting));
        let circle = async {
            loop {
                crate::yield_now().await;
            }
        };
        assert_eq!(simulate(1, circle).map(|never: ()| never), Err(Endless::Busy));
    }

    #[test]
    fn a_bell_the_blocking_pool_and_the_end_of_a_task_are_heard() {
        let rung = simulate(3, async {
            let bell = Arc::new(Notify::default());
            let waker = bell.waker();
            crate::spawn(async move {
                crate::blocking(|| ()).await.unwrap();
                waker.wake();
            });
            bell.notified().await;
            crate::spawn(async {}).await
        });
        assert_eq!(rung, Ok(Ok(())));
    }

    #[test]
    fn an_aborted_task_goes_no_further() {
        let reached = Rc::new(Cell::new(false));
        let seen = reached.clone();
        let aborted = simulate(5, async move {
            let task = crate::spawn(async move {
                crate::sleep(Duration::from_secs(5)).await;
                reached.set(true);
            });
            crate::sleep(Duration::from_secs(1)).await;
            task.abort();
            crate::sleep(Duration::from_secs(10)).await;
            tasks()
        });
        assert_eq!((aborted, seen.get()), (Ok(0), false));
    }

    #[test]
    fn without_a_simulation_all_is_as_before() {
        let output = crate::run(async {
            crate::spawn(async {});
            crate::yield_now().await;
            (is_on(), crate::blocking(|| 3).await.unwrap())
        });
        assert_eq!(output.unwrap(), (false, 3));
    }
}
