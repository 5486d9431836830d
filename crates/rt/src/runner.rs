// SPDX-License-Identifier: BSD-2-Clause
//! Runners: futures that do one job after the other. The future of a request or a fetch is large, and most connections are
//! idle. So it isn't part of a connection's task, and none is allocated, moved and freed for each job: a thread keeps idle
//! runners for each kind of job. A runner also keeps what a job leaves for the next one, its buffers.
//!
//! A job runs in the task that begins it ([`Runners::run_here`]), or in a task of its own ([`Runners::spawn`]), which stays
//! for the next job.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::thread::LocalKey;

/// Idle runners of a sort that a thread keeps for one kind of job.
const SPARE: usize = 64;

/// The idle runners of a thread for jobs `J` with the result `D`. All who share them give the same work.
pub struct Runners<J, D = ()> {
    here: RefCell<Vec<Runner<J, D>>>,
    tasks: RefCell<Vec<Rc<Handover<J, D>>>>,
}

/// A runner that is polled by whoever has it.
struct Runner<J, D> {
    handover: Rc<Handover<J, D>>,
    work: Pin<Box<dyn Future<Output = ()>>>,
}

/// The place where a runner finds its job and leaves the result.
struct Handover<J, D> {
    state: Cell<HandoverState<J, D>>,
    /// The task that waits for a job, if the runner is one.
    task: Cell<Option<Waker>>,
    is_task: bool,
}

enum HandoverState<J, D> {
    Empty,
    In(J),
    Out(D),
    /// No job follows.
    End,
}

/// A job in progress, and what it runs on. Dropping it drops both.
#[must_use = "a future does nothing by itself"]
pub struct RunningJob<J: 'static, D: 'static> {
    runners: &'static LocalKey<Runners<J, D>>,
    runner: Option<Runner<J, D>>,
}

/// A runner's task. One that ends with its runtime mustn't be found by the thread's next one.
struct TaskRunner<J: 'static> {
    runners: &'static LocalKey<Runners<J>>,
    handover: Rc<Handover<J, ()>>,
}

impl<J: 'static, D: 'static> Runners<J, D> {
    pub const fn new() -> Self {
        Self { here: RefCell::new(Vec::new()), tasks: RefCell::new(Vec::new()) }
    }

    /// Has `work` do the job within the caller's task. It gets what the job before has left.
    pub fn run_here<K: Default + 'static>(
        runners: &'static LocalKey<Self>,
        work: impl AsyncFn(J, K) -> (D, K) + 'static,
        job: J,
    ) -> RunningJob<J, D> {
        let runner = runners.with(|spare| spare.here.borrow_mut().pop()).unwrap_or_else(|| {
            let handover = Rc::new(Handover::new(false));
            Runner { handover: handover.clone(), work: Box::pin(serve(handover, work, || true)) }
        });
        runner.handover.state.set(HandoverState::In(job));
        RunningJob { runners, runner: Some(runner) }
    }

    /// Ends the runners that are idle now.
    pub fn trim(&self) {
        drop(self.here.take());
        for handover in self.tasks.take() {
            handover.give(HandoverState::End);
        }
    }
}

impl<J: 'static> Runners<J> {
    /// Has `work` do the job in a task of this thread: one that is idle, or a new one.
    pub fn spawn(runners: &'static LocalKey<Self>, work: impl AsyncFn(J) + 'static, job: J) {
        let idle = runners.with(|spare| spare.tasks.borrow_mut().pop());
        if let Some(handover) = idle {
            return handover.give(HandoverState::In(job));
        }
        let handover = Rc::new(Handover::new(true));
        handover.state.set(HandoverState::In(job));
        let task = TaskRunner { runners, handover: handover.clone() };
        let work = async move |next: J, (): ()| (work(next).await, ());
        crate::spawn(serve(handover, work, move || task.rests()));
    }
}

impl<J, D> Default for Runners<J, D> {
    fn default() -> Self {
        Self { here: RefCell::default(), tasks: RefCell::default() }
    }
}

impl<J, D> Handover<J, D> {
    fn new(is_task: bool) -> Self {
        Handover { state: Cell::new(HandoverState::Empty), task: Cell::new(None), is_task }
    }

    fn give(&self, state: HandoverState<J, D>) {
        self.state.set(state);
        self.task.take().into_iter().for_each(Waker::wake);
    }

