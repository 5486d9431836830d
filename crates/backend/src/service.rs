// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are no server: what a module answers out of this process.
//!
//! A fetch reaches one as it reaches any other, by a connection on which HTTP/1.1 is spoken, so that bodies stream both
//! ways, each side waits for the other, and filters, timeouts and counters see no difference. The other end is a task of the
//! fetch's thread.

use std::fmt;
use std::sync::Arc;

use net::Stream;

/// Answers requests.
pub trait Service: Send + Sync {
    /// Takes the other end of a new connection, on this thread: reads one request, answers, and closes. Must not block.
    fn accept(&self, stream: Stream);
}

/// A service, known by its place in memory.
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
