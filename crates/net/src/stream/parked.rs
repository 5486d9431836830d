// SPDX-License-Identifier: BSD-2-Clause
//! Streams in a pool.

use std::io;

use super::{IdleState, Stream};

/// A connected stream in a pool. It stays registered with the runtime it came from: the thread that gave it mostly takes it
/// again, and then nothing has to be done.
#[derive(Debug)]
pub struct ParkedStream {
    pub(super) stream: Stream,
    pub(super) home: u64,
    /// Turn of its runtime in which it was put aside.
    pub(super) turn: u64,
}

impl ParkedStream {
    /// Takes it back, registered with this thread's runtime.
    ///
    /// # Errors
    /// The descriptor can't be registered; it is closed then.
    pub fn unpark(self) -> io::Result<Stream> {
        if self.home == rt::home() { Ok(self.stream) } else { self.stream.move_here() }
    }

    /// The state of waiting input, without reading it.
    pub fn pending(&self) -> IdleState {
        self.stream.pending()
    }

    /// True if it is registered with the runtime of the thread whose [`rt::home`] that is.
    pub fn is_home(&self, home: u64) -> bool {
        self.home == home
    }

    /// The same as [`ParkedStream::pending`] without a system call, where this thread's runtime watches the stream and has asked for events since it was
    /// put aside: as far as it has heard then. What a peer sends unasked behind an answer would otherwise be the next one's answer.
    pub fn heard(&self) -> IdleState {
        let has_asked = self.home == rt::home() && self.turn != rt::park_count();
        if has_asked { self.stream.heard() } else { self.pending() }
    }
}
