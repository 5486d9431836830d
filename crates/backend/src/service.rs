// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are no server: a module or a test responds in this process.
//!
//! A fetch uses an [`Exchange`] as with any other backend. Bodies stream in both directions, each side waits for the other, and filters,
//! timeouts and counters see no difference. There is no connection: `responder::exchange` makes an exchange that a task on the fetch's
//! thread answers.

use std::fmt;
use std::sync::Arc;

use crate::Exchange;

pub trait Service: Send + Sync {
    /// Begins an exchange on this thread: one request and its response. Must not block.
    fn exchange(&self) -> Box<dyn Exchange>;
}

/// A service, identified by its address in memory.
#[derive(Clone)]
pub struct ServiceRef(pub Arc<dyn Service>);

impl PartialEq for ServiceRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceRef")
    }
}
