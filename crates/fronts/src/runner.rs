// SPDX-License-Identifier: BSD-2-Clause
//! What busy connections and streams run on. The future of a request is large and most connections are idle, so it isn't part of
//! the connection's task: a thread keeps some for each front, each does one job after the other, and none is allocated per
//! request. A runner keeps what a job leaves for the next one, its buffers.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::thread::LocalKey;

const SPARE: usize = 64;

/// Slot in which jobs and their results are handed over.
enum Handover<J, D> {
    Empty,
    In(J),
    Out(D),
}

/// A future that does jobs `J` one after the other, each with the result `D`.
pub(crate) struct Runner<J, D> {
    handover: Rc<Cell<Handover<J, D>>>,
    work: Pin<Box<dyn Future<Output = ()>>>,
}

pub(crate) struct Runners<J, D>(RefCell<Vec<Runner<J, D>>>);

impl<J, D> Runners<J, D> {
    pub(crate) const fn new() -> Self {
        Runners(RefCell::new(Vec::new()))
    }

    /// Ends the runners that are idle now.
    pub(crate) fn trim(&self) {
        drop(self.0.take());
    }
}

impl<J: 'static, D: 'static> Runner<J, D> {
    /// One that is idle, or a new one. It gives each job to `busy`, with what the job before has left.
    pub(crate) fn take<K: Default + 'static>(
        runners: &'static LocalKey<Runners<J, D>>,
        busy: impl AsyncFn(J, K) -> (D, K) + 'static,
    ) -> Self {
        runners.with(|spare| spare.0.borrow_mut().pop()).unwrap_or_else(|| {
            let handover = Rc::new(Cell::new(Handover::Empty));
            Runner { handover: handover.clone(), work: Box::pin(work(handover, busy)) }
        })
    }

    pub(crate) fn begin(&self, job: J) {
        self.handover.set(Handover::In(job));
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<D> {
        let polled = self.work.as_mut().poll(cx);
        assert!(polled.is_pending(), "a runner has no end");
        match self.handover.replace(Handover::Empty) {
            Handover::Out(done) => Poll::Ready(done),
            other @ (Handover::Empty | Handover::In(_)) => {
                self.handover.set(other);
                Poll::Pending
            }
        }
    }

    /// Puts it back among the idle ones, for the next job.
    pub(crate) fn leave(self, runners: &'static LocalKey<Runners<J, D>>) {
        runners.with(|spare| {
            let mut spare = spare.0.borrow_mut();
            if spare.len() < SPARE {
                spare.push(self);
            }
        });
    }
}

/// One job after the other, for ever.
async fn work<J, D, K: Default>(handover: Rc<Cell<Handover<J, D>>>, busy: impl AsyncFn(J, K) -> (D, K)) {
    let mut kept = K::default();
    loop {
        let job = poll_fn(|_| match handover.replace(Handover::Empty) {
            Handover::In(job) => Poll::Ready(job),
            other @ (Handover::Empty | Handover::Out(_)) => {
                handover.set(other);
                Poll::Pending
            }
        })
        .await;
        let done;
        (done, kept) = busy(job, kept).await;
        handover.set(Handover::Out(done));
    }
}

pub(crate) async fn run<J: 'static, K: Default + 'static, D: 'static>(
    runners: &'static LocalKey<Runners<J, D>>,
    busy: impl AsyncFn(J, K) -> (D, K) + 'static,
    job: J,
) -> D {
    let mut runner = Runner::take(runners, busy);
    runner.begin(job);
    let done = poll_fn(|cx| runner.poll(cx)).await;
    runner.leave(runners);
    done
}
