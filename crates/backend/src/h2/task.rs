// SPDX-License-Identifier: BSD-2-Clause
//! The task that moves a connection's bytes, from its beginning to its end.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::task::{Context, Poll};

use http2::Http2Scratch;
use net::IdleState;
use rt::Deadline;

use super::{Shared, connection};
use crate::BackendEnv;
use crate::buffers;

const READ_BYTES: usize = 64 * 1024;
const READS: usize = 8;

thread_local! {
    static SCRATCH: RefCell<Http2Scratch> = RefCell::default();
}

/// Ends its connection when the task ends, for whatever reason.
struct Owner(Shared);

impl Drop for Owner {
    fn drop(&mut self) {
        // A panic may have left it borrowed.
        if let Ok(mut connection) = self.0.try_borrow_mut() {
            connection.is_cut();
        }
        super::local::remove(&self.0);
    }
}

pub(super) fn run(shared: Shared, env: BackendEnv) -> impl Future<Output = ()> {
    let owner = Owner(shared);
    let mut idle = None;
    poll_fn(move |cx| {
        let _contained = base::critical::contain();
        let connection = &mut *owner.0.borrow_mut();
        connection.await_work(cx.waker());
        let reads_on = read(connection, cx);
        write(connection, cx);
        if connection.is_finished() && !connection.is_last() {
            connection.say_goodbye();
            write(connection, cx);
        }
        if connection.is_over() || (connection.is_last() && !connection.has_output()) {
            return Poll::Ready(());
        }
        if reads_on {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !connection.is_unused() {
            idle = None;
            return Poll::Pending;
        }
        connection.rest();
        let idle = idle.get_or_insert_with(|| Deadline::after(connection::idle_limit(&env.services.params())));
        if idle.as_mut().is_some_and(|idle| idle.poll(cx).is_ready()) {
            // A connection that can't even send this in time is useless.
            connection.say_goodbye();
            write(connection, cx);
            return Poll::Ready(());
        }
        Poll::Pending
    })
}

/// Reads the available bytes. Returns whether there may be more.
fn read(connection: &mut connection::Http2Origin, cx: &mut Context<'_>) -> bool {
    let mut input = Vec::new();
    let mut more = true;
    for _ in 0..READS {
        input.clear();
        let prepare = |buffer: &mut Vec<u8>| {
            if buffer.capacity() == 0 {
                *buffer = buffers::take();
            }
            buffer.reserve(READ_BYTES);
        };
        match connection.net.poll_read_more(cx, &mut input, prepare, &mut None) {
            Poll::Ready(Ok(1..)) => SCRATCH.with(|scratch| connection.receive(&input, &mut scratch.borrow_mut())),
            Poll::Ready(Ok(0) | Err(_)) => {
                connection.is_cut();
                more = false;
                break;
            }
            Poll::Pending => {
                more = false;
                break;
            }
        }
    }
    buffers::leave(input);
    more
}

fn write(connection: &mut connection::Http2Origin, cx: &mut Context<'_>) {
    while !connection.is_over() {
        if connection.output.is_empty() {
            if std::mem::take(&mut connection.is_doubtful) {
                // The runtime may not know of it yet. A request that isn't written can be sent elsewhere.
                match connection.net.pending() {
                    IdleState::Nothing => {}
                    IdleState::Data => return cx.waker().wake_by_ref(),
                    IdleState::Closed => return connection.is_cut(),
                }
            }
            connection.gather();
            if connection.output.is_empty() {
                return;
            }
        }
        let connection::Http2Origin { net, output, .. } = connection;
        match output.write(|slices| net.try_write_vectored(slices)) {
            Ok(0) => return connection.is_cut(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => match connection.net.poll_writable(cx) {
                Poll::Ready(Ok(())) => {}
                // Bytes that the origin sent before it closed were read.
                Poll::Ready(Err(_)) => return connection.is_cut(),
                Poll::Pending => return,
            },
            Err(_) => return connection.is_cut(),
        }
    }
}
