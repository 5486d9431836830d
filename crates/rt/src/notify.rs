// SPDX-License-Identifier: BSD-2-Clause
//! Wakes one task from any thread.

use std::sync::Arc;
use std::task::{Wake, Waker};

/// Notified as a [`Waker`], from anywhere; one task waits for it. A notification before the wait is kept.
#[derive(Debug, Default)]
pub struct Notify(tokio::sync::Notify);

impl Notify {
    pub fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    pub async fn notified(&self) {
        self.0.notified().await;
    }
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_heard() {
        let bell = Arc::new(Notify::default());
        bell.waker().wake();
        crate::run(async move { bell.notified().await }).unwrap();
    }
}
