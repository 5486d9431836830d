// SPDX-License-Identifier: BSD-2-Clause
//! Interim responses (RFC 9110 15.2) on their way from a fetch to the client that waits for it; both are on one thread.
//!
//! They are for who asked, at the moment of asking: never stored, and not for those who wait for the same object.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use message::hop::{self, Filter};
use message::{Head, names};

/// A client gets at most so many of them for one request.
const MOST: usize = 16;

/// The way; its clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Interims(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Head>,
    passed: usize,
    client: Option<Waker>,
}

impl Interims {
    /// A backend sent one; whether it goes on.
    pub fn put(&self, interim: &Head) -> bool {
        // Whoever expected a 100 got one from us when somebody began to read the request's body.
        if interim.status() <= 101 || self.0.borrow().passed == MOST {
            return false;
        }
        let mut head = Head::with_limits(interim.limits());
        head.copy_from(interim);
        if hop::connection(&mut head).is_err() || head.set_proto("HTTP/1.1").is_err() {
            return false;
        }
        head.retain(|field| Filter::PassResponse.keeps(field) && !field.is(names::CONTENT_LENGTH));
        let mut inner = self.0.borrow_mut();
        inner.passed += 1;
        inner.waiting.push_back(head);
        inner.client.take().into_iter().for_each(Waker::wake);
        true
    }

    /// The next one, if it is there.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Head> {
        let mut inner = self.0.borrow_mut();
        match inner.waiting.pop_front() {
            Some(head) => Poll::Ready(head),
            None => {
                inner.client = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