    fn poll_job(&self, cx: &mut Context<'_>) -> Poll<Option<J>> {
        match self.state.replace(HandoverState::Empty) {
            HandoverState::In(job) => return Poll::Ready(Some(job)),
            HandoverState::End => return Poll::Ready(None),
            other @ (HandoverState::Empty | HandoverState::Out(_)) => self.state.set(other),
        }
        if self.is_task {
            self.task.set(Some(cx.waker().clone()));
        }
        Poll::Pending
    }
}

/// One job after the other, as long as `goes_on` says so after each.
async fn serve<J, D, K: Default>(
    handover: Rc<Handover<J, D>>,
    work: impl AsyncFn(J, K) -> (D, K),
    goes_on: impl Fn() -> bool,
) {
    let mut kept = K::default();
    while let Some(job) = poll_fn(|cx| handover.poll_job(cx)).await {
        let done;
        (done, kept) = work(job, kept).await;
        handover.state.set(HandoverState::Out(done));
        if !goes_on() {
            return;
        }
    }
}

impl<J, D> Future for RunningJob<J, D> {
    type Output = D;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<D> {
        let done = ready!(self.runner.as_mut().expect("a job that is over isn't polled").poll(cx));
        if let Some(runner) = self.runner.take() {
            self.runners.with(|spare| {
                let mut spare = spare.here.borrow_mut();
                if spare.len() < SPARE {
                    spare.push(runner);
                }
            });
        }
        Poll::Ready(done)
    }
}

impl<J, D> Runner<J, D> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<D> {
        let polled = self.work.as_mut().poll(cx);
        assert!(polled.is_pending(), "a runner has no end");
        match self.handover.state.replace(HandoverState::Empty) {
            HandoverState::Out(done) => Poll::Ready(done),
            other @ (HandoverState::Empty | HandoverState::In(_) | HandoverState::End) => {
                self.handover.state.set(other);
                Poll::Pending
            }
        }
    }
}

impl<J: 'static> TaskRunner<J> {
    fn rests(&self) -> bool {
        self.runners.with(|spare| {
            let mut spare = spare.tasks.borrow_mut();
            let is_wanted = spare.len() < SPARE;
            if is_wanted {
                spare.push(self.handover.clone());
            }
            is_wanted
        })
    }
}

impl<J: 'static> Drop for TaskRunner<J> {
    fn drop(&mut self) {
        // With the thread its idle runners go, too.
        let _ = self
            .runners
            .try_with(|spare| spare.tasks.borrow_mut().retain(|handover| !Rc::ptr_eq(handover, &self.handover)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Job = (u32, Rc<Cell<u32>>);

    thread_local! {
        static TASKS: Runners<Job> = const { Runners::new() };
        static HERE: Runners<u32, u32> = const { Runners::new() };
    }

    async fn add((number, sum): Job) {
        crate::give_way().await;
        sum.set(sum.get() + number);
    }

    fn idle() -> usize {
        TASKS.with(|spare| spare.tasks.borrow().len())
    }

    #[test]
    fn tasks_stay_for_the_next_job_and_end_with_their_runtime() {
        for _ in 0..2 {
            let sum = Rc::new(Cell::new(0));
            crate::run(async {
                for round in 1..=3 {
                    (0..100).for_each(|number| Runners::spawn(&TASKS, add, (number, sum.clone())));
                    while sum.get() < round * 4950 || idle() < SPARE {
                        tokio::task::yield_now().await;
                    }
                    assert_eq!((sum.get(), idle()), (round * 4950, SPARE));
                }
            })
            .unwrap();
            assert_eq!(idle(), 0);
        }
    }

    #[test]
    fn idle_tasks_end_where_memory_is_wanted() {
        let sum = Rc::new(Cell::new(0));
        crate::run(async {
            Runners::spawn(&TASKS, add, (1, sum.clone()));
            while idle() < 1 {
                tokio::task::yield_now().await;
            }
            let task = TASKS.with(|spare| Rc::downgrade(&spare.tasks.borrow()[0]));
            TASKS.with(Runners::trim);
            while task.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
            Runners::spawn(&TASKS, add, (2, sum.clone()));
            while sum.get() < 3 {
                tokio::task::yield_now().await;
            }
        })
        .unwrap();
    }

    #[test]
    fn a_job_finds_what_the_one_before_has_left() {
        let add = async |job: u32, kept: u32| (kept + job, kept + job);
        let run = |job| {
            let mut running = Runners::run_here(&HERE, add, job);
            Pin::new(&mut running).poll(&mut Context::from_waker(Waker::noop()))
        };
        assert_eq!([run(1), run(2), run(3)], [1, 3, 6].map(Poll::Ready));
        HERE.with(Runners::trim);
        assert_eq!(run(4), Poll::Ready(4));
    }
}
