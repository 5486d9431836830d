// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/2 with an origin (RFC 9113): many exchanges share a connection, on the thread that opened it.
//!
//! ```text
//! Http2 (an exchange, one stream) --\
//! Http2                           ----> Connection: codec, streams, what is to be written <---> task: reads, writes, waits
//! Http2                           --/
//! ```
//!
//! An exchange leaves what it has to say with its stream and wakes the connection's task, which alone reads and writes: what
//! several requests of one turn of the thread have to say leaves in one write. What comes of a body waits in its stream, at
//! most a window of it, until its exchange takes it; a slow one holds up nobody else. An idle connection has no buffer.
//!
//! A request is sent again only when the origin can't have looked at it: refused, above the last stream of a GOAWAY, or not
//! written when the connection ended.

mod connection;
mod exchange;
mod local;
mod output;
mod stream;
mod task;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

use connection::Http2Origin;
pub(crate) use exchange::Http2Exchange;
pub(crate) use local::{add, alone, opening, reuse};

/// A connection and all its users, on one thread.
type Shared = Rc<RefCell<Http2Origin>>;
