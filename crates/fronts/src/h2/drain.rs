// SPDX-License-Identifier: BSD-2-Clause
//! A drain is told to all connections at once, also to those that sleep: each thread has a list of its own, and a task that wakes them.
//!
//! GOAWAY first says that no new streams are taken, and names none: what is on its way is still served (RFC 9113 6.8). Once the client has answered
//! a PING, or [`PATIENCE`] is over, a second one names the last stream, and the connection ends with its streams.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use engine::Engine;

use super::Mux;

/// Time that a client has for its answer to the PING.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Connections {
    all: Vec<Weak<Mux>>,
    free: Vec<usize>,
    is_watched: bool,
}

thread_local! {
    static CONNECTIONS: RefCell<Connections> = RefCell::default();
}

pub(super) fn enter(mux: &Rc<Mux>) {
    let engine = &mux.sess.engine;
    engine.sessions.drain.http2_untold.fetch_add(1, Ordering::Relaxed);
    let is_watched = CONNECTIONS.with_borrow_mut(|connections| {
        let weak = Rc::downgrade(mux);
        let slot = match connections.free.pop() {
            Some(slot) => {
                connections.all[slot] = weak;
                slot
            }
            None => {
                connections.all.push(weak);
                connections.all.len() - 1
            }
        };
        mux.slot.set(slot);
        std::mem::replace(&mut connections.is_watched, true)
    });
    if !is_watched {
        watch(engine.clone());
    }
}

pub(super) fn leave(slot: usize) {
    // A thread that is ending has no list any more.
    let _ = CONNECTIONS.try_with(|connections| {
        let connections = &mut *connections.borrow_mut();
        connections.all[slot] = Weak::new();
        connections.free.push(slot);
    });
}

/// The task that waits for a drain on behalf of this thread's connections.
struct Watching;

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = CONNECTIONS.try_with(|connections| connections.borrow_mut().is_watched = false);
    }
}

fn watch(engine: Arc<Engine>) {
    drop(rt::spawn(async move {
        let _watching = Watching;
        let mut is_known = false;
        poll_fn(|cx| {
            if !std::mem::replace(&mut is_known, true) {
                engine.sessions.drain.add(cx.waker().clone());
            }
            if engine.sessions.drain.has_begun() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        wake_all();
    }));
}

fn wake_all() {
    let all = CONNECTIONS.with_borrow(|connections| connections.all.clone());
    all.iter().filter_map(Weak::upgrade).for_each(|mux| mux.with(|state| state.notify()));
}
