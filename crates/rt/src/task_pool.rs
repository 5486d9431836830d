// SPDX-License-Identifier: BSD-2-Clause
//! Tasks for work whose future is large: a task stays when its job is over and waits for the next one, so that no future is allocated, moved
//! and freed for each.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread::LocalKey;

/// Tasks that a thread keeps while they have nothing to do.
const SPARE: usize = 64;

/// The place in which a waiting task finds its next job.
struct JobPlace<J> {
    job: Cell<Option<J>>,
    waker: Cell<Option<Waker>>,
}

/// The idle tasks of a thread for one kind of job.
pub struct TaskPool<J>(RefCell<Vec<Rc<JobPlace<J>>>>);

impl<J: 'static> TaskPool<J> {
    pub const fn new() -> Self {
        TaskPool(RefCell::new(Vec::new()))
    }

    /// Has `work` do the job in a task of this thread: one that is idle, or a new one. All who use a pool give it the same `work`.
    pub fn run(pool: &'static LocalKey<Self>, work: impl AsyncFn(J) + 'static, job: J) {
        match pool.with(|pool| pool.0.borrow_mut().pop()) {
            Some(place) => {
                place.job.set(Some(job));
                place.waker.take().into_iter().for_each(Waker::wake);
            }
            None => {
                let place = Rc::new(JobPlace { job: Cell::new(Some(job)), waker: Cell::new(None) });
                crate::spawn(serve(Member { pool, place }, work));
            }
        }
    }
}

impl<J: 'static> Default for TaskPool<J> {
    fn default() -> Self {
        Self::new()
    }
}

/// A task of the pool. One that ends with its runtime mustn't be found by the thread's next one.
struct Member<J: 'static> {
    pool: &'static LocalKey<TaskPool<J>>,
    place: Rc<JobPlace<J>>,
}

impl<J: 'static> Drop for Member<J> {
    fn drop(&mut self) {
        // With the thread its pool goes, too.
        let _ = self.pool.try_with(|pool| pool.0.borrow_mut().retain(|place| !Rc::ptr_eq(place, &self.place)));
    }
}

async fn serve<J: 'static>(member: Member<J>, work: impl AsyncFn(J)) {
    loop {
        let job = poll_fn(|cx| match member.place.job.take() {
            Some(job) => Poll::Ready(job),
            None => {
                member.place.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        work(job).await;
        let stays = member.pool.with(|pool| {
            let mut idle = pool.0.borrow_mut();
            let stays = idle.len() < SPARE;
            if stays {
                idle.push(member.place.clone());
            }
            stays
        });
        if !stays {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Job = (u32, Rc<Cell<u32>>);

    thread_local! {
        static POOL: TaskPool<Job> = const { TaskPool::new() };
    }

    async fn add((number, sum): Job) {
        crate::give_way().await;
        sum.set(sum.get() + number);
    }

    fn idle() -> usize {
        POOL.with(|pool| pool.0.borrow().len())
    }

    #[test]
    fn tasks_stay_for_the_next_job_and_end_with_their_runtime() {
        for _ in 0..2 {
            let sum = Rc::new(Cell::new(0));
            crate::run(async {
                for round in 1..=3 {
                    (0..100).for_each(|number| TaskPool::run(&POOL, add, (number, sum.clone())));
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
}
