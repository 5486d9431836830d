// SPDX-License-Identifier: BSD-2-Clause
//! What a busy connection runs on. The future of a request is large and most connections are idle, so it isn't part of the
//! connection's task: a thread keeps some, each runs one connection after the other, and none is allocated per request.
//! A runner keeps the buffers, too.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use super::transport::H1;
use super::{Turn, busy};
use crate::buffers::Buffers;
use crate::conn::Conn;

/// Runners that a thread keeps when nothing runs.
const SPARE: usize = 64;

/// Where connections are handed over.
#[derive(Default)]
enum Place {
    #[default]
    Empty,
    In(Box<Conn>),
    Out(Box<Conn>, Turn),
}

struct Runner {
    place: Rc<Cell<Place>>,
    work: Pin<Box<dyn Future<Output = ()>>>,
}

thread_local! {
    static RUNNERS: RefCell<Vec<Runner>> = const { RefCell::new(Vec::new()) };
}

impl Runner {
    fn new() -> Self {
        let place = Rc::new(Cell::new(Place::Empty));
        Runner { place: place.clone(), work: Box::pin(work(place)) }
    }
}

/// One connection after the other, for ever.
async fn work(place: Rc<Cell<Place>>) {
    let mut buffers = Buffers::default();
    loop {
        let conn = poll_fn(|_| match place.take() {
            Place::In(conn) => Poll::Ready(conn),
            other => {
                place.set(other);
                Poll::Pending
            }
        })
        .await;
        let mut h1 = H1::new(conn, buffers);
        let turn = busy(&mut h1).await;
        let conn;
        (conn, buffers) = h1.into_parts();
        place.set(Place::Out(conn, turn));
    }
}

/// Serves the connection until it is idle or at its end.
pub(super) async fn run(conn: Box<Conn>) -> (Box<Conn>, Turn) {
    let mut runner = RUNNERS.with(|spare| spare.borrow_mut().pop()).unwrap_or_else(Runner::new);
    runner.place.set(Place::In(conn));
    let done = poll_fn(|cx| {
        let polled = runner.work.as_mut().poll(cx);
        assert!(polled.is_pending(), "a runner has no end");
        match runner.place.take() {
            Place::Out(conn, turn) => Poll::Ready((conn, turn)),
            other => {
                runner.place.set(other);
                Poll::Pending
            }
        }
    })
    .await;
    RUNNERS.with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(runner);
        }
    });
    done
}
