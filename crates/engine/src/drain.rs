// SPDX-License-Identifier: BSD-2-Clause
//! The tasks to be woken, and the clients to be informed, when this worker takes no new requests on its connections.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::task::Waker;

use base::lock::Mutex;

/// Tasks that wait for a drain, and counts of clients that haven't been informed.
#[derive(Debug, Default)]
pub struct DrainWatch {
    has_begun: AtomicBool,
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
        self.has_begun.load(Relaxed)
    }

    pub fn begin(&self) {
        self.has_begun.store(true, Relaxed);
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}
