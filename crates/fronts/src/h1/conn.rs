// SPDX-License-Identifier: BSD-2-Clause
//! A connection between its requests: all that an idle one holds, and its end.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use engine::Sess;
use net::Stream;
use rt::Instant;

/// Why a connection without a stream isn't asked for one.
pub(crate) const AFTER_PIPE: &str = "nothing is read or written after a pipe";

/// A connection.
pub(crate) struct Conn {
    /// There is one until `pipe` takes it.
    pub(crate) stream: Option<Stream>,
    pub(crate) sess: Rc<Sess>,
    /// What was read; without memory while it is idle.
    pub(crate) input: Vec<u8>,
    /// Since when it waits for a request.
    pub(crate) idle_since: Instant,
}

/// What a connection's end has to heed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parting {
    /// The client may still be sending something that nobody will read.
    pub(crate) is_sending: bool,
    /// Something was read that nobody wants.
    pub(crate) has_input: bool,
    /// The client is to get a reset instead of an end.
    pub(crate) is_reset: bool,
}

impl Conn {
    pub(crate) fn new(stream: Stream, sess: Rc<Sess>) -> Self {
        Conn { stream: Some(stream), sess, input: Vec::new(), idle_since: Instant::now() }
    }

    pub(crate) fn stream(&self) -> &Stream {
        self.stream.as_ref().expect(AFTER_PIPE)
    }

    /// Until when it may stay idle.
    pub(crate) fn idle_deadline(&self) -> Instant {
        self.idle_since + self.sess.timeouts.get().idle
    }

    /// The connection ends. Unread input would make the system reset it before the client has read the answer: it is
    /// read, and `true` asks to go on with [`Conn::linger`].
    pub(crate) fn finish(&mut self, parting: Parting) -> bool {
        const MOST: usize = 64 * 1024;
        self.input = Vec::new();
        let Some(stream) = self.stream.as_ref().filter(|_| !parting.is_reset) else { return false };
        let mut is_shut = parting.is_sending || parting.has_input;
        if is_shut {
            stream.shutdown_write();
        }
        let mut waste = [0; 4096];
        let mut seen = 0;
        while seen < MOST {
            match stream.try_read(&mut waste) {
                Ok(0) => return false,
                Ok(n) => seen += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return parting.is_sending && error.kind() == ErrorKind::WouldBlock,
            }
            if !is_shut {
                stream.shutdown_write();
                is_shut = true;
            }
        }
        parting.is_sending
    }

    /// Reads on for a moment, while the client sends what nobody wants.
    pub(crate) async fn linger(&self) {
        const MOST: usize = 8 << 20;
        const LINGER: Duration = Duration::from_secs(2);
        let Some(stream) = &self.stream else { return };
        let until = Instant::now() + LINGER;
        let mut waste = vec![0; 4096];
        let mut seen = 0;
        while seen < MOST {
            match stream.try_read(&mut waste) {
                Ok(0) => return,
                Ok(n) => seen += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !matches!(rt::timeout_at(until, stream.readable()).await, Ok(Ok(()))) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}
