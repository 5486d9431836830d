// SPDX-License-Identifier: BSD-2-Clause
//! Waiting for entries to last, without a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::task::{Context, Poll};

use super::{Journal, JournalTicket};

/// Entries that don't last yet; ends once they do, or once it is known that they can't: why not. May be dropped.
#[derive(Debug)]
#[must_use = "nobody may be told of what isn't kept"]
pub struct Unkept {
    journal: Arc<Journal>,
    ticket: JournalTicket,
    waiter: Option<u64>,
}

impl Journal {
    /// The entries appended so far, if they don't last yet.
    pub fn unkept(self: &Arc<Journal>) -> Option<Unkept> {
        let ticket = self.newest();
        if self.is_stable(ticket) {
            return None;
        }
        self.thread.ask();
        Some(Unkept { journal: self.clone(), ticket, waiter: None })
    }
}

impl Unkept {
    fn result(&self) -> Poll<Result<(), String>> {
        let journal = &self.journal;
        if journal.is_stable(self.ticket) {
            return Poll::Ready(Ok(()));
        }
        if journal.refused.load(Acquire) >= self.ticket.0 {
            return Poll::Ready(Err(journal.failure().map(|failure| failure.reason).unwrap_or_default()));
        }
        Poll::Pending
    }
}

impl Future for Unkept {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waiter = {
            let mut queue = self.journal.queue.lock();
            let waiter = self.waiter.unwrap_or(queue.next_waiter);
            queue.next_waiter = queue.next_waiter.max(waiter + 1);
            queue.waiting.insert(waiter, cx.waker().clone());
            waiter
        };
        self.waiter = Some(waiter);
        // Who has written meanwhile may not have seen this one.
        self.result()
    }
}

impl Drop for Unkept {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.journal.queue.lock().waiting.remove(&waiter);
        }
    }
}
