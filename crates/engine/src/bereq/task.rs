// SPDX-License-Identifier: BSD-2-Clause
//! The tasks that fetches run in. A task's future is large: it stays when its fetch is over and waits for the next one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::Bereq;

/// Tasks that a thread keeps when it fetches nothing.
const SPARE: usize = 64;

/// Where a waiting task finds its next fetch.
#[derive(Default)]
struct FetchSlot {
    job: Cell<Option<Box<Bereq>>>,
    waker: Cell<Option<Waker>>,
}

thread_local! {
    static IDLE: RefCell<Vec<Rc<FetchSlot>>> = const { RefCell::new(Vec::new()) };
}

/// Runs the fetch as a task of this thread.
pub(super) fn run(bereq: Box<Bereq>) {
    match IDLE.with(|idle| idle.borrow_mut().pop()) {
        Some(place) => {
            place.job.set(Some(bereq));
            place.waker.take().into_iter().for_each(Waker::wake);
        }
        None => {
            let place = Rc::<FetchSlot>::default();
            place.job.set(Some(bereq));
            rt::spawn(work(place));
        }
    }
}

/// A task that ends with its runtime must not be found by the thread's next one.
struct Membership(Rc<FetchSlot>);

impl Drop for Membership {
    fn drop(&mut self) {
        // With the thread its list goes, too.
        let _ = IDLE.try_with(|idle| idle.borrow_mut().retain(|place| !Rc::ptr_eq(place, &self.0)));
    }
}

/// One fetch after the other.
async fn work(place: Rc<FetchSlot>) {
    let member = Membership(place);
    loop {
        let bereq = poll_fn(|cx| match member.0.job.take() {
            Some(bereq) => Poll::Ready(bereq),
            None => {
                member.0.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        crate::contain::fetch(bereq).await;
        let stays = IDLE.with(|idle| {
            let mut idle = idle.borrow_mut();
            let stays = idle.len() < SPARE;
            if stays {
                idle.push(member.0.clone());
            }
            stays
        });
        if !stays {
            return;
        }
    }
}
