// SPDX-License-Identifier: BSD-2-Clause
//! Wakes one task from any thread.

use std::sync::Arc;
use std::task::{Wake, Waker};

use tokio::sync::Notify;

/// Rung as a [`Waker`], from anywhere; heard by the one task that waits for it. A ring before the wait is kept.
#[derive(Debug, Default)]
pub struct Bell(Notify);

impl Bell {
    /// A waker that rings it.
    pub fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    /// Waits until it is rung.
    pub async fn rung(&self) {
        self.0.notified().await;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_heard() {
        let bell = Arc::new(Bell::default());
        bell.waker().wake();
        crate::run(async move { bell.rung().await }).unwrap();
    }
}
