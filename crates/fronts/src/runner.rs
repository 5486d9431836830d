// SPDX-License-Identifier: BSD-2-Clause
//! What a busy connection runs on. The future of a request is large and most connections are idle, so it isn't part of the
//! connection's task: a thread keeps some for each front, each runs one connection after the other, and none is allocated per
//! request. A runner keeps the buffers, too.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::thread::LocalKey;

use crate::buffers::Buffers;
use crate::conn::Conn;
use crate::session::Outcome;

/// Runners that a thread keeps when nothing runs.
const SPARE: usize = 64;

/// Where connections are handed over.
#[derive(Default)]
enum Handover {
    #[default]
    Empty,
    In(Box<Conn>),
    Out(Box<Conn>, Outcome),
}

struct Runner {
    handover: Rc<Cell<Handover>>,
    work: Pin<Box<dyn Future<Output = ()>>>,
}

/// The idle runners of one front on one thread.
pub(crate) struct Runners(RefCell<Vec<Runner>>);

impl Runners {
    pub(crate) const fn new() -> Self {
        Runners(RefCell::new(Vec::new()))
    }

    /// Those that are idle now end.
    pub(crate) fn trim(&self) {
        drop(self.0.take());
    }
}

/// One connection after the other, for ever.
async fn work(handover: Rc<Cell<Handover>>, busy: impl AsyncFn(Box<Conn>, Buffers) -> (Box<Conn>, Buffers, Outcome)) {
    let mut buffers = Buffers::default();
    loop {
        let conn = poll_fn(|_| match handover.take() {
            Handover::In(conn) => Poll::Ready(conn),
            other => {
                handover.set(other);
                Poll::Pending
            }
        })
        .await;
        let (back, outcome);
        (back, buffers, outcome) = busy(conn, buffers).await;
        handover.set(Handover::Out(back, outcome));
    }
}

/// Has `busy` serve the connection, on a runner of its front's.
pub(crate) async fn run(
    runners: &'static LocalKey<Runners>,
    busy: impl AsyncFn(Box<Conn>, Buffers) -> (Box<Conn>, Buffers, Outcome) + 'static,
    conn: Box<Conn>,
) -> (Box<Conn>, Outcome) {
    let mut runner = runners.with(|spare| spare.0.borrow_mut().pop()).unwrap_or_else(|| {
        let handover = Rc::<Cell<Handover>>::default();
        Runner { handover: handover.clone(), work: Box::pin(work(handover, busy)) }
    });
    runner.handover.set(Handover::In(conn));
    let done = poll_fn(|cx| {
        let polled = runner.work.as_mut().poll(cx);
        assert!(polled.is_pending(), "a runner has no end");
        match runner.handover.take() {
            Handover::Out(conn, outcome) => Poll::Ready((conn, outcome)),
            other => {
                runner.handover.set(other);
                Poll::Pending
            }
        }
    })
    .await;
    runners.with(|spare| {
        let mut spare = spare.0.borrow_mut();
        if spare.len() < SPARE {
            spare.push(runner);
        }
    });
    done
}
