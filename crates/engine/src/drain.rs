// SPDX-License-Identifier: BSD-2-Clause
//! How far this worker is on its way out, and the tasks to be woken and clients to be informed when it takes no new requests on its
//! connections.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering::Relaxed};
use std::task::Waker;

use base::lock::Mutex;

const SERVES: u8 = 0;
/// The node is to be without requests: it serves them, and each response ends its HTTP/1 connection.
const LEAVES: u8 = 1;
const DRAINS: u8 = 2;

/// Tasks that wait for a drain, and counts of clients that haven't been informed.
#[derive(Debug, Default)]
pub struct DrainWatch {
    stage: AtomicU8,
    wakers: Mutex<Vec<Waker>>,
    /// HTTP/2 connections whose clients haven't been informed.
    pub http2_untold: AtomicI64,
    /// QUIC endpoints with clients that haven't been informed of the end. No kernel does that for them.
    pub quic_untold: AtomicI64,
    /// The process ends now, whatever is under way.
    pub is_over: AtomicBool,
}

impl DrainWatch {
    /// Wakes a task once a drain begins. It looks at [`DrainWatch::has_begun`] after this.
    pub fn add(&self, waker: Waker) {
        self.wakers.lock().push(waker);
    }

    /// True if the worker is to end: no new request on old connections.
    pub fn has_begun(&self) -> bool {
        self.stage.load(Relaxed) == DRAINS
    }

    /// True if a response is the last one on its connection.
    pub fn ends_connections(&self) -> bool {
        self.stage.load(Relaxed) != SERVES
    }

    /// True if the node is to be without requests, though its worker may go on.
    pub fn is_leaving(&self) -> bool {
        self.stage.load(Relaxed) == LEAVES
    }

    /// Has this node go out of service, or come back. A worker that ends doesn't come back.
    pub fn set_leaving(&self, leaves: bool) {
        let (from, to) = if leaves { (SERVES, LEAVES) } else { (LEAVES, SERVES) };
        let _ = self.stage.compare_exchange(from, to, Relaxed, Relaxed);
    }

    pub fn begin(&self) {
        self.stage.store(DRAINS, Relaxed);
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}
